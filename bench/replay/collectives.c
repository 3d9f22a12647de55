/* SPDX-License-Identifier: MIT
 *
 * Collectives: measured tables where there are some, and the least that has to be added to them.
 *
 * What is derived, and from what:
 *   another number of ranks, another operation: latency (the table's first point) stays; the rest scales with the bytes
 *     that the busiest link carries (collective_factor), as ring algorithms do (nccl-tests, doc/PERFORMANCE.md);
 *   several nodes: NCCL cuts a message into pieces that are inside and between nodes at the same time, so the slower of
 *     both counts, and latencies add: a tree of 2 ceil(log2 nodes) hops (NCCL src/graph/tuning.cc, 2.30);
 *   through the host: the direct table's latency, and every hop crosses both host links.
 */
#include "collectives.h"

#include <string.h>

#include "exact.h"

const char *const method_names[METHODS] = {"table", "fit", "alpha-beta"};

#define SHORTEST_S 1e-9 /* no fit says less than this for a collective */

double collective_factor(enum collective_operation operation, int ranks)
{
    double n = ranks;
    switch (operation) {
    case ALL_REDUCE:
        return 2 * (n - 1) / n;
    case REDUCE_SCATTER:
    case ALL_GATHER:
        return (n - 1) / n;
    default:
        return n > 1 ? 1 : 0;
    }
}

enum collective_operation collective_operation_of(const char *name)
{
    int operation = 0;
    while (operation < COLLECTIVE_OPERATIONS && strcmp(name, collective_names[operation]) != 0)
        operation++;
    return (enum collective_operation)operation;
}

bool collective_has_all_reduce(const struct machine *machine)
{
    for (int i = 0; i < machine->table_count; i++)
        if (machine->tables[i].operation == ALL_REDUCE)
            return true;
    return false;
}

/* ---- fits ----------------------------------------------------------------------------------------------------------
 */

enum { TERMS = 3 }; /* 1, sqrt(n), n */

static void terms_at(double bytes, double terms[TERMS])
{
    terms[0] = 1;
    terms[1] = exact_sqrt(bytes);
    terms[2] = bytes;
}

/* Solves a[used][used] x = b for the used terms by elimination; a is symmetric and positive. Others are 0. */
static void solve(double a[TERMS][TERMS], double b[TERMS], const bool used[TERMS], double x[TERMS])
{
    for (int i = 0; i < TERMS; i++) {
        if (!used[i] || !(a[i][i] > 0))
            continue;
        for (int j = i + 1; j < TERMS; j++) {
            if (!used[j])
                continue;
            double factor = a[j][i] / a[i][i];
            for (int k = 0; k < TERMS; k++)
                a[j][k] -= factor * a[i][k];
            b[j] -= factor * b[i];
        }
    }
    for (int i = TERMS - 1; i >= 0; i--) {
        double sum = b[i];
        for (int j = i + 1; j < TERMS; j++)
            sum -= a[i][j] * x[j];
        x[i] = used[i] && a[i][i] > 0 ? sum / a[i][i] : 0;
    }
}

/* Least sum of squares of (model - y) / y over the points. */
static void least_squares(const struct curve *curve, const bool used[TERMS], double x[TERMS])
{
    double a[TERMS][TERMS] = {{0}}, b[TERMS] = {0}, terms[TERMS];
    for (int p = 0; p < curve->count; p++) {
        terms_at(curve->x[p], terms);
        for (int i = 0; i < TERMS; i++) {
            for (int j = 0; j < TERMS; j++)
                a[i][j] += terms[i] * terms[j] / (curve->y[p] * curve->y[p]);
            b[i] += terms[i] / curve->y[p];
        }
    }
    solve(a, b, used, x);
}

static double fit_at(const struct fit *fit, double bytes)
{
    double seconds = fit->latency_s + fit->root_s * exact_sqrt(bytes) + fit->per_byte_s * bytes;
    return seconds > SHORTEST_S ? seconds : SHORTEST_S;
}

/* Terms whose factor comes out negative have no meaning: the most negative one is left out, until none is. */
static struct fit make_fit(const struct curve *curve, bool root)
{
    bool used[TERMS] = {true, root && curve->count > 2, curve->count > 1};
    double x[TERMS] = {0};
    for (int round = 0; round < TERMS; round++) {
        int worst = 0;
        least_squares(curve, used, x);
        for (int i = 1; i < TERMS; i++)
            worst = x[i] < x[worst] ? i : worst;
        if (x[worst] >= 0)
            break;
        used[worst] = false;
    }
    struct fit fit = {.latency_s = x[0], .root_s = x[1], .per_byte_s = x[2]};
    for (int p = 0; p < curve->count; p++) {
        double error = fit_at(&fit, curve->x[p]) / curve->y[p] - 1;
        error = error < 0 ? -error : error;
        fit.error_mean += error / curve->count;
        fit.error_worst = error > fit.error_worst ? error : fit.error_worst;
    }
    return fit;
}

