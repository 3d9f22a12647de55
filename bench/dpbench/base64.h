/* SPDX-License-Identifier: MIT
 *
 * Base64 (RFC 4648) for data URIs: the report is one file.
 */
#ifndef DPBENCH_BASE64_H
#define DPBENCH_BASE64_H

#include <stddef.h>
#include <stdio.h>

void base64_print(FILE *out, const unsigned char *data, size_t bytes);

#endif
