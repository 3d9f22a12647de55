/* SPDX-License-Identifier: MIT
 *
 * Streams and events: asynchronous, in order within a stream, unordered between streams but for events.
 */
#include "play.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "sys/clock.h"
#include "sys/topology.h"

static softEvent_t new_event(unsigned flags)
{
    softEvent_t event;
    EXPECT_OK(softEventCreateWithFlags(&event, flags));
    return event;
}

static uint32_t value_of(const void *memory)
{
    uint32_t value;
    read_back(&value, memory, sizeof(value));
    return value;
}

static void *new_counter(int device, softStream_t stream)
{
    void *counter = new_memory(device, sizeof(uint32_t));
    EXPECT_OK(softMemsetAsync(counter, 0, sizeof(uint32_t), stream));
    return counter;
}

static void double_it(const void *arguments, unsigned block, unsigned blocks)
{
    (void)block;
    (void)blocks;
    **(uint32_t *const *)arguments *= 2;
}

/* ---- one stream ------------------------------------------------------------------------------ */

static void launch_behind_a_gate(void)
{
    struct gate gate;
    softStream_t stream = new_stream(0);
    void *counter = new_counter(0, stream);
    EXPECT_OK(softStreamSynchronize(stream));
    gate_close(&gate, stream);
    EXPECT_OK(launch_on(stream, add_one, counter, 4, 1));
    EXPECT_FAILS(softStreamQuery(stream), softErrorNotReady, "work to do");
    EXPECT(value_of(counter) == 0);
    gate_open(&gate);
    EXPECT_OK(softStreamSynchronize(stream));
    EXPECT_OK(softStreamQuery(stream));
    EXPECT(value_of(counter) == 1);
}

static void a_launch_returns_before_its_work_is_done(void **state)
{
    (void)state;
    play(launch_behind_a_gate, &(struct scene){0});
}

/* ((1 * 2) + 1) * 2 ...: any other order gives another number. More launches than the ring has slots. */
static void count_in_order(void)
{
    softStream_t stream = new_stream(0);
    void *counter = new_counter(0, stream);
    uint32_t expected = 0;
    for (int i = 0; i < 5000; i++) {
        EXPECT_OK(launch_on(stream, i % 3 ? add_one : double_it, counter, 4, 1));
        expected = i % 3 ? expected + 1 : expected * 2;
    }
    EXPECT_OK(softStreamDestroy(stream)); /* finishes what was enqueued */
    EXPECT(value_of(counter) == expected);
}

static void a_stream_keeps_its_order(void **state)
{
    (void)state;
    play(count_in_order, &(struct scene){0});
}

/* What a launch says of itself decides; the order of the stream stays. */
static void leave_out_what_is_no_product(void)
{
    softStream_t stream = new_stream(0);
    void *counter = new_counter(0, stream);
    struct soft_cost cost = {.name = "add_one", .product = true};
    const struct soft_span span = {counter, sizeof(uint32_t), true};
    void *translated = NULL;
    EXPECT_OK(softStreamSynchronize(stream));
    EXPECT_OK(softTranslate(stream, cost.name, &span, &translated));
    softProductsAlone(true);
    EXPECT_OK(softLaunch(stream, &cost, add_one, &translated, sizeof(translated), 1));
    cost.product = false;
    EXPECT_OK(softLaunch(stream, &cost, add_one, &translated, sizeof(translated), 1));
    EXPECT_OK(softStreamSynchronize(stream));
    EXPECT(value_of(counter) == 1);
    softProductsAlone(false);
    EXPECT_OK(softLaunch(stream, &cost, add_one, &translated, sizeof(translated), 1));
    EXPECT_OK(softStreamSynchronize(stream));
    EXPECT(value_of(counter) == 2);
}

static void products_can_be_had_alone(void **state)
{
    (void)state;
    play(leave_out_what_is_no_product, &(struct scene){0});
}

