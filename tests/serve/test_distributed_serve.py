"""A server of models that are divided among ranks: the first one answers, the others follow. Run it with mpiexec."""

import pytest

for library in ("gguf", "jinja2", "tokenizers", "llguidance", "fastapi", "uvicorn", "prometheus_client", "httpx"):
    pytest.importorskip(library)  # of the extra [test]

from concurrent.futures import ThreadPoolExecutor  # noqa: E402

import tiny_models  # noqa: E402
from fastapi.testclient import TestClient  # noqa: E402
from ranks import comm  # noqa: E402
from server import GREEDY, SETTINGS  # noqa: E402

from ggml._cli import main  # noqa: E402
from ggml.models import load  # noqa: E402
from ggml.models.run.following import Leader, follow  # noqa: E402
from ggml.serve import app  # noqa: E402

PROMPTS = [[3 + (i * 7 + k) % 90 for i in range(20 + 40 * k)] for k in range(5)]


def test_one_rank_does_not_follow(tmp_path):
    with (
        load(tiny_models.write(tmp_path / "m.gguf", "llama")) as model,
        pytest.raises(ValueError, match="^follow: need"),
    ):
        follow([model.runner])


@pytest.mark.skipif(comm.size == 1, reason="needs mpiexec")
@pytest.mark.parametrize("draft", [None, "ngram", "model"])
def test_answers_of_a_divided_model(draft, tmp_path_factory):
    """They are those of one rank, in exact mode bit by bit; texts share pages, are put back and sampled meanwhile."""
    folder = tmp_path_factory.mktemp("divided")
    paths = {kind: tiny_models.write(folder / f"{kind}.gguf", kind) for kind in ("llama", "gemma3")}
    models = {kind: load(path, n_ctx=256, n_seq=4, threads=1, comm=comm) for kind, path in paths.items()}
    runners = [model.runner for model in models.values()]
    if comm.rank:
        follow(runners)
    else:
        leader, drafts = Leader(runners), {name: draft for name in models if draft}
        if draft == "model":  # of the first rank alone
            drafts = {name: load(path, n_ctx=256, n_seq=4, threads=1) for name, path in paths.items()}
        with TestClient(app(models, drafts=drafts, **{**SETTINGS, "tokens": 300})) as client:

            def ask(name, prompt):
                body = {"model": name, "prompt": prompt, "max_tokens": 30, **GREEDY}
                return client.post("/v1/completions", json=body).json()["choices"][0]["text"]

            with ThreadPoolExecutor(6) as pool:
                asked = [(name, prompt) for prompt in PROMPTS for name in models] * 2
                found = list(pool.map(lambda item: ask(*item), asked))
            sampled = client.post("/v1/completions", json={"prompt": PROMPTS[0], "max_tokens": 5})
            assert sampled.status_code == 200
            vector = client.post("/v1/embeddings", json={"input": PROMPTS[0]}).json()["data"][0]["embedding"]
        leader.close()
        alone = {name: load(path, n_ctx=256, threads=1) for name, path in paths.items()}
        expected = ["".join(alone[name].generate(prompt, max_tokens=30, **GREEDY)) for name, prompt in asked]
        assert found == expected
        assert vector == pytest.approx(alone["llama"].embed([PROMPTS[0]], normalize=True)[0].tolist(), abs=1e-6)
    for model in models.values():
        model.close()


@pytest.mark.skipif(comm.size == 1, reason="needs mpiexec")
def test_pictures_of_a_divided_model(tmp_path_factory):
    """The first rank alone has the encoder; the others get what it gives."""
    images = pytest.importorskip("test_serve_images")
    path, mmproj = images.write_files(tmp_path_factory.mktemp("pictures"))
    model = load(path, n_ctx=256, n_seq=4, threads=1, comm=comm, mmproj=mmproj if comm.rank == 0 else None)
    if comm.rank:
        follow([model.runner])
    else:
        leader = Leader([model.runner])
        with TestClient(app(model, **SETTINGS)) as client, ThreadPoolExecutor(4) as pool:
            urls = [images.data_url(seed) for seed in (0, 1, 2)]
            answers = list(pool.map(lambda url: images.ask(client, url).json(), urls))
        leader.close()
        with load(path, n_ctx=256, threads=1, mmproj=mmproj) as alone:
            expected = ["".join(alone.chat(images.messages(url), max_tokens=8, **GREEDY)) for url in urls]
        assert [answer["choices"][0]["message"]["content"] for answer in answers] == expected
    model.close()


@pytest.mark.skipif(comm.size == 1, reason="needs mpiexec")
@pytest.mark.parametrize("option", ["--lora=x=a.gguf", "--cache-dir=cache", "--memory=1"])
def test_options_that_ranks_cannot_have(option, tmp_path, capsys):
    """They are refused by name before anything is opened, by all ranks."""
    (tmp_path / "m.gguf").write_bytes(b"")
    assert main(["serve", str(tmp_path / "m.gguf"), option]) == 1
    text = capsys.readouterr().err
    assert f"{option.partition('=')[0]} is given: need none with {comm.size} ranks: " in text
