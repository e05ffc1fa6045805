"""The bindings' example `clip`, with the module of docs/bindings_examples.md, on a model of random weights in its file
format, against CLIP in NumPy.

GGML_CLIP names the example's model.py with the changes of that page: scripts/try_bindings_clip.sh sets it. The
functions below make the same ggml calls without it.
"""

import importlib.util
import os
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from bindings_clip import (
    EMBED,
    F32,
    HEADS,
    LAYERS,
    RESOLUTION,
    TOKENS,
    VISION_HEADS,
    WIDTH,
    features,
    random_weights,
    write,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "bindings_examples.md"


@pytest.fixture(scope="module")
def experimental():
    """The module of the page."""
    code = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)[-1]
    module = types.ModuleType("experimental")
    exec(compile(code, str(PAGE), "exec"), module.__dict__)
    return module


@pytest.fixture(scope="module")
def weights():
    return random_weights()


@pytest.fixture(scope="module")
def picture():
    return np.random.default_rng(4).normal(size=(1, 3, RESOLUTION, RESOLUTION)).astype(np.float16).astype(F32)


def check(found, wanted):
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, atol=2e-3 * np.abs(wanted).max(), rtol=0)


# ---- the same calls as the example's ---------------------------------------------------------------------------------
class Calls:
    """The operations of the example, in its order of arguments, on the page's Tensor."""

    def __init__(self, experimental, weights):
        self.T, self.types = experimental.Tensor, experimental.GGML_TYPE
        self.ctx = experimental.Context(experimental.InitParams(8 << 20))
        self.graph = experimental.CGraph(1, self.ctx)
        self.weights = {name: self.new(values) for name, values in weights.items()}

    def new(self, values):
        kind = {"e": self.types.F16, "f": self.types.F32, "i": self.types.I32}[values.dtype.char]
        tensor = getattr(self.T, f"new_tensor_{values.ndim}d")(kind, *values.shape[::-1], ctx=self.ctx)
        tensor.numpy()[:] = values.T
        return tensor

    def empty(self, *ne):
        return getattr(self.T, f"new_tensor_{len(ne)}d")(self.types.F32, *ne, ctx=self.ctx)

    def __getattr__(self, name):
        return lambda *args: getattr(self.T, name)(*args, ctx=self.ctx)

    def affine(self, x, name):
        scaled = self.mul(self.repeat(self.weights[f"{name}.weight"], x), x)
        return self.add(scaled, self.repeat(self.weights[f"{name}.bias"], x))

    def linear(self, x, name):
        y = self.mul_mat(self.weights[f"{name}weight"], x)
        return self.add(self.repeat(self.weights[f"{name}bias"], y), y)

    def block(self, x, name, heads, causal):
        width, n = x.shape[:2]
        both = self.linear(self.affine(self.norm(x), f"{name}ln_1"), f"{name}attn.in_proj_")
        parts = [self.view_2d(both, width, n, both.tensor.contents.nb[1], i * 4 * width) for i in range(3)]
        q, k, v = (self.cpy(part, self.empty(width // heads, heads, n)) for part in parts)
        scores = self.mul_mat(self.permute(k, 0, 2, 1, 3), self.permute(q, 0, 2, 1, 3))
        scores = self.scale(scores, self.new_f32(1 / np.sqrt(width / heads)))
        scores = self.soft_max(self.diag_mask_inf(scores, 0) if causal else scores)
        turned = self.cpy(self.permute(v, 1, 2, 0, 3), self.empty(n, width // heads, heads))
        mixed = self.cpy(self.permute(self.mul_mat(turned, scores), 0, 2, 1, 3), self.empty(width, n))
        x = self.add(x, self.linear(mixed, f"{name}attn.out_proj."))
        hidden = self.linear(self.affine(self.norm(x), f"{name}ln_2"), f"{name}mlp.c_fc.")
        hidden = self.scale(self.silu(self.scale(hidden, self.new_f32(1.702))), self.new_f32(1 / 1.702))
        return self.add(x, self.linear(hidden, f"{name}mlp.c_proj."))

    def computed(self, x, projection):
        turned = self.cpy(self.transpose(self.weights[projection]), self.empty(*self.weights[projection].shape[::-1]))
        y = self.mul_mat(turned, x)
        self.graph.build_forward_expand(y)
        self.graph.compute()
        return y.numpy().copy().reshape(1, -1)

    def encode_image(self, picture):
        x = self.conv_2d_sk_p0(self.weights["visual.conv1.weight"], self.new(picture))
        x = self.reshape_2d(x, x.shape[0] * x.shape[1], x.shape[2])
        first = self.weights["visual.class_embedding"]
        rows = self.set_1d(self.empty(x.shape[0] + 1, x.shape[1]), self.view_1d(first, WIDTH, 0), 0)
        turned = self.cpy(self.transpose(x), self.empty(*x.shape[:2]))
        rows = self.set_2d(rows, turned, x.tensor.contents.nb[1], first.nbytes())
        x = self.add(self.cpy(rows, self.empty(*rows.shape[1::-1])), self.weights["visual.positional_embedding"])
        x = self.affine(self.norm(x), "visual.ln_pre")
        for layer in range(LAYERS):
            x = self.block(x, f"visual.transformer.resblocks.{layer}.", VISION_HEADS, False)
        x = self.norm(self.view_2d(self.transpose(x), WIDTH, 1, 1, 0))
        return self.computed(self.reshape_2d(self.affine(x, "visual.ln_post"), WIDTH, 1), "visual.proj")

    def encode_text(self, text):
        x = self.get_rows(self.weights["token_embedding.weight"], self.new(text.astype(np.int32)))
        x = self.add(x, self.weights["positional_embedding"])
        for layer in range(LAYERS):
            x = self.block(x, f"transformer.resblocks.{layer}.", HEADS, True)
        x = self.affine(self.norm(x), "ln_final")
        row = x.tensor.contents.nb[1]
        return self.computed(self.view_2d(x, EMBED, 1, row, int(text.argmax()) * row), "text_projection")


def test_calls_of_clip_on_pictures(experimental, weights, picture):
    check(Calls(experimental, weights).encode_image(picture), features(weights, picture, TOKENS)[0])


def test_calls_of_clip_on_texts(experimental, weights, picture):
    found = [Calls(experimental, weights).encode_text(text) for text in TOKENS]
    check(np.concatenate(found), features(weights, picture, TOKENS)[1])


class Permuted(np.ndarray):
    """An array with the method of PyTorch's tensors that the example calls."""

    permute = np.ndarray.transpose


@pytest.mark.skipif("GGML_CLIP" not in os.environ, reason="GGML_CLIP is not set: scripts/try_bindings_clip.sh")
def test_the_example_itself(experimental, weights, picture, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "experimental", experimental)
    spec = importlib.util.spec_from_file_location("clip_model", os.environ["GGML_CLIP"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    write(tmp_path / "clip.ggml", weights)
    model = module.ClipModel.init_from_file(str(tmp_path / "clip.ggml"), verbose=False)
    image = picture.view(Permuted)
    seen, read = features(weights, picture, TOKENS)
    check(model.encode_image(image), seen)
    check(model.encode_text(TOKENS), read)
    per_image, per_text = model(image, TOKENS)
    cosines = (seen @ read.T) / np.linalg.norm(seen) / np.linalg.norm(read, axis=1)
    check(per_image, np.exp(weights["logit_scale"].astype(np.float64)) * cosines)
    check(per_text, per_image.T)
