/* SPDX-License-Identifier: MIT
 *
 * The chunk rule against torch.chunk's answers, and what a sampler promises over epochs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/sampler.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

/* torch.arange(rows).chunk(devices), asked of PyTorch 1.13. */
static const struct chunk_case {
    size_t rows;
    int devices, used;
    size_t sizes[8];
} chunk_cases[] = {
    {8, 8, 8, {1, 1, 1, 1, 1, 1, 1, 1}},
    {10, 4, 4, {3, 3, 3, 1}},
    {5, 4, 3, {2, 2, 1}},
    {9, 8, 5, {2, 2, 2, 2, 1}},
    {33, 8, 7, {5, 5, 5, 5, 5, 5, 3}},
    {2, 4, 2, {1, 1}},
    {17, 4, 4, {5, 5, 5, 2}},
    {129, 8, 8, {17, 17, 17, 17, 17, 17, 17, 10}},
    {9, 4, 3, {3, 3, 3}},
    {36, 7, 6, {6, 6, 6, 6, 6, 6}},
    {17, 8, 6, {3, 3, 3, 3, 3, 2}},
    {13, 2, 2, {7, 6}},
    {1, 4, 1, {1}},
    {128, 1, 1, {128}},
    {0, 4, 0, {0}},
};

static void test_chunk_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof chunk_cases / sizeof chunk_cases[0]; i++) {
        const struct chunk_case *c = &chunk_cases[i];
        assert_int_equal(chunk_devices_used(c->rows, c->devices), c->used);
        for (int r = 0; r < c->devices; r++)
            assert_int_equal(chunk_piece(c->rows, c->devices, r).count, c->sizes[r]);
    }
}

/* The pieces follow one another without gap or overlap; the used devices are the first ones. */
static void test_chunks_cover_the_batch(void **state)
{
    (void)state;
    for (size_t rows = 0; rows < 200; rows++) {
        for (int devices = 1; devices <= 16; devices++) {
            size_t next = 0;
            for (int r = 0; r < devices; r++) {
                struct piece piece = chunk_piece(rows, devices, r);
                assert_int_equal(piece.first, next);
                assert_int_equal(piece.count > 0, r < chunk_devices_used(rows, devices));
                next += piece.count;
            }
            assert_int_equal(next, rows);
        }
    }
}

static struct sampler open_sampler(size_t samples, size_t global_batch, uint64_t seed)
{
    struct sampler sampler;
    assert_int_equal(sampler_open(&sampler, samples, global_batch, seed), EXIT_OK);
    return sampler;
}

/* All samples of an epoch in order, by whole batches. */
static void read_epoch(struct sampler *sampler, uint64_t epoch, uint32_t *order)
{
    size_t steps = sampler_steps_per_epoch(sampler);
    for (size_t i = 0; i < steps; i++)
        sampler_batch(sampler, epoch * steps + i, order + i * sampler->global_batch);
}

static void test_epoch_holds_each_sample_once(void **state)
{
    (void)state;
    struct sampler sampler = open_sampler(22, 2, 1);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        uint32_t order[22];
        int seen[22] = {0};
        read_epoch(&sampler, epoch, order);
        for (int i = 0; i < 22; i++) {
            assert_in_range(order[i], 0, 21);
            seen[order[i]]++;
        }
        for (int i = 0; i < 22; i++)
            assert_int_equal(seen[i], 1);
    }
    sampler_close(&sampler);
}

static void test_epochs_and_seeds_differ(void **state)
{
    (void)state;
    struct sampler one = open_sampler(22, 11, 1), same = open_sampler(22, 11, 1), other = open_sampler(22, 11, 2);
    uint32_t first[22], second[22], again[22], seeded[22];
    read_epoch(&one, 0, first);
    read_epoch(&one, 1, second);
    read_epoch(&same, 0, again);
    read_epoch(&other, 0, seeded);
    assert_memory_equal(first, again, sizeof first);
    assert_memory_not_equal(first, second, sizeof first);
    assert_memory_not_equal(first, seeded, sizeof first);
    sampler_close(&one);
    sampler_close(&same);
    sampler_close(&other);
}

