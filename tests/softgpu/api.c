/* SPDX-License-Identifier: MIT
 *
 * Compiled once a vendor: api_names.h against its headers. The program counts the names and looks that each is linked.
 */
#include <stdio.h>

#include "gpu/gpu.h"

#define API(result, name, parameters) static result(*const check_##name) parameters = name;
#define NUMBER(name, value) _Static_assert((name) == (value), #name " has another number");
#include "api_names.h"
#undef API
#undef NUMBER

int main(void)
{
    int names = 0, missing = 0;
#define API(result, name, parameters)                                                                                  \
    names++;                                                                                                           \
    missing += check_##name == NULL;
#define NUMBER(name, value)
#include "api_names.h"
    printf("%s: %d functions, %d missing\n", GPU_VENDOR_NAME, names, missing);
    return missing > 0 || names < 50;
}
