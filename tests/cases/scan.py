"""Running sums along rows."""

import numpy as np

from . import Op

OPS = [
    Op(
        "cumsum",
        lambda x: np.cumsum(x, -1),
        (lambda r: [r(7, 3, 2)], lambda r: [r(67, 5, 2)], lambda r: [r(1031, 9)], lambda r: [r(0, 3)]),
        diff=(0,),
        tol=4e-6,
    ),
]
