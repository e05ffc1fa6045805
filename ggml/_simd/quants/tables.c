/* The grids of tables.h in the form that decoding reads: an entry holds the values of a point's levels, one a byte. */
#include "blocks.h"
#include "tables.h"

/* Byte k of an entry: byte l of `values`, where l is level k of the point. */
#define VALUE2(values, u, k) (((uint64_t)(values) >> (((u) >> 2 * (k) & 3) * 8) & 0xff) << 8 * (k))
#define VALUE4(values, u, k) (((values) >> (((u) >> 4 * (k) & 7) * 8) & 0xff) << 8 * (k))
#define ENTRY8(values, u) (VALUE2(values, u, 0) | VALUE2(values, u, 1) | VALUE2(values, u, 2) | VALUE2(values, u, 3) | \
                           VALUE2(values, u, 4) | VALUE2(values, u, 5) | VALUE2(values, u, 6) | VALUE2(values, u, 7)),
#define ENTRY4(values, u) (uint32_t)(VALUE4(values, u, 0) | VALUE4(values, u, 1) | VALUE4(values, u, 2) | \
                                     VALUE4(values, u, 3)),

#define IQ2(u) ENTRY8(0x2b1908, u)                   /* 8, 25, 43 */
#define IQ1(u) ENTRY8(0x120a02, u)                   /* 2, 10, 18 */
#define IQ3XXS(u) ENTRY4(0x3e342c241c140c04u, u)     /* 4, 12, 20, 28, 36, 44, 52, 62 */
#define IQ3S(u) ENTRY4(0x0f0d0b0907050301u, u)       /* 1, 3, ... 15 */

const uint64_t gg_iq2xxs_grid[256] = {GG_POINTS_IQ2XXS(IQ2)};
const uint64_t gg_iq2xs_grid[512] = {GG_POINTS_IQ2XS(IQ2)};
const uint64_t gg_iq2s_grid[1024] = {GG_POINTS_IQ2S(IQ2)};
const uint64_t gg_iq1s_grid[2048] = {GG_POINTS_IQ1S(IQ1)};
const uint32_t gg_iq3xxs_grid[256] = {GG_POINTS_IQ3XXS(IQ3XXS)};
const uint32_t gg_iq3s_grid[512] = {GG_POINTS_IQ3S(IQ3S)};
const int8_t gg_levels_iq4nl[16] = {GG_LEVELS_IQ4NL};
const int8_t gg_levels_e2m1[16] = {GG_LEVELS_E2M1};

#define E8M0(e) (e) < 2 ? 0x00200000u << ((e) & 1) : ((e) - 1u) << 23,
#define E8M0_4(e) E8M0(e) E8M0(e + 1) E8M0(e + 2) E8M0(e + 3)
#define E8M0_16(e) E8M0_4(e) E8M0_4(e + 4) E8M0_4(e + 8) E8M0_4(e + 12)
#define E8M0_64(e) E8M0_16(e) E8M0_16(e + 16) E8M0_16(e + 32) E8M0_16(e + 48)
const uint32_t gg_e8m0_halves[256] = {E8M0_64(0) E8M0_64(64) E8M0_64(128) E8M0_64(192)};
