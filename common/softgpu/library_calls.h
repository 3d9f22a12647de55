/* SPDX-License-Identifier: MIT
 *
 * The thread sanitizer does not see into oneDNN: it is told what a part of a product reads and writes. What it does see
 * of it, calls of libc's that it intercepts and locks of oneDNN's shared cache, is kept from it: it would take the one
 * for races and the other for an order between streams.
 */
#ifndef SOFTGPU_LIBRARY_CALLS_H
#define SOFTGPU_LIBRARY_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_THREAD__)
#define SOFT_ANNOTATE 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SOFT_ANNOTATE 1
#endif
#endif

#ifdef SOFT_ANNOTATE
void __tsan_read_range(void *address, long size);
void __tsan_write_range(void *address, long size);
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
void AnnotateIgnoreSyncBegin(const char *file, int line);
void AnnotateIgnoreSyncEnd(const char *file, int line);

static inline void library_look_away(bool away)
{
    (away ? AnnotateIgnoreReadsBegin : AnnotateIgnoreReadsEnd)(__FILE__, __LINE__);
    (away ? AnnotateIgnoreWritesBegin : AnnotateIgnoreWritesEnd)(__FILE__, __LINE__);
    (away ? AnnotateIgnoreSyncBegin : AnnotateIgnoreSyncEnd)(__FILE__, __LINE__);
}

static inline void library_touches(const void *memory, size_t bytes, bool written)
{
    (written ? __tsan_write_range : __tsan_read_range)((void *)(uintptr_t)memory, (long)bytes);
}
#else
static inline void library_look_away(bool away)
{
    (void)away;
}
static inline void library_touches(const void *memory, size_t bytes, bool written)
{
    (void)memory, (void)bytes, (void)written;
}
#endif
#endif
