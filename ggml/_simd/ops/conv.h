/* Convolutions as matrix products whose operands are gathered while they are packed. A matrix of patches is only stored
 * if it is the result (IM2COL). runtime/geometry.h defines the geometry. */
#ifndef GG_OPS_CONV_H
#define GG_OPS_CONV_H
#include "correlate.h"
#include "depthwise.h"
#include "shifted.h"
#include "winograd_line.h"

static size_t conv_at(const gemm *g, int64_t i, int64_t j) {
    return patch_target(g->a.context, i) + (size_t)j * g->c_n;
}
static int conv_memory(const ggml_tensor *dst) { return gg_no_memory(dst, "no memory for panels"); }

/* The kernel as the second operand: its vectors are output channels (input channels for the gradient), k runs over the
 * taps of the other channels. Only the taps first[], first[] + step[] ... are used. */
static patches conv_kernel(const gg_conv *v, bool back, const int64_t taps[3], const int64_t first[3],
                           const int64_t step[3]) {
    gg_conv_part w = gg_conv_w(v);
    const int64_t ic = w.c;
    const size_t nb_ic = w.nb_c;
    if (!back) w.c = w.n, w.n = ic, w.nb_c = w.nb_n, w.nb_n = nb_ic;
    patches r = patches_plain(&w);
    for (int i = 0; i < 3; i++) r.ax[i].out = taps[i], r.ax[i].base = first[i], r.ax[i].stride = step[i];
    return r;
}
/* Packs a kernel of bytes as floats, with what is added to it. */
static void pack_taps_more(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out, int width) {
    const vf more = vf_set1((float)((const patches *)s->context)->more);
    pack_taps(s, i0, n, k0, kn, out, width);
    for (int64_t i = 0; i < (int64_t)kn * width; i += VW) vf_store(out + i, vf_add(vf_load(out + i), more));
}
static gemm_src conv_kernel_source(const gg_kernels *k, const gg_conv *v, const patches *kernel) {
    gemm_src s = patch_source(k, v->w->data, v->w->type, kernel, pack_taps);
    if (s.type == GGML_TYPE_I8) return s.pack = pack_taps_more, s;
    size_t next = (size_t)gg_types[s.type].bytes;     /* are the taps, then the channels, contiguous? */
    for (int i = 0; i < 4; i++) {
        const patch_axis *ax = &kernel->ax[i < 3 ? i : 0];
        const int64_t n = i < 3 ? ax->out : kernel->n;
        if (n > 1 && ((i < 3 ? kernel->nb[i] : kernel->nb_n) != next || (i < 3 && ax->stride != 1))) return s;
        next *= (size_t)(i < 3 ? ax->in : n);
        if (i < 3 && ax->out != ax->in) return s;
    }
    s.nb_i = kernel->nb_c, s.nb_k = (size_t)gg_types[s.type].bytes, s.pack = pack_along_k;
    return s;
}

/* Positions of all images times channels of the result: the product of the patches `seen` with the kernel. */
static gemm conv_product(const gg_kernels *k, const gg_conv *v, const patches *seen, const patches *kernel,
                         const ggml_tensor *data, char *out, size_t nb_c) {
    return (gemm){.m = patches_places(seen) * seen->n, .n = kernel->c, .k = patches_taps(seen) * seen->c,
                  .ne2 = 1, .ne3 = 1, .a = patch_source(k, data->data, data->type, seen, pack_places),
                  .b = conv_kernel_source(k, v, kernel), .c = out, .c_n = nb_c, .c_at = conv_at};
}
/* Applies the tail to m positions of channels j .. j+n-1. */
static void conv_finish_tile(const gemm *g, int64_t m, int64_t j, int64_t n, float *tile, int64_t ldc) {
    const patches *const v = g->a.context;
    conv_finish(&v->tail, j, tile, ldc, n, m);
}
static int conv_run(const gg_work *w, ggml_tensor *dst, const patches *seen, const gemm *g) {
    direct d;
    shifted s;
    const bool ok = shifted_plan(seen, g, w->nth, &s) ? shifted_run(w, seen, g, &s)
        : direct_plan(seen, g, &d) ? direct_run(w, seen, g, &d) : gemm_run(w, g, NULL);
    return ok ? GGML_STATUS_SUCCESS : conv_memory(dst);
}

