/* SPDX-License-Identifier: MIT
 *
 * Timelines on a soft GPU: phases are exclusive and add up to the time from first to last mark; what is hidden of the
 * communication is the part of its union that lies inside compute.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "harness.h"
#include "kernels/kernels.h"
#include "run/timeline.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define ELEMENTS ((size_t)1 << 18)

struct bench {
    cudaStream_t compute, communication;
    cudaEvent_t ready;
    float *values, *others;
    struct timeline timeline;
};

static int open_bench(void **state)
{
    static struct bench bench;

    *state = &bench;
    TRY(harness_configure());
    GPU_TRY(cudaSetDevice(0));
    GPU_TRY(cudaStreamCreateWithFlags(&bench.compute, cudaStreamNonBlocking));
    GPU_TRY(cudaStreamCreateWithFlags(&bench.communication, cudaStreamNonBlocking));
    GPU_TRY(cudaEventCreateWithFlags(&bench.ready, cudaEventDisableTiming));
    GPU_TRY(cudaMalloc((void **)&bench.values, ELEMENTS * sizeof(float)));
    GPU_TRY(cudaMalloc((void **)&bench.others, ELEMENTS * sizeof(float)));
    return timeline_open(&bench.timeline, 0);
}

static int close_bench(void **state)
{
    struct bench *bench = *state;

    timeline_close(&bench->timeline);
    GPU_TRY(cudaFree(bench->values));
    GPU_TRY(cudaFree(bench->others));
    GPU_TRY(cudaEventDestroy(bench->ready));
    GPU_TRY(cudaStreamDestroy(bench->compute));
    GPU_TRY(cudaStreamDestroy(bench->communication));
    return 0;
}

static void fill(struct bench *bench, float *values, cudaStream_t stream, int times)
{
    (void)bench;
    for (int i = 0; i < times; i++)
        assert_int_equal(kernel_fill(values, (float)i, ELEMENTS, stream), cudaSuccess);
}

static void mark(struct bench *bench, enum phase phase, int times)
{
    fill(bench, bench->values, bench->compute, times);
    assert_int_equal(timeline_mark(&bench->timeline, bench->compute, phase), 0);
}

static double sum(const struct step_times *times)
{
    double ms = 0;

    for (int phase = 0; phase < PHASES; phase++)
        ms += times->ms[phase];
    return ms;
}

static void adds_up(void **state)
{
    struct bench *bench = *state;
    struct step_times times;

    assert_int_equal(timeline_begin(&bench->timeline, bench->compute), 0);
    mark(bench, PHASE_FORWARD, 4);
    mark(bench, PHASE_LOSS, 1);
    mark(bench, PHASE_BACKWARD, 8);
    mark(bench, PHASE_FORWARD, 4);
    mark(bench, PHASE_UPDATE, 1);
    assert_int_equal(cudaStreamSynchronize(bench->compute), cudaSuccess);
    assert_int_equal(timeline_read(&bench->timeline, &times), 0);
    assert_true(fabs(sum(&times) - (times.last_s - times.first_s) * 1e3) < 1e-6);
    assert_true(times.ms[PHASE_FORWARD] > 0 && times.ms[PHASE_BACKWARD] > 0 && times.ms[PHASE_UPDATE] > 0);
    assert_true(times.ms[PHASE_REDUCE] <= 0);
    assert_true(times.communication_ms <= 0 && times.communication_hidden_ms <= 0);
}

static void forgets_the_step_before(void **state)
{
    struct bench *bench = *state;
    struct step_times times;

    assert_int_equal(timeline_begin(&bench->timeline, bench->compute), 0);
    mark(bench, PHASE_SCATTER, 1);
    assert_int_equal(cudaStreamSynchronize(bench->compute), cudaSuccess);
    assert_int_equal(timeline_read(&bench->timeline, &times), 0);
    assert_true(times.ms[PHASE_FORWARD] <= 0 && times.ms[PHASE_SCATTER] > 0);
}

static void is_empty_before_it_begins(void **state)
{
    static struct timeline timeline;
    struct step_times times;

    (void)state;
    assert_int_equal(timeline_open(&timeline, 0), 0);
    assert_int_equal(timeline_read(&timeline, &times), 0);
    assert_true(sum(&times) <= 0 && times.last_s <= 0);
    timeline_close(&timeline);
}

static void communicate(struct bench *bench)
{
    assert_int_equal(timeline_communication_begin(&bench->timeline, bench->communication), 0);
    fill(bench, bench->others, bench->communication, 4);
    assert_int_equal(timeline_communication_end(&bench->timeline, bench->communication), 0);
}

/* One collective before the compute, one behind it: nothing of them is hidden. */
static void hides_nothing_outside_of_compute(void **state)
{
    struct bench *bench = *state;
    struct step_times times;

    assert_int_equal(timeline_begin(&bench->timeline, bench->compute), 0);
    communicate(bench);
    assert_int_equal(cudaStreamSynchronize(bench->communication), cudaSuccess);
    assert_int_equal(timeline_mark(&bench->timeline, bench->compute, PHASE_ALLREDUCE_EXPOSED), 0);
    mark(bench, PHASE_BACKWARD, 4);
    assert_int_equal(cudaStreamSynchronize(bench->compute), cudaSuccess);
    communicate(bench);
    assert_int_equal(cudaStreamSynchronize(bench->communication), cudaSuccess);
    assert_int_equal(timeline_read(&bench->timeline, &times), 0);
    assert_true(times.communication_ms > 0);
    assert_true(times.communication_hidden_ms <= 0);
}

/* Both collectives begin and end inside one long backward pass, which goes on until they are over. */
static void hides_all_inside_of_compute(void **state)
{
    struct bench *bench = *state;
    struct step_times times;

    assert_int_equal(timeline_begin(&bench->timeline, bench->compute), 0);
    fill(bench, bench->values, bench->compute, 1);
    assert_int_equal(cudaStreamSynchronize(bench->compute), cudaSuccess);
    communicate(bench);
    communicate(bench);
    assert_int_equal(cudaEventRecord(bench->ready, bench->communication), cudaSuccess);
    assert_int_equal(cudaStreamWaitEvent(bench->compute, bench->ready, 0), cudaSuccess);
    mark(bench, PHASE_BACKWARD, 1);
    assert_int_equal(cudaStreamSynchronize(bench->compute), cudaSuccess);
    assert_int_equal(timeline_read(&bench->timeline, &times), 0);
    assert_true(times.communication_ms > 0);
    assert_true(fabs(times.communication_hidden_ms - times.communication_ms) < 1e-6);
}

static void refuses_too_many_marks(void **state)
{
    struct bench *bench = *state;
    int status = 0;

    assert_int_equal(timeline_begin(&bench->timeline, bench->compute), 0);
    for (int i = 0; i < TIMELINE_MAX_MARKS; i++)
        assert_int_equal(timeline_mark(&bench->timeline, bench->compute, PHASE_FORWARD), 0);
    status = timeline_mark(&bench->timeline, bench->compute, PHASE_FORWARD);
    assert_int_equal(status, EXIT_CHECK_FAILED);
    assert_int_equal(cudaStreamSynchronize(bench->compute), cudaSuccess);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adds_up),
        cmocka_unit_test(forgets_the_step_before),
        cmocka_unit_test(is_empty_before_it_begins),
        cmocka_unit_test(hides_nothing_outside_of_compute),
        cmocka_unit_test(hides_all_inside_of_compute),
        cmocka_unit_test(refuses_too_many_marks),
    };

    log_set_program("test_timeline");
    return cmocka_run_group_tests(tests, open_bench, close_bench);
}
