/* SPDX-License-Identifier: MIT
 *
 * Named ranges, and the bytes that were moved in each between each ordered pair of devices.
 */
#include "core.h"
#include "record.h"
#include "sys/log.h"

/* ---- names ----------------------------------------------------------------------------------- */

#define NAME_SLOTS 4096u /* a power of two; at most half are used */
#define RANGE_DEPTH 64

struct name {
    struct name *next; /* of the same hash */
    uint32_t number;
    char text[];
};

static struct soft_lock names_lock;
static struct name *by_hash[NAME_SLOTS];
static const char *by_number[NAME_SLOTS] = {""};
static uint32_t name_count = 1;

static bool same_text(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

/* Under the names' lock. 0 if there is no room. */
static uint32_t add_name(struct name **bucket, const char *text, size_t length)
{
    if (name_count == NAME_SLOTS)
        return 0;
    struct name *name = hidden_alloc(sizeof(*name) + length + 1);
    if (!name)
        return 0;
    hidden_copy(name->text, text, length);
    name->number = name_count;
    name->next = *bucket;
    *bucket = name;
    by_number[name_count] = name->text;
    __atomic_store_n(&name_count, name_count + 1, __ATOMIC_RELEASE);
    return name->number;
}

uint32_t soft_intern(const char *text)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    size_t length = 0;
    for (; text[length]; length++)
        hash = (hash ^ (unsigned char)text[length]) * 16777619u;
    if (length == 0)
        return 0;
    struct name **bucket = &by_hash[hash % NAME_SLOTS];
    soft_lock(&names_lock, NULL); /* the record of a wait needs this lock itself */
    uint32_t number = 0;
    for (const struct name *name = *bucket; name && !number; name = name->next) {
        if (same_text(name->text, text))
            number = name->number;
    }
    if (!number)
        number = add_name(bucket, text, length);
    soft_unlock(&names_lock);
    return number;
}

uint32_t soft_intern_count(void)
{
    return __atomic_load_n(&name_count, __ATOMIC_ACQUIRE);
}

const char *soft_range_name(uint32_t range)
{
    return range < soft_intern_count() ? by_number[range] : "";
}

/* ---- ranges of a thread ---------------------------------------------------------------------- */

static _Thread_local uint32_t ranges[RANGE_DEPTH];
static _Thread_local int depth;

/* NVTX's results: the level of the range that was opened or closed, from 0; negative: there is none. */
int softRangePush(const char *name)
{
    if (depth < RANGE_DEPTH)
        ranges[depth] = soft_intern(name);
    return depth++;
}

int softRangePop(void)
{
    return depth > 0 ? --depth : -1;
}

uint32_t soft_range_current(void)
{
    return depth == 0 ? 0 : ranges[depth <= RANGE_DEPTH ? depth - 1 : RANGE_DEPTH - 1];
}

/* ---- bytes ----------------------------------------------------------------------------------- */

#define COUNTERS 16384u /* a power of two; more pairs and ranges than that are reported as lost */

struct counter {
    uint64_t key; /* 0: free; else range, from + 2, to + 2 */
    uint64_t bytes;
};

static struct counter counters[COUNTERS];
static uint64_t lost_bytes;

static uint64_t make_key(uint32_t range, int from, int to)
{
    return (uint64_t)range << 32 | (uint64_t)(uint16_t)(from + 2) << 16 | (uint16_t)(to + 2);
}

/* Open addressing without a lock: a key, once set, stays. */
void soft_traffic_add(uint32_t range, int from, int to, uint64_t bytes)
{
    uint64_t key = make_key(range, from, to);
    uint32_t at = (uint32_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 40);
    for (uint32_t i = 0; i < COUNTERS; i++) {
        struct counter *counter = &counters[(at + i) % COUNTERS];
        uint64_t found = __atomic_load_n(&counter->key, __ATOMIC_ACQUIRE);
        if (found == 0 &&
            __atomic_compare_exchange_n(&counter->key, &found, key, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            found = key;
        if (found == key) {
            __atomic_add_fetch(&counter->bytes, bytes, __ATOMIC_RELAXED);
            return;
        }
    }
    __atomic_add_fetch(&lost_bytes, bytes, __ATOMIC_RELAXED);
}

void softTrafficVisit(soft_traffic_visitor *visit, void *context)
{
    for (uint32_t i = 0; i < COUNTERS; i++) {
        uint64_t key = __atomic_load_n(&counters[i].key, __ATOMIC_ACQUIRE);
        uint64_t bytes = __atomic_load_n(&counters[i].bytes, __ATOMIC_RELAXED);
        if (key && bytes)
            visit(context, soft_range_name((uint32_t)(key >> 32)), (int)(key >> 16 & 0xffff) - 2,
                  (int)(key & 0xffff) - 2, bytes);
    }
    if (__atomic_load_n(&lost_bytes, __ATOMIC_RELAXED))
        log_error("traffic: more than %u pairs of devices and ranges; bytes were moved that are not counted", COUNTERS);
}

void softTrafficReset(void)
{
    for (uint32_t i = 0; i < COUNTERS; i++)
        __atomic_store_n(&counters[i].bytes, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&lost_bytes, 0, __ATOMIC_RELAXED);
}
