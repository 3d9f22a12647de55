/* SPDX-License-Identifier: MIT
 *
 * One table of launchers, first match wins; then the few rules that are a launcher's own.
 */
#include "environment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/exit_codes.h"
#include "sys/log.h"

/* The names under which launchers tell the same numbers. */
static const struct launcher_names {
    const char *rank, *world_size, *local_rank, *local_world_size;
    const char *job; /* what keeps two jobs apart */
} launchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE", "SLURM_JOB_ID"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "PMIX_NAMESPACE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID"},
};

/* A whole decimal number from the environment. A variable that is not set leaves *value alone. */
static int read_number(const char *name, long low, long high, int *value)
{
    const char *text = getenv(name);
    if (!text)
        return EXIT_OK;
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || strchr(" \t\n+", *text) || errno || number < low || number > high) {
        log_error("%s=%s: expected a number from %ld to %ld", name, text, low, high);
        return EXIT_USAGE;
    }
    *value = (int)number;
    return EXIT_OK;
}

static int read_ranks(struct environment *environment, const struct launcher_names *names, int local_rank_option)
{
    int status = EXIT_OK;
    if (!getenv(names->world_size)) {
        log_error("%s=%s is set, but %s is not: both are needed", names->rank, getenv(names->rank), names->world_size);
        return EXIT_USAGE;
    }
    if ((status = read_number(names->world_size, 1, MAX_RANKS, &environment->world_size)) ||
        (status = read_number(names->rank, 0, MAX_RANKS - 1, &environment->rank)))
        return status;
    if (environment->rank >= environment->world_size) {
        log_error("%s=%d, but %s=%d: ranks are 0 to %d", names->rank, environment->rank, names->world_size,
                  environment->world_size, environment->world_size - 1);
        return EXIT_USAGE;
    }
    environment->local_rank = local_rank_option >= 0 ? local_rank_option : environment->rank;
    environment->local_world_size = environment->world_size;
    status = read_number(names->local_world_size, 1, MAX_RANKS, &environment->local_world_size);
    return status ? status : read_number(names->local_rank, 0, MAX_RANKS - 1, &environment->local_rank);
}

static int read_address(struct environment *environment)
{
    const char *host = getenv("MASTER_ADDR");
    if (!host || !*host)
        host = "127.0.0.1";
    if (strlen(host) >= sizeof(environment->host)) {
        log_error("MASTER_ADDR has %zu characters: expected at most %zu", strlen(host), sizeof(environment->host) - 1);
        return EXIT_USAGE;
    }
    memcpy(environment->host, host, strlen(host) + 1);
    environment->port = DEFAULT_MASTER_PORT;
    int status = read_number("MASTER_PORT", 1, 65535, &environment->port);
    /* torchrun's agent serves its own store on MASTER_PORT: ours is the port beside it. */
    const char *agent_store = getenv("TORCHELASTIC_USE_AGENT_STORE");
    if (!status && agent_store && strcmp(agent_store, "True") == 0)
        environment->port = environment->port < 65535 ? environment->port + 1 : environment->port - 1;
    return status;
}

static bool hex_value(char digit, uint8_t *value)
{
    const char *digits = "0123456789abcdef";
    const char *found = digit ? strchr(digits, digit) : NULL;
    if (found)
        *value = (uint8_t)(found - digits);
    return found != NULL;
}

static int read_token(struct environment *environment, const char *job_name)
{
    const char *text = getenv(ENV_TOKEN);
    if (!text) {
        static const uint8_t no_key[SIPHASH_BYTES];
        const char *job = getenv(job_name);
        siphash(environment->token, no_key, job ? job : "", job ? strlen(job) : 0);
        return EXIT_OK;
    }
    bool good = strlen(text) == 2 * TOKEN_BYTES;
    for (int i = 0; good && i < TOKEN_BYTES; i++) {
        uint8_t high = 0, low = 0;
        good = hex_value(text[2 * i], &high) && hex_value(text[2 * i + 1], &low);
        environment->token[i] = (uint8_t)(high << 4 | low);
    }
    unsetenv(ENV_TOKEN); /* nothing that this process may start needs it */
    if (!good)
        log_error("%s: expected %d hexadecimal digits in lower case (the value is not shown)", ENV_TOKEN,
                  2 * TOKEN_BYTES);
    return good ? EXIT_OK : EXIT_USAGE;
}

/* Descriptor numbers are taken out of the environment: nothing that this process may start has them. */
static int read_descriptors(struct environment *environment)
{
    const struct {
        const char *name;
        int *fd;
    } inherited[] = {
        {ENV_LISTEN_FD, &environment->listen_fd},
        {ENV_PROGRESS_FD, &environment->progress_fd},
        {ENV_LIFELINE_FD, &environment->lifeline_fd},
    };
    for (size_t i = 0; i < sizeof(inherited) / sizeof(inherited[0]); i++) {
        *inherited[i].fd = -1;
        int status = read_number(inherited[i].name, 3, 1 << 20, inherited[i].fd);
        if (status)
            return status;
        unsetenv(inherited[i].name);
    }
    return EXIT_OK;
}

int environment_read(struct environment *environment, int local_rank_option)
{
    *environment = (struct environment){.listen_fd = -1, .progress_fd = -1, .lifeline_fd = -1};
    const struct launcher_names *names = NULL;
    for (size_t i = 0; !names && i < sizeof(launchers) / sizeof(launchers[0]); i++)
        if (getenv(launchers[i].rank))
            names = &launchers[i];
    if (!names && local_rank_option >= 0) {
        log_error("--local-rank %d: has no effect without a launcher's variables; expected RANK and WORLD_SIZE, or "
                  "those of srun, Open MPI or MPICH",
                  local_rank_option);
        return EXIT_USAGE;
    }
    if (!names)
        return EXIT_OK;
    int status = read_ranks(environment, names, local_rank_option);
    if (status)
        return status;
    /* A scheduler's single task is a shell in which the user starts us by hand: we launch. */
    if (names != &launchers[0] && environment->world_size == 1)
        return EXIT_OK;
    environment->source = names->rank;
    if ((status = read_address(environment)) || (status = read_token(environment, names->job)))
        return status;
    return read_descriptors(environment);
}

int environment_launcher_port(int *port)
{
    *port = 0;
    return read_number("MASTER_PORT", 1, 65535, port);
}
