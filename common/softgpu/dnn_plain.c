/* SPDX-License-Identifier: MIT
 *
 * Convolutions without a library: image by image, the windows are laid out as rows (im2col), and the rest is a product
 * in blas_plain.c's loops. Also of the types that oneDNN can't do on this processor, converted to fp32 and back.
 *
 *     patches [out_h out_w][r s c]   filter [k][r s c]   y [out_h out_w][k]
 *     y = patches filter^T           d patches = dy filter   d filter += dy^T patches
 */
#include "dnn.h"

#include <stdlib.h>

#include "blas.h"
#include "dnn_types.h"

/* Room for one image, in fp32. */
struct scratch {
    float *x, *filter, *y, *patches;
};

static size_t pixels(const struct dnn_convolution *p)
{
    return (size_t)p->out_h * (size_t)p->out_w;
}

static size_t window(const struct dnn_convolution *p)
{
    return (size_t)p->r * (size_t)p->s * (size_t)p->c;
}

/* Runs over the windows' pieces of c values: from the image to patches, or adds them from there. Outside is 0. */
static void lay_out(const struct dnn_convolution *p, float *image, float *patches, bool add_back)
{
    const size_t c = (size_t)p->c;
    for (int oh = 0; oh < p->out_h; oh++)
        for (int ow = 0; ow < p->out_w; ow++)
            for (int r = 0; r < p->r; r++)
                for (int s = 0; s < p->s; s++, patches += c) {
                    const int h = oh * p->stride_h - p->pad_h + r, w = ow * p->stride_w - p->pad_w + s;
                    const bool inside = h >= 0 && h < p->h && w >= 0 && w < p->w;
                    float *pixel = inside ? image + ((size_t)h * (size_t)p->w + (size_t)w) * c : NULL;
                    for (size_t i = 0; i < c; i++) {
                        if (add_back && inside)
                            pixel[i] += patches[i];
                        else if (!add_back)
                            patches[i] = inside ? pixel[i] : 0;
                    }
                }
}

/* Row-major C [rows][columns] = op(A) op(B) + beta C: its transpose in column-major. */
static void multiply(float *c, const float *a, bool turn_a, const float *b, bool turn_b, size_t rows, size_t columns,
                     size_t k, float beta)
{
    const struct blas_product product = {
        .a = b, .b = a, .c = c, .m = (int)columns, .n = (int)rows, .k = (int)k,
        .lda = (int)(turn_b ? k : columns), .ldb = (int)(turn_a ? rows : k), .ldc = (int)columns,
        .transpose_a = turn_b, .transpose_b = turn_a, .type_ab = SOFT_R_32F, .type_c = SOFT_R_32F, .alpha = 1, .beta = beta,
        .batch = 1};
    (void)blas_plain.run(&product);
}

static void run_image(const struct dnn_convolution *p, const struct scratch *f, int image)
{
    const size_t size = dnn_type_size(p->type), k = (size_t)p->k;
    const size_t x_count = dnn_x_count(p) / (size_t)p->n, y_count = pixels(p) * k;
    char *x = (char *)p->x + x_count * (size_t)image * size, *y = (char *)p->y + y_count * (size_t)image * size;
    if (p->pass == DNN_BACKWARD_DATA) {
        dnn_to_floats(f->y, y, p->type, y_count);
        multiply(f->patches, f->y, false, f->filter, false, pixels(p), window(p), k, 0);
        memset(f->x, 0, x_count * sizeof(float));
        lay_out(p, f->x, f->patches, true);
        dnn_from_floats(x, f->x, p->type, x_count);
        return;
    }
    dnn_to_floats(f->x, x, p->type, x_count);
    lay_out(p, f->x, f->patches, false);
    if (p->pass == DNN_FORWARD) {
        multiply(f->y, f->patches, false, f->filter, true, pixels(p), k, window(p), 0);
        dnn_from_floats(y, f->y, p->type, y_count);
        return;
    }
    dnn_to_floats(f->y, y, p->type, y_count);
    multiply(p->filter, f->y, true, f->patches, false, k, window(p), pixels(p), image ? 1 : 0);
}

static const char *run(const struct dnn_convolution *p)
{
    const size_t x = dnn_x_count(p) / (size_t)p->n, y = pixels(p) * (size_t)p->k, filter = dnn_filter_count(p);
    float *memory = malloc((x + y + filter + pixels(p) * window(p)) * sizeof(float));
    if (!memory)
        return "no memory for an image";
    const struct scratch scratch = {memory, memory + x, memory + x + filter, memory + x + filter + y};
    if (p->pass != DNN_BACKWARD_FILTER)
        dnn_to_floats(scratch.filter, p->filter, p->type, filter);
    for (int image = 0; image < p->n; image++)
        run_image(p, &scratch, image);
    free(memory);
    return NULL;
}

static bool supports(softDnnDataType_t type)
{
    (void)type;
    return true;
}

const struct dnn_engine dnn_plain = {"plain loops", supports, run};
