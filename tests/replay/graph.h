/* SPDX-License-Identifier: MIT
 *
 * Small programs and a small machine, made by hand, so that every time can be worked out on paper.
 */
#ifndef TESTS_REPLAY_GRAPH_H
#define TESTS_REPLAY_GRAPH_H

#include "play.h"

/* One node: 1 byte of memory a ns, links of 1 byte a ns after 100 ns, launches 10 ns, nothing else costs anything. */
void graph_machine(struct machine *machine, int devices);

void graph_open(struct program *program, int devices, int streams, const int *stream_devices);
void graph_close(struct program *program);

/* What follows is done by this thread; a new one begins at time 0. */
void graph_thread(struct program *program, int thread);
/* OP_GIVE, OP_BEGIN, OP_END or OP_JOIN of the only job. */
void graph_job(struct program *program, enum operation_kind kind);

/* Enqueues on a stream. */
void graph_kernel(struct program *program, int stream, double bytes);
void graph_copy(struct program *program, int stream, int from, int to, double bytes);
uint32_t graph_event(struct program *program, int stream, uint8_t mark);
void graph_wait(struct program *program, int stream, uint32_t event);
/* Rank `rank` of `ranks`, the sequence-th of the communicator: the others stand in other streams or programs. */
void graph_all_reduce(struct program *program, int stream, int rank, int ranks, uint64_t sequence, double bytes);
/* The thread works so long by itself, in the record. */
void graph_work(struct program *program, int64_t ns);
/* The thread waits for all of a stream's tasks so far, or for an event; a step begins or ends. */
void graph_sync(struct program *program, int stream);
void graph_sync_event(struct program *program, uint32_t event);
void graph_step(struct program *program, bool begin);

#define NS INT64_C(1000)

#endif
