/* SPDX-License-Identifier: MIT
 *
 * Copies and pointers: what may touch what, and the bytes that are counted.
 */
#include "play.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- what a copy accepts --------------------------------------------------------------------- */

static void copy_and_compare(void)
{
    enum { BYTES = 10000 };
    softStream_t stream = new_stream(0);
    char *device = new_memory(0, BYTES), *second = new_memory(0, BYTES), *there = new_pinned(BYTES),
         *back = new_pinned(BYTES);
    for (int i = 0; i < BYTES; i++)
        there[i] = (char)(i * 7);
    EXPECT_OK(softMemcpyAsync(device, there, BYTES, softMemcpyHostToDevice, stream));
    EXPECT_OK(softMemcpyAsync(second, device, BYTES, softMemcpyDeviceToDevice, stream));
    EXPECT_OK(softMemcpyAsync(back, second, BYTES, softMemcpyDefault, stream));
    EXPECT_OK(softStreamSynchronize(stream));
    EXPECT(!memcmp(there, back, BYTES));
    EXPECT_OK(softMemcpyAsync(NULL, NULL, 0, softMemcpyHostToDevice, stream)); /* nothing */
}

static void copies_carry_bytes(void **state)
{
    (void)state;
    play(copy_and_compare, &(struct scene){0});
}

static void refuse_copies(void)
{
    char pageable[64];
    softStream_t stream = new_stream(0);
    char *device = new_memory(0, 64), *pinned = new_pinned(64);
    EXPECT_FAILS(softMemcpyAsync(device, pageable, 64, softMemcpyHostToDevice, stream), softErrorInvalidValue,
                 "nor pinned host memory");
    EXPECT_FAILS(softMemcpyAsync(pageable, device, 64, softMemcpyDeviceToHost, stream), softErrorInvalidValue,
                 "nor pinned host memory");
    EXPECT_FAILS(softMemcpyAsync(device, pinned, 65, softMemcpyHostToDevice, stream), softErrorInvalidValue,
                 "65 bytes do not lie within");
    EXPECT_FAILS(softMemcpyAsync(device, pinned + 1, 64, softMemcpyHostToDevice, stream), softErrorInvalidValue,
                 "nor pinned");
    EXPECT_FAILS(softMemcpyAsync(device, pinned, 64, softMemcpyDeviceToDevice, stream), softErrorInvalidValue,
                 "is host memory");
    EXPECT_FAILS(softMemcpyAsync(pinned, device, 64, softMemcpyHostToDevice, stream), softErrorInvalidValue,
                 "is host memory");
    EXPECT_FAILS(softMemcpyAsync(device, pinned, 64, (softMemcpyKind)9, stream), softErrorInvalidValue, "kind is 9");
    EXPECT_FAILS(softMemsetAsync(pinned, 0, 64, stream), softErrorInvalidValue, "is host memory");
    EXPECT_FAILS(softMemsetAsync(device + 1, 0, 64, stream), softErrorInvalidValue, "do not lie within");
    EXPECT_OK(softFreeHost(pinned));
    EXPECT_FAILS(softMemcpyAsync(device, pinned, 64, softMemcpyHostToDevice, stream), softErrorInvalidValue,
                 "nor pinned");
    EXPECT_OK(softFree(device));
    EXPECT_FAILS(softMemsetAsync(device, 0, 64, stream), softErrorInvalidValue, "do not lie within");
}

static void copies_of_other_memory_are_refused(void **state)
{
    (void)state;
    play(refuse_copies, &(struct scene){0});
}

/* Freeing pinned memory waits for the copies of the current device, not for those of another, whose work may wait for
 * ours. */
static void free_behind_a_copy(void)
{
    enum { BYTES = 4 << 20 };
    struct gate gate;
    softStream_t stream = new_stream(0), other = new_stream(1);
    char *device = new_memory(0, BYTES), *pinned = new_pinned(BYTES), last;
    memset(pinned, 3, BYTES);
    gate_close(&gate, other);
    EXPECT_OK(softSetDevice(0));
    for (int i = 0; i < 20; i++)
        EXPECT_OK(softMemcpyAsync(device, pinned, BYTES, softMemcpyHostToDevice, stream));
    EXPECT_OK(softFreeHost(pinned));
    EXPECT_OK(softStreamQuery(stream));
    read_back(&last, device + BYTES - 1, 1);
    EXPECT(last == 3);
    EXPECT_FAILS(softStreamQuery(other), softErrorNotReady, "work to do");
    gate_open(&gate);
    EXPECT_OK(softStreamSynchronize(other));
}

