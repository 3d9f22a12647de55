/* SPDX-License-Identifier: MIT
 *
 * im2col and col2im against plain loops in double: odd sizes, images that are not square, windows of 1, 3 and 7, strides of 1, 2
 * and 3, with and without a border, borders wider than the image.
 */
#include "kernels/kernels.h"
#include "tensor.h"

/* The outputs' sizes are left out: trial_open adds them. */
struct trial {
    size_t images;
    struct patch_shape s;
};

static const struct trial trials[] = {
    {1, {1, 1, 1, 1, 1, 0}},   {2, {5, 5, 3, 3, 1, 1}},  {3, {9, 7, 7, 3, 2, 1}},  {2, {7, 9, 5, 3, 1, 0}},
    {3, {9, 8, 2, 3, 2, 0}},   {2, {8, 8, 33, 1, 2, 0}}, {5, {6, 5, 4, 1, 1, 0}},  {2, {3, 4, 3, 1, 1, 1}},
    {2, {23, 21, 3, 7, 2, 3}}, {1, {9, 8, 4, 7, 1, 3}},  {2, {1, 2, 3, 7, 2, 3}},  {3, {8, 8, 5, 7, 1, 0}},
    {4, {16, 16, 16, 3, 1, 1}}, {2, {10, 11, 65, 3, 2, 1}}, {2, {11, 10, 6, 2, 3, 1}}, {0, {4, 4, 4, 3, 1, 1}},
};
#define TRIALS (sizeof trials / sizeof trials[0])

static struct trial trial_open(size_t index)
{
    struct trial t = trials[index];
    t.s.out_height = (t.s.height + 2 * t.s.padding - t.s.kernel) / t.s.stride + 1;
    t.s.out_width = (t.s.width + 2 * t.s.padding - t.s.kernel) / t.s.stride + 1;
    return t;
}

static size_t input_count(const struct trial *t)
{
    return t->images * t->s.height * t->s.width * t->s.in;
}

static size_t patch_count(const struct trial *t)
{
    return t->images * t->s.out_height * t->s.out_width * t->s.kernel * t->s.kernel * t->s.in;
}

/* Where element `at` of the patches comes from; false: the border. */
static bool source(const struct trial *t, size_t at, size_t *place)
{
    const struct patch_shape *s = &t->s;
    const size_t c = at % s->in, kw = at / s->in % s->kernel, kh = at / s->in / s->kernel % s->kernel;
    const size_t pixel = at / s->in / s->kernel / s->kernel;
    const size_t ow = pixel % s->out_width, oh = pixel / s->out_width % s->out_height;
    const size_t image = pixel / s->out_width / s->out_height;
    const long h = (long)(oh * s->stride + kh) - (long)s->padding, w = (long)(ow * s->stride + kw) - (long)s->padding;
    if (h < 0 || w < 0 || h >= (long)s->height || w >= (long)s->width)
        return false;
    *place = ((image * s->height + (size_t)h) * s->width + (size_t)w) * s->in + c;
    return true;
}

static void check_im2col(enum element_type type, const struct trial *t)
{
    const size_t n = input_count(t), count = patch_count(t);
    float *x = test_memory(n * sizeof *x), *filled = test_memory(count * sizeof *filled);
    double *expected = test_memory(count * sizeof *expected);
    void *from = typed_random(type, x, n, 95, 1, 0), *to = typed_random(type, filled, count, 96, 1, 0);

    for (size_t i = 0, place; i < count; i++)
        expected[i] = source(t, i, &place) ? (double)x[place] : 0;
    LAUNCH(kernel_im2col(type, to, from, &t->s, t->images, test_stream));
    typed_read(type, filled, to, count);
    test_floats("patches", filled, expected, count, 0, 0); /* a copy: exact */
    free(x), free(filled), free(expected);
    test_release();
}

static void check_col2im(enum element_type type, const struct trial *t)
{
    const size_t n = input_count(t), count = patch_count(t);
    float *patches = test_memory(count * sizeof *patches), *filled = test_memory(n * sizeof *filled);
    double *expected = test_memory(n * sizeof *expected);
    void *from = typed_random(type, patches, count, 97, 1, 0), *to = typed_random(type, filled, n, 98, 1, 0);

    for (size_t i = 0, place; i < count; i++)
        if (source(t, i, &place))
            expected[place] += (double)patches[i];
    LAUNCH(kernel_col2im(type, to, from, &t->s, t->images, test_stream));
    tensor_expect("dx", type, to, expected, n, 1e-6, 1e-5);
    free(patches), free(filled), free(expected);
    test_release();
}

static void run_im2col(const void *argument)
{
    for (size_t i = 0; i < TRIALS; i++) {
        const struct trial t = trial_open(i);
        check_im2col(*(const enum element_type *)argument, &t);
    }
}

static void run_col2im(const void *argument)
{
    for (size_t i = 0; i < TRIALS; i++) {
        const struct trial t = trial_open(i);
        check_col2im(*(const enum element_type *)argument, &t);
    }
}

static const enum element_type f32 = ELEMENT_F32, bf16 = ELEMENT_BF16, f16 = ELEMENT_F16;

const struct test_case im2col_cases[] = {
    {"im2col_fp32", run_im2col, &f32}, {"im2col_bf16", run_im2col, &bf16}, {"im2col_fp16", run_im2col, &f16},
    {"col2im_fp32", run_col2im, &f32}, {"col2im_bf16", run_col2im, &bf16}, {"col2im_fp16", run_col2im, &f16},
    {NULL, NULL, NULL},
};
