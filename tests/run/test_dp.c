/* SPDX-License-Identifier: MIT
 *
 * DataParallel's parts against what was read from PyTorch: groups of the coalesced broadcast, bytes of each phase,
 * memory of each device by category, to the byte; and a copy that is lost makes the run fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "dp_single_process/dp.h"
#include "gpu/backend.h"
#include "gpu/memory.h"
#include "harness.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define MODEL "--inputs 20 --width 32 --depth 2 --classes 7"

/* ---- groups ------------------------------------------------------------------------------------------------------ */

/* Checked with PyTorch, MB: .4 .8 1.2 24 2 28 .004 .008 -> [.4 .8 1.2][24][2][28][.004 .008]. */
static void groups_as_pytorch(void **state)
{
    static const size_t bytes[] = {400000, 800000, 1200000, 24000000, 2000000, 28000000, 4000, 8000};
    static const int expected[] = {3, 1, 1, 1, 2};
    struct dp_group groups[COUNT(bytes)];
    int first = 0;

    (void)state;
    int count = dp_group_tensors(bytes, COUNT(bytes), DP_GROUP_BYTES, groups);
    assert_int_equal(count, COUNT(expected));
    for (int g = 0; g < count; g++) {
        assert_int_equal(groups[g].first_parameter, first);
        assert_int_equal(groups[g].parameter_count, expected[g]);
        first += expected[g];
    }
}

/* Closed before the tensor that would pass the limit: exactly full is not past it. */
static void fills_a_group_to_the_byte(void **state)
{
    static const size_t bytes[] = {24, 16, 4, 44};
    struct dp_group groups[COUNT(bytes)];

    (void)state;
    assert_int_equal(dp_group_tensors(bytes, 2, 40, groups), 1);
    assert_int_equal(dp_group_tensors(bytes, 3, 40, groups), 2);
    assert_int_equal(dp_group_tensors(bytes, 4, 40, groups), 3);
    assert_int_equal(dp_group_tensors(bytes, 0, 40, groups), 0);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

struct moved {
    uint64_t bytes[PHASES]; /* between devices */
    uint64_t elsewhere;     /* outside of any phase */
    uint64_t from_host;
};

static void add_moved(void *context, const char *range, int from, int to, uint64_t bytes)
{
    struct moved *moved = context;

    if (from == to)
        return;
    if (from < 0)
        moved->from_host += to >= 0 ? bytes : 0;
    if (from < 0 || to < 0)
        return;
    for (int phase = 0; phase < PHASES; phase++) {
        if (!strcmp(range, phase_name((enum phase)phase))) {
            moved->bytes[phase] += bytes;
            return;
        }
    }
    moved->elsewhere += bytes;
}

/* One cell: what semantics.md says, worked out here from pieces, and twice: counted, and the strategy's own formula. */
struct cell {
    const char *line;
    uint64_t scatter, replicates, gather, reduces; /* rows x bytes; replicates and reduces in units of P */
};

#define INPUT 80u  /* bytes of a sample: 20 floats */
#define OUTPUT 28u /* 7 floats */

static const struct cell cells[] = {
    {MODEL " --gpus 1 --global-batch 8", 0, 0, 0, 0},
    {MODEL " --gpus 4 --global-batch 8", 6 * INPUT, 3, 2 * 6 * OUTPUT, 3},
    {MODEL " --gpus 4 --global-batch 8 --dp-transport p2p", 6 * INPUT, 3, 2 * 6 * OUTPUT, 3},
    {MODEL " --gpus 4 --global-batch 9", 6 * INPUT, 2, 2 * 6 * OUTPUT, 2},                       /* 3 3 3 */
    {MODEL " --gpus 8 --global-batch 17 --dp-transport p2p", 14 * INPUT, 5, 2 * 14 * OUTPUT, 5}, /* 3 3 3 3 3 2 */
    {MODEL " --gpus 4 --global-batch 3", 2 * INPUT, 2, 2 * 2 * OUTPUT, 2},
    {MODEL " --gpus 4 --global-batch 1", 0, 0, 0, 0},
    {MODEL " --gpus 4 --global-batch 8 --dp-loss replica", 6 * (INPUT + 4), 3, 3 * 4, 3},
    {MODEL " --gpus 4 --global-batch 8 --dp-loss replica-outputs", 6 * (INPUT + 4), 3, 3 * 4 + 6 * OUTPUT, 3},
    {MODEL " --gpus 4 --global-batch 3 --dp-loss replica-outputs --output-device 3", 2 * (INPUT + 4), 2, 3 * 4 + 3 * OUTPUT, 2},
    {MODEL " --gpus 1 --global-batch 8 --dp-loss replica-outputs", 0, 0, 0, 0},
    {MODEL " --gpus 4 --global-batch 8 --output-device 3", 6 * INPUT, 3, 2 * 6 * OUTPUT, 3},
    {MODEL " --gpus 4 --global-batch 3 --output-device 3", 2 * INPUT, 2, 2 * 3 * OUTPUT, 2},
    {MODEL " --gpus 4 --global-batch 8 --accumulate 2", 6 * INPUT, 6, 2 * 6 * OUTPUT, 6},
    {MODEL " --gpus 8 --global-batch 17 --accumulate 2", (7 + 7) * INPUT, 4 + 7, 2 * (7 + 7) * OUTPUT, 4 + 7},
};

static void check_cell(const struct cell *cell)
{
    enum { UPDATES = 3 };
    struct harness harness;
    struct moved moved = {0};
    uint64_t formula[PHASES];

    harness_options(&harness, "dp-train", cell->line);
    harness.strategy = &strategy_dp;
    assert_int_equal(harness_open(&harness, NULL), 0);
    uint64_t p = harness.model.flat_bytes;
    const uint64_t expected[PHASES] = {[PHASE_SCATTER] = cell->scatter,
                                       [PHASE_REPLICATE] = cell->replicates * p,
                                       [PHASE_GATHER] = cell->gather,
                                       [PHASE_REDUCE] = cell->reduces * p};
    gpu_traffic_reset();
    assert_int_equal(harness_train(&harness, UPDATES, NULL), 0);
    assert_true(gpu_traffic_visit(add_moved, &moved));
    strategy_dp.traffic_formula(harness.state, formula);
    harness_close(&harness);
    for (int phase = 0; phase < PHASES; phase++) {
        if (moved.bytes[phase] != UPDATES * expected[phase] || formula[phase] != expected[phase])
            fail_msg("'%s', %s: counted %llu, formula %llu, expected %llu", cell->line, phase_name((enum phase)phase),
                     (unsigned long long)moved.bytes[phase] / UPDATES, (unsigned long long)formula[phase],
                     (unsigned long long)expected[phase]);
    }
    assert_int_equal(moved.elsewhere, 0);
    assert_int_equal(moved.from_host, 0);
}

static void moves_what_the_formulas_say(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT(cells); c++)
        check_cell(&cells[c]);
}

