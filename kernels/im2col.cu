/* SPDX-License-Identifier: MIT
 *
 * Convolutions as products (Chellapilla et al. 2006), NHWC: im2col writes each output pixel's window of x as a row, whose product
 * with the filter is the convolution; col2im is its reverse, the gradient of x from that of the patches. It gathers: an input
 * pixel adds up the rows that it was copied to, in a fixed order, so it needs no atomics.
 *
 * A line of a window is one stretch of x, kernel x in elements, of which the border cuts off the ends.
 */
#include "kernels/kernel.h"

using namespace kernel;

namespace {

/* A row is an output pixel. */
struct Im2col {
    template <class Group, class T>
    static DEVICE void row(size_t row, Group group, T *patches, const T *x, struct patch_shape s)
    {
        const size_t ow = row % s.out_width, oh = row / s.out_width % s.out_height;
        const size_t image = row / (s.out_width * s.out_height);
        const size_t line = s.kernel * s.in, width = s.width * s.in;
        const size_t at = ow * s.stride * s.in, border = s.padding * s.in; /* the stretch begins at `at - border` */
        const size_t left = at < border ? border - at : 0;
        const size_t room = at < width + border ? width + border - at : 0;
        const size_t begin = left < line ? left : line, end = room < line ? room : line;
        T *to = patches + row * s.kernel * line;
        ROLLED
        for (size_t r = 0; r < s.kernel; r++, to += line) {
            const size_t h = oh * s.stride + r - s.padding; /* above the image it wraps to a number that is too large */
            const bool inside = h < s.height;
            const size_t first = inside ? begin : line, last = inside ? end : line;
            const size_t start = last > first ? (image * s.height + h) * width + at + first - border : 0;
            const T *from = x + start;
            group.each(first, [=](size_t i) { to[i] = 0.0f; });
            group.each(last - first, [=](size_t i) { copy(to[first + i], from[i]); });
            group.each(line - last, [=](size_t i) { to[last + i] = 0.0f; });
        }
    }
};

/* The outputs, in one direction, whose windows hold input `at`: [begin, end). */
struct Windows {
    size_t begin, end;
    DEVICE Windows(size_t at, size_t outputs, const struct patch_shape &s)
    {
        const size_t place = at + s.padding, most = place / s.stride + 1;
        begin = place < s.kernel ? 0 : (place - s.kernel) / s.stride + 1;
        end = most < outputs ? most : outputs;
    }
};

/* A row is an input pixel. Output o holds input i at place i + padding - o stride of its window. */
struct Col2im {
    template <class Group, class T>
    static DEVICE void row(size_t row, Group group, T *dx, const T *patches, struct patch_shape s)
    {
        const size_t w = row % s.width, h = row / s.width % s.height, image = row / (s.width * s.height);
        const Windows down(h, s.out_height, s), across(w, s.out_width, s);
        const size_t patch = s.kernel * s.kernel * s.in;
        T *to = dx + row * s.in;
        group.each(s.in, [=](size_t i) {
            float sum = 0;
            ROLLED
            for (size_t oh = down.begin; oh < down.end; oh++) {
                const size_t r = h + s.padding - oh * s.stride;
                ROLLED
                for (size_t ow = across.begin; ow < across.end; ow++) {
                    const size_t tap = r * s.kernel + w + s.padding - ow * s.stride;
                    sum += patches[((image * s.out_height + oh) * s.out_width + ow) * patch + tap * s.in + i];
                }
            }
            to[i] = sum;
        });
    }
};

size_t inputs(const struct patch_shape *s, size_t images)
{
    return images * s->height * s->width * s->in;
}

size_t pixels(const struct patch_shape *s, size_t images)
{
    return images * s->out_height * s->out_width;
}

size_t patch(const struct patch_shape *s)
{
    return s->kernel * s->kernel * s->in;
}

} // namespace

cudaError_t kernel_im2col(enum element_type type, void *patches, const void *x, const struct patch_shape *shape, size_t images,
                          cudaStream_t stream)
{
    const size_t n = inputs(shape, images), rows = pixels(shape, images), columns = patch(shape);
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_rows<Im2col>({"im2col", 0, sizeof(T) * (1.0 * n + 1.0 * rows * columns)}, stream, rows, columns,
                                   out(static_cast<T *>(patches), rows * columns), in(static_cast<const T *>(x), n),
                                   value(*shape));
    });
}

cudaError_t kernel_col2im(enum element_type type, void *dx, const void *patches, const struct patch_shape *shape, size_t images,
                          cudaStream_t stream)
{
    const size_t n = inputs(shape, images), rows = pixels(shape, images), columns = patch(shape);
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_rows<Col2im>({"col2im", 1.0 * rows * columns, sizeof(T) * (1.0 * n + 1.0 * rows * columns)}, stream,
                                   images * shape->height * shape->width, shape->in, out(static_cast<T *>(dx), n),
                                   in(static_cast<const T *>(patches), rows * columns), value(*shape));
    });
}
