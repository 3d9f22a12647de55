/* SPDX-License-Identifier: MIT
 *
 * Devices. One comes into being when it is first needed: counting devices or choosing one opens nothing, so a launcher
 * that only counts holds no device's memory.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core.h"
#include "record.h"

static struct soft_lock creation;
static struct soft_device *devices[SOFTGPU_MAX_DEVICES]; /* by ordinal; NULL: not yet in use */
static _Thread_local int current;

/* Room for guards and for the gaps that freed allocations leave, so that capacity can be used whole. */
static size_t map_bytes(size_t capacity)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (capacity + capacity / 8 + (64u << 20)) / page * page;
}

/* The two mappings: memory that only the soft GPU touches, and addresses that nobody can touch. */
static softError_t map_memory(struct soft_device_map *map, size_t capacity)
{
    map->map_bytes = map_bytes(capacity);
    map->memfd = memfd_create("soft-gpu", MFD_CLOEXEC);
    if (map->memfd < 0)
        return soft_fail(softErrorMemoryAllocation, "soft GPU %d: no memory file: %s", map->ordinal, strerror(errno));
    void *kernel = MAP_FAILED, *reserved = MAP_FAILED;
    if (!ftruncate(map->memfd, (off_t)map->map_bytes)) {
        kernel = mmap(NULL, map->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, map->memfd, 0);
        reserved = mmap(NULL, map->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (kernel != MAP_FAILED && reserved != MAP_FAILED) {
        map->kernel_base = kernel;
        map->device_base = reserved;
        return softSuccess;
    }
    int cause = errno;
    if (kernel != MAP_FAILED)
        munmap(kernel, map->map_bytes);
    if (reserved != MAP_FAILED)
        munmap(reserved, map->map_bytes);
    close(map->memfd);
    return soft_fail(softErrorMemoryAllocation,
                     "soft GPU %d: can't map twice %zu MiB of addresses for a capacity of %zu MiB: %s", map->ordinal,
                     map->map_bytes >> 20, capacity >> 20, strerror(cause));
}

static struct soft_device *create(int ordinal)
{
    const struct soft_settings *settings = soft_settings();
    struct soft_device *device = hidden_alloc(sizeof(*device));
    if (!device) {
        soft_fail(softErrorMemoryAllocation, "soft GPU %d: no memory", ordinal);
        return NULL;
    }
    device->map.ordinal = ordinal;
    device->map.physical = soft_visible_physical(ordinal);
    device->map.cores = settings->cores_per_device;
    device->capacity = settings->memory_bytes;
    device->crowd.cores = (uint32_t)settings->cores_per_device;
    if (map_memory(&device->map, device->capacity)) {
        hidden_free(device);
        return NULL;
    }
    return device;
}

struct soft_device *soft_device_get(int ordinal)
{
    int count;
    if (soft_visible_count(&count))
        return NULL;
    if (ordinal < 0 || ordinal >= count) {
        soft_fail(softErrorInvalidDevice, "device %d: there are %d, from 0 to %d", ordinal, count, count - 1);
        return NULL;
    }
    struct soft_device *device = __atomic_load_n(&devices[ordinal], __ATOMIC_ACQUIRE);
    if (device)
        return device;
    soft_lock(&creation, "device creation");
    device = devices[ordinal];
    if (!device) {
        device = create(ordinal);
        __atomic_store_n(&devices[ordinal], device, __ATOMIC_RELEASE);
    }
    soft_unlock(&creation);
    return device;
}

int soft_current_ordinal(void)
{
    return current;
}

struct soft_device *soft_device_current(void)
{
    return soft_device_get(current);
}

const struct soft_device_map *soft_device_map(const struct soft_device *device)
{
    return &device->map;
}

struct soft_device *soft_device_of_pointer(const void *pointer)
{
    for (int i = 0; i < SOFTGPU_MAX_DEVICES; i++) {
        struct soft_device *device = __atomic_load_n(&devices[i], __ATOMIC_ACQUIRE);
        if (device && (uintptr_t)pointer - (uintptr_t)device->map.device_base < device->map.map_bytes)
            return device;
    }
    return NULL;
}

void soft_devices_visit(void (*visit)(struct soft_device *device, void *context), void *context)
{
    for (int i = 0; i < SOFTGPU_MAX_DEVICES; i++) {
        struct soft_device *device = __atomic_load_n(&devices[i], __ATOMIC_ACQUIRE);
        if (device)
            visit(device, context);
    }
}

/* ---- CUDA's device functions ---------------------------------------------------------------------------------------
 */

softError_t softGetDeviceCount(int *count)
{
    if (!count)
        return soft_fail(softErrorInvalidValue, "cudaGetDeviceCount: NULL");
    return soft_visible_count(count);
}

softError_t softSetDevice(int device)
{
    int count;
    softError_t error = soft_visible_count(&count);
    if (error)
        return error;
    if (device < 0 || device >= count)
        return soft_fail(softErrorInvalidDevice, "cudaSetDevice: device %d: there are %d, from 0 to %d", device, count,
                         count - 1);
    current = device;
    return softSuccess;
}

softError_t softGetDevice(int *device)
{
    int count;
    softError_t error = soft_visible_count(&count);
    if (error)
        return error;
    *device = current;
    return softSuccess;
}

softError_t softGetDeviceProperties(struct softDeviceProp *properties, int device)
{
    int count;
    softError_t error = soft_visible_count(&count);
    if (error)
        return error;
    if (device < 0 || device >= count)
        return soft_fail(softErrorInvalidDevice, "cudaGetDeviceProperties: device %d: there are %d", device, count);
    const struct soft_settings *settings = soft_settings();
    int cores = settings->cores_per_device, physical = soft_visible_physical(device);
    *properties = (struct softDeviceProp){.totalGlobalMem = settings->memory_bytes, .multiProcessorCount = cores};
    snprintf(properties->name, sizeof(properties->name), "soft GPU %d (%d core%s)", physical, cores,
             cores == 1 ? "" : "s");
    properties->uuid.bytes[0] = 0x50; /* the bytes of soft_uuid_text */
    properties->uuid.bytes[1] = (char)0xf7;
    properties->uuid.bytes[15] = (char)physical;
    return softSuccess;
}

softError_t softDeviceSynchronize(void)
{
    SOFT_HOST_CALL("cudaDeviceSynchronize");
    struct soft_device *device = soft_device_current();
    if (!device)
        return softPeekAtLastError();
    soft_device_drain(device);
    soft_guards_check(device);
    return soft_device_error(device);
}

softError_t softDeviceCanAccessPeer(int *can, int device, int peer)
{
    int count;
    softError_t error = soft_visible_count(&count);
    if (error)
        return error;
    if (device < 0 || device >= count || peer < 0 || peer >= count)
        return soft_fail(softErrorInvalidDevice, "cudaDeviceCanAccessPeer: devices %d and %d: there are %d", device,
                         peer, count);
    *can = device != peer;
    return softSuccess;
}

softError_t softDeviceEnablePeerAccess(int peer, unsigned flags)
{
    int can = 0;
    softError_t error = softDeviceCanAccessPeer(&can, current, peer);
    if (error)
        return error;
    if (flags != 0)
        return soft_fail(softErrorInvalidValue, "cudaDeviceEnablePeerAccess: flags are %u, 0 was expected", flags);
    if (!can)
        return soft_fail(softErrorInvalidDevice, "cudaDeviceEnablePeerAccess: device %d is no peer of itself", peer);
    struct soft_device *device = soft_device_current();
    if (!device)
        return softPeekAtLastError();
    uint64_t bit = UINT64_C(1) << peer;
    if (__atomic_fetch_or(&device->peers, bit, __ATOMIC_ACQ_REL) & bit)
        return soft_fail(softErrorPeerAccessAlreadyEnabled,
                         "cudaDeviceEnablePeerAccess: device %d has access to device %d already", current, peer);
    return softSuccess;
}

softError_t softMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    struct soft_device *device = soft_device_current();
    if (!device)
        return softPeekAtLastError();
    soft_lock(&device->memory_lock, "device memory");
    *free_bytes = device->capacity - device->used;
    soft_unlock(&device->memory_lock);
    *total_bytes = device->capacity;
    return softSuccess;
}
