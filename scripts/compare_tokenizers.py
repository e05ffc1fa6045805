"""Compares tokens with those of the library `tokenizers`, line by line, for every pre-tokenizer.

    python scripts/compare_tokenizers.py [--lines N] [--only NAME...] [TOKENIZER.json | PACKAGE]...

For each set of rules of byte-level BPE, a tokenizer is trained on the spot with the library's parts, saved as
tokenizer.json, and converted; both then encode N lines (10,000 by default) of words, numbers, code, white space and
characters of many scripts. So does each tokenizer.json that is named, or that an installed package of the name has.
Lines that differ are printed; the exit status says whether there were any.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gguf
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import hf_models  # noqa: E402
import model_vocabularies  # noqa: E402

from ggml.models import Tokenizer, convert  # noqa: E402
from ggml.models.text.pretokenizers import PRE_TOKENIZERS  # noqa: E402

SHOWN = 5  # lines that are printed of each


def trained(name: str, lines: list[str]) -> tokenizers.Tokenizer:
    """A byte-level tokenizer of the library with the rules of a name."""
    rules = PRE_TOKENIZERS[name]
    tokenizer = tokenizers.Tokenizer(models.BPE(ignore_merges=rules.ignore_merges))
    splits: list[Any] = [pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated") for pattern in rules.patterns]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1500, special_tokens=["<s>", "</s>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def converted(file: str, settings: dict[str, Any]) -> Tokenizer:
    """The tokenizer of a folder with a tokenizer.json, by way of a GGUF file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = {**hf_models.record("llama")["config"], "vocab_size": 1 << 20}
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        (folder / "tokenizer.json").write_text(file, encoding="utf-8")
        convert(folder, folder / "vocab.gguf", vocab_only=True)
        fields = gguf.GGUFReader(folder / "vocab.gguf").fields
        return Tokenizer({key: field.contents() for key, field in fields.items()})


def differing(ours: Tokenizer, library: tokenizers.Tokenizer, lines: Iterable[str]) -> list[str]:
    """The lines that have other tokens."""
    return [
        line for line in lines
        if ours.encode(line, False, special=True) != library.encode(line, add_special_tokens=False).ids
    ]  # fmt: skip


def compare(name: str, file: str, lines: list[str], settings: dict[str, Any] | None = None) -> int:
    """The number of lines that differ; the first ones are printed."""
    library = tokenizers.Tokenizer.from_str(file)
    ours = converted(file, settings or {})
    wrong = differing(ours, library, lines)
    print(f"{name}: {len(lines)} lines, {len(wrong)} differ")
    for line in wrong[:SHOWN]:
        print(f"  {line!r}\n    {ours.encode(line, False, special=True)}")
        print(f"    {library.encode(line, add_special_tokens=False).ids}")
    return len(wrong)


def files_of(name: str) -> list[Path]:
    """The tokenizer.json of a path or of an installed package."""
    if Path(name).is_file():
        return [Path(name)]
    spec = find_spec(name)
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    found = [file for place in places for file in sorted(Path(place).rglob("tokenizer.json"))]
    if not found:
        raise SystemExit(f"{name}: no file, and no package with a tokenizer.json")
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", metavar="TOKENIZER", help="tokenizer.json, or a package that has one")
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--only", nargs="*", choices=model_vocabularies.PRE_TOKENIZERS, metavar="NAME")
    options = parser.parse_args(arguments)
    # tokens with the names of well-known special ones must not be learned: they would be these
    training = [line for line in model_vocabularies.corpus(3, 600) if "<" not in line]
    lines = model_vocabularies.corpus(11, options.lines)
    wrong = 0
    for name in model_vocabularies.PRE_TOKENIZERS if options.only is None else options.only:
        wrong += compare(name, trained(name, training).to_str(), lines)
    for file in (file for name in options.files for file in files_of(name)):
        config = file.with_name("tokenizer_config.json")
        settings = json.loads(config.read_text()) if config.exists() else {}
        wrong += compare(str(file), file.read_text(encoding="utf-8"), lines, settings)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
