"""Adapters of encoders: gradients are those of PyTorch; classes and embeddings are learned, and kept in files."""

import json

import numpy as np
import pytest

for library in ("safetensors", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import encoder_texts  # noqa: E402
import hf_models  # noqa: E402
from encoder_training import (  # noqa: E402
    adapter_of,
    check_texts_are_learned,
    items_of,
    loss_of_classes,
    loss_of_texts,
    trainer_of,
)
from hf_tokenizers import word_pieces  # noqa: E402

from ggml._cli import main  # noqa: E402
from ggml.models import convert, load, read_examples  # noqa: E402
from ggml.models.train.texts import HIDDEN, Item, Text, Texts  # noqa: E402
from ggml.utils import to_numpy  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*has no tokenizer")
POOLING = {"mean": 1, "cls": 2, "last": 3}
IDS = [hf_models.tokens(6 + i, i) for i in range(4)]


def file_of(folder, kind, words=False):
    record = hf_models.record(kind)
    saved = hf_models.write_folder(folder / "folder", record["config"], record["shapes"])
    if words:
        word_pieces(saved)
    convert(saved, folder / "model.gguf")
    return folder / "model.gguf"


def opened(folder, kind, pooling=None, words=False):
    """A model of a kind, with the pooling whose gradients are recorded, or another one."""
    path, options = file_of(folder, kind, words), {}
    known = encoder_texts.KINDS.get(kind)
    if pooling or (known and known.width > 1):
        options["kv_overrides"] = {f"{kind.partition('+')[0]}.pooling_type": POOLING[pooling or known.pooling]}
    return load(path, threads=1, kv_type="f32", **options)


@pytest.mark.parametrize("kind", encoder_texts.KINDS)
@pytest.mark.parametrize(("batch", "checkpoint"), [(4, False), (6, True)])
def test_gradients_equal_pytorch(batch, checkpoint, kind, tmp_path):
    """Against what PyTorch computes in float64 (scripts/record_lora_gradients.py), also of rows with absent texts."""
    with opened(tmp_path, kind) as model:
        items = items_of(model, kind)
        texts = Texts(items * 2, items, 64, batch, model.n_ctx)
        shapes = model.finetuning.shapes(list(encoder_texts.KINDS[kind].adapted), pools=True)
        assert len(shapes) == len(encoder_texts.KINDS[kind].adapted)
        adapter = adapter_of(shapes)
        trainer = trainer_of(model, adapter, texts, checkpoint)
        try:
            row = texts.row(items)
            assert row.n_targets == 4
            adapter.zero_gradients()
            loss = trainer.loss(row, row.n_targets)
            with np.load(encoder_texts.RECORDED) as recorded:
                assert np.isclose(loss, recorded[f"{kind}/loss"], rtol=1e-5)
                for name, gradient in adapter.gradients.items():
                    expected = recorded[f"{kind}/{name}"]
                    error = np.abs(to_numpy(gradient).reshape(expected.shape) - expected).max()
                    assert error < 1e-4 * np.abs(expected).max(), name
        finally:
            trainer.close()
            adapter.close()


@pytest.mark.parametrize("kind", [kind for kind in hf_models.ENCODERS if kind not in ("bert+tanh", "t5encoder")])
def test_embeddings_are_learned(kind, tmp_path):
    with opened(tmp_path, kind) as model:
        check_texts_are_learned(model, tmp_path)


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_embeddings_of_a_model_that_writes_are_learned(pooling, tmp_path):
    """Of a file that says how its texts are pooled; on texts alone it learns to write."""
    with opened(tmp_path, "qwen3", pooling) as model:
        result, *_ = check_texts_are_learned(model, tmp_path)
        assert result.parameters > model.finetune(IDS, tmp_path / "texts.gguf", steps=1, rank=1, tokens=16).parameters
    with load(tmp_path / "model.gguf", threads=1) as model, pytest.raises(TypeError, match="^finetune: the tokens are"):
        model.finetune([tuple(IDS[:2])], tmp_path / "lora.gguf")


def test_a_training_goes_on_and_rows_may_be_checkpointed(tmp_path):
    with opened(tmp_path, "t5encoder") as model:
        _, items, settings = check_texts_are_learned(model, tmp_path)
        settings |= {"steps": 10, "batch": 3, "validation": 0.25, "accumulate": 2}
        result = model.finetune(items, tmp_path / "whole.gguf", **settings)
        files = {"state": tmp_path / "state.npz", "checkpoint": True}
        model.finetune(items, tmp_path / "half.gguf", **settings, **files, callbacks=lambda step: step.step == 4)
        resumed = model.finetune(items, tmp_path / "again.gguf", **settings, **files, resume=True)
        assert resumed == result and (tmp_path / "again.gguf").read_bytes() == (tmp_path / "whole.gguf").read_bytes()
        for change, name in (({"batch": 2}, "batch"), ({"temperature": 0.1}, "temperature")):
            with pytest.raises(ValueError, match=f"is of a training with {name}"):
                model.finetune(items, tmp_path / "x.gguf", **{**settings, **change}, **files, resume=True)


@pytest.mark.parametrize("kind", hf_models.CLASSIFIERS)
@pytest.mark.parametrize("targets", [None, "cls*", "blk.1.ffn_down"])
def test_classes_are_learned(targets, kind, tmp_path):
    with opened(tmp_path, kind) as model:
        n, path, chosen = model.classify([]).shape[1], tmp_path / "lora.gguf", {"targets": targets} if targets else {}
        texts, labels = IDS * 2, [0.0, 1.0, 0.25, 0.75] * 2 if n == 1 else [0, 1, n - 1, 0] * 2
        data = list(zip(texts, labels, strict=True))
        result = model.finetune(data, path, steps=16, rank=4, rate=1e-2, batch=3, validation=data, **chosen)
        (_, before), *_, (_, after) = result.validation
        assert np.isclose(loss_of_classes(model.classify(texts), labels), before, rtol=1e-4)
        assert after < 0.9 * before
        model.set_lora(path)
        assert np.isclose(loss_of_classes(model.classify(texts), labels), after, rtol=1e-3)
        model.set_lora()
        model.add_adapter("new", path)
        assert np.isclose(loss_of_classes(model.classify(texts, adapter="new"), labels), after, rtol=1e-3)


def test_queries_and_documents_are_ranked(tmp_path):
    """Pairs of texts become what `rank` makes of them, and labels have names."""
    words = ["one", "two", "three", "four", "five"]
    with opened(tmp_path, "bert+classes", words=True) as model:
        data = [((a, b), "bad" if a == b else "good") for a in words[:3] for b in words]
        model.finetune(data, tmp_path / "lora.gguf", steps=40, rate=1e-2, validation=0)
        model.set_lora(tmp_path / "lora.gguf")
        scores = model.classify([pair for pair, _ in data])
        assert [model.labels[i] for i in scores.argmax(1)] == [label for _, label in data]
        model.set_lora()
        model.add_adapter("bad", tmp_path / "lora.gguf")
        assert model.rank("one", words, adapter="bad").argmax() == 0
        with pytest.raises(ValueError, match="^rank: there is no adapter 'good'"):
            model.rank("one", words, adapter="good")


def test_dense_layers_are_trained_where_they_are_named(tmp_path):
    record = hf_models.record("gemma-embedding")
    folder = hf_models.write_folder(tmp_path / "folder", record["config"], record["shapes"])
    parts = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"), ("3_Dense", "Dense")]
    (folder / "modules.json").write_text(json.dumps(
        [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{name}"}
         for i, (path, name) in enumerate(parts)]))  # fmt: skip
    for path, shape in (("1_Pooling", None), ("2_Dense", (96, 64)), ("3_Dense", (64, 96))):
        (folder / path).mkdir()
        settings = {"word_embedding_dimension": 64, "pooling_mode_mean_tokens": True} if shape is None else {
            "in_features": shape[1], "out_features": shape[0], "bias": False,
            "activation_function": "torch.nn.modules.linear.Identity"}  # fmt: skip
        (folder / path / "config.json").write_text(json.dumps(settings))
        if shape:
            values = {"linear.weight": hf_models.weight(path, shape, 0)}
            hf_models.write_shard(folder / path / "model.safetensors", values)
    with load(folder, threads=1, kv_type="f32") as model:
        default = set(model.finetuning.shapes(model.finetuning.finetune.__kwdefaults__["targets"], pools=True))
        assert not any("dense" in name for name in default)
        check_texts_are_learned(model, tmp_path, targets=["dense_*"])


def test_the_same_document_is_not_wrong_for_its_query():
    first, second, third = (Text(ids, [0] * len(ids)) for ids in IDS[:3])
    items = [Item((first, second)), Item((third, second)), Item((third, first))]
    texts = Texts(items * 2, [], 64, 4, 64)
    row = texts.row(items)
    assert (row.hidden == HIDDEN).tolist() == [[False, True, False, True], [True, False, False, True],
                                               [False, False, False, True], [False] * 4]  # fmt: skip
    assert row.shares.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0] * 4]
    assert row.n_targets == 3 and row.ids.shape == (8 * 8,)
    assert row.lengths.tolist() == [6, 8, 8, 1, 7, 7, 6, 1]


