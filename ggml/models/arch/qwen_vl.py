"""Qwen 2 VL (arXiv:2409.12191), 2.5 VL, 3 VL and 3.5: language models whose tokens of pictures have a row and a column.

The first layers of Qwen 3 VL add vectors to these tokens, which the encoder took from its own layers (DeepStack,
arXiv:2406.04334).
"""

from . import llama, qwen_moe, qwen_next


class Sees:
    """The functions of a language model, and what it does with pictures.

    Args:
        module: the model of texts.
    """

    def __init__(self, module):
        self.module = module
        self.embed, self.head = module.embed, module.head
        if hasattr(module, "caches"):
            self.caches = module.caches

    def keys(self, k):
        """The keys of the model of texts, the sections of positions, and the layers that add vectors."""
        own = self.module.keys(k) if hasattr(self.module, "keys") else {}
        sections = k.integers("rope.dimension_sections", 4, 0, low=0) if k.has("rope.dimension_sections") else ()
        return {
            **own,
            "sections": sections if any(sections) else (),
            "n_deepstack": k.integer("n_deepstack_layers", 0, low=0, high=k.integer("block_count", high=4096)),
        }

    def layer(self, g, i, x):
        """The layer, then x += the vectors of the pictures' tokens."""
        x = self.module.layer(g, i, x)
        if i >= g.config.n_deepstack or g.inputs.vectors is None:
            return x
        vectors = g.of_pictures(1 + i)
        return g.add(x, vectors if x.contents.ne[1] == g.n_tokens else g.last(vectors))


DENSE, EXPERTS, WITH_STATES = Sees(llama), Sees(qwen_moe), Sees(qwen_next)
