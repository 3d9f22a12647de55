/* SPDX-License-Identifier: MIT
 *
 * The collectives as a table, and the names of types and operations.
 */
#include "perf.h"

#include <math.h>
#include <string.h>

static ncclResult_t call_all_reduce(const void *send, void *receive, size_t count, const struct perf_options *options,
                                    ncclComm_t comm, cudaStream_t stream)
{
    return ncclAllReduce(send, receive, count, options->type, options->op, comm, stream);
}

static ncclResult_t call_broadcast(const void *send, void *receive, size_t count, const struct perf_options *options,
                                   ncclComm_t comm, cudaStream_t stream)
{
    return ncclBroadcast(send, receive, count, options->type, options->root, comm, stream);
}

static ncclResult_t call_reduce(const void *send, void *receive, size_t count, const struct perf_options *options,
                                ncclComm_t comm, cudaStream_t stream)
{
    return ncclReduce(send, receive, count, options->type, options->op, options->root, comm, stream);
}

static ncclResult_t call_all_gather(const void *send, void *receive, size_t count, const struct perf_options *options,
                                    ncclComm_t comm, cudaStream_t stream)
{
    return ncclAllGather(send, receive, count, options->type, comm, stream);
}

static ncclResult_t call_reduce_scatter(const void *send, void *receive, size_t count,
                                        const struct perf_options *options, ncclComm_t comm, cudaStream_t stream)
{
    return ncclReduceScatter(send, receive, count, options->type, options->op, comm, stream);
}

static const struct operation operations[] = {
    {.name = "all_reduce", .reduces = true, .call = call_all_reduce},
    {.name = "broadcast", .rooted = true, .call = call_broadcast},
    {.name = "reduce", .reduces = true, .rooted = true, .call = call_reduce},
    {.name = "all_gather", .gathers = true, .call = call_all_gather},
    {.name = "reduce_scatter", .reduces = true, .scatters = true, .call = call_reduce_scatter},
};
#define OPERATIONS (sizeof operations / sizeof *operations)

const struct operation *operation_find(const char *name)
{
    for (size_t i = 0; i < OPERATIONS; i++)
        if (!strcmp(operations[i].name, name))
            return &operations[i];
    return NULL;
}

const char *const *operation_names(size_t *count)
{
    static const char *names[OPERATIONS];
    for (size_t i = 0; i < OPERATIONS; i++)
        names[i] = operations[i].name;
    *count = OPERATIONS;
    return names;
}

static const struct {
    const char *name;
    ncclDataType_t type;
    size_t bytes;
} types[] = {
    {"int8", ncclInt8, 1},      {"uint8", ncclUint8, 1},       {"int32", ncclInt32, 4},  {"uint32", ncclUint32, 4},
    {"int64", ncclInt64, 8},    {"uint64", ncclUint64, 8},     {"half", ncclFloat16, 2}, {"float", ncclFloat32, 4},
    {"double", ncclFloat64, 8}, {"bfloat16", ncclBfloat16, 2},
};
#define TYPES (sizeof types / sizeof *types)

static const struct {
    const char *name;
    ncclRedOp_t op;
} reductions[] = {{"sum", ncclSum}, {"prod", ncclProd}, {"max", ncclMax}, {"min", ncclMin}};
#define REDUCTIONS (sizeof reductions / sizeof *reductions)

bool perf_type_find(const char *name, ncclDataType_t *type)
{
    for (size_t i = 0; i < TYPES; i++)
        if (!strcmp(types[i].name, name)) {
            *type = types[i].type;
            return true;
        }
    return false;
}

bool perf_op_find(const char *name, ncclRedOp_t *op)
{
    for (size_t i = 0; i < REDUCTIONS; i++)
        if (!strcmp(reductions[i].name, name)) {
            *op = reductions[i].op;
            return true;
        }
    return false;
}

const char *perf_type_name(ncclDataType_t type)
{
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].type == type)
            return types[i].name;
    return "?";
}

size_t perf_type_bytes(ncclDataType_t type)
{
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].type == type)
            return types[i].bytes;
    return 0;
}

const char *perf_op_name(ncclRedOp_t op)
{
    for (size_t i = 0; i < REDUCTIONS; i++)
        if (reductions[i].op == op)
            return reductions[i].name;
    return "?";
}

static size_t pieces(const struct perf_options *options)
{
    return options->operation->gathers || options->operation->scatters ? (size_t)options->ranks : 1;
}

size_t operation_count(const struct perf_options *options, size_t bytes)
{
    return bytes / perf_type_bytes(options->type) / pieces(options);
}

size_t operation_bytes(const struct perf_options *options, size_t count)
{
    return count * perf_type_bytes(options->type) * pieces(options);
}

double operation_bus_factor(const struct operation *operation, int ranks)
{
    const double n = ranks;
    if (ranks < 2)
        return NAN;
    if (operation->rooted)
        return 1;
    return operation->gathers || operation->scatters ? (n - 1) / n : 2 * (n - 1) / n;
}
