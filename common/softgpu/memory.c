/* SPDX-License-Identifier: MIT
 *
 * Device memory: first fit over the sorted list of live allocations. The list lies outside device memory; inside it
 * only guard bytes surround each allocation:
 *
 *     | guard | allocation | guard, to the next multiple of 256 and 256 bytes more | allocation | guard ...
 *
 * Fresh memory is filled with 0xff: every float in it is a NaN, so a value that was never written is seen. Pages are
 * taken here, never in a step; with shape_only nothing is touched.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core.h"
#include "record.h"
#include "sys/fault.h"
#include "sys/topology.h"

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ADDRESS_SANITIZER 1
#endif
#endif

#ifdef WITH_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#define POISON(address, bytes) ASAN_POISON_MEMORY_REGION(address, bytes)
#define UNPOISON(address, bytes) ASAN_UNPOISON_MEMORY_REGION(address, bytes)
#else
#define POISON(address, bytes) ((void)(address), (void)(bytes))
#define UNPOISON(address, bytes) ((void)(address), (void)(bytes))
#endif

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define GUARD_BYTE 0xdb
#define FRESH_BYTE 0xff
#define CHECK_MACHINE_FROM                                                                                             \
    (64u << 10) /* smaller allocations don't ask the machine for its free memory: it takes 50 us */

static size_t round_up(size_t bytes)
{
    return (bytes + SOFT_GUARD_BYTES - 1) / SOFT_GUARD_BYTES * SOFT_GUARD_BYTES;
}

static size_t guard_end(const struct soft_block *block)
{
    return round_up(block->offset + block->bytes) + SOFT_GUARD_BYTES;
}

/* Takes the pages, so that a machine without memory says so here and no SIGBUS comes later. */
static int populate(struct soft_device *device, size_t from, size_t to)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    from = from / page * page;
    to = (to + page - 1) / page * page;
    if (!madvise(device->map.kernel_base + from, to - from, MADV_POPULATE_WRITE))
        return 0;
    if (errno != EINVAL)
        return errno;
    return posix_fallocate(device->map.memfd, (off_t)from, (off_t)(to - from));
}

/* Gives the whole pages inside a freed allocation back to the machine. */
static void release_pages(struct soft_device *device, const struct soft_block *block)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t from = (block->offset + page - 1) / page * page, to = (block->offset + block->bytes) / page * page;
    if (to > from)
        (void)!fallocate(device->map.memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
                         (off_t)(to - from));
}

/* The first gap that holds the bytes between two guards. Returns the new block's place in the list, or -1. */
static ptrdiff_t find_gap(const struct soft_device *device, size_t bytes, size_t *offset)
{
    size_t start = SOFT_GUARD_BYTES;
    for (size_t i = 0; i <= device->block_count; i++) {
        size_t end = i < device->block_count ? device->blocks[i].offset : device->map.map_bytes;
        struct soft_block block = {start, bytes};
        if (bytes <= device->map.map_bytes && guard_end(&block) <= end) {
            *offset = start;
            return (ptrdiff_t)i;
        }
        if (i < device->block_count)
            start = guard_end(&device->blocks[i]);
    }
    return -1;
}

static bool make_room(struct soft_device *device)
{
    if (device->block_count < device->block_room)
        return true;
    size_t room = device->block_room ? 2 * device->block_room : 64;
    struct soft_block *blocks = hidden_alloc(room * sizeof(*blocks));
    if (!blocks)
        return false;
    hidden_copy(blocks, device->blocks, device->block_count * sizeof(*blocks));
    hidden_free(device->blocks);
    device->blocks = blocks;
    device->block_room = room;
    return true;
}

