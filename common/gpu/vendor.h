/* SPDX-License-Identifier: MIT
 *
 * What gpu.c and memory.c ask the backend they are compiled with. Inside the room only.
 */
#ifndef GPU_VENDOR_H
#define GPU_VENDOR_H

#include <stdbool.h>

#include "gpu.h"

/* The whole sentence behind the calling thread's last error; "" if the vendor has none beyond the error's string. */
const char *vendor_error_detail(void);

/* Is this an error of devices, driver or memory (EXIT_RESOURCE), not of our calls? */
bool vendor_is_resource_error(cudaError_t error);

#endif
