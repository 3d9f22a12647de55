/* SPDX-License-Identifier: MIT
 *
 * Where each rank is: a page of shared memory that the launcher makes and the ranks write, so that the launcher can say
 * in which phase and step a rank died. Telling it costs one store. The same calls are the points at which DPBENCH_FAULT
 * makes a rank fail (rank_fault.h).
 */
#ifndef DDP_PROGRESS_H
#define DDP_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "run/place.h"

/* The launcher makes the page (a memfd; *fd is close-on-exec), a rank attaches what it inherited (closes fd). 0, or
 * EXIT_RESOURCE (reported). Both at most once a process; a process that has no page tells nobody. */
int progress_create(int ranks, int *fd);
int progress_attach(int fd, int ranks);

/* This rank has come to this phase and step. */
void progress_reach(int rank, enum progress_phase phase, uint64_t step);

/* Rank 0 has written a report that tells of this exit code. Is there one that tells of a failure? Without a page: no.
 */
void progress_set_reported(int status);
bool progress_failure_reported(void);

/* A rank is about to leave because another one (-1: none) has left, or because its own device never finished (itself).
 * Whom does it name? -1: nobody. */
void progress_blame(int rank, int left);
int progress_blamed(int rank);

/* Where a rank is. Without a page: start. */
enum progress_phase progress_read(int rank, uint64_t *step);

#endif
