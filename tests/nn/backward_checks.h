/* SPDX-License-Identifier: MIT
 *
 * What a strategy relies on, of any small model: gradients against finite differences, when they are told ready,
 * accumulation, parts of a batch, empty batches, the same bits again.
 */
#ifndef TESTS_NN_BACKWARD_CHECKS_H
#define TESTS_NN_BACKWARD_CHECKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"

/* Mean cross-entropy over all labels of the batch, in double. parameters[i]: the elements of the model's parameter i,
 * row-major; input: floats or tokens, as the model's are. */
typedef double reference_loss(const struct model *model, double *const *parameters, const void *input,
                              const int32_t *labels, size_t batch);

/* A model under test. */
struct backward_subject {
    void (*open)(struct trial *trial); /* a replica, always filled with the same parameters and batch_max samples */
    const char *const *ready_order;    /* names of all parameters as autograd tells them ready */
    reference_loss *loss;
    size_t picks; /* elements of a tensor against differences, at most: each costs two passes in double */
    double difference_limit, sum_limit; /* max|a-b| / max|b| of a tensor: against differences; of sums of gradients */
};

/* Forward, loss (mean over batch_max samples' labels) and backward of the first `batch` samples; then synchronised. */
void backward_pass(struct trial *trial, size_t batch, bool accumulate, gradient_ready *ready, void *context);

/* ---- cmocka tests; *state: the backward_subject ---- */

/* Central differences of the reference. */
void check_gradients_against_differences(void **state);
/* Each parameter once, in autograd's order; the same for an empty batch. */
void check_ready_order(void **state);
/* At each place where a callback may end the pass, it does. */
void check_ready_can_end_the_pass(void **state);
/* A copy enqueued by the callback reads the final value. */
void check_ready_means_enqueued(void **state);
void check_accumulation(void **state);
/* Two parts accumulated are the whole: what scatter and all-reduce rely on. */
void check_parts_add_up(void **state);
void check_empty_batch_gives_zeros(void **state);
/* On another replica. */
void check_same_bits_again(void **state);

/* All of them, for a list of tests. */
#define BACKWARD_CHECKS(subject)                                                                                       \
    cmocka_unit_test_prestate(check_gradients_against_differences, subject),                                           \
        cmocka_unit_test_prestate(check_ready_order, subject),                                                         \
        cmocka_unit_test_prestate(check_ready_can_end_the_pass, subject),                                              \
        cmocka_unit_test_prestate(check_ready_means_enqueued, subject),                                                \
        cmocka_unit_test_prestate(check_accumulation, subject),                                                        \
        cmocka_unit_test_prestate(check_parts_add_up, subject),                                                        \
        cmocka_unit_test_prestate(check_empty_batch_gives_zeros, subject),                                             \
        cmocka_unit_test_prestate(check_same_bits_again, subject)

#endif
