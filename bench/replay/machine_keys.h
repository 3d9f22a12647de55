/* SPDX-License-Identifier: MIT
 *
 * What stands in a machine file: between machine.c (lines) and machine_keys.c (keys).
 */
#ifndef REPLAY_MACHINE_KEYS_H
#define REPLAY_MACHINE_KEYS_H

#include "machine.h"

struct machine_line {
    const char *path, *section;
    char *key, *value;
    int number;
};

/* Says what is wrong with the line's value; EXIT_USAGE. */
int machine_wrong(const struct machine_line *line, const char *found, const char *allowed);

int machine_key(struct machine *machine, struct machine_line *line);

/* After the last line: is all there that a replay needs? */
int machine_complete(struct machine *machine, const char *path);

#endif
