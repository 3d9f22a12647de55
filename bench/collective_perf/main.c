/* SPDX-License-Identifier: MIT
 *
 * collective-perf: see perf.h.
 */
#include "perf.h"

#include "gpu/backend.h"
#include "sys/copies.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "sys/topology.h"

static int check_devices(const struct perf_options *options)
{
    int devices;
    TRY(gpu_device_count(&devices));
    if (options->ranks <= devices)
        return EXIT_OK;
    log_error("--ranks %d: there are %d %s devices, and each rank needs one", options->ranks, devices,
              gpu_backend_name());
    return EXIT_RESOURCE;
}

int main(int argc, char **argv)
{
    struct perf_options options;
    uint64_t wrong = 0;
    log_set_program("collective-perf");
    int status = perf_options_parse(argc, argv, &options);
    if (status)
        return status < 0 ? EXIT_OK : status;
    TRY(copies_refuse("without mpirun, and say --ranks"));
    log_note();
    TRY(gpu_configure(&(struct gpu_settings){.devices_used = options.ranks}));
    TRY(check_devices(&options));
    if (options.ranks > topology_usable_cores() && gpu_backend_name()[0] == 's')
        log_warning("%d ranks on %d core%s: the times say little", options.ranks, topology_usable_cores(),
                    topology_usable_cores() == 1 ? "" : "s");
    TRY(report_open(&options));
    status = perf_run_ranks(&options, &wrong);
    if (status)
        return status;
    TRY(report_close(&options, wrong));
    return wrong ? EXIT_CHECK_FAILED : EXIT_OK;
}