/* g from w and x */
typedef struct { gg_conv v; patches seen, kernel; gemm g; winograd quick; bool is_quick; } conv_sum;
static void conv_sum_make(const gg_kernels *k, conv_sum *s, const ggml_tensor *dst) {
    const gg_conv v = s->v = gg_conv_of(dst);
    const int64_t first[3] = {0, 0, 0}, step[3] = {1, 1, 1};
    const bool tail = dst->op == GGML_OP_CONV_2D;
    s->kernel = conv_kernel(&v, false, gg_conv_w(&v).ne, first, step), s->seen = patches_of_x(&v);
    s->g = conv_product(k, &v, &s->seen, &s->kernel, v.x, dst->data, gg_conv_g(&v).nb_c);
    if (tail) s->seen.tail = conv_tail_of(dst), s->kernel.more = conv_2d_params(dst)->offset;
    if (s->seen.tail.finish) s->g.finish = conv_finish_tile;
    const int most = tail ? gg_conv_squares(dst) : 0;
    s->is_quick = winograd_plan(&s->seen, &s->g, most, &s->quick) || line_plan(&s->seen, &s->g, most, &s->quick);
}
static int conv_forward(const gg_work *w, ggml_tensor *dst) {
    conv_sum s;
    conv_sum_make(w->kernels, &s, dst);
    if (s.v.w->type == GGML_TYPE_I8) {
        const int status = w->kernels->conv_bytes(w, dst);
        if (status != GGML_STATUS_FAILED) return status;
    }
    if (!s.is_quick) return conv_run(w, dst, &s.seen, &s.g);
    return winograd_run(w, &s.seen, &s.g, &s.quick) ? GGML_STATUS_SUCCESS : conv_memory(dst);
}
/* What a thread finds in a part of the data for a kernel of bytes: the range of the elements, and whether all are whole
 * numbers. */
typedef struct codes_seen { float low, high; int32_t whole; } codes_seen;
/* For a kernel of bytes, the bytes in which the threads put these, sums of output channels, and the packed kernel: a
 * bound for all ISAs of this base. */
static size_t codes_work(const gg_conv_part *kernel, int nth) {
    const int64_t taps = kernel->ne[0] * kernel->ne[1] * kernel->ne[2], words = gg_ceil_div(kernel->c, 2);
    const int64_t panels = gg_ceil_div(kernel->n, NR - 1) * NR_PAD * taps * words;
    const int64_t transformed = taps == 9 ? 16 * winograd_apart(kernel->n * words) : 0;     /* winograd_bytes.h */
    return (size_t)nth * sizeof(codes_seen) + (size_t)(kernel->n + gg_max(panels, transformed)) * sizeof(float);
}
static size_t work_CONV_2D(const ggml_tensor *dst, int nth) {
    conv_sum s;
    conv_sum_make(NULL, &s, dst);
    if (s.v.w->type == GGML_TYPE_I8) {
        const gg_conv_part kernel = gg_conv_w(&s.v);
        return codes_work(&kernel, nth);
    }
    return s.is_quick ? winograd_work(&s.quick) : 0;
}

/* x from w and g: one product for each phase of the stride. The phases write interleaved positions. A thread computes
 * contiguous positions of all phases, because packing the kernel is expensive. */
typedef struct { patches seen, kernel; gemm g; } conv_phase;
static void conv_phase_make(const gg_kernels *k, conv_phase *p, const gg_conv *v, int64_t i, char *out) {
    const gg_conv_part x = gg_conv_x(v);
    int64_t first[3], tap[3], step[3], taps[3];
    patch_phase(v, i, first);
    p->seen = patches_of_g(v, first, tap, step);
    for (int d = 0; d < 3; d++) taps[d] = p->seen.ax[d].taps, out += (size_t)first[d] * x.nb[d];
    p->kernel = conv_kernel(v, true, taps, tap, step);
    p->g = conv_product(k, v, &p->seen, &p->kernel, v->g, out, x.nb_c);
}
/* The same in one dimension with few channels: the product of every tap with the data, whose positions are contiguous,
 * so that nothing is gathered. Then the products that belong to one position of the result are added. */
enum {
    SPREAD_N = 64,                  /* most taps of all channels */
    SPREAD_PLACES = 256,            /* positions of a tile */
    SPREAD_EXTENT = 32, SPREAD_ROW = 304,
};