static void freeing_pinned_memory_waits_for_its_device(void **state)
{
    (void)state;
    play(free_behind_a_copy, &(struct scene){0});
}

/* ---- peers ----------------------------------------------------------------------------------- */

static void reach_a_peer(void)
{
    softStream_t stream = new_stream(0);
    char *own = new_memory(0, 64), *peer = new_memory(1, 64);
    uint32_t on_host = 0;
    int can = -1;
    EXPECT_OK(softSetDevice(0));
    EXPECT_OK(softMemsetAsync(own, 0, 64, stream));
    /* without access: only the peer copy, which CUDA sends through the host */
    EXPECT_FAILS(launch_on(stream, add_one, peer, 4, 1), softErrorPeerAccessNotEnabled, "memory of device 1");
    EXPECT_FAILS(softMemcpyAsync(peer, own, 64, softMemcpyDeviceToDevice, stream), softErrorPeerAccessNotEnabled,
                 "no access to");
    EXPECT_FAILS(softMemsetAsync(peer, 0, 64, stream), softErrorPeerAccessNotEnabled, "no access to");
    EXPECT_OK(softMemcpyPeerAsync(peer, 1, own, 0, 64, stream));
    EXPECT_FAILS(softMemcpyPeerAsync(peer, 0, own, 1, 64, stream), softErrorInvalidValue,
                 "the pointers are device 0's and 1's");
    /* with access */
    EXPECT_OK(softDeviceCanAccessPeer(&can, 0, 1));
    EXPECT(can == 1);
    EXPECT_OK(softDeviceCanAccessPeer(&can, 1, 1));
    EXPECT(can == 0);
    EXPECT_OK(softDeviceEnablePeerAccess(1, 0));
    EXPECT_FAILS(softDeviceEnablePeerAccess(1, 0), softErrorPeerAccessAlreadyEnabled, "already");
    EXPECT_FAILS(softDeviceEnablePeerAccess(0, 0), softErrorInvalidDevice, "no peer of itself");
    EXPECT_FAILS(softDeviceEnablePeerAccess(64, 0), softErrorInvalidDevice, "there are 64");
    EXPECT_OK(launch_on(stream, add_one, peer, 4, 1));
    EXPECT_OK(softMemcpyAsync(own, peer, 64, softMemcpyDeviceToDevice, stream));
    EXPECT_OK(softStreamSynchronize(stream));
    read_back(&on_host, own, 4);
    EXPECT(on_host == 1);
    /* one way only */
    softStream_t other = new_stream(1);
    EXPECT_FAILS(launch_on(other, add_one, own, 4, 1), softErrorPeerAccessNotEnabled, "memory of device 0");
}

static void peers_need_access(void **state)
{
    (void)state;
    play(reach_a_peer, &(struct scene){0});
}

static void launch_with_bad_pointers(void)
{
    uint32_t on_host;
    softStream_t stream = new_stream(0);
    char *memory = new_memory(0, 64);
    EXPECT_FAILS(launch_on(stream, add_one, &on_host, 4, 1), softErrorInvalidDevicePointer, "is not device memory");
    EXPECT_FAILS(launch_on(stream, add_one, memory, 65, 1), softErrorIllegalAddress, "65 bytes do not lie within");
    EXPECT_FAILS(launch_on(stream, add_one, memory + 61, 4, 1), softErrorIllegalAddress, "do not lie within");
    EXPECT_FAILS(launch_on(stream, add_one, memory - 1, 4, 1), softErrorIllegalAddress, "do not lie within");
    EXPECT_OK(softSetDevice(1));
    EXPECT_FAILS(launch_on(stream, add_one, memory, 4, 1), softErrorInvalidResourceHandle, "while device 1 is current");
    EXPECT_OK(softSetDevice(0));
    char large[SOFT_LAUNCH_ARGUMENT_BYTES + 1] = {0};
    struct soft_cost cost = {.name = "large"};
    EXPECT_FAILS(softLaunch(stream, &cost, add_one, large, sizeof(large), 1), softErrorInvalidValue, "at most 192");
    EXPECT_OK(softFree(memory));
    EXPECT_FAILS(launch_on(stream, add_one, memory, 4, 1), softErrorIllegalAddress, "do not lie within");
}

