/* SPDX-License-Identifier: MIT
 *
 * The kernel language: a kernel is written once and compiled by nvcc for the GPU and by the C++ compiler for the CPU.
 *
 * A kernel is a struct with one static DEVICE function; a launch function names it, states its cost and says of each
 * argument what it is and how far it reaches. The idioms, and what becomes of them:
 *
 *   idiom (K's function)               on a GPU                              on the CPU
 *   launch_elements: element(x...)     a thread per pack of 4 elements,      one contiguous loop a part, vectorised
 *   launch_matrix:   element(x...)     loads and stores of 16 bytes          the same row by row
 *   launch_rows:     row(r, group, x)  a warp a row, a block a long row      one lane; each, sum, max vectorised
 *   launch_columns:  term(), finish()  a block per 32 columns                tiles of 256 columns, rows outside
 *   launch_column_pairs: the same, with two sums a column; a term knows its row
 *
 * Where the work is cut depends on the shape alone, never on the number of cores, and each sum has one fixed order: the
 * result is the same to the bit from run to run and for any number of cores (CPU and GPU differ in rounding).
 *
 * Every pointer states its extent: the soft GPU checks it at launch, and pointers inside `element` can't be misused for a
 * neighbour's element, since the function is given the element and not the pointer.
 */
#ifndef KERNELS_KERNEL_H
#define KERNELS_KERNEL_H

#include "kernels/kernels.h"

#ifdef __CUDACC__
#define DEVICE __device__ __forceinline__
#define ROLLED _Pragma("unroll 1") /* before a loop that costs more registers unrolled than it gains */
#else
#define DEVICE inline __attribute__((always_inline))
#define ROLLED
#endif

#include "kernels/kernel_types.h"

namespace kernel {

/* What a launch states about itself: name (static storage), floating point operations of the whole launch, bytes read and
 * written with each buffer counted once. */
struct Cost {
    const char *name;
    double flops;
    double bytes;
};

/* Where an element stands: `index` in the whole array, `column` in its row (in launch_elements the same). */
struct Place {
    size_t index;
    size_t column;
};

/* Two terms, or two sums, of a column. */
struct Pair {
    float first, second;
};

/* Elements that fit one pack: the vector loads and stores of a GPU thread. */
constexpr int PACK = 4;

/* Elements of a row that fit one vector of the CPU: sum_few and max_few take no more. */
constexpr size_t FEW = 16;

template <class T> struct alignas(sizeof(T) * PACK) Packed {
    T values[PACK];
};

template <class T> inline bool pack_aligned(const T *pointer)
{
    return reinterpret_cast<uintptr_t>(pointer) % alignof(Packed<T>) == 0;
}

/* ---- arguments: each kind says how an element is reached, singly (at) and by packs (pack), what the whole is (raw), and
 * what the soft GPU must check (pointer, count, written). ------------------------------------------------------------- */

/* A pack of an input, of an output (stored at the end), or of one and the same value. */
template <class T> struct InPack {
    Packed<T> data;
    DEVICE T value(int i) const { return data.values[i]; }
    DEVICE void store() const {}
};

template <class T> struct OutPack {
    Packed<T> data;
    T *to;
    DEVICE T &value(int i) { return data.values[i]; }
    DEVICE void store() const { *reinterpret_cast<Packed<T> *>(to) = data; }
};

template <class T> struct SamePack {
    T same;
    DEVICE T value(int) const { return same; }
    DEVICE void store() const {}
};

template <class T> struct In {
    using element = T;
    static constexpr bool written = false;
    const T *pointer;
    size_t count;
    DEVICE T at(Place place) const { return pointer[place.index]; }
    DEVICE InPack<T> pack(Place place) const { return {*reinterpret_cast<const Packed<T> *>(pointer + place.index)}; }
    DEVICE const T *raw() const { return pointer; }
};

/* An input of one row that serves all rows: a bias. */
template <class T> struct ColumnIn {
    using element = T;
    static constexpr bool written = false;
    const T *pointer;
    size_t count;
    DEVICE T at(Place place) const { return pointer[place.column]; }
    DEVICE InPack<T> pack(Place place) const { return {*reinterpret_cast<const Packed<T> *>(pointer + place.column)}; }
    DEVICE const T *raw() const { return pointer; }
};

template <class T> struct InOut {
    using element = T;
    static constexpr bool written = true;
    T *pointer;
    size_t count;
    DEVICE T &at(Place place) const { return pointer[place.index]; }
    DEVICE OutPack<T> pack(Place place) const
    {
        return {*reinterpret_cast<const Packed<T> *>(pointer + place.index), pointer + place.index};
    }
    DEVICE T *raw() const { return pointer; }
};

template <class T> struct Out {
    using element = T;
    static constexpr bool written = true;
    T *pointer;
    size_t count;
    DEVICE T &at(Place place) const { return pointer[place.index]; }
    DEVICE OutPack<T> pack(Place place) const { return {{}, pointer + place.index}; }
    DEVICE T *raw() const { return pointer; }
};

template <class T> struct Value {
    T same;
    DEVICE T at(Place) const { return same; }
    DEVICE SamePack<T> pack(Place) const { return {same}; }
    DEVICE T raw() const { return same; }
};

/* One value on the device that serves all elements, and is written by none of them: read once. */
template <class T> struct Same {
    using element = T;
    static constexpr bool written = false;
    const T *pointer;
    size_t count;
    DEVICE T at(Place) const { return *pointer; }
    DEVICE SamePack<T> pack(Place) const { return {*pointer}; }
    DEVICE const T *raw() const { return pointer; }
};

/* An output that nobody wants. */
struct Sink {
    DEVICE void operator=(float) const {}
};

struct SinkPack {
    DEVICE Sink value(int) const { return {}; }
    DEVICE void store() const {}
};

struct Nothing {
    DEVICE Sink at(Place) const { return {}; }
    DEVICE SinkPack pack(Place) const { return {}; }
};

/* The element's own index, as a number. */
struct IndexPack {
    size_t first;
    DEVICE size_t value(int i) const { return first + static_cast<size_t>(i); }
    DEVICE void store() const {}
};

struct Index {
    DEVICE size_t at(Place place) const { return place.index; }
    DEVICE IndexPack pack(Place place) const { return {place.index}; }
};

/* An optional buffer is a null pointer: then it reaches nowhere. */
template <class T> inline In<T> in(const T *pointer, size_t count) { return {pointer, pointer ? count : 0}; }
template <class T> inline Out<T> out(T *pointer, size_t count) { return {pointer, pointer ? count : 0}; }
template <class T> inline InOut<T> inout(T *pointer, size_t count) { return {pointer, pointer ? count : 0}; }
template <class T> inline ColumnIn<T> by_column(const T *pointer, size_t count) { return {pointer, count}; }
template <class T> inline Value<T> value(T same) { return {same}; }
template <class T> inline Same<T> same(const T *pointer) { return {pointer, 1}; }
inline Nothing nothing() { return {}; }
inline Index index() { return {}; }

} // namespace kernel

#ifdef __CUDACC__
#include "kernels/kernel_cuda.h"
#else
#include "kernels/kernel_soft.h"
#endif

#endif
