/* SPDX-License-Identifier: MIT
 *
 * What was measured: each rank fills rows, rank 0 gathers and sums them up. A step's time is the maximum over the
 * ranks. The breakdown is that of the median step (of the two middle ones, if their number is even) on the rank that
 * was slowest in it: so the phases add up to step_ms, which no average of phases does.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "run/engine.h"
#include "run/statistics.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "sys/topology.h"

#define MIB 1048576.0

/* ---- gathering --------------------------------------------------------------------------------------------------- */

void engine_read_busy(const struct engine *engine, double busy[RUN_MAX_DEVICES])
{
    int devices = engine->strategy->devices(engine->state);

    for (int i = 0; i < devices && i < RUN_MAX_DEVICES; i++)
        busy[i] = gpu_busy_seconds(engine->strategy->replica(engine->state, i)->device);
}

static int describe_device(struct device_row *row, const struct engine *engine, int index, double busy_s)
{
    int device = engine->strategy->replica(engine->state, index)->device;

    *row = (struct device_row){
        .position = engine->world->size > 1 ? engine->world->rank : index,
        .rank = engine->world->rank,
        .peak_total = memory_peak_total(device),
        .busy_s = busy_s,
        .cores = engine->cores_per_device,
    };
    for (int category = 0; category < MEMORY_CATEGORIES; category++)
        row->peak[category] = memory_peak(device, (enum memory_category)category);
    for (int i = 0; i < engine->row_count && !engine->options->shape_only; i++)
        row->step_s += engine->rows[i].ms * 1e-3;
    return gpu_device_describe(device, row->name, sizeof row->name, row->cpuset, sizeof row->cpuset);
}

static int gather_devices(struct results *results, struct engine *engine)
{
    struct device_row mine[RUN_MAX_DEVICES];
    double busy[RUN_MAX_DEVICES] = {0};
    int devices = engine->strategy->devices(engine->state), status = EXIT_OK;
    void *all = NULL;

    engine_read_busy(engine, busy);
    for (int i = 0; i < devices && !status; i++)
        status = describe_device(&mine[i], engine, i, busy[i] - engine->busy_before[i]);
    TRY(world_agree(engine->world, status));
    TRY(world_gather_items(engine->world, mine, (size_t)devices, sizeof *mine, &all, &results->device_count));
    results->devices = all;
    return EXIT_OK;
}

int results_collect(struct results *results, struct engine *engine)
{
    struct world *world = engine->world;
    uint64_t formula[PHASES] = {0};
    void *rows = NULL;

    *results = (struct results){0};
    TRY(gather_devices(results, engine));
    TRY(world_gather_items(world, engine->rows, (size_t)engine->row_count, sizeof *engine->rows, &rows,
                           &results->row_count));
    results->rows = rows;
    engine->strategy->traffic_formula(engine->state, formula);
    TRY(ledger_collect(&results->ledger, world, (uint64_t)engine->row_count, formula));
    return world_agree(world, world->rank == 0 ? ledger_check(&results->ledger) : EXIT_OK);
}

