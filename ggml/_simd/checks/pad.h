/* Checks of the operations that lay a tensor out anew (ops/pad.h, ops/upscale.h). Included by checks.c. */
#define PARAM(i) (t->op_params[i])
#define SAME_TYPE() WANT(t->type == A->type && !gg_types[A->type].quantized, \
                         "a is %s, result is %s: need equal types, not quantised", S(A), S(t))
#define SIZED(n0, n1, n2, n3) WANT(t->ne[0] == (n0) && t->ne[1] == (n1) && t->ne[2] == (n2) && t->ne[3] == (n3), \
                                   "result is %s, a is %s", S(t), S(A))

CK check_PAD(const ggml_tensor *t, char *msg) {
    NEED(1);
    SAME_TYPE();
    for (int i = 0; i < 4; i++) {
        const int64_t left = PARAM(2 * i), right = PARAM(2 * i + 1);
        WANT(left >= 0 && right >= 0, "padding of dimension %d is %d and %d: must not be negative",
             i, (int)left, (int)right);
        WANT(t->ne[i] == A->ne[i] + left + right, "result is %s, a is %s, padding of dimension %d is %d and %d",
             S(t), S(A), i, (int)left, (int)right);
        WANT(!PARAM(8) || A->ne[i] || !t->ne[i], "a is %s: circular padding needs an element to repeat", S(A));
    }
    return NULL;
}
CK check_PAD_REFLECT_1D(const ggml_tensor *t, char *msg) {
    NEED(1);
    SAME_TYPE();
    WANT(PARAM(0) >= 0 && PARAM(1) >= 0, "padding is %d and %d: must not be negative", PARAM(0), PARAM(1));
    WANT(PARAM(0) < A->ne[0] && PARAM(1) < A->ne[0], "a is %s, padding is %d and %d: must be less than ne[0]",
         S(A), PARAM(0), PARAM(1));
    SIZED(A->ne[0] + PARAM(0) + PARAM(1), A->ne[1], A->ne[2], A->ne[3]);
    return NULL;
}
CK check_ROLL(const ggml_tensor *t, char *msg) {
    NEED(1);
    SAME_TYPE();
    SIZED(A->ne[0], A->ne[1], A->ne[2], A->ne[3]);
    return NULL;
}
CK check_TRI(const ggml_tensor *t, char *msg) {
    WANT(PARAM(0) >= 0 && PARAM(0) <= 3, "type is %d: need 0 to 3", PARAM(0));
    NEED(1);
    WANT(A->ne[0] == A->ne[1], "a is %s: need square matrices", S(A));
    return check_ROLL(t, msg);
}
CK check_FILL(const ggml_tensor *t, char *msg) {
    (void)msg;
    FLOATS(t, "result");
    return NULL;
}
CK check_DIAG(const ggml_tensor *t, char *msg) {
    NEED(1);
    SAME_TYPE();
    WANT(A->ne[1] == 1, "a is %s: ne[1] must be 1", S(A));
    SIZED(A->ne[0], A->ne[0], A->ne[2], A->ne[3]);
    return NULL;
}
CK check_ARANGE(const ggml_tensor *t, char *msg) {
    F32(t, "result");
    WANT(gg_contiguous(t) && gg_nelements(t) == t->ne[0], "result is %s: need a contiguous vector", S(t));
    return NULL;
}
CK check_TIMESTEP_EMBEDDING(const ggml_tensor *t, char *msg) {
    NEED(1);
    F32(A, "a");
    F32(t, "result");
    WANT(PARAM(0) >= 0 && PARAM(1) > 0, "dim is %d, max_period is %d: must be positive", PARAM(0), PARAM(1));
    WANT(gg_nelements(A) == A->ne[0], "a is %s: need a vector", S(A));
    WANT(t->nb[0] == sizeof(float), "result is %s: need packed rows", S(t));
    SIZED(PARAM(0), A->ne[0], 1, 1);
    return NULL;
}
CK scaled(const ggml_tensor *t, const ggml_tensor *small, const ggml_tensor *large, const char *name, char *msg) {
    FLOATS(A, "a");
    FLOATS(t, "result");
    WANT((PARAM(0) & 0xff) <= 2 && !(PARAM(0) & ~0x3ff),
         "mode is %d: need nearest, bilinear or bicubic, align corners or antialias", PARAM(0));
    WANT(gg_is_empty(large) || !gg_is_empty(small), "%s is %s: nothing to interpolate", name, S(small));
    for (int i = 0; i < 2 && PARAM(0) & 512; i++)   /* with antialiasing, so many elements are weighed for one */
        WANT(!large->ne[i] || small->ne[i] / large->ne[i] < 1 << 28, "a is %s, result is %s: too small", S(A), S(t));
    WANT(small->ne[0] <= INT32_MAX && small->ne[1] <= INT32_MAX, "%s is %s: too large", name, S(small));
    return NULL;
}
CK check_UPSCALE(const ggml_tensor *t, char *msg) { NEED(1); return scaled(t, A, t, "a", msg); }
CK check_UPSCALE_BACK(const ggml_tensor *t, char *msg) { NEED(1); return scaled(t, t, A, "result", msg); }
CK check_WIN_PART(const ggml_tensor *t, char *msg) {
    NEED(1);
    SAME_TYPE();
    const int64_t across = PARAM(0), down = PARAM(1), w = PARAM(2);
    WANT(w > 0, "w is %d: must be positive", PARAM(2));
    WANT(A->ne[3] == 1, "a is %s: ne[3] must be 1", S(A));
    WANT(across == (A->ne[1] + w - 1) / w && down == (A->ne[2] + w - 1) / w,
         "a is %s, windows of %d: %d by %d do not cover it", S(A), PARAM(2), PARAM(0), PARAM(1));
    SIZED(A->ne[0], w, w, across * down);
    return NULL;
}
CK check_WIN_UNPART(const ggml_tensor *t, char *msg) {
    NEED(1);
    SAME_TYPE();
    const int64_t w = PARAM(0);
    WANT(w > 0, "w is %d: must be positive", PARAM(0));
    WANT(A->ne[0] == t->ne[0] && A->ne[1] == w && A->ne[2] == w && t->ne[3] == 1, "a is %s, result is %s, w is %d",
         S(A), S(t), PARAM(0));
    WANT(A->ne[3] == (t->ne[1] + w - 1) / w * ((t->ne[2] + w - 1) / w),
         "a is %s, result is %s: need a window for each part", S(A), S(t));
    return NULL;
}
CK check_GET_REL_POS(const ggml_tensor *t, char *msg) {
    NEED(1);
    SAME_TYPE();
    WANT(gg_nelements(A) == A->ne[0] * A->ne[1], "a is %s: need a matrix", S(A));
    WANT(t->ne[1] == t->ne[2] && A->ne[1] == 2 * t->ne[1] - 1, "a is %s, result is %s: a needs 2 * size - 1 rows",
         S(A), S(t));
    SIZED(A->ne[0], t->ne[1], t->ne[2], 1);
    return NULL;
}
CK check_ADD_REL_POS(const ggml_tensor *t, char *msg) {
    NEED(3);
    ggml_tensor *C = t->src[2];
    F32(A, "a");
    F32(B, "pw");
    F32(C, "ph");
    F32(t, "result");
    WANT(B->ne[0] <= INT32_MAX, "pw is %s: too large", S(B));
    WANT(gg_same_shape(B, C), "pw is %s, ph is %s: shapes must be equal", S(B), S(C));
    WANT(gg_contiguous(A) && gg_contiguous(B) && gg_contiguous(C) && gg_contiguous(t),
         "a is %s: need contiguous tensors", S(A));
    WANT(A->ne[0] == B->ne[0] * B->ne[0] && A->ne[1] == B->ne[1] * B->ne[2] && A->ne[2] == B->ne[3] && A->ne[3] == 1,
         "a is %s, pw is %s: a must be [pw.ne[0]^2, pw.ne[1] * pw.ne[2], pw.ne[3]]", S(A), S(B));
    return check_ROLL(t, msg);
}
#undef PARAM
#undef SAME_TYPE
#undef SIZED
