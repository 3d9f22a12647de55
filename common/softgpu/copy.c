/* SPDX-License-Identifier: MIT
 *
 * Copies and fills. Pointers are checked when they are enqueued, bytes are counted when they are moved. The copying
 * itself is memcpy, which every sanitizer sees.
 */
#include <string.h>

#include "core.h"

enum side_kind { SIDE_DEVICE, SIDE_PINNED, SIDE_PAGEABLE };

struct side {
    enum side_kind kind;
    struct soft_device *device; /* of SIDE_DEVICE */
    char *address;              /* for the kernel's use */
};

struct copy {
    char *to;
    const char *from;
    size_t bytes;
    int to_device, from_device; /* ordinals, -1: host */
};

static uint32_t drop_after; /* softTestDropCopy */

static struct side classify(const void *pointer, size_t bytes)
{
    struct side side = {.kind = SIDE_PAGEABLE, .address = (char *)(uintptr_t)pointer};
    struct soft_device *device = soft_device_of_pointer(pointer);
    if (device) {
        side.kind = SIDE_DEVICE;
        side.device = device;
        side.address += device->map.kernel_base - device->map.device_base;
    } else if (soft_pinned(pointer, bytes)) {
        side.kind = SIDE_PINNED;
    }
    return side;
}

static bool peer_enabled(const struct soft_device *device, const struct soft_device *peer)
{
    return device == peer || (__atomic_load_n(&device->peers, __ATOMIC_ACQUIRE) >> peer->map.ordinal & 1);
}

/* One end of a copy: a live range of a device that the stream's may reach (NULL: any), or pinned memory. Else false,
 * with the last error set. */
static bool check_side(const char *call, const char *which, const struct soft_device *stream_device,
                       const struct side *side, const void *pointer, size_t bytes, bool on_device)
{
    size_t offset;
    if (side->kind == SIDE_PAGEABLE)
        soft_fail(softErrorInvalidValue, "%s: %s %p (%zu bytes) is neither device memory nor pinned host memory%s",
                  call, which, pointer, bytes, on_device ? "" : ": allocate it with cudaMallocHost");
    else if ((side->kind == SIDE_DEVICE) != on_device)
        soft_fail(softErrorInvalidValue, "%s: %s %p is %s memory, %s memory was expected", call, which, pointer,
                  on_device ? "host" : "device", on_device ? "device" : "host");
    else if (on_device && !soft_device_find(side->device, pointer, bytes, &offset))
        soft_fail(softErrorInvalidValue, "%s: %s %p: %zu bytes do not lie within one live allocation of device %d",
                  call, which, pointer, bytes, side->device->map.ordinal);
    else if (on_device && stream_device && !peer_enabled(stream_device, side->device))
        soft_fail(softErrorPeerAccessNotEnabled,
                  "%s: %s %p is memory of device %d, which device %d has no access to: call "
                  "cudaDeviceEnablePeerAccess or use cudaMemcpyPeerAsync",
                  call, which, pointer, side->device->map.ordinal, stream_device->map.ordinal);
    else
        return true;
    return false;
}

/* For the tests of the ledger: true for the one copy between devices that shall be lost. */
static bool dropped(const struct copy *copy)
{
    if (copy->to_device < 0 || copy->from_device < 0 || copy->to_device == copy->from_device)
        return false;
    if (__atomic_load_n(&drop_after, __ATOMIC_RELAXED) == 0)
        return false;
    return __atomic_sub_fetch(&drop_after, 1, __ATOMIC_RELAXED) == 0;
}

void softTestDropCopy(unsigned which)
{
    __atomic_store_n(&drop_after, which, __ATOMIC_RELAXED);
}

static void run_copy(softStream_t stream, const struct soft_what *what, void *arguments)
{
    (void)stream;
    const struct copy *copy = arguments;
    if (dropped(copy))
        return;
    if (!soft_settings()->shape_only)
        memmove(copy->to, copy->from, copy->bytes);
    soft_traffic_add(what->range, copy->from_device, copy->to_device, copy->bytes);
}

