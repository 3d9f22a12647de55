/* SPDX-License-Identifier: MIT
 *
 * What differs between oneDNN 2.6 and 3 in the few functions that blas_dnnl.c needs. A layout is the memory
 * descriptor of a matrix, or of a batch of them: a struct in version 2, a handle in version 3.
 */
#ifndef SOFTGPU_BLAS_DNNL_VERSION_H
#define SOFTGPU_BLAS_DNNL_VERSION_H

#include <oneapi/dnnl/dnnl.h>

typedef dnnl_memory_desc_t dnnl_layout;

#if DNNL_VERSION_MAJOR >= 3

static inline dnnl_status_t dnnl_layout_create(dnnl_layout *layout, int axes, const dnnl_dims_t dims, dnnl_data_type_t type,
                                               const dnnl_dims_t strides)
{
    return dnnl_memory_desc_create_with_strides(layout, axes, dims, type, strides);
}

static inline void dnnl_layout_destroy(dnnl_layout *layout)
{
    if (*layout)
        dnnl_memory_desc_destroy(*layout);
}

static inline dnnl_status_t dnnl_layout_memory(dnnl_memory_t *memory, const dnnl_layout *layout, dnnl_engine_t engine)
{
    return dnnl_memory_create(memory, *layout, engine, DNNL_MEMORY_NONE);
}

static inline dnnl_status_t dnnl_describe_matmul(dnnl_primitive_desc_t *description, dnnl_engine_t engine,
                                                 const dnnl_layout *source, const dnnl_layout *weights,
                                                 const dnnl_layout *destination, const_dnnl_primitive_attr_t attributes)
{
    return dnnl_matmul_primitive_desc_create(description, engine, *source, *weights, NULL, *destination, attributes);
}

static inline dnnl_status_t dnnl_append_factor(dnnl_post_ops_t operations, float factor)
{
    return dnnl_post_ops_append_eltwise(operations, dnnl_eltwise_linear, factor, 0);
}

static inline dnnl_status_t dnnl_append_sum(dnnl_post_ops_t operations, float factor)
{
    return dnnl_post_ops_append_sum(operations, factor, 0, dnnl_data_type_undef);
}

#else

static inline dnnl_status_t dnnl_layout_create(dnnl_layout *layout, int axes, const dnnl_dims_t dims, dnnl_data_type_t type,
                                               const dnnl_dims_t strides)
{
    return dnnl_memory_desc_init_by_strides(layout, axes, dims, type, strides);
}

static inline void dnnl_layout_destroy(dnnl_layout *layout) { (void)layout; }

static inline dnnl_status_t dnnl_layout_memory(dnnl_memory_t *memory, const dnnl_layout *layout, dnnl_engine_t engine)
{
    return dnnl_memory_create(memory, layout, engine, DNNL_MEMORY_NONE);
}

static inline dnnl_status_t dnnl_describe_matmul(dnnl_primitive_desc_t *description, dnnl_engine_t engine,
                                                 const dnnl_layout *source, const dnnl_layout *weights,
                                                 const dnnl_layout *destination, const_dnnl_primitive_attr_t attributes)
{
    dnnl_matmul_desc_t operation;
    dnnl_status_t status = dnnl_matmul_desc_init(&operation, source, weights, NULL, destination);
    return status ? status : dnnl_primitive_desc_create(description, &operation, attributes, engine, NULL);
}

static inline dnnl_status_t dnnl_append_factor(dnnl_post_ops_t operations, float factor)
{
    return dnnl_post_ops_append_eltwise(operations, 1.0f, dnnl_eltwise_linear, factor, 0);
}

static inline dnnl_status_t dnnl_append_sum(dnnl_post_ops_t operations, float factor)
{
    return dnnl_post_ops_append_sum(operations, factor);
}

#endif
#endif