/* A resumed run starts in the middle: any step, in any order of asking, is the same batch. */
static void test_step_alone_decides(void **state)
{
    (void)state;
    struct sampler straight = open_sampler(23, 4, 9), jumping = open_sampler(23, 4, 9);
    uint32_t expected[20][4], found[4];
    assert_int_equal(sampler_steps_per_epoch(&straight), 5);
    for (uint64_t step = 0; step < 20; step++)
        sampler_batch(&straight, step, expected[step]);
    for (uint64_t i = 0; i < 20; i++) {
        uint64_t step = i * 7 % 20;
        sampler_batch(&jumping, step, found);
        assert_memory_equal(found, expected[step], sizeof found);
    }
    sampler_close(&straight);
    sampler_close(&jumping);
}

static void test_synthetic_repeats_one_batch(void **state)
{
    (void)state;
    struct sampler sampler = open_sampler(0, 4, 1);
    assert_int_equal(sampler_steps_per_epoch(&sampler), 1);
    for (uint64_t step = 0; step < 3; step++) {
        uint32_t indices[4], expected[4] = {0, 1, 2, 3};
        sampler_batch(&sampler, step, indices);
        assert_memory_equal(indices, expected, sizeof indices);
    }
    sampler_close(&sampler);
}

static void test_batch_without_samples_is_refused(void **state)
{
    (void)state;
    struct sampler sampler;
    assert_int_equal(sampler_open(&sampler, 31, 32, 1), EXIT_USAGE);
    assert_non_null(strstr(log_last_error(), "32 found"));
    assert_non_null(strstr(log_last_error(), "1 to 31"));
    assert_int_equal(sampler_open(&sampler, 31, 0, 1), EXIT_USAGE);
    assert_int_equal(sampler_open(&sampler, 0, 0, 1), EXIT_USAGE);
    assert_int_equal(sampler_open(&sampler, 31, 31, 1), EXIT_OK);
    assert_int_equal(sampler_steps_per_epoch(&sampler), 1);
    sampler_close(&sampler);
}

/* ---- distributed ---- */

/* list(DistributedSampler(range(L), W, r, shuffle=False, drop_last=...)): the first three as PyTorch answered, the others
 * by its source. */
static const struct distributed_case {
    size_t samples;
    int ranks;
    bool drop_last;
    size_t share;
    size_t places[8][3];
} distributed_cases[] = {
    {10, 4, false, 3, {{0, 4, 8}, {1, 5, 9}, {2, 6, 0}, {3, 7, 1}}},
    {10, 4, true, 2, {{0, 4}, {1, 5}, {2, 6}, {3, 7}}},
    {3, 8, false, 1, {{0}, {1}, {2}, {0}, {1}, {2}, {0}, {1}}},
    {3, 8, true, 0, {{0}}},
    {8, 4, true, 2, {{0, 4}, {1, 5}, {2, 6}, {3, 7}}},
};

static void test_distributed_places(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof distributed_cases / sizeof distributed_cases[0]; c++) {
        const struct distributed_case *p = &distributed_cases[c];
        assert_int_equal(distributed_share(p->samples, p->ranks, p->drop_last), p->share);
        for (int r = 0; r < p->ranks; r++)
            for (size_t i = 0; i < p->share; i++)
                assert_int_equal(distributed_place(p->samples, p->ranks, r, i), p->places[r][i]);
    }
}

static struct sampler open_distributed(size_t samples, size_t global_batch, int devices, int accumulate)
{
    struct sampler sampler;
    const struct distributed_settings settings = {global_batch, devices, accumulate, false, 1};
    assert_int_equal(sampler_open_distributed(&sampler, samples, &settings), EXIT_OK);
    return sampler;
}

/* Through micro-batches and pieces, as the strategies cut, device r sees rank r's list of one permutation. */
static void test_devices_see_ranks_lists(void **state)
{
    (void)state;
    for (int accumulate = 1; accumulate <= 3; accumulate++) {
        struct sampler sampler = open_distributed(50, 4 * 6, 4, accumulate); /* 13 each: 2 batches of 6 */
        assert_int_equal(sampler_steps_per_epoch(&sampler), 2);
        uint32_t indices[24], seen[4][12];
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            size_t have[4] = {0};
            for (uint64_t step = 0; step < 2; step++) {
                sampler_batch(&sampler, 2 * epoch + step, indices);
                for (int k = 0; k < accumulate; k++) {
                    struct piece micro = chunk_piece(24, accumulate, k);
                    for (int r = 0; r < 4; r++) {
                        struct piece piece = chunk_piece(micro.count, 4, r);
                        for (size_t i = 0; i < piece.count; i++)
                            seen[r][have[r]++] = indices[micro.first + piece.first + i];
                    }
                }
            }
            for (int r = 0; r < 4; r++)
                for (size_t i = 0; i < 12; i++)
                    assert_int_equal(seen[r][i], sampler.order[((size_t)r + 4 * i) % 50]);
        }
        sampler_close(&sampler);
    }
}

