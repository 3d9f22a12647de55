/* SPDX-License-Identifier: MIT
 *
 * What the two vendors do not share under one CUDA name: settings, clocks, busy time, cores, counted traffic.
 * backend_soft.c and backend_cuda.c each fill this header once.
 */
#ifndef GPU_BACKEND_H
#define GPU_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu.h"

struct gpu_settings {
    size_t device_memory;       /* bytes a device may hold; 0: all. Kept by memory.c on CUDA, by the device on soft */
    int cores_per_device;       /* soft only; 0: max(1, usable cores / devices used) */
    int devices_used;           /* devices of the node in use, for the default above */
    double collective_limit_s;  /* deadline of each collective; soft: of a device that ends no task, too */
    const char *record_path;    /* soft only; on CUDA: reported and refused with exit code 3 */
    bool shape_only;            /* soft only, likewise */
};

const char *gpu_backend_name(void);  /* "soft" or "cuda": the backend column of every row */

/* Once per process, before the first CUDA call. Returns 0 or an exit code (reported). */
int gpu_configure(const struct gpu_settings *settings);

/* False under --shape-only: work is enqueued and recorded, memory is counted, and nothing is computed or touched. */
bool gpu_executes(void);

/* Devices that can be used. If there is none: one plain line and exit code 3 (EXIT_RESOURCE). */
int gpu_device_count(int *count);

/* The device's model name, and the cores it is bound to as read back ("" on CUDA). Buffers of the caller. */
int gpu_device_describe(int device, char *name, size_t name_size, char *cores, size_t cores_size);

/* Host seconds (clock_seconds) at which a completed event happened. On CUDA the event must be one of the current
 * device's, and the time is exact relative to its gpu_clock_anchor. */
int gpu_event_time(cudaEvent_t event, double *seconds);

/* Ties the device's clock to the host's; call when the stream is idle (CUDA records an event; soft does nothing). */
int gpu_clock_anchor(int device, cudaStream_t stream);

/* Busy seconds of the device's compute engine so far; NAN where the backend can't tell (CUDA without CUPTI). */
double gpu_busy_seconds(int device);

/* Bytes moved by this process since the last reset, by range and ordered pair (see softTrafficVisit). On CUDA copies
 * are not visible here: returns false and the ledger is `derived`. */
typedef void gpu_traffic_visitor(void *context, const char *range, int from, int to, uint64_t bytes);
bool gpu_traffic_visit(gpu_traffic_visitor *visit, void *context);
void gpu_traffic_reset(void);

/* Waits until the stream is idle; comm may be NULL. On CUDA at most limit_s, by polling (NCCL has no limit of its own).
 * On soft, where a step of a large model may take minutes, until no stream of the process has ended a task, or a block
 * of a launch, for collective_limit_s; every wait of the host keeps that limit, and so does each collective. A collective that failed or
 * outlived the limit is reported with the ranks it names: EXIT_TIME_LIMIT for the limit, EXIT_CHECK_FAILED else; the
 * communicator's owner then ends it by ncclCommAbort. */
int gpu_stream_finish(cudaStream_t stream, ncclComm_t comm, double limit_s);

/* Was it a device of this process that outlived the limit, and not a collective that waited for another one's? False
 * where the backend can't tell (CUDA). */
bool gpu_device_is_lost(void);

/* For the tests of failures: what is enqueued behind this never runs. */
int gpu_stall(cudaStream_t stream);

/* For the record, if there is one (CUDA: nothing). A note says where the program stands and belongs to the task that the
 * thread enqueued last; docs/record.md lists them. A setting says what the run is. */
void gpu_record_note(const char *what, const char *text, uint32_t number);
void gpu_record_setting(const char *name, const char *value);

/* Writes out the record (if asked for) at the end of the run. */
int gpu_finish(void);

#endif
