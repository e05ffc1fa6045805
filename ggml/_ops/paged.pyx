"""Attention to keys and values that lie in pages."""
from libc.stdint cimport int64_t

from .._core cimport (
    arg_context, arg_float, arg_int, arg_tensor, arg_tensor_or_null, ggml_context, ggml_tensor,
    node_append, node_init, wrap_tensor,
)
from .._enums cimport GGML_OP_PAGED_ATTN, GGML_TYPE_F32
from .._params cimport gg_paged_attn_params, paged_attn_params


def ext_paged_attention(ctx, q, k, v, table, factor, page_size, window=0, logit_softcap=0.0, sinks=None, exact=False):
    """Computes attention of a batch of rows, each to the keys and values of its own sequence, which lie in pages.

    k and v are a pool of cells, which sequences share; a page is page_size consecutive ones. The rows of a sequence
    follow one another, the last one has its last key: so a row with `after` rows of its sequence behind it attends to
    the first keys - after keys, or to the last `window` of these. Shapes do not depend on lengths: the same graph
    computes any mixture of long prompts and single tokens. Rows after those of the last sequence give zeros.

    A column of the table describes a sequence: its first row, its number of rows (0: it is left out), its number of
    keys, and its pages in order. Pages that lie wholly before the window of all rows may be -1.

    There is no gradient.

    Args:
        ctx: context that receives the result.
        q: queries, f32, f16 or bf16, [head_dim, n_heads, n_rows].
        k: keys [head_dim, n_cells, n_kv_heads], f32, f16, bf16 or a quantised type; n_heads is a multiple of
            n_kv_heads.
        v: values [v_dim, n_cells, n_kv_heads], f32, f16, bf16 or a quantised type.
        table: i32 [3 + pages, sequences].
        factor: factor of the scores, usually 1 / sqrt(head_dim).
        page_size: int; cells of a page, a divisor of n_cells.
        window: int; most keys that a row attends to, 0 for all.
        logit_softcap: limit c of the scores s, which become c * tanh(s / c); 0 for none.
        sinks: f32 [n_heads]: a further score in each row, without a value; or None.
        exact: bool; True to compute each row alone, so that its bits depend on nothing but its own sequence.
    Returns:
        f32 tensor [v_dim, n_heads, n_rows].
    Raises:
        ValueError: a shape, a type or a number does not fit. When it is computed, RuntimeError: the table names a row,
            a key or a page that does not exist.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml.ext.paged_attention")
    cdef ggml_tensor node
    cdef ggml_tensor *queries = arg_tensor(q, b"q")
    cdef ggml_tensor *values = arg_tensor(v, b"v")
    node_init(&node, GGML_OP_PAGED_ATTN, GGML_TYPE_F32, values.ne[0], queries.ne[1], queries.ne[2], 1)
    cdef gg_paged_attn_params *p = paged_attn_params(&node)
    p.factor, p.logit_softcap = arg_float(factor, b"factor"), arg_float(logit_softcap, b"logit_softcap")
    p.page_size, p.window = arg_int(page_size, b"page_size"), arg_int(window, b"window")
    p.exact = bool(exact)
    node.src[0], node.src[1], node.src[2] = queries, arg_tensor(k, b"k"), values
    node.src[3], node.src[4] = arg_tensor(table, b"table"), arg_tensor_or_null(sinks, b"sinks")
    return wrap_tensor(node_append(c, &node))