/* Real data comes from the host, each row once, with its label; nothing of it goes between devices. */
static void scatters_real_data_from_the_host(void **state)
{
    struct harness harness;
    struct moved moved = {0};

    (void)state;
    harness_options(&harness, "dp-train", "--data digits --width 16 --depth 1 --gpus 4 --global-batch 9");
    harness.strategy = &strategy_dp;
    assert_int_equal(harness_open(&harness, NULL), 0);
    gpu_traffic_reset();
    assert_int_equal(harness_train(&harness, 2, NULL), 0);
    assert_true(gpu_traffic_visit(add_moved, &moved));
    harness_close(&harness);
    assert_int_equal(moved.bytes[PHASE_SCATTER], 0);
    assert_int_equal(moved.from_host, 2 * 9 * (64 * 4 + 4));
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void expect_bytes(int device, enum memory_category category, size_t expected)
{
    size_t found = memory_peak(device, category);

    if (found != expected)
        fail_msg("device %d holds %zu bytes of %s, expected %zu", device, found, memory_category_name(category),
                 expected);
}

/* 4 devices, 8 samples: P parameters, P gradients everywhere; momentum P, O, its gradient, labels and the resident
 * batch on device 0 alone. Blocks of activations: depth + 1. */
static void holds_what_the_formulas_say(void **state)
{
    enum { B = 8, PIECE = 2, WIDTH = 32, BLOCKS = 3 };
    struct harness harness;

    (void)state;
    assert_int_equal(harness_configure(), 0);
    memory_reset_peaks();
    harness_options(&harness, "dp-train", MODEL " --gpus 4 --global-batch 8 --dp-transport p2p");
    harness.strategy = &strategy_dp;
    assert_int_equal(harness_open(&harness, NULL), 0);
    assert_int_equal(harness_train(&harness, 2, NULL), 0);
    size_t p = harness.model.flat_bytes;
    for (int device = 0; device < 4; device++) {
        expect_bytes(device, MEMORY_PARAMETERS, p);
        expect_bytes(device, MEMORY_GRADIENTS, p);
        expect_bytes(device, MEMORY_OPTIMIZER, device == 0 ? p : 0);
        expect_bytes(device, MEMORY_ACTIVATIONS, BLOCKS * PIECE * WIDTH * sizeof(float));
        expect_bytes(device, MEMORY_COMMUNICATION, device == 0 ? p : 0); /* one group: the model is below 10 MiB */
        expect_bytes(device, MEMORY_DATA, device == 0 ? B * (INPUT + 4) : PIECE * (INPUT + 4));
    }
    /* device 0: its own piece of the outputs, all of them, and their gradient (its piece of that is a view); loss of
     * each sample, their sum, the count of right ones */
    expect_bytes(1, MEMORY_OUTPUTS, 2 * PIECE * OUTPUT);
    expect_bytes(0, MEMORY_OUTPUTS, PIECE * OUTPUT + 2 * B * OUTPUT + B * sizeof(float) + 8);
    harness_close(&harness);
    for (int device = 0; device < 4; device++)
        for (int category = 0; category < MEMORY_CATEGORIES; category++)
            assert_int_equal(memory_current(device, (enum memory_category)category), 0);
}

/* A device that no piece reaches holds nothing; a step allocates nothing. */
static void leaves_unused_devices_empty(void **state)
{
    struct harness harness;
    size_t before[4];

    (void)state;
    assert_int_equal(harness_configure(), 0);
    memory_reset_peaks();
    harness_options(&harness, "dp-train", MODEL " --gpus 4 --global-batch 3");
    harness.strategy = &strategy_dp;
    assert_int_equal(harness_open(&harness, NULL), 0);
    for (int device = 0; device < 4; device++)
        before[device] = memory_peak_total(device);
    assert_int_equal(harness_train(&harness, 2, NULL), 0);
    for (int device = 0; device < 4; device++)
        assert_int_equal(memory_peak_total(device), before[device]);
    assert_int_equal(before[3], 0);
    assert_true(before[0] > before[1] && before[1] > 0);
    harness_close(&harness);
}

/* ---- the ledger is a check --------------------------------------------------------------------------------------- */

static int run_engine(const char *line, unsigned drop)
{
    struct harness harness;
    struct world world = world_alone();

    assert_int_equal(harness_configure(), 0);
    harness_options(&harness, "dp-train", line);
    softTestDropCopy(drop);
    int status = engine_run(&strategy_dp, &harness.options, &world);
    softTestDropCopy(0);
    return status;
}

static void fails_when_a_copy_is_lost(void **state)
{
    /* Copies of a step with 2 devices, in order: scatter, replicate, gather, its gradient, reduce. */
    static const char *const names[] = {"scatter", "replicate", "gather", "gather", "reduce"};
    static const char line[] = MODEL " --gpus 2 --global-batch 8 --dp-transport p2p --warmup 0 --steps 2";

    (void)state;
    assert_int_equal(run_engine(line, 0), EXIT_OK);
    for (unsigned drop = 1; drop <= COUNT(names); drop++) {
        assert_int_equal(run_engine(line, drop), EXIT_CHECK_FAILED);
        if (!strstr(log_last_error(), names[drop - 1]) || !strstr(log_last_error(), "the formula says"))
            fail_msg("copy %u lost: '%s' does not name %s", drop, log_last_error(), names[drop - 1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_as_pytorch),           cmocka_unit_test(fills_a_group_to_the_byte),
        cmocka_unit_test(moves_what_the_formulas_say), cmocka_unit_test(scatters_real_data_from_the_host),
        cmocka_unit_test(holds_what_the_formulas_say), cmocka_unit_test(leaves_unused_devices_empty),
        cmocka_unit_test(fails_when_a_copy_is_lost),
    };

    log_set_program("test_dp");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
