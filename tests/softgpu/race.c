/* SPDX-License-Identifier: MIT
 *
 * What the thread sanitizer sees of the soft GPU: CUDA's happens-before edges and no others. Each case is a small
 * program; race.sh runs it and expects a report or none. Cases order their steps in time by signals that the sanitizer
 * does not see, so that a report never depends on luck: the work is done long before the access that must not follow
 * it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softgpu/internal.h"

#define NEED(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, softErrorDetail());                     \
            exit(2);                                                                                                   \
        }                                                                                                              \
    } while (0)

static softStream_t first, second, third;
static uint32_t *data; /* device memory */
static struct soft_signal signals[4];

static void await(struct soft_signal *signal)
{
    while (soft_signal_read(signal) == 0)
        soft_signal_wait(signal, 0, 0, SOFT_NO_DEADLINE);
}

static void add(const void *arguments, unsigned block, unsigned blocks)
{
    (void)block;
    (void)blocks;
    ++**(uint32_t *const *)arguments;
}

static void add_own(const void *arguments, unsigned block, unsigned blocks)
{
    (void)blocks;
    ++(*(uint32_t *const *)arguments)[block];
}

static void launch(softStream_t stream, soft_body *body, unsigned blocks)
{
    struct soft_cost cost = {.name = "body", .flops = 1, .bytes = 8};
    struct soft_span span = {data, 64, true};
    void *pointer;
    NEED(!softTranslate(stream, "body", &span, &pointer));
    NEED(!softLaunch(stream, &cost, body, &pointer, sizeof(pointer), blocks));
}

static void run_set(softStream_t stream, const struct soft_what *what, void *arguments)
{
    (void)stream;
    (void)what;
    soft_signal_set(*(struct soft_signal **)arguments, 1);
}

static void run_await(softStream_t stream, const struct soft_what *what, void *arguments)
{
    (void)stream;
    (void)what;
    await(*(struct soft_signal **)arguments);
}

static void enqueue(softStream_t stream, soft_task *task, struct soft_signal *signal)
{
    struct soft_what what = {.name = "signal"};
    NEED(!soft_enqueue(stream, &what, task, &signal, sizeof(signal)));
}

/* Lets the host go on once the stream has come here; the sanitizer sees no edge. */
static void pass(softStream_t stream, struct soft_signal *signal)
{
    enqueue(stream, run_set, signal);
    await(signal);
}

