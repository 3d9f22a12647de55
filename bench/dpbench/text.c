/* SPDX-License-Identifier: MIT
 *
 * Growing text on top of open_memstream (text.h).
 */
#include "text.h"

#include <stdarg.h>
#include <stdlib.h>

#include "sys/exit_codes.h"
#include "sys/log.h"

void *text_must(void *pointer)
{
    if (!pointer) {
        log_error("no memory left");
        exit(EXIT_RESOURCE);
    }
    return pointer;
}

void text_open(struct text *text)
{
    text->data = NULL;
    text->size = 0;
    text->out = text_must(open_memstream(&text->data, &text->size));
}

void text_close(struct text *text)
{
    if (fclose(text->out))
        text->data = NULL;
    text->out = NULL;
    text_must(text->data);
}

char *text_format(const char *format, ...)
{
    va_list arguments;
    char *text = NULL;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    va_end(arguments);
    return text_must(text);
}

void text_html(FILE *out, const char *plain)
{
    for (; *plain; plain++) {
        switch (*plain) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            putc(*plain, out);
        }
    }
}
