/* Conditions of the other operations of the family REDUCE; part of checks.c, whose macros it uses. */

static bool index_fits(const ggml_tensor *t) { return t->ne[0] <= INT32_MAX; }

CK check_GROUP_NORM(const ggml_tensor *t, char *msg) {
    const float eps = gg_param_f32(t, 1);
    WANT(t->op_params[0] > 0, "n_groups is %d: need 1 or more", t->op_params[0]);
    WANT(eps >= 0, "eps is %g: need 0 or more", (double)eps);
    return check_UNARY(t, msg);
}
CK check_ARGSORT(const ggml_tensor *t, char *msg) {
    const int order = t->op_params[0];
    NEED(1);
    WANT(order == 0 || order == 1, "order is %d: need 0 (ascending) or 1 (descending)", order);
    FLOATS(A, "a");
    WANT(index_fits(A), "a is %s: rows are too long for an i32 index", S(A));
    WANT(t->type == GGML_TYPE_I32 && gg_same_shape(t, A),
         "result is %s, a is %s: need i32 of the same shape", S(t), S(A));
    return NULL;
}
CK check_TOP_K(const ggml_tensor *t, char *msg) {
    NEED(1);
    FLOATS(A, "a");
    WANT(index_fits(A), "a is %s: rows are too long for an i32 index", S(A));
    WANT(t->ne[0] <= A->ne[0], "a is %s, k is %" PRId64 ": need at most ne[0]", S(A), t->ne[0]);
    WANT(t->type == GGML_TYPE_I32 && t->ne[1] == A->ne[1] && t->ne[2] == A->ne[2] && t->ne[3] == A->ne[3],
         "result is %s, a is %s: need i32, as many rows", S(t), S(A));
    return NULL;
}
CK check_GLU(const ggml_tensor *t, char *msg) {
    enum { N_GLU = 6 };
    const int op = t->op_params[0];
    NEED(1);
    WANT(op >= 0 && op < N_GLU, "%d is no GLU operation", op);
    FLOATS(A, "a");
    FLOATS(t, "result");
    if (B) {
        FLOATS(B, "b");
        WANT(gg_same_shape(A, B), "a is %s, b is %s: shapes must be equal", S(A), S(B));
        WANT(gg_same_shape(t, A), "result is %s, a is %s: shapes must be equal", S(t), S(A));
        return NULL;
    }
    WANT(A->ne[0] % 2 == 0, "a is %s: ne[0] must be even, its halves are the two operands", S(A));
    WANT(t->ne[0] == A->ne[0] / 2 && t->ne[1] == A->ne[1] && t->ne[2] == A->ne[2] && t->ne[3] == A->ne[3],
         "result is %s, a is %s: need rows of half the length", S(t), S(A));
    return NULL;
}
CK check_ADD_ID(const ggml_tensor *t, char *msg) {
    NEED(3);   /* src: a, b (rows to choose from), ids */
    const ggml_tensor *ids = t->src[2];
    FLOATS(B, "b");
    WANT(A->ne[0] == B->ne[0] && B->ne[2] == 1 && B->ne[3] == 1,
         "a is %s, b is %s: need a matrix of equal ne[0]", S(A), S(B));
    WANT(ids->type == GGML_TYPE_I32, "ids is %s: need i32", S(ids));
    WANT(ids->ne[0] == A->ne[1] && ids->ne[1] == A->ne[2] && gg_nelements(ids) == gg_nrows(A),
         "a is %s, ids is %s: need an index for each row of a", S(A), S(ids));
    return check_UNARY(t, msg);
}
CK check_SOLVE_TRI(const ggml_tensor *t, char *msg) {
    NEED(2);
    FLOATS(A, "a");
    FLOATS(B, "b");
    FLOATS(t, "result");
    WANT(A->ne[0] == A->ne[1], "a is %s: need square matrices", S(A));
    WANT(A->ne[1] == B->ne[1] && A->ne[2] == B->ne[2] && A->ne[3] == B->ne[3],
         "a is %s, b is %s: dimensions 1 to 3 must be equal", S(A), S(B));
    WANT(gg_same_shape(t, B), "result is %s, b is %s: shapes must be equal", S(t), S(B));
    return NULL;
}
