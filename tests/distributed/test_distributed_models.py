"""Language models that are divided among ranks: the results are those of one rank.

These tests run on any number of ranks, like those of test_distributed.py.
"""

import numpy as np
import pytest

for library in ("gguf", "jinja2", "tokenizers"):  # of the extra [test]
    pytest.importorskip(library)

import hf_models  # noqa: E402
import tiny_models  # noqa: E402
from ranks import comm  # noqa: E402
from tiny_models import IDS, VOCAB  # noqa: E402

from ggml.models import convert, load  # noqa: E402

RANK, SIZE = comm.rank, comm.size
CONVERTED = ["phi3", "glm4", "olmo2", "bitnet", "gpt-oss", "mixtral", "qwen2moe", "glm4moe", "llama4", "modern-bert"]
DECODERS = [kind for kind in tiny_models.SIZES if "bert" not in kind]
several = pytest.mark.skipif(SIZE == 1, reason="needs two ranks")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Each rank has its own copy of the models, which are written from a seed."""
    return tiny_models.write_all(tmp_path_factory.mktemp("models"))


def results(path, ids=IDS, **options):
    """Logits of a text that is computed in pieces, and of one token after another."""
    with load(path, n_ctx=64, threads=1, kv_type="f32", **options) as model:
        logits = model.logits(ids[:24])
        steps = [model.feed(ids[24:25]), model.feed(ids[25:26]), model.feed(ids[26:30])]
        return np.concatenate([logits, np.stack(steps)])


@pytest.mark.parametrize("kind, mmap", [*((kind, True) for kind in DECODERS), ("llama", False), ("gpt2", False)])
def test_logits_are_those_of_one_rank(folder, kind, mmap):
    path = folder / f"{kind}.gguf"
    np.testing.assert_allclose(results(path, comm=comm, mmap=mmap), results(path), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", CONVERTED)
@pytest.mark.filterwarnings("ignore:.*has no tokenizer")
def test_other_architectures(tmp_path, kind):
    """Gates and values in one matrix, sinks, norms over all heads, experts."""
    pytest.importorskip("safetensors")
    record, ids = hf_models.record(kind), hf_models.tokens(48)
    convert(hf_models.write_folder(tmp_path / "folder", record["config"], record["shapes"]), tmp_path / "model.gguf")
    if kind == "modern-bert":
        found = []
        for options in ({"comm": comm}, {}):
            with load(tmp_path / "model.gguf", threads=1, **options) as model:
                found.append(model.embed([ids[:9], ids[3:20]]))
    else:
        found = [results(tmp_path / "model.gguf", ids, **options) for options in ({"comm": comm}, {})]
    np.testing.assert_allclose(*found, rtol=0, atol=1e-5)
    if SIZE > 1:
        with load(tmp_path / "model.gguf", n_ctx=32, comm=comm) as model:
            matrices = [name for name in model.split.replicated if name.endswith("weight") and "norm" not in name]
            allowed = ("gate_inp",) if model.split.heads else ("gate_inp", "attn_sinks")
            assert all(any(part in name for part in allowed) for name in matrices), matrices


@several
@pytest.mark.parametrize("kind", ["deepseek3", "gemma4", "qwen35", "mamba2"])
@pytest.mark.filterwarnings("ignore:.*has no tokenizer")
def test_architectures_that_are_not_divided_are_named(tmp_path, kind):
    pytest.importorskip("safetensors")
    record = hf_models.record(kind)
    convert(hf_models.write_folder(tmp_path / "folder", record["config"], record["shapes"]), tmp_path / "model.gguf")
    with pytest.raises(ValueError, match="comm: architecture '.*' can't be divided among ranks"):
        load(tmp_path / "model.gguf", comm=comm)


@pytest.mark.parametrize("type_", ["Q8_0", "Q4_0"])
def test_quantised_weights(tmp_path, type_):
    """Products with few rows round the activations otherwise than products with many."""
    path = tiny_models.write(tmp_path / "model.gguf", "llama", type_)
    found, wanted = results(path, comm=comm), results(path)
    assert np.mean((found - wanted) ** 2) <= 3e-3 * np.mean(wanted**2)


@pytest.mark.parametrize("kind", ["bert", "nomic-bert"])
def test_embeddings_are_those_of_one_rank(folder, kind):
    found = []
    for options in ({"comm": comm}, {}):
        with load(folder / f"{kind}.gguf", threads=1, **options) as model:
            found.append(model.embed([IDS[:9], IDS[3:20]]))
    np.testing.assert_allclose(*found, rtol=0, atol=1e-5)


@several
@pytest.mark.parametrize("kind", DECODERS)
def test_a_rank_has_its_part_only(folder, kind):
    with load(folder / f"{kind}.gguf", n_ctx=32, comm=comm) as model:
        split = model.split
        whole = sum(4 * int(np.prod(shape)) for shape in tiny_models.shapes(kind).values())
        replicated = sum(split.replicated.values())
        matrices = [name for name in split.replicated if "norm" not in name and "bias" not in name]
        allowed = ("experts", "gate_inp", "exps", "position_embd", "rope_freqs")
        assert all(any(part in name for part in allowed) for name in matrices), matrices
        # heads of keys and values may be on several ranks; rows are shared out as whole ones
        assert split.bytes <= 1.15 * (whole - replicated) / SIZE + replicated + 4 * 64 * 200
        cached = model.runner.memory.paged[0].tensors[0].contents.ne[2]
        heads = model.config.n_head_kv
        assert cached == (max(1, heads // SIZE) if split.heads else heads)
    with load(folder / f"{kind}.gguf", n_ctx=32) as model:
        assert model.split is None


@several
def test_ranks_that_feed_different_tokens_are_named(folder):
    with load(folder / "llama.gguf", comm=comm) as model:
        with pytest.raises(RuntimeError, match=r"rank 0: tokens 2: \[5, 0\]; rank 1: tokens 2: \[5, 1\]"):
            model.feed([5, RANK])


def test_generated_texts_are_equal_without_a_seed(folder):
    with load(folder / "llama.gguf", n_ctx=64, comm=comm) as model:
        text = model.generate(IDS[:4], max_tokens=8, temperature=2.0)
        list(text)
    ranks = comm.collect(np.array(text.ids[:1] or [VOCAB]))
    assert (ranks == ranks[0]).all()


@several
def test_what_needs_the_whole_model_is_refused(folder, tmp_path):
    lora = tiny_models.write_lora(tmp_path / "lora.gguf", "llama")
    with load(folder / "llama.gguf", comm=comm) as model:
        for call in (lambda: model.set_lora(lora), lambda: model.finetune("text", tmp_path / "out.gguf")):
            with pytest.raises(ValueError, match=f"divided among {SIZE} ranks"):
                call()
    with pytest.raises(ValueError, match="lora and comm"):
        load(folder / "llama.gguf", comm=comm, lora=[lora])


def test_bad_arguments(folder):
    with pytest.raises(ValueError, match="load: split is 'layer'"):
        load(folder / "llama.gguf", comm=comm, split="layer")
