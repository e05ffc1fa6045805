"""Encoders of pictures: for each kind of projector a row, and a module with its functions.

tiles(c, image) -> (list, grid)     the squares (images of Pillow) that are encoded, and a pair that tells where in
                                    the picture they lie
project(g, x, columns) -> x         the states of the patches [C, N], `columns` of them in a row, as embeddings of
                                    the language model [dim, tokens]
prompt(grid) -> list                what stands for the picture in a prompt: texts, and the numbers of tiles

and, where they are needed,

positions(columns, rows)            the row, then the column of each patch, of encoders with rotary positions
encode(g, pixels) -> x              the states of the patches, in place of encoder.encode
split(tiles, grid) -> list          the embeddings of the tiles in the parts that `prompt` numbers
"""

from __future__ import annotations

from typing import Any, NamedTuple

import ggml

from . import clip, gemma3, gemma4v, idefics3, internvl, llava, pixtral, siglip


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


PROJECTORS = {
    "mlp": Projector(llava, "<image>"),
    "gemma3": Projector(gemma3, "<start_of_image>", whole=True, tokens=("<start_of_image>",)),
    "gemma4v": Projector(gemma4v, "<|image|>", rms=True, tokens=("<|image|>", "<|image>")),
    "idefics3": Projector(idefics3, "<image>", tokens=("<image>", "<fake_token_around_image>")),
    "internvl": Projector(internvl, "<IMG_CONTEXT>", ggml.ggml_gelu_erf, tokens=("<IMG_CONTEXT>", "<img>")),
    "pixtral": Projector(pixtral, "[IMG]", ggml.ggml_gelu_erf, rms=True, tokens=("[IMG]",)),
    "clip": Projector(clip, "", ggml.ggml_gelu_erf, pooled=True),
    "siglip": Projector(siglip, "", pooled=True),
}
