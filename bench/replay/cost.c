/* SPDX-License-Identifier: MIT
 *
 * See cost.h.
 */
#include "cost.h"

#include "exact.h"

/* CUDA's numbers of data types (library_types.h), plus 1 as in the record. */
enum { RECORD_FP32 = 0 + 1, RECORD_FP16 = 2 + 1, RECORD_BF16 = 14 + 1 };

bool cost_is_compute(const struct task *task)
{
    return task->kind == TASK_KERNEL || task->kind == TASK_PRODUCT || task->kind == TASK_FILL ||
           (task->kind == TASK_COPY && task->from == task->to && task->from != HOST_SIDE);
}

static enum machine_type wanted_type(int type)
{
    return type == RECORD_FP16 ? TYPE_FP16 : type == RECORD_BF16 ? TYPE_BF16 : TYPE_FP32;
}

const char *cost_missing_type(const struct machine *machine, const struct task *task)
{
    enum machine_type wanted = wanted_type(task->type);
    return task->kind == TASK_PRODUCT && !machine->products[wanted].count ? machine_type_names[wanted] : NULL;
}

static const struct curve *product_rates(const struct machine *machine, int type)
{
    enum machine_type wanted = wanted_type(type);
    return &machine->products[machine->products[wanted].count ? wanted : TYPE_FP32];
}

/* 2 m n k operations: the size of a product is the cube root of m n k. */
static double product_seconds(const struct machine *machine, const struct task *task)
{
    double rate = curve_at(product_rates(machine, task->type), exact_cbrt(task->flops / 2), false);
    return task->flops / rate;
}

int64_t cost_compute(const struct machine *machine, const struct what_if *what_if, const struct task *task)
{
    double moved = task->kind == TASK_COPY ? 2 * task->bytes : task->bytes; /* a copy reads and writes */
    double seconds = moved / machine->memory_bytes_per_s, work = 0;
    if (task->kind == TASK_PRODUCT)
        work = product_seconds(machine, task);
    else if (machine->vector_flops_per_s > 0)
        work = task->flops / machine->vector_flops_per_s;
    seconds = work > seconds ? work : seconds;
    return exact_ps((seconds + machine->kernel_s) / what_if->compute);
}

static bool on_one_node(const struct machine *machine, int from, int to)
{
    return from / machine->devices == to / machine->devices;
}

int64_t cost_copy(const struct machine *machine, const struct what_if *what_if, int from, int to, double bytes,
                  bool *through_host)
{
    struct link link = {0};
    *through_host = false;
    if (from == HOST_SIDE)
        link = machine->host_down;
    else if (to == HOST_SIDE)
        link = machine->host_up;
    else if (on_one_node(machine, from, to) && !what_if->no_p2p)
        link = machine->direct[from % machine->devices][to % machine->devices];
    if (!(link.bytes_per_s > 0)) { /* staged: both halves run at the same time, piece behind piece */
        const struct link *up = &machine->host_up, *down = &machine->host_down;
        link = up->bytes_per_s < down->bytes_per_s ? *up : *down;
        link.latency_s = up->latency_s + down->latency_s;
        *through_host = true;
    }
    return exact_ps(bytes / (link.bytes_per_s * what_if->bandwidth) + link.latency_s * what_if->latency);
}

int64_t cost_enqueue(const struct machine *machine, const struct task *task)
{
    switch (task->kind) {
    case TASK_EVENT:
    case TASK_EVENT_WAIT:
        return exact_ps(machine->event_s);
    case TASK_COPY:
        return exact_ps(machine->copy_call_s);
    case TASK_COLLECTIVE:
        return exact_ps(machine->collective_call_s);
    default:
        return exact_ps(machine->launch_s);
    }
}
