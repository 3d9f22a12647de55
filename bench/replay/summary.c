/* SPDX-License-Identifier: MIT
 *
 * See summary.h.
 */
#include "summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/statistics.h"

#define PS_PER_MS 1e9
#define MIB 1048576.0

static double ms(int64_t ps)
{
    return (double)ps / PS_PER_MS;
}

/* ---- steps ---------------------------------------------------------------------------------------------------------
 */

static int compare_steps(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The number of the first step that is as long as the lower median. */
static int median_step(const struct play_result *result)
{
    int64_t *sorted = malloc((size_t)result->steps * sizeof(*sorted));
    int step = 0;
    if (!sorted)
        return 0;
    memcpy(sorted, result->step_ps, (size_t)result->steps * sizeof(*sorted));
    qsort(sorted, (size_t)result->steps, sizeof(*sorted), compare_steps);
    while (result->step_ps[step] != sorted[(result->steps - 1) / 2])
        step++;
    free(sorted);
    return step;
}

static void spread(struct summary *summary, const struct play_result *result)
{
    double *values = malloc((size_t)result->steps * sizeof(*values));
    if (!values)
        return;
    for (int i = 0; i < result->steps; i++)
        values[i] = ms(result->step_ps[i]);
    summary->step_ms_mad = statistics_mad(values, (size_t)result->steps);
    summary->step_ms_p95 = statistics_quantile(values, (size_t)result->steps, 0.95);
    free(values);
}

/* The phases of the device whose last mark is the last one among those of the rank that took longest. */
static void break_down(struct summary *summary, const struct play_result *result, int step)
{
    const struct play_step *rows = &result->marks[(size_t)step * (size_t)result->devices], *slowest = NULL;
    const int64_t *rank_ps = &result->rank_step_ps[(size_t)step * (size_t)result->instances];
    for (int d = 0; d < result->devices; d++) {
        if (!rows[d].marked || rank_ps[result->device[d].instance] != result->step_ps[step])
            continue;
        if (slowest && rows[d].last_ps <= slowest->last_ps)
            continue;
        slowest = &rows[d];
        summary->slowest_device = d;
    }
    if (!slowest)
        return;
    for (int p = 0; p < PLAY_PHASES; p++)
        summary->phase_ms[p] = ms(slowest->phase_ps[p]);
    summary->phase_ms[PLAY_HOST] += ms(result->step_ps[step] - (slowest->last_ps - slowest->first_ps));
    summary->hidden_ms = ms(slowest->hidden_ps);
    summary->exposed_ms = summary->phase_ms[PLAY_SCATTER] + summary->phase_ms[PLAY_REPLICATE] +
                          summary->phase_ms[PLAY_GATHER] + summary->phase_ms[PLAY_REDUCE] +
                          summary->phase_ms[PLAY_ALLREDUCE_EXPOSED];
}

/* ---- devices and links ---------------------------------------------------------------------------------------------
 */

static void use_of_devices(struct summary *summary, const struct play_result *result)
{
    for (int d = 0; d < result->devices && result->makespan_ps; d++) {
        double share = (double)result->device[d].engine.busy_ps / (double)result->makespan_ps;
        summary->util_mean += share / result->devices;
        summary->util_device0 = d == 0 ? share : summary->util_device0;
        if (share > summary->util_most) {
            summary->util_most = share;
            summary->busiest_device = d;
        }
    }
}

static void use_of_links(struct summary *summary, const struct play_result *result)
{
    size_t n = (size_t)result->devices;
    double steps = result->steps ? result->steps : 1;
    summary->busiest_from = summary->busiest_to = -1;
    for (size_t d = 0; d < n; d++) {
        summary->comm_mib += result->device[d].sent / MIB / steps;
        if (!result->pair_bytes && result->device[d].sent / MIB / steps > summary->busiest_link_mib)
            summary->busiest_link_mib = result->device[d].sent / MIB / steps;
    }
    for (size_t from = 0; from < n && result->pair_bytes; from++)
        for (size_t to = 0; to < n; to++) {
            double mib = result->pair_bytes[from * (n + 1) + to] / MIB / steps;
            if (mib <= summary->busiest_link_mib)
                continue;
            summary->busiest_link_mib = mib;
            summary->busiest_from = (int)from;
            summary->busiest_to = (int)to;
        }
}

/* ---- the bottleneck ------------------------------------------------------------------------------------------------
 */

/* What is in use, or stands in the way, for the largest part of the time. */
static void name_bottleneck(struct summary *summary, const struct play_result *result)
{
    double moving = summary->step_ms > 0 ? summary->exposed_ms / summary->step_ms : 0;
    double most = summary->util_most;
    char what[96];
    snprintf(what, sizeof(what), "computing on device %d", summary->busiest_device);
    if (moving > most) {
        most = moving;
        snprintf(what, sizeof(what), "moving bytes, with device %d's computing waiting", summary->slowest_device);
    }
    if (summary->host_share > most) {
        most = summary->host_share;
        snprintf(what, sizeof(what), "a host thread: launches and its own work");
    }
    if (summary->lock_share >= most && result->lock_busy_ps > 0) {
        most = summary->lock_share;
        snprintf(what, sizeof(what), "the emulated launch lock");
    }
    snprintf(summary->bottleneck, sizeof(summary->bottleneck), "%s (%.0f %% of the time)", what, 100 * most);
}

void summarize(struct summary *summary, const struct play_result *result)
{
    *summary = (struct summary){.steps = result->steps, .slowest_device = NOBODY_SLOWEST};
    double steps = result->steps ? result->steps : 1;
    summary->step_ms = ms(result->makespan_ps);
    if (result->steps) {
        int step = median_step(result);
        summary->step_ms = ms(result->step_ps[step]);
        spread(summary, result);
        break_down(summary, result, step);
    }
    use_of_devices(summary, result);
    use_of_links(summary, result);
    if (result->makespan_ps) {
        summary->host_share = (double)result->host_busy_ps / (double)result->makespan_ps;
        summary->lock_share = (double)result->lock_busy_ps / (double)result->makespan_ps;
    }
    summary->collective_ms = ms(result->collective_ps) / steps;
    summary->own_work_ms = ms(result->host_work_ps) / steps;
    name_bottleneck(summary, result);
}
