/* SPDX-License-Identifier: MIT
 *
 * Edit distance with swaps of neighbours (optimal string alignment), three rows at a time.
 */
#include "sys/nearest.h"

#include <string.h>

#define LONGEST 63

static size_t smallest(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t distance(const char *a, const char *b)
{
    size_t rows[3][LONGEST + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    size_t length_a = strlen(a), length_b = strlen(b);

    for (size_t j = 0; j <= length_b; j++)
        above[j] = j;
    for (size_t i = 1; i <= length_a; i++) {
        row[0] = i;
        for (size_t j = 1; j <= length_b; j++) {
            row[j] = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = smallest(row[j], smallest(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = smallest(row[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[length_b];
}

const char *nearest_name(const char *typed, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    size_t length = strlen(typed), best = (length + 1) / 2;

    if (length > LONGEST)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        if (strlen(names[i]) > LONGEST)
            continue;
        size_t d = distance(typed, names[i]);
        if (d < best) {
            best = d;
            nearest = names[i];
        }
    }
    return nearest;
}
