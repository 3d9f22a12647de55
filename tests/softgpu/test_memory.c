/* SPDX-License-Identifier: MIT
 *
 * Device memory: nobody but the device touches it, writes past its ends are found, capacity is a limit.
 */
#include "play.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>

#include <cmocka.h>

/* ---- the host can't touch device memory ------------------------------------------------------ */

static void read_device_memory(void)
{
    volatile char *memory = new_memory(0, 4096);
    (void)memory[0];
}

static void write_device_memory(void)
{
    volatile char *memory = new_memory(0, 4096);
    memory[4095] = 1;
}

static void a_host_access_faults(void **state)
{
    (void)state;
    void (*const accesses[])(void) = {read_device_memory, write_device_memory};
    for (int i = 0; i < 2; i++) {
        int status = play_status(accesses[i], &(struct scene){0});
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGSEGV);
    }
}

/* Also where a sanitizer turns the fault into an exit: the range has no access bits. */
static void look_up_mapping(void)
{
    uintptr_t memory = (uintptr_t)new_memory(0, 4096);
    FILE *maps = fopen("/proc/self/maps", "re");
    EXPECT(maps);
    char line[512], access[5];
    bool found = false;
    while (fgets(line, sizeof(line), maps)) {
        uintptr_t from, to;
        EXPECT(sscanf(line, "%lx-%lx %4s", &from, &to, access) == 3);
        if (memory < from || memory >= to)
            continue;
        EXPECT(!strcmp(access, "---p"));
        found = true;
    }
    fclose(maps);
    EXPECT(found);
}

static void the_mapping_has_no_access(void **state)
{
    (void)state;
    play(look_up_mapping, &(struct scene){0});
}

/* ---- guards ---------------------------------------------------------------------------------- */

/* Writes the byte at this distance from the allocation's start, past the sanitizer's eyes: the guard must be enough. */
static int distance;

__attribute__((no_sanitize("address"))) static void write_byte(const void *arguments, unsigned block, unsigned blocks)
{
    (void)block;
    (void)blocks;
    (*(volatile char *const *)arguments)[distance] = 1;
}

static void damage(int at, const char *words)
{
    distance = at;
    softStream_t stream = new_stream(0);
    char *memory = new_memory(0, 1000);
    EXPECT_OK(softDeviceSynchronize());
    EXPECT_OK(launch_on(stream, write_byte, memory, 1000, 1));
    EXPECT_FAILS(softDeviceSynchronize(), softErrorIllegalAddress, words);
    EXPECT_FAILS(softStreamSynchronize(stream), softErrorIllegalAddress, words); /* it sticks */
    EXPECT_FAILS(launch_on(stream, write_byte, memory, 1000, 1), softErrorIllegalAddress, words);
    EXPECT_FAILS(softFree(memory), softErrorIllegalAddress, words);
}

static void damage_behind(void)
{
    damage(1000, "1 guard bytes behind it were overwritten, the first at byte 1000");
}

static void damage_far_behind(void)
{
    damage(1024 + 255, "1 guard bytes behind it were overwritten, the first at byte 1279");
}

static void damage_before(void)
{
    damage(-1, "1 guard bytes before it were overwritten, the first 1 bytes before its start");
}

static void damage_found_by_free(void)
{
    distance = 1003;
    softStream_t stream = new_stream(0);
    void *memory = new_memory(0, 1000);
    EXPECT_OK(launch_on(stream, write_byte, memory, 1000, 1));
    EXPECT_FAILS(softFree(memory), softErrorIllegalAddress, "the first at byte 1003");
}

static void writes_past_the_ends_are_found(void **state)
{
    (void)state;
    play(damage_behind, &(struct scene){0});
    play(damage_far_behind, &(struct scene){0});
    play(damage_before, &(struct scene){0});
    play(damage_found_by_free, &(struct scene){0});
}

/* ---- reads past the ends: the address sanitizer's part --------------------------------------- */

#ifdef PLAY_ADDRESS_SANITIZER
static void read_byte(const void *arguments, unsigned block, unsigned blocks)
{
    (void)block;
    (void)blocks;
    (void)(*(volatile char *const *)arguments)[distance];
}

static void read_at_distance(void)
{
    softStream_t stream = new_stream(0);
    char *memory = new_memory(0, 1000);
    EXPECT_OK(launch_on(stream, read_byte, memory, 1000, 1));
    EXPECT_OK(softDeviceSynchronize());
}

