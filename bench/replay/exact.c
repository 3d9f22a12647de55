/* SPDX-License-Identifier: MIT
 *
 * See exact.h.
 */
#include "exact.h"

#include <math.h>

#define LN2 0.693147180559945309417232121458
#define SERIES_TERMS 20

/* log2(m 2^e) = e + 2 atanh((m-1)/(m+1)) / ln 2 with m in [sqrt(1/2), sqrt(2)): the series' ratio is below 0.03. */
double exact_log2(double x)
{
    int exponent = 0;
    double m = frexp(x, &exponent); /* exact */
    if (m < 0.70710678118654752) {
        m *= 2;
        exponent--;
    }
    double z = (m - 1) / (m + 1), square = z * z, power = z, sum = 0;
    for (int i = 0; i < SERIES_TERMS; i++) {
        sum += power / (2 * i + 1);
        power *= square;
    }
    return exponent + 2 * sum / LN2;
}

/* 2^x = 2^n e^(f ln 2) with |f| <= 1/2: the series of the exponential. */
double exact_exp2(double x)
{
    double n = floor(x + 0.5), y = (x - n) * LN2, term = 1, sum = 1;
    for (int i = 1; i < SERIES_TERMS; i++) {
        term *= y / i;
        sum += term;
    }
    return ldexp(sum, (int)n); /* exact */
}

double exact_sqrt(double x)
{
    return sqrt(x); /* IEEE 754: rounded correctly everywhere */
}

double exact_cbrt(double x)
{
    return x > 0 ? exact_exp2(exact_log2(x) / 3) : 0;
}

int64_t exact_ps(double seconds)
{
    double ps = seconds * PS_PER_S;
    if (!(ps > 0))
        return 0;
    return ps < (double)EXACT_MAX_PS ? (int64_t)(ps + 0.5) : EXACT_MAX_PS;
}

double exact_seconds(int64_t ps)
{
    return (double)ps / PS_PER_S;
}
