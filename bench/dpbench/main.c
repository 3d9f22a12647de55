/* SPDX-License-Identifier: MIT
 *
 * dpbench: sweeps over strategies and numbers of devices, and makes the report. bench/run.sh is its usual caller.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "process.h"
#include "report.h"
#include "sweep.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "text.h"

static const char help[] = "Usage: dpbench sweep [OPTION]...   measure, prove, plot, report (dpbench sweep --help)\n"
                           "       dpbench report DIR [PLOTS]  plots and report again from DIR's CSV files\n"
                           "       dpbench --version\n";

/* The folder of this very program; the caller frees. */
static char *own_folder(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
    return text_format("%s", slash ? path : ".");
}

static int sweep(int argc, char **argv)
{
    struct settings settings;
    int rc = settings_parse(&settings, argc, argv);
    if (rc)
        return rc < 0 ? EXIT_OK : rc;
    char *folder = own_folder();
    char *fresh = text_format("%s/%s", settings.results, settings.run_id);
    char *beside = text_format("%s/..", folder); /* the build folder's root holds the trainers, bench/ holds dpbench */
    if (!settings.programs)
        settings.programs = beside;
    if (!settings.plots)
        settings.plots = PLOTS_FOLDER;
    if (!settings.out)
        settings.out = fresh;
    rc = process_open();
    if (!rc)
        rc = sweep_run(&settings);
    free(beside);
    free(fresh);
    free(folder);
    return rc;
}

int main(int argc, char **argv)
{
    log_set_program("dpbench");
    if (argc >= 2 && text_is(argv[1], "sweep"))
        return sweep(argc - 1, argv + 1);
    if ((argc == 3 || argc == 4) && text_is(argv[1], "report"))
        return report_make(argv[2], argc == 4 ? argv[3] : PLOTS_FOLDER);
    if (argc == 2 && text_is(argv[1], "--version"))
        return printf("dpbench %s\n", PROJECT_VERSION) < 0;
    if (argc == 2 && text_is(argv[1], "--help"))
        return fputs(help, stdout) < 0;
    fputs(help, stderr);
    return EXIT_USAGE;
}
