/* SPDX-License-Identifier: MIT */
#include "hashed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

void hashed_fill(struct trial *trial, size_t batch, float size)
{
    const struct model *model = &trial->model;
    size_t places = batch * model->input_count;
    char *flat = calloc(1, model->flat_bytes);
    int32_t *tokens = calloc(2 * places, sizeof *tokens), *labels = tokens + places;

    assert_non_null(flat);
    assert_non_null(tokens);
    for (int i = 0; i < model->parameter_count; i++)
        for (size_t j = 0; j < model->parameters[i].count; j++)
            flat_parameter(model, flat, i)[j] = hashed_parameter(model, i, j, size);
    for (size_t i = 0; i < places; i++) {
        tokens[i] = hashed_token(0, i, model->classes);
        labels[i] = hashed_token(1, i, model->classes);
    }
    assert_int_equal(replica_write(&trial->replica, trial->replica.parameters, flat), 0);
    device_write(&trial->replica, trial->replica.input, tokens, places * sizeof *tokens);
    device_write(&trial->replica, trial->replica.labels, labels, places * sizeof *labels);
    free(tokens);
    free(flat);
}
