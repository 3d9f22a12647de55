/* SPDX-License-Identifier: MIT
 *
 * What the command lines of floor-VENDOR and model-floor-soft have in common.
 */
#ifndef BENCH_ARGUMENTS_H
#define BENCH_ARGUMENTS_H

#include <stdbool.h>

/* *value := the whole number from 1 to `most` that the text is. 0, or EXIT_USAGE (reported with the option's name). */
int arguments_whole(const char *option, const char *text, int most, int *value);

/* --help (-h) or --version (-V) as the only argument: answered on stdout, the program ends well. */
bool arguments_told(int argc, char **argv, const char *program, const char *usage);

/* An argument that the program does not know, or whose value is missing: EXIT_USAGE (reported). */
int arguments_refuse(const char *argument, const char *program);

#endif
