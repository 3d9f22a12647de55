/* SPDX-License-Identifier: MIT
 *
 * Tagged device memory: a table of live allocations, with current and peak bytes per device and category.
 */
#include "gpu/memory.h"

#include <pthread.h>
#include <stdlib.h>

#include "gpu/gpu.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define MAX_DEVICES 64

struct allocation {
    void *pointer;
    size_t bytes;
    int device;
    enum memory_category category;
};

struct usage {
    size_t current[MEMORY_CATEGORIES], peak[MEMORY_CATEGORIES];
    size_t total, peak_total;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct allocation *allocations;
static size_t allocation_count, allocation_room;
static struct usage usages[MAX_DEVICES];
static size_t limit;

const char *memory_category_name(enum memory_category category)
{
    static const char *const names[MEMORY_CATEGORIES] = {
        [MEMORY_PARAMETERS] = "parameters", [MEMORY_GRADIENTS] = "gradients",         [MEMORY_OPTIMIZER] = "optimizer",
        [MEMORY_ACTIVATIONS] = "activations", [MEMORY_OUTPUTS] = "outputs", [MEMORY_COMMUNICATION] = "communication",
        [MEMORY_DATA] = "data",
    };
    return names[category];
}

static void raise_to(size_t *peak, size_t current)
{
    if (*peak < current)
        *peak = current;
}

/* Both under the lock. */
static void count(int device, enum memory_category category, size_t bytes)
{
    struct usage *usage = &usages[device];
    usage->current[category] += bytes;
    usage->total += bytes;
    raise_to(&usage->peak[category], usage->current[category]);
    raise_to(&usage->peak_total, usage->total);
}

static int make_room(void)
{
    if (allocation_count < allocation_room)
        return EXIT_OK;
    size_t room = allocation_room ? 2 * allocation_room : 64;
    struct allocation *grown = realloc(allocations, room * sizeof *grown);
    if (!grown)
        return EXIT_RESOURCE;
    allocations = grown;
    allocation_room = room;
    return EXIT_OK;
}

static int refuse(int device, enum memory_category category, size_t bytes, size_t most)
{
    log_error("device %d: %zu bytes of memory for %s do not fit: %zu are in use, at most %zu are allowed", device, bytes,
              memory_category_name(category), usages[device].total, most);
    return EXIT_RESOURCE;
}

static int allocate(void **pointer, size_t bytes, enum memory_category category)
{
    int device = 0;
    GPU_TRY(cudaGetDevice(&device));
    if (device >= MAX_DEVICES) {
        log_error("device %d: at most %d devices are supported", device, MAX_DEVICES);
        return EXIT_RESOURCE;
    }
    if (limit && (bytes > limit || usages[device].total > limit - bytes))
        return refuse(device, category, bytes, limit);
    if (make_room()) {
        log_error("no host memory for the list of %zu device allocations", allocation_count + 1);
        return EXIT_RESOURCE;
    }
    void *fresh = NULL;
    cudaError_t error = cudaMalloc(&fresh, bytes);
    if (error == cudaErrorMemoryAllocation) {
        size_t free_bytes = 0, total_bytes = 0;
        cudaGetLastError();
        if (cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess)
            return refuse(device, category, bytes, total_bytes);
    }
    GPU_TRY(error);
    allocations[allocation_count++] = (struct allocation){fresh, bytes, device, category};
    count(device, category, bytes);
    *pointer = fresh;
    return EXIT_OK;
}

int gpu_malloc(void **pointer, size_t bytes, enum memory_category category)
{
    *pointer = NULL;
    if (bytes == 0)
        return EXIT_OK;
    pthread_mutex_lock(&lock);
    int status = allocate(pointer, bytes, category);
    pthread_mutex_unlock(&lock);
    return status;
}

void gpu_free(void *pointer)
{
    if (!pointer)
        return;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < allocation_count; i++) {
        if (allocations[i].pointer != pointer)
            continue;
        struct usage *usage = &usages[allocations[i].device];
        usage->current[allocations[i].category] -= allocations[i].bytes;
        usage->total -= allocations[i].bytes;
        allocations[i] = allocations[--allocation_count];
        break;
    }
    cudaFree(pointer);
    pthread_mutex_unlock(&lock);
}

static size_t read_locked(const size_t *value)
{
    pthread_mutex_lock(&lock);
    size_t bytes = *value;
    pthread_mutex_unlock(&lock);
    return bytes;
}

size_t memory_current(int device, enum memory_category category)
{
    return read_locked(&usages[device].current[category]);
}

size_t memory_peak(int device, enum memory_category category) { return read_locked(&usages[device].peak[category]); }

size_t memory_peak_total(int device) { return read_locked(&usages[device].peak_total); }

void memory_reset_peaks(void)
{
    pthread_mutex_lock(&lock);
    for (int device = 0; device < MAX_DEVICES; device++) {
        struct usage *usage = &usages[device];
        for (int category = 0; category < MEMORY_CATEGORIES; category++)
            usage->peak[category] = usage->current[category];
        usage->peak_total = usage->total;
    }
    pthread_mutex_unlock(&lock);
}

void memory_set_limit(size_t bytes)
{
    pthread_mutex_lock(&lock);
    limit = bytes;
    pthread_mutex_unlock(&lock);
}
