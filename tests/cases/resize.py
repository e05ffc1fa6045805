"""Images to other sizes."""

import numpy as np

from . import Op

NEAREST, BILINEAR, BICUBIC, CORNERS, ANTIALIAS = 0, 1, 2, 256, 512


def tent(t):
    """The kernel of linear interpolation."""
    return np.maximum(0, 1 - np.abs(t))


def keys_cubic(t):
    """The cubic kernel of Keys with a = -0.75."""
    t = np.abs(t)
    return np.where(t <= 1, (1.25 * t - 2.25) * t * t + 1, np.where(t < 2, ((-0.75 * t + 3.75) * t - 6) * t + 3, 0))


def interpolation_weights(old, new, mode):
    """[new, old]: the weight of each old element in each new one."""
    factor, centre, w = new / max(1, old), 0.5, np.zeros((new, old))
    if mode & CORNERS:
        centre = 0
        factor = (new - 1) / (old - 1) if new > 1 and old > 1 else factor
    for i in range(new):
        at = (i + centre) / factor - centre
        if mode & 255 == NEAREST:
            w[i, min(int(i / factor), old - 1)] = 1
        elif mode & ANTIALIAS:
            w[i] = tent((np.arange(old) - at) / max(1, 1 / factor))
            w[i] /= w[i].sum()
        else:
            for j in range(int(np.floor(at)) - 1, int(np.floor(at)) + 3):
                w[i, np.clip(j, 0, old - 1)] += (tent if mode & 255 == BILINEAR else keys_cubic)(at - j)
    return w


def interpolate(a, ne0, ne1, ne2, ne3, mode):
    for axis, new, how in ((-1, ne0, mode), (-2, ne1, mode), (-3, ne2, NEAREST), (-4, ne3, NEAREST)):
        a = np.moveaxis(np.tensordot(interpolation_weights(a.shape[axis], new, how), a, (1, axis)), 0, axis)
    return a


def upscale(a, k, mode):
    return interpolate(a, a.shape[-1] * k, a.shape[-2] * k, a.shape[-3], a.shape[-4], mode)


MODES = (
    NEAREST,
    NEAREST | CORNERS,
    BILINEAR,
    BILINEAR | CORNERS,
    BILINEAR | ANTIALIAS,
    BICUBIC,
    BICUBIC | CORNERS,
)
SIZES = (  # of the image and of the result
    ((5, 4, 2, 1), (11, 9, 4, 3)),
    ((9, 7, 3, 2), (4, 3, 3, 2)),
    ((1, 6, 1, 1), (5, 2, 1, 1)),
)

OPS = [
    Op(
        "interpolate",
        interpolate,
        (
            *(lambda r, a=a, to=to, mode=mode: [r(*a), *to, mode] for a, to in SIZES for mode in MODES),
            lambda r: [r(67, 33, 3), 131, 70, 3, 1, BILINEAR],
            lambda r: [r(5, 4), 0, 3, 1, 1, BILINEAR],
            lambda r: [r(5, 0), 3, 0, 1, 1, NEAREST],
        ),
        diff=(0,),
        tol=1e-4,
        bad=(
            (lambda r: [r(5, 4), 3, 3, 1, 1, 3], ValueError, "mode is 3"),
            (lambda r: [r.ints(5, 5, 4), 3, 3, 1, 1, 0], ValueError, "a is i32"),
            (lambda r: [r(5, 0), 3, 3, 1, 1, 0], ValueError, "nothing to interpolate"),
        ),
    ),
    Op(
        "upscale",
        upscale,
        tuple(lambda r, mode=mode: [r(5, 4, 2, 2), 3, mode] for mode in (NEAREST, BILINEAR, BICUBIC)),
        diff=(0,),
        tol=2e-5,
        bad=((lambda r: [r(5, 4), 0, 0], ValueError, "scale_factor is 0"),),
    ),
]
