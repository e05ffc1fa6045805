"""Adapters of a model with an encoder and a decoder: gradients are those of PyTorch, and pairs of texts are learned."""

import numpy as np
import pytest

for library in ("safetensors", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import hf_models  # noqa: E402

from ggml.models import load  # noqa: E402
from ggml.models.train.adapter import Adapter  # noqa: E402
from ggml.models.train.data import pair_rows, pairs_of  # noqa: E402
from ggml.models.train.graph import Trainer  # noqa: E402
from ggml.utils import to_numpy  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*has no tokenizer")
PAIRS = [(hf_models.tokens(9 + i, i), [*hf_models.tokens(5 + i % 3, 50 + i), 1]) for i in range(4)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    record = hf_models.record("t5+gated")
    folder = hf_models.write_folder(tmp_path_factory.mktemp("t5") / "folder", record["config"], record["shapes"])
    with load(folder, threads=1) as model_:
        yield model_


def loss_of(model, pairs):
    """The mean loss of what is written."""
    found = []
    for read, written in pairs:
        logits = model.logits(read, decoder=[0, *written[:-1]]).astype(np.float64)
        shares = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        found += list(-shares[np.arange(len(written)), written])
    return np.mean(found)


@pytest.mark.parametrize("sizes", [(19, 11), (32, 16)])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_gradients_equal_pytorch(sizes, checkpoint, model):
    """Against what PyTorch computes in float64 (scripts/record_lora_gradients.py), also of texts that are padded."""
    shapes = model.finetuning.shapes(list(hf_models.T5_ADAPTED))
    assert list(shapes) and len(shapes) == len(hf_models.T5_ADAPTED)
    adapter = Adapter(shapes, hf_models.T5_RANK, hf_models.T5_ALPHA, 0, 1)
    for name, tensor in adapter.tensors.items():
        values = to_numpy(tensor)
        values[...] = hf_models.weight(name, values.shape, 7)
    trainer = Trainer(model.runner.parts(), adapter, sizes[0], checkpoint, 1, written=sizes[1])
    try:
        (row,) = pair_rows([hf_models.t5_pair()], sizes, 0)
        adapter.zero_gradients()
        loss = trainer.loss(row, row.n_targets)
        with np.load(hf_models.T5_LORA) as recorded:
            assert np.isclose(loss, recorded["loss"], rtol=1e-6)
            assert set(recorded.files) == adapter.gradients.keys() | {"loss"}
            for name, gradient in adapter.gradients.items():
                expected = recorded[name]
                assert np.abs(to_numpy(gradient) - expected).max() < 1e-4 * np.abs(expected).max(), name
    finally:
        trainer.close()
        adapter.close()


@pytest.mark.parametrize("targets", [None, "dec.*", "enc.blk.1.attn_v"])
def test_pairs_are_learned(targets, model, tmp_path):
    path, chosen = tmp_path / "lora.gguf", {"targets": targets} if targets else {}
    options = {"rank": 4, "accumulate": 2, "rate": 2e-2, "validation": PAIRS, "validate_every": 6, **chosen}
    result = model.finetune(PAIRS, path, steps=12, **options)
    before, after = result.validation[0][1], result.validation[-1][1]
    assert loss_of(model, PAIRS) == pytest.approx(before, rel=1e-5)
    assert after < (0.95 if targets == "enc.blk.1.attn_v" else 0.6) * before
    state = tmp_path / "state.npz"
    model.finetune(PAIRS, tmp_path / "half.gguf", steps=12, state=state, **options, callbacks=lambda s: s.step == 6)
    resumed = model.finetune(PAIRS, tmp_path / "again.gguf", steps=12, state=state, resume=True, **options)
    assert resumed.losses == result.losses and resumed.tokens == result.tokens
    model.set_lora(path)
    try:
        assert loss_of(model, PAIRS) == pytest.approx(after, rel=1e-4)
    finally:
        model.set_lora()


def test_adapters_have_pairs_beside_all_matrices_of_layers(model):
    names = set(model.finetuning.shapes(model.finetuning.finetune.__kwdefaults__["targets"]))
    parts = ("attn_q", "attn_k", "attn_v", "attn_o", "ffn_gate", "ffn_up", "ffn_down")
    cross = [f"cross_attn_{part}" for part in "qkvo"]
    assert names == {f"{side}.blk.{i}.{part}.weight" for side in ("enc", "dec") for i in range(3)
                     for part in (*parts, *(cross if side == "dec" else ()))}  # fmt: skip


def test_a_message_and_its_answer_are_a_pair(model):
    chats = [[{"role": "user", "content": read}, {"role": "assistant", "content": written}] for read, written in PAIRS]
    assert pairs_of(chats, list) == pairs_of(PAIRS, list) == PAIRS
    for chat in (chats[0][::-1], [*chats[0], chats[0][0]], [chats[0][0], {"role": "assistant"}]):
        with pytest.raises(TypeError, match="^finetune: item 1 of the data is"):
            model.finetune([chats[0], chat], "lora.gguf")


def test_wrong_data_is_named(model, tmp_path):
    for data, kind, message in [
        ("a text", TypeError, "data is a str: need a list of pairs of texts"),
        ([[3, 4], [5, 6]], TypeError, r"item 0 of the data is '\[3, 4\]': need a list of pairs"),
        ([([3], [4], [5])], TypeError, "item 0 of the data is"),
        ([([3], [4]), ([3], [99])], ValueError, "token 99: need ids from 0 to 63"),
        ([([3], [])], TypeError, "item 0 of the data is"),
        ([], ValueError, "there is nothing to train on"),
        ([([3] * 20, [4])], ValueError, r"a text has 20 tokens: need at most 16 \(tokens\)"),
    ]:
        with pytest.raises(kind, match=f"^finetune: {message}"):
            model.finetune(data, tmp_path / "lora.gguf", tokens=16, steps=1)
    with pytest.raises(ValueError, match="^finetune: validation is 1.5"):
        model.finetune(PAIRS, tmp_path / "lora.gguf", validation=1.5)
    assert not list(tmp_path.iterdir())
