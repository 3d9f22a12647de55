/* SPDX-License-Identifier: MIT
 *
 * BatchNorm over ranks whose samples are not alike. SyncBatchNorm on known numbers, both passes, through a communicator;
 * and what is kept where nothing is synchronised: rank 0's statistics, on all ranks, in dp as in ddp, and in the checkpoint.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config.h"
#include "data/tensors.h"
#include "ddp_multi_process/buffers.h"
#include "ddp_multi_process/strategy.h"
#include "dp_single_process/dp.h"
#include "good_training.h"
#include "gpu/memory.h"
#include "nn/batch_norm.h"
#include "run/schedule.h"
#include "sys/exit_codes.h"
#include "thread_world.h"

/* ---- SyncBatchNorm on numbers that can be told by hand ----------------------------------------------------------- */

#define ROWS 4
#define EPSILON 1e-5

/* The numbers of the first rows are documented; but what their outlier adds to the other rows' gradient cancels out, so that would be
 * right without any exchange. The gradient of the second rows is not. */
static const struct rows {
    float x[ROWS];
    double mean, variance, running_mean, running_variance; /* running from (0, 1), momentum 0.1 */
} known[] = {{{0, 0, 0, 4}, 1, 3, 0.1, 1.3}, {{1, -2, 3, 6}, 2, 8.5, 0.2, 0.9 + 3.4 / 3}};
static const float all_dy[ROWS] = {1, -2, 3, 0.5F}, weight = 2, bias = 0.5F;

/* Which of the rows each of the two ranks has, and what came out of it. */
struct exchange {
    const struct rows *rows;
    size_t first[2], count[2];
    ncclUniqueId id;
    float y[ROWS], dx[ROWS], saved[2][3], running[2][2], gradients[2][2]; /* by row; by rank */
};

enum { X, Y, DY, DX, SAVED, PARTIALS, STATISTICS, SUMS, TENSORS };

/* The first BatchNorm of a residual network one channel wide. */
static const struct model_settings one_channel = {.inputs = 64, .width = 1, .depth = 1, .classes = 10};
enum { WEIGHT = 1, BIAS = 2, RUNNING = 0 };

static int run_passes(struct exchange *exchange, struct replica *replica, float **device, int rank)
{
    size_t first = exchange->first[rank], rows = exchange->count[rank], bytes = rows * sizeof(float);
    const struct batch_norm norm = {1, WEIGHT, RUNNING, device[SAVED]};
    const struct batch_norm_room room = {device[PARTIALS], device[STATISTICS], device[SUMS]};
    const struct batch_norm_gradient gradient = {.gate = GATE_NONE, .g = device[DY]};
    const struct backward pass = {.replica = replica, .batch = rows};

    TRY(replica_write_floats(replica, replica_parameter(replica, WEIGHT), &weight, sizeof(weight)));
    TRY(replica_write_floats(replica, replica_parameter(replica, BIAS), &bias, sizeof(bias)));
    TRY(replica_write_floats(replica, device[X], exchange->rows->x + first, bytes));
    TRY(replica_write_floats(replica, device[DY], all_dy + first, bytes));
    TRY(batch_norm_forward(replica, &room, &norm, device[Y], device[X], NULL, false, rows, true));
    TRY(batch_norm_backward(&pass, &room, &norm, device[DX], device[X], &gradient, rows));
    TRY(replica_read_floats(replica, device[Y], exchange->y + first, bytes));
    TRY(replica_read_floats(replica, device[DX], exchange->dx + first, bytes));
    TRY(replica_read_floats(replica, device[SAVED], exchange->saved[rank], sizeof(exchange->saved[0])));
    for (int i = 0; i < 2; i++) {
        TRY(replica_read_floats(replica, replica_buffer(replica, RUNNING + i), &exchange->running[rank][i], sizeof(float)));
        TRY(replica_read_floats(replica, replica_gradient(replica, WEIGHT + i), &exchange->gradients[rank][i],
                                sizeof(float)));
    }
    return EXIT_OK;
}