static bool spread_fits(const gg_conv *v) {
    const gg_conv_part k = gg_conv_w(v);
    return v->kind == GG_CONV_1D && k.ne[0] * k.c <= SPREAD_N && (k.ne[0] - 1) * v->d[0] <= SPREAD_EXTENT * v->s[0]
        && v->x->type == GGML_TYPE_F32;
}
static gemm_src spread_source(const gg_kernels *kernels, const ggml_tensor *t, size_t at, size_t nb_i, size_t nb_k) {
    gemm_src s = {.data = (const char *)t->data + at, .type = t->type, .kernels = kernels, .nb_i = nb_i,
                  .nb_k = nb_k};
    gemm_set_pack(&s, false);
    return s;
}
/* Positions o to o + n of a channel of the result; n is a multiple of the stride, or all that is left. products: of
 * each tap with positions l0 to l1 of the data. */
static void spread_sum(const gg_conv *v, const float *products, int64_t l0, int64_t l1, int64_t o, int64_t n, char *y,
                       size_t nb) {
    const int64_t taps = v->w->ne[0], s = v->s[0];
    for (int64_t f = 0; f < gg_min(s, n); f++) {       /* positions that the same taps reach */
        float sum[SPREAD_ROW];
        const int64_t count = (n - f + s - 1) / s;
        memset(sum, 0, (size_t)count * sizeof *sum);
        for (int64_t t = 0; t < taps; t++) {
            const int64_t at = o + f + v->p[0] - t * v->d[0];
            if (at % s) continue;
            const patch_range in = patch_inside(l1 - l0, at / s - l0, 1, count);
            const float *p = products + t * SPREAD_ROW + at / s - l0;
            for (int64_t i = in.lo; i < in.hi; i++) sum[i] += p[i];
        }
        for (int64_t i = 0; i < count; i++) *(float *)(y + (size_t)(f + i * s) * nb) = sum[i];
    }
}
static int spread_run(const gg_work *w, ggml_tensor *dst, const gg_conv *v) {
    const gg_conv_part k = gg_conv_w(v), x = gg_conv_x(v), g = gg_conv_g(v);
    const int64_t s = v->s[0], extent = (k.ne[0] - 1) * v->d[0], columns = k.ne[0] * k.c;
    const int64_t each = gg_ceil_div(gg_ceil_div(x.ne[0], s), 16), places = gg_max(32, gg_min(SPREAD_PLACES, each));
    const int64_t tile = places * s, tiles = gg_ceil_div(x.ne[0], tile);
    /* channels whose taps are contiguous */
    const int64_t together = k.nb_c == (size_t)k.ne[0] * k.nb[0] ? k.c : 1;
    gemm p = {.n = together * k.ne[0], .k = g.c, .ne2 = 1, .ne3 = 1, .c_m = sizeof(float),
              .c_n = SPREAD_ROW * sizeof(float)};
    for (int64_t u0, u1; gg_claim_chunk(w, tiles * x.n, 1, &u0, &u1);)
        for (int64_t u = u0; u < u1; u++) {
            const int64_t image = u / tiles, o = u % tiles * tile, n = gg_min(tile, x.ne[0] - o);
            const int64_t l0 = gg_max(0, (o + v->p[0] - extent) / s),
                l1 = gg_min(g.ne[0], (o + n - 1 + v->p[0]) / s + 1);
            p.m = gg_max(l1 - l0, 0);
            p.a = spread_source(w->kernels, v->g, (size_t)image * g.nb_n + (size_t)l0 * g.nb[0], g.nb[0], g.nb_c);
            const gemm_tiling tiling = gemm_plan(&p, 1, false);
            const int64_t floats = columns * SPREAD_ROW + gemm_scratch_floats(&p, &tiling);
            float *const products = gg_scratch((size_t)floats * sizeof(float));
            if (!products) return conv_memory(dst);
            for (int64_t c = 0; p.m && c < k.c; c += together) {
                p.b = spread_source(w->kernels, v->w, (size_t)c * k.nb_c, k.nb[0], k.nb_n);
                p.c = (char *)(products + c * k.ne[0] * SPREAD_ROW);
                gemm_rows(&p, &tiling, 0, tiling.rows, products + columns * SPREAD_ROW);
            }
            for (int64_t c = 0; c < k.c; c++)
                spread_sum(v, products + c * k.ne[0] * SPREAD_ROW, l0, gg_max(l0, l1), o, n,
                           (char *)dst->data + (size_t)image * x.nb_n + (size_t)c * x.nb_c + (size_t)o * x.nb[0],
                           x.nb[0]);
        }
    return GGML_STATUS_SUCCESS;
}

