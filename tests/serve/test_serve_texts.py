"""Completions, texts to fill in, embeddings, tokens, templates: against the model itself."""

import base64
import concurrent.futures
import contextlib
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

for library in ("gguf", "jinja2", "tokenizers", "llguidance", "fastapi", "uvicorn", "prometheus_client", "httpx"):
    pytest.importorskip(library)  # of the extra [test]

import server  # noqa: E402
import tiny_models  # noqa: E402
from fastapi.testclient import TestClient  # noqa: E402
from server import GREEDY, HI, SETTINGS  # noqa: E402

from ggml.models import convert, load  # noqa: E402
from ggml.models.chat.fim import infill_ids  # noqa: E402
from ggml.serve import app  # noqa: E402

FIM = {f"tokenizer.ggml.fim_{name}_token_id": 90 + i for i, name in enumerate(("pre", "suf", "mid"))}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = server.write(tmp_path_factory.mktemp("serve") / "tiny.gguf", **FIM)
    with load(path, n_ctx=256, n_seq=4, threads=1) as model:
        yield model


@pytest.fixture(scope="module")
def client(model):
    """The application has the same Model, which stays open."""
    with TestClient(app({"tiny": model}, **SETTINGS)) as client:
        yield client
    assert model.tokenize("a")


def text_of(model, prompt, count=8):
    return "".join(model.generate(prompt, max_tokens=count, **GREEDY))


def post(client, path, status=200, **body):
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_completions(client, model):
    prompts = ["one", "two three", ""]
    ids = [model.tokenize(text) for text in prompts[:2]]
    expected = [text_of(model, prompt) for prompt in ids]
    for prompt in (prompts[:2], ids):
        found = post(client, "/v1/completions", prompt=prompt, max_tokens=8, **GREEDY)
        assert [choice["text"] for choice in found["choices"]] == expected and found["object"] == "text_completion"
        assert found["usage"]["prompt_tokens"] == sum(map(len, ids)) and found["usage"]["completion_tokens"] == 16
    found = post(client, "/v1/completions", prompt="one", max_tokens=8, echo=True, logprobs=2, **GREEDY)
    (choice,) = found["choices"]
    assert choice["text"] == "one" + expected[0]
    own = model.generate("one", max_tokens=8, logprobs=2, **GREEDY)
    assert "".join(own) == expected[0]
    assert choice["logprobs"]["token_logprobs"] == [token.logprob for token in own.logprobs]
    assert choice["logprobs"]["text_offset"][0] == 3
    assert all(set(top.values()) >= {value for _, value in token.top}
               for top, token in zip(choice["logprobs"]["top_logprobs"], own.logprobs, strict=True))  # fmt: skip
    assert "at least one token" in post(client, "/v1/completions", 400, prompt="")["error"]["message"]
    assert "need 1 to 128" in post(client, "/v1/completions", 400, prompt=[])["error"]["message"]
    assert "token 9999" in post(client, "/v1/completions", 400, prompt=[9999])["error"]["message"]


def test_a_stream_of_completions(client, model):
    body = {"prompt": ["one", "two"], "max_tokens": 8, "stream": True, "logprobs": 0, "echo": True, "n": 2, **GREEDY}
    chunks = server.events(client.post("/v1/completions", json=body).text)
    for index in range(4):
        parts = [c["choices"][0] for c in chunks if c["choices"][0]["index"] == index]
        prompt = ["one", "two"][index // 2]
        assert "".join(part["text"] for part in parts) == prompt + text_of(model, prompt)
        assert parts[-1]["finish_reason"] == "length"
        assert sum(len(part["logprobs"]["tokens"]) for part in parts) == 8


def test_the_token_that_ends_a_text_can_be_ignored(client, model):
    end = min(model.tokenizer.eog)
    bias = {str(end): 1e6}
    options = {"prompt": "one", "max_tokens": 5, **GREEDY}
    assert post(client, "/v1/completions", logit_bias=bias, **options)["usage"]["completion_tokens"] == 0
    found = post(client, "/v1/completions", logit_bias=bias, ignore_eos=True, **options)
    assert found["choices"][0]["finish_reason"] == "length" and found["choices"][0]["text"] == text_of(model, "one", 5)


def test_the_load_generator(model):
    """benchmarks/serve.py counts the tokens that it asks for."""
    folder = Path(__file__).parents[2] / "benchmarks"
    if not folder.exists():
        pytest.skip("needs the repository")
    spec = importlib.util.spec_from_file_location("load_of_a_server", folder / "serve.py")
    load = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = load
    spec.loader.exec_module(load)
    with server.listening(app({"tiny": model}, **SETTINGS)) as url:
        options = [url, "--prompt", "3", "9", "--answer", "4", "4", "--shared", "9"]
        for more in (["--clients", "2"], ["--clients", "3", "--rate", "200"]):
            (row,) = load.main([*options, "--requests", "5", *more])
            assert row["failed"] == 0 and row["tokens_per_second"] > 0
            assert all(0 <= value < 20 for value in row["first_token_s"])
        (row,) = load.main([*options, "--requests", "2", "--clients", "1", "--model", "no"])
        assert row["failed"] == 2 and row["tokens_per_second"] == 0


def test_texts_to_fill_in(client, model):
    ids = infill_ids("x", model.metadata, model.tokenizer, "def f(", "return x")
    assert [ids[0], ids[-1]] == [90, 92]
    text = model.generate(ids, max_tokens=8, **GREEDY)
    expected, kind = "".join(text), {"length": "limit", "stop": "eos"}[text.finish_reason]
    options = {"input_prefix": "def f(", "input_suffix": "return x", "n_predict": 8, **GREEDY}
    found = post(client, "/infill", **options)
    assert found["content"] == expected and found["stop_type"] == kind and found["tokens_evaluated"] == len(ids)
    chunks = server.events(client.post("/infill", json={**options, "stream": True}).text)
    assert "".join(chunk["content"] for chunk in chunks) == expected and chunks[-1]["stop"]
    found = post(client, "/v1/completions", prompt="def f(", suffix="return x", max_tokens=8, **GREEDY)
    assert found["choices"][0]["text"] == expected


def test_embeddings(client, model):
    texts = ["one", "two three", "x" * 200]
    expected = model.embed(texts, normalize=True)
    found = post(client, "/v1/embeddings", input=texts)
    vectors = np.array([item["embedding"] for item in found["data"]], np.float32)
    np.testing.assert_allclose(vectors, expected, atol=2e-3)
    data = post(client, "/v1/embeddings", input="one", encoding_format="base64")["data"][0]["embedding"]
    np.testing.assert_allclose(np.frombuffer(base64.b64decode(data), "<f4"), expected[0], atol=2e-3)
    short = np.array(post(client, "/v1/embeddings", input="one", dimensions=8)["data"][0]["embedding"])
    np.testing.assert_allclose(short, expected[0][:8] / np.linalg.norm(expected[0][:8]), atol=2e-3)
    assert found["usage"]["prompt_tokens"] == sum(len(model.tokenize(text)) for text in texts)
    for body in ({"input": "one", "dimensions": 999}, {"input": ""}, {"input": "xq" * 200}, {"input": []}, {}):
        post(client, "/v1/embeddings", 400, **body)


def test_embeddings_get_the_memory_of_texts(model, tmp_path):
    """Room for 256 tokens: what ended texts hold goes first, then a text that is written begins again."""
    path = server.write(tmp_path / "m.gguf")
    application = app({"m": path}, **{**SETTINGS, "tokens": 256})
    with TestClient(application) as client, contextlib.ExitStack() as stack:
        for text in "abcd":
            post(client, "/v1/completions", prompt=text * 60, max_tokens=1)
        expected = model.embed(["x" * 120, *"abcdefgh"], normalize=True)
        pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(1))
        body = {"prompt": "hello", "max_tokens": 200, "logit_bias": {"65": 1e6}, **GREEDY}
        text = pool.submit(lambda: post(client, "/v1/completions", **body))
        for _ in range(3):
            found = post(client, "/v1/embeddings", input=["x" * 120, *"abcdefgh"])["data"]
            np.testing.assert_allclose([item["embedding"] for item in found], expected, atol=2e-3)
        assert text.result(20)["usage"]["completion_tokens"] == 200


