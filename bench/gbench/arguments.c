/* SPDX-License-Identifier: MIT */
#include "arguments.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "sys/decimal.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

int arguments_whole(const char *option, const char *text, int most, int *value)
{
    double number = 0;
    if (!decimal_read(text, &number) || number < 1 || number > most || number > floor(number)) {
        log_error("%s %s: expected a whole number from 1 to %d", option, text, most);
        return EXIT_USAGE;
    }
    *value = (int)number;
    return EXIT_OK;
}

bool arguments_told(int argc, char **argv, const char *program, const char *usage)
{
    if (argc != 2)
        return false;
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        fputs(usage, stdout);
    else if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
        printf("%s %s\n", program, PROJECT_VERSION);
    else
        return false;
    return true;
}

int arguments_refuse(const char *argument, const char *program)
{
    log_error("%s: unknown or without a value (see %s --help)", argument, program);
    return EXIT_USAGE;
}
