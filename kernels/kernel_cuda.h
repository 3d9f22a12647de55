/* SPDX-License-Identifier: MIT
 *
 * The kernel language on a GPU: the loops of each idiom as __global__ functions, and their launches.
 *
 * Grids are one thread a pack (or a warp a row) with a grid-stride loop behind the cap, as llm.c does: the hardware balances
 * the blocks. Launches go through cudaLaunchKernel, which returns this launch's error and leaves a sticky one alone.
 */
#ifndef KERNELS_KERNEL_CUDA_H
#define KERNELS_KERNEL_CUDA_H

#include "kernels/kernel.h"

#include <cmath>

namespace kernel {

constexpr unsigned WARP = 32;
constexpr unsigned BLOCK_THREADS = 256;
constexpr size_t GRID_LIMIT = 1u << 20; /* blocks; beyond it the threads loop */
constexpr size_t LONG_ROW = 1024;       /* elements from which on a row is worth a whole block */
constexpr unsigned LONG_ROW_THREADS = 1024;
constexpr unsigned COLUMN_ROWS = 16; /* row lanes of a column block: 32 x 16 threads */

inline unsigned blocks_for(size_t units, size_t units_per_block)
{
    size_t blocks = (units + units_per_block - 1) / units_per_block;
    return static_cast<unsigned>(blocks < GRID_LIMIT ? blocks : GRID_LIMIT);
}

template <class... Parameters, class... Arguments>
inline cudaError_t launch(void (*body)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream, Arguments... arguments)
{
    void *pointers[] = {static_cast<void *>(&arguments)...};
    return cudaLaunchKernel(reinterpret_cast<const void *>(body), grid, block, pointers, 0, stream);
}

/* ---- elements ---- */

template <class K, class... Packs> DEVICE void pack_elements(Packs... packs)
{
#pragma unroll
    for (int i = 0; i < PACK; i++)
        K::element(packs.value(i)...);
    (packs.store(), ...);
}

/* Elements at the end that fill no pack go to the first threads, singly; with PACKED false all do. */
template <class K, bool PACKED, class... Arguments>
__global__ void __launch_bounds__(BLOCK_THREADS) elements_body(size_t n, Arguments... arguments)
{
    const size_t thread = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    const size_t threads = gridDim.x * static_cast<size_t>(blockDim.x);
    size_t packed = 0;
    if constexpr (PACKED) {
        packed = n / PACK * PACK;
        for (size_t i = thread * PACK; i < packed; i += threads * PACK)
            pack_elements<K>(arguments.pack(Place{i, i})...);
    }
    for (size_t i = packed + thread; i < n; i += threads)
        K::element(arguments.at(Place{i, i})...);
}

template <class T> inline bool argument_packs(const In<T> &a) { return pack_aligned(a.pointer); }
template <class T> inline bool argument_packs(const Out<T> &a) { return pack_aligned(a.pointer); }
template <class T> inline bool argument_packs(const InOut<T> &a) { return pack_aligned(a.pointer); }
template <class T> inline bool argument_packs(const ColumnIn<T> &a) { return pack_aligned(a.pointer); }
template <class T> inline bool argument_packs(const Value<T> &) { return true; }
template <class T> inline bool argument_packs(const Same<T> &) { return true; }
inline bool argument_packs(const Index &) { return true; }
inline bool argument_packs(const Nothing &) { return true; }

template <class K, class... Arguments>
inline cudaError_t launch_elements(const Cost &, cudaStream_t stream, size_t n, Arguments... arguments)
{
    if (n == 0)
        return cudaSuccess;
    if ((argument_packs(arguments) && ...))
        return launch(elements_body<K, true, Arguments...>, blocks_for((n + PACK - 1) / PACK, BLOCK_THREADS), BLOCK_THREADS,
                      stream, n, arguments...);
    return launch(elements_body<K, false, Arguments...>, blocks_for(n, BLOCK_THREADS), BLOCK_THREADS, stream, n,
                  arguments...);
}

/* ---- matrix: elements that know their column. Blocks of 32 x 8 threads; grid.y is limited to 65535 by CUDA. ---- */

template <class K, bool PACKED, class... Arguments>
__global__ void __launch_bounds__(BLOCK_THREADS) matrix_body(size_t rows, size_t columns, Arguments... arguments)
{
    constexpr size_t step = PACKED ? PACK : 1;
    const size_t column = (blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x) * step;
    if (column >= columns)
        return;
    const size_t row_step = gridDim.y * static_cast<size_t>(blockDim.y);
    for (size_t row = blockIdx.y * static_cast<size_t>(blockDim.y) + threadIdx.y; row < rows; row += row_step) {
        const Place place = {row * columns + column, column};
        if constexpr (PACKED)
            pack_elements<K>(arguments.pack(place)...);
        else
            K::element(arguments.at(place)...);
    }
}

template <class K, class... Arguments>
inline cudaError_t launch_matrix(const Cost &, cudaStream_t stream, size_t rows, size_t columns, Arguments... arguments)
{
    if (rows == 0 || columns == 0)
        return cudaSuccess;
    const bool packed = columns % PACK == 0 && (argument_packs(arguments) && ...);
    const dim3 block(WARP, BLOCK_THREADS / WARP);
    const size_t column_blocks = ((packed ? columns / PACK : columns) + WARP - 1) / WARP; /* no loop: up to 2^31 - 1 */
    const size_t row_blocks = (rows + block.y - 1) / block.y;
    const dim3 grid(static_cast<unsigned>(column_blocks), static_cast<unsigned>(row_blocks < 65535 ? row_blocks : 65535));
    if (packed)
        return launch(matrix_body<K, true, Arguments...>, grid, block, stream, rows, columns, arguments...);
    return launch(matrix_body<K, false, Arguments...>, grid, block, stream, rows, columns, arguments...);
}

/* ---- rows ---- */

DEVICE float warp_sum(float x)
{
#pragma unroll
    for (unsigned distance = WARP / 2; distance > 0; distance /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, distance);
    return x;
}

DEVICE float larger(float a, float b) { return b > a ? b : a; } /* a NaN in b is passed over */

DEVICE float warp_max(float x)
{
#pragma unroll
    for (unsigned distance = WARP / 2; distance > 0; distance /= 2)
        x = larger(x, __shfl_xor_sync(0xffffffffu, x, distance));
    return x;
}

/* The threads that share a row: a warp (LANES 32) or a whole block. Each of its functions is called by all lanes together,
 * and its result is the same in all lanes. */
template <unsigned LANES> struct Group {
    static DEVICE unsigned lane() { return threadIdx.x % LANES; }
    static DEVICE bool first() { return lane() == 0; }
    static DEVICE bool owns(size_t i) { return i % LANES == lane(); } /* the lane that gets element i in each, sum, max */

    template <class F> static DEVICE void each(size_t n, F f)
    {
#pragma unroll 4
        for (size_t i = lane(); i < n; i += LANES)
            f(i);
    }

    template <class F> static DEVICE float sum(size_t n, F f)
    {
        float total = 0;
#pragma unroll 4
        for (size_t i = lane(); i < n; i += LANES)
            total += f(i);
        return across_warps(warp_sum(total), 0.0f, warp_sum);
    }

    template <class F> static DEVICE float max(size_t n, F f)
    {
        float top = -INFINITY;
#pragma unroll 4
        for (size_t i = lane(); i < n; i += LANES)
            top = larger(top, f(i));
        return across_warps(warp_max(top), -INFINITY, warp_max);
    }

    template <class F> static DEVICE float sum_few(size_t n, F f) { return sum(n, f); }
    template <class F> static DEVICE float max_few(size_t n, F f) { return max(n, f); }

    template <class F> static DEVICE float across_warps(float x, float neutral, F combine)
    {
        if constexpr (LANES == WARP)
            return x;
        __shared__ float parts[LANES / WARP];
        if (threadIdx.x % WARP == 0)
            parts[threadIdx.x / WARP] = x;
        __syncthreads();
        x = combine(threadIdx.x % WARP < LANES / WARP ? parts[threadIdx.x % WARP] : neutral);
        __syncthreads();
        return x;
    }
};

template <class K, unsigned LANES, unsigned THREADS, class... Arguments>
__global__ void __launch_bounds__(THREADS) rows_body(size_t rows, Arguments... arguments)
{
    constexpr unsigned groups = THREADS / LANES;
    const size_t step = gridDim.x * static_cast<size_t>(groups);
    for (size_t row = blockIdx.x * static_cast<size_t>(groups) + threadIdx.x / LANES; row < rows; row += step)
        K::row(row, Group<LANES>(), arguments.raw()...);
}

template <class K, class... Arguments>
inline cudaError_t launch_rows(const Cost &, cudaStream_t stream, size_t rows, size_t columns, Arguments... arguments)
{
    if (rows == 0)
        return cudaSuccess;
    if (columns >= LONG_ROW)
        return launch(rows_body<K, LONG_ROW_THREADS, LONG_ROW_THREADS, Arguments...>, blocks_for(rows, 1), LONG_ROW_THREADS,
                      stream, rows, arguments...);
    return launch(rows_body<K, WARP, BLOCK_THREADS, Arguments...>, blocks_for(rows, BLOCK_THREADS / WARP), BLOCK_THREADS,
                  stream, rows, arguments...);
}

/* ---- columns: lanes (x) over 32 columns, each row lane (y) sums every 16th row; then the row lanes in order ---- */

template <class K, class... Arguments>
__global__ void __launch_bounds__(WARP *COLUMN_ROWS) columns_body(size_t rows, size_t columns, Arguments... arguments)
{
    __shared__ float parts[COLUMN_ROWS][WARP];
    const size_t column = blockIdx.x * static_cast<size_t>(WARP) + threadIdx.x;
    float sum = 0;
    if (column < columns) {
#pragma unroll 8
        for (size_t row = threadIdx.y; row < rows; row += COLUMN_ROWS)
            sum += K::term(row * columns + column, arguments.raw()...);
    }
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || column >= columns)
        return;
    for (unsigned y = 1; y < COLUMN_ROWS; y++)
        sum += parts[y][threadIdx.x];
    K::finish(column, sum, arguments.raw()...);
}