def test_wrong_documents_count(tmp_path):
    with opened(tmp_path, "bert") as model:
        items = [tuple(hf_models.tokens(6 + i + j, i + 9 * j) for j in range(3)) for i in range(4)]
        options = {"batch": 4, "temperature": 0.3, "validation": items, "steps": 6, "rate": 1e-2}
        result = model.finetune(items, tmp_path / "lora.gguf", **options)
        assert np.isclose(loss_of_texts(model.embed, items, 0.3), result.validation[0][1], rtol=1e-4)
        single = model.finetune(items[:1], tmp_path / "lora.gguf", **options | {"batch": 1, "validation": 0})
        assert single.losses[-1] < single.losses[0]


@pytest.mark.parametrize(("kind", "data", "error", "message"), [
    ("bert", "a text", TypeError, "data is a str: need a list of pairs of texts that belong"),
    ("bert", IDS, TypeError, "item 0 of the data is"),
    ("bert", [IDS[:2], IDS[:3]], ValueError, "item 1 of the data has 3 texts, the first has 2"),
    ("bert", [IDS[:2], [[3], [99]]], ValueError, "token 99: need ids from 0 to 63"),
    ("bert", [], ValueError, "there is nothing to train on"),
    ("bert", [IDS[:2]], ValueError, "a pair of texts alone"),
    ("bert", [[[3] * 20, [4]]] * 2, ValueError, r"a text has 20 tokens: need at most 16 \(tokens\)"),
    ("bert+classes", IDS, TypeError, r"item 0 of the data is .*: need a list of \(text, label\)"),
    ("bert+classes", [(IDS[0], 3)], ValueError, "the label of item 0 is '3': need the number of a class, 0 to 2, or "
     "one of 'bad', 'middling', 'good'"),
    ("bert+classes", [(IDS[0], "worst")], ValueError, "the label of item 0 is 'worst'"),
    ("bert+classes", [(IDS[0], 1.5)], ValueError, "the label of item 0 is '1.5'"),
    ("bert+classes", [(IDS[0], float("nan"))], ValueError, "the label of item 0 is 'nan'"),
    ("bert+classes", [(IDS[0], True)], ValueError, "the label of item 0 is 'True'"),
    ("roberta+classes", [(IDS[0], 2)], ValueError, "the label of item 0 is '2': need a number from 0 to 1"),
    ("roberta+classes", [(IDS[0], float("nan"))], ValueError, "the label of item 0 is 'nan'"),
])  # fmt: skip
def test_wrong_data_is_named(kind, data, error, message, tmp_path):
    with opened(tmp_path, kind) as model:
        with pytest.raises(error, match=f"^finetune: {message}"):
            model.finetune(data, tmp_path / "lora.gguf", tokens=16, steps=1)
        assert not (tmp_path / "lora.gguf").exists()


