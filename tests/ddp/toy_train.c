/* SPDX-License-Identifier: MIT
 *
 * A trainer without a GPU: launcher, rendezvous, world and fault points are the real ones, a step is a gather and a
 * broadcast. So the tests of supervision are quick, and independent of everything above.
 *
 *     toy_train RANKS STEPS TIMEOUT RENDEZVOUS_TIMEOUT OPTIONS
 */
#include <stdio.h>
#include <stdlib.h>

#include "ddp_multi_process/environment.h"
#include "ddp_multi_process/launcher.h"
#include "ddp_multi_process/progress.h"
#include "ddp_multi_process/rendezvous.h"
#include "sys/clock.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

static int train(struct world *world, uint64_t steps)
{
    uint64_t *all = calloc((size_t)world->size, sizeof(*all));
    int status = all ? EXIT_OK : EXIT_RESOURCE;
    for (uint64_t step = 1; step <= steps && !status; step++) {
        uint64_t mine = step * 100 + (uint64_t)world->rank, sum = 0;
        progress_reach(world->rank, PROGRESS_STEP, step);
        status = world->gather(world, &mine, sizeof(mine), all);
        progress_reach(world->rank, PROGRESS_FINISH, step);
        for (int rank = 0; world->rank == 0 && rank < world->size; rank++)
            sum += all[rank];
        if (!status)
            status = world->broadcast(world, &sum, sizeof(sum));
        uint64_t n = (uint64_t)world->size, expected = n * step * 100 + n * (n - 1) / 2;
        if (!status && sum != expected) {
            log_error("step %llu: sum %llu found, %llu expected", (unsigned long long)step, (unsigned long long)sum,
                      (unsigned long long)expected);
            status = EXIT_CHECK_FAILED;
        }
        clock_sleep(0.002);
    }
    free(all);
    return status;
}

int main(int argc, char **argv)
{
    log_set_program("toy_train");
    if (argc != 6)
        return EXIT_USAGE;
    struct environment environment;
    int status = environment_read(&environment, -1);
    if (status)
        return status;
    double timeout_s = strtod(argv[3], NULL);
    uint64_t steps = strtoull(argv[2], NULL, 10);
    if (!environment.source) {
        struct launch launch = {
            .ranks = (int)strtol(argv[1], NULL, 10), .timeout_s = timeout_s, .steps = steps, .argv = argv};
        return launcher_run(&launch);
    }
    struct world world = {0};
    log_set_rank(environment.rank);
    if (environment.lifeline_fd >= 0)
        status = launcher_hold_lifeline(environment.lifeline_fd);
    if (!status && environment.progress_fd >= 0)
        status = progress_attach(environment.progress_fd, environment.world_size);
    progress_reach(environment.rank, PROGRESS_START, 0);
    progress_reach(environment.rank, PROGRESS_RENDEZVOUS, 0);
    struct rendezvous rendezvous = {
        .environment = &environment, .options = argv[5], .timeout_s = timeout_s, .limit_s = strtod(argv[4], NULL)};
    if (!status)
        status = rendezvous_open(&world, &rendezvous);
    if (!status)
        status = train(&world, steps);
    if (!status && world.rank == 0)
        puts("trained");
    if (!status)
        progress_reach(environment.rank, PROGRESS_END, 0);
    rendezvous_close(&world);
    return status;
}
