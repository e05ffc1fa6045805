"""Gradients by all weights, against those that PyTorch computes (scripts/record_hf_gradients.py)."""

import warnings

import numpy as np
import pytest

for library in ("safetensors", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import hf_models  # noqa: E402

from ggml.models import convert, load  # noqa: E402
from ggml.models.conversion.checkpoint import Checkpoint  # noqa: E402
from ggml.models.conversion.plan import plan_weights, row_of  # noqa: E402
from ggml.models.conversion.recurrent import negative_exp  # noqa: E402
from ggml.utils import to_numpy  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*has no tokenizer")


def directions(folder, record, number, model):
    """For each tensor of the file, the random tensor in its layout, and the tensors that it is made of.

    Of a tensor -exp(x) it is that by which it changes if x changes by the random one.
    """
    hf_models.write_folder(folder, record["config"], record["shapes"])
    hf_models.write_shard(folder / "model.safetensors", {
        name: hf_models.direction(name, tuple(shape), number) for name, shape in record["shapes"].items()})  # fmt: skip
    checkpoint = Checkpoint(folder)
    weights = plan_weights(checkpoint, row_of(checkpoint))
    for name, weight in weights.items():
        if weight.parts:
            logarithm = weight.part.function is negative_exp
            if logarithm:
                weight = weight._replace(part=weight.part._replace(function=None))
            values = np.stack(list(weight.matrices(checkpoint))).reshape(weight.shape).astype(np.float64)
            if logarithm:
                values *= to_numpy(model.runner.weights[name]).reshape(values.shape)
            plus = weight.part.plus if name.endswith(".weight") else 0
            yield name, values - plus, tuple(part.name for part in weight.parts)


@pytest.mark.parametrize("kind", hf_models.WITH_GRADIENTS)
def test_gradients_are_those_of_torch(kind, tmp_path):
    record = hf_models.record(kind)
    with np.load(hf_models.GRADIENTS) as data:
        expected = dict(zip(sorted(record["shapes"]), data[kind], strict=True))
    folder = hf_models.write_folder(tmp_path / "folder", record["config"], record["shapes"])
    with load(folder, threads=1, n_ctx=hf_models.ORIGINAL_CONTEXTS.get(kind)) as model:
        text, more = hf_models.tokens(hf_models.LENGTHS[0]), {}
        if kind in hf_models.ENCODER_DECODERS:
            more["decoder"] = hf_models.decoder_tokens(len(text))
        found = model.gradients(text, **more)
        assert all(values.dtype == np.float32 for values in found.values())
        # T5's scores have no factor: PyTorch's own gradients in f32 differ by 1.7e-4 from those in float64
        checked, bound = set(), 5e-4 if kind in hf_models.ENCODER_DECODERS else 1e-4
        for number in range(2):
            products = {}
            for name, values, parts in directions(tmp_path / "directions", record, number, model):
                assert values.shape == found[name].reshape(values.shape).shape
                products[parts] = products.get(parts, 0.0) + (values * found[name].reshape(values.shape)).sum()
                checked.add(name)
            for parts, product in products.items():
                norm = sum(expected[part][0] ** 2 for part in parts) ** 0.5
                assert abs(product - sum(expected[part][1 + number] for part in parts)) <= bound * norm, parts
        assert checked == set(found)


def test_gradients_of_quantised_weights_and_adapters(tmp_path):
    """Quantised weights count for what they stand for, and adapters in use count."""
    record = hf_models.record("qwen3")
    folder = hf_models.write_folder(tmp_path / "folder", record["config"], record["shapes"])
    convert(folder, tmp_path / "q8.gguf", "Q8_0")
    ids = hf_models.tokens(48)
    with load(tmp_path / "q8.gguf", threads=1, kv_type="f32") as model, load(folder, threads=1) as exact:
        quantised, plain = model.gradients(ids), exact.gradients(ids)
        for name, values in plain.items():
            assert np.linalg.norm(quantised[name] - values) < 0.1 * np.linalg.norm(values), name
        model.finetune([ids] * 4, tmp_path / "lora.gguf", rank=2, steps=4, tokens=48, rate=2e-2)
        model.set_lora(tmp_path / "lora.gguf")
        with_adapter = model.gradients(ids)
        assert not np.allclose(with_adapter["output_norm.weight"], quantised["output_norm.weight"], rtol=1e-3)
        model.set_lora()
        assert np.array_equal(model.gradients(ids)["output_norm.weight"], quantised["output_norm.weight"])


def test_wrong_tokens_are_named(tmp_path):
    record = hf_models.record("llama")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = load(hf_models.write_folder(tmp_path / "folder", record["config"], record["shapes"]), n_ctx=16)
    with model:
        for ids, message in {
            (3,): "need at least 2 tokens, got 1",
            (3, 64): "token 64: need",
            (3,) * 17: "0 . 17 tok",
        }.items():
            with pytest.raises(ValueError, match=f"^gradients: {message}"):
                model.gradients(ids)
    with pytest.raises(RuntimeError, match="^gradients: the model is closed"):
        model.gradients([3, 4])
    record = hf_models.record("bert")
    folder = hf_models.write_folder(tmp_path / "bert", record["config"], record["shapes"])
    with load(folder) as model, pytest.raises(ValueError, match="^gradients: .* gives embeddings only"):
        model.gradients([3, 4])
