/* SPDX-License-Identifier: MIT
 *
 * cuBLAS's names on the soft GPU: handles, checks, and the launch of a product.
 *
 * A product is cut into tiles of C that depend on its shape alone; the device's cores share them, each computing whole tiles
 * by itself. So its bits do not depend on the cores (those of oneDNN change with the size of a tile), and no second pool of
 * threads is needed.
 */
#include "config.h"

#include "blas.h"

#include <stdlib.h>

#include "internal.h"
#include "library_calls.h"
#include "sys/log.h"

#if HAVE_DNNL
const struct blas_engine *const blas_native = &blas_dnnl;
#else
const struct blas_engine *const blas_native = &blas_plain;
#endif

/* Smaller tiles keep more cores busy, larger ones waste less on packing: 256 is some 5 % slower on one core. But a long sum over
 * the rows of B (a weight's gradient) falls out of the cache: with gpt-nano's narrow matrices 512 is slower there (10 % of all its
 * products in fp32), with gpt-micro's wide ones 128 is (5 % in bf16). */
#define TILE_MOST 512
#define TILE_LONG 256
#define LONG_SUM 512
/* Less than this is not worth a part of its own in a batch (some 40 us of one core). */
#define GROUP_FLOPS 4e6

struct softBlas {
    softStream_t stream;
};

static const struct blas_engine *engine_for(softDataType_t type_ab, softDataType_t type_c)
{
    return blas_native->supports(type_ab, type_c) ? blas_native : &blas_convert;
}

/* ---- what the thread sanitizer is told ----------------------------------------------------------------------------------- */

static void annotate(const void *matrix, int rows, int columns, int ld, size_t size, bool written)
{
    for (int column = 0; column < columns; column++)
        library_touches((const char *)matrix + (size_t)column * (size_t)ld * size, (size_t)rows * size, written);
}

static void annotate_entry(const struct blas_product *p)
{
    const size_t size = blas_type_size(p->type_ab);
    if (p->k > 0) {
        annotate(p->a, p->transpose_a ? p->k : p->m, p->transpose_a ? p->m : p->k, p->lda, size, false);
        annotate(p->b, p->transpose_b ? p->n : p->k, p->transpose_b ? p->k : p->n, p->ldb, size, false);
    }
    annotate(p->c, p->m, p->n, p->ldc, blas_type_size(p->type_c), true);
}

static void annotate_product(const struct blas_product *p)
{
    for (int i = 0; i < p->batch; i++) {
        const struct blas_product entry = blas_entries(p, i, 1);
        annotate_entry(&entry);
    }
}

/* ---- tiles ------------------------------------------------------------------------------------------------------------- */

/* A launch's arguments. */
struct work {
    struct blas_product product;
    struct soft_device *device;
};

/* Equal tiles of at most `most`, their size a multiple of 16. */
static int tile_size(int extent, int most)
{
    int tiles = (extent + most - 1) / most;
    return (((extent + tiles - 1) / tiles + 15) / 16) * 16;
}

static int tile_most(const struct blas_product *p)
{
    return p->transpose_b && p->k > LONG_SUM ? TILE_LONG : TILE_MOST;
}

static unsigned tile_count(int extent, int most)
{
    int size = tile_size(extent, most);
    return (unsigned)((extent + size - 1) / size);
}

/* Without a matrix (an operand of a product with k = 0) there is none. */
static const void *element(const void *matrix, softDataType_t type, size_t row, size_t column, int ld)
{
    return matrix ? (const char *)matrix + (row + column * (size_t)ld) * blas_type_size(type) : NULL;
}

