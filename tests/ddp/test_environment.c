/* SPDX-License-Identifier: MIT
 *
 * Launchers' variables, good and bad.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ddp_multi_process/environment.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

/* Makes the environment hold exactly these "NAME=value" and reads it. */
static int read_with(struct environment *environment, const char *const *variables, int local_rank)
{
    clearenv();
    for (; *variables; variables++) {
        char name[64];
        size_t length = strcspn(*variables, "=");
        memcpy(name, *variables, length);
        name[length] = '\0';
        setenv(name, *variables + length + 1, 1);
    }
    return environment_read(environment, local_rank);
}
#define READ(environment, local_rank, ...) read_with(environment, (const char *const[]){__VA_ARGS__, NULL}, local_rank)

static void nothing_set_is_a_launcher(void **state)
{
    (void)state;
    struct environment environment;
    assert_int_equal(READ(&environment, -1, "PATH=/bin"), 0);
    assert_null(environment.source);
    assert_int_equal(READ(&environment, 3, "LOCAL_RANK=3"), EXIT_USAGE); /* the option alone makes no rank */
    assert_non_null(strstr(log_last_error(), "--local-rank 3"));
    assert_non_null(strstr(log_last_error(), "expected RANK"));
}

static void torchrun(void **state)
{
    (void)state;
    struct environment environment;
    assert_int_equal(READ(&environment, -1, "RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4",
                          "MASTER_ADDR=10.0.0.7", "MASTER_PORT=1234", "TORCHELASTIC_RUN_ID=job"),
                     0);
    assert_string_equal(environment.source, "RANK");
    assert_int_equal(environment.rank, 5);
    assert_int_equal(environment.world_size, 8);
    assert_int_equal(environment.local_rank, 1);
    assert_int_equal(environment.local_world_size, 4);
    assert_string_equal(environment.host, "10.0.0.7");
    assert_int_equal(environment.port, 1234);
    assert_int_equal(environment.listen_fd, -1);

    struct environment other;
    assert_int_equal(READ(&other, -1, "RANK=5", "WORLD_SIZE=8", "TORCHELASTIC_RUN_ID=other"), 0);
    assert_memory_not_equal(environment.token, other.token, TOKEN_BYTES);
    assert_string_equal(other.host, "127.0.0.1");
    assert_int_equal(other.port, DEFAULT_MASTER_PORT);
    assert_int_equal(other.local_rank, 5);
    assert_int_equal(READ(&other, 3, "RANK=5", "WORLD_SIZE=8"), 0);
    assert_int_equal(other.local_rank, 3);
    /* torchrun's agent holds MASTER_PORT itself. */
    assert_int_equal(
        READ(&other, -1, "RANK=0", "WORLD_SIZE=1", "MASTER_PORT=1234", "TORCHELASTIC_USE_AGENT_STORE=True"), 0);
    assert_int_equal(other.port, 1235);
}

static void schedulers(void **state)
{
    (void)state;
    struct environment environment;
    assert_int_equal(READ(&environment, -1, "SLURM_PROCID=3", "SLURM_NTASKS=4", "SLURM_LOCALID=1"), 0);
    assert_int_equal(environment.rank, 3);
    assert_int_equal(environment.local_rank, 1);
    assert_int_equal(
        READ(&environment, -1, "OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=0"), 0);
    assert_int_equal(environment.rank, 2);
    assert_int_equal(environment.local_rank, 0);
    assert_int_equal(READ(&environment, -1, "PMI_RANK=1", "PMI_SIZE=2"), 0);
    assert_int_equal(environment.world_size, 2);
    /* One task of a scheduler is a shell: the user launches by hand. */
    assert_int_equal(READ(&environment, -1, "SLURM_PROCID=0", "SLURM_NTASKS=1"), 0);
    assert_null(environment.source);
    /* RANK outside, SLURM_* around: torchrun inside srun. */
    assert_int_equal(READ(&environment, -1, "RANK=1", "WORLD_SIZE=2", "SLURM_PROCID=0", "SLURM_NTASKS=4"), 0);
    assert_int_equal(environment.world_size, 2);
}

static void check_refused(const char *const *variables, const char *name)
{
    struct environment environment;
    assert_int_equal(read_with(&environment, variables, -1), EXIT_USAGE);
    assert_non_null(strstr(log_last_error(), name));
}
#define REFUSED(name, ...) check_refused((const char *const[]){__VA_ARGS__, NULL}, name)

static void refusals_name_variable_and_value(void **state)
{
    (void)state;
    REFUSED("RANK=4, but WORLD_SIZE=4", "RANK=4", "WORLD_SIZE=4");
    REFUSED("RANK=-1", "RANK=-1", "WORLD_SIZE=4");
    REFUSED("RANK=4x", "RANK=4x", "WORLD_SIZE=4");
    REFUSED("RANK= 1", "RANK= 1", "WORLD_SIZE=4");
    REFUSED("RANK=", "RANK=", "WORLD_SIZE=4");
    REFUSED("RANK=99999999999999999999", "RANK=99999999999999999999", "WORLD_SIZE=4");
    REFUSED("WORLD_SIZE=0", "RANK=0", "WORLD_SIZE=0");
    REFUSED("WORLD_SIZE=1000000000", "RANK=0", "WORLD_SIZE=1000000000");
    REFUSED("WORLD_SIZE", "RANK=0");
    REFUSED("LOCAL_RANK=-2", "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=-2");
    REFUSED("MASTER_PORT=70000", "RANK=0", "WORLD_SIZE=1", "MASTER_PORT=70000");
    REFUSED("MASTER_PORT=0", "RANK=0", "WORLD_SIZE=1", "MASTER_PORT=0");
    REFUSED(ENV_TOKEN, "RANK=0", "WORLD_SIZE=1", ENV_TOKEN "=0011");
    REFUSED(ENV_TOKEN, "RANK=0", "WORLD_SIZE=1", ENV_TOKEN "=000102030405060708090a0b0c0d0e0g");
}

static void a_token_is_taken_out_of_the_environment(void **state)
{
    (void)state;
    struct environment environment;
    assert_int_equal(READ(&environment, -1, "RANK=0", "WORLD_SIZE=1", ENV_TOKEN "=000102030405060708090a0b0c0d0e0f",
                          ENV_LISTEN_FD "=7"),
                     0);
    for (int i = 0; i < TOKEN_BYTES; i++)
        assert_int_equal(environment.token[i], i);
    assert_int_equal(environment.listen_fd, 7);
    assert_null(getenv(ENV_TOKEN));
    assert_null(getenv(ENV_LISTEN_FD));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_set_is_a_launcher),
        cmocka_unit_test(torchrun),
        cmocka_unit_test(schedulers),
        cmocka_unit_test(refusals_name_variable_and_value),
        cmocka_unit_test(a_token_is_taken_out_of_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