template <class K, class... Arguments>
inline cudaError_t launch_columns(const Cost &, cudaStream_t stream, size_t rows, size_t columns, Arguments... arguments)
{
    if (columns == 0)
        return cudaSuccess;
    const size_t blocks = (columns + WARP - 1) / WARP; /* no loop: a grid has up to 2^31 - 1 blocks */
    return launch(columns_body<K, Arguments...>, static_cast<unsigned>(blocks), dim3(WARP, COLUMN_ROWS), stream, rows,
                  columns, arguments...);
}

/* ---- column pairs: the same with two sums ---- */

template <class K, class... Arguments>
__global__ void __launch_bounds__(WARP *COLUMN_ROWS) column_pairs_body(size_t rows, size_t columns, Arguments... arguments)
{
    __shared__ Pair parts[COLUMN_ROWS][WARP];
    const size_t column = blockIdx.x * static_cast<size_t>(WARP) + threadIdx.x;
    Pair sum = {0, 0};
    if (column < columns) {
#pragma unroll 4
        for (size_t row = threadIdx.y; row < rows; row += COLUMN_ROWS) {
            const Pair term = K::term(row, row * columns + column, arguments.raw()...);
            sum = {sum.first + term.first, sum.second + term.second};
        }
    }
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || column >= columns)
        return;
    for (unsigned y = 1; y < COLUMN_ROWS; y++) {
        const Pair part = parts[y][threadIdx.x];
        sum = {sum.first + part.first, sum.second + part.second};
    }
    K::finish(column, sum, arguments.raw()...);
}

template <class K, class... Arguments>
inline cudaError_t launch_column_pairs(const Cost &, cudaStream_t stream, size_t rows, size_t columns,
                                       Arguments... arguments)
{
    if (columns == 0)
        return cudaSuccess;
    const size_t blocks = (columns + WARP - 1) / WARP;
    return launch(column_pairs_body<K, Arguments...>, static_cast<unsigned>(blocks), dim3(WARP, COLUMN_ROWS), stream, rows,
                  columns, arguments...);
}

DEVICE void store_relaxed(float *to, float x) { *to = x; }
DEVICE void atomic_add(int32_t *counter, int32_t x) { atomicAdd(counter, x); }

} // namespace kernel

#endif
