/* SPDX-License-Identifier: MIT
 *
 * Two files of gradients, tensor by tensor (compare.h).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compare.h"
#include "data/tensors.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

static bool same_shape(const struct tensor_view *a, const struct tensor_view *b)
{
    return a->dims == b->dims && a->count == b->count &&
           !memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape);
}

static int worst_tensor(const struct tensor_file *file, const struct tensor_file *reference, const char *path,
                        double *worst, char *tensor, size_t tensor_size)
{
    *worst = 0;
    if (file->count != reference->count) {
        log_error("%s: %zu tensors, expected %zu", path, file->count, reference->count);
        return EXIT_BAD_FILE;
    }
    for (size_t i = 0; i < reference->count; i++) {
        const struct tensor_view *expected = &reference->views[i], *found = tensors_find(file, expected->name);
        if (!found || !same_shape(found, expected)) {
            log_error("%s: tensor '%s' %s", path, expected->name, found ? "has another shape" : "is missing");
            return EXIT_BAD_FILE;
        }
        double difference = tensor_difference(found->data, expected->data, expected->count);
        if (isnan(difference))
            difference = INFINITY;
        if (i == 0 || difference > *worst) {
            *worst = difference;
            snprintf(tensor, tensor_size, "%s", expected->name);
        }
    }
    return EXIT_OK;
}

int compare_gradients(const char *path, const char *path_reference, double *worst, char *tensor, size_t tensor_size)
{
    struct tensor_file file = {0}, reference = {0};
    int rc = tensors_read(path, &file);
    if (!rc)
        rc = tensors_read(path_reference, &reference);
    if (!rc)
        rc = worst_tensor(&file, &reference, path, worst, tensor, tensor_size);
    tensors_close(&reference);
    tensors_close(&file);
    return rc;
}
