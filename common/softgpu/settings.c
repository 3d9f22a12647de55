/* SPDX-License-Identifier: MIT
 *
 * Settings: given once, then fixed by the first use of a device.
 */
#include "core.h"
#include "record.h"
#include "sys/topology.h"

static struct soft_lock lock;
static struct soft_settings settings;
static bool fixed;

softError_t softConfigure(const struct soft_settings *given)
{
    if (given->cores_per_device < 0 || !(given->collective_limit_s >= 0))
        return soft_fail(softErrorInvalidValue,
                         "softConfigure: %d cores per device and a collective limit of %g s: both must be at least 0",
                         given->cores_per_device, given->collective_limit_s);
    char *path = NULL;
    if (given->record_path) {
        size_t size = 1;
        while (given->record_path[size - 1])
            size++;
        path = hidden_alloc(size);
        if (!path)
            return soft_fail(softErrorMemoryAllocation, "softConfigure: no memory");
        hidden_copy(path, given->record_path, size);
    }
    soft_lock(&lock, "settings");
    bool late = fixed;
    if (!late) {
        hidden_free((void *)(uintptr_t)settings.record_path);
        settings = *given;
        settings.record_path = path;
    }
    soft_unlock(&lock);
    if (late) {
        hidden_free(path);
        return soft_fail(softErrorInvalidValue, "softConfigure: called after the first use of a device");
    }
    return softSuccess;
}

const struct soft_settings *soft_settings(void)
{
    if (__atomic_load_n(&fixed, __ATOMIC_ACQUIRE))
        return &settings;
    soft_lock(&lock, "settings");
    if (!fixed) {
        if (settings.memory_bytes == 0)
            settings.memory_bytes = topology_memory_bytes();
        if (settings.cores_per_device == 0)
            settings.cores_per_device = 1;
        if (settings.collective_limit_s <= 0)
            settings.collective_limit_s = 30;
        if (settings.record_path)
            soft_record_open(settings.record_path);
        __atomic_store_n(&fixed, true, __ATOMIC_RELEASE);
    }
    soft_unlock(&lock);
    return &settings;
}