static struct blas_product tile_of(const struct blas_product *whole, unsigned tile)
{
    const int most = tile_most(whole), size_m = tile_size(whole->m, most), size_n = tile_size(whole->n, most);
    const unsigned tiles_m = tile_count(whole->m, most);
    const int first_m = (int)(tile % tiles_m) * size_m, first_n = (int)(tile / tiles_m) * size_n;
    struct blas_product part = *whole;
    part.m = whole->m - first_m < size_m ? whole->m - first_m : size_m;
    part.n = whole->n - first_n < size_n ? whole->n - first_n : size_n;
    const size_t m = (size_t)first_m, n = (size_t)first_n;
    part.a = whole->transpose_a ? element(whole->a, whole->type_ab, 0, m, whole->lda)
                                : element(whole->a, whole->type_ab, m, 0, whole->lda);
    part.b = whole->transpose_b ? element(whole->b, whole->type_ab, n, 0, whole->ldb)
                                : element(whole->b, whole->type_ab, 0, n, whole->ldb);
    part.c = (void *)(uintptr_t)element(whole->c, whole->type_c, m, n, whole->ldc);
    return part;
}

/* A batch is cut into groups of whole entries, never within one. */
static int group_size(const struct blas_product *p)
{
    const double entries = GROUP_FLOPS / (2.0 * p->m * p->n * (p->k > 0 ? p->k : 1));
    return entries >= p->batch ? p->batch : 1 + (int)entries;
}

static unsigned part_count(const struct blas_product *p)
{
    if (p->batch > 1)
        return (unsigned)((p->batch + group_size(p) - 1) / group_size(p));
    return tile_count(p->m, tile_most(p)) * tile_count(p->n, tile_most(p));
}

static struct blas_product part_of(const struct blas_product *whole, unsigned part)
{
    if (whole->batch == 1)
        return tile_of(whole, part);
    const int size = group_size(whole), first = (int)part * size;
    return blas_entries(whole, first, whole->batch - first < size ? whole->batch - first : size);
}

static void product_body(const void *arguments, unsigned block, unsigned blocks)
{
    const struct work *work = arguments;
    const struct blas_product *whole = &work->product;
    const unsigned parts = part_count(whole);
    const unsigned begin = (unsigned)((uint64_t)parts * block / blocks);
    const unsigned end = (unsigned)((uint64_t)parts * (block + 1) / blocks);
    for (unsigned i = begin; i < end; i++) {
        const struct blas_product part = part_of(whole, i);
        annotate_product(&part);
        const struct blas_engine *able = part.k == 0 ? &blas_plain : engine_for(part.type_ab, part.type_c);
        library_look_away(true);
        const char *failure = able->run(&part);
        library_look_away(false);
        if (failure)
            soft_device_fail(work->device, softErrorLaunchFailure, "gemm %d x %d x %d: %s: %s", part.m, part.n, part.k,
                             able->name, failure);
    }
}

/* ---- API --------------------------------------------------------------------------------------------------------------- */

softBlasStatus_t softBlasCreate(softBlasHandle_t *handle)
{
    if (!handle)
        return SOFTBLAS_STATUS_INVALID_VALUE;
#if !HAVE_DNNL
    static bool said;
    if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
        log_info("built without oneDNN: products run in plain loops, several times slower");
#endif
    *handle = calloc(1, sizeof **handle);
    return *handle ? SOFTBLAS_STATUS_SUCCESS : SOFTBLAS_STATUS_ALLOC_FAILED;
}

softBlasStatus_t softBlasDestroy(softBlasHandle_t handle)
{
    if (!handle)
        return SOFTBLAS_STATUS_NOT_INITIALIZED;
    free(handle);
    return SOFTBLAS_STATUS_SUCCESS;
}

softBlasStatus_t softBlasSetStream(softBlasHandle_t handle, softStream_t stream)
{
    if (!handle)
        return SOFTBLAS_STATUS_NOT_INITIALIZED;
    handle->stream = stream;
    return SOFTBLAS_STATUS_SUCCESS;
}