void results_close(struct results *results)
{
    ledger_close(&results->ledger);
    free(results->devices);
    free(results->rows);
    *results = (struct results){0};
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static const struct step_row *row_of(const struct results *results, const struct engine *engine, int rank, int step)
{
    return &results->rows[(size_t)rank * (size_t)engine->row_count + (size_t)step];
}

static const struct step_row *slowest_row(const struct results *results, const struct engine *engine, int step)
{
    const struct step_row *slowest = row_of(results, engine, 0, step);

    for (int rank = 1; rank < engine->world->size; rank++) {
        const struct step_row *row = row_of(results, engine, rank, step);
        if (row->ms > slowest->ms)
            slowest = row;
    }
    return slowest;
}

double results_step_ms(const struct results *results, const struct engine *engine, int step)
{
    return engine->options->shape_only ? NAN : slowest_row(results, engine, step)->ms;
}

static uint64_t step_samples(const struct results *results, const struct engine *engine, int step)
{
    uint64_t samples = 0;

    for (int rank = 0; rank < engine->world->size; rank++)
        samples += row_of(results, engine, rank, step)->samples;
    return samples;
}

double results_step_loss(const struct results *results, const struct engine *engine, int step)
{
    double sum = 0;

    for (int rank = 0; rank < engine->world->size; rank++)
        sum += row_of(results, engine, rank, step)->loss_sum;
    return engine_loss(engine, sum, step_samples(results, engine, step));
}

struct ranked_step {
    double ms;
    int step;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked_step *x = a, *y = b;

    if (x->ms < y->ms || x->ms > y->ms)
        return x->ms < y->ms ? -1 : 1;
    return x->step - y->step;
}

static void add_breakdown(struct summary *summary, const struct step_row *row, double weight)
{
    for (int phase = 0; phase < PHASES; phase++)
        summary->phase_ms[phase] += weight * row->phase_ms[phase];
    summary->communication_hidden_ms += weight * row->communication_hidden_ms;
}

static void break_down_median_step(struct summary *summary, const struct results *results, const struct engine *engine)
{
    int steps = engine->row_count;
    struct ranked_step *ranked = malloc((size_t)steps * sizeof *ranked);

    if (!ranked) {
        log_warning("no memory to find the median of %d steps: no breakdown", steps);
        for (int phase = 0; phase < PHASES; phase++)
            summary->phase_ms[phase] = NAN;
        return;
    }
    for (int step = 0; step < steps; step++)
        ranked[step] = (struct ranked_step){results_step_ms(results, engine, step), step};
    qsort(ranked, (size_t)steps, sizeof *ranked, compare_ranked);
    add_breakdown(summary, slowest_row(results, engine, ranked[(steps - 1) / 2].step), 0.5);
    add_breakdown(summary, slowest_row(results, engine, ranked[steps / 2].step), 0.5);
    for (int phase = 0; phase < PHASES; phase++) /* a phase that this strategy does not have is not a phase of 0 ms */
        summary->phase_ms[phase] = summary->phase_ms[phase] > 0 ? summary->phase_ms[phase] : NAN;
    free(ranked);
}

static void summarize_steps(struct summary *summary, const struct results *results, const struct engine *engine)
{
    size_t steps = (size_t)engine->row_count;
    double *ms = calloc(steps + 1, sizeof *ms);
    double total_ms = 0, samples = 0;

    for (size_t step = 0; step < steps && ms; step++) {
        ms[step] = results_step_ms(results, engine, (int)step);
        total_ms += ms[step];
        samples += (double)step_samples(results, engine, (int)step);
    }
    size_t known = ms && !engine->options->shape_only ? steps : 0;
    summary->step_ms = statistics_median(ms, known);
    summary->step_ms_mad = statistics_mad(ms, known);
    summary->step_ms_p95 = statistics_quantile(ms, known, 0.95);
    summary->samples_per_s = known ? samples / (total_ms * 1e-3) : NAN;
    free(ms);
    if (known == 0) {
        for (int phase = 0; phase < PHASES; phase++)
            summary->phase_ms[phase] = NAN;
        summary->communication_hidden_ms = summary->loss_first = summary->loss_last = NAN;
        return;
    }
    break_down_median_step(summary, results, engine);
    summary->loss_first = results_step_loss(results, engine, 0);
    summary->loss_last = results_step_loss(results, engine, (int)steps - 1);
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

double device_utilization(const struct device_row *device)
{
    double cores = device->cores > 0 ? device->cores : 1;

    return device->step_s > 0 ? device->busy_s / (device->step_s * cores) : NAN;
}

static void summarize_devices(struct summary *summary, const struct results *results)
{
    double others[RUN_MAX_DEVICES] = {0}, sum = 0, utilization = 0;
    size_t other_count = 0, count = results->device_count;

    summary->device0_mib = summary->util_device0 = NAN;
    for (size_t i = 0; i < count; i++) {
        const struct device_row *device = &results->devices[i];
        double mib = (double)device->peak_total / MIB;
        sum += mib;
        utilization += device_utilization(device);
        summary->peak_mib = fmax(summary->peak_mib, mib);
        if (device->position == 0) {
            summary->device0_mib = mib;
            summary->util_device0 = device_utilization(device);
        } else if (other_count < RUN_MAX_DEVICES) {
            others[other_count++] = mib;
        }
    }
    summary->median_others_mib = statistics_median(others, other_count);
    summary->imbalance = sum > 0 ? summary->peak_mib / (sum / (double)count) : NAN;
    summary->util_mean = count ? utilization / (double)count : NAN;
}

/* Two devices on one core. Where each rank may use other cores than the next (mpirun's binding) only their lists tell; where a list
 * is missing the cores of this process are what there is. */
static bool share_cores(const struct results *results, const struct engine *engine)
{
    if (engine->cores_per_device > topology_usable_cores())
        return true;
    for (size_t i = 0; i < results->device_count; i++) {
        if (!results->devices[i].cpuset[0])
            return engine->options->gpus * engine->cores_per_device > topology_usable_cores();
        for (size_t j = 0; j < i; j++)
            if (topology_lists_meet(results->devices[i].cpuset, results->devices[j].cpuset))
                return true;
    }
    return false;
}

void results_summarize(struct summary *summary, const struct results *results, const struct engine *engine)
{
    *summary = (struct summary){0};
    summarize_steps(summary, results, engine);
    summarize_devices(summary, results);
    summary->oversubscribed = !engine->options->shape_only && share_cores(results, engine); /* of times, and there are none */
}