def test_wrong_arguments_are_named(tmp_path):
    with opened(tmp_path, "bert+classes") as model:
        data = [(IDS[0], 1), (IDS[1], 0)]
        for change, message in [
            ({"batch": 0}, "batch is 0: need an integer from 1 to 65536"), ({"batch": 2.0}, "batch is 2.0"),
            ({"temperature": 0.1}, "temperature is given: it is of texts that are compared"),
            ({"temperature": 0}, "temperature is 0: need a number from 0.0001"),
            ({"validation": 1.5}, "validation is 1.5"), ({"targets": "output"}, "targets are"),
        ]:  # fmt: skip
            with pytest.raises(ValueError, match=f"^finetune: {message}"):
                model.finetune(data, tmp_path / "lora.gguf", steps=1, **change)
    with (
        opened(tmp_path, "bert") as model,
        pytest.raises(ValueError, match="^finetune: items of the data and of the val"),
    ):
        model.finetune([IDS[:2]] * 3, tmp_path / "lora.gguf", validation=[IDS[:3]])
    with opened(tmp_path, "qwen3") as model:
        for change in ({"batch": 2}, {"temperature": 0.1}):
            with pytest.raises(
                ValueError, match="^finetune: .* is given: it is for models with classes or of embeddings"
            ):
                model.finetune(IDS, tmp_path / "lora.gguf", **change)


