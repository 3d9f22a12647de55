/* SPDX-License-Identifier: MIT
 *
 * Where the training of this process stands, for the line that tells of its end. The engine says it for every strategy;
 * where a launcher looks on, the world passes it on (struct world, reach).
 */
#ifndef RUN_PLACE_H
#define RUN_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum progress_phase {
    PROGRESS_START, /* not yet at the rendezvous; single and dp: before a device is opened */
    PROGRESS_RENDEZVOUS,
    PROGRESS_OPEN,   /* device, model, first broadcast */
    PROGRESS_STEP,   /* enqueuing a step: `step` counts from 1, verification and warm-up included */
    PROGRESS_FINISH, /* waiting for the device */
    PROGRESS_EVALUATION,
    PROGRESS_CLOSE, /* training is over: saving, closing */
    PROGRESS_END,   /* about to leave with its exit code */
    PROGRESS_PHASES,
};

const char *progress_phase_name(enum progress_phase phase); /* "start", "rendezvous", ... */

/* The clock of the run starts. Once, before the others. */
void place_begin(void);
/* The number of the last step, once it is known. */
void place_set_last_step(uint64_t last);
/* Any thread may read while one writes: one store. */
void place_reach(enum progress_phase phase, uint64_t step);

/* "pid 4711 in step 17 of 43, phase finish, after 2.34 s"; the step is left out before the first one. */
void place_describe(char *text, size_t size);
/* The last line of a run that failed with this exit code after it had opened a device: the cause (log_last_error), the
 * place, the code. Nothing for a good end, and for one before that: the refusal stands alone. */
void place_tell_end(int status);

#endif
