/* SPDX-License-Identifier: MIT */
#include "config.h"

#if HAVE_DNNL

#include "dnnl_thread.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 64

struct dnnl_thread {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    void *scratch;
    size_t scratch_bytes;
    struct dnnl_prepared *buckets[BUCKETS];
};

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

static void prepared_free(struct dnnl_prepared *prepared)
{
    for (size_t i = 0; i < sizeof prepared->memories / sizeof prepared->memories[0]; i++)
        if (prepared->memories[i])
            dnnl_memory_destroy(prepared->memories[i]);
    for (size_t i = 0; i < sizeof prepared->primitives / sizeof prepared->primitives[0]; i++)
        if (prepared->primitives[i])
            dnnl_primitive_destroy(prepared->primitives[i]);
    free(prepared);
}

static void thread_free(void *pointer)
{
    struct dnnl_thread *thread = pointer;
    for (int i = 0; i < BUCKETS; i++) {
        for (struct dnnl_prepared *p = thread->buckets[i], *next; p; p = next) {
            next = p->next;
            prepared_free(p);
        }
    }
    if (thread->stream)
        dnnl_stream_destroy(thread->stream);
    if (thread->engine)
        dnnl_engine_destroy(thread->engine);
    free(thread->scratch);
    free(thread);
}

/* The OpenMP library that oneDNN brought along is asked for one thread, in this thread: then no team is ever made. */
static void use_one_thread(void)
{
    void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    void (*set)(int);
    memcpy(&set, &symbol, sizeof set);
    if (set)
        set(1);
}

static void make_key(void) { pthread_key_create(&thread_key, thread_free); }

struct dnnl_thread *dnnl_thread_get(void)
{
    pthread_once(&thread_once, make_key);
    struct dnnl_thread *thread = pthread_getspecific(thread_key);
    if (thread)
        return thread;
    thread = calloc(1, sizeof *thread);
    if (!thread)
        return NULL;
    use_one_thread();
    if (dnnl_engine_create(&thread->engine, dnnl_cpu, 0) ||
        dnnl_stream_create(&thread->stream, thread->engine, dnnl_stream_default_flags) ||
        pthread_setspecific(thread_key, thread)) {
        thread_free(thread);
        return NULL;
    }
    return thread;
}

dnnl_stream_t dnnl_thread_stream(const struct dnnl_thread *thread)
{
    return thread->stream;
}

static struct dnnl_prepared **bucket_of(struct dnnl_thread *thread, const struct dnnl_key *key)
{
    unsigned long long hash = 0;
    for (size_t i = 0; i < sizeof key->words / sizeof key->words[0]; i++)
        hash = hash * 31 + (unsigned long long)key->words[i];
    return &thread->buckets[hash % BUCKETS];
}

struct dnnl_prepared *dnnl_thread_prepare(struct dnnl_thread *thread, const struct dnnl_key *key, dnnl_maker *make,
                                          const void *shape)
{
    struct dnnl_prepared **bucket = bucket_of(thread, key);
    for (struct dnnl_prepared *known = *bucket; known; known = known->next)
        if (memcmp(&known->key, key, sizeof *key) == 0)
            return known;
    struct dnnl_prepared *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->key = *key;
    if (make(made, thread->engine, shape)) {
        prepared_free(made);
        return NULL;
    }
    made->next = *bucket;
    *bucket = made;
    return made;
}

void *dnnl_thread_scratch(struct dnnl_thread *thread, size_t bytes)
{
    if (bytes <= thread->scratch_bytes)
        return thread->scratch;
    free(thread->scratch);
    thread->scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    thread->scratch_bytes = thread->scratch ? bytes : 0;
    return thread->scratch;
}

#endif
