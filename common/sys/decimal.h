/* SPDX-License-Identifier: MIT
 *
 * Real numbers of a command line.
 */
#ifndef SYS_DECIMAL_H
#define SYS_DECIMAL_H

#include <stdbool.h>

/* *value := the number that the whole text is: decimal and finite ("0.5", ".5", "5e-1", no sign before it). False for
 * all else that strtod knows ("0x1p3", "inf", "nan", " 4", "-1") and for NULL; the C locale, which none of our programs
 * leaves. */
bool decimal_read(const char *text, double *value);

#endif
