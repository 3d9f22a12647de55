/* SPDX-License-Identifier: MIT
 *
 * Which devices answer, asked once before a sweep begins.
 */
#ifndef DPBENCH_DEVICE_H
#define DPBENCH_DEVICE_H

#include "settings.h"

/* Asks a trainer how many devices there are (--device-count). `auto` becomes cuda or soft, for the whole sweep; the
 * default numbers of devices are cut at what is there. 0; EXIT_RESOURCE (reported): none answers, or --gpus asks for
 * more than there are; 128 + signal: interrupted. */
int device_choose(struct settings *settings);

#endif
