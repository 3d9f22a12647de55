/* SPDX-License-Identifier: MIT
 *
 * The columns of results.csv in their order, for all who write rows of it: the sweep measured ones, the replay modelled
 * ones. docs/results.md derives each.
 */
#ifndef BENCH_RESULTS_COLUMNS_H
#define BENCH_RESULTS_COLUMNS_H

/* clang-format off */
#define RESULTS_COLUMNS \
    "schema", "run", "time", "host", "backend", "device", "clock", "machine", "strategy", "variant", "model", \
    "precision", "optimizer", "data", "gpus", "cores_per_device", "scaling", "global_batch", "batch_per_gpu", \
    "accumulate", "params", "rounds", "steps", "step_ms", "step_ms_mad", "step_ms_p95", "samples_per_s", \
    "samples_per_s_lo", "samples_per_s_hi", "speedup", "efficiency", "scatter_ms", "replicate_ms", "forward_ms", \
    "gather_ms", "loss_ms", "backward_ms", "reduce_ms", "allreduce_exposed_ms", "update_ms", "host_ms", \
    "wait_ms", "comm_hidden_ms", "overlap_saved_ms", "mem_peak_mib", "mem_device0_mib", "mem_median_others_mib", \
    "mem_imbalance", "util_mean", "util_device0", "comm_mib", "comm_mib_formula", "busiest_link_mib", \
    "comm_source", "loss_first", "loss_last", "checksum", "checksum_ref", "equal", "oversubscribed", "status", \
    "reason"
/* clang-format on */

#endif
