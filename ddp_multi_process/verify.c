/* SPDX-License-Identifier: MIT
 *
 * What DistributedDataParallel checks at construction, so that no weights are poured into another shape.
 */
#include "verify.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

/* A parameter as it travels. */
struct description {
    char name[64];
    int32_t type; /* enum element_type */
    int32_t dims;
    uint64_t shape[PARAMETER_MAX_DIMS];
};

struct verdict {
    int32_t exit_code;
    char text[400];
};

static void format_shape(char *text, size_t size, const struct description *description)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < description->dims && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%llu", i ? ", " : "",
                                 (unsigned long long)description->shape[i]);
    if (used < size)
        snprintf(text + used, size - used, "]");
}

static bool same_shape(const struct description *a, const struct description *b)
{
    return a->dims == b->dims && memcmp(a->shape, b->shape, sizeof(a->shape)) == 0;
}

/* Rank 0: compares all ranks' lists [size][count] with its own. */
static void compare_shapes(struct verdict *verdict, const struct description *all, int size, int count)
{
    for (int rank = 1; rank < size; rank++)
        for (int i = 0; i < count; i++) {
            const struct description *ours = &all[i], *theirs = &all[(size_t)rank * (size_t)count + (size_t)i];
            char our_shape[96], their_shape[96];
            if (same_shape(ours, theirs) && ours->type == theirs->type)
                continue;
            verdict->exit_code = EXIT_CHECK_FAILED;
            if (ours->type != theirs->type) {
                snprintf(verdict->text, sizeof(verdict->text),
                         "models differ: parameter %s is %s on rank 0 and %s on rank %d", ours->name,
                         element_name((enum element_type)ours->type), element_name((enum element_type)theirs->type), rank);
                return;
            }
            format_shape(our_shape, sizeof(our_shape), ours);
            format_shape(their_shape, sizeof(their_shape), theirs);
            snprintf(verdict->text, sizeof(verdict->text),
                     "models differ: parameter %s has shape %s on rank 0 and %s on rank %d", ours->name, our_shape,
                     their_shape, rank);
            return;
        }
}

static int tell(struct world *world, struct verdict *verdict)
{
    TRY(world->broadcast(world, verdict, sizeof(*verdict)));
    if (verdict->exit_code)
        log_error("%s", verdict->text);
    return verdict->exit_code;
}

static int verify_count(struct world *world, int32_t count)
{
    struct verdict verdict = {0};
    int32_t *counts = calloc((size_t)world->size, sizeof(*counts));
    if (!counts) {
        log_error("no memory for %d ranks", world->size);
        return EXIT_RESOURCE;
    }
    int status = world->gather(world, &count, sizeof(count), counts);
    for (int rank = 1; world->rank == 0 && !status && rank < world->size && !verdict.exit_code; rank++)
        if (counts[rank] != count) {
            verdict.exit_code = EXIT_CHECK_FAILED;
            snprintf(verdict.text, sizeof(verdict.text), "models differ: rank 0 has %d parameters and rank %d has %d",
                     count, rank, counts[rank]);
        }
    if (count == 0 && !verdict.exit_code) {
        verdict.exit_code = EXIT_USAGE;
        snprintf(verdict.text, sizeof(verdict.text), "the model has no parameter to train");
    }
    free(counts);
    return status ? status : tell(world, &verdict);
}

static int verify_shapes(struct world *world, const struct model *model)
{
    struct verdict verdict = {0};
    size_t count = (size_t)model->parameter_count;
    struct description *mine = calloc(count, sizeof(*mine));
    struct description *all = calloc(world->rank == 0 ? count * (size_t)world->size : 1, sizeof(*all));
    int status = EXIT_RESOURCE;
    if (!mine || !all) {
        log_error("no memory for the descriptions of %zu parameters", count);
        goto done;
    }
    for (size_t i = 0; i < count; i++) {
        const struct parameter *parameter = &model->parameters[i];
        snprintf(mine[i].name, sizeof(mine[i].name), "%s", parameter->name);
        mine[i].type = (int32_t)model->settings.type;
        mine[i].dims = parameter->dims;
        for (int dim = 0; dim < parameter->dims; dim++)
            mine[i].shape[dim] = parameter->shape[dim];
    }
    status = world->gather(world, mine, count * sizeof(*mine), all);
    if (!status && world->rank == 0)
        compare_shapes(&verdict, all, world->size, (int)count);
    if (!status)
        status = tell(world, &verdict);
done:
    free(mine);
    free(all);
    return status;
}

int verify_models(struct world *world, const struct model *model)
{
    TRY(verify_count(world, model->parameter_count));
    return verify_shapes(world, model);
}
