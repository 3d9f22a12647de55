/* SPDX-License-Identifier: MIT
 *
 * Pinned host memory: the only host memory that asynchronous copies accept, because only there a GPU copies while the
 * host goes on.
 */
#include <stdlib.h>

#include "core.h"
#include "sys/fault.h"

#define PINNED_ALIGNMENT 4096

struct pinned {
    struct pinned *next;
    char *memory;
    size_t bytes;
};

static struct soft_lock lock;
static struct pinned *ranges;

bool soft_pinned(const void *pointer, size_t bytes)
{
    bool inside = false;
    soft_lock(&lock, "pinned memory");
    for (const struct pinned *range = ranges; range && !inside; range = range->next) {
        size_t into = (size_t)((uintptr_t)pointer - (uintptr_t)range->memory);
        inside = into < range->bytes && bytes <= range->bytes - into;
    }
    soft_unlock(&lock);
    return inside;
}

softError_t softMallocHost(void **pointer, size_t bytes)
{
    SOFT_HOST_CALL("cudaMallocHost");
    if (!pointer)
        return soft_fail(softErrorInvalidValue, "cudaMallocHost: NULL");
    *pointer = NULL;
    if (bytes == 0)
        return softSuccess;
    if (fault_allocation())
        return soft_fail(softErrorMemoryAllocation, "cudaMallocHost: planted failure of an allocation of %zu bytes",
                         bytes);
    struct pinned *range = hidden_alloc(sizeof(*range));
    void *memory = NULL;
    if (!range || posix_memalign(&memory, PINNED_ALIGNMENT, bytes)) {
        hidden_free(range);
        return soft_fail(softErrorMemoryAllocation, "cudaMallocHost: no memory for %zu bytes", bytes);
    }
    range->memory = memory;
    range->bytes = bytes;
    soft_lock(&lock, "pinned memory");
    range->next = ranges;
    ranges = range;
    soft_unlock(&lock);
    *pointer = memory;
    return softSuccess;
}

static void drain_current(struct soft_device *device, void *context)
{
    (void)context;
    if (device->map.ordinal == soft_current_ordinal())
        soft_device_drain(device);
}

/* As CUDA does, waits for the current device's work first: a copy may still use the memory. */
softError_t softFreeHost(void *pointer)
{
    SOFT_HOST_CALL("cudaFreeHost");
    if (!pointer)
        return softSuccess;
    soft_devices_visit(drain_current, NULL);
    if (softDevicesLost())
        return soft_fail(softErrorLaunchTimeout, "cudaFreeHost: a device that has not finished may still use %p", pointer);
    soft_lock(&lock, "pinned memory");
    struct pinned **link = &ranges;
    while (*link && (*link)->memory != pointer)
        link = &(*link)->next;
    struct pinned *range = *link;
    if (range)
        *link = range->next;
    soft_unlock(&lock);
    if (!range)
        return soft_fail(softErrorInvalidValue, "cudaFreeHost: %p does not come from cudaMallocHost", pointer);
    free(range->memory);
    hidden_free(range);
    return softSuccess;
}
