/* One row a gated linear unit of GGML_OP_GLU: GLU(id, NAME): activation(x) * gate. */
GLU(0, REGLU)
GLU(1, GEGLU)
GLU(2, SWIGLU)
GLU(3, SWIGLU_OAI)
GLU(4, GEGLU_ERF)
GLU(5, GEGLU_QUICK)