static void read_freed(void)
{
    char *freed = new_memory(0, 1000), *memory = new_memory(0, 1000);
    distance = (int)(freed - memory);
    softStream_t stream = new_stream(0);
    EXPECT_OK(softFree(freed));
    EXPECT_OK(launch_on(stream, read_byte, memory, 1000, 1));
    EXPECT_OK(softDeviceSynchronize());
}
#endif

static void reads_past_the_ends_are_found(void **state)
{
    (void)state;
#ifdef PLAY_ADDRESS_SANITIZER
    distance = 999;
    play(read_at_distance, &(struct scene){0});
    distance = 1000;
    assert_int_not_equal(play_status(read_at_distance, &(struct scene){0}), 0);
    distance = -1;
    assert_int_not_equal(play_status(read_at_distance, &(struct scene){0}), 0);
    assert_int_not_equal(play_status(read_freed, &(struct scene){0}), 0);
#else
    skip();
#endif
}

/* ---- allocation ------------------------------------------------------------------------------ */

static void use_capacity(void)
{
    void *all, *more;
    size_t free_bytes, total;
    EXPECT_OK(softMalloc(&all, 16u << 20)); /* the whole capacity, guards not counted */
    EXPECT_OK(softMemGetInfo(&free_bytes, &total));
    EXPECT(free_bytes == 0 && total == 16u << 20);
    EXPECT_FAILS(softMalloc(&more, 1), softErrorMemoryAllocation, "1 bytes asked for, 16777216 of 16777216 in use");
    EXPECT(more == NULL);
    EXPECT_OK(softFree(all));
    EXPECT_FAILS(softMalloc(&more, (16u << 20) + 1), softErrorMemoryAllocation, "16777217 bytes asked for");
    EXPECT_FAILS(softMalloc(&more, SIZE_MAX), softErrorMemoryAllocation, "asked for");
    EXPECT_OK(softMalloc(&all, 16u << 20)); /* an error of this kind does not stick */
}

static void capacity_is_a_limit(void **state)
{
    (void)state;
    play(use_capacity, &(struct scene){0});
}

/* Random allocations and frees, seeded: aligned, apart, kept intact; in the end all is free again. */
static void churn(void)
{
    enum { SLOTS = 40, ROUNDS = 2000 };
    char *memory[SLOTS] = {0};
    size_t bytes[SLOTS] = {0};
    unsigned random = 12345;
    for (int round = 0; round < ROUNDS; round++) {
        random = random * 1664525u + 1013904223u;
        int slot = (int)(random >> 16) % SLOTS;
        if (memory[slot]) {
            EXPECT_OK(softFree(memory[slot]));
            memory[slot] = NULL;
            continue;
        }
        bytes[slot] = 1 + (random >> 8) % 30000;
        memory[slot] = new_memory(0, bytes[slot]);
        EXPECT((uintptr_t)memory[slot] % 256 == 0);
        for (int other = 0; other < SLOTS; other++) {
            if (other != slot && memory[other])
                EXPECT(memory[slot] + bytes[slot] + 256 <= memory[other] ||
                       memory[other] + bytes[other] + 256 <= memory[slot]);
        }
    }
    for (int slot = 0; slot < SLOTS; slot++)
        EXPECT_OK(softFree(memory[slot]));
    size_t free_bytes, total;
    EXPECT_OK(softMemGetInfo(&free_bytes, &total));
    EXPECT(free_bytes == total);
    EXPECT_OK(softDeviceSynchronize());
}

static void allocations_stay_apart(void **state)
{
    (void)state;
    play(churn, &(struct scene){0});
}

static void look_at_fresh_memory(void)
{
    float *memory = new_memory(0, 64 * sizeof(float)), values[64];
    read_back(values, memory, sizeof(values));
    for (int i = 0; i < 64; i++)
        EXPECT(values[i] != values[i]);
}

static void fresh_memory_is_nan(void **state)
{
    (void)state;
    play(look_at_fresh_memory, &(struct scene){0});
}

