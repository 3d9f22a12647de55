/* SPDX-License-Identifier: MIT
 *
 * Ranks on a stage: the same body as threads of one process or as processes. The test program itself never opens a
 * device, so it can fork: each world runs in children of its own, and what they leave behind is theirs.
 */
#ifndef TESTS_COLLECTIVE_STAGE_H
#define TESTS_COLLECTIVE_STAGE_H

#include "softgpu/softgpu.h"

#define STAGE_MAX_RANKS 16
#define STAGE_TEXT 600
#define STAGE_PINNED_BYTES (8u << 20)

enum stage_mode { STAGE_THREADS, STAGE_PROCESSES };

/* What a rank tells the test. */
struct outcome {
    int code;              /* the body's value; -1: it never returned */
    int status;            /* processes: as waitpid gives it; threads: their process's */
    double seconds;        /* of the body */
    char text[STAGE_TEXT]; /* an error's sentence, or where a check failed */
    uint64_t value[4];
};

struct rank {
    int rank, ranks;
    enum stage_mode mode;
    softNcclUniqueId id; /* the same on all */
    softNcclComm_t comm; /* joined, unless the stage says otherwise */
    softStream_t stream;
    struct outcome *out; /* shared with the test */
    uint32_t *marks;     /* a few words shared by all ranks and the test */
    const void *argument;
    void *pinned; /* for upload and download; goes with the process */
};

typedef int rank_body(struct rank *rank);

struct stage {
    enum stage_mode mode;
    int ranks;
    double limit_s; /* of a collective; 0: 60 s */
    bool alone;     /* don't join: the body does */
    rank_body *body;
    const void *argument;
    /* Runs in the test while the ranks play; NULL: only waits. processes[rank]: their ids (threads: one id). */
    void (*meanwhile)(const struct stage *stage, const int *processes, uint32_t *marks);
};

/* Plays and waits for all; a stage that lasts over 100 s is killed. out[ranks]. */
void stage_play(const struct stage *stage, struct outcome *out);

/* Plays, and fails the running test with a rank's own words if a rank did not end with 0. */
void stage_expect_success(const struct stage *stage, struct outcome *out);

/* In a body: ends it with code 1, file, line and the sentences of the last errors, if a call fails or a condition is
 * false. */
#define NEED(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return stage_failed(rank, __FILE__, __LINE__, #condition);                                                 \
    } while (0)
#define NEED_SOFT(call) NEED((call) == softSuccess)
#define NEED_NCCL(call) NEED((call) == softNcclSuccess)
int stage_failed(struct rank *rank, const char *file, int line, const char *what);

/* Marks: words that the ranks and the test share. Waiting for one ends with the stage's limit. */
void mark_set(uint32_t *mark, uint32_t value);
void mark_add(uint32_t *mark, uint32_t n);
void mark_await(const uint32_t *mark, uint32_t at_least);

/* Device memory and its content, on the current device. */
int device_buffer(struct rank *rank, void **buffer, size_t bytes);
int upload(struct rank *rank, void *to, const void *from, size_t bytes);
int download(struct rank *rank, void *to, const void *from, size_t bytes);

double seconds_now(void);

#endif
