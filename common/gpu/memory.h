/* SPDX-License-Identifier: MIT
 *
 * Tagged device memory: each allocation names its category; current and peak bytes per device and category.
 * Thread-safe. Bytes are those asked for (not the allocator's rounding).
 */
#ifndef GPU_MEMORY_H
#define GPU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

enum memory_category {
    MEMORY_PARAMETERS,
    MEMORY_GRADIENTS,
    MEMORY_OPTIMIZER,
    MEMORY_ACTIVATIONS,
    MEMORY_OUTPUTS,       /* logits and their gradient; in DP the gathered ones on device 0 too */
    MEMORY_COMMUNICATION, /* buckets, coalescing buffers */
    MEMORY_DATA,          /* inputs and labels */
    MEMORY_CATEGORIES,
};

const char *memory_category_name(enum memory_category category); /* "parameters", ... */

/* Allocates on the current device. 0 bytes: *pointer = NULL. Failure (device full, or --device-memory's limit):
 * reported with category, bytes asked, bytes in use and the limit; returns EXIT_RESOURCE and *pointer = NULL. */
int gpu_malloc(void **pointer, size_t bytes, enum memory_category category);

/* Has gpu_malloc failed for want of device memory since the process began? Tells it from a device that is not there. */
bool memory_was_refused(void);
/* From now on it has not: for a search that goes on after a refusal. */
void memory_forget_refusal(void);

/* Pinned host memory, freed by cudaFreeHost; else as gpu_malloc, and counted nowhere. */
int gpu_malloc_pinned(void **pointer, size_t bytes);

/* Frees what gpu_malloc gave; NULL is allowed. Any device may be current. */
void gpu_free(void *pointer);

/* Current and peak bytes of a device. */
size_t memory_current(int device, enum memory_category category);
size_t memory_peak(int device, enum memory_category category);
size_t memory_peak_total(int device); /* peak of the sum, not sum of the peaks */

/* Peaks := currents (between verification and timed steps). */
void memory_reset_peaks(void);

/* Bytes that a device may hold (0: no limit of ours); set by gpu_configure. */
void memory_set_limit(size_t bytes);

#endif
