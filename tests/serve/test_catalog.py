"""Several models: opened when they are asked for, closed for others, with adapters by name."""

from concurrent.futures import ThreadPoolExecutor

import pytest

for library in ("gguf", "jinja2", "tokenizers", "llguidance", "fastapi", "uvicorn", "prometheus_client", "httpx"):
    pytest.importorskip(library)  # of the extra [test]

import tiny_models  # noqa: E402
from fastapi.testclient import TestClient  # noqa: E402
from server import GREEDY, SETTINGS  # noqa: E402

from ggml._cli import main  # noqa: E402
from ggml.models import load  # noqa: E402
from ggml.serve import app  # noqa: E402
from ggml.serve.catalog import bytes_of  # noqa: E402

IDS = [5, 6, 7, 8, 9]


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("catalog")
    return [tiny_models.write(folder / f"{name}.gguf", "llama", seed=seed) for seed, name in enumerate("abc")]


def text_of(path, most=8, **options):
    with load(path, n_ctx=256, threads=1, **options) as model:
        return "".join(model.generate(IDS, max_tokens=most, **GREEDY))


def ask(client, name, most=8):
    body = {"prompt": IDS, "max_tokens": most, **GREEDY} | ({"model": name} if name else {})
    answer = client.post("/v1/completions", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["text"]


def open_ones(client):
    return {entry["id"] for entry in client.get("/v1/models").json()["data"] if "meta" in entry}


def test_models_are_opened_when_they_are_asked_for(paths):
    application = app(paths, **SETTINGS)
    with TestClient(application) as client:
        assert open_ones(client) == {"a"}
        texts = {path.stem: text_of(path) for path in paths}
        assert len(set(texts.values())) == 3
        assert ask(client, None) == texts["a"] and ask(client, "c") == texts["c"] and open_ones(client) == {"a", "c"}
        assert ask(client, "b") == texts["b"] and ask(client, "a") == texts["a"]
        entries = application.state.service.catalog.entries
        models = [entry.model for entry in entries.values()]
    assert all(model.runner.closed for model in models)


def test_models_are_closed_for_others(paths):
    with load(paths[0], n_ctx=256, n_seq=4) as model:
        application = app(paths, **SETTINGS)
        room = 2 * bytes_of(model, application.state.service.options)
    application = app(paths, memory=room + 1, **SETTINGS)
    with TestClient(application) as client:
        for name, expected in (("a", "a"), ("b", "ab"), ("a", "ab"), ("c", "ac"), ("b", "bc")):
            assert ask(client, name)
            assert open_ones(client) == set(expected)
        assert ask(client, "a") == text_of(paths[0])


def test_adapters_by_name(paths, tmp_path):
    lora = tiny_models.write_lora(tmp_path / "l.gguf", "llama")
    with TestClient(app({"a": paths[0]}, adapters={"one": lora}, **SETTINGS)) as client:
        assert ask(client, "a") == text_of(paths[0])
        assert ask(client, "a:one") == text_of(paths[0], lora=[lora]) != text_of(paths[0])
        assert client.post("/v1/completions", json={"prompt": IDS, "model": "a:two"}).status_code == 404


def test_adapters_in_one_batch(paths, tmp_path):
    """Requests for a model with and without adapters are computed together, and each gets what it gets alone."""
    loras = {name: tiny_models.write_lora(tmp_path / f"{name}.gguf", "llama") for name in ("one", "two")}
    expected = {f"a:{name}": text_of(paths[0], 80, lora=[file]) for name, file in loras.items()}
    expected["a"] = text_of(paths[0], 80)
    application = app({"a": paths[0]}, adapters=loras, **SETTINGS)
    with TestClient(application) as client:
        steps = []
        model = application.state.service.catalog.entries["a"].model
        advance = model.writer.advance
        model.writer.advance = lambda texts, room: steps.append({t.adapter for t in texts}) or advance(texts, room)
        with ThreadPoolExecutor(6) as pool:
            names = list(expected) * 4
            assert list(pool.map(lambda name: ask(client, name, 80), names)) == [expected[name] for name in names]
        assert any(len(step) > 1 for step in steps)
        entries = {entry["id"]: entry for entry in client.get("/v1/models").json()["data"]}
        assert entries["a:one"]["parent"] == "a" and "parent" not in entries["a"]
        one, base = (
            client.post("/v1/embeddings", json={"input": [IDS], "model": name}).json()["data"][0]["embedding"]
            for name in ("a:one", "a")
        )
        assert one != base
    with load(paths[0], lora=[loras["one"]], n_ctx=256) as model:
        assert model.embed([IDS], normalize=True)[0].tolist() == pytest.approx(one, abs=1e-6)


def test_an_adapter_that_does_not_fit(paths, tmp_path):
    lora = tiny_models.write_lora(tmp_path / "l.gguf", "qwen2")
    with TestClient(app({"a": paths[0]}, adapters={"one": lora, "none": "no.gguf"}, **SETTINGS)) as client:
        for name in ("a:one", "a:none"):
            answer = client.post("/v1/completions", json={"prompt": IDS, "model": name})
            assert answer.status_code == 503 and f"'{name}' cannot be opened" in answer.json()["error"]["message"]
        assert ask(client, "a") == text_of(paths[0])


@pytest.mark.parametrize("kind", ["ngram", "file"])
def test_drafts(tmp_path, kind):
    """Tokens are guessed for texts that are computed together, and change none of them."""
    certain = tiny_models.weights("llama")
    certain["output.weight"] *= 9  # else the draft would be too uncertain to guess
    path, draft = tiny_models.write(tmp_path / "m.gguf", "llama", tensors=certain), "ngram"
    if kind == "file":
        draft = tiny_models.write(tmp_path / "small.gguf", "llama", "Q4_0", tensors=certain)
    with TestClient(app({"a": path}, drafts={"a": draft}, **{**SETTINGS, "chunk": 8})) as client:

        def answer(number):
            body = {"prompt": IDS * (number + 1), "max_tokens": 40, **GREEDY}
            return client.post("/v1/completions", json=body).json()

        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(answer, range(6)))
        numbers = client.get("/metrics").text
    with load(path, n_ctx=256, threads=1) as model:
        expected = ["".join(model.generate(IDS * (i + 1), max_tokens=40, **GREEDY)) for i in range(6)]
    assert [item["choices"][0]["text"] for item in found] == expected
    accepted = sum(item["timings"]["draft_n_accepted"] for item in found)
    assert 0 < accepted <= sum(item["timings"]["draft_n"] for item in found)
    assert f'ggml_accepted_tokens_total{{model="a"}} {float(accepted)}' in numbers


