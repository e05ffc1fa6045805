/* Functions that scalar and NEON share. Their headers include this one at the end. */

/* ---- points of grids, and signs --------------------------------------------------------------------------------- */
static inline vb vb_gather4(const uint64_t *a, const uint64_t *b, const uint64_t *c, const uint64_t *d) {
    return vb_u64(*a, *b, *c, *d);
}
static inline vb vb_gather8(const uint32_t *a, const uint32_t *b, const uint32_t *c, const uint32_t *d,
                            const uint32_t *e, const uint32_t *f, const uint32_t *g, const uint32_t *h) {
    return vb_u64(*a | (uint64_t)*b << 32, *c | (uint64_t)*d << 32, *e | (uint64_t)*f << 32, *g | (uint64_t)*h << 32);
}
static inline void vb_sign_bits(uint32_t *bits, const void *p, int bytes) {
    for (int j = 0; j < 8; j++) {
        uint64_t u = 0;     /* fields of seven bits, 16 or 7 bits apart */
        const int step = bytes == 2 ? 16 : 7;
        if (bytes == 2) memcpy(&u, (const char *)p + 8 * j, 8), u >>= 9;
        else memcpy(&u, (const char *)p + bytes * (j + 1) - 4, 4);
        bits[j] = 0;
        for (int i = 0; i < 4; i++) {
            const uint32_t seven = u >> i * step & 127;
            bits[j] |= (seven | (uint32_t)__builtin_parity(seven) << 7) << 8 * i;
        }
    }
}

/* ---- scales ----------------------------------------------------------------------------------------------------- */
#define VS_EACH(expr) vs r; for (int i = 0; i < 16; i++) r.v[i] = (int16_t)(expr); return r
static inline vs vs_set1(int x) { VS_EACH(x); }
static inline vs vs_load_i8(const void *p) { const int8_t *s = p; VS_EACH(s[i]); }
static inline vs vs_field(vs a, int k, int mask) { VS_EACH(a.v[i] >> k & mask); }
static inline vs vs_add(vs a, vs b) { VS_EACH(a.v[i] + b.v[i]); }
static inline vs vs_mul(vs a, vs b) { VS_EACH(a.v[i] * b.v[i]); }
static inline vs vs_odd(vs a) { VS_EACH(2 * a.v[i] + 1); }
static inline vs vs_load_u8(const void *p) { const uint8_t *s = p; VS_EACH(s[i]); }
static inline void vs_store(void *p, vs a) { memcpy(p, &a, 32); }
static inline vs vs_unpack1(const void *p) { const uint8_t *s = p; VS_EACH(s[i / 8] >> i % 8 & 1); }
static inline vs vs_unpack2(const void *p) { const uint8_t *s = p; VS_EACH(s[i / 4] >> i % 4 * 2 & 3); }
static inline vs vs_unpack4(const void *p) { const uint8_t *s = p; VS_EACH(s[i / 2] >> i % 2 * 4 & 15); }
static inline vs vs_unpack3(const void *p) { uint16_t s[4]; memcpy(s, p, 8); VS_EACH(s[i / 4] >> i % 4 * 3 & 7); }
static inline vs vs_unpack_top4(const void *p, int bytes) {
    const uint8_t *s = p;
    VS_EACH(s[(i / 2 + 1) * bytes - 1] >> 4);
}
#undef VS_EACH
typedef vs ve;                  /* each twice */
static inline ve ve_unpack_k4(const void *p, vs *m) {
    uint32_t w[3];
    memcpy(w, p, sizeof w);
    const uint64_t six = 0x3f3f3f3f, four = 0x0f0f0f0f, two = 0x03030303;
    const uint64_t scales = (w[2] & four) | (w[0] >> 6 & two) << 4;
    const uint64_t minima = (w[2] >> 4 & four) | (w[1] >> 6 & two) << 4;
    *m = vs_set_pairs((w[1] & six) | minima << 32);
    return vs_set_pairs((w[0] & six) | scales << 32);
}
static inline vs vs_each_twice(ve e) { return e; }
static inline vq vq_madd_us8(vq acc, vb u, vb s, ve e, int j) { return vq_madd_us(acc, u, s, e, j); }

/* ---- sums of small products ------------------------------------------------------------------------------------- */
static inline vq vq_div4(vq a) { return (vq){a.lo >> 2, a.hi >> 2}; }
typedef vq vn;
static inline vn vn_zero(void) { return vq_zero(); }
static inline vn vn_madd(vn acc, vb u, vb s) { return vq_add(acc, vq_dot_us(u, s)); }
static inline vn vn_madd_signs(vn acc, vb a, vb s) { return vq_add(acc, vq_dot_ss(a, s)); }
static inline vn vn_add(vn a, vn b) { return vq_add(a, b); }
static inline vn vn_div4(vn a) { return vq_div4(a); }
static inline vn vn_sub_i16(vn acc, const int16_t *p) { return vq_sub(acc, vq_dot_vs(vs_set1(1), p)); }
static inline vq vn_sum(vn acc) { return acc; }

/* ---- floats ----------------------------------------------------------------------------------------------------- */
typedef struct { float v[8]; } vp;
static inline vp vp_zero(void) { return (vp){{0}}; }
static inline vp vp_add(vp a, vp b) { for (int i = 0; i < 8; i++) a.v[i] += b.v[i]; return a; }
static inline vp vp_mul_halves(const char *p, size_t nb, const float *f) {
    vp r;
    for (int i = 0; i < 8; i++) r.v[i] = gg_half_of_two(p + (size_t)(i / 2) * nb, i % 2) * f[i % 2];
    return r;
}
static inline void vp_add_seconds(float *s, vp a, const int rows) {
    for (int r = 0; r < rows; r++) s[r] += a.v[2 * r + 1];
}
static inline va va_madd_pair(va acc, vq q, vp p, int i) { return va_madd1(acc, q, p.v[2 * i]); }
static inline void va_sums(float *s, const va *a, const int rows) {
    for (int r = 0; r < rows; r++) s[r] = va_sum(a[r]);
}
static inline void vd_scale4(float *d, gg_half h0, gg_half h1, gg_half h2, gg_half h3, const float *f) {
    const gg_half h[4] = {h0, h1, h2, h3};
    for (int i = 0; i < 4; i++) d[i] = gg_half_f32(h[i]) * f[i];
}
