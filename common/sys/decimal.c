/* SPDX-License-Identifier: MIT
 *
 * See decimal.h.
 */
#include "decimal.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool decimal_read(const char *text, double *value)
{
    char *end = NULL;

    if (!text || !(isdigit((unsigned char)text[0]) || text[0] == '.') || text[strspn(text, "0123456789.eE+-")] != '\0')
        return false;
    *value = strtod(text, &end);
    return *end == '\0' && isfinite(*value);
}