/* Fills guards and the fresh allocation. */
static softError_t prepare(struct soft_device *device, const struct soft_block *block)
{
    char *base = device->map.kernel_base;
    size_t from = block->offset - SOFT_GUARD_BYTES, to = guard_end(block);
    int failed = populate(device, from, to);
    if (failed)
        return soft_fail(softErrorMemoryAllocation, "soft GPU %d: the machine can't give %zu bytes: %s",
                         device->map.ordinal, block->bytes, strerror(failed));
    UNPOISON(base + from, to - from);
    memset(base + from, GUARD_BYTE, SOFT_GUARD_BYTES);
    memset(base + block->offset, FRESH_BYTE, block->bytes);
    memset(base + block->offset + block->bytes, GUARD_BYTE, to - block->offset - block->bytes);
    POISON(base + from, SOFT_GUARD_BYTES);
    POISON(base + block->offset + block->bytes, to - block->offset - block->bytes);
    return softSuccess;
}

/* Under the device's memory lock. */
static softError_t allocate(struct soft_device *device, size_t bytes, size_t *offset)
{
    if (bytes > device->capacity - device->used)
        return soft_fail(softErrorMemoryAllocation, "soft GPU %d: %zu bytes asked for, %zu of %zu in use",
                         device->map.ordinal, bytes, device->used, device->capacity);
    ptrdiff_t place = find_gap(device, bytes, offset);
    if (place < 0)
        return soft_fail(softErrorMemoryAllocation,
                         "soft GPU %d: no gap of %zu bytes; %zu of %zu bytes in use by %zu allocations",
                         device->map.ordinal, bytes, device->used, device->capacity, device->block_count);
    if (!make_room(device))
        return soft_fail(softErrorMemoryAllocation, "soft GPU %d: no host memory for the list of allocations",
                         device->map.ordinal);
    struct soft_block block = {*offset, bytes};
    if (!soft_settings()->shape_only) {
        softError_t error = prepare(device, &block);
        if (error)
            return error;
    }
    hidden_copy(&device->blocks[place + 1], &device->blocks[place],
                (device->block_count - (size_t)place) * sizeof(block));
    device->blocks[place] = block;
    device->block_count++;
    device->used += bytes;
    return softSuccess;
}

softError_t softMalloc(void **pointer, size_t bytes)
{
    SOFT_HOST_CALL("cudaMalloc");
    if (!pointer)
        return soft_fail(softErrorInvalidValue, "cudaMalloc: NULL");
    *pointer = NULL;
    struct soft_device *device = soft_device_current();
    if (!device)
        return softPeekAtLastError();
    if (bytes == 0 || soft_device_error(device))
        return soft_device_error(device);
    if (fault_allocation())
        return soft_fail(softErrorMemoryAllocation, "soft GPU %d: planted failure of an allocation of %zu bytes",
                         device->map.ordinal, bytes);
    if (bytes >= CHECK_MACHINE_FROM && bytes <= device->capacity && !soft_settings()->shape_only) {
        size_t machine = topology_memory_free();
        if (bytes > machine)
            return soft_fail(softErrorMemoryAllocation, "soft GPU %d: needs %zu bytes, the machine has %zu bytes free",
                             device->map.ordinal, bytes, machine);
    }
    size_t offset = 0;
    soft_lock(&device->memory_lock, "device memory");
    softError_t error = allocate(device, bytes, &offset);
    soft_unlock(&device->memory_lock);
    if (!error) {
        *pointer = device->map.device_base + offset;
        soft_record_bytes((double)bytes);
    }
    return error;
}

/* ---- guards ---------------------------------------------------------------------------------- */

/* Bytes of [from, to) up to the first and behind the last damaged one; poisoned memory is read here on purpose. */
__attribute__((no_sanitize("address"))) static size_t damaged(const unsigned char *base, size_t from, size_t to,
                                                              size_t *first)
{
    size_t count = 0;
    for (size_t i = to; i > from; i--) {
        if (base[i - 1] == GUARD_BYTE)
            continue;
        *first = i - 1;
        count++;
    }
    return count;
}

