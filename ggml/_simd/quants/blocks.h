/* The blocks of all types as C structs, and the tables and conversions that decoding them takes. */
#ifndef GG_QUANTS_BLOCKS_H
#define GG_QUANTS_BLOCKS_H
#include "../runtime/engine.h"
#include "../tables/blocks.h"

typedef uint16_t gg_half;
typedef uint32_t gg_u32 __attribute__((aligned(1)));

/* number_<number>, and block_<name> with the fields of tables/blocks.h in their order. */
#define NUMBER(number, c_type, together, exponent) typedef c_type number_##number;
GG_NUMBERS(NUMBER)
#undef NUMBER
#define ONE(number, field) number_##number field;
#define MANY(number, field, count) number_##number field[count];
#define TYPE(id, NAME, name, blck, bytes, kind, activation, encoder, grid) \
    typedef struct { BLOCK_##name(ONE, MANY) } block_##name; \
    _Static_assert(sizeof(block_##name) == bytes, \
                   #name ": the fields (tables/blocks.h) make up the block (types.h)");
#ifdef _WIN32
#pragma pack(push, 2)   /* structs of Windows' ABI disregard the alignment of gg_u32 */
#endif
#include "../tables/types.h"
#ifdef _WIN32
#pragma pack(pop)
#endif
#undef TYPE
#undef ONE
#undef MANY

/* Grids as decoding reads them (tables.c): an entry is eight (iq3: four) int8 values, the first in the lowest byte.
 * Values of iq1s are eighths: 8 level + 10 for levels -1, 0, 1, which decoding shifts up or down by an eighth. */
extern const uint64_t gg_iq2xxs_grid[256], gg_iq2xs_grid[512], gg_iq2s_grid[1024], gg_iq1s_grid[2048];
extern const uint32_t gg_iq3xxs_grid[256], gg_iq3s_grid[512];
extern const int8_t gg_levels_iq4nl[16], gg_levels_e2m1[16];
extern const uint32_t gg_e8m0_halves[256];

/* Half of an E8M0, 2^(e - 128), because GG_LEVELS_E2M1 is doubled. */
static inline float gg_e8m0_half(uint8_t e) { return gg_bits_f32(gg_e8m0_halves[e]); }
/* Half of a UE4M3, for the same reason; 0x7f, NaN, counts as 0. */
static inline float gg_ue4m3_half(uint8_t u) {
    const int e = u >> 3 & 15, m = u & 7;
    if (u == 0x7f) return 0;
    return e ? gg_bits_f32((uint32_t)(e + 119) << 23 | (uint32_t)m << 20) : (float)m * 0x1p-10f;
}

/* Packs the 6-bit scales and minima of Q4_K and Q5_K: bytes 0..3 and 4..7 hold scales and minima 0..3 and, above
 * them, the top two bits of 4..7, whose low four bits are in bytes 8..11. */
static inline void gg_k4_pack(uint8_t *p, const uint8_t scale[8], const uint8_t min[8]) {
    for (int j = 0; j < 4; j++) {
        p[j] = (uint8_t)(scale[j] | (scale[4 + j] >> 4 << 6));
        p[4 + j] = (uint8_t)(min[j] | (min[4 + j] >> 4 << 6));
        p[8 + j] = (uint8_t)((scale[4 + j] & 15) | (min[4 + j] & 15) << 4);
    }
}
/* Packs the 6-bit scales of Q3_K, to which 32 is added: low four bits in 8 bytes, top two bits in 4 bytes. */
static inline void gg_k3_pack(uint8_t *p, const uint8_t scale[16]) {
    for (int j = 0; j < 8; j++) p[j] = (uint8_t)((scale[j] & 15) | (scale[8 + j] & 15) << 4);
    for (int j = 0; j < 4; j++)
        p[8 + j] = (uint8_t)(scale[j] >> 4 | scale[4 + j] >> 4 << 2 | scale[8 + j] >> 4 << 4 | scale[12 + j] >> 4 << 6);
}
#endif
