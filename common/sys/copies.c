/* SPDX-License-Identifier: MIT
 *
 * One table of what launchers tell the processes they start. A batch script of Slurm's has SLURM_NTASKS, but is one
 * process: only a step (srun) counts.
 */
#include "copies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exit_codes.h"
#include "log.h"

static const struct {
    const char *rank_here, *rank, *count;
} launchers[] = {
    {"LOCAL_RANK", "RANK", "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"MPI_LOCALRANKID", "PMI_RANK", "PMI_SIZE"},
    {"SLURM_LOCALID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
};

bool copies_first_here(void)
{
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        const char *here = getenv(launchers[i].rank_here), *rank = getenv(launchers[i].rank);
        if (here || rank)
            return strcmp(here ? here : rank, "0") == 0;
    }
    return true;
}

int copies_refuse(const char *instead)
{
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        const char *count = getenv(launchers[i].count);
        if (!getenv(launchers[i].rank) || !count || strtol(count, NULL, 10) < 2)
            continue;
        if (copies_first_here())
            log_error("%s=%s: this program drives all devices by itself and must be started once: %s",
                      launchers[i].count, count, instead);
        return EXIT_RESOURCE;
    }
    return EXIT_OK;
}
