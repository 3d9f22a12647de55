/* SPDX-License-Identifier: MIT
 *
 * Folds run block by block: a block of every input is combined while it lies in the first-level cache, so each cache
 * line of an input is read once and each of an output written once, however many ranks there are.
 */
#include "collective_fold.h"

#include <string.h>

#include "widen.h"

#if defined(__SANITIZE_THREAD__)
#define STREAMED_STORES 0 /* the thread sanitizer must see the writes */
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define STREAMED_STORES 0
#endif
#endif
#if !defined(STREAMED_STORES)
#if defined(__SSE2__)
#include <emmintrin.h>
#define STREAMED_STORES 1
#else
#define STREAMED_STORES 0
#endif
#endif

/* Elements a block: 1024 floats (4 KiB) of each input and output stay in a first-level cache of 32 KiB also with
 * several ranks. Not sensitive: 512 to 4096 measured alike with two ranks. */
#define FOLD_BLOCK 1024

typedef void combine_function(void *out, const void *a, const void *b, size_t count);

/* out may be a or b, element for element: no iteration depends on another, which the compiler can't know by itself. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#define DEFINE_COMBINE(name, type, expression)                                                                         \
    static void name(void *out, const void *a, const void *b, size_t count)                                            \
    {                                                                                                                  \
        type *to = out;                                                                                                \
        const type *left = a, *right = b;                                                                              \
        INDEPENDENT                                                                                                    \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const type x = left[i], y = right[i];                                                                      \
            to[i] = (type)(expression);                                                                                \
        }                                                                                                              \
    }

/* Sums and products of integers are made unsigned: they wrap, and signed and unsigned wrap to the same bits. */
DEFINE_COMBINE(sum_8, uint8_t, x + y)
DEFINE_COMBINE(sum_32, uint32_t, x + y)
DEFINE_COMBINE(sum_64, uint64_t, x + y)
DEFINE_COMBINE(sum_f32, float, x + y)
DEFINE_COMBINE(sum_f64, double, x + y)
DEFINE_COMBINE(prod_8, uint8_t, x *y)
DEFINE_COMBINE(prod_32, uint32_t, x *y)
DEFINE_COMBINE(prod_64, uint64_t, x *y)
DEFINE_COMBINE(prod_f32, float, x *y)
DEFINE_COMBINE(prod_f64, double, x *y)
DEFINE_COMBINE(max_i8, int8_t, y > x ? y : x)
DEFINE_COMBINE(max_u8, uint8_t, y > x ? y : x)
DEFINE_COMBINE(max_i32, int32_t, y > x ? y : x)
DEFINE_COMBINE(max_u32, uint32_t, y > x ? y : x)
DEFINE_COMBINE(max_i64, int64_t, y > x ? y : x)
DEFINE_COMBINE(max_u64, uint64_t, y > x ? y : x)
DEFINE_COMBINE(max_f32, float, y > x || x != x ? y : x)
DEFINE_COMBINE(max_f64, double, y > x || x != x ? y : x)
DEFINE_COMBINE(min_i8, int8_t, y < x ? y : x)
DEFINE_COMBINE(min_u8, uint8_t, y < x ? y : x)
DEFINE_COMBINE(min_i32, int32_t, y < x ? y : x)
DEFINE_COMBINE(min_u32, uint32_t, y < x ? y : x)
DEFINE_COMBINE(min_i64, int64_t, y < x ? y : x)
DEFINE_COMBINE(min_u64, uint64_t, y < x ? y : x)
DEFINE_COMBINE(min_f32, float, y < x || x != x ? y : x)
DEFINE_COMBINE(min_f64, double, y < x || x != x ? y : x)

static const struct fold_type {
    const char *name;
    size_t bytes;
    void (*widen)(float *restrict to, const void *restrict from, size_t count); /* NULL: folded as it is */
    void (*narrow)(void *restrict to, const float *restrict from, size_t count);
    combine_function *combine[4]; /* by softNcclRedOp_t; of float32 where there is a widen */
} fold_types[] = {
    [softNcclInt8] = {"int8", 1, NULL, NULL, {sum_8, prod_8, max_i8, min_i8}},
    [softNcclUint8] = {"uint8", 1, NULL, NULL, {sum_8, prod_8, max_u8, min_u8}},
    [softNcclInt32] = {"int32", 4, NULL, NULL, {sum_32, prod_32, max_i32, min_i32}},
    [softNcclUint32] = {"uint32", 4, NULL, NULL, {sum_32, prod_32, max_u32, min_u32}},
    [softNcclInt64] = {"int64", 8, NULL, NULL, {sum_64, prod_64, max_i64, min_i64}},
    [softNcclUint64] = {"uint64", 8, NULL, NULL, {sum_64, prod_64, max_u64, min_u64}},
    [softNcclFloat16] = {"float16", 2, widen_float16, narrow_float16, {sum_f32, prod_f32, max_f32, min_f32}},
    [softNcclFloat32] = {"float32", 4, NULL, NULL, {sum_f32, prod_f32, max_f32, min_f32}},
    [softNcclFloat64] = {"float64", 8, NULL, NULL, {sum_f64, prod_f64, max_f64, min_f64}},
    [softNcclBfloat16] = {"bfloat16", 2, widen_bfloat16, narrow_bfloat16, {sum_f32, prod_f32, max_f32, min_f32}},
};

