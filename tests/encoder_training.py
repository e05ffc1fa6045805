"""Training of whole texts, for the tests: adapters with known values, and losses of what a model computes."""

from __future__ import annotations

import encoder_texts
import hf_models
import numpy as np

from ggml.models.train.adapter import Adapter
from ggml.models.train.graph import Trainer
from ggml.models.train.pooled import Pooled
from ggml.models.train.texts import Item, Text, shares_of
from ggml.utils import to_numpy


def items_of(model, kind):
    """The data of a kind (encoder_texts.py) as finetune makes it of the caller's."""
    width = encoder_texts.KINDS[kind].width
    n = model.classify([]).shape[1] if width == 1 else 1
    found = encoder_texts.items(kind, n)
    if width > 1:
        return [Item(tuple(Text(ids, [0] * len(ids)) for ids in item)) for item in found]
    return [Item((Text(ids, encoder_texts.types(kind, len(ids))),), shares_of(label, 0, n, ())) for ids, label in found]


def trainer_of(model, adapter, texts, checkpoint=False, temperature=encoder_texts.TEMPERATURE):
    """What computes the loss of rows of texts."""

    def head(ctx, parts, adapter, threads):
        return Pooled(ctx, parts, texts, temperature, adapter, threads)

    places = texts.places * texts.count
    return Trainer(model.runner.parts(), adapter, places, checkpoint, 1, texts=texts.count, head=head)


def adapter_of(shapes, seed=7):
    """An adapter with the values that scripts/record_lora_gradients.py gives it."""
    adapter = Adapter(shapes, encoder_texts.RANK, encoder_texts.ALPHA, 0, 1)
    for name, tensor in adapter.tensors.items():
        shape = tuple(tensor.contents.ne[1::-1])
        to_numpy(tensor).reshape(shape)[...] = hf_models.weight(name, shape, seed)
    return adapter


def loss_of_texts(embed, items, temperature):
    """The loss of texts that belong together, by a function that embeds a list of texts."""
    columns = [embed(list(texts)).astype(np.float64) for texts in zip(*items, strict=True)]
    queries, *documents = (column / np.linalg.norm(column, axis=1, keepdims=True) for column in columns)
    scores = queries @ np.concatenate(documents).T / temperature
    shares = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    return -np.mean(np.diag(shares[:, : len(items)]))


def loss_of_classes(scores, labels):
    """The cross entropy of several classes, the logistic loss of one."""
    scores = scores.astype(np.float64)
    if scores.shape[1] == 1:
        return np.mean(np.log1p(np.exp(scores[:, 0])) - np.array(labels) * scores[:, 0])
    shares = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    return -np.mean(shares[np.arange(len(labels)), labels])


def check_texts_are_learned(model, folder, named=True, **options):
    """Embeddings are trained: the losses are those of `embed`, before, after, and with the adapter by its name."""
    items = [(hf_models.tokens(5 + i % 7, i), hf_models.tokens(9 + i % 3, 50 + i)) for i in range(8)]
    path, temperature = folder / "lora.gguf", 0.2
    settings = {"rank": 4, "rate": 1e-2, "batch": 8, "temperature": temperature, "validation": items, **options}
    result = model.finetune(items, path, steps=10, **settings)
    (_, before), *_, (_, after) = result.validation
    assert np.isclose(loss_of_texts(model.embed, items, temperature), before, rtol=1e-4)
    assert after < 0.5 * before
    model.set_lora(path)
    assert np.isclose(loss_of_texts(model.embed, items, temperature), after, rtol=1e-3)
    model.set_lora()
    if named:
        model.add_adapter("new", path)
        loss = loss_of_texts(lambda texts: model.embed(texts, adapter="new"), items, temperature)
        assert np.isclose(loss, after, rtol=1e-3)
    assert np.isclose(loss_of_texts(model.embed, items, temperature), before, rtol=1e-4)
    return result, items, settings
