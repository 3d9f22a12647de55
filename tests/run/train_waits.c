/* SPDX-License-Identifier: MIT
 *
 * Trains with dp in every way that uses another set of waits between streams. For test_waits.py: under the thread
 * sanitizer, with one wait left out, one of these must be reported.
 */
#include <stddef.h>
#include <stdio.h>

#include "dp_single_process/dp.h"
#include "harness.h"
#include "sys/log.h"

static const char *const lines[] = {
    "--data digits --width 16 --depth 1 --gpus 3 --global-batch 12 --dp-transport p2p --accumulate 2",
    "--data digits --width 16 --depth 1 --gpus 3 --global-batch 12 --dp-transport nccl --dp-loss replica",
    "--data digits --width 16 --depth 1 --gpus 4 --global-batch 3 --dp-transport nccl --output-device 3",
    "--inputs 20 --width 16 --depth 1 --gpus 3 --global-batch 12 --dp-transport p2p",
    "--inputs 20 --width 16 --depth 1 --gpus 4 --global-batch 6 --accumulate 3 --dp-loss replica-outputs --output-device 3",
    "--inputs 20 --width 16 --depth 1 --gpus 3 --global-batch 12 --dp-transport nccl --dp-loss replica --accumulate 2",
    "--inputs 20 --width 16 --depth 1 --gpus 4 --global-batch 3 --dp-transport nccl --output-device 3 --precision fp16",
};

int main(void)
{
    log_set_program("train_waits");
    log_set_quiet(true);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct outcome outcome;
        int status = harness_run(&strategy_dp, lines[i], 3, &outcome);
        if (status) {
            fprintf(stderr, "'%s' ended with %d\n", lines[i], status);
            return status;
        }
        outcome_free(&outcome);
    }
    return 0;
}
