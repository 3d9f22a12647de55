/* SPDX-License-Identifier: MIT
 *
 * One replay after the other of small programs, on one machine that each test may change: what the tests against times
 * worked out on paper share.
 */
#ifndef TESTS_REPLAY_PAPER_H
#define TESTS_REPLAY_PAPER_H

#include "graph.h"

extern struct machine machine;
extern struct play_options options;
extern struct play_result result; /* of play_one; the test closes it */

/* graph_machine and the default options; 0. */
int paper_set_up(int devices);

/* Plays it; fails the test if that fails or if engines and links are not busy or idle all the time. */
void play_one(const struct program *program);

#endif
