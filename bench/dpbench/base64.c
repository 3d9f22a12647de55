/* SPDX-License-Identifier: MIT
 *
 * See base64.h.
 */
#include "base64.h"

#include <stdint.h>

void base64_print(FILE *out, const unsigned char *data, size_t bytes)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes; i += 3) {
        size_t left = bytes - i;
        uint32_t three =
            (uint32_t)data[i] << 16 | (left > 1 ? (uint32_t)data[i + 1] << 8 : 0) | (left > 2 ? data[i + 2] : 0U);
        putc(alphabet[three >> 18], out);
        putc(alphabet[three >> 12 & 63], out);
        putc(left > 1 ? alphabet[three >> 6 & 63] : '=', out);
        putc(left > 2 ? alphabet[three & 63] : '=', out);
    }
}
