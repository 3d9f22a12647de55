/* SPDX-License-Identifier: MIT
 *
 * Loading in the background, with a data set that tells who gathered what, and when.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness.h"
#include "run/loader.h"
#include "run/schedule.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define BATCH 12
#define INPUTS 3

/* ---- a data set: sample i is (i, i + 0.5, 7), label -i ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static bool closed;         /* gathering waits */
static size_t gathered;     /* rows so far */
static size_t gathered_own; /* by the training thread */
static pthread_t training_thread;

static void gather(const struct dataset *dataset, const uint32_t *indices, size_t count, void *values, int32_t *labels)
{
    float *floats = values;

    pthread_mutex_lock(&lock);
    while (closed)
        pthread_cond_wait(&opened, &lock);
    gathered += count;
    if (pthread_equal(pthread_self(), training_thread))
        gathered_own += count;
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < count; i++) {
        floats[i * INPUTS] = (float)indices[i];
        floats[i * INPUTS + 1] = (float)indices[i] + 0.5F;
        floats[i * INPUTS + 2] = (float)dataset->seed;
        labels[i] = -(int32_t)indices[i];
    }
}

static void set_closed(bool now)
{
    pthread_mutex_lock(&lock);
    closed = now;
    pthread_cond_broadcast(&opened);
    pthread_mutex_unlock(&lock);
}

static size_t read_gathered(void)
{
    pthread_mutex_lock(&lock);
    size_t rows = gathered;
    pthread_mutex_unlock(&lock);
    return rows;
}

struct trial {
    struct harness harness; /* options */
    struct dataset dataset;
    struct model model;
    struct run run;
    struct loader *loader;
};

static void open_trial(struct trial *trial, const char *line, size_t rows_max, int devices, int device)
{
    assert_int_equal(harness_configure(), EXIT_OK);
    harness_options(&trial->harness, "ddp-train", line);
    trial->dataset = (struct dataset){.gather = gather, .seed = 7};
    trial->model = (struct model){
        .input_count = INPUTS, .input_bytes = INPUTS * sizeof(float), .targets = 1, .label_bytes = sizeof(int32_t)};
    trial->run = (struct run){&trial->harness.options, NULL, &trial->model, &trial->dataset};
    training_thread = pthread_self();
    gathered = gathered_own = 0;
    assert_int_equal(loader_open(&trial->loader, &trial->run, rows_max, devices, device), EXIT_OK);
}

/* The batch of this step: 100 step, 100 step + 1, ... */
static const uint32_t *batch_of(uint64_t step)
{
    static uint32_t indices[BATCH];

    for (uint32_t i = 0; i < BATCH; i++)
        indices[i] = (uint32_t)step * 100 + i;
    return indices;
}

static void check_rows(const float *values, const int32_t *labels, const uint32_t *indices, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_true(values[i * INPUTS] == (float)indices[i]);
        assert_true(values[i * INPUTS + 1] == (float)indices[i] + 0.5F);
        assert_int_equal(labels[i], -(int32_t)indices[i]);
    }
}

static const float *take(struct trial *trial, uint64_t step, const uint32_t *indices, size_t count, bool first)
{
    void *values = NULL;
    int32_t *labels = NULL;

    assert_int_equal(loader_take(trial->loader, step, indices, count, first, &values, &labels), EXIT_OK);
    check_rows(values, labels, indices, count);
    return values;
}

/* Waits, without a limit that depends on speed, until so many rows have been gathered. */
static void await_gathered(size_t rows)
{
    while (read_gathered() < rows)
        usleep(200);
}

/* ---- tests ---- */

/* Two batches are ready before they are asked for; the training thread gathers nothing; the one in use stays. */
static void test_loads_ahead(void **state)
{
    (void)state;
    for (int loaders = 1; loaders <= 5; loaders += 2) {
        struct trial trial;
        char line[64];
        snprintf(line, sizeof line, "--gpus 1 --global-batch 12 --data digits --loaders %d", loaders);
        open_trial(&trial, line, BATCH, 1, 0);
        for (uint64_t step = 0; step <= LOADER_PREFETCH; step++)
            loader_announce(trial.loader, step, batch_of(step));
        for (uint64_t step = 0; step < 20; step++) {
            const float *values = take(&trial, step, batch_of(step), BATCH, true);
            await_gathered((step + 1 + LOADER_PREFETCH) * BATCH);
            for (int i = 0; i < 5; i++) /* as long as it is in use there is no room: ignored */
                loader_announce(trial.loader, 77, batch_of(77));
            for (size_t i = 0; i < BATCH; i++)
                assert_true(values[i * INPUTS] == (float)(step * 100 + i));
            loader_release(trial.loader);
            loader_announce(trial.loader, step + 1 + LOADER_PREFETCH, batch_of(step + 1 + LOADER_PREFETCH));
        }
        assert_int_equal(loader_foreseen(trial.loader), 20);
        assert_int_equal(gathered_own, 0);
        loader_close(trial.loader);
    }
}