def test_tokens_and_templates(client, model):
    ids = model.tokenize("größe 😀", False)
    assert post(client, "/tokenize", content="größe 😀") == {"tokens": ids}
    pieces = post(client, "/tokenize", content="größe 😀", with_pieces=True)["tokens"]
    assert [piece["id"] for piece in pieces] == ids
    assert bytes(sum((piece["bytes"] for piece in pieces), [])).decode() == "größe 😀"
    assert post(client, "/detokenize", tokens=ids) == {"content": "größe 😀"}
    assert post(client, "/detokenize", tokens=[]) == {"content": ""}
    post(client, "/detokenize", 400, tokens=[99999])
    found = post(client, "/apply-template", messages=[{"role": "developer", "content": "be"}, *HI])
    assert found == {"prompt": model.apply_chat_template([{"role": "system", "content": "be"}, *HI])}


def test_documents(client, model, monkeypatch):
    body = {"query": "q", "documents": ["a", {"text": "bb"}, "ccc"]}
    assert "the model has no classifier" in post(client, "/v1/rerank", 400, **body)["error"]["message"]
    ranks = lambda self, query, texts: [len(text) % 3 for text in texts]  # noqa: E731
    monkeypatch.setattr(type(model), "rank", ranks, raising=False)
    found = post(client, "/v1/rerank", top_n=2, return_documents=True, **body)["results"]
    assert found == [{"index": 1, "relevance_score": 2.0, "document": {"text": "bb"}},
                     {"index": 0, "relevance_score": 1.0, "document": {"text": "a"}}]  # fmt: skip
    post(client, "/v1/rerank", 400, query="q", documents=[{"title": "x"}])


def test_a_model_of_embeddings_alone(tmp_path):
    path = tiny_models.write(tmp_path / "b.gguf", "bert")
    with load(path, threads=1) as model, contextlib.ExitStack() as stack:
        expected = model.embed([[5, 6, 7]], normalize=True)[0]
        client = stack.enter_context(TestClient(app({"b": path}, threads=1)))
        found = post(client, "/v1/embeddings", input=[5, 6, 7])["data"][0]["embedding"]
        np.testing.assert_array_equal(np.array(found, np.float32), expected)
        error = post(client, "/v1/completions", 400, prompt=[5])["error"]
        assert "gives embeddings only" in error["message"]


def test_documents_by_a_classifier(tmp_path):
    pytest.importorskip("safetensors")
    import hf_models
    from hf_tokenizers import word_pieces

    recorded, documents = hf_models.record("bert+classes"), ["two", "three four", "one"]
    word_pieces(hf_models.write_folder(tmp_path / "folder", recorded["config"], recorded["shapes"]))
    convert(tmp_path / "folder", tmp_path / "c.gguf")
    with load(tmp_path / "c.gguf", threads=1) as model:
        expected = model.rank("one", documents)
    with TestClient(app({"c": tmp_path / "c.gguf"}, threads=1)) as client:
        found = post(client, "/v1/rerank", query="one", documents=documents)["results"]
    assert [row["index"] for row in found] == np.argsort(-expected).tolist()
    assert [row["relevance_score"] for row in found] == np.sort(expected)[::-1].tolist()
