"""Encoders of pictures: for each kind of projector a row, and a module with its functions.

tiles(c, image) -> (list, grid)     the squares (images of Pillow) that are encoded, and a pair that tells where in
                                    the picture they lie
project(g, x, columns) -> x         the states of the patches [C, N], `columns` of them in a row, as embeddings of
                                    the language model [dim, tokens]
prompt(grid) -> list                what stands for the picture in a prompt: texts, and the numbers of tiles

and, where they are needed,

encode(g, pixels, columns) -> x     the states of the patches, of encoders unlike those of encoder.py
sides(c) -> pair                    of encoders for pictures of any shape: the pixels of a patch, and the fewest patches
                                    in a row and in a column
area(c)                             of encoders that give all pictures nearly the same number of pixels: this number
order(c, columns, rows)             the patches in the order in which the encoder computes them
lookup(columns, rows, count)        of a table of `count` positions for pictures of another shape, the row of each patch
positions(columns, rows)            the row and the column of each patch [2, N], of encoders with rotary positions,
rotated(g, x) -> x                  and these positions of heads
split(c, tiles, grid) -> list       the embeddings of the tiles in the parts that `prompt` numbers
places(grid) -> list                for each of these parts time, row and column of its tokens, [tokens, 3], for
                                    language models whose positions have these dimensions
"""

from __future__ import annotations

from typing import Any, NamedTuple

import ggml

from . import (
    clip,
    gemma3,
    gemma4v,
    idefics3,
    internvl,
    ldp,
    lfm2,
    llava,
    minicpm,
    minicpm46,
    pixtral,
    qwen2vl,
    qwen3vl,
    qwen25vl,
    siglip,
    siglip2,
)


class Projector(NamedTuple):
    """A row of the table.

    Attributes:
        module: module, or another object, with the functions tiles, project and prompt.
        mark: what chat templates write in place of a picture.
        gelu: the function that `clip.use_gelu` means in files of this kind.
        rms: whether the encoder has RMS norms.
        whole: whether the tokens of a picture see each other, rather than those before them alone.
        tokens: names of tokens, of which the vocabulary of a language model for this encoder has one; () for any.
        pooled: whether a picture has one embedding, to be compared with those of texts, and no mark.
    """

    module: Any
    mark: str
    gelu: Any = ggml.ggml_gelu
    rms: bool = False
    whole: bool = False
    pooled: bool = False
    tokens: tuple[str, ...] = ()


QWEN = "<|vision_start|><|image_pad|><|vision_end|>"
PROJECTORS = {
    "mlp": Projector(llava, "<image>"),
    "ldp": Projector(ldp, "<image>"),
    "ldpv2": Projector(ldp.SECOND, "<image>"),
    "gemma3": Projector(gemma3, "<start_of_image>", whole=True, tokens=("<start_of_image>",)),
    "gemma4v": Projector(gemma4v, "<|image|>", rms=True, tokens=("<|image|>", "<|image>")),
    "idefics3": Projector(idefics3, "<image>", tokens=("<image>", "<fake_token_around_image>")),
    "internvl": Projector(internvl, "<IMG_CONTEXT>", ggml.ggml_gelu_erf, tokens=("<IMG_CONTEXT>", "<img>")),
    "lfm2": Projector(lfm2, "<image>"),
    "minicpmv4_6": Projector(minicpm46, "<|image_pad|>", tokens=("<slice>",)),
    "resampler": Projector(minicpm, "(<image>./</image>)", tokens=("<slice>",)),
    "pixtral": Projector(pixtral, "[IMG]", ggml.ggml_gelu_erf, rms=True, tokens=("[IMG]",)),
    "qwen2vl_merger": Projector(qwen2vl, QWEN, ggml.ggml_gelu_erf),
    "qwen2.5vl_merger": Projector(qwen25vl, QWEN, ggml.ggml_gelu_erf, rms=True),
    "qwen3vl_merger": Projector(qwen3vl, QWEN),
    "clip": Projector(clip, "", ggml.ggml_gelu_erf, pooled=True),
    "siglip": Projector(siglip, "", pooled=True),
    "siglip2": Projector(siglip2, "", pooled=True),
}
