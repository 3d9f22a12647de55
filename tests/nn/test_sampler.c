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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