static void misuse(void)
{
    int on_host = 0;
    char *memory = new_memory(0, 1000);
    void *managed = &on_host;
    EXPECT_FAILS(softFree(&on_host), softErrorInvalidValue, "is not device memory");
    EXPECT_FAILS(softFree(memory + 256), softErrorInvalidValue, "not the start of a live allocation");
    EXPECT_OK(softFree(memory));
    EXPECT_FAILS(softFree(memory), softErrorInvalidValue, "not the start of a live allocation");
    EXPECT_OK(softFree(NULL));
    EXPECT_FAILS(softFreeHost(&on_host), softErrorInvalidValue, "does not come from cudaMallocHost");
    EXPECT_FAILS(softMallocManaged(&managed, 4, softMemAttachGlobal), softErrorNotSupported, "no managed memory");
    EXPECT(managed == NULL);
    void *empty = &on_host;
    EXPECT_OK(softMalloc(&empty, 0));
    EXPECT(empty == NULL);
    struct soft_settings late = {0};
    EXPECT_FAILS(softConfigure(&late), softErrorInvalidValue, "after the first use");
}

static void misuse_is_refused(void **state)
{
    (void)state;
    play(misuse, &(struct scene){0});
}

/* ---- little memory --------------------------------------------------------------------------- */

/* Under a sanitizer no ulimit -v fits its shadow memory. */
#if !defined(PLAY_ADDRESS_SANITIZER) && !defined(PLAY_THREAD_SANITIZER)
static void open_in_few_addresses(void)
{
    void *memory;
    EXPECT_FAILS(softMalloc(&memory, 4096), softErrorMemoryAllocation, "can't map twice");
    softStream_t stream;
    EXPECT(softStreamCreateWithFlags(&stream, softStreamNonBlocking) == softErrorMemoryAllocation);
}

static void ask_for_more_than_the_machine(void)
{
    void *memory;
    EXPECT_FAILS(softMalloc(&memory, (size_t)1 << 43), softErrorMemoryAllocation, "the machine has");
}
#endif

static void too_little_memory_is_an_error(void **state)
{
    (void)state;
#if defined(PLAY_ADDRESS_SANITIZER) || defined(PLAY_THREAD_SANITIZER)
    skip();
#else
    play(open_in_few_addresses,
         &(struct scene){.settings.memory_bytes = (size_t)1 << 30, .address_space = (size_t)1 << 30});
    play(ask_for_more_than_the_machine, &(struct scene){.settings.memory_bytes = (size_t)1 << 43});
#endif
}

/* ---- shape only ------------------------------------------------------------------------------ */

static long resident_kib(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    long size, resident;
    EXPECT(file && fscanf(file, "%ld %ld", &size, &resident) == 2);
    fclose(file);
    return resident * 4;
}

static void count_traffic(void *context, const char *range, int from, int to, uint64_t bytes)
{
    (void)range;
    if (from == 0 && to == 1)
        *(uint64_t *)context += bytes;
}

static uint32_t bodies_run;

static void count_body(const void *arguments, unsigned block, unsigned blocks)
{
    (void)arguments;
    (void)block;
    (void)blocks;
    __atomic_add_fetch(&bodies_run, 1, __ATOMIC_RELAXED);
}

/* 16 GiB are accounted, not touched; bodies don't run; copies are counted. */
static void account_only(void)
{
    softStream_t stream = new_stream(0);
    long before = resident_kib();
    char *memory = new_memory(0, (size_t)1 << 34), *peer = new_memory(1, 4096);
    size_t free_bytes, total;
    EXPECT_OK(softSetDevice(0));
    EXPECT_OK(softMemGetInfo(&free_bytes, &total));
    EXPECT(total - free_bytes == (size_t)1 << 34);
    EXPECT_OK(launch_on(stream, count_body, memory, 4096, 1));
    EXPECT_OK(softMemcpyPeerAsync(peer, 1, memory, 0, 4096, stream));
    EXPECT_OK(softMemsetAsync(memory, 0, (size_t)1 << 34, stream));
    EXPECT_OK(softDeviceSynchronize());
    EXPECT(resident_kib() - before < 100 * 1024);
    EXPECT(bodies_run == 0);
    uint64_t bytes = 0;
    softTrafficVisit(count_traffic, &bytes);
    EXPECT(bytes == 4096);
    EXPECT_OK(softFree(memory));
}

static void shape_only_touches_nothing(void **state)
{
    (void)state;
    play(account_only, &(struct scene){.settings = {.memory_bytes = (size_t)1 << 35, .shape_only = true}});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_access_faults),
        cmocka_unit_test(the_mapping_has_no_access),
        cmocka_unit_test(writes_past_the_ends_are_found),
        cmocka_unit_test(reads_past_the_ends_are_found),
        cmocka_unit_test(capacity_is_a_limit),
        cmocka_unit_test(allocations_stay_apart),
        cmocka_unit_test(fresh_memory_is_nan),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(too_little_memory_is_an_error),
        cmocka_unit_test(shape_only_touches_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
