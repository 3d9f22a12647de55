/* SPDX-License-Identifier: MIT
 *
 * What each thread has of oneDNN's: an engine and a stream. oneDNN's own threads are switched off in it.
 */
#ifndef SOFTGPU_DNNL_THREAD_H
#define SOFTGPU_DNNL_THREAD_H

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <string.h>

/* The OpenMP library that oneDNN brought along is asked for one thread, in this thread: then no team is ever made. */
static inline void dnnl_thread_use_one(void)
{
    void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    void (*set)(int);
    memcpy(&set, &symbol, sizeof set);
    if (set)
        set(1);
}

static inline bool dnnl_thread_open(dnnl_engine_t *engine, dnnl_stream_t *stream)
{
    dnnl_thread_use_one();
    return !dnnl_engine_create(engine, dnnl_cpu, 0) && !dnnl_stream_create(stream, *engine, dnnl_stream_default_flags);
}

static inline void dnnl_thread_close(dnnl_engine_t engine, dnnl_stream_t stream)
{
    if (stream)
        dnnl_stream_destroy(stream);
    if (engine)
        dnnl_engine_destroy(engine);
}

#endif
