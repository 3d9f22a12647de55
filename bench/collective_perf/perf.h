/* SPDX-License-Identifier: MIT
 *
 * collective-perf: the time of collectives, with nccl-tests' options and columns, and its way of working: one engine
 * owns warm-up, timing, check and output; a collective is a small table of functions.
 *
 *   options.c      the command line
 *   operations.c   the table: what each collective calls, its buffers, its bandwidths
 *   verify.c       inputs whose result is exact in any order, and the count of wrong elements
 *   measure.c      the engine: what one rank does
 *   ranks.c        ranks as threads or processes, and the board through which they meet
 *   report.c       the table on the screen, the lines of --json
 */
#ifndef COLLECTIVE_PERF_H
#define COLLECTIVE_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/gpu.h"

#define PERF_MAX_RANKS 64

enum perf_mode { PERF_THREADS, PERF_PROCESSES };

struct operation;

struct perf_options {
    const struct operation *operation;
    int ranks;
    enum perf_mode mode;
    size_t smallest, largest; /* bytes: -b, -e */
    size_t factor, step;      /* -f: sizes are multiplied; -i: or grow by so many bytes */
    int iterations, warmup;   /* -n, -w: calls a measurement, calls before it */
    size_t pool;              /* --pool: bytes that the calls' buffers go through; 0: each call finds those of the last */
    int rounds;               /* the best of so many measurements is reported (1: nccl-tests' way) */
    bool check;               /* -c */
    ncclDataType_t type;      /* -d */
    ncclRedOp_t op;           /* -o */
    int root;                 /* -r */
    const char *json;         /* NULL: none */
};

/* 0; EXIT_USAGE after a message; -1 after --help or --version, which were printed. */
int perf_options_parse(int argc, char **argv, struct perf_options *options);

/* ---- operations -------------------------------------------------------------------------------------------------- */

/* One collective. `bytes` is nccl-tests' size: of the larger of a rank's two buffers. */
struct operation {
    const char *name;
    bool reduces, rooted;
    bool gathers, scatters; /* the output, or the input, is `ranks` pieces of `count` elements */
    ncclResult_t (*call)(const void *send, void *receive, size_t count, const struct perf_options *options,
                         ncclComm_t comm, cudaStream_t stream);
};

const struct operation *operation_find(const char *name); /* NULL: there is none */
const char *const *operation_names(size_t *count);
const char *perf_type_name(ncclDataType_t type); /* "float" ..., as nccl-tests' users know them */
const char *perf_op_name(ncclRedOp_t op);
bool perf_type_find(const char *name, ncclDataType_t *type);
bool perf_op_find(const char *name, ncclRedOp_t *op);
size_t perf_type_bytes(ncclDataType_t type);

/* Elements that are handed to the call for a size; the size that this really is. */
size_t operation_count(const struct perf_options *options, size_t bytes);
size_t operation_bytes(const struct perf_options *options, size_t count);

/* busbw / algbw (nccl-tests, doc/PERFORMANCE.md): what the slowest link carries, as a share of the size. NAN for one
 * rank. */
double operation_bus_factor(const struct operation *operation, int ranks);

/* ---- verification ------------------------------------------------------------------------------------------------ */

/* Fills the host copies of a rank's input and of the output that it must get. */
void verify_input(void *to, const struct perf_options *options, int rank, size_t count);
void verify_expected(void *to, const struct perf_options *options, int rank, size_t count);
/* Elements whose bits differ (a NaN's do: no expected value is one). */
uint64_t verify_wrong(const void *found, const void *expected, size_t elements, size_t element_bytes);

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

/* What one measurement of one size came to. us is the mean over ranks, as in nccl-tests. */
struct measurement {
    bool in_place;
    double us;
    uint64_t wrong; /* over all ranks */
};

struct board; /* shared by all ranks */

struct perf_rank {
    int rank;
    const struct perf_options *options;
    struct board *board;
    int device;
    cudaStream_t stream;
    ncclComm_t comm;
    unsigned char *send, *receive;  /* device */
    size_t next;                    /* where in them the next call's buffers lie */
    unsigned char *host, *expected; /* host: pinned, plain */
};

/* What the engine does on one rank. Returns 0 or an exit code (reported). */
int perf_run_rank(struct perf_rank *rank);

/* All ranks of the options, each through perf_run_rank; in processes mode a rank that dies ends the others. Returns the
 * exit code; *wrong := wrong elements of the run. */
int perf_run_ranks(const struct perf_options *options, uint64_t *wrong);

/* A meeting of all ranks on the host; EXIT_CHECK_FAILED if one has failed. */
int board_meet(struct board *board, int ranks);
void board_fail(struct board *board);
/* The id, made by rank 0 and seen by all after the next meeting. */
ncclUniqueId *board_id(struct board *board);
/* Every rank's figures, valid on all ranks until the second meeting after: sums over ranks. */
int board_sum(struct board *board, const struct perf_rank *rank, double us, uint64_t wrong, struct measurement *sum);
void board_describe(struct board *board, int rank, int device, const char *name, const char *cores);
void board_add_wrong(struct board *board, uint64_t wrong);

/* ---- report ------------------------------------------------------------------------------------------------------ */

struct rank_facts {
    int process, device;
    char name[96], cores[96];
};

int report_open(const struct perf_options *options); /* creates the --json file; EXIT_RESOURCE (reported) */
void report_header(const struct perf_options *options, const struct rank_facts *facts);
/* Both measurements of a size: out of place and in place. */
void report_size(const struct perf_options *options, size_t count, const struct measurement both[2]);
int report_close(const struct perf_options *options, uint64_t wrong);

const struct rank_facts *board_facts(const struct board *board);

#endif
