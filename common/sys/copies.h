/* SPDX-License-Identifier: MIT
 *
 * Is this process one of several that a launcher of ranks has started (mpirun, srun, torchrun)?
 */
#ifndef SYS_COPIES_H
#define SYS_COPIES_H

#include <stdbool.h>

/* The first of them on this machine speaks for all. A process that nobody has counted is the first. */
bool copies_first_here(void);

/* For a program that drives all devices by itself: started several times it would do its work several times and
 * measure the others' noise. EXIT_RESOURCE then; the first of them says so, and what to do: `instead`. */
int copies_refuse(const char *instead);

#endif
