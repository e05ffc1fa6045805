"""Pictures in requests: as data: URLs and in no other way."""

import base64
import io

import pytest

for library in ("PIL", "gguf", "jinja2", "safetensors", "tokenizers", "llguidance", "fastapi", "uvicorn",
                "prometheus_client", "httpx"):  # fmt: skip
    pytest.importorskip(library)  # of the extra [test]

import hf_images  # noqa: E402
import tiny_models  # noqa: E402
from fastapi.testclient import TestClient  # noqa: E402
from PIL import Image  # noqa: E402
from server import GREEDY, SETTINGS  # noqa: E402

from ggml._cli import main  # noqa: E402
from ggml.models import convert, load  # noqa: E402
from ggml.serve import app  # noqa: E402

TEMPLATE = (
    "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    "{% if p.type == 'image' %}<image>{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}{% endfor %}"
)


def write_files(folder):
    """A language model and an encoder for it."""
    hf_images.write_folder(folder / "model", hf_images.record("llava"))
    with pytest.warns(UserWarning, match="no tokenizer"):
        convert(folder / "model", folder / "unused.gguf", mmproj=folder / "mmproj.gguf")
    tiny_models.write(folder / "tiny.gguf", "llama", change={"tokenizer.chat_template": TEMPLATE})
    return folder / "tiny.gguf", folder / "mmproj.gguf"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="module")
def client(files):
    with TestClient(app(files[0], encoders={"tiny": files[1]}, **SETTINGS)) as client:
        yield client


def data_url(seed):
    file = io.BytesIO()
    Image.fromarray(hf_images.picture(40, 30, seed)).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def messages(url):
    return [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "abc"}]}]  # fmt: skip


def ask(client, url):
    return client.post("/v1/chat/completions", json={"messages": messages(url), "max_tokens": 8, **GREEDY})


def test_answers_see_the_picture(files, client):
    with load(files[0], mmproj=files[1], n_ctx=256, threads=1) as model:
        wanted = ["".join(model.chat(messages(data_url(seed)), max_tokens=8, **GREEDY)) for seed in range(3)]
    found = [ask(client, data_url(seed)) for seed in range(3)]
    assert [answer.json()["choices"][0]["message"]["content"] for answer in found] == wanted
    assert len(set(wanted)) > 1


def test_nothing_is_fetched_and_no_file_is_opened(client, tmp_path, monkeypatch):
    path = tmp_path / "secret.png"
    Image.fromarray(hf_images.picture(40, 30)).save(path)
    for url in (str(path), path.as_uri(), "http://127.0.0.1:9/a.png", "https://127.0.0.1/a.png", "", "data:,x",
                "data:image/png;base64,!!"):  # fmt: skip
        answer = ask(client, url)
        assert answer.status_code == 400 and answer.json()["error"]["message"], url


def test_encoders_belong_to_models_by_name(files, capsys):
    with pytest.raises(ValueError, match="^serve: encoders: 'other' is no model of a file: need one of tiny"):
        with TestClient(app(files[0], encoders={"other": files[1]}, **SETTINGS)):
            pass
    assert main(["serve", str(files[0]), "--mmproj", "a", "--mmproj", "b"]) == 1
    assert "2 values of --mmproj for 1 models" in capsys.readouterr().err
