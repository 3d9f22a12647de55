/* SPDX-License-Identifier: MIT
 *
 * Some updates of DDP (ranks as threads) and DP, small and varied enough to need every cudaStreamWaitEvent of the
 * trainers. Built for the thread sanitizer: tests/run/test_waits.py runs it once as it is, and once without each of the
 * waits.
 */
#include <stdio.h>

#include "ddp_multi_process/strategy.h"
#include "dp_single_process/dp.h"
#include "gpu/backend.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "training.h"

#define MAX_RANKS_HERE 4
#define MODEL "--model", "mlp", "--data", "digits", "--lr", "0.1"
#define WIDE MODEL, "--width", "512", "--depth", "3" /* several buckets */
#define RESNET "--model", "resnet20", "--data", "digits", "--width", "4", "--depth", "1", "--global-batch", "4", "--gpus", "2"
#define SMALL MODEL, "--width", "32", "--depth", "1"

static int train(const struct strategy *strategy, const char *const *arguments)
{
    struct training training;
    int codes[MAX_RANKS_HERE];
    int status = training_open(&training, strategy, arguments);
    training.steps = 3;
    if (!status)
        status = training_run(&training, codes);
    if (!status && training.different_ranks) {
        log_error("%d ranks have other parameters than rank 0", training.different_ranks);
        status = EXIT_CHECK_FAILED;
    }
    training_close(&training);
    return status;
}
#define DDP(...) train(&strategy_ddp, (const char *const[]){__VA_ARGS__, NULL})
#define DP(...) train(&strategy_dp, (const char *const[]){__VA_ARGS__, NULL})

static int train_all(void)
{
    TRY(DDP(WIDE, "--gpus", "2", "--global-batch", "8"));
    TRY(DDP(SMALL, "--gpus", "4", "--global-batch", "6", "--accumulate", "2"));
    TRY(DDP(SMALL, "--gpus", "2", "--global-batch", "8", "--no-overlap"));
    TRY(DDP(WIDE, "--gpus", "2", "--global-batch", "8", "--gradient-as-bucket-view"));
    TRY(DP(SMALL, "--gpus", "2", "--global-batch", "8"));
    TRY(DP(SMALL, "--gpus", "4", "--global-batch", "12", "--accumulate", "3", "--dp-transport", "p2p"));
    TRY(DP(SMALL, "--gpus", "2", "--global-batch", "8", "--dp-loss", "replica", "--output-device", "1"));
    TRY(DP(SMALL, "--gpus", "4", "--global-batch", "6", "--accumulate", "3", "--dp-loss", "replica-outputs", "--output-device",
           "3"));
    TRY(DP(SMALL, "--gpus", "4", "--global-batch", "3", "--precision", "fp16", "--output-device", "3"));
    TRY(DP(SMALL, "--gpus", "3", "--global-batch", "6", "--precision", "fp16", "--dp-loss", "replica"));
    TRY(DP(SMALL, "--gpus", "3", "--global-batch", "6", "--precision", "fp16", "--dp-loss", "replica", "--dp-transport",
           "p2p"));
    TRY(DDP(SMALL, "--gpus", "2", "--global-batch", "8", "--precision", "fp16", "--accumulate", "2"));
    TRY(DDP(RESNET));
    TRY(DDP(RESNET, "--sync-bn"));
    TRY(DP(RESNET, "--dp-transport", "p2p"));
    return EXIT_OK;
}

int main(void)
{
    const struct gpu_settings settings = {
        .cores_per_device = 1, .devices_used = MAX_RANKS_HERE, .collective_limit_s = 60};
    log_set_quiet(true);
    int status = gpu_configure(&settings);
    if (!status)
        status = train_all();
    if (!status)
        puts("trained");
    return status;
}