static softError_t enqueue_copy(softStream_t stream, const char *name, const struct side *to, const struct side *from,
                                size_t bytes)
{
    struct copy copy = {.to = to->address,
                        .from = from->address,
                        .bytes = bytes,
                        .to_device = to->device ? to->device->map.ordinal : -1,
                        .from_device = from->device ? from->device->map.ordinal : -1};
    struct soft_what what = {.kind = SOFT_TASK_COPY,
                             .name = name,
                             .bytes = (double)bytes,
                             .detail = (uint32_t)(copy.from_device + 1) << 16 | (uint32_t)(copy.to_device + 1)};
    return soft_enqueue(stream, &what, run_copy, &copy, sizeof(copy));
}

softError_t softMemcpyAsync(void *to, const void *from, size_t bytes, softMemcpyKind kind, softStream_t stream)
{
    SOFT_HOST_CALL("cudaMemcpyAsync");
    static const char *const names[] = {"copy_host_to_host", "copy_host_to_device", "copy_device_to_host",
                                        "copy_device_to_device"};
    struct soft_device *device = soft_stream_device(stream);
    if (!device || soft_device_error(device))
        return softPeekAtLastError();
    if (bytes == 0)
        return softSuccess;
    struct side target = classify(to, bytes), source = classify(from, bytes);
    if (kind == softMemcpyDefault)
        kind = (softMemcpyKind)((source.kind == SIDE_DEVICE ? 2 : 0) + (target.kind == SIDE_DEVICE ? 1 : 0));
    if ((unsigned)kind > softMemcpyDeviceToDevice)
        return soft_fail(softErrorInvalidValue, "cudaMemcpyAsync: kind is %d", (int)kind);
    if (!check_side("cudaMemcpyAsync", "target", device, &target, to, bytes, kind & 1) ||
        !check_side("cudaMemcpyAsync", "source", device, &source, from, bytes, kind & 2))
        return softPeekAtLastError();
    return enqueue_copy(stream, names[kind], &target, &source, bytes);
}

/* Allowed without peer access: CUDA then goes through the host. */
softError_t softMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                softStream_t stream)
{
    SOFT_HOST_CALL("cudaMemcpyPeerAsync");
    struct soft_device *device = soft_stream_device(stream);
    if (!device || soft_device_error(device))
        return softPeekAtLastError();
    if (bytes == 0)
        return softSuccess;
    struct side target = classify(to, bytes), source = classify(from, bytes);
    if (!check_side("cudaMemcpyPeerAsync", "target", NULL, &target, to, bytes, true) ||
        !check_side("cudaMemcpyPeerAsync", "source", NULL, &source, from, bytes, true))
        return softPeekAtLastError();
    if (target.device->map.ordinal != to_device || source.device->map.ordinal != from_device)
        return soft_fail(softErrorInvalidValue,
                         "cudaMemcpyPeerAsync: from device %d to %d was said, the pointers are device %d's and %d's",
                         from_device, to_device, source.device->map.ordinal, target.device->map.ordinal);
    return enqueue_copy(stream, "copy_peer", &target, &source, bytes);
}

/* ---- fills ----------------------------------------------------------------------------------- */

struct fill {
    char *to;
    size_t bytes;
    int value;
};

static void run_fill(softStream_t stream, const struct soft_what *what, void *arguments)
{
    (void)stream;
    (void)what;
    const struct fill *fill = arguments;
    if (!soft_settings()->shape_only)
        memset(fill->to, fill->value, fill->bytes);
}

softError_t softMemsetAsync(void *to, int value, size_t bytes, softStream_t stream)
{
    SOFT_HOST_CALL("cudaMemsetAsync");
    struct soft_device *device = soft_stream_device(stream);
    if (!device || soft_device_error(device))
        return softPeekAtLastError();
    if (bytes == 0)
        return softSuccess;
    struct side target = classify(to, bytes);
    if (!check_side("cudaMemsetAsync", "target", device, &target, to, bytes, true))
        return softPeekAtLastError();
    struct fill fill = {target.address, bytes, value};
    struct soft_what what = {.kind = SOFT_TASK_MEMSET, .name = "memset", .bytes = (double)bytes};
    return soft_enqueue(stream, &what, run_fill, &fill, sizeof(fill));
}
