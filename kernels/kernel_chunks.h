/* SPDX-License-Identifier: MIT
 *
 * One more idiom: two sums of each column over CHUNKS of rows. A matrix of many rows and few columns (BatchNorm: a row a
 * pixel, a column a channel) has too few columns to give work to all cores, so rows are cut too, into chunks whose size
 * depends on the shape alone; a later kernel adds the chunks up.
 *
 *   K::PASSES      1: term gives both numbers at once. 2: the second is taken in another pass over the chunk, which is in
 *                  the cache by then, and knows the first one's sum.
 *   K::prepare(column, spot, x...)   what the column's elements have in common, read once
 *   K::term<PASS>(index, spot, first, second, x...)   adds to both sums; in the second pass spot.mean is the mean of the
 *                  first sums over the chunk
 *   K::finish(chunk, column, rows of the chunk, first, second, x...)
 *
 * CPU: rows of less than 256 columns are taken several at a time, so that vectors are full. GPU: a block per chunk and 32
 * columns.
 */
#ifndef KERNELS_KERNEL_CHUNKS_H
#define KERNELS_KERNEL_CHUNKS_H

#include "kernels/kernel.h"

namespace kernel {

/* What term is told of an element beside its index: numbers of its column. */
struct Spot {
    float mean = 0, factor = 0, offset = 0;
};

#ifdef __CUDACC__

template <class K, class... Arguments>
__global__ void __launch_bounds__(WARP *COLUMN_ROWS)
    chunks_body(size_t rows, size_t columns, size_t chunk_rows, Arguments... arguments)
{
    __shared__ float parts[2][COLUMN_ROWS][WARP];
    const size_t column = blockIdx.x * static_cast<size_t>(WARP) + threadIdx.x;
    for (size_t chunk = blockIdx.y; chunk * chunk_rows < rows; chunk += gridDim.y) {
        const size_t begin = chunk * chunk_rows;
        const size_t end = begin + chunk_rows < rows ? begin + chunk_rows : rows;
        float first = 0, second = 0, ignored = 0;
        Spot spot;
        if (column < columns)
            K::prepare(column, spot, arguments.raw()...);
        if (column < columns)
            for (size_t row = begin + threadIdx.y; row < end; row += COLUMN_ROWS)
                K::template term<1>(row * columns + column, spot, first, second, arguments.raw()...);
        parts[0][threadIdx.y][threadIdx.x] = first;
        __syncthreads();
        first = 0;
        for (unsigned y = 0; y < COLUMN_ROWS; y++)
            first += parts[0][y][threadIdx.x];
        if constexpr (K::PASSES == 2) {
            spot.mean = first / static_cast<float>(end - begin);
            if (column < columns)
                for (size_t row = begin + threadIdx.y; row < end; row += COLUMN_ROWS)
                    K::template term<2>(row * columns + column, spot, ignored, second, arguments.raw()...);
        }
        parts[1][threadIdx.y][threadIdx.x] = second;
        __syncthreads();
        if (threadIdx.y == 0 && column < columns) {
            second = 0;
            for (unsigned y = 0; y < COLUMN_ROWS; y++)
                second += parts[1][y][threadIdx.x];
            K::finish(chunk, column, end - begin, first, second, arguments.raw()...);
        }
        __syncthreads();
    }
}

template <class K, class... Arguments>
inline cudaError_t launch_chunks(const Cost &, cudaStream_t stream, size_t rows, size_t columns, size_t chunk_rows,
                                 Arguments... arguments)
{
    if (rows == 0 || columns == 0)
        return cudaSuccess;
    const size_t chunks = (rows + chunk_rows - 1) / chunk_rows;
    const dim3 grid(static_cast<unsigned>((columns + WARP - 1) / WARP), static_cast<unsigned>(chunks < 65535 ? chunks : 65535));
    return launch(chunks_body<K, Arguments...>, grid, dim3(WARP, COLUMN_ROWS), stream, rows, columns, chunk_rows,
                  arguments...);
}

#else

/* Accumulators of a tile: `group` rows of `width` columns side by side. */
struct ChunkTile {
    float first[COLUMN_TILE], second[COLUMN_TILE];
    float mean[COLUMN_TILE], factor[COLUMN_TILE], offset[COLUMN_TILE];
};

/* One pass over rows [begin, end) of columns [from, from + width). */
template <class K, int PASS, class... Raw>
DEVICE void chunk_pass(ChunkTile &tile, size_t begin, size_t end, size_t columns, size_t from, size_t width, size_t group,
                       Raw... raw)
{
    size_t row = begin;
    for (; row + group <= end; row += group) {
#pragma omp simd
        for (size_t i = 0; i < group * width; i++)
            K::template term<PASS>(row * columns + from + i, Spot{tile.mean[i], tile.factor[i], tile.offset[i]}, tile.first[i], tile.second[i],
                                   raw...);
    }
    for (; row < end; row++) {
#pragma omp simd
        for (size_t i = 0; i < width; i++)
            K::template term<PASS>(row * columns + from + i, Spot{tile.mean[i], tile.factor[i], tile.offset[i]}, tile.first[i], tile.second[i],
                                   raw...);
    }
}

/* The groups' sums, in order, into the first group's place. */
inline void chunk_fold(float *sums, size_t width, size_t group)
{
    for (size_t g = 1; g < group; g++)
        for (size_t i = 0; i < width; i++)
            sums[i] += sums[g * width + i];
}

template <class K, class... Raw>
DEVICE void chunk_tile(size_t chunk, size_t begin, size_t end, size_t columns, size_t from, size_t width, Raw... raw)
{
    ChunkTile tile = {};
    const size_t group = width == columns && columns < COLUMN_TILE ? COLUMN_TILE / columns : 1;
    for (size_t i = 0; i < width; i++) {
        Spot spot;
        K::prepare(from + i, spot, raw...);
        for (size_t place = i; place < group * width; place += width) {
            tile.mean[place] = spot.mean;
            tile.factor[place] = spot.factor;
            tile.offset[place] = spot.offset;
        }
    }
    chunk_pass<K, 1>(tile, begin, end, columns, from, width, group, raw...);
    chunk_fold(tile.first, width, group);
    if constexpr (K::PASSES == 2) {
        for (size_t i = 0; i < width; i++) {
            const float mean = tile.first[i] / static_cast<float>(end - begin);
            for (size_t place = i; place < group * width; place += width)
                tile.mean[place] = mean;
        }
        float kept[COLUMN_TILE];
        memcpy(kept, tile.first, sizeof kept);
        chunk_pass<K, 2>(tile, begin, end, columns, from, width, group, raw...);
        memcpy(tile.first, kept, sizeof kept);
    }
    chunk_fold(tile.second, width, group);
    for (size_t i = 0; i < width; i++)
        K::finish(chunk, from + i, end - begin, tile.first[i], tile.second[i], raw...);
}

template <class K, class... Arguments> void chunks_body(const void *bytes, unsigned block, unsigned blocks)
{
    /* the first argument is the rows of a chunk */
    const auto &work = *static_cast<const Work<Value<size_t>, Arguments...> *>(bytes);
    const size_t chunk_rows = work.arguments.head.same;
    const Range chunks = part((work.rows + chunk_rows - 1) / chunk_rows, block, blocks);
    spread(work.arguments.tail, [&](auto... a) {
        for (size_t chunk = chunks.begin; chunk < chunks.end; chunk++) {
            const size_t begin = chunk * chunk_rows;
            const size_t end = begin + chunk_rows < work.rows ? begin + chunk_rows : work.rows;
            for (size_t from = 0; from < work.columns; from += COLUMN_TILE) {
                const size_t left = work.columns - from;
                chunk_tile<K>(chunk, begin, end, work.columns, from, left < COLUMN_TILE ? left : COLUMN_TILE, a.raw()...);
            }
        }
    });
}

template <class K, class... Arguments>
inline softError_t launch_chunks(const Cost &cost, softStream_t stream, size_t rows, size_t columns, size_t chunk_rows,
                                 Arguments... arguments)
{
    if (rows == 0 || columns == 0)
        return softSuccess;
    const size_t chunks = (rows + chunk_rows - 1) / chunk_rows;
    return launch(cost, stream, chunks_body<K, Arguments...>, parts_for(rows * columns, chunks), rows, columns,
                  value(chunk_rows), arguments...);
}

#endif

} // namespace kernel

#endif
