/* Planes sampled at computed coordinates, for Cython modules: loops that the compiler makes vectors of (clones.h). */
#ifndef GG_RUNTIME_GRID_SAMPLE_H
#define GG_RUNTIME_GRID_SAMPLE_H
#include "clones.h"
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { GG_POINTS = 256 };                                       /* that are sampled at a time */
enum { GG_OUTSIDE_ZEROS, GG_OUTSIDE_BORDER, GG_OUTSIDE_REFLECTED };

typedef struct gg_sampling {
    int32_t nearest, outside, corners;      /* corners: whether -1 and 1 are the centres of elements */
} gg_sampling;

/* An axis of n entries: for each point the entry before it (of nearest: next to it), and its weight and that of the
 * entry behind it. There is such an entry unless n is 1; entries outside weigh nothing. The coordinates are every
 * second one of g. */
GG_PART void gg_grid_axis(int32_t *restrict place, float *restrict before, float *restrict after,
                          const float *restrict g, size_t points, int64_t n, const gg_sampling *how) {
    const float last = (float)(n - 1), half = (float)(n - !!how->corners) / 2, middle = last / 2;
    const float low = how->corners ? 0.0f : -0.5f, span = last - 2 * low;
    const float least = how->outside == GG_OUTSIDE_ZEROS ? -2.0f : 0.0f;
    const float most = how->outside == GG_OUTSIDE_ZEROS ? last + 2 : last, start = n > 1 ? last - 1 : 0.0f;
    for (size_t i = 0; i < points; i++) before[i] = g[2 * i] * half + middle;
    if (how->outside == GG_OUTSIDE_REFLECTED)
        for (size_t i = 0; i < points; i++) {                   /* at both borders, until they lie between them */
            const float away = fabsf(before[i] - low), turns = span > 0 ? floorf(away / span) : 0;
            const float rest = span > 0 ? away - turns * span : 0;
            before[i] = low + (turns * 0.5f != floorf(turns * 0.5f) ? span - rest : rest);
        }
    for (size_t i = 0; i < points; i++) {                       /* NaN stays */
        const float x = before[i] < least ? least : before[i];
        before[i] = x > most ? most : x;
    }
    if (how->nearest)
        for (size_t i = 0; i < points; i++) {
            const float x = rintf(before[i]), lower = x > 0 ? x : 0, inside = lower < last ? lower : last;
            place[i] = (int32_t)inside;
            before[i] = x == inside ? 1.0f : 0.0f;
        }
    else
        for (size_t i = 0; i < points; i++) {
            const float x = before[i], first = floorf(x), part = x - first;
            const float lower = first > 0 ? first : 0, inside = lower < start ? lower : start;
            const float left = first == inside ? 1 - part : first + 1 == inside ? part : 0;
            const float right = first == inside ? part : first == inside + 1 ? 1 - part : 0;
            place[i] = (int32_t)inside;
            before[i] = left + (x - x);
            after[i] = n > 1 ? right + (x - x) : 0.0f;
        }
}

/* Points of all channels: planes of height x width elements, and results that are `step` apart. For linear
 * interpolation, the width is 2 or more. Weights of 0 leave out elements of any value. */
GG_VECTORS static void gg_grid_sample(float *restrict y, size_t step, const float *restrict x, size_t channels,
                                      int64_t height, int64_t width, const float *restrict g, size_t points,
                                      const gg_sampling *how) {
    int32_t place[2][GG_POINTS], at[GG_POINTS];
    float before[2][GG_POINTS], after[2][GG_POINTS];
    const float *const left = before[0], *const right = after[0], *const above = before[1], *const below = after[1];
    float upper[2 * GG_POINTS], lower[2 * GG_POINTS], up[2 * GG_POINTS], down[2 * GG_POINTS];
    const size_t size = (size_t)(height * width), next = height > 1 ? (size_t)width : 0;
    for (int axis = 0; axis < 2; axis++)
        gg_grid_axis(place[axis], before[axis], after[axis], g + axis, points, axis ? height : width, how);
    for (size_t i = 0; i < points; i++) at[i] = place[1][i] * (int32_t)width + place[0][i];
    if (how->nearest) {
        for (size_t i = 0; i < points; i++) upper[i] = left[i] * above[i];
        for (size_t c = 0; c < channels; c++, x += size, y += step)
            for (size_t i = 0; i < points; i++) {
                const float v = x[at[i]];
                y[i] = upper[i] != 0 ? v : 0;
            }
        return;
    }
    for (size_t i = 0; i < points; i++) {
        upper[2 * i] = above[i] * left[i], upper[2 * i + 1] = above[i] * right[i];
        lower[2 * i] = below[i] * left[i], lower[2 * i + 1] = below[i] * right[i];
    }
    for (size_t c = 0; c < channels; c++, x += size, y += step) {
        for (size_t i = 0; i < points; i++) {                   /* pairs of neighbours */
            memcpy(up + 2 * i, x + at[i], 2 * sizeof *x);
            memcpy(down + 2 * i, x + at[i] + next, 2 * sizeof *x);
        }
        for (size_t i = 0; i < 2 * points; i++) {
            const float a = upper[i] * up[i], b = lower[i] * down[i];
            up[i] = (upper[i] != 0 ? a : 0) + (lower[i] != 0 ? b : 0);
        }
        for (size_t i = 0; i < points; i++) y[i] = up[2 * i] + up[2 * i + 1];
    }
}

#endif
