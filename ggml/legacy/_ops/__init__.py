"""Operations with the signatures of May 2023, in modules with the names of the families in ggml/_ops.

Each function builds an engine tensor with functions of the engine, and stores its sources as they were stored then.
"""

from . import (  # noqa: F401
    attention,
    conv,
    custom,
    elementwise,
    index,
    matmul,
    norm,
    reduce,
    rope,
    shape,
    softmax,
    triangular,
)