/* Trial 7: 22 samples, 2 ranks: each epoch holds 0..21, epochs differ, and one that a run is resumed at is the same. */
static void test_distributed_epochs(void **state)
{
    (void)state;
    struct sampler straight = open_distributed(22, 2, 2, 1), resumed = open_distributed(22, 2, 2, 1);
    uint32_t epochs[3][22], again[22];
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        int seen[22] = {0};
        read_epoch(&straight, epoch, epochs[epoch]);
        for (int i = 0; i < 22; i++)
            seen[epochs[epoch][i]]++;
        for (int i = 0; i < 22; i++)
            assert_int_equal(seen[i], 1);
    }
    assert_memory_not_equal(epochs[0], epochs[1], sizeof epochs[0]);
    assert_memory_not_equal(epochs[1], epochs[2], sizeof epochs[0]);
    read_epoch(&resumed, 2, again);
    assert_memory_equal(again, epochs[2], sizeof again);
    sampler_close(&straight);
    sampler_close(&resumed);
}

/* Trials 3, 4 and 6: what every device gets equally, and what is refused with the numbers that would do. */
static void test_distributed_limits(void **state)
{
    (void)state;
    struct sampler sampler = open_distributed(100, 32, 4, 1); /* 25 each, 3 batches of 8: no rank has fewer */
    assert_int_equal(sampler_steps_per_epoch(&sampler), 3);
    sampler_close(&sampler);
    sampler = open_distributed(3, 8, 8, 1); /* 3 samples on 8 ranks: one each */
    assert_int_equal(sampler_steps_per_epoch(&sampler), 1);
    sampler_close(&sampler);

    static const struct refused {
        size_t samples;
        struct distributed_settings settings;
        const char *words[2];
    } refused[] = {
        {100, {6, 4, 1, false, 1}, {"6 found", "nearest are 4 and 8"}},
        {100, {2, 4, 1, false, 1}, {"2 found", "nearest is 4"}},
        {100, {12, 4, 2, false, 1}, {"12 found", "nearest are 8 and 16"}},
        {100, {4, 8, 1, false, 1}, {"4 found", "nearest is 8"}},
        {31, {32, 4, 1, true, 1}, {"get 7 of 31", "at most 28, or at least 32 samples"}},
        {28, {32, 4, 1, false, 1}, {"get 7 of 28", "at most 28, or at least 29 samples"}},
        {3, {8, 8, 1, true, 1}, {"get 0 of 3", "at least 8 samples"}},
        {0, {8, 8, 1, false, 1}, {"0 training samples", "synthetic"}},
        {100, {0, 4, 1, false, 1}, {"global batch of 0 found", "0 for each of 4"}},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_equal(sampler_open_distributed(&sampler, refused[i].samples, &refused[i].settings), EXIT_USAGE);
        assert_non_null(strstr(log_last_error(), refused[i].words[0]));
        assert_non_null(strstr(log_last_error(), refused[i].words[1]));
    }
}

int main(void)
{
    log_set_program("test_sampler");
    log_set_quiet(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunk_rule),
        cmocka_unit_test(test_chunks_cover_the_batch),
        cmocka_unit_test(test_epoch_holds_each_sample_once),
        cmocka_unit_test(test_epochs_and_seeds_differ),
        cmocka_unit_test(test_step_alone_decides),
        cmocka_unit_test(test_synthetic_repeats_one_batch),
        cmocka_unit_test(test_batch_without_samples_is_refused),
        cmocka_unit_test(test_distributed_places),
        cmocka_unit_test(test_devices_see_ranks_lists),
        cmocka_unit_test(test_distributed_epochs),
        cmocka_unit_test(test_distributed_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
