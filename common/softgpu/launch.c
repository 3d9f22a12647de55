/* SPDX-License-Identifier: MIT
 *
 * Launches: pointers are checked and translated by the caller's thread, the body runs later in the stream's.
 */
#include "core.h"

struct launch { /* stands before the launch's own arguments in the slot */
    soft_body *body;
    unsigned blocks;
};

_Static_assert(sizeof(struct launch) == SOFT_SLOT_BYTES - SOFT_LAUNCH_ARGUMENT_BYTES,
               "arguments stay aligned to 16 bytes");

softError_t softTranslate(softStream_t stream, const char *kernel, const struct soft_span *span, void **translated)
{
    struct soft_device *device = soft_stream_device(stream);
    if (!device)
        return softPeekAtLastError();
    *translated = (void *)(uintptr_t)span->pointer;
    struct soft_device *owner = span->pointer ? soft_device_of_pointer(span->pointer) : NULL;
    if (!owner) {
        if (span->bytes == 0)
            return softSuccess;
        return soft_fail(softErrorInvalidDevicePointer, "%s: argument %p (%zu bytes) is not device memory", kernel,
                         span->pointer, span->bytes);
    }
    *translated = (char *)*translated + (owner->map.kernel_base - owner->map.device_base);
    if (span->bytes == 0)
        return softSuccess;
    size_t offset;
    if (!soft_device_find(owner, span->pointer, span->bytes, &offset))
        return soft_fail(softErrorIllegalAddress,
                         "%s: argument %p: %zu bytes do not lie within one live allocation of device %d", kernel,
                         span->pointer, span->bytes, owner->map.ordinal);
    if (owner != device && !(__atomic_load_n(&device->peers, __ATOMIC_ACQUIRE) >> owner->map.ordinal & 1))
        return soft_fail(softErrorPeerAccessNotEnabled,
                         "%s: argument %p is memory of device %d, which device %d has no access to", kernel,
                         span->pointer, owner->map.ordinal, device->map.ordinal);
    return softSuccess;
}

static bool products_alone;

void softProductsAlone(bool on)
{
    __atomic_store_n(&products_alone, on, __ATOMIC_RELAXED);
}

static void run_launch(softStream_t stream, const struct soft_what *what, void *arguments)
{
    const struct launch *launch = arguments;
    const bool wanted = what->kind == SOFT_TASK_PRODUCT || !__atomic_load_n(&products_alone, __ATOMIC_RELAXED);
    if (wanted && !soft_settings()->shape_only)
        soft_team_run(stream, launch->body, launch + 1, launch->blocks);
}

softError_t softLaunch(softStream_t stream, const struct soft_cost *cost, soft_body *body, const void *arguments,
                       size_t argument_bytes, unsigned blocks)
{
    SOFT_HOST_CALL("cudaLaunchKernel");
    struct soft_device *device = soft_stream_device(stream);
    if (!device || soft_device_error(device))
        return softPeekAtLastError();
    if (device->map.ordinal != soft_current_ordinal())
        return soft_fail(softErrorInvalidResourceHandle,
                         "%s: launched into a stream of device %d while device %d is current", cost->name,
                         device->map.ordinal, soft_current_ordinal());
    if (argument_bytes > SOFT_LAUNCH_ARGUMENT_BYTES)
        return soft_fail(softErrorInvalidValue, "%s: %zu bytes of arguments, at most %d are possible", cost->name,
                         argument_bytes, SOFT_LAUNCH_ARGUMENT_BYTES);
    struct launch launch = {body, blocks};
    struct soft_what what = {.kind = cost->product ? SOFT_TASK_PRODUCT : SOFT_TASK_LAUNCH,
                             .name = cost->name,
                             .detail = cost->type,
                             .flops = cost->flops,
                             .bytes = cost->bytes};
    return soft_enqueue_parts(stream, &what, run_launch, &launch, sizeof(launch), arguments, argument_bytes);
}
