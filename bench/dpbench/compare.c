/* SPDX-License-Identifier: MIT
 *
 * The proof that two runs trained the same model (compare.h).
 */
#include "compare.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *equality_name(enum equality equal)
{
    static const char *const names[] = {"na", "no", "tolerance", "bit"};
    return names[equal];
}

bool compare_promises_bits(const cJSON *header)
{
    double gpus = record_number(header, "gpus"), batch = record_number(header, "global_batch");
    if (!(gpus >= 1) || !(batch >= 1) || !text_is(record_text(header, "backend"), "soft") ||
        text_is(record_text(header, "precision"), "fp16") || record_number(header, "accumulate") != 1)
        return false;
    long n = (long)gpus;
    return (n & (n - 1)) == 0 && (long)batch % n == 0;
}

static double gradient_tolerance(const struct record *record)
{
    const char *precision = record_text(record->summary, "precision");
    return text_is(precision, "bf16")   ? GRADIENT_TOLERANCE_BF16
           : text_is(precision, "fp16") ? GRADIENT_TOLERANCE_FP16
                                        : GRADIENT_TOLERANCE;
}

/* Fills loss, gradient and, if one is beyond its tolerance, reason. */
static void compare_values(const struct record *record, const char *gradients, const struct record *reference,
                           const char *gradients_reference, struct comparison *comparison)
{
    double a = record_number(record->summary, "loss_last"), b = record_number(reference->summary, "loss_last");
    double tolerance = gradient_tolerance(record);
    comparison->loss = fabs(a - b) / fabs(b);
    if (!(comparison->loss <= LOSS_TOLERANCE))
        snprintf(comparison->reason, sizeof comparison->reason, "last loss %.9g, reference %.9g: not within 1 %%", a,
                 b);
    if (!gradients || !gradients_reference)
        return;
    char tensor[128];
    if (compare_gradients(gradients, gradients_reference, &comparison->gradient, tensor, sizeof tensor))
        snprintf(comparison->reason, sizeof comparison->reason, "gradients could not be compared: %s and %s", gradients,
                 gradients_reference);
    else if (!(comparison->gradient <= tolerance))
        snprintf(comparison->reason, sizeof comparison->reason,
                 "gradient of %s differs by %.3g of its largest element, "
                 "allowed %.1e",
                 tensor, comparison->gradient, tolerance);
}

void compare_runs(const struct record *record, const char *gradients, const struct record *reference,
                  const char *gradients_reference, bool bits_promised, struct comparison *comparison)
{
    *comparison = (struct comparison){.equal = EQUAL_NA, .gradient = NAN, .loss = NAN};
    const char *mine = record_text(record->summary, "checksum"), *other = record_text(reference->summary, "checksum");
    if (!*mine || !*other) {
        snprintf(comparison->reason, sizeof comparison->reason, "no checksum");
        return;
    }
    bool same_bits = text_is(mine, other);
    compare_values(record, gradients, reference, gradients_reference, comparison);
    if (!same_bits && bits_promised && !*comparison->reason)
        snprintf(comparison->reason, sizeof comparison->reason,
                 "checksum %s, reference %s: the same bits are promised here", mine, other);
    if (*comparison->reason)
        comparison->equal = EQUAL_NO;
    else if (same_bits)
        comparison->equal = EQUAL_BIT;
    else if (isnan(comparison->gradient))
        snprintf(comparison->reason, sizeof comparison->reason, "checksums differ and no gradients to compare");
    else
        comparison->equal = EQUAL_TOLERANCE;
}
