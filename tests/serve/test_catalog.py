"""Several models: opened when they are asked for, closed for others, with adapters by name."""

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


def text_of(path, **options):
    with load(path, n_ctx=256, threads=1, **options) as model:
        return "".join(model.generate(IDS, max_tokens=8, **GREEDY))


def ask(client, name):
    body = {"prompt": IDS, "max_tokens": 8, **GREEDY} | ({"model": name} if name else {})
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
