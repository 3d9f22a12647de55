/* SPDX-License-Identifier: MIT
 *
 * What the thread sanitizer sees of a collective: an edge between the streams that take part, and no other; every byte
 * it touches. Each case is a small program; race.sh runs it and expects a report or none. Two ranks on two devices,
 * gradients written on compute streams, all-reduced on communication streams, as DDP does it; steps are ordered in time
 * by signals that the sanitizer does not see, so that a report never depends on luck.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/internal.h"

#define NEED(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s: %s %s\n", __FILE__, __LINE__, #condition, softErrorDetail(),                   \
                    softNcclGetLastError(NULL));                                                                       \
            exit(2);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define RANKS 2
#define LARGE 4096 /* floats */
#define SMALL 16

static softNcclComm_t comm[RANKS], other_comm[RANKS];
static softStream_t compute[RANKS], communication[RANKS], other[RANKS];
static float *bucket[RANKS], *apart[RANKS];
static struct soft_signal arrived;

/* Writes, or reads, all floats of the buffer. */
struct touch {
    float *buffer;
    size_t count;
};

static void fill(const void *arguments, unsigned block, unsigned blocks)
{
    const struct touch *touch = arguments;
    (void)block;
    (void)blocks;
    for (size_t i = 0; i < touch->count; i++)
        touch->buffer[i] = 1;
}

static void look(const void *arguments, unsigned block, unsigned blocks)
{
    const struct touch *touch = arguments;
    const volatile float *buffer = touch->buffer; /* read, though nobody wants the values */
    (void)block;
    (void)blocks;
    for (size_t i = 0; i < touch->count; i++)
        (void)buffer[i];
}

static void launch(softStream_t stream, soft_body *body, float *buffer, size_t count)
{
    struct soft_cost cost = {"touch", 0, 4.0 * (double)count};
    struct soft_span span = {buffer, count * sizeof(float), true};
    struct touch touch = {.count = count};
    void *pointer;
    NEED(!softSetDevice(soft_device_map(soft_device_of_pointer(buffer))->ordinal));
    NEED(!softTranslate(stream, "touch", &span, &pointer));
    touch.buffer = pointer;
    NEED(!softLaunch(stream, &cost, body, &touch, sizeof(touch), 1));
}

static void run_arrive(softStream_t stream, const struct soft_what *what, void *arguments)
{
    (void)stream;
    (void)what;
    (void)arguments;
    soft_signal_add(&arrived, 1);
}

/* The host goes on once both streams have come here; the sanitizer sees no edge. */
static void pass(softStream_t *streams)
{
    struct soft_what what = {.name = "signal"};
    const uint32_t before = soft_signal_read(&arrived);
    for (int rank = 0; rank < RANKS; rank++)
        NEED(!soft_enqueue(streams[rank], &what, run_arrive, NULL, 0));
    for (uint32_t now = before; now != before + RANKS; now = soft_signal_read(&arrived))
        soft_signal_wait(&arrived, now, 0, SOFT_NO_DEADLINE);
}

static void order(softStream_t *from, softStream_t *to, int rank)
{
    softEvent_t event;
    NEED(!softSetDevice(rank));
    NEED(!softEventCreateWithFlags(&event, softEventDisableTiming));
    NEED(!softEventRecord(event, from[rank]));
    NEED(!softStreamWaitEvent(to[rank], event, 0));
}

static void all_reduce(softNcclComm_t *comms, softStream_t *streams, float **buffers, size_t count)
{
    NEED(!softNcclGroupStart());
    for (int rank = 0; rank < RANKS; rank++)
        NEED(!softNcclAllReduce(buffers[rank], buffers[rank], count, softNcclFloat32, softNcclSum, comms[rank],
                                streams[rank]));
    NEED(!softNcclGroupEnd());
}