static int run_rank(struct world *world, void *context)
{
    struct exchange *exchange = context;
    struct model model;
    struct replica replica = {0};
    struct buffers buffers = {0};
    ncclComm_t comm = NULL;
    float *device[TENSORS] = {NULL};

    if (world->rank == 0 && ncclGetUniqueId(&exchange->id) != ncclSuccess)
        return EXIT_RESOURCE;
    TRY(world->broadcast(world, &exchange->id, 0)); /* a barrier */
    GPU_TRY(cudaSetDevice(world->rank));
    TRY(model_open(&model, "resnet20", &one_channel));
    TRY(replica_open(&replica, &model, world->rank, ROWS, true));
    TRY(replica_initialize(&replica, 1));
    GPU_TRY(ncclCommInitRank(&comm, world->size, exchange->id, world->rank));
    TRY(buffers_open(&buffers, world, &replica, comm, true));
    for (int i = 0; i < TENSORS; i++)
        TRY(gpu_malloc((void **)&device[i], 64 * sizeof(float), MEMORY_ACTIVATIONS));
    TRY(run_passes(exchange, &replica, device, world->rank));
    for (int i = 0; i < TENSORS; i++)
        gpu_free(device[i]);
    (void)ncclCommDestroy(comm);
    buffers_close(&buffers);
    replica_close(&replica);
    model_close(&model);
    return EXIT_OK;
}

static void expect_near(const char *what, int place, float found, double expected)
{
    if (!(fabs((double)found - expected) <= 2e-6 * fmax(1, fabs(expected))))
        fail_msg("%s %d: %.9g found, expected %.9g", what, place, (double)found, expected);
}

static void check_exchange(const struct exchange *exchange)
{
    const struct rows *rows = exchange->rows;
    const double inverse = 1 / sqrt(rows->variance + EPSILON);
    double normal[ROWS], mean_dy = 0, mean_product = 0;

    for (int i = 0; i < ROWS; i++) {
        normal[i] = ((double)rows->x[i] - rows->mean) * inverse;
        mean_dy += (double)all_dy[i] / ROWS;
        mean_product += (double)all_dy[i] * normal[i] / ROWS;
    }
    for (int i = 0; i < ROWS; i++) {
        expect_near("y", i, exchange->y[i], normal[i] * (double)weight + (double)bias);
        expect_near("dx", i, exchange->dx[i],
                    (double)weight * inverse * ((double)all_dy[i] - mean_dy - normal[i] * mean_product));
    }
    for (int rank = 0; rank < 2; rank++) {
        double d_weight = 0, d_bias = 0; /* of the rank's own rows: the reducer adds them up */
        for (size_t i = exchange->first[rank]; i < exchange->first[rank] + exchange->count[rank]; i++) {
            d_weight += (double)all_dy[i] * normal[i];
            d_bias += (double)all_dy[i];
        }
        expect_near("mean of rank", rank, exchange->saved[rank][0], rows->mean);
        expect_near("1 / deviation of rank", rank, exchange->saved[rank][1], inverse);
        expect_near("count of rank", rank, exchange->saved[rank][2], ROWS);
        expect_near("running mean of rank", rank, exchange->running[rank][0], rows->running_mean);
        expect_near("running variance of rank", rank, exchange->running[rank][1], rows->running_variance);
        expect_near("d weight of rank", rank, exchange->gradients[rank][0], d_weight);
        expect_near("d bias of rank", rank, exchange->gradients[rank][1], d_bias);
    }
}

/* Three rows and one, one and three, and all on one rank: the same numbers, and the same bits of statistics on both. */
static void known_values(void **state)
{
    (void)state;
    static const size_t first[][2] = {{0, 3}, {3, 0}, {0, 4}, {0, 0}}, count[][2] = {{3, 1}, {1, 3}, {4, 0}, {0, 4}};
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++) {
            struct exchange exchange = {.rows = &known[k]};
            int codes[2];
            memcpy(exchange.first, first[i], sizeof(exchange.first));
            memcpy(exchange.count, count[i], sizeof(exchange.count));
            thread_world_run(2, run_rank, &exchange, codes);
            assert_int_equal(codes[0], EXIT_OK);
            assert_int_equal(codes[1], EXIT_OK);
            check_exchange(&exchange);
            assert_memory_equal(exchange.saved[0], exchange.saved[1], sizeof(exchange.saved[0]));
            assert_memory_equal(exchange.running[0], exchange.running[1], sizeof(exchange.running[0]));
        }
}

/* ---- device 0 sees values near 0, device 1 values near 10 ------------------------------------------------------- */

#define STEPS 100
#define BATCH 8 /* 100 batches are less than an epoch: each sample goes to one device, once */