static softEvent_t record(softStream_t stream)
{
    softEvent_t event;
    NEED(!softEventCreateWithFlags(&event, softEventDisableTiming));
    NEED(!softEventRecord(event, stream));
    return event;
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void no_event(void)
{
    launch(first, add, 1);
    pass(first, &signals[0]);
    launch(second, add, 1);
}

static void event(void)
{
    launch(first, add, 1);
    NEED(!softStreamWaitEvent(second, record(first), 0));
    launch(second, add, 1);
}

static void event_before_the_work(void)
{
    softEvent_t early = record(first);
    launch(first, add, 1);
    pass(first, &signals[0]);
    NEED(!softStreamWaitEvent(second, early, 0));
    launch(second, add, 1);
}

/* A wait for the first record must not be ordered behind what the second one follows. */
static void event_recorded_again(void)
{
    softEvent_t twice = record(first);
    enqueue(second, run_await, &signals[1]);
    NEED(!softStreamWaitEvent(second, twice, 0));
    launch(first, add, 1);
    NEED(!softEventRecord(twice, first));
    pass(first, &signals[0]);
    launch(second, add, 1);
    soft_signal_set(&signals[1], 1);
}

/* A new event may live where an old one did; it must not bring the old one's edges. */
static void event_in_old_memory(void)
{
    launch(first, add, 1);
    softEvent_t old = record(first);
    pass(first, &signals[0]);
    NEED(!softEventDestroy(old));
    for (int i = 0; i < 8; i++) {
        softEvent_t other = record(third);
        pass(third, &signals[2]);
        signals[2].value = 0;
        NEED(!softStreamWaitEvent(second, other, 0));
    }
    launch(second, add, 1);
}

static void unrelated_enqueues(void)
{
    launch(first, add, 1);
    pass(first, &signals[0]);
    pass(third, &signals[1]);
    NEED(!softMemsetAsync(data + 8, 0, 4, first));
    NEED(!softMemsetAsync(data + 9, 0, 4, third));
    launch(second, add, 1);
}

static void host_synchronises(void)
{
    launch(first, add, 1);
    NEED(!softStreamSynchronize(first));
    launch(second, add, 1);
}

static void host_queries(void)
{
    launch(first, add, 1);
    while (softStreamQuery(first) == softErrorNotReady)
        usleep(100);
    launch(second, add, 1);
}

static void host_synchronises_event(void)
{
    launch(first, add, 1);
    NEED(!softEventSynchronize(record(first)));
    launch(second, add, 1);
}

/* Work that was enqueued before the host synchronised is not ordered by what the host does later. */
static void host_synchronises_late(void)
{
    enqueue(second, run_await, &signals[1]);
    launch(second, add, 1);
    launch(first, add, 1);
    NEED(!softStreamSynchronize(first));
    NEED(!softMemsetAsync(data + 8, 0, 4, second));
    soft_signal_set(&signals[1], 1);
}

static void *synchronise_first(void *unused)
{
    size_t free_bytes, total;
    NEED(!softStreamSynchronize(first));
    NEED(!softMemGetInfo(&free_bytes, &total)); /* takes the lock that the other thread's launch takes next */
    soft_signal_set(&signals[0], 1);
    return unused;
}

/* Another thread's synchronisation orders nothing for this one, though both used the library's locks. */
static void other_thread_synchronises(void)
{
    pthread_t thread;
    launch(first, add, 1);
    NEED(!pthread_create(&thread, NULL, synchronise_first, NULL));
    await(&signals[0]);
    NEED(!softMemsetAsync(data + 8, 0, 4, second));
    launch(second, add, 1);
    NEED(!softStreamSynchronize(second));
    pthread_join(thread, NULL);
}

static void copy_without_event(void)
{
    uint32_t *host;
    NEED(!softMallocHost((void **)&host, 64));
    launch(first, add, 1);
    pass(first, &signals[0]);
    NEED(!softMemcpyAsync(host, data, 64, softMemcpyDeviceToHost, second));
}

static void host_reads_too_early(void)
{
    volatile uint32_t *host;
    NEED(!softMallocHost((void **)&host, 64));
    NEED(!softMemcpyAsync((void *)(uintptr_t)host, data, 64, softMemcpyDeviceToHost, first));
    pass(first, &signals[0]);
    (void)host[0];
}

static void host_reads_in_time(void)
{
    volatile uint32_t *host;
    NEED(!softMallocHost((void **)&host, 64));
    NEED(!softMemcpyAsync((void *)(uintptr_t)host, data, 64, softMemcpyDeviceToHost, first));
    NEED(!softStreamSynchronize(first));
    (void)host[0];
}

static void blocks_apart(void)
{
    for (int i = 0; i < 50; i++) {
        launch(first, add_own, 8);
        launch(first, add, 1);
    }
}

/* Both blocks touch one element; the second waits until the first has, so that two threads take them. */
static void add_both(const void *arguments, unsigned block, unsigned blocks)
{
    add(arguments, block, blocks);
    soft_signal_add(&signals[3], 1);
    while (soft_signal_read(&signals[3]) < 2)
        soft_pause();
}

static void blocks_together(void)
{
    launch(first, add_both, 2);
}

/* Freed memory that is used again is in order: cudaFree waits. */
static void memory_used_again(void)
{
    launch(first, add, 1);
    NEED(!softFree(data));
    NEED(!softMalloc((void **)&data, 64));
    launch(second, add, 1);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"no_event", no_event},
    {"event", event},
    {"event_before_the_work", event_before_the_work},
    {"event_recorded_again", event_recorded_again},
    {"event_in_old_memory", event_in_old_memory},
    {"unrelated_enqueues", unrelated_enqueues},
    {"host_synchronises", host_synchronises},
    {"host_queries", host_queries},
    {"host_synchronises_event", host_synchronises_event},
    {"host_synchronises_late", host_synchronises_late},
    {"other_thread_synchronises", other_thread_synchronises},
    {"copy_without_event", copy_without_event},
    {"host_reads_too_early", host_reads_too_early},
    {"host_reads_in_time", host_reads_in_time},
    {"blocks_apart", blocks_apart},
    {"blocks_together", blocks_together},
    {"memory_used_again", memory_used_again},
};

int main(int count, char **arguments)
{
    struct soft_settings settings = {.memory_bytes = 1u << 20, .cores_per_device = 2};
    softStream_t *const streams[] = {&first, &second, &third};
    NEED(count == 2 && !softConfigure(&settings));
    for (int i = 0; i < 3; i++)
        NEED(!softStreamCreateWithFlags(streams[i], softStreamNonBlocking));
    NEED(!softMalloc((void **)&data, 64));
    NEED(!softMemsetAsync(data, 0, 64, first));
    NEED(!softDeviceSynchronize());
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(cases[i].name, arguments[1]) != 0)
            continue;
        cases[i].run();
        NEED(!softDeviceSynchronize());
        return 0;
    }
    fprintf(stderr, "no case %s\n", arguments[1]);
    return 2;
}
