/* SPDX-License-Identifier: MIT
 *
 * The folder of a sweep: is it ours, can it be written, is there room? All asked before the first measurement.
 */
#ifndef DPBENCH_FOLDER_H
#define DPBENCH_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "settings.h"

bool folder_has(const char *folder, const char *name);

/* dp-train and ddp-train are there and can be executed. EXIT_RESOURCE otherwise (reported). */
int folder_check_programs(const struct settings *settings);

/* Makes the folder (and its parents) and locks it against a second sweep, until the process ends. Writes plan.txt with
 * run_id, or with `resume` checks that the one found says `plan` and takes over its run_id. Then allocates and
 * frees bytes_needed on its disk. EXIT_USAGE: it holds a sweep and resume is not asked for, or one of another plan, or
 * runs without any; EXIT_RESOURCE: not a folder, not writable, in use, or no room (all reported). */
int folder_open(const char *folder, bool resume, const char *plan, size_t bytes_needed, char *run_id,
                size_t run_id_size);

#endif
