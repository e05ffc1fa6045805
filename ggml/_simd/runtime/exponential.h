/* e^x for loops of Cython modules that the compiler makes vectors of (clones.h). */
#ifndef GG_RUNTIME_EXPONENTIAL_H
#define GG_RUNTIME_EXPONENTIAL_H
#include "clones.h"
#include <stdint.h>
#include <string.h>

/* e^x for x that is limited to [-87, 87]: 2^n times a Taylor polynomial of what remains */
GG_PART float gg_exp_limited(float x) {
    const float up = x > 87.0f ? 87.0f : x, v = up < -87.0f ? -87.0f : up;
    const float n = (v * 1.44269504f + 12582912.0f) - 12582912.0f;
    const float r = (v - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    const int bits = ((int)(n == n ? n : 0.0f) + 127) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

/* The same for a double that is limited to [-708, 708] */
GG_PART double gg_exp_limited_double(double x) {
    const double up = x > 708 ? 708 : x, v = up < -708 ? -708 : up;
    const double shifted = v * 1.4426950408889634 + 6755399441055744.0, k = shifted - 6755399441055744.0;
    const double r = (v - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10;
    double p = 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    int64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (int64_t)((uint64_t)(bits + 1023) << 52);
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

#endif
