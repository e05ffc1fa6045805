"""Opening pictures: files, bytes, data URLs, images of Pillow and arrays, as images of Pillow in RGB."""

from __future__ import annotations

import base64
import binascii
import io
import os
import warnings
from typing import Any

import numpy as np

from ..._errors import rename
from ..._extras import require

LONGEST = 200  # most pixels of the longer side for each of the shorter one


def open_picture(source: Any, caller: str) -> Any:
    """A picture in RGB.

    Args:
        source: path, URL `data:...;base64,...`, bytes of a file, image of Pillow, or array u8 [height, width] or
            [height, width, 3 or 4]. Of an animated file the first frame counts. The orientation that a camera noted
            is applied; transparent pictures lie on white.
        caller: name of the public function.
    Returns:
        PIL.Image.Image of the mode RGB.
    Raises:
        OSError: a file cannot be read.
        TypeError: source is nothing of these.
        ValueError: the picture is damaged, of an unknown format, has no pixels, has more than Pillow's limit, or is
            more than 200 times as long as it is wide.
        ModuleNotFoundError: Pillow is missing.
    """
    require(f"{caller}: ", ["PIL"], "'ggml-cython[vision]'")
    from PIL import Image, ImageOps

    name, given = "the picture", source
    if isinstance(source, str) and source[:5].lower() == "data:":
        given = data_of(source, caller)
    elif isinstance(source, str) and "://" in source[:16]:
        raise ValueError(f"{caller}: {source[:60]!r} is a URL: need a path, or a URL data:...;base64,...")
    elif isinstance(source, (str, os.PathLike)):
        name = os.fsdecode(source)
        try:
            with open(source, "rb") as file:
                given = file.read()
        except OSError as error:
            raise rename(error, caller) from None
    try:
        if isinstance(given, np.ndarray):
            return checked_size(from_array(given, caller), "the array", caller)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            if isinstance(given, (bytes, bytearray, memoryview)):
                given = Image.open(io.BytesIO(given))
            elif not isinstance(given, Image.Image):
                raise NotAPicture
            image = checked_size(given, name, caller)
            return on_white(ImageOps.exif_transpose(image))
    except NotAPicture:
        kind = type(source).__name__
        raise TypeError(
            f"{caller}: the picture is a {kind}: need a path, bytes, an image of Pillow or an array"
        ) from None
    except Refused as error:
        raise ValueError(str(error)) from None
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        limit = Image.MAX_IMAGE_PIXELS
        raise ValueError(f"{caller}: {name} has more than {limit} pixels, the limit of Pillow") from None
    except MemoryError:
        raise
    except Exception as error:  # decoders raise what they meet
        raise ValueError(f"{caller}: {name} is damaged or of an unknown format: {str(error)[:100]}") from None


class NotAPicture(Exception):
    """The value is of no kind that can be a picture."""


class Refused(Exception):
    """A picture is not accepted; the message says why."""


def checked_size(image: Any, name: str, caller: str) -> Any:
    """An image whose sides are accepted."""
    from PIL import Image

    width, height = image.size
    limit = Image.MAX_IMAGE_PIXELS
    if min(width, height) < 1 or max(width, height) > LONGEST * min(width, height):
        raise Refused(f"{caller}: {name} is {width} x {height}: need sides of at most {LONGEST} to 1")
    if limit is not None and width * height > limit:
        raise Refused(f"{caller}: {name} is {width} x {height}: need at most {limit} pixels, the limit of Pillow")
    return image


def from_array(values: np.ndarray, caller: str) -> Any:
    """An image of an array."""
    from PIL import Image

    shape = values.shape
    if values.dtype != np.uint8 or 0 in shape or len(shape) not in (2, 3) or shape[2:] not in ((), (3,), (4,)):
        raise Refused(
            f"{caller}: the array is {values.dtype} {list(shape)}: need uint8 [height, width], or with 3 or 4 channels"
        )
    return on_white(Image.fromarray(np.ascontiguousarray(values)))


def on_white(image: Any) -> Any:
    """An image in RGB, on white where it is transparent."""
    from PIL import Image

    if "A" not in image.getbands() and image.info.get("transparency") is None:
        return image.convert("RGB")
    white = Image.new("RGBA", image.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")


def data_of(url: str, caller: str) -> bytes:
    """The bytes in a data URL."""
    head, comma, data = url.partition(",")
    if not comma or not head.lower().endswith(";base64"):
        raise ValueError(f"{caller}: {url[:60]!r} is no URL of the form data:...;base64,...")
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{caller}: {url[:40]!r}: not base64: {error}") from None
