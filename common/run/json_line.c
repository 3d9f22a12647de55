/* SPDX-License-Identifier: MIT
 *
 * See json_line.h. Numbers are printed in the C locale, with as many digits as a double holds.
 */
#include "run/json_line.h"

#include <inttypes.h>
#include <math.h>

void json_quote(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(out, "\\u%04x", *c);
        else
            fputc(*c, out);
    }
    fputc('"', out);
}

static void name_member(FILE *out, const char *name)
{
    fputs(", ", out);
    json_quote(out, name);
    fputs(": ", out);
}

void json_begin(FILE *out, const char *type)
{
    fputs("{\"type\": ", out);
    json_quote(out, type);
}

void json_text(FILE *out, const char *name, const char *value)
{
    name_member(out, name);
    if (value)
        json_quote(out, value);
    else
        fputs("null", out);
}

void json_number(FILE *out, const char *name, double value)
{
    name_member(out, name);
    if (isfinite(value))
        fprintf(out, "%.15g", value);
    else
        fputs("null", out);
}

void json_integer(FILE *out, const char *name, int64_t value)
{
    name_member(out, name);
    fprintf(out, "%" PRId64, value);
}

void json_unsigned(FILE *out, const char *name, uint64_t value)
{
    name_member(out, name);
    fprintf(out, "%" PRIu64, value);
}

void json_end(FILE *out)
{
    fputs("}\n", out);
}
