/* SPDX-License-Identifier: MIT
 *
 * What differs between oneDNN 2.6 and 3 in the functions that dnn_dnnl.c needs, beyond blas_dnnl_version.h.
 */
#ifndef SOFTGPU_DNN_DNNL_VERSION_H
#define SOFTGPU_DNN_DNNL_VERSION_H

#include "blas_dnnl_version.h"

/* A convolution's geometry and the layouts of x, filter and y. */
struct dnnl_convolution {
    dnnl_layout x, filter, y;
    dnnl_dims_t strides, padding;
};

#if DNNL_VERSION_MAJOR >= 3

typedef const_dnnl_memory_desc_t dnnl_layout_view;

static inline dnnl_layout_view dnnl_layout_look(const dnnl_layout *layout)
{
    return *layout;
}

static inline dnnl_status_t dnnl_layout_tagged(dnnl_layout *layout, const dnnl_dims_t dims, dnnl_data_type_t type,
                                               dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(layout, 4, dims, type, tag);
}

static inline dnnl_status_t dnnl_describe_forward(dnnl_primitive_desc_t *description, dnnl_engine_t engine,
                                                  const struct dnnl_convolution *c)
{
    return dnnl_convolution_forward_primitive_desc_create(description, engine, dnnl_forward_training,
                                                          dnnl_convolution_direct, c->x, c->filter, NULL, c->y,
                                                          c->strides, NULL, c->padding, c->padding, NULL);
}

static inline dnnl_status_t dnnl_describe_data(dnnl_primitive_desc_t *description, dnnl_engine_t engine,
                                               const struct dnnl_convolution *c, const_dnnl_primitive_desc_t forward)
{
    return dnnl_convolution_backward_data_primitive_desc_create(description, engine, dnnl_convolution_direct, c->x,
                                                                c->filter, c->y, c->strides, NULL, c->padding,
                                                                c->padding, forward, NULL);
}

static inline dnnl_status_t dnnl_describe_filter(dnnl_primitive_desc_t *description, dnnl_engine_t engine,
                                                 const struct dnnl_convolution *c, const_dnnl_primitive_desc_t forward)
{
    return dnnl_convolution_backward_weights_primitive_desc_create(
        description, engine, dnnl_convolution_direct, c->x, c->filter, NULL, c->y, c->strides, NULL, c->padding,
        c->padding, forward, NULL);
}

static inline dnnl_status_t dnnl_view_memory(dnnl_memory_t *memory, dnnl_layout_view view, dnnl_engine_t engine)
{
    return dnnl_memory_create(memory, view, engine, DNNL_MEMORY_NONE);
}

#else

typedef const dnnl_memory_desc_t *dnnl_layout_view;

static inline dnnl_layout_view dnnl_layout_look(const dnnl_layout *layout)
{
    return layout;
}

static inline dnnl_status_t dnnl_layout_tagged(dnnl_layout *layout, const dnnl_dims_t dims, dnnl_data_type_t type,
                                               dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(layout, 4, dims, type, tag);
}

static inline dnnl_status_t dnnl_describe_forward(dnnl_primitive_desc_t *description, dnnl_engine_t engine,
                                                  const struct dnnl_convolution *c)
{
    dnnl_convolution_desc_t operation;
    dnnl_status_t status = dnnl_convolution_forward_desc_init(&operation, dnnl_forward_training, dnnl_convolution_direct,
                                                              &c->x, &c->filter, NULL, &c->y, c->strides, c->padding,
                                                              c->padding);
    return status ? status : dnnl_primitive_desc_create(description, &operation, NULL, engine, NULL);
}

static inline dnnl_status_t dnnl_describe_data(dnnl_primitive_desc_t *description, dnnl_engine_t engine,
                                               const struct dnnl_convolution *c, const_dnnl_primitive_desc_t forward)
{
    dnnl_convolution_desc_t operation;
    dnnl_status_t status = dnnl_convolution_backward_data_desc_init(&operation, dnnl_convolution_direct, &c->x,
                                                                    &c->filter, &c->y, c->strides, c->padding,
                                                                    c->padding);
    return status ? status : dnnl_primitive_desc_create(description, &operation, NULL, engine, forward);
}

static inline dnnl_status_t dnnl_describe_filter(dnnl_primitive_desc_t *description, dnnl_engine_t engine,
                                                 const struct dnnl_convolution *c, const_dnnl_primitive_desc_t forward)
{
    dnnl_convolution_desc_t operation;
    dnnl_status_t status = dnnl_convolution_backward_weights_desc_init(&operation, dnnl_convolution_direct, &c->x,
                                                                       &c->filter, NULL, &c->y, c->strides, c->padding,
                                                                       c->padding);
    return status ? status : dnnl_primitive_desc_create(description, &operation, NULL, engine, forward);
}

static inline dnnl_status_t dnnl_view_memory(dnnl_memory_t *memory, dnnl_layout_view view, dnnl_engine_t engine)
{
    return dnnl_memory_create(memory, view, engine, DNNL_MEMORY_NONE);
}

#endif
#endif