/* The same where windows do not overlap, because the stride is the size of the kernel: every product is an element of
 * the result. */
static bool apart_fits(const gg_conv *v) {
    const gg_conv_part k = gg_conv_w(v), x = gg_conv_x(v), g = gg_conv_g(v);
    if (v->kind != GG_CONV_2D || v->x->type != GGML_TYPE_F32 || g.nb[1] != (size_t)g.ne[0] * g.nb[0]) return false;
    for (int i = 0; i < 2; i++)
        if (v->s[i] != k.ne[i] || v->p[i] || v->d[i] != 1 || x.ne[i] != g.ne[i] * k.ne[i]) return false;
    return k.nb[1] == (size_t)k.ne[0] * k.nb[0] && k.nb_c == (size_t)k.ne[1] * k.nb[1];
}
/* Stores n products of each tap with positions from `first` on; `image` is the result for the image. */
static void apart_store(const gg_conv *v, const float *products, int64_t first, int64_t n, char *image) {
    const gg_conv_part k = gg_conv_w(v), x = gg_conv_x(v);
    const int64_t across = gg_conv_g(v).ne[0], s = k.ne[0];
    for (int64_t i = 0, m; i < n; i += m) {
        const int64_t row = (first + i) / across, column = (first + i) % across;
        m = gg_min(n - i, across - column);
        const float *p = products + i;
        for (int64_t j = 0; j < k.c * k.ne[1]; j++, p += s * SPREAD_PLACES) {
            const int64_t line = row * k.ne[1] + j % k.ne[1];
            float *y = (float *)(image + (size_t)(j / k.ne[1]) * x.nb_c + (size_t)line * x.nb[1]) + column * s;
            if (s == 2)
                for (int64_t l = 0; l < m; l++) y[2 * l] = p[l], y[2 * l + 1] = p[SPREAD_PLACES + l];
            else for (int64_t t = 0; t < s; t++)
                for (int64_t l = 0; l < m; l++) y[l * s + t] = p[t * SPREAD_PLACES + l];
        }
    }
}
static int apart_run(const gg_work *w, ggml_tensor *dst, const gg_conv *v) {
    const gg_conv_part k = gg_conv_w(v), x = gg_conv_x(v), g = gg_conv_g(v);
    const int64_t places = g.ne[0] * g.ne[1], tiles = gg_ceil_div(places, SPREAD_PLACES);
    gemm p = {.n = k.ne[0] * k.ne[1] * k.c, .k = g.c, .ne2 = 1, .ne3 = 1, .c_m = sizeof(float),
              .c_n = SPREAD_PLACES * sizeof(float), .b = spread_source(w->kernels, v->w, 0, k.nb[0], k.nb_n)};
    for (int64_t u0, u1; gg_claim_chunk(w, tiles * x.n, 1, &u0, &u1);)
        for (int64_t u = u0; u < u1; u++) {
            const int64_t image = u / tiles, first = u % tiles * SPREAD_PLACES;
            p.m = gg_min(places - first, SPREAD_PLACES);
            p.a = spread_source(w->kernels, v->g, (size_t)image * g.nb_n + (size_t)first * g.nb[0], g.nb[0], g.nb_c);
            const gemm_tiling tiling = gemm_plan(&p, 1, false);
            const int64_t floats = p.n * SPREAD_PLACES + gemm_scratch_floats(&p, &tiling);
            float *const products = gg_scratch((size_t)floats * sizeof(float));
            if (!products) return conv_memory(dst);
            p.c = (char *)products;
            gemm_rows(&p, &tiling, 0, tiling.rows, products + p.n * SPREAD_PLACES);
            apart_store(v, products, first, p.m, (char *)dst->data + (size_t)image * x.nb_n);
        }
    return GGML_STATUS_SUCCESS;
}