static const struct fold_type *type_of(softNcclDataType_t type)
{
    return (unsigned)type < sizeof fold_types / sizeof *fold_types ? &fold_types[type] : NULL;
}

size_t fold_element_bytes(softNcclDataType_t type)
{
    return type_of(type) ? type_of(type)->bytes : 0;
}

const char *fold_type_name(softNcclDataType_t type)
{
    return type_of(type) ? type_of(type)->name : "unknown type";
}

const char *fold_operation_name(softNcclRedOp_t op)
{
    static const char *const names[] = {"sum", "prod", "max", "min"};
    return (unsigned)op < sizeof names / sizeof *names ? names[op] : "unknown operation";
}

/* One block of a type that is folded as it is: the last combination writes the first output. */
static void fold_block(void *first_out, const void *const *in, int ins, size_t at, size_t count, size_t bytes,
                       combine_function *combine)
{
    _Alignas(64) unsigned char running[FOLD_BLOCK * sizeof(double)];
    const void *left = (const char *)in[0] + at * bytes;
    for (int k = 1; k < ins; k++) {
        void *to = k == ins - 1 ? first_out : running;
        combine(to, left, (const char *)in[k] + at * bytes, count);
        left = to;
    }
    if (ins == 1 && first_out != left)
        memcpy(first_out, left, count * bytes);
}

static void fold_block_widened(void *first_out, const void *const *in, int ins, size_t at, size_t count,
                               const struct fold_type *type, combine_function *combine)
{
    _Alignas(64) float running[FOLD_BLOCK], next[FOLD_BLOCK];
    type->widen(running, (const char *)in[0] + at * type->bytes, count);
    for (int k = 1; k < ins; k++) {
        type->widen(next, (const char *)in[k] + at * type->bytes, count);
        combine(running, running, next, count);
    }
    type->narrow(first_out, running, count);
}

/* A large output that is no input is in no cache: stores that pass round the caches spare reading its lines first
 * (measured, out of place, 2 ranks, 32 MiB: 10 ms a call against 20). Below this size a reader would rather find it in
 * the cache. */
#define STREAM_FROM_BYTES (512u << 10)

static bool is_streamed(const void *out, const void *const *in, int ins, size_t bytes)
{
    bool apart = STREAMED_STORES && bytes >= STREAM_FROM_BYTES;
    for (int k = 0; k < ins; k++)
        apart = apart && in[k] != out;
    return apart;
}

#if STREAMED_STORES
static void stream_copy(char *to, const char *from, size_t bytes)
{
    const size_t head = (16 - ((uintptr_t)to & 15)) & 15;
    size_t at = head < bytes ? head : bytes;
    memcpy(to, from, at);
    for (; at + 64 <= bytes; at += 64) {
        const __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(from + at));
        const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + at + 16));
        const __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + at + 32));
        const __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + at + 48));
        _mm_stream_si128((__m128i *)(void *)(to + at), a);
        _mm_stream_si128((__m128i *)(void *)(to + at + 16), b);
        _mm_stream_si128((__m128i *)(void *)(to + at + 32), c);
        _mm_stream_si128((__m128i *)(void *)(to + at + 48), d);
    }
    memcpy(to + at, from + at, bytes - at);
}
#define STREAM_FENCE() _mm_sfence()
#else
#define stream_copy memcpy
#define STREAM_FENCE() ((void)0)
#endif

void fold(void *const *out, int outs, const void *const *in, int ins, size_t count, softNcclDataType_t type,
          softNcclRedOp_t op)
{
    const struct fold_type *kind = &fold_types[type];
    const size_t bytes = kind->bytes;
    const bool streamed = is_streamed(out[0], in, ins, count * bytes); /* in place is in place everywhere, or nowhere */
    _Alignas(64) unsigned char result[FOLD_BLOCK * sizeof(double)];
    for (size_t at = 0; at < count; at += FOLD_BLOCK) {
        const size_t n = count - at < FOLD_BLOCK ? count - at : FOLD_BLOCK;
        void *first_out = streamed ? (void *)result : (char *)out[0] + at * bytes;
        if (kind->widen)
            fold_block_widened(first_out, in, ins, at, n, kind, kind->combine[op]);
        else
            fold_block(first_out, in, ins, at, n, bytes, kind->combine[op]);
        for (int k = streamed ? 0 : 1; k < outs; k++) {
            if (streamed)
                stream_copy((char *)out[k] + at * bytes, first_out, n * bytes);
            else
                memcpy((char *)out[k] + at * bytes, first_out, n * bytes);
        }
    }
    if (streamed)
        STREAM_FENCE();
}