/* Under the device's memory lock. */
static void check_guard(struct soft_device *device, const struct soft_block *block)
{
    const unsigned char *base = (const unsigned char *)device->map.kernel_base;
    size_t end = block->offset + block->bytes, first = 0;
    size_t count = damaged(base, end, guard_end(block), &first);
    if (count > 0) {
        soft_device_fail(device, softErrorIllegalAddress,
                         "soft GPU %d: allocation %p of %zu bytes: %zu guard bytes behind it were overwritten, "
                         "the first at byte %zu",
                         device->map.ordinal, (void *)(device->map.device_base + block->offset), block->bytes, count,
                         first - block->offset);
        return;
    }
    count = damaged(base, block->offset - SOFT_GUARD_BYTES, block->offset, &first);
    if (count > 0)
        soft_device_fail(device, softErrorIllegalAddress,
                         "soft GPU %d: allocation %p of %zu bytes: %zu guard bytes before it were overwritten, "
                         "the first %zu bytes before its start",
                         device->map.ordinal, (void *)(device->map.device_base + block->offset), block->bytes, count,
                         block->offset - first);
}

void soft_guards_check(struct soft_device *device)
{
    if (soft_settings()->shape_only)
        return;
    soft_lock(&device->memory_lock, "device memory");
    for (size_t i = 0; i < device->block_count; i++)
        check_guard(device, &device->blocks[i]);
    soft_unlock(&device->memory_lock);
}

/* ---- finding and freeing --------------------------------------------------------------------- */

/* The last block that starts at or before the offset, or -1. Under the device's memory lock. */
static ptrdiff_t find_block(const struct soft_device *device, size_t offset)
{
    size_t low = 0, high = device->block_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (device->blocks[middle].offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return (ptrdiff_t)low - 1;
}

bool soft_device_find(struct soft_device *device, const void *pointer, size_t bytes, size_t *offset)
{
    size_t at = (size_t)((uintptr_t)pointer - (uintptr_t)device->map.device_base);
    if (at >= device->map.map_bytes)
        return false;
    soft_lock(&device->memory_lock, "device memory");
    ptrdiff_t found = find_block(device, at);
    bool inside = false;
    if (found >= 0) {
        const struct soft_block *block = &device->blocks[found];
        size_t into = at - block->offset;
        inside = into <= block->bytes && bytes <= block->bytes - into;
    }
    soft_unlock(&device->memory_lock);
    *offset = at;
    return inside;
}

/* As CUDA does, waits for the device's work first: it may still use the memory. */
softError_t softFree(void *pointer)
{
    SOFT_HOST_CALL("cudaFree");
    if (!pointer)
        return softSuccess;
    struct soft_device *device = soft_device_of_pointer(pointer);
    if (!device)
        return soft_fail(softErrorInvalidValue, "cudaFree: %p is not device memory", pointer);
    soft_device_drain(device);
    if (softDevicesLost())
        return soft_device_error(device);
    size_t offset = (size_t)((char *)pointer - device->map.device_base);
    soft_lock(&device->memory_lock, "device memory");
    ptrdiff_t found = find_block(device, offset);
    bool live = found >= 0 && device->blocks[found].offset == offset;
    if (live) {
        struct soft_block *block = &device->blocks[found];
        if (!soft_settings()->shape_only) {
            check_guard(device, block);
            release_pages(device, block);
            POISON(device->map.kernel_base + block->offset, block->bytes);
        }
        device->used -= block->bytes;
        soft_record_bytes((double)block->bytes);
        device->block_count--;
        hidden_copy(block, block + 1, (device->block_count - (size_t)found) * sizeof(*block));
    }
    soft_unlock(&device->memory_lock);
    if (!live)
        return soft_fail(softErrorInvalidValue, "cudaFree: %p is not the start of a live allocation of device %d",
                         pointer, device->map.ordinal);
    return soft_device_error(device);
}

softError_t softMallocManaged(void **pointer, size_t bytes, unsigned flags)
{
    (void)flags;
    if (pointer)
        *pointer = NULL;
    return soft_fail(softErrorNotSupported, "cudaMallocManaged: %zu bytes: the soft GPU has no managed memory", bytes);
}