static int conv_data(const gg_work *w, ggml_tensor *dst) {
    const gg_conv v = gg_conv_of(dst);
    if (spread_fits(&v)) return spread_run(w, dst, &v);
    if (apart_fits(&v)) return apart_run(w, dst, &v);
    const int64_t phases = patch_phases(&v);
    conv_phase p;
    conv_phase_make(w->kernels, &p, &v, 0, dst->data);               /* no other phase has more positions */
    if (phases == 1) return conv_run(w, dst, &p.seen, &p.g);
    const int64_t panels = gg_ceil_div(p.g.m, MR);
    for (int64_t r0, r1; gg_claim_chunk(w, panels, gg_ceil_div(panels, w->nth), &r0, &r1);)
        for (int64_t i = 0; i < phases; i++) {
            conv_phase_make(w->kernels, &p, &v, i, dst->data);
            const gemm_tiling tiling = gemm_plan(&p.g, 1, false);
            float *const room = gg_scratch((size_t)gemm_scratch_floats(&p.g, &tiling) * sizeof(float));
            if (!room) return conv_memory(dst);
            if (r0 < tiling.rows) gemm_rows(&p.g, &tiling, r0, gg_min(r1, tiling.rows), room);
        }
    return GGML_STATUS_SUCCESS;
}

/* The number of partial sums for the gradient of a kernel, each over some of the images: a divisor of their number. It
 * is more than 1 if the kernel is too small for enough tasks. Neither it nor the result depends on the number of
 * threads. */
static int64_t conv_cuts(const gg_conv *v) {
    const gg_conv_part k = gg_conv_w(v), g = gg_conv_g(v);
    const int64_t tiles = gg_ceil_div(k.ne[0] * k.ne[1] * k.ne[2] * k.c, 32) * gg_ceil_div(k.n, 14);
    const int64_t want = gg_min(g.n, gg_ceil_div(16, gg_max(tiles, 1)));
    int64_t n = gg_max(want, 1);
    while (n < g.n && g.n % n) n++;
    return n;
}
/* The gradient of a kernel: its product of panels, and how it is computed. */
typedef struct conv_gradient { patches seen, other; gemm g; correlate c; bool direct; int64_t cuts; } conv_gradient;
static void conv_gradient_make(const gg_kernels *kernels, conv_gradient *r, const ggml_tensor *dst) {
    const gg_conv v = gg_conv_of(dst);
    const gg_conv_part k = gg_conv_w(&v), x = gg_conv_x(&v), g = gg_conv_g(&v);
    r->seen = patches_of_x(&v), r->other = patches_plain(&g);
    r->g = (gemm){.m = patches_taps(&r->seen) * r->seen.c, .n = g.c, .ne2 = 1, .ne3 = 1,
                  .a = patch_source(kernels, v.x->data, v.x->type, &r->seen, pack_taps),
                  .b = patch_source(kernels, v.g->data, v.g->type, &r->other, pack_taps),
                  .c = dst->data, .c_m = sizeof(float), .c_n = k.nb_n,
                  .c_2 = (size_t)gg_nelements(dst) * sizeof(float)};
    r->g.k = r->g.m;                                     /* the taps, which direct.h counts along k */
    r->direct = correlate_plan(&r->seen, &r->g, &r->c);
    r->cuts = r->direct ? r->c.cuts : conv_cuts(&v);
    if (r->direct) return;
    r->seen.n = r->other.n = g.n / r->cuts;
    r->g.k = patches_places(&r->seen) * r->seen.n, r->g.ne2 = r->cuts;
    r->g.a.nb2 = (size_t)r->seen.n * x.nb_n, r->g.b.nb2 = (size_t)r->seen.n * g.nb_n;
}
/* w from x and g */
static int conv_kernel_gradient(const gg_work *w, ggml_tensor *dst) {
    conv_gradient r;
    conv_gradient_make(w->kernels, &r, dst);
    if (r.cuts > 1) r.g.c = w->wdata;
    const bool ok = r.direct ? correlate_run(w, &r.seen, &r.g, &r.c, &r.other) : gemm_run(w, &r.g, NULL);
    if (r.cuts > 1) {
        gg_barrier(w);
        const int64_t size = gg_nelements(dst);
        const float *part = w->wdata;
        float *y = dst->data;
        for (int64_t i = size * w->ith / w->nth; i < size * (w->ith + 1) / w->nth; i++) {
            float sum = 0;
            for (int64_t j = 0; j < r.cuts; j++) sum += part[j * size + i];
            y[i] = sum;
        }
    }
    return ok ? GGML_STATUS_SUCCESS : conv_memory(dst);
}
static size_t work_CONV_BACK_KERNEL(const ggml_tensor *dst, int nth) {
    (void)nth;
    if (gg_conv_is_depthwise(conv_back_params(dst)->kind)) return 0;
    conv_gradient r;
    conv_gradient_make(NULL, &r, dst);
    return r.cuts > 1 ? (size_t)r.cuts * (size_t)gg_nelements(dst) * sizeof(float) : 0;
}

