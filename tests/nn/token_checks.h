/* SPDX-License-Identifier: MIT
 *
 * What a strategy relies on, of any small model of tokens: gradients against finite differences, when they are told ready,
 * accumulation, parts of a batch, empty batches.
 */
#ifndef TESTS_NN_TOKEN_CHECKS_H
#define TESTS_NN_TOKEN_CHECKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"

#define TOKEN_BATCH 5

/* Mean cross-entropy over all tokens of the batch. parameters[i]: the elements of the model's parameter i, row-major. */
typedef double token_reference_loss(const struct model *model, double *const *parameters, const int32_t *tokens,
                                    const int32_t *labels, size_t batch);

struct token_model {
    const char *name;
    float size; /* of the weights */
    token_reference_loss *reference_loss;
};

/* A replica with room for TOKEN_BATCH samples, filled with hashes. */
void token_open(struct trial *trial, const struct token_model *model);
/* Forward, loss (mean over TOKEN_BATCH samples' tokens) and backward of the first `batch` samples; done when it returns. */
void token_backward(struct trial *trial, size_t batch, bool accumulate, gradient_ready *ready, void *context);

/* A ready callback's log (zero it first): which parameters, in which order; ends the pass after stop_at of them (0: never). */
struct token_ready {
    int count, order[32], stop_at;
};
int token_log_ready(void *context, int index);

/* ---- cmocka tests; *state: the token_model ---- */

/* Central differences of the reference in double, of at most 24 elements of each tensor. */
void check_gradients_against_differences(void **state);
/* At each place where a callback may end the pass, it does. */
void check_ready_can_end_the_pass(void **state);
/* A copy enqueued by the callback reads the final value. */
void check_ready_means_enqueued(void **state);
void check_accumulation(void **state);
void check_parts_add_up(void **state);
void check_empty_batch_gives_zeros(void **state);

/* All of them, for a list of tests. */
#define TOKEN_CHECKS(model)                                                                                            \
    cmocka_unit_test_prestate(check_gradients_against_differences, model),                                             \
        cmocka_unit_test_prestate(check_ready_can_end_the_pass, model),                                                \
        cmocka_unit_test_prestate(check_ready_means_enqueued, model), cmocka_unit_test_prestate(check_accumulation, model), \
        cmocka_unit_test_prestate(check_parts_add_up, model), cmocka_unit_test_prestate(check_empty_batch_gives_zeros, model)

#endif
