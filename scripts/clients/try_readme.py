"""The programs of llama-cpp-python's README as they stand, with the path of another model; none about pictures."""

import re
import tarfile
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import model
from sources import archive

LEFT_OUT = ("functionary", "Llava15", "Moondream", "image_to_base64", "text_completion")  # models that are not there


def programs():
    """The Python blocks of the README."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(archive(folder)) as sources:
        name = next(item for item in sources if Path(item.name).parts[1:] == ("README.md",))
        text = sources.extractfile(name)
        assert text is not None
        found = re.findall(r"```python\n(.*?)```", text.read().decode(), re.S)
    return [block for block in found if not any(word in block for word in LEFT_OUT)]


def offline(path):
    """Lets huggingface_hub find a repository with two files and give the model in place of a download."""
    hub: Any = import_module("huggingface_hub")
    files = ["model-Q8_0.gguf", "model-Q4_0.gguf"]
    vars(hub).update(list_repo_files=lambda repository: files, hf_hub_download=lambda *names, **options: path)
    hub.HfFileSystem.ls = lambda system, repository, **options: [f"{repository}/{name}" for name in files]


def main():
    path = repr(model.path())
    offline(model.path())
    names: dict = {}
    blocks = programs()
    assert len(blocks) >= 9
    for i, block in enumerate(blocks):
        program = block if "from_pretrained" in block else re.sub(r'"[^"]*\.gguf"', path, block)
        program = program.replace("llm.create_chat_completion(", "answer = llm.create_chat_completion(")
        exec(compile(program, f"README, program {i}", "exec"), names)
        answer = names.pop("answer", {"choices": [None]})
        print(f"README: program {i}: passed", answer["choices"][0], flush=True)
    assert len(names["embeddings"]["data"]) == 2 and names["n_tokens"] > 5


if __name__ == "__main__":
    main()