const char *softBlasGetStatusString(softBlasStatus_t status)
{
    switch (status) {
    case SOFTBLAS_STATUS_SUCCESS: return "the operation completed successfully";
    case SOFTBLAS_STATUS_NOT_INITIALIZED: return "the handle is not initialized";
    case SOFTBLAS_STATUS_ALLOC_FAILED: return "a resource could not be allocated";
    case SOFTBLAS_STATUS_INVALID_VALUE: return "an unsupported value or parameter was passed";
    case SOFTBLAS_STATUS_EXECUTION_FAILED: return "the product could not be launched";
    case SOFTBLAS_STATUS_INTERNAL_ERROR: return "an internal operation failed";
    case SOFTBLAS_STATUS_NOT_SUPPORTED: return "the functionality requested is not supported";
    }
    return "unknown status";
}

static bool known_type(softDataType_t type) { return type == SOFT_R_32F || type == SOFT_R_16F || type == SOFT_R_16BF; }

static bool valid(const struct blas_product *p)
{
    const int rows_a = p->transpose_a ? p->k : p->m, rows_b = p->transpose_b ? p->n : p->k;
    if (p->m < 0 || p->n < 0 || p->k < 0 || p->lda < 1 || p->ldb < 1 || p->ldc < 1) {
        soft_fail(softErrorInvalidValue, "gemm: m %d, n %d, k %d must be at least 0, lda %d, ldb %d, ldc %d at least 1", p->m,
                  p->n, p->k, p->lda, p->ldb, p->ldc);
        return false;
    }
    if (p->lda < rows_a || p->ldb < rows_b || p->ldc < p->m) {
        soft_fail(softErrorInvalidValue, "gemm: lda %d, ldb %d, ldc %d must be at least the rows %d, %d, %d", p->lda, p->ldb,
                  p->ldc, rows_a, rows_b, p->m);
        return false;
    }
    if (p->batch < 0 || p->stride_a < 0 || p->stride_b < 0 || (p->batch > 1 && p->stride_c < (long long)p->ldc * (p->n - 1) + p->m)) {
        soft_fail(softErrorInvalidValue, "gemm: batch %d, strides %lld, %lld must be at least 0, that of C (%lld) its extent",
                  p->batch, p->stride_a, p->stride_b, p->stride_c);
        return false;
    }
    return true;
}

/* A matrix as stored, the first of its batch: rows x columns with leading dimension ld. */
struct stored {
    const void *matrix;
    int rows, columns, ld;
    long long stride;
};

/* Device -> kernel address of the whole batch. */
static softError_t translate(softStream_t stream, const struct blas_product *p, const struct stored *m, softDataType_t type,
                             bool written, void **translated)
{
    const size_t before = (size_t)(p->batch - 1) * (size_t)m->stride;
    const size_t elements = before + (size_t)(m->columns - 1) * (size_t)m->ld + (size_t)m->rows;
    const struct soft_span span = {m->matrix, elements * blas_type_size(type), written};
    return softTranslate(stream, "gemm", &span, translated);
}

static softError_t translate_product(softStream_t stream, struct blas_product *p)
{
    const struct stored stored_a = {p->a, p->transpose_a ? p->k : p->m, p->transpose_a ? p->m : p->k, p->lda, p->stride_a};
    const struct stored stored_b = {p->b, p->transpose_b ? p->n : p->k, p->transpose_b ? p->k : p->n, p->ldb, p->stride_b};
    const struct stored stored_c = {p->c, p->m, p->n, p->ldc, p->stride_c};
    void *a = NULL, *b = NULL, *c = NULL;
    softError_t error = translate(stream, p, &stored_c, p->type_c, true, &c);
    if (!error && p->k > 0)
        error = translate(stream, p, &stored_a, p->type_ab, false, &a);
    if (!error && p->k > 0)
        error = translate(stream, p, &stored_b, p->type_ab, false, &b);
    p->a = a;
    p->b = b;
    p->c = c;
    return error;
}