static int op_CONV_2D(const gg_work *w, ggml_tensor *dst) { return conv_forward(w, dst); }
static int op_CONV_3D(const gg_work *w, ggml_tensor *dst) { return conv_forward(w, dst); }
static int op_CONV_TRANSPOSE_1D(const gg_work *w, ggml_tensor *dst) { return conv_data(w, dst); }
static int op_CONV_TRANSPOSE_2D(const gg_work *w, ggml_tensor *dst) { return conv_data(w, dst); }
static int op_CONV_BACK_DATA(const gg_work *w, ggml_tensor *dst) {
    return gg_conv_is_depthwise(conv_back_params(dst)->kind) ? depthwise_data(w, dst) : conv_data(w, dst);
}
static int op_CONV_BACK_KERNEL(const gg_work *w, ggml_tensor *dst) {
    return gg_conv_is_depthwise(conv_back_params(dst)->kind) ? depthwise_kernel(w, dst) : conv_kernel_gradient(w, dst);
}

/* ---- columns: stored patches ------------------------------------------------------------------------------------- */
/* The patches of x; `to` is the byte offset of the column of a position. */
static patches columns_view(const gg_columns *q) {
    const gg_conv_part x = gg_conv_part_of(q->x, q->kind, q->ic);
    const size_t *nb = q->columns->nb;
    int64_t out[3];
    for (int i = 0; i < 3; i++) out[i] = gg_conv_out(x.ne[i], q->taps[i], q->s[i], q->p[i], q->d[i]);
    patches v = patches_of(&x, q->taps, out, q->s, q->p, q->d);
    v.to[0] = nb[1], v.to[1] = nb[2], v.to[2] = nb[3];
    v.to_n = q->kind == GG_CONV_1D ? nb[2] : q->kind == GG_CONV_2D ? nb[3] : (size_t)out[2] * nb[3];
    return v;
}
/* Transposes a panel of n positions by kn taps and stores it to the columns of the positions. */
static void columns_store(ggml_tensor *dst, const patches *v, int64_t i0, int n, int64_t k0, int kn,
                          const float *panel) {
    float tmp[4][KC + VW] __attribute__((aligned(64)));
    const size_t bytes = (size_t)gg_types[dst->type].bytes;
    for (int i = 0; i < n; i += 4) {
        for (int k = 0; k < kn; k += VW) {
            const float *row[VW];
            vf out[4];
            for (int j = 0; j < VW; j++) row[j] = panel + (k + j < kn ? k + j : kn - 1) * MR;
            vf_transpose4(row, i, out);
            for (int j = 0; j < 4; j++) vf_store(tmp[j] + k, out[j]);
        }
        for (int j = 0; j < 4 && i + j < n; j++)
            gg_from_floats(dst->type, tmp[j], kn, (char *)dst->data + patch_target(v, i0 + i + j) + (size_t)k0 * bytes,
                           bytes);
    }
}
static int columns_write(const gg_work *w, ggml_tensor *dst) {
    const gg_columns q = gg_columns_of(dst);
    const patches v = columns_view(&q);
    const gemm_src s = patch_source(w->kernels, q.x->data, q.x->type, &v, pack_places);
    const int64_t places = patches_places(&v) * v.n, depth = patches_taps(&v) * v.c;
    float panel[KC * MR] __attribute__((aligned(64)));
    int64_t i0, i1;
    while (gg_claim_chunk(w, gg_ceil_div(places, MR), 1, &i0, &i1))
        for (int64_t i = i0 * MR; i < gg_min(i1 * MR, places); i += MR)
            for (int64_t k = 0; k < depth; k += KC) {
                const int n = (int)gg_min(places - i, MR), kn = (int)gg_min(depth - k, KC);
                pack_places(&s, i, n, k, kn, panel, MR);
                columns_store(dst, &v, i, n, k, kn, panel);
            }
    return GGML_STATUS_SUCCESS;
}

