"""Arguments with which a model is opened: types of keys and values, keys that are replaced, the vocabulary alone."""

import numpy as np
import pytest

for library in ("gguf", "jinja2", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import gguf  # noqa: E402
import structured  # noqa: E402
import tiny_models  # noqa: E402
from gguf.quants import dequantize  # noqa: E402
from tiny_models import IDS  # noqa: E402

import ggml  # noqa: E402
from ggml.models import load  # noqa: E402
from ggml.models.llama_cpp import Llama  # noqa: E402
from ggml.models.run.cache import raw  # noqa: E402

STEPS = {"bf16": 256, "q8_0": 127, "q5_1": 31, "q5_0": 16, "q4_1": 15, "q4_0": 8, "iq4_nl": 4}  # of a block's range


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("opening")
    tiny_models.write(folder / "gemma3.gguf", "gemma3")  # heads of 32 elements, as many as a block has
    tiny_models.write(folder / "llama.gguf", "llama")  # heads of 16
    structured.write_model(folder / "bytes.gguf")
    return folder


def stored(model):
    """The keys and the values of the first layer for IDS: f32 [G, N, D]."""
    pool = model.runner.memory.paged[0]
    cells = model.runner.sequences.items[0].tables[pool.window].last_cells(len(IDS))
    names = (ggml.ggml_type_name(t.contents.type).decode().upper() for t in pool.tensors)
    return [
        dequantize(raw(t)[:, cells], gguf.GGMLQuantizationType[name])
        for t, name in zip(pool.tensors, names, strict=True)
    ]


@pytest.mark.parametrize("kv_type", [*STEPS, ("q8_0", "q4_0"), ("q5_1", "f32")])
def test_types_of_keys_and_values(folder, kv_type):
    """What the first layer stores does not depend on what is stored: it is rounded to the type's precision."""
    with load(folder / "gemma3.gguf", n_ctx=64, threads=1, kv_type="f32") as model:
        logits, exact = model.feed(IDS), stored(model)
    with load(folder / "gemma3.gguf", n_ctx=64, threads=1, kv_type=kv_type) as model:
        found, rounded = model.feed(IDS), stored(model)
        assert 0 < np.abs(found - logits).max() < 0.6 * np.abs(logits).max()
        state = model.save_state()
        model.reset()
        model.load_state(state)
        assert model.held() == IDS
        assert np.array_equal(np.stack(stored(model)), np.stack(rounded))
    names = (kv_type, kv_type) if isinstance(kv_type, str) else kv_type
    for name, values, other in zip(names, exact, rounded, strict=True):
        step = np.abs(values).max(-1, keepdims=True) * 2 / STEPS.get(name, np.inf)
        assert (np.abs(values - other) <= 0.75 * step).all() and (np.abs(values - other).max() > 0) == (name != "f32")
    with load(folder / "gemma3.gguf", n_ctx=64, threads=1) as model, pytest.raises(ValueError, match="load_state: the"):
        model.load_state(state)


def test_wrong_types(folder):
    with pytest.raises(ValueError, match=r"load: kv_type is 'q4_0', a head has 16 elements: need a multiple of 32"):
        load(folder / "llama.gguf", kv_type=("f16", "q4_0"))
    for wrong, shown in (("q4_k", "'q4_k'"), (("f16", 3), "3"), (("f16",), r"\('f16',\)"), (None, "None")):
        with pytest.raises(ValueError, match=f"load: kv_type is {shown}: need one of f32, f16, bf16, q8_0"):
            load(folder / "llama.gguf", kv_type=wrong)


def test_keys_that_are_replaced(folder, tmp_path):
    """The logits are those of a file that has the other value."""
    path = tiny_models.write(tmp_path / "other.gguf", "llama", change={"llama.rope.freq_base": 500.0})
    options = {"n_ctx": 128, "threads": 1, "kv_type": "f32"}
    with load(path, **options) as model:
        expected = model.logits(IDS)
    changed = {"llama.rope.freq_base": 500.0, "my.key": "text"}
    with load(folder / "llama.gguf", kv_overrides=changed, **options) as model:
        assert np.array_equal(model.logits(IDS), expected) and model.metadata["my.key"] == "text"
        model.feed(IDS)
        state = model.save_state()
    with load(folder / "llama.gguf", **options) as model:
        assert not np.array_equal(model.logits(IDS), expected) and "my.key" not in model.metadata
        with pytest.raises(ValueError, match="load_state: the state is of another model"):
            model.load_state(state)
    with pytest.raises(TypeError, match="load: kv_overrides: 'llama.block_count' is '3.0': need a int, as in the file"):
        load(folder / "llama.gguf", kv_overrides={"llama.block_count": 3.0})
    with pytest.raises(TypeError, match="load: kv_overrides: 'a' is .*: need a bool, an int, a float or a str"):
        load(folder / "llama.gguf", kv_overrides={"a": [1]})
    with pytest.raises(ValueError, match="llama.block_count' is 0: need an integer"):
        load(folder / "llama.gguf", kv_overrides={"llama.block_count": 0})
    with Llama(
        folder / "bytes.gguf", n_ctx=64, n_threads=1, kv_overrides={"tokenizer.ggml.add_bos_token": True}
    ) as llama:
        assert llama.tokenize(b"a")[0] == llama.token_bos() and llama.metadata["tokenizer.ggml.add_bos_token"] == "true"


def test_types_of_a_llama(folder):
    kinds = {"type_k": ggml.GGML_TYPE_Q8_0, "type_v": ggml.GGML_TYPE_Q4_0}
    with Llama(folder / "gemma3.gguf", n_ctx=64, n_threads=1, **kinds) as llama:
        tensors = llama.model.runner.memory.paged[0]
        llama.model.feed(IDS)
        assert [t.contents.type for t in tensors.tensors] == list(kinds.values())


def test_vocabulary_alone(folder, tmp_path):
    """Also of a file without tensors, which llama.cpp has for its own tests."""
    reader = gguf.GGUFReader(folder / "bytes.gguf")
    writer = gguf.GGUFWriter(tmp_path / "vocabulary.gguf", "llama")
    for field in reader.fields.values():
        if field.name.startswith(("tokenizer", "llama")):
            kind = field.types[0]
            sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), kind, sub_type=sub)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with Llama(folder / "bytes.gguf", n_ctx=64, n_threads=1) as whole:
        for path in (folder / "bytes.gguf", tmp_path / "vocabulary.gguf"):
            with Llama(path, vocab_only=True) as llama:
                assert llama.tokenize(b"hello you") == whole.tokenize(b"hello you")
                assert llama.detokenize([104, 105]) == whole.detokenize([104, 105])
                assert (llama.n_vocab(), llama.n_embd(), llama.token_eos()) == (whole.n_vocab(), 64, whole.token_eos())
                assert llama.metadata["llama.block_count"] == "3" and llama.n_ctx() == tiny_models.CONTEXT
                for call in (lambda: llama("a"), lambda: llama.eval([1]), lambda: llama.embed("a")):  # noqa: B023
                    with pytest.raises(RuntimeError, match="Llama: the model was opened with vocab_only=True"):
                        call()
    with pytest.raises(OSError, match="no such file"):
        Llama("no such file", vocab_only=True)
    path = tiny_models.write(tmp_path / "none.gguf", "llama", drop=("tokenizer.ggml.model",))
    with pytest.raises(ValueError, match="tokenizer.ggml.model is None: need one of"):
        Llama(path, vocab_only=True)
