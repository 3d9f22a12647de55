/* SPDX-License-Identifier: MIT
 *
 * A model of tokens against PyTorch's golden file (golden_gpt.py, golden_lstm.py): logits, loss, every gradient, 10 steps of SGD.
 */
#ifndef TESTS_NN_GOLDEN_TRIAL_H
#define TESTS_NN_GOLDEN_TRIAL_H

#include <stdbool.h>
#include <stddef.h>

struct golden_subject {
    const char *model, *kind; /* kind: its prefix in the golden file */
    size_t batch;
    float size;  /* of the matrices' elements */
    bool picked; /* of each tensor 16 values and its norm; else all of it */
};

/* A cmocka test; *state: a golden_subject. */
void golden_trial_run(void **state);
/* Setup and teardown of the group: the numbers of GOLDEN_FILE. */
int golden_trial_open(void **state);
int golden_trial_close(void **state);

#endif