static void open_levels(struct training *training, const struct strategy *strategy, const char *file, bool sync)
{
    const char *const arguments[] = {"--model",
                                     "resnet20",
                                     "--data",
                                     "digits",
                                     "--width",
                                     "4",
                                     "--depth",
                                     "1",
                                     "--lr",
                                     "0.02",
                                     "--gpus",
                                     "2",
                                     "--global-batch",
                                     "8",
                                     sync ? "--sync-bn" : NULL,
                                     NULL};
    struct sampler sampler;
    uint32_t indices[BATCH];

    good_training_open(training, strategy, arguments, STEPS);
    training->save = file;
    size_t inputs = training->dataset.shape.inputs;
    uint8_t *pixels = training->dataset.memory[0];
    assert_ptr_equal(pixels, training->dataset.block[0].values);
    assert_int_equal(schedule_open_sampler(&sampler, training->dataset.train_count, &training->options), 0);
    assert_true(sampler_steps_per_epoch(&sampler) >= STEPS);
    for (uint64_t step = 0; step < STEPS; step++) {
        sampler_batch(&sampler, step, indices);
        for (size_t i = BATCH / 2; i < BATCH; i++) /* 16 is white: 1; 160 is 10 */
            for (size_t p = 0; p < inputs; p++)
                pixels[indices[i] * inputs + p] = (uint8_t)(pixels[indices[i] * inputs + p] + 160);
    }
    sampler_close(&sampler);
}

/* The tensors of the model's buffers in the checkpoint are rank 0's, to the bit. */
static void check_checkpoint(const struct training *training, const char *path)
{
#if HAVE_CJSON
    struct tensor_file file;
    assert_int_equal(tensors_read(path, &file), 0);
    for (int b = 0; b < training->model.buffer_count; b++) {
        const struct parameter *buffer = &training->model.buffers[b];
        const struct tensor_view *found = tensors_find(&file, buffer->name);
        assert_non_null(found);
        assert_int_equal(found->count, buffer->count);
        assert_memory_equal(found->data, training->buffers + buffer->first, buffer->count * sizeof(float));
    }
    tensors_close(&file);
#else
    (void)training;
    (void)path;
#endif
}

static float largest_mean(const struct training *training)
{
    const struct parameter *mean = &training->model.buffers[0]; /* of the first BatchNorm, right behind the pixels */
    float largest = 0;

    for (size_t i = 0; i < mean->count; i++)
        largest = fmaxf(largest, fabsf(training->buffers[mean->first + i]));
    return largest;
}

/* Rank 0's rule, as PyTorch's: an evaluation, on every rank, has the statistics of the device that saw values near 0. Synchronised,
 * they are those of all. */
static void keeps_rank_0s_statistics(void **state)
{
    (void)state;
    char file[] = "/tmp/dpbench-levels-XXXXXX";
    int descriptor = mkstemp(file);
    struct training dp, ddp, sync;

    assert_true(descriptor >= 0);
    close(descriptor);
    open_levels(&ddp, &strategy_ddp, file, false);
    good_training_run(&ddp);
    assert_int_equal(ddp.moved_apart, 1);
    assert_int_equal(ddp.different_buffers, 0);
    assert_int_equal(ddp.different_evaluations, 0);
    check_checkpoint(&ddp, file);

    open_levels(&dp, &strategy_dp, file, false);
    good_training_run(&dp);
    assert_memory_equal(dp.buffers, ddp.buffers, ddp.model.buffer_bytes);
    assert_memory_equal(dp.parameters, ddp.parameters, ddp.model.flat_bytes);
    check_checkpoint(&dp, file);

    open_levels(&sync, &strategy_ddp, file, true);
    good_training_run(&sync);
    assert_int_equal(sync.moved_apart, 0);
    assert_int_equal(sync.different_evaluations, 0);
    check_checkpoint(&sync, file);
    print_message("running means behind the pixels: at most %.3f by rank 0's rule, %.3f synchronised\n",
                  (double)largest_mean(&ddp), (double)largest_mean(&sync));
    assert_true(largest_mean(&sync) > 3 * largest_mean(&ddp));
    training_close(&dp);
    training_close(&ddp);
    training_close(&sync);
    unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(keeps_rank_0s_statistics),
    };
    return cmocka_run_group_tests(tests, configure_devices, NULL);
}
