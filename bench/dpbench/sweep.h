/* SPDX-License-Identifier: MIT
 *
 * The sweep: every cell in interleaved rounds, a fresh process each, and what is left on the disk at every moment.
 */
#ifndef DPBENCH_SWEEP_H
#define DPBENCH_SWEEP_H

#include "settings.h"

/* Runs the whole sweep into settings->out:
 *   plan.txt                  what the folder was begun with; --resume refuses another plan
 *   runs/ID.rN.jsonl          a trainer's lines and the sweep's own last one; runs/ID.log its messages
 *   *.csv, results.json       rewritten whole after each group; finished rows never change
 *   *.svg, *.png, report.html at the end
 * 0; EXIT_CHECK_FAILED: a cell failed or is not equal; EXIT_USAGE: the folder holds another sweep; EXIT_RESOURCE: the
 * devices, the folder or the disk, before anything is measured; settings->device and gpus become what answers; 128 +
 * signal: interrupted. */
int sweep_run(struct settings *settings);

#endif
