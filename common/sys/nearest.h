/* SPDX-License-Identifier: MIT
 *
 * "Did you mean ...?": the known name that is nearest to what was typed.
 */
#ifndef SYS_NEAREST_H
#define SYS_NEAREST_H

#include <stddef.h>

/* The name with the fewest insertions, deletions, replacements and swaps of neighbours away from `typed`; NULL if none
 * is nearer than half of typed's length (such a guess would mislead). Names of up to 63 bytes are considered. */
const char *nearest_name(const char *typed, const char *const *names, size_t count);

#endif
