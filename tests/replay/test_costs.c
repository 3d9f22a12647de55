/* SPDX-License-Identifier: MIT
 *
 * What single things cost, against sums on paper: kernels, products, copies, and which of a machine's tables answers
 * for a collective.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cost.h"
#include "graph.h"

static struct machine machine;
static struct what_if what_if;

static int set_up(void **state)
{
    (void)state;
    graph_machine(&machine, 2);
    what_if = (struct what_if){1, 1, 1, false, METHOD_TABLE};
    return 0;
}

/* ---- computing -----------------------------------------------------------------------------------------------------
 */

static int64_t compute_ns(enum task_kind kind, double flops, double bytes, int type)
{
    struct task task = {
        .kind = (uint8_t)kind, .flops = flops, .bytes = bytes, .type = (uint8_t)type, .from = 0, .to = 0};
    assert_true(cost_is_compute(&task));
    int64_t ps = cost_compute(&machine, &what_if, &task);
    assert_int_equal(ps % NS, 0);
    return ps / NS;
}

/* 1 byte a ns; 2 operations a ns if the machine says so. The slower of both counts, then kernel_us, then --compute. */
static void kernels_cost_bytes_or_operations(void **state)
{
    (void)state;
    assert_int_equal(compute_ns(TASK_KERNEL, 5000, 100, 0), 100); /* no rate of operations: bytes alone */
    machine.vector_flops_per_s = 2e9;
    assert_int_equal(compute_ns(TASK_KERNEL, 5000, 100, 0), 2500);
    assert_int_equal(compute_ns(TASK_KERNEL, 100, 100, 0), 100);
    assert_int_equal(compute_ns(TASK_FILL, 0, 100, 0), 100);
    assert_int_equal(compute_ns(TASK_COPY, 0, 100, 0), 200); /* inside the device: read and written */
    machine.kernel_s = 20e-9;
    assert_int_equal(compute_ns(TASK_KERNEL, 5000, 100, 0), 2520);
    what_if.compute = 2;
    assert_int_equal(compute_ns(TASK_KERNEL, 5000, 100, 0), 1260);
}

/* A product of 2 m n k operations at the rate of the cube root of m n k: 8 at 1 operation a ns, 64 at 4, and log-log
 * between them: the root of 8 x 64 at 2. Each type at its own rate, at fp32's where it has none. */
static void products_go_at_their_sizes_rate(void **state)
{
    enum { FP32 = 0 + 1, FP16 = 2 + 1, BF16 = 14 + 1 };
    struct task task = {.kind = TASK_PRODUCT, .type = BF16};
    (void)state;
    machine.products[TYPE_FP32] = (struct curve){2, {8, 64}, {1e9, 4e9}};
    machine.products[TYPE_FP16] = (struct curve){1, {8}, {8e9}};
    assert_int_equal(compute_ns(TASK_PRODUCT, 2 * 8 * 8 * 8, 100, FP32), 1024);
    assert_int_equal(compute_ns(TASK_PRODUCT, 2 * 64 * 64 * 64, 100, FP32), 131072);
    task.flops = 2 * 22.62741699796952 * 512;
    assert_true(fabs((double)cost_compute(&machine, &what_if, &task) / (task.flops / 2 * 1e3) - 1) < 1e-6);
    assert_int_equal(compute_ns(TASK_PRODUCT, 1024, 2000, FP32), 2000); /* not less than its bytes take */
    assert_int_equal(compute_ns(TASK_PRODUCT, 1024, 100, FP16), 128);
    assert_string_equal(cost_missing_type(&machine, &task), "bf16");
    machine.products[TYPE_BF16] = (struct curve){1, {8}, {4e9}};
    assert_int_equal(compute_ns(TASK_PRODUCT, 1024, 100, BF16), 256);
    assert_int_equal(compute_ns(TASK_PRODUCT, 1024, 100, FP16), 128);
    assert_null(cost_missing_type(&machine, &task));
}