static void kernels_get_checked_pointers(void **state)
{
    (void)state;
    play(launch_with_bad_pointers, &(struct scene){0});
}

/* ---- traffic --------------------------------------------------------------------------------- */

struct tally {
    uint64_t scatter_01, nested_10, plain_up, plain_down, other;
};

static void tally_up(void *context, const char *range, int from, int to, uint64_t bytes)
{
    struct tally *tally = context;
    if (!strcmp(range, "scatter") && from == 0 && to == 1)
        tally->scatter_01 += bytes;
    else if (!strcmp(range, "nested") && from == 1 && to == 0)
        tally->nested_10 += bytes;
    else if (!range[0] && from == -1 && to == 1)
        tally->plain_up += bytes;
    else if (!range[0] && from == 1 && to == -1)
        tally->plain_down += bytes;
    else
        tally->other += bytes;
}

static struct tally tally_now(void)
{
    struct tally tally = {0};
    softTrafficVisit(tally_up, &tally);
    return tally;
}

static void move_bytes(void)
{
    struct gate gate;
    softStream_t stream = new_stream(0);
    char *first = new_memory(0, 1000), *second = new_memory(1, 1000), *host = new_pinned(1000);
    EXPECT_OK(softMemcpyAsync(second, host, 30, softMemcpyHostToDevice, new_stream(1)));
    EXPECT_OK(softDeviceSynchronize());
    EXPECT(softRangePush("scatter") == 0);
    gate_close(&gate, stream);
    EXPECT_OK(softMemcpyPeerAsync(second, 1, first, 0, 1000, stream));
    EXPECT(softRangePush("nested") == 1);
    EXPECT_OK(softMemcpyPeerAsync(first, 0, second, 1, 500, stream));
    EXPECT(softRangePop() == 1);
    EXPECT_OK(softMemcpyPeerAsync(second, 1, first, 0, 1, stream));
    EXPECT(softRangePop() == 0);
    EXPECT(softRangePop() < 0);
    EXPECT(tally_now().scatter_01 == 0); /* counted where they are moved */
    gate_open(&gate);
    EXPECT_OK(softStreamSynchronize(stream));
    struct tally tally = tally_now();
    EXPECT(tally.scatter_01 == 1001 && tally.nested_10 == 500 && tally.plain_up == 30 && tally.other == 0);
    softTrafficReset();
    tally = tally_now();
    EXPECT(tally.scatter_01 == 0 && tally.nested_10 == 0);
}

static void bytes_are_counted_by_range_and_pair(void **state)
{
    (void)state;
    play(move_bytes, &(struct scene){0});
}

static void lose_a_copy(void)
{
    softStream_t stream = new_stream(0);
    char *first = new_memory(0, 8), *second = new_memory(1, 8), values[8];
    EXPECT_OK(softMemsetAsync(first, 1, 8, stream));
    EXPECT_OK(softStreamSynchronize(stream));
    softTestDropCopy(2);
    EXPECT(softRangePush("scatter") == 0);
    for (int i = 0; i < 4; i++)
        EXPECT_OK(softMemcpyPeerAsync(second + 2 * i, 1, first + 2 * i, 0, 2, stream));
    EXPECT_OK(softStreamSynchronize(stream));
    EXPECT(tally_now().scatter_01 == 6);
    read_back(values, second, 8);
    EXPECT(values[0] == 1 && values[2] == -1 && values[4] == 1 && values[6] == 1);
}

static void a_dropped_copy_is_neither_made_nor_counted(void **state)
{
    (void)state;
    play(lose_a_copy, &(struct scene){0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_carry_bytes),
        cmocka_unit_test(copies_of_other_memory_are_refused),
        cmocka_unit_test(freeing_pinned_memory_waits_for_its_device),
        cmocka_unit_test(peers_need_access),
        cmocka_unit_test(kernels_get_checked_pointers),
        cmocka_unit_test(bytes_are_counted_by_range_and_pair),
        cmocka_unit_test(a_dropped_copy_is_neither_made_nor_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
