/* SPDX-License-Identifier: MIT
 *
 * Which devices exist and which of them this process sees, under which number. Read once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

static struct soft_lock lock;
static bool ready;
static int visible[SOFTGPU_MAX_DEVICES]; /* physical index of each ordinal */
static int visible_count;
static char why_none[256];

void soft_uuid_text(int physical, char text[41])
{
    snprintf(text, 41, "GPU-50f70000-0000-0000-0000-%012x", (unsigned)physical);
}

/* A whole decimal number in [0, limit], or -1. */
static int parse_index(const char *text, size_t length, int limit)
{
    int value = 0;
    if (length == 0 || length > 9)
        return -1;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        value = value * 10 + (text[i] - '0');
    }
    return value <= limit ? value : -1;
}

/* A UUID may be cut short, as long as it names one device. -1 if it names none or several. */
static int parse_uuid(const char *text, size_t length, int existing)
{
    int found = -1;
    for (int i = 0; i < existing; i++) {
        char uuid[41];
        soft_uuid_text(i, uuid);
        if (length > strlen(uuid) || strncasecmp(uuid, text, length) != 0)
            continue;
        if (found >= 0)
            return -1;
        found = i;
    }
    return found;
}

static int parse_entry(const char *text, size_t length, int existing)
{
    while (length > 0 && text[0] == ' ') {
        text++;
        length--;
    }
    while (length > 0 && text[length - 1] == ' ')
        length--;
    if (length >= 4 && strncmp(text, "GPU-", 4) == 0)
        return parse_uuid(text, length, existing);
    return parse_index(text, length, existing - 1);
}

/* CUDA's rules: the list ends at the first entry that does not exist; a device named twice empties it. */
static void read_list(const char *list, int existing)
{
    uint64_t seen = 0;
    visible_count = 0;
    for (const char *entry = list; entry; entry = strchr(entry, ',') ? strchr(entry, ',') + 1 : NULL) {
        int physical = parse_entry(entry, strcspn(entry, ","), existing);
        if (physical < 0)
            break;
        if (seen >> physical & 1) {
            visible_count = 0;
            break;
        }
        seen |= UINT64_C(1) << physical;
        visible[visible_count++] = physical;
    }
    if (visible_count == 0)
        snprintf(why_none, sizeof(why_none), "CUDA_VISIBLE_DEVICES is '%.100s': it names none of the %d soft GPUs",
                 list, existing);
}

static void read_environment(void)
{
    const char *devices = getenv("SOFTGPU_DEVICES");
    int existing = devices ? parse_index(devices, strlen(devices), SOFTGPU_MAX_DEVICES) : SOFTGPU_MAX_DEVICES;
    if (existing <= 0) {
        snprintf(why_none, sizeof(why_none), "SOFTGPU_DEVICES is '%.100s': expected a number from 1 to %d", devices,
                 SOFTGPU_MAX_DEVICES);
        return;
    }
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    if (list) {
        read_list(list, existing);
        return;
    }
    for (int i = 0; i < existing; i++)
        visible[i] = i;
    visible_count = existing;
}

softError_t soft_visible_count(int *count)
{
    soft_lock(&lock, "visible devices");
    if (!ready)
        read_environment();
    ready = true;
    soft_unlock(&lock);
    *count = visible_count;
    return visible_count > 0 ? softSuccess : soft_fail(softErrorNoDevice, "%s", why_none);
}

int soft_visible_physical(int ordinal)
{
    return visible[ordinal];
}
