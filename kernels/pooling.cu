/* SPDX-License-Identifier: MIT
 *
 * Pooling, NHWC. Average: a column's sum over an image's pixels is a chunk of kernel_chunks.h. Maximum: windows of 3 x 3 with
 * stride 2 and a border of 1; the place of the maximum is kept, so that the backward pass, which goes over the inputs and
 * looks at the (up to 4) windows that an input lies in, needs no atomics.
 */
#include "kernels/kernel_chunks.h"

#include <cmath>

using namespace kernel;

namespace {

struct AveragePool {
    static constexpr int PASSES = 1;
    template <class... Raw> static DEVICE void prepare(size_t, Spot &, Raw...) {}
    template <int PASS, class T>
    static DEVICE void term(size_t index, Spot, float &first, float &, T *, const T *x, size_t)
    {
        first += x[index];
    }
    template <class T>
    static DEVICE void finish(size_t chunk, size_t column, size_t rows, float first, float, T *y, const T *, size_t columns)
    {
        y[chunk * columns + column] = first / static_cast<float>(rows);
    }
};

struct AveragePoolBackward {
    template <class Group, class T>
    static DEVICE void row(size_t row, Group group, T *dx, const T *dy, size_t pixels, size_t columns, float factor)
    {
        T *to = dx + row * columns;
        const T *from = dy + row / pixels * columns;
        group.each(columns, [=](size_t i) { to[i] = from[i] * factor; });
    }
};

/* Nine taps of four elements at once are more than a thread's registers hold. */
#ifdef __CUDACC__
#define NOT_UNROLLED _Pragma("unroll 1")
#else
#define NOT_UNROLLED
#endif

constexpr size_t WINDOW = 3, STRIDE = 2; /* border 1 */

struct Image {
    size_t height, width, columns;
    DEVICE size_t out_height() const { return (height + 1) / 2; }
    DEVICE size_t out_width() const { return (width + 1) / 2; }
};

/* A row is an output pixel. The first of equal values wins, NaN wins over all, as in PyTorch. */
struct MaxPool {
    template <class Group, class T>
    static DEVICE void row(size_t row, Group group, T *y, uint8_t *places, const T *x, Image image)
    {
        const size_t ow = row % image.out_width(), oh = row / image.out_width() % image.out_height();
        const T *whole = x + row / (image.out_width() * image.out_height()) * image.height * image.width * image.columns;
        group.each(image.columns, [=](size_t i) {
            float top = -INFINITY;
            uint8_t place = WINDOW * WINDOW; /* none yet */
            NOT_UNROLLED
            for (size_t r = 0; r < WINDOW; r++)
                for (size_t s = 0; s < WINDOW; s++) {
                    const size_t h = oh * STRIDE + r - 1, w = ow * STRIDE + s - 1; /* -1 wraps to a number that is too large */
                    if (h >= image.height || w >= image.width)
                        continue;
                    const float value = whole[(h * image.width + w) * image.columns + i];
                    if (value > top || value != value || place == WINDOW * WINDOW) {
                        top = value;
                        place = static_cast<uint8_t>(r * WINDOW + s);
                    }
                }
            y[row * image.columns + i] = top;
            places[row * image.columns + i] = place;
        });
    }
};

/* A row is an input pixel. */
struct MaxPoolBackward {
    template <class Group, class T>
    static DEVICE void row(size_t row, Group group, T *dx, const T *dy, const uint8_t *places, Image image)
    {
        const size_t w = row % image.width, h = row / image.width % image.height;
        const size_t first = row / (image.width * image.height) * image.out_height() * image.out_width();
        group.each(image.columns, [=](size_t i) {
            float sum = 0;
            NOT_UNROLLED
            for (size_t r = 0; r < WINDOW; r++)
                for (size_t s = 0; s < WINDOW; s++) {
                    const size_t up = h + 1 - r, left = w + 1 - s; /* stride times the output's place */
                    if (up % STRIDE || left % STRIDE || up / STRIDE >= image.out_height() || left / STRIDE >= image.out_width())
                        continue;
                    const size_t at = (first + up / STRIDE * image.out_width() + left / STRIDE) * image.columns + i;
                    sum += places[at] == r * WINDOW + s ? static_cast<float>(dy[at]) : 0.0f;
                }
            dx[row * image.columns + i] = sum;
        });
    }
};

} // namespace

cudaError_t kernel_average_pool(enum element_type type, void *y, const void *x, size_t images, size_t pixels, size_t columns,
                                cudaStream_t stream)
{
    const size_t n = images * pixels * columns;
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_chunks<AveragePool>({"average_pool", 1.0 * n, 1.0 * sizeof(T) * n}, stream, images * pixels, columns,
                                          pixels, out(static_cast<T *>(y), images * columns),
                                          in(static_cast<const T *>(x), n), value(columns));
    });
}

cudaError_t kernel_average_pool_backward(enum element_type type, void *dx, const void *dy, size_t images, size_t pixels,
                                         size_t columns, cudaStream_t stream)
{
    const size_t n = images * pixels * columns;
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_rows<AveragePoolBackward>({"average_pool_backward", 1.0 * n, 1.0 * sizeof(T) * n}, stream,
                                                images * pixels, columns, out(static_cast<T *>(dx), n),
                                                in(static_cast<const T *>(dy), images * columns), value(pixels),
                                                value(columns), value(1.0f / static_cast<float>(pixels)));
    });
}

cudaError_t kernel_max_pool(enum element_type type, void *y, uint8_t *places, const void *x, size_t images, size_t height,
                            size_t width, size_t columns, cudaStream_t stream)
{
    const Image image = {height, width, columns};
    const size_t n = images * height * width * columns, rows = images * ((height + 1) / 2) * ((width + 1) / 2);
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_rows<MaxPool>({"max_pool", 9.0 * rows * columns, sizeof(T) * (1.0 * n + rows * columns)}, stream, rows,
                                    columns, out(static_cast<T *>(y), rows * columns), out(places, rows * columns),
                                    in(static_cast<const T *>(x), n), value(image));
    });
}

cudaError_t kernel_max_pool_backward(enum element_type type, void *dx, const void *dy, const uint8_t *places, size_t images,
                                     size_t height, size_t width, size_t columns, cudaStream_t stream)
{
    const Image image = {height, width, columns};
    const size_t n = images * height * width * columns, out_n = images * ((height + 1) / 2) * ((width + 1) / 2) * columns;
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_rows<MaxPoolBackward>({"max_pool_backward", 2.0 * n, sizeof(T) * (1.0 * n + out_n)}, stream,
                                            images * height * width, columns, out(static_cast<T *>(dx), n),
                                            in(static_cast<const T *>(dy), out_n), in(places, out_n), value(image));
    });
}