def test_a_draft_that_does_not_fit(paths, tmp_path):
    other = tiny_models.write(tmp_path / "bert.gguf", "bert")
    with TestClient(app({"a": paths[0], "b": paths[1]}, drafts={"b": other}, **SETTINGS)) as client:
        answer = client.post("/v1/completions", json={"prompt": IDS, "model": "b"})
        assert answer.status_code == 503 and "draft" in answer.json()["error"]["message"]
    with pytest.raises(ValueError, match="drafts: 'x' is no model"):
        app({"a": paths[0]}, drafts={"x": "ngram"})


def test_a_file_that_is_no_model(tmp_path, paths):
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    with TestClient(app([paths[0], tmp_path / "x.gguf"], **SETTINGS)) as client:
        answer = client.post("/v1/completions", json={"prompt": IDS, "model": "x"})
        assert answer.status_code == 503 and "'x' cannot be opened" in answer.json()["error"]["message"]
        assert ask(client, "a")


def test_the_command_refuses_what_is_wrong(paths, tmp_path, capsys):
    path = str(paths[0])
    (tmp_path / "none").write_text("\n")
    for arguments, message in (
        ([path, path], "two models have the name 'a'"),
        ([path, "--alias", "x", "--alias", "y"], "2 names of --alias for 1 models"),
        ([path, "--api-key-file", str(tmp_path / "none")], "there is no key"),
        ([str(tmp_path / "no.gguf")], "no.gguf"),
    ):
        assert main(["serve", *arguments]) == 1
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["serve", path, "--lora", "file"])
    assert "NAME=FILE" in capsys.readouterr().err
