/* How chains are computed. */
#include "chain.h"
#include "clones.h"
#include "pages.h"

/* ---- making ------------------------------------------------------------------------------------------------------ */
/* The elements of a tensor of floats are contiguous; as gg_contiguous, without divisions. */
static bool is_contiguous(const ggml_tensor *t) {
    size_t next = (size_t)gg_types[t->type].bytes;
    for (int d = 0; d < 4; d++) {
        if (t->ne[d] != 1 && t->nb[d] != next) return false;
        next *= (size_t)t->ne[d];
    }
    return true;
}
/* All operands of the nodes are contiguous and of one shape, or single elements: the chain is one row. */
static bool is_flat(int n, const ggml_tensor *const *nodes) {
    for (int i = 0; i < n; i++) {
        if (!is_contiguous(nodes[i])) return false;
        for (int k = 0; k < GG_CHAIN_SOURCES; k++) {
            const ggml_tensor *const s = nodes[i]->src[k];
            if (s && gg_nelements(s) != 1 && !(gg_same_shape(s, nodes[i]) && is_contiguous(s))) return false;
        }
    }
    return true;
}
bool gg_chain_rows_fit(const ggml_tensor *t, const ggml_tensor *s) {
    if (!is_contiguous(s) || (s->ne[0] != t->ne[0] && s->ne[0] != 1)) return false;
    return gg_nrows(s) == 1 || !memcmp(s->ne + 1, t->ne + 1, 3 * sizeof *s->ne);
}
static const ggml_tensor *operand(const gg_link *l, int k) { return k ? l->node->src[k - 1] : l->node; }
/* Kernels read some operands by the node. */
static bool has_operand(const gg_link *l, int k) { return operand(l, k) && !(k && l->kernel.by_node >> (k - 1) & 1); }
void gg_chain_place(gg_chain *c) {
    for (gg_link *l = c->links, *end = l + c->n; l < end; l++)
        for (int k = 0; k <= GG_CHAIN_SOURCES; k++)
            if (has_operand(l, k)) l->data[k] = operand(l, k)->data;
}
/* How many rows are computed together: as many as a tile holds, where operands can be repeated in the buffers. */
static int64_t block_of(int n, const ggml_tensor *const *nodes, const gg_row_kernel *kernels) {
    const int64_t ne0 = nodes[0]->ne[0], rows = gg_nrows(nodes[0]);
    int repeated = 0;
    for (int i = 0; i < n; i++) {
        if (kernels[i].row || !is_contiguous(nodes[i])) return 1;
        for (int k = 0; k < GG_CHAIN_SOURCES; k++) {
            const ggml_tensor *const s = nodes[i]->src[k];
            if (!s) continue;
            if (!gg_chain_rows_fit(nodes[i], s)) return 1;
            repeated += !gg_same_shape(s, nodes[i]);
        }
    }
    return ne0 && repeated <= GG_CHAIN_FILLED ? gg_max(1, gg_min(GG_CHAIN_TILE / ne0, rows)) : 1;
}
gg_chain *gg_chain_new(int n, const ggml_tensor *const *nodes, const gg_row_kernel *kernels) {
    gg_chain *const c = gg_malloc(sizeof *c + (size_t)n * sizeof *c->links);
    if (!c) return NULL;
    int8_t filled = 0;
    bool whole = false;
    for (int i = 0; i < n; i++) whole |= kernels[i].row || kernels[i].rows;
    const bool flat = !whole && is_flat(n, nodes);
    const int64_t block = flat ? 1 : block_of(n, nodes, kernels);
    *c = (gg_chain){.n = n, .whole = whole, .block = block};
    memcpy(c->ne, nodes[0]->ne, sizeof c->ne);
    if (block > 1) c->ne[1] = gg_nrows(nodes[0]), c->ne[2] = c->ne[3] = 1;
    if (flat) c->ne[0] = gg_nelements(nodes[0]), c->ne[1] = c->ne[2] = c->ne[3] = 1;
    for (int i = 0; i < n; i++) {
        gg_link *const l = &c->links[i];
        *l = (gg_link){.kernel = kernels[i], .node = nodes[i]};
        for (int k = 0; k <= GG_CHAIN_SOURCES; k++) {
            const ggml_tensor *const t = operand(l, k);
            l->filled[k] = -1;
            if (!has_operand(l, k)) continue;
            if ((flat ? gg_nelements(t) : t->ne[0]) != c->ne[0] || (block > 1 && !gg_same_shape(t, nodes[i])))
                l->filled[k] = filled++;
            for (int d = 0; d < 3; d++) l->nb[k][d] = flat || t->ne[d + 1] == 1 ? 0 : t->nb[d + 1];
            if (block > 1) l->nb[k][0] = gg_nrows(t) == 1 ? 0 : (size_t)t->ne[0] * sizeof(float);
        }
    }
    gg_chain_place(c);
    c->single = !filled && (whole || c->ne[0] <= GG_CHAIN_TILE) && c->ne[1] * c->ne[2] * c->ne[3] == 1;
    return c;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */
typedef float buffer[GG_CHAIN_TILE];
typedef struct place { int64_t i0, i[3]; } place;       /* of a tile */

static char *row_at(const gg_link *l, int k, const place *at) {
    return (char *)l->data[k] + (size_t)at->i[0] * l->nb[k][0] + (size_t)at->i[1] * l->nb[k][1]
         + (size_t)at->i[2] * l->nb[k][2];
}
static GG_VECTORS void fill(float *y, float x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = x;
}
static bool varies(const gg_link *l, int k) { return l->nb[k][0] || l->nb[k][1] || l->nb[k][2]; }
/* Fills the buffers of operands that have one element, which is the same for all rows. */
static void fill_constants(const gg_chain *c, int64_t n, buffer *filled) {
    for (const gg_link *l = c->links, *end = l + c->n; l < end; l++)
        for (int k = 1; k <= GG_CHAIN_SOURCES; k++)
            if (l->filled[k] >= 0 && !varies(l, k)) fill(filled[l->filled[k]], *l->data[k], n);
}
static void compute(const gg_link *l, float *const *p, int64_t n, const place *at) {
    if (l->kernel.row) l->kernel.row(l->node, p, at->i[0], at->i[1]);
    else if (l->kernel.rows) l->kernel.rows(l->node, p, 1);
    else l->kernel.tile(p, n, false, l->node->op_params);
}
/* Computes n elements of each node; follows: the tile before is of the same row, whose elements the buffers hold. */
static void run_tile(const gg_chain *c, const place *at, int64_t n, bool follows, buffer *filled) {
    for (const gg_link *l = c->links, *end = l + c->n; l < end; l++) {
        float *p[1 + GG_CHAIN_SOURCES];
        for (int k = 0; k <= GG_CHAIN_SOURCES; k++) {
            float *const row = l->data[k] ? (float *)row_at(l, k, at) : NULL;
            if (l->filled[k] >= 0) {
                p[k] = filled[l->filled[k]];
                if (varies(l, k) && !follows) fill(p[k], *row, n);
            } else {
                p[k] = row ? row + at->i0 : NULL;
            }
        }
        compute(l, p, n, at);
    }
}
/* The rows of an operand that has one for all of them, or one element for each. */
static GG_VECTORS void fill_rows(float *y, const float *x, int64_t n, int64_t rows, bool elements) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++) y[r * n + i] = x[elements ? r : i];
}
/* Rows of few elements, many of them: a block at a time. */
static int run_blocks(const gg_work *w, const gg_chain *c) {
    _Alignas(64) buffer filled[GG_CHAIN_FILLED];
    const int64_t n = c->ne[0], rows = c->ne[1], block = c->block;
    const gg_link *const end = c->links + c->n;
    for (const gg_link *l = c->links; l < end; l++)
        for (int k = 1; k <= GG_CHAIN_SOURCES; k++)
            if (l->filled[k] >= 0 && !varies(l, k)) {
                if (operand(l, k)->ne[0] == 1) fill(filled[l->filled[k]], *l->data[k], block * n);
                else fill_rows(filled[l->filled[k]], l->data[k], n, block, false);
            }
    for (int64_t u, last; gg_claim_chunk(w, gg_ceil_div(rows, block), 4, &u, &last);)
        for (; u < last; u++) {
            const int64_t r = u * block, m = gg_min(block, rows - r);
            for (const gg_link *l = c->links; l < end; l++) {
                float *p[1 + GG_CHAIN_SOURCES];
                for (int k = 0; k <= GG_CHAIN_SOURCES; k++) {
                    p[k] = l->data[k] ? (float *)((char *)l->data[k] + (size_t)r * l->nb[k][0]) : NULL;
                    if (l->filled[k] < 0) continue;
                    float *const y = filled[l->filled[k]];
                    if (varies(l, k)) fill_rows(y, p[k], n, m, true);
                    p[k] = y;
                }
                if (l->kernel.rows) l->kernel.rows(l->node, p, m);
                else l->kernel.tile(p, m * n, false, l->node->op_params);
            }
        }
    return GGML_STATUS_SUCCESS;
}
static int run_rows(const gg_work *w, const gg_chain *c) {
    _Alignas(64) buffer filled[GG_CHAIN_FILLED];
    const int64_t ne0 = c->ne[0], tile = c->whole ? ne0 : gg_min(ne0, GG_CHAIN_TILE), tiles = gg_ceil_div(ne0, tile);
    const int64_t rows = c->ne[1] * c->ne[2] * c->ne[3], grain = gg_max(1, 4 * GG_CHAIN_TILE / tile);
    fill_constants(c, tile, filled);
    for (int64_t u, end; gg_claim_chunk(w, tiles * rows, grain, &u, &end);) {
        const int64_t row = u / tiles, plane = row / c->ne[1];
        place at = {u % tiles * tile, {row % c->ne[1], plane % c->ne[2], plane / c->ne[2]}};
        for (bool follows = false; u < end; u++) {
            run_tile(c, &at, gg_min(tile, ne0 - at.i0), follows, filled);
            if ((follows = (at.i0 += tile) < ne0)) continue;
            at.i0 = 0;
            if (++at.i[0] < c->ne[1]) continue;
            at.i[0] = 0;
            if (++at.i[1] == c->ne[2]) at.i[1] = 0, at.i[2]++;
        }
    }
    return GGML_STATUS_SUCCESS;
}
/* Small nodes: their operands lie where the rows are. */
static void run_single(const gg_chain *c) {
    for (const gg_link *l = c->links, *end = l + c->n; l < end; l++) compute(l, l->data, c->ne[0], &(const place){0});
}
int gg_chain_run(const gg_work *w, ggml_tensor *last) {
    (void)last;
    int64_t begin, end;
    if (!w->chain->single) return w->chain->block > 1 ? run_blocks(w, w->chain) : run_rows(w, w->chain);
    if (gg_claim_chunk(w, 1, 1, &begin, &end)) run_single(w->chain);
    return GGML_STATUS_SUCCESS;
}
