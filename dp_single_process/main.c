/* SPDX-License-Identifier: MIT
 *
 * dp-train-soft and dp-train-cuda: DataParallel, or with --strategy single the one device it is compared with.
 */
#include <string.h>

#include "dp.h"
#include "interrupt.h"
#include "sys/copies.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

int main(int argc, char **argv)
{
    static struct options options; /* the watcher of signals reads it to the end */
    struct world world = world_alone();

    log_set_program("dp-train");
    int status = options_parse(&options, "dp-train", argc, argv);
    if (status)
        return status < 0 ? EXIT_OK : status;
    const struct strategy *strategy = !strcmp(options.strategy, "single") ? &strategy_single : &strategy_dp;
    place_begin();
    TRY(interrupt_watch(strategy, &options));
    TRY(engine_configure(&options, options.gpus));
    if (options.device_count)
        return engine_print_device_count();
    TRY(copies_refuse("without mpirun, or start ddp-train"));
    log_note();
    status = engine_run(strategy, &options, &world);
    place_tell_end(status);
    engine_leave(status);
}
