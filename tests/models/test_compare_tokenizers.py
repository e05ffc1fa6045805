"""scripts/compare_tokenizers.py on a few lines; the nightly workflow compares 10,000 lines for every pre-tokenizer."""

import importlib.util
import json
from pathlib import Path

import pytest

for library in ("safetensors", "tokenizers", "gguf"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import model_vocabularies  # noqa: E402
import tokenizers  # noqa: E402

from ggml.models.conversion.pretokenizer import name_of  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*has no tokenizer")
SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "compare_tokenizers.py"
# As the authors of DeepSeek V3 and later models wrote it, with line ends as they are
DEEPSEEK = [
    r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"
    "[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
]  # fmt: skip


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("compare_tokenizers", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lines_are_equal(script, capsys):
    assert script.main(["--lines", "40", "--only", "qwen35", "superbpe"]) == 0
    assert capsys.readouterr().out == "qwen35: 40 lines, 0 differ\nsuperbpe: 40 lines, 0 differ\n"


def test_lines_that_differ_are_shown(script, tmp_path, capsys):
    """The file that is converted merges otherwise than that of the library."""
    lines = [line for line in model_vocabularies.corpus(3, 60) if "<" not in line]
    library = script.trained("gpt-2", lines)
    whole = json.loads(library.to_str())
    whole["model"]["merges"] = whole["model"]["merges"][::-1]
    ours = script.converted(json.dumps(whole), {})
    assert 0 < len(script.differing(ours, library, lines)) <= len(lines)
    (tmp_path / "tokenizer.json").write_text(library.to_str())
    assert script.main(["--lines", "20", "--only", "--", str(tmp_path / "tokenizer.json")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'tokenizer.json'}: 20 lines, 0 differ\n"


def test_line_ends_in_patterns_are_recognised():
    split = tokenizers.pre_tokenizers.Split
    parts = [split(tokenizers.Regex(pattern), "isolated") for pattern in DEEPSEEK]
    parts.append(tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    pre = json.loads(tokenizers.pre_tokenizers.Sequence(parts).__getstate__())
    assert name_of(pre, False, "tokenizer.json") == "deepseek-v3"