static void refuse_handles(void)
{
    softStream_t stream = new_stream(0), other = new_stream(1);
    softEvent_t event = new_event(softEventDefault);
    void *memory = new_memory(0, 4);
    EXPECT_FAILS(launch_on(NULL, add_one, memory, 4, 1), softErrorInvalidResourceHandle, "default stream");
    EXPECT_FAILS(softMemsetAsync(memory, 0, 4, NULL), softErrorInvalidResourceHandle, "default stream");
    EXPECT_FAILS(softStreamSynchronize(NULL), softErrorInvalidResourceHandle, "default stream");
    EXPECT_FAILS(softEventRecord(event, NULL), softErrorInvalidResourceHandle, "default stream");
    EXPECT_FAILS(softEventRecord(NULL, stream), softErrorInvalidResourceHandle, "not a live event");
    EXPECT_FAILS(softStreamWaitEvent(stream, NULL, 0), softErrorInvalidResourceHandle, "not a live event");
    EXPECT_FAILS(softEventRecord(event, stream), softErrorInvalidResourceHandle, "the event is device 1's");
    EXPECT_FAILS(softStreamCreateWithFlags(&other, 0), softErrorInvalidValue, "cudaStreamNonBlocking");
    EXPECT_FAILS(launch_on(other, add_one, memory, 4, 1), softErrorPeerAccessNotEnabled, "memory of device 0");
}

static void bad_handles_are_refused(void **state)
{
    (void)state;
    play(refuse_handles, &(struct scene){0});
}

/* ---- several streams ------------------------------------------------------------------------- */

static void pass_a_held_stream(void)
{
    struct gate gate;
    softStream_t held = new_stream(0), free_stream = new_stream(0);
    void *counter = new_counter(0, free_stream);
    gate_close(&gate, held);
    EXPECT_OK(launch_on(free_stream, add_one, counter, 4, 1));
    EXPECT_OK(softStreamSynchronize(free_stream));
    EXPECT(value_of(counter) == 1);
    EXPECT_FAILS(softStreamQuery(held), softErrorNotReady, "work to do");
    gate_open(&gate);
    EXPECT_OK(softDeviceSynchronize());
    EXPECT_OK(softStreamQuery(held));
}

static void streams_do_not_wait_for_each_other(void **state)
{
    (void)state;
    play(pass_a_held_stream, &(struct scene){0});
}

static void order_by_event(void)
{
    struct gate gate;
    softStream_t first = new_stream(0), second = new_stream(1);
    void *memory = new_memory(1, 4);
    EXPECT_OK(softMemsetAsync(memory, 0, 4, second));
    EXPECT_OK(softStreamSynchronize(second));
    EXPECT_OK(softSetDevice(0));
    softEvent_t event = new_event(softEventDisableTiming);
    gate_close(&gate, first);
    EXPECT_OK(softEventRecord(event, first));
    EXPECT_OK(softStreamWaitEvent(second, event, 0));
    EXPECT_OK(softSetDevice(1));
    EXPECT_OK(launch_on(second, add_one, memory, 4, 1)); /* behind an event that has not happened */
    usleep(20000);
    EXPECT_FAILS(softEventQuery(event), softErrorNotReady, "not happened");
    EXPECT_FAILS(softStreamQuery(second), softErrorNotReady, "work to do");
    EXPECT(value_of(memory) == 0);
    gate_open(&gate);
    EXPECT_OK(softEventSynchronize(event));
    EXPECT_OK(softEventQuery(event));
    EXPECT_OK(softStreamSynchronize(second));
    EXPECT(value_of(memory) == 1);
}

static void an_event_orders_two_streams(void **state)
{
    (void)state;
    play(order_by_event, &(struct scene){0});
}

