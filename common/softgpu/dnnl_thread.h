/* SPDX-License-Identifier: MIT
 *
 * What each thread has of oneDNN's: an engine, a stream, and the primitives made so far, found by shape. So nothing is shared,
 * locked or allocated once a shape has been seen. oneDNN's own threads are switched off; the soft GPU's cores share the work.
 */
#ifndef SOFTGPU_DNNL_THREAD_H
#define SOFTGPU_DNNL_THREAD_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stddef.h>

/* All that a primitive depends on, what it computes among it; unused words are 0. */
struct dnnl_key {
    long long words[18];
};
enum dnnl_kind { DNNL_KIND_PRODUCT = 1, DNNL_KIND_CONVOLUTION }; /* the key's first word */

/* What was made for a key; what is not used is NULL. The memories' buffers are set before each run. */
struct dnnl_prepared {
    struct dnnl_prepared *next;
    struct dnnl_key key;
    dnnl_primitive_t primitives[2];
    dnnl_memory_t memories[4];
    size_t scratch_bytes; /* that a run needs */
};

struct dnnl_thread;

/* The calling thread's, opened by its first call and closed by its end; NULL: oneDNN can't, or there is no memory. */
struct dnnl_thread *dnnl_thread_get(void);
dnnl_stream_t dnnl_thread_stream(const struct dnnl_thread *thread);

/* Fills primitives, memories and scratch_bytes for `shape`. On failure what it has made is destroyed by the caller. */
typedef dnnl_status_t dnnl_maker(struct dnnl_prepared *made, dnnl_engine_t engine, const void *shape);

/* The primitives for this key, made on first use from the shape that it stands for; NULL if oneDNN can't. */
struct dnnl_prepared *dnnl_thread_prepare(struct dnnl_thread *thread, const struct dnnl_key *key, dnnl_maker *make,
                                          const void *shape);

/* At least so many bytes, aligned to 64, valid until the thread's next call; NULL: no memory (or bytes is 0 at first). */
void *dnnl_thread_scratch(struct dnnl_thread *thread, size_t bytes);

#endif
