/* Enters the conversions and dot products of all types in a kernel table. */
#ifndef GG_QUANTS_QUANTS_H
#define GG_QUANTS_QUANTS_H
#include "../runtime/kernel.h"
#include "floats.h"
#include "decode.h"
#include "encode.h"
#include "quant_k.h"
#include "quant_iq.h"

#define ENTER_TO(NAME, t) k->to_f32[GGML_TYPE_##NAME] = t##_to_f32;
#define ENTER_FROM(NAME, t) k->from_f32[GGML_TYPE_##NAME] = t##_from_f32;
#define ENTER_DOT(NAME, t, PARTNER) \
    ENTER_TO(NAME, t) k->dot[GGML_TYPE_##NAME] = t##_dot, k->dot_type[GGML_TYPE_##NAME] = GGML_TYPE_##PARTNER;
#define ENTER_INTS(NAME, t, PARTNER) ENTER_DOT(NAME, t, PARTNER) k->ints[GGML_TYPE_##NAME] = t##_ints;
#define ENTER_WIDEN(NAME, t) k->widen[GGML_TYPE_##NAME] = t##_widen;
#define ENTER_QUANTIZE(NAME, t) k->quantize[GGML_TYPE_##NAME] = t##_quantize;

/* from_f32 of the types that are searched for: no weights. */
#define PLAIN(t) static void t##_from_f32(const float *x, void *y, int64_t n) { t##_quantize(x, y, n, NULL); }
PLAIN(q2_K) PLAIN(q3_K) PLAIN(q4_K) PLAIN(q5_K) PLAIN(q6_K)
PLAIN(iq2_s) PLAIN(iq3_xxs) PLAIN(iq3_s) PLAIN(iq1_m) PLAIN(iq4_xs)

static void install_quants(gg_kernels *k) {
    ENTER_DOT(F32, f32, F32) ENTER_DOT(F16, f16, F16) ENTER_DOT(BF16, bf16, BF16) ENTER_INTS(Q4_0, q4_0, Q8_0)
    ENTER_INTS(Q4_1, q4_1, Q8_1) ENTER_INTS(Q5_0, q5_0, Q8_0) ENTER_INTS(Q5_1, q5_1, Q8_1)
    ENTER_INTS(Q8_0, q8_0, Q8_0) ENTER_INTS(IQ4_NL, iq4_nl, Q8_0) ENTER_INTS(MXFP4, mxfp4, Q8_0)
    ENTER_INTS(NVFP4, nvfp4, Q8_0) ENTER_INTS(Q1_0, q1_0, Q8_0) ENTER_INTS(Q2_K, q2_K, Q8_K)
    ENTER_INTS(Q3_K, q3_K, Q8_K) ENTER_INTS(Q4_K, q4_K, Q8_K) ENTER_INTS(Q5_K, q5_K, Q8_K)
    ENTER_INTS(Q6_K, q6_K, Q8_K) ENTER_INTS(TQ1_0, tq1_0, Q8_K) ENTER_INTS(TQ2_0, tq2_0, Q8_K)
    ENTER_INTS(IQ2_XXS, iq2_xxs, Q8_K) ENTER_INTS(IQ2_XS, iq2_xs, Q8_K) ENTER_INTS(IQ2_S, iq2_s, Q8_K)
    ENTER_INTS(IQ3_XXS, iq3_xxs, Q8_K) ENTER_INTS(IQ3_S, iq3_s, Q8_K) ENTER_INTS(IQ1_S, iq1_s, Q8_K)
    ENTER_INTS(IQ1_M, iq1_m, Q8_K) ENTER_INTS(IQ4_XS, iq4_xs, Q8_K)

    ENTER_TO(Q8_1, q8_1) ENTER_TO(Q8_K, q8_K) ENTER_WIDEN(Q8_0, q8_0) ENTER_WIDEN(Q8_1, q8_1)
    ENTER_WIDEN(Q8_K, q8_K)

    ENTER_FROM(F32, f32) ENTER_FROM(F16, f16) ENTER_FROM(BF16, bf16) ENTER_FROM(Q4_0, q4_0) ENTER_FROM(Q4_1, q4_1)
    ENTER_FROM(Q5_0, q5_0) ENTER_FROM(Q5_1, q5_1) ENTER_FROM(Q8_0, q8_0) ENTER_FROM(Q8_1, q8_1) ENTER_FROM(Q8_K, q8_K)
    ENTER_FROM(MXFP4, mxfp4) ENTER_FROM(NVFP4, nvfp4) ENTER_FROM(Q1_0, q1_0) ENTER_FROM(TQ1_0, tq1_0)
    ENTER_FROM(TQ2_0, tq2_0) ENTER_FROM(Q2_K, q2_K) ENTER_FROM(Q3_K, q3_K) ENTER_FROM(Q4_K, q4_K)
    ENTER_FROM(Q5_K, q5_K) ENTER_FROM(Q6_K, q6_K) ENTER_FROM(IQ2_S, iq2_s) ENTER_FROM(IQ3_XXS, iq3_xxs)
    ENTER_FROM(IQ3_S, iq3_s) ENTER_FROM(IQ1_M, iq1_m) ENTER_FROM(IQ4_NL, iq4_nl) ENTER_FROM(IQ4_XS, iq4_xs)

    ENTER_QUANTIZE(Q4_0, q4_0) ENTER_QUANTIZE(Q4_1, q4_1) ENTER_QUANTIZE(Q5_0, q5_0) ENTER_QUANTIZE(Q5_1, q5_1)
    ENTER_QUANTIZE(Q2_K, q2_K) ENTER_QUANTIZE(Q3_K, q3_K) ENTER_QUANTIZE(Q4_K, q4_K) ENTER_QUANTIZE(Q5_K, q5_K)
    ENTER_QUANTIZE(Q6_K, q6_K) ENTER_QUANTIZE(IQ4_NL, iq4_nl) ENTER_QUANTIZE(IQ4_XS, iq4_xs)
    ENTER_QUANTIZE(IQ2_XXS, iq2_xxs) ENTER_QUANTIZE(IQ2_XS, iq2_xs) ENTER_QUANTIZE(IQ2_S, iq2_s)
    ENTER_QUANTIZE(IQ3_XXS, iq3_xxs) ENTER_QUANTIZE(IQ3_S, iq3_s) ENTER_QUANTIZE(IQ1_S, iq1_s)
    ENTER_QUANTIZE(IQ1_M, iq1_m)
}

#endif
