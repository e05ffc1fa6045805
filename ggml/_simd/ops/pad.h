/* PAD, PAD_REFLECT_1D and ROLL: along each dimension the result consists of a few pieces of the source. */
#ifndef GG_OPS_PAD_H
#define GG_OPS_PAD_H
#include "../runtime/pad_modes.h"
#include "copy.h"

/* n elements of the source from `from` on, with a step (0: what fills), repeated rep times, at position `at` of the
 * destination. */
typedef struct { int64_t at, from, n, rep; int step; } piece;
enum { PIECES = 3 };

/* fill: the element around the source; NULL: zeros. */
static int assemble(const gg_work *w, ggml_tensor *dst, const ggml_tensor *src, piece p[4][PIECES], const void *fill) {
    box b[PIECES * PIECES * PIECES * PIECES];
    int n = 0;
    for (int k = 0; k < PIECES * PIECES * PIECES * PIECES; k++) {
        const piece *cut[4] = {&p[0][k % 3], &p[1][k / 3 % 3], &p[2][k / 9 % 3], &p[3][k / 27]};
        bool any = true, zero = false;
        for (int i = 0; i < 4; i++) any &= cut[i]->n > 0 && cut[i]->rep > 0, zero |= !cut[i]->step;
        if (!any) continue;
        box_types(w->kernels, &b[n], dst->type, src->type);
        ptrdiff_t d = 0, s = 0;
        for (int i = 0; i < 4; i++) {
            const ptrdiff_t dn = (ptrdiff_t)dst->nb[i], sn = (ptrdiff_t)src->nb[i];
            d += cut[i]->at * dn, s += cut[i]->from * sn;
            box_dim(&b[n], cut[i]->n, dn, zero ? 0 : cut[i]->step * sn);
            box_dim(&b[n], cut[i]->rep, dn * cut[i]->n, 0);
        }
        b[n].dst = (char *)dst->data + d, b[n].src = zero ? fill : (const char *)src->data + s;
        box_plan(&b[n++]);
    }
    boxes_run(w, b, n);
    return GGML_STATUS_SUCCESS;
}
/* n elements of a cyclic sequence of ne elements, which begins at `shift`. */
static void pieces_ring(piece p[PIECES], int64_t n, int64_t ne, int64_t shift) {
    const int64_t start = ((-shift) % ne + ne) % ne, first = gg_min(n, ne - start), rest = n - first;
    p[0] = (piece){0, start, first, 1, 1};
    p[1] = (piece){first, 0, ne, rest / ne, 1};
    p[2] = (piece){n - rest % ne, 0, rest % ne, 1, 1};
}
static int op_PAD(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0];
    const gg_pad_params *q = pad_params(dst);
    piece p[4][PIECES];
    for (int i = 0; i < 4; i++) {
        const int64_t left = q->ends[2 * i], right = q->ends[2 * i + 1], ne = a->ne[i];
        if (q->mode == GG_PAD_CIRCULAR) { pieces_ring(p[i], dst->ne[i], ne, left); continue; }
        p[i][1] = (piece){left, 0, ne, 1, 1};
        if (q->mode == GG_PAD_REFLECT) {
            p[i][0] = (piece){0, left, left, 1, -1};
            p[i][2] = (piece){left + ne, ne - 2, right, 1, -1};
            continue;
        }
        if (q->mode == GG_PAD_EDGE) {
            p[i][0] = (piece){0, 0, 1, left, 1};
            p[i][2] = (piece){left + ne, ne - 1, 1, right, 1};
            continue;
        }
        p[i][0] = (piece){0, 0, left, 1, 0};
        p[i][2] = (piece){left + ne, 0, right, 1, 0};
    }
    return assemble(w, dst, a, p, q->value == 0 ? NULL : &q->value);
}
static int op_ROLL(const gg_work *w, ggml_tensor *dst) {
    piece p[4][PIECES];
    for (int i = 0; i < 4; i++) pieces_ring(p[i], dst->ne[i], dst->ne[i], roll_params(dst)->shifts[i]);
    return assemble(w, dst, dst->src[0], p, NULL);
}
static int op_PAD_REFLECT_1D(const gg_work *w, ggml_tensor *dst) {
    const gg_pad_reflect_params *q = pad_reflect_params(dst);
    const int64_t left = q->before, right = q->after, ne = dst->src[0]->ne[0];
    piece p[4][PIECES] = {{{0, left, left, 1, -1}, {left, 0, ne, 1, 1}, {left + ne, ne - 2, right, 1, -1}}};
    for (int i = 1; i < 4; i++) p[i][0] = (piece){0, 0, dst->ne[i], 1, 1};
    return assemble(w, dst, dst->src[0], p, NULL);
}

#endif