static softBlasStatus_t enqueue(softStream_t stream, struct blas_product *p)
{
    if (translate_product(stream, p))
        return SOFTBLAS_STATUS_EXECUTION_FAILED;
    const double m = p->m, n = p->n, k = p->k, batch = p->batch;
    const double size = (double)blas_type_size(p->type_ab), size_c = (double)blas_type_size(p->type_c);
    const double read_a = m * k * (p->stride_a ? batch : 1), read_b = k * n * (p->stride_b ? batch : 1);
    const struct soft_cost cost = {.name = batch > 1 ? "gemm_batched" : "gemm", .flops = 2 * m * n * k * batch, .product = true,
                                   .type = (uint32_t)p->type_ab + 1,
                                   .bytes = (read_a + read_b) * size + m * n * batch * size_c * (p->beta != 0 ? 2 : 1)};
    const struct work work = {*p, soft_stream_device(stream)};
    return softLaunch(stream, &cost, product_body, &work, sizeof work, part_count(p)) ? SOFTBLAS_STATUS_EXECUTION_FAILED
                                                                                      : SOFTBLAS_STATUS_SUCCESS;
}

/* Once the arguments are known to be some: are they right, and is there anything to do? */
static softBlasStatus_t check_and_enqueue(softStream_t stream, struct blas_product *p)
{
    if (!valid(p))
        return SOFTBLAS_STATUS_INVALID_VALUE;
    if (p->alpha == 0)
        p->k = 0;
    if (p->batch == 0 || p->m == 0 || p->n == 0 || (p->k == 0 && p->beta == 1))
        return SOFTBLAS_STATUS_SUCCESS;
    if (p->k == 0 && p->beta != 0 && p->type_c != SOFT_R_32F)
        return SOFTBLAS_STATUS_NOT_SUPPORTED;
    return enqueue(stream, p);
}

softBlasStatus_t softBlasGemmStridedBatchedEx(softBlasHandle_t handle, softBlasOperation_t op_a, softBlasOperation_t op_b,
                                              int m, int n, int k, const void *alpha, const void *a,
                                              softDataType_t a_type, int lda, long long stride_a, const void *b,
                                              softDataType_t b_type, int ldb, long long stride_b, const void *beta,
                                              void *c, softDataType_t c_type, int ldc, long long stride_c, int batch,
                                              softBlasComputeType_t compute, softBlasGemmAlgo_t algorithm)
{
    SOFT_HOST_CALL("cublasGemmEx");
    if (!handle)
        return SOFTBLAS_STATUS_NOT_INITIALIZED;
    if (!alpha || !beta || (op_a != SOFTBLAS_OP_N && op_a != SOFTBLAS_OP_T) || (op_b != SOFTBLAS_OP_N && op_b != SOFTBLAS_OP_T) ||
        !known_type(a_type) || !known_type(b_type) || !known_type(c_type))
        return SOFTBLAS_STATUS_INVALID_VALUE;
    if (a_type != b_type || compute != SOFTBLAS_COMPUTE_32F || algorithm != SOFTBLAS_GEMM_DEFAULT ||
        !engine_for(a_type, c_type)->supports(a_type, c_type))
        return SOFTBLAS_STATUS_NOT_SUPPORTED;
    struct blas_product product = {
        .a = a, .b = b, .c = c, .m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc,
        .batch = batch, .stride_a = stride_a, .stride_b = stride_b, .stride_c = stride_c,
        .transpose_a = op_a == SOFTBLAS_OP_T, .transpose_b = op_b == SOFTBLAS_OP_T,
        .type_ab = a_type, .type_c = c_type, .alpha = *(const float *)alpha, .beta = *(const float *)beta,
    };
    return check_and_enqueue(handle->stream, &product);
}

softBlasStatus_t softBlasGemmEx(softBlasHandle_t handle, softBlasOperation_t op_a, softBlasOperation_t op_b, int m, int n,
                                int k, const void *alpha, const void *a, softDataType_t a_type, int lda, const void *b,
                                softDataType_t b_type, int ldb, const void *beta, void *c, softDataType_t c_type, int ldc,
                                softBlasComputeType_t compute, softBlasGemmAlgo_t algorithm)
{
    return softBlasGemmStridedBatchedEx(handle, op_a, op_b, m, n, k, alpha, a, a_type, lda, 0, b, b_type, ldb, 0, beta, c, c_type,
                                        ldc, 0, 1, compute, algorithm);
}