/* Gradients, then the all-reduce; the ranks whose bit is set in `waits` order them by an event. */
static void reduce_gradients(size_t count, unsigned waits)
{
    for (int rank = 0; rank < RANKS; rank++)
        launch(compute[rank], fill, bucket[rank], count);
    pass(compute);
    for (int rank = 0; rank < RANKS; rank++)
        if (waits >> rank & 1)
            order(compute, communication, rank);
    all_reduce(comm, communication, bucket, count);
    pass(communication);
}

static void case_waits(void)
{
    reduce_gradients(LARGE, 3);
}
static void case_waits_small(void)
{
    reduce_gradients(SMALL, 3);
}
static void case_no_wait(void)
{
    reduce_gradients(LARGE, 0);
}
static void case_no_wait_small(void)
{
    reduce_gradients(SMALL, 0);
}
static void case_no_wait_on_one(void)
{
    reduce_gradients(LARGE, 1);
}

/* The update reads the bucket after the all-reduce. */
static void use_sums(bool waits)
{
    reduce_gradients(LARGE, 3);
    for (int rank = 0; rank < RANKS; rank++) {
        if (waits)
            order(communication, compute, rank);
        launch(compute[rank], look, bucket[rank], LARGE);
    }
    pass(compute);
}

static void case_use_waits(void)
{
    use_sums(true);
}
static void case_use_too_early(void)
{
    use_sums(false);
}

/* The next gradients are ordered behind this rank's all-reduce, which the other rank has finished reading by then. */
static void case_next_step(void)
{
    for (int step = 0; step < 3; step++)
        use_sums(true);
}

/* A communicator orders its own streams only: what `compute` wrote before its collective is not there for a stream that
 * took part in another communicator's. */
static void case_no_foreign_edge(void)
{
    launch(compute[0], fill, apart[0], SMALL);
    all_reduce(comm, compute, bucket, LARGE);
    pass(compute);
    float *halves[RANKS] = {bucket[0] + LARGE, bucket[1] + LARGE};
    all_reduce(other_comm, other, halves, LARGE);
    launch(other[0], look, apart[0], SMALL);
    pass(other);
}

/* Rank 0 wrote before the collective, rank 1's stream reads after it: ordered, as the sum it waits for depends on rank
 * 0. */
static void case_ranks_are_ordered(void)
{
    launch(compute[0], fill, apart[0], SMALL);
    all_reduce(comm, compute, bucket, LARGE);
    NEED(!softSetDevice(1));
    NEED(!softDeviceEnablePeerAccess(0, 0));
    NEED(!softMemcpyPeerAsync(apart[1], 1, apart[0], 0, SMALL * sizeof(float), compute[1]));
    pass(compute);
}

static void open_rank(int rank)
{
    NEED(!softSetDevice(rank));
    softStream_t *streams[] = {&compute[rank], &communication[rank], &other[rank]};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        NEED(!softStreamCreateWithFlags(streams[i], softStreamNonBlocking));
    NEED(!softMalloc((void **)&bucket[rank], 2 * LARGE * sizeof(float)));
    NEED(!softMalloc((void **)&apart[rank], SMALL * sizeof(float)));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"waits", case_waits},
        {"waits_small", case_waits_small},
        {"no_wait", case_no_wait},
        {"no_wait_small", case_no_wait_small},
        {"no_wait_on_one", case_no_wait_on_one},
        {"use_waits", case_use_waits},
        {"use_too_early", case_use_too_early},
        {"next_step", case_next_step},
        {"no_foreign_edge", case_no_foreign_edge},
        {"ranks_are_ordered", case_ranks_are_ordered},
    };
    NEED(argc == 2);
    NEED(!softConfigure(&(struct soft_settings){.memory_bytes = 16u << 20}));
    for (int rank = 0; rank < RANKS; rank++)
        open_rank(rank);
    NEED(!softNcclCommInitAll(comm, RANKS, NULL));
    NEED(!softNcclCommInitAll(other_comm, RANKS, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(cases[i].name, argv[1])) {
            cases[i].run();
            return 0;
        }
    fprintf(stderr, "%s: no such case\n", argv[1]);
    return 2;
}