/* Adds the values of one tap of all windows to the channel plane: n values, `step` floats apart. */
static void columns_add(int type, const char *p, size_t nb, int64_t n, float *y, int64_t step) {
    if (type == GGML_TYPE_F32)
        for (int64_t i = 0; i < n; i++, y += step, p += nb) {
            float f;
            memcpy(&f, p, sizeof f);
            *y += f;
        }
    else
        for (int64_t i = 0; i < n; i++) y[i * step] += pack_value(type, p + (size_t)i * nb);
}
/* Elements lo to hi of each row; plane: the address of the first of them. */
static void columns_sum(const gg_columns *q, const patches *v, int64_t c, int64_t image, int64_t lo, int64_t hi,
                        char *plane) {
    const patch_axis *ax = v->ax;
    const size_t unit = q->columns->nb[0];
    const int64_t taps = patches_taps(v);
    const char *column = (const char *)q->columns->data + (size_t)image * v->to_n + (size_t)(c * taps) * unit;
    const int64_t rows = ax[1].out * ax[2].out;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < taps; k++) {
            const int64_t o1 = r % ax[1].out, o2 = r / ax[1].out;
            int64_t t[3], none;
            patch_tap(v, k, t, &none);
            const int64_t x = ax[0].base + t[0] * ax[0].dilation - lo,
                y = o1 * ax[1].stride + ax[1].base + t[1] * ax[1].dilation;
            const int64_t z = o2 * ax[2].stride + ax[2].base + t[2] * ax[2].dilation;
            if (y < 0 || y >= ax[1].in || z < 0 || z >= ax[2].in) continue;
            const patch_range in = patch_inside(hi - lo, x, ax[0].stride, ax[0].out);
            if (in.lo >= in.hi) continue;
            const char *p = column + (size_t)k * unit + (size_t)o1 * v->to[1] + (size_t)o2 * v->to[2];
            float *to = (float *)(plane + (size_t)y * v->nb[1] + (size_t)z * v->nb[2]) + x + in.lo * ax[0].stride;
            columns_add(q->columns->type, p + (size_t)in.lo * v->to[0], v->to[0], in.hi - in.lo, to, ax[0].stride);
        }
}
enum { COLUMNS_PIECE = 4096 };  /* elements of a plane with one row that a thread computes at a time */
static int columns_back(const gg_work *w, ggml_tensor *dst) {
    const gg_columns q = gg_columns_of(dst);
    const patches v = columns_view(&q);
    const int64_t across = v.ax[0].in, rows = v.ax[1].in * v.ax[2].in;
    const int64_t piece = rows == 1 ? COLUMNS_PIECE : across, pieces = gg_ceil_div(across, gg_max(piece, 1));
    float *sums = NULL;             /* of a piece of f16 or bf16: one row, as only COL2IM_1D has */
    if (dst->type != GGML_TYPE_F32 && !(sums = gg_scratch((size_t)piece * sizeof(float)))) return conv_memory(dst);
    int64_t i0, i1;
    while (gg_claim_chunk(w, v.c * v.n * pieces, 1, &i0, &i1))
        for (int64_t i = i0; i < i1; i++) {
            const int64_t lo = i % pieces * piece, hi = gg_min(lo + piece, across), c = i / pieces % v.c,
                n = i / pieces / v.c;
            char *y = (char *)dst->data + (size_t)c * v.nb_c + (size_t)n * v.nb_n + (size_t)lo * dst->nb[0];
            float *to = sums ? sums : (float *)y;
            memset(to, 0, (size_t)((hi - lo) * rows) * sizeof(float));
            columns_sum(&q, &v, c, n, lo, hi, (char *)to);
            if (sums) gg_from_floats(dst->type, sums, hi - lo, y, dst->nb[0]);
        }
    return GGML_STATUS_SUCCESS;
}
static int op_IM2COL(const gg_work *w, ggml_tensor *dst) { return columns_write(w, dst); }
static int op_IM2COL_3D(const gg_work *w, ggml_tensor *dst) { return columns_write(w, dst); }
static int op_IM2COL_BACK(const gg_work *w, ggml_tensor *dst) { return columns_back(w, dst); }
static int op_IM2COL_3D_BACK(const gg_work *w, ggml_tensor *dst) { return columns_back(w, dst); }
static int op_COL2IM_1D(const gg_work *w, ggml_tensor *dst) { return columns_back(w, dst); }

#endif
