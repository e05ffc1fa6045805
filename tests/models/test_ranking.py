"""Classifiers and rerankers, against what transformers computes; embeddings without pooling and with dense layers."""

import json
import warnings

import numpy as np
import pytest

for library in ("safetensors", "tokenizers", "jinja2"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import hf_models  # noqa: E402
import tokenizers  # noqa: E402
from hf_tokenizers import WORDS, add_tokenizer, word_pieces  # noqa: E402
from tokenizers import pre_tokenizers, processors  # noqa: E402

from ggml._cli import main  # noqa: E402
from ggml.models import convert, load  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*has no tokenizer")


def folder_of(path, kind, **change):
    record = hf_models.record(kind)
    return hf_models.write_folder(path, {**record["config"], **change}, record["shapes"])


def byte_level(folder, after=None, special=(), **settings):
    """A vocabulary of bytes, and of the words that merges make; ids below 64."""
    letters = sorted(set("".join(WORDS) + "<>Ġ-:?.|'Aasuer"))
    merges, names = [], [*special, *letters]
    for word in WORDS:
        for i in range(1, len(word)):
            pair = word[:i], word[i]
            if pair not in merges:
                merges.append(pair)
                names.append(word[: i + 1])
    model = tokenizers.models.BPE({name: i for i, name in enumerate(dict.fromkeys(names))}, merges)
    split = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return add_tokenizer(folder, model, split, after, special, **settings)


@pytest.mark.parametrize("kind", hf_models.CLASSIFIERS)
def test_classes_are_those_of_transformers(kind, tmp_path):
    convert(folder_of(tmp_path / "folder", kind), tmp_path / "model.gguf")
    record = hf_models.record(kind)
    labels = {"bert+classes": ("bad", "middling", "good"), "qwen3+classes": ("LABEL_0", "LABEL_1")}.get(kind, ())
    texts = [hf_models.tokens(length) for length in hf_models.LENGTHS] * 2
    types = [hf_models.types(kind, len(text)) or [0] * len(text) for text in texts]
    with load(tmp_path / "model.gguf", kv_type="f32", threads=1) as model, load(tmp_path / "folder") as folder:
        found = model.classify(texts, types=types)
        assert model.labels == folder.labels == labels
        assert found.dtype == np.float32 and found.shape == (4, max(1, len(labels)))
        for row, length in zip(found, hf_models.LENGTHS * 2, strict=True):
            assert hf_models.error(row, record[str(length)]) < 1e-9
        assert model.classify([]).shape == (0, max(1, len(labels)))


def test_pairs_of_words_are_those_of_the_library(tmp_path):
    folder = folder_of(tmp_path / "folder", "bert+classes")
    tokenizer = word_pieces(folder)
    convert(folder, tmp_path / "model.gguf")
    with load(tmp_path / "model.gguf", threads=1) as model:
        pairs = [("one two", "three"), ("five", "four three two"), ("no [SEP] one", "yes")]
        expected = [tokenizer.encode(a, b) for a, b in pairs[:2]]
        assert [model.tokenizer.pair(*pair) for pair in pairs[:2]] == [pair.ids for pair in expected]
        scores = model.classify([pair.ids for pair in expected], types=[pair.type_ids for pair in expected])
        assert np.allclose(model.classify(pairs[:2]), scores, atol=1e-5)
        assert np.allclose(model.rank("one two", ["three"]), scores[:1, 0], atol=1e-5)
        zeros = [[0] * len(pair.ids) for pair in expected]
        assert not np.allclose(model.classify([pair.ids for pair in expected], types=zeros), scores, atol=1e-2)
        assert model.tokenizer.pair(*pairs[2]).count(3) == 2  # a name in a text is text


def test_pairs_of_roberta_have_two_separators(tmp_path):
    folder = folder_of(tmp_path / "folder", "roberta+classes")
    special = ("<s>", "<pad>", "</s>", "<unk>")
    after = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    tokenizer = byte_level(folder, after, special, bos_token="<s>", eos_token="</s>", sep_token="</s>")
    convert(folder, tmp_path / "model.gguf")
    with load(tmp_path / "model.gguf", threads=1) as model:
        expected = tokenizer.encode("one", "two three").ids
        assert expected.count(2) == 3 and model.tokenizer.pair("one", "two three") == expected
        ranks = model.rank("one", ["two three", "five"])
        assert ranks.shape == (2,) and np.isclose(ranks[0], model.classify([expected])[0, 0], rtol=1e-4)


def test_rerankers_answer_yes_or_no(tmp_path):
    """The first score is the soft-max over the logits of "yes" and "no" after the template."""
    folder = folder_of(tmp_path / "Qwen3-Reranker-tiny", "qwen3")
    special = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
    byte_level(folder, None, special, eos_token="<|im_end|>")
    convert(folder, tmp_path / "model.gguf")
    with load(tmp_path / "model.gguf", kv_type="f32", threads=1) as model:
        template = model.metadata["tokenizer.chat_template.rerank"]
        documents = ["two", "three four five"]
        text = [template.replace("{query}", "one").replace("{document}", document) for document in documents]
        ids = [model.tokenize(t, special=True) for t in text]
        assert ids[0].count(0) == 3  # <|im_start|>
        answers = [model.tokenizer.find("yes"), model.tokenizer.find("no")]
        logits = np.array([model.logits(i)[-1, answers] for i in ids], np.float64)
        expected = 1 / (1 + np.exp(logits[:, 1] - logits[:, 0]))
        assert np.allclose(model.rank("one", documents), expected, rtol=1e-4)
        assert model.labels == ("yes", "no")
        sly = model.tokenizer.filled(template, {"query": "one", "document": "<|im_end|>{query}"})
        assert sly.count(1) == ids[0].count(1) and sly.count(0) == 3
        assert model.embed([ids[0]]).shape == (1, 64)
        data = [(("one", document), label) for document, label in zip(documents, ("no", "yes"), strict=True)] * 4
        model.finetune(data, tmp_path / "lora.gguf", steps=30, rate=5e-3, batch=8, validation=0)
        model.set_lora(tmp_path / "lora.gguf")
        scores = model.rank("one", documents)
        assert scores[0] < 0.3 and scores[1] > 0.7


def test_texts_end_as_the_post_processor_says(tmp_path):
    """As Qwen3-Embedding: texts end with a token that does not end a turn; the last state counts."""
    folder = folder_of(tmp_path / "folder", "qwen3")
    special = ("<|im_end|>", "<|endoftext|>")
    after = processors.TemplateProcessing(single="$A <|endoftext|>", pair="$A <|endoftext|> $B <|endoftext|>",
                                          special_tokens=[("<|endoftext|>", 1)])  # fmt: skip
    tokenizer = byte_level(folder, after, special, eos_token="<|im_end|>")
    (folder / "modules.json").write_text(json.dumps([
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]))  # fmt: skip
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_lasttoken": true}')
    convert(folder, tmp_path / "model.gguf")
    with load(tmp_path / "model.gguf", threads=1) as model:
        ids = model.tokenize("one two")
        assert ids == tokenizer.encode("one two").ids and ids[-1] == model.tokenizer.eos == 1
        assert model.tokenizer.eog >= {0, 1}
        assert np.array_equal(model.embed(["one two"]), model.embed([ids], pooling="last"))


def test_states_of_all_tokens(tmp_path):
    for kind in ("bert", "qwen3"):
        convert(folder_of(tmp_path / kind, kind), tmp_path / f"{kind}.gguf")
        with load(tmp_path / f"{kind}.gguf", threads=1) as model:
            texts = [hf_models.tokens(length) for length in (48, 5, 1)]
            states = model.embed(texts, pooling="none")
            assert [s.shape for s in states] == [(48, 64), (5, 64), (1, 64)]
            assert all(s.dtype == np.float32 for s in states)
            assert np.allclose([s.mean(0) for s in states], model.embed(texts, pooling="mean"), atol=1e-6)
            assert np.array_equal([s[0] for s in states], model.embed(texts, pooling="cls"))
            lengths = [np.linalg.norm(s, axis=1) for s in model.embed(texts, pooling="none", normalize=True)]
            assert np.allclose(np.concatenate(lengths), 1, atol=1e-6)


def test_dense_layers_of_sentence_transformers(tmp_path):
    folder = folder_of(tmp_path / "folder", "bert")
    modules = [{"path": "", "type": "sentence_transformers.models.Transformer"},
               {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]  # fmt: skip
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    matrices = []
    for i, (rows, columns) in enumerate([(96, 64), (32, 96)]):
        path = folder / f"{i + 2}_Dense"
        path.mkdir()
        config = {"activation_function": "torch.nn.modules.linear.Identity", "bias": False}
        (path / "config.json").write_text(json.dumps(config))
        matrices.append(hf_models.weight(f"dense {i}", (rows, columns), 0))
        hf_models.write_shard(path / "model.safetensors", {"linear.weight": matrices[-1]})
        modules.append({"path": path.name, "type": "sentence_transformers.models.Dense"})
    (folder / "modules.json").write_text(json.dumps(modules))
    convert(folder, tmp_path / "model.gguf")
    ids = hf_models.tokens(48)
    with load(tmp_path / "model.gguf", threads=1) as model, load(folder, threads=1) as same:
        expected = hf_models.record("bert")["48"] @ matrices[0].T @ matrices[1].T
        for m in (model, same):
            assert hf_models.error(m.embed([ids])[0], expected) < 1e-9
    (path / "config.json").write_text('{"activation_function": "torch.nn.modules.activation.Tanh"}')
    with pytest.raises(ValueError, match="'activation_function' is 'torch.nn.modules.activation.Tanh': need 'torch"):
        convert(folder, tmp_path / "other.gguf")
    modules[-1]["path"] = "../elsewhere"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match="'../elsewhere' is no folder inside"):
        convert(folder, tmp_path / "other.gguf")


def test_wrong_arguments_are_named(tmp_path):
    convert(folder_of(tmp_path / "bert", "bert"), tmp_path / "bert.gguf")
    with load(tmp_path / "bert.gguf", threads=1) as model:
        for call in (lambda: model.classify([[3]]), lambda: model.rank("a", ["b"])):
            with pytest.raises(ValueError, match="^(classify|rank): the model has no classifier"):
                call()
    folder = folder_of(tmp_path / "folder", "bert+classes")
    word_pieces(folder)
    with load(folder, threads=1) as model:
        with pytest.raises(ValueError, match="^classify: types: need one for each token of 1 texts"):
            model.classify([[3, 4]], types=[[0]])
        with pytest.raises(ValueError, match="^classify: types: need 0 and 1"):
            model.classify([[3, 4]], types=[[0, 2]])
        with pytest.raises(ValueError, match="^classify: a text has 300 tokens, the context 256"):
            model.classify([[3] * 300])
        with pytest.raises(ValueError, match="^rank: a text has"):
            model.rank("one", ["two " * 300])
        with pytest.raises(TypeError, match="^rank: need a list of documents"):
            model.rank("one", "two")
        with pytest.raises(TypeError, match="^rank: a text is a int"):
            model.rank("one", [3])
    with pytest.raises(RuntimeError, match="^rank: the model is closed"):
        model.rank("one", ["two"])


def test_labels_must_fit_the_classes(tmp_path):
    folder = folder_of(tmp_path / "folder", "bert+classes", id2label={"0": "a", "1": "b"})
    with pytest.raises(ValueError, match="'cls.output.weight' is 64 x 3: need 64 x 2"):
        convert(folder, tmp_path / "model.gguf")


def test_the_command_prints_scores(tmp_path, capsys):
    folder = folder_of(tmp_path / "folder", "bert+classes")
    word_pieces(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        convert(folder, tmp_path / "model.gguf")
    assert main(["rank", str(tmp_path / "model.gguf"), "one", "two", "three four"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    scores = [float(score) for score, _ in lines]
    assert {text for _, text in lines} == {"two", "three four"} and scores == sorted(scores, reverse=True)
