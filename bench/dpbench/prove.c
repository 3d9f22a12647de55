/* SPDX-License-Identifier: MIT
 *
 * Who is compared with whom when a group has run (results.h): dp and ddp at each N with each other, then each with the
 * single device, so that two strategies that are wrong in the same way are caught too.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "results.h"
#include "text.h"

static void compare_cells(const struct measured *measured, const struct measured *reference, bool bits_promised,
                          const char *folder, struct comparison *comparison)
{
    char *mine = text_format("%s/%s.gradients", folder, measured->cell->id);
    char *other = text_format("%s/%s.gradients", folder, reference->cell->id);
    bool both = access(mine, R_OK) == 0 && access(other, R_OK) == 0;
    compare_runs(&measured->records[0], both ? mine : NULL, &reference->records[0], both ? other : NULL, bits_promised,
                 comparison);
    free(mine);
    free(other);
}

static void refuse(struct measured *measured, const struct measured *reference, const struct comparison *comparison)
{
    if (measured->equal == EQUAL_NO)
        return;
    measured->equal = EQUAL_NO;
    snprintf(measured->reason, sizeof measured->reason, "not equal to %s: %s", reference->cell->id, comparison->reason);
}

/* The cell whose model this one must have: ddp for dp, dp for ddp, ddp for ddp without overlap. */
static const struct measured *partner(const struct group *group, const struct measured *all, const struct cell *cell)
{
    if (text_is(cell->strategy, "single"))
        return NULL;
    bool seek_ddp = cell->no_overlap || text_is(cell->strategy, "dp");
    return measured_find(all, group, seek_ddp ? "ddp" : "dp", cell->gpus, false);
}

static void prove_one(const struct group *group, struct measured *all, struct measured *measured, const char *folder)
{
    const struct measured *other = partner(group, all, measured->cell);
    const struct measured *single = measured_find(all, group, "single", 1, false);
    struct comparison comparison;
    if (measured->cell->workload->shape_gpus) {
        snprintf(measured->reason, sizeof measured->reason,
                 "shape only: nothing was executed, so there is nothing to compare");
        return;
    }
    if (other) {
        compare_cells(measured, other, compare_promises_bits(measured->records[0].header), folder, &comparison);
        measured->equal = comparison.equal;
        measured->pair = comparison;
        snprintf(measured->checksum_ref, sizeof measured->checksum_ref, "%s",
                 record_text(other->records[0].summary, "checksum"));
        if (comparison.equal == EQUAL_NO) {
            measured->equal = EQUAL_NA;
            refuse(measured, other, &comparison);
        }
    }
    if (!single || single == measured || single->cell->global_batch != measured->cell->global_batch ||
        (measured->cell->workload->batch_norm && measured->cell->gpus > 1))
        return;
    compare_cells(measured, single, false, folder, &comparison);
    if (comparison.equal == EQUAL_NO)
        refuse(measured, single, &comparison);
    if (other)
        return;
    measured->equal = comparison.equal;
    snprintf(measured->checksum_ref, sizeof measured->checksum_ref, "%s",
             record_text(single->records[0].summary, "checksum"));
}

void results_prove(const struct group *group, struct measured *all, const char *folder)
{
    for (int c = 0; c < group->cell_count; c++)
        if (measured_ok(&all[c]))
            prove_one(group, all, &all[c], folder);
}
