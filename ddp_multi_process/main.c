/* SPDX-License-Identifier: MIT
 *
 * ddp-train: DistributedDataParallel. Without a launcher's variables in the environment it is the launcher, and starts
 * the ranks; with RANK and WORLD_SIZE (ours, torchrun's) or a scheduler's variables it is a rank.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "environment.h"
#include "launcher.h"
#include "progress.h"
#include "rendezvous.h"
#include "strategy.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

static int launch_ranks(const struct options *options, char **argv)
{
    const struct launch launch = {.ranks = options->gpus,
                                  .timeout_s = options->timeout,
                                  .argv = argv,
                                  .steps = options->epochs ? 0 : (uint64_t)(options->warmup + options->steps)};
    int status = launcher_run(&launch);
    if (status && !progress_failure_reported()) /* rank 0 was killed, or had told of a good end before another was */
        (void)engine_report_failure(&strategy_ddp, options, status);
    return status;
}

/* --gpus is what the launcher says, if it was given at all. */
static int adopt_world_size(struct options *options, const struct environment *environment)
{
    if (options->gpus != 1 && options->gpus != environment->world_size) {
        log_error("--gpus %d, but the launcher has started %d ranks (from %s)", options->gpus, environment->world_size,
                  environment->source);
        return EXIT_USAGE;
    }
    options_set_gpus(options, environment->world_size);
    return EXIT_OK;
}

/* The nets that our own launcher hands down; a rank of another launcher has none. */
static int take_inheritance(const struct environment *environment)
{
    int status = EXIT_OK;
    if (environment->lifeline_fd >= 0)
        status = launcher_hold_lifeline(environment->lifeline_fd);
    if (!status && environment->progress_fd >= 0)
        status = progress_attach(environment->progress_fd, environment->world_size);
    return status;
}

/* One file a process: rank r of several records to FILE.r. *path is the caller's (free), behind the run. */
static int name_record(struct options *options, const struct environment *environment, char **path)
{
    if (!options->record || environment->world_size == 1)
        return EXIT_OK;
    if (asprintf(path, "%s.%d", options->record, environment->rank) < 0) {
        *path = NULL;
        log_error("no memory for the record's name");
        return EXIT_RESOURCE;
    }
    options->record = *path;
    return EXIT_OK;
}

static int meet(const struct options *options, const struct environment *environment, struct world *world)
{
    char *canonical = options_canonical(options);
    if (!canonical) {
        log_error("no memory for the options");
        return EXIT_RESOURCE;
    }
    struct rendezvous rendezvous = {.environment = environment,
                                    .options = canonical,
                                    .limit_s = options->rendezvous_timeout,
                                    .timeout_s = options->timeout};
    progress_reach(environment->rank, PROGRESS_RENDEZVOUS, 0);
    int status = rendezvous_open(world, &rendezvous);
    free(canonical);
    return status;
}

static int run_rank(struct options *options, const struct environment *environment)
{
    struct world world = {0};
    char *record = NULL;
    log_set_rank(environment->rank);
    log_set_quiet(environment->rank > 0);       /* what all ranks would say alike, rank 0 says */
    (void)prctl(PR_SET_NAME, "ddp-train rank"); /* started as /proc/self/exe, it would be called "exe" */
    int status = adopt_world_size(options, environment);
    if (!status)
        status = take_inheritance(environment);
    progress_reach(environment->rank, PROGRESS_START, 0);
    if (!status)
        status = meet(options, environment, &world);
    if (!status)
        status = name_record(options, environment, &record);
    if (!status)
        status = engine_configure(options, environment->local_world_size);
    world.reported = progress_set_reported;
    world.reach = progress_reach;
    world.blame = progress_blame;
    if (!status)
        status = engine_run(&strategy_ddp, options, &world);
    else if (environment->rank == 0) {
        (void)engine_report_failure(&strategy_ddp, options, status);
        progress_set_reported(status);
    }
    if (!status) /* else the launcher tells where it failed */
        progress_reach(environment->rank, PROGRESS_END, 0);
    rendezvous_close(&world);
    free(record);
    return status;
}

int main(int argc, char **argv)
{
    struct options options;
    struct environment environment;
    log_set_program("ddp-train");
    int status = options_parse(&options, "ddp-train", argc, argv);
    if (status)
        return status < 0 ? EXIT_OK : status;
    if (options.device_count) {
        status = engine_configure(&options, 1);
        return status ? status : engine_print_device_count();
    }
    status = environment_read(&environment, options.local_rank);
    if (!status)
        status = engine_check_backend(&options);
    if (status)
        return status;
    log_note();
    if (!environment.source)
        return launch_ranks(&options, argv);
    engine_leave(run_rank(&options, &environment));
}