/* The order of announcements is not what is taken: what is asked for comes. */
static void test_unforeseen_batches(void **state)
{
    (void)state;
    struct trial trial;
    static const uint32_t test_set[3] = {9, 5, 1};

    open_trial(&trial, "--gpus 1 --global-batch 12", BATCH, 1, 0);
    take(&trial, 0, batch_of(0), BATCH, true);
    assert_int_equal(loader_foreseen(trial.loader), 0);
    loader_announce(trial.loader, 1, batch_of(1));
    loader_announce(trial.loader, 2, batch_of(2));
    take(&trial, 7, batch_of(7), BATCH, true); /* a resume */
    loader_announce(trial.loader, 8, batch_of(8));
    take(&trial, 0, test_set, 3, true);             /* an evaluation */
    loader_announce(trial.loader, 9, batch_of(10)); /* what was announced for this step is another batch */
    take(&trial, 9, batch_of(9), BATCH, true);
    assert_int_equal(loader_foreseen(trial.loader), 0);
    loader_announce(trial.loader, 10, batch_of(10));
    take(&trial, 10, batch_of(10), BATCH, true);
    assert_int_equal(loader_foreseen(trial.loader), 1);
    loader_close(trial.loader);
}

/* Rank 1 of 3 with 2 micro-batches: rows 2, 3 and 8, 9. Announced as a whole, taken in parts; and not announced. */
static void test_micro_batches(void **state)
{
    (void)state;
    struct trial trial;

    for (int announced = 0; announced < 2; announced++) {
        open_trial(&trial, "--gpus 3 --global-batch 12 --accumulate 2", 4, 3, 1);
        for (uint64_t step = 0; step < 5; step++) {
            const uint32_t *indices = batch_of(step);
            if (announced)
                loader_announce(trial.loader, step, indices);
            const float *first = take(&trial, step, indices + 2, 2, true);
            const float *second = take(&trial, step, indices + 8, 2, false);
            assert_true(second == first + 2 * INPUTS); /* the first is still being copied */
            check_rows(first, (const int32_t[]){-(int32_t)indices[2], -(int32_t)indices[3]}, indices + 2, 2);
        }
        assert_int_equal(loader_foreseen(trial.loader), announced ? 5 : 0);
        void *values;
        int32_t *labels;
        assert_int_equal(loader_take(trial.loader, 5, batch_of(5), 1, false, &values, &labels), EXIT_CHECK_FAILED);
        loader_close(trial.loader);
    }
}

/* A rank without a row, and no threads at all. */
static void test_edges(void **state)
{
    (void)state;
    struct trial trial;

    open_trial(&trial, "--gpus 8 --global-batch 4", 0, 8, 7);
    loader_announce(trial.loader, 0, batch_of(0));
    take(&trial, 0, NULL, 0, true);
    loader_close(trial.loader);

    open_trial(&trial, "--gpus 1 --global-batch 12 --data digits --loaders 0", BATCH, 1, 0);
    for (uint64_t step = 0; step < 5; step++) {
        loader_announce(trial.loader, step, batch_of(step));
        take(&trial, step, batch_of(step), BATCH, true);
    }
    assert_int_equal(gathered_own, 5 * BATCH);
    loader_close(trial.loader);
    loader_close(NULL);
}

/* Closing does not wait for batches that nobody takes, and leaves no thread behind. */
static void test_close_amid_loading(void **state)
{
    (void)state;
    struct trial trial;

    for (int i = 0; i < 50; i++) {
        open_trial(&trial, "--gpus 1 --global-batch 12 --data digits --loaders 4", BATCH, 1, 0);
        set_closed(true);
        loader_announce(trial.loader, 0, batch_of(0));
        loader_announce(trial.loader, 1, batch_of(1));
        set_closed(false);
        loader_close(trial.loader);
        assert_in_range(read_gathered(), 0, 2 * BATCH);
    }
}

/* A thread's failure is the taker's, and stays. */
static void test_failure(void **state)
{
    (void)state;
    struct trial trial;
    void *values;
    int32_t *labels;

    open_trial(&trial, "--gpus 1 --global-batch 12 --data digits --loaders 3", BATCH, 1, 0);
    loader_announce(trial.loader, 0, batch_of(0));
    loader_announce(trial.loader, 99, batch_of(99)); /* DPBENCH_FAULT, below */
    int first = loader_take(trial.loader, 0, batch_of(0), BATCH, true, &values, &labels);
    assert_true(first == EXIT_OK || first == EXIT_CHECK_FAILED); /* the fault may have struck already */
    assert_int_equal(loader_take(trial.loader, 99, batch_of(99), BATCH, true, &values, &labels), EXIT_CHECK_FAILED);
    assert_non_null(strstr(log_last_error(), "planted fault at step 99"));
    assert_int_equal(loader_take(trial.loader, 100, batch_of(100), BATCH, true, &values, &labels), EXIT_CHECK_FAILED);
    loader_close(trial.loader);
}

int main(void)
{
    log_set_program("test_loader");
    if (setenv("DPBENCH_FAULT", "loader:0:step99", 1) != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unforeseen_batches), cmocka_unit_test(test_edges),
        cmocka_unit_test(test_close_amid_loading), cmocka_unit_test(test_failure),
        cmocka_unit_test(test_micro_batches),      cmocka_unit_test(test_loads_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