# ---- files -----------------------------------------------------------------------------------------------------------
def test_read_examples():
    chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    values = {
        json.dumps({"messages": chat}): chat, json.dumps(chat): chat, '{"text": "a", "label": 1}': ("a", 1),
        '{"text": ["a", "b"], "label": "good"}': (("a", "b"), "good"), '{"query": "a", "positive": "b"}': ("a", "b"),
        '{"anchor": "a", "positive": "b", "negative": "c"}': ("a", "b", "c"),
        '{"query": "a", "positive": "b", "negative": ["c", "d"]}': ("a", "b", "c", "d"),
    }  # fmt: skip
    assert read_examples(values) == read_examples([*map(str.encode, values), b" "]) == list(values.values())
    texts = ('{"text": "a"}', '{"text": ["a"], "label": 1}', '{"text": [1, 2], "label": 1}', '{"query": "a"}')
    for bad in (*texts, '{"query": "a", "positive": 3}', '{"query": "a", "positive": "b", "negative": {}}', "{", "3",
                "[]", "[" * 9999):  # fmt: skip
        with pytest.raises(ValueError, match="^read_examples: x.jsonl, line 2"):
            read_examples(["", bad], "x.jsonl")


def test_the_command_trains_classes_and_embeddings(tmp_path, capsys):
    words = ["one", "two", "three", "four"]
    lines = [json.dumps({"text": [a, b], "label": "bad" if a == b else "good"}) for a in words for b in words]
    (tmp_path / "labels.jsonl").write_text("\n".join(lines))
    lines = [json.dumps({"query": a, "positive": b}) for a, b in zip(words, words[1:], strict=False)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    for kind, data, more in [("bert+classes", "labels.jsonl", []), ("bert", "pairs.jsonl", ["--temperature", "0.1"])]:
        (tmp_path / kind).mkdir()
        model, out = file_of(tmp_path / kind, kind, words=True), tmp_path / kind / "lora.gguf"
        arguments = ["finetune", model, tmp_path / data, "--lora", out, "--steps", "2", "--batch", "3", *more]
        assert main([str(argument) for argument in arguments]) == 0
        assert "trained numbers, 2 steps" in capsys.readouterr().out
        load(model, lora=[out]).close()
    arguments = ["finetune", model, tmp_path / "labels.jsonl", "--lora", tmp_path / "no", "--steps", "1"]
    assert main([str(argument) for argument in arguments]) == 1
    assert "item 0 of the data is" in capsys.readouterr().err and not (tmp_path / "no").exists()