/* A wait holds on to the record that was the latest when it was called. */
static void capture_the_latest(void)
{
    struct gate first_gate, second_gate;
    softStream_t recording = new_stream(0), early = new_stream(0), late = new_stream(0), never = new_stream(0);
    softEvent_t event = new_event(softEventDefault);
    EXPECT_OK(softStreamWaitEvent(never, event, 0)); /* never recorded: no wait */
    EXPECT_OK(softEventSynchronize(event));
    gate_close(&first_gate, recording);
    EXPECT_OK(softEventRecord(event, recording));
    EXPECT_OK(softStreamWaitEvent(early, event, 0));
    gate_close(&second_gate, recording);
    EXPECT_OK(softEventRecord(event, recording)); /* again, while it is waited for */
    EXPECT_OK(softStreamWaitEvent(late, event, 0));
    EXPECT_OK(softStreamSynchronize(never));
    gate_open(&first_gate);
    EXPECT_OK(softStreamSynchronize(early));
    usleep(20000);
    EXPECT_FAILS(softStreamQuery(late), softErrorNotReady, "work to do");
    EXPECT_OK(softEventDestroy(event)); /* while a stream waits for it */
    gate_open(&second_gate);
    EXPECT_OK(softStreamSynchronize(late));
}

static void a_wait_captures_the_latest_record(void **state)
{
    (void)state;
    play(capture_the_latest, &(struct scene){0});
}

/* ---- times ----------------------------------------------------------------------------------- */

static void sleep_a_while(const void *arguments, unsigned block, unsigned blocks)
{
    (void)arguments;
    (void)block;
    (void)blocks;
    clock_sleep(0.02);
}

static void take_times(void)
{
    softStream_t stream = new_stream(0);
    void *memory = new_memory(0, 4);
    softEvent_t from = new_event(softEventDefault), to = new_event(softEventDefault),
                untimed = new_event(softEventDisableTiming);
    float milliseconds;
    double start, end, before = clock_seconds();
    EXPECT_FAILS(softEventElapsedTime(&milliseconds, from, to), softErrorInvalidResourceHandle, "never recorded");
    EXPECT_OK(softEventRecord(from, stream));
    EXPECT_OK(launch_on(stream, sleep_a_while, memory, 4, 1));
    EXPECT_OK(softEventRecord(to, stream));
    EXPECT_OK(softEventRecord(untimed, stream));
    EXPECT_FAILS(softEventElapsedTime(&milliseconds, from, to), softErrorNotReady, "not happened");
    EXPECT_OK(softEventSynchronize(to));
    EXPECT_OK(softEventElapsedTime(&milliseconds, from, to));
    EXPECT(milliseconds >= 20);
    EXPECT_OK(softEventTime(from, &start));
    EXPECT_OK(softEventTime(to, &end));
    EXPECT(before <= start && start + 0.02 <= end && end <= clock_seconds());
    EXPECT_FAILS(softEventElapsedTime(&milliseconds, from, untimed), softErrorInvalidResourceHandle, "without timing");
}

static void events_tell_times(void **state)
{
    (void)state;
    play(take_times, &(struct scene){0});
}

static void work_a_while(const void *arguments, unsigned block, unsigned blocks)
{
    (void)block;
    (void)blocks;
    struct timespec used;
    do { /* 20 ms of this thread's own time */
        ++**(uint32_t *const *)arguments;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    } while (used.tv_sec == 0 && used.tv_nsec < 20000000);
}

/* Work counts, sleep and idleness don't; a destroyed stream's work stays counted. */
static void measure_busy_time(void)
{
    softStream_t stream = new_stream(0);
    void *memory = new_counter(0, stream);
    EXPECT_OK(launch_on(stream, sleep_a_while, memory, 4, 1));
    EXPECT_OK(softStreamSynchronize(stream));
    double idle = softBusySeconds(0);
    EXPECT(idle < 0.019);
    EXPECT_OK(launch_on(stream, work_a_while, memory, 4, 1));
    EXPECT_OK(softStreamSynchronize(stream));
    double busy = softBusySeconds(0);
    EXPECT(busy >= 0.019);
    EXPECT_OK(softStreamDestroy(stream));
    EXPECT(softBusySeconds(0) >= busy - 0.001);
    EXPECT(softBusySeconds(1) < 0.001);
}

static void busy_time_is_that_of_the_work(void **state)
{
    (void)state;
    play(measure_busy_time, &(struct scene){0});
}

/* ---- cores ----------------------------------------------------------------------------------- */