/* ---- copies --------------------------------------------------------------------------------------------------------
 */

static int64_t copy_ns(int from, int to, bool through_host)
{
    bool through = false;
    int64_t ps = cost_copy(&machine, &what_if, from, to, 400, &through);
    assert_true(through == through_host);
    return ps / NS;
}

/* 400 bytes: 100 ns and 400 at 1 byte a ns. On another node, or where there is no link, through the host. */
static void copies_cost_latency_and_bytes(void **state)
{
    (void)state;
    assert_int_equal(copy_ns(0, 1, false), 500);
    machine.host_up = (struct link){4e9, 30e-9};
    machine.host_down = (struct link){2e9, 50e-9};
    assert_int_equal(copy_ns(0, HOST_SIDE, false), 130);
    assert_int_equal(copy_ns(HOST_SIDE, 0, false), 250);
    assert_int_equal(copy_ns(1, 2, true), 280); /* device 2 is the next node's first */
    assert_int_equal(copy_ns(2, 3, false), 500);
    what_if.bandwidth = 4;
    assert_int_equal(copy_ns(0, 1, false), 200);
    what_if.latency = 3;
    assert_int_equal(copy_ns(0, 1, false), 400);
    assert_int_equal(copy_ns(1, 2, true), 240 + 50);
    machine.direct[0][1].bytes_per_s = 0;
    assert_int_equal(copy_ns(0, 1, true), 290);
}

/* ---- collectives ---------------------------------------------------------------------------------------------------
 */

static void add_table(enum collective_operation operation, int ranks, bool host)
{
    machine.tables[machine.table_count++] = (struct collective_table){
        .operation = operation, .ranks = ranks, .host = host, .seconds = {2, {100, 1100}, {3e-6, 5e-6}}};
}

static void check_table(bool host, enum collective_operation operation, int ranks, int expected)
{
    assert_ptr_equal(collective_table(&machine, host, operation, ranks), &machine.tables[expected]);
}

/* The kind of path first, then the operation, then the nearest number of ranks, of two the smaller; other operations
 * than the all-reduce answer for themselves alone; tables of several nodes for several nodes alone. */
static void the_nearest_table_answers(void **state)
{
    (void)state;
    machine.devices = 16;
    add_table(ALL_REDUCE, 8, false); /* 1; 0: all-reduce of 2 */
    add_table(ALL_REDUCE, 4, false);
    add_table(BROADCAST, 16, false); /* 3 */
    add_table(ALL_REDUCE, 16, true); /* 4 */
    add_table(ALL_REDUCE, 32, false);
    check_table(false, ALL_REDUCE, 8, 1);
    check_table(false, ALL_REDUCE, 5, 2);
    check_table(false, ALL_REDUCE, 6, 2);
    check_table(false, ALL_REDUCE, 7, 1);
    check_table(false, ALL_REDUCE, 16, 1);
    check_table(false, BROADCAST, 2, 3);
    check_table(false, REDUCE, 2, 0);
    check_table(true, ALL_REDUCE, 2, 4);
    check_table(true, BROADCAST, 16, 4);
    check_table(false, ALL_REDUCE, 64, 5);
    machine.table_count = 5;
    assert_null(collective_table(&machine, false, ALL_REDUCE, 17));
}

static int64_t collective_ns(enum collective_operation operation, int ranks, double bytes)
{
    return (int64_t)(collective_seconds(&machine, &what_if, operation, ranks, bytes) * 1e9 + 0.5);
}

