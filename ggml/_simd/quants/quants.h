/* Enters the conversions and dot products of all types in a kernel table, as their rows in tables/types.h say. */
#ifndef GG_QUANTS_QUANTS_H
#define GG_QUANTS_QUANTS_H
#include "../runtime/kernel.h"
#include "floats.h"
#include "decode.h"
#include "encode.h"
#include "quant_k.h"
#include "quant_iq.h"

/* <name>_limited: the search, for elements of any magnitude. from_f32 of the types whose encoder is SEARCH: without
 * importance weights. */
#define FUNCTIONS_NONE(name, blck, bytes)
#define FUNCTIONS_DIRECT(name, blck, bytes)
#define FUNCTIONS_EITHER(name, blck, bytes)
#define FUNCTIONS_WEIGHTED(name, blck, bytes) \
    static void name##_limited(const float *x, void *y, int64_t n, const float *im) { \
        quantize_limited(name##_quantize, blck, bytes, x, y, n, im); \
    }
#define FUNCTIONS_SEARCH(name, blck, bytes) FUNCTIONS_WEIGHTED(name, blck, bytes) \
    static void name##_from_f32(const float *x, void *y, int64_t n) { name##_limited(x, y, n, NULL); }
#define TYPE(id, NAME, name, blck, bytes, kind, activation, encoder, grid) FUNCTIONS_##encoder(name, blck, bytes)
#include "../tables/types.h"
#undef TYPE

#define ENTER_KIND_FLOAT(id, name)       k->to_f32[id] = name##_to_f32, k->dot[id] = name##_dot;
#define ENTER_KIND_INT(id, name)
#define ENTER_KIND_STORED(id, name)
#define ENTER_KIND_WEIGHT(id, name)      ENTER_KIND_FLOAT(id, name) k->ints[id] = name##_ints;
#define ENTER_KIND_ACTIVATION(id, name)  k->to_f32[id] = name##_to_f32, k->lay_out[id] = name##_lay_out, \
                                         k->lay_out_f32[id] = name##_lay_out_f32;
#define ENTER_KIND_BOTH(id, name)        ENTER_KIND_WEIGHT(id, name) ENTER_KIND_ACTIVATION(id, name)

#define ENTER_ENCODER_NONE(id, name)
#define ENTER_ENCODER_DIRECT(id, name)   k->from_f32[id] = name##_from_f32;
#define ENTER_ENCODER_WEIGHTED(id, name) k->quantize[id] = name##_limited;
#define ENTER_ENCODER_SEARCH(id, name)   ENTER_ENCODER_DIRECT(id, name) ENTER_ENCODER_WEIGHTED(id, name)
#define ENTER_ENCODER_EITHER(id, name)   ENTER_ENCODER_DIRECT(id, name) k->quantize[id] = name##_quantize;

static void install_quants(gg_kernels *k) {
#define TYPE(id, NAME, name, blck, bytes, kind, activation, encoder, grid) \
    ENTER_KIND_##kind(id, name) ENTER_ENCODER_##encoder(id, name)
#include "../tables/types.h"
#undef TYPE
#if defined GG_VEC_COLUMNS && defined GG_VEC_PAIRS      /* panels hold scaled codes, or blocks */
    k->columns_alike = GG_TIMES_MOST_SIGNED;
#endif
}

#endif