static void read_cores(void)
{
    char first[64], second[64], again[64];
    new_stream(0);
    EXPECT_OK(softDeviceCores(0, first, sizeof(first)));
    new_stream(1);
    EXPECT_OK(softDeviceCores(1, second, sizeof(second)));
    EXPECT(first[0] && second[0]);
    if (topology_usable_cores() > 1)
        EXPECT(strcmp(first, second) != 0);
    for (int device = 2; device < topology_usable_cores() + 1; device++)
        new_stream(device);
    EXPECT_OK(softDeviceCores(topology_usable_cores(), again, sizeof(again)));
    EXPECT(!strcmp(first, again)); /* more devices than cores: round and round */
}

static void cores_are_read_back(void **state)
{
    (void)state;
    play(read_cores, &(struct scene){0});
}

static void note_block(const void *arguments, unsigned block, unsigned blocks)
{
    (void)blocks;
    (*(uint32_t *const *)arguments)[block]++;
}

static void share_blocks(void)
{
    enum { BLOCKS = 64, ROUNDS = 200 };
    uint32_t counts[BLOCKS];
    softStream_t stream = new_stream(0);
    EXPECT(softStreamCores(stream) == 2);
    uint32_t *by_block = new_memory(0, sizeof(counts));
    EXPECT_OK(softMemsetAsync(by_block, 0, sizeof(counts), stream));
    for (int round = 0; round < ROUNDS; round++)
        EXPECT_OK(launch_on(stream, note_block, by_block, sizeof(counts), BLOCKS));
    EXPECT_OK(softStreamSynchronize(stream));
    read_back(counts, by_block, sizeof(counts));
    for (int block = 0; block < BLOCKS; block++)
        EXPECT(counts[block] == ROUNDS);
    EXPECT_OK(softStreamDestroy(stream));
}

static void two_cores_share_a_launch(void **state)
{
    (void)state;
    play(share_blocks, &(struct scene){.settings.cores_per_device = 2});
}

/* The helper is late: the launch is not done before it is. */
static pthread_t stream_thread;
static struct soft_signal started;

static void note_thread(const void *arguments, unsigned block, unsigned blocks)
{
    (void)arguments;
    (void)block;
    (void)blocks;
    stream_thread = pthread_self();
}

static void write_late(const void *arguments, unsigned block, unsigned blocks)
{
    (void)block;
    soft_signal_add(&started, 1);
    while (soft_signal_read(&started) < blocks) /* so each block has a thread of its own */
        soft_pause();
    if (pthread_equal(pthread_self(), stream_thread))
        return;
    clock_sleep(0.02);
    **(uint32_t *const *)arguments = 5;
}

static void wait_for_helpers(void)
{
    softStream_t stream = new_stream(0);
    void *counter = new_counter(0, stream);
    EXPECT_OK(launch_on(stream, note_thread, counter, 4, 1));
    EXPECT_OK(launch_on(stream, write_late, counter, 4, 2));
    EXPECT_OK(launch_on(stream, double_it, counter, 4, 1));
    EXPECT_OK(softStreamSynchronize(stream));
    EXPECT(value_of(counter) == 10);
}

static void a_launch_ends_with_its_last_block(void **state)
{
    (void)state;
    play(wait_for_helpers, &(struct scene){.settings.cores_per_device = 2});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_returns_before_its_work_is_done),
        cmocka_unit_test(a_stream_keeps_its_order),
        cmocka_unit_test(products_can_be_had_alone),
        cmocka_unit_test(bad_handles_are_refused),
        cmocka_unit_test(streams_do_not_wait_for_each_other),
        cmocka_unit_test(an_event_orders_two_streams),
        cmocka_unit_test(a_wait_captures_the_latest_record),
        cmocka_unit_test(events_tell_times),
        cmocka_unit_test(busy_time_is_that_of_the_work),
        cmocka_unit_test(cores_are_read_back),
        cmocka_unit_test(two_cores_share_a_launch),
        cmocka_unit_test(a_launch_ends_with_its_last_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