void collective_fit(struct collective_table *table)
{
    table->fit = make_fit(&table->seconds, true);
    table->alpha_beta = make_fit(&table->seconds, false);
}

/* ---- tables --------------------------------------------------------------------------------------------------------
 */

static int distance(const struct collective_table *table, bool host, enum collective_operation operation, int ranks)
{
    int apart = table->ranks > ranks ? table->ranks - ranks : ranks - table->ranks;
    return apart + (table->operation == operation ? 0 : 10000) + (table->host == host ? 0 : 100000);
}

/* The same kind of path first, then the same operation (else the all-reduce), then the nearest number of ranks, then
 * the smaller one. Tables of several nodes answer only for several nodes. */
const struct collective_table *collective_table(const struct machine *machine, bool host,
                                                enum collective_operation operation, int ranks)
{
    const struct collective_table *best = NULL;
    for (int i = 0; i < machine->table_count; i++) {
        const struct collective_table *table = &machine->tables[i];
        if ((table->operation != operation && table->operation != ALL_REDUCE) ||
            (table->ranks > machine->devices) != (ranks > machine->devices))
            continue;
        int here = distance(table, host, operation, ranks), there = best ? distance(best, host, operation, ranks) : 0;
        if (!best || here < there || (here == there && table->ranks < best->ranks))
            best = table;
    }
    return best;
}

static double table_at(const struct collective_table *table, enum collective_method method, double bytes)
{
    if (method == METHOD_FIT)
        return fit_at(&table->fit, bytes);
    if (method == METHOD_ALPHA_BETA)
        return fit_at(&table->alpha_beta, bytes);
    return curve_at(&table->seconds, bytes, true);
}

struct parts {
    double latency_s, transfer_s;
};

static struct parts from_table(const struct collective_table *table, enum collective_method method,
                               enum collective_operation operation, int ranks, double bytes)
{
    double total = table_at(table, method, bytes), latency = table_at(table, method, 0);
    double scale = collective_factor(operation, ranks) / collective_factor(table->operation, table->ranks);
    latency = latency < total ? latency : total;
    return (struct parts){latency, (total - latency) * scale};
}

static struct parts inside(const struct machine *machine, const struct what_if *what_if,
                           enum collective_operation operation, int ranks, double bytes)
{
    const struct collective_table *table = collective_table(machine, what_if->no_p2p, operation, ranks);
    if (!table)
        return (struct parts){0, 0};
    struct parts parts = from_table(table, what_if->method, operation, ranks, bytes);
    if (!what_if->no_p2p || table->host)
        return parts;
    double up = machine->host_up.bytes_per_s, down = machine->host_down.bytes_per_s;
    double through = bytes * collective_factor(operation, ranks) / (up < down ? up : down);
    parts.transfer_s = through > parts.transfer_s ? through : parts.transfer_s;
    return parts;
}

static struct parts between(const struct machine *machine, enum collective_operation operation, int ranks, double bytes)
{
    int nodes = (ranks + machine->devices - 1) / machine->devices, hops = 0;
    for (int reached = 1; reached < nodes; reached *= 2)
        hops += 2;
    double share = bytes / machine->devices; /* each device sends its part of the vector over its own share */
    return (struct parts){hops * machine->network_latency_s,
                          share * collective_factor(operation, nodes) / machine->network_bytes_per_s};
}

double collective_seconds(const struct machine *machine, const struct what_if *what_if,
                          enum collective_operation operation, int ranks, double bytes)
{
    struct parts parts = {0, 0};
    if (ranks < 2)
        return 0;
    if (ranks <= machine->devices || collective_table(machine, what_if->no_p2p, operation, ranks)) {
        parts = inside(machine, what_if, operation, ranks, bytes);
    } else {
        parts = inside(machine, what_if, operation, machine->devices, bytes);
        if (machine->network_bytes_per_s > 0) {
            struct parts outer = between(machine, operation, ranks, bytes);
            parts.latency_s += outer.latency_s;
            parts.transfer_s = outer.transfer_s > parts.transfer_s ? outer.transfer_s : parts.transfer_s;
        }
    }
    return parts.latency_s * what_if->latency + parts.transfer_s / what_if->bandwidth;
}

double collective_slowdown(const struct machine *machine, int ranks)
{
    return machine->slowdown.count ? curve_at(&machine->slowdown, ranks, false) : 1;
}