/* The table's 1 us stays, its other 1 us for 1100 bytes on 2 ranks goes with the ring's bytes: 2(n-1)/n = 1 there. */
static void other_ranks_and_operations_go_by_the_rings_bytes(void **state)
{
    (void)state;
    machine.devices = 4;
    assert_int_equal(collective_ns(ALL_REDUCE, 2, 1100), 2000);
    assert_int_equal(collective_ns(ALL_REDUCE, 4, 1100), 2500);
    assert_int_equal(collective_ns(ALL_GATHER, 4, 1100), 1750);
    assert_int_equal(collective_ns(REDUCE_SCATTER, 2, 1100), 1500);
    assert_int_equal(collective_ns(BROADCAST, 4, 1100), 2000);
    assert_int_equal(collective_ns(REDUCE, 2, 1100), 2000);
    /* a table that says less for more bytes, as measured ones do: that, and nothing to scale */
    machine.tables[0].seconds = (struct curve){3, {100, 1100, 2100}, {3e-6, 2e-6, 5e-6}};
    assert_int_equal(collective_ns(ALL_REDUCE, 2, 1100), 2000);
    assert_int_equal(collective_ns(ALL_REDUCE, 4, 1100), 2000);
}

/* nccl-tests' size is the whole vector's: a rank's part times the ranks where it holds a part. NCCL's types 7, 6 and 8
 * have 4, 2 and 8 bytes. */
static void bytes_are_the_whole_vectors(void **state)
{
    (void)state;
    assert_true(collective_bytes("all_reduce", 10, 7, 4) == 40);
    assert_true(collective_bytes("broadcast", 10, 6, 4) == 20);
    assert_true(collective_bytes("all_gather", 10, 8, 4) == 320);
    assert_true(collective_bytes("reduce_scatter", 10, 7, 3) == 120);
}

/* 3 ranks on nodes of 2 are two nodes: inside 1 us + 1 us, 2 hops of 0.3 us, 550 bytes x 1 at 0.25 a ns. */
static void a_node_that_is_not_full_is_a_node(void **state)
{
    (void)state;
    machine.network_bytes_per_s = 0.25e9;
    machine.network_latency_s = 300e-9;
    assert_int_equal(collective_ns(ALL_REDUCE, 3, 1100), 1000 + 600 + 2200);
}

/* Through the host's links, the slower of both, where that is longer than the direct table says. */
static void through_the_host_the_slower_link_counts(void **state)
{
    (void)state;
    what_if.no_p2p = true;
    machine.host_up.bytes_per_s = 8e9;
    machine.host_down.bytes_per_s = 0.5e9;
    assert_int_equal(collective_ns(ALL_REDUCE, 2, 1100), 1000 + 2200);
    machine.host_down.bytes_per_s = 4e9; /* 275 ns: the table's 1 us is longer */
    assert_int_equal(collective_ns(ALL_REDUCE, 2, 1100), 2000);
}

/* Times that a falling term would fit best: no negative factor, and never less than nothing. */
static void fits_have_no_negative_terms(void **state)
{
    struct collective_table table = {.ranks = 2, .seconds = {3, {100, 10000, 1000000}, {5e-6, 4e-6, 3e-6}}};
    (void)state;
    collective_fit(&table);
    assert_true(table.fit.root_s >= 0 && table.fit.per_byte_s >= 0 && table.alpha_beta.per_byte_s >= 0);
    assert_true(table.fit.latency_s > 3e-6 && table.fit.latency_s < 5e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(kernels_cost_bytes_or_operations, set_up),
        cmocka_unit_test_setup(products_go_at_their_sizes_rate, set_up),
        cmocka_unit_test_setup(copies_cost_latency_and_bytes, set_up),
        cmocka_unit_test_setup(the_nearest_table_answers, set_up),
        cmocka_unit_test_setup(other_ranks_and_operations_go_by_the_rings_bytes, set_up),
        cmocka_unit_test_setup(bytes_are_the_whole_vectors, set_up),
        cmocka_unit_test_setup(a_node_that_is_not_full_is_a_node, set_up),
        cmocka_unit_test_setup(through_the_host_the_slower_link_counts, set_up),
        cmocka_unit_test_setup(fits_have_no_negative_terms, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
