"""Tokenizers: ids equal to llama.cpp's on texts in many scripts and broken UTF-8, decoding, wrong vocabularies."""

import random
import subprocess
import sys
import zlib
from pathlib import Path

import model_texts
import model_vocabularies as vocabularies
import numpy as np
import pytest
import real_models
from ggml.models._tokens import TokenTable, repair

from ggml.models._encoders import normalized
from ggml.models._file import ModelFile
from ggml.models._tokenizer import Tokenizer

pytest.importorskip("tokenizers")  # of the extra [test]; not installed on emulated CPUs
RECORDED = np.load(Path(__file__).parent / "data" / "models" / "tokens.npz")
TEXTS = model_texts.lines(vocabularies.LINES, vocabularies.SEED)


def recorded(name):
    """llama.cpp's ids of each text."""
    ids, lengths = RECORDED[f"{name}/ids"], RECORDED[f"{name}/lengths"]
    return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]


def require_equal(tokenizer, found, wanted):
    for text, ours, theirs in zip(TEXTS, found, wanted, strict=True):
        assert ours == theirs, (text, [tokenizer.text(i) for i in ours], [tokenizer.text(i) for i in theirs])


def checksums(tokenizer, special):
    options = {"add_bos": None, "special": True} if special else {"add_bos": False}
    texts = model_texts.lines(10_000)
    return [zlib.crc32(np.array(tokenizer.encode(text, **options), "<i4")) for text in texts]


# ---- against llama.cpp -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("kind", vocabularies.KINDS)
def test_every_kind_gives_the_ids_of_llama_cpp(kind, special):
    tokenizer = Tokenizer(vocabularies.KINDS[kind]())
    found = [tokenizer.encode(t, add_bos=None if special else False, special=special) for t in TEXTS]
    require_equal(tokenizer, found, recorded(f"{kind}/{special}"))


@pytest.fixture(scope="module")
def bpe():
    return vocabularies.bpe("default")


@pytest.mark.parametrize("pre", vocabularies.PRE_TOKENIZERS)
def test_every_pre_tokenizer_gives_the_ids_of_llama_cpp(pre, bpe):
    tokenizer = Tokenizer({**bpe, "tokenizer.ggml.pre": pre})
    require_equal(tokenizer, [tokenizer.encode(t, add_bos=False, special=True) for t in TEXTS], recorded(pre))


def test_the_recorded_pre_tokenizers_cover_all_rules():
    from ggml.models._pretokenizers import PRE_TOKENIZERS

    covered = {PRE_TOKENIZERS[name] for name in vocabularies.PRE_TOKENIZERS}
    assert {rules for rules in PRE_TOKENIZERS.values() if not rules.plain} == covered


def test_the_texts_are_those_that_were_recorded():
    assert [zlib.crc32(line) for line in model_texts.lines(10_000)] == RECORDED["lines"].tolist()


@pytest.mark.parametrize("kind", [*vocabularies.KINDS, "bpe"])
def test_the_vocabularies_are_those_that_were_recorded(kind, bpe):
    metadata = bpe if kind == "bpe" else vocabularies.KINDS[kind]()
    assert vocabularies.checksum(metadata) == RECORDED[f"{kind}/vocabulary"]


@pytest.mark.parametrize("special", [False, True])
def test_smollm2_gives_the_ids_of_llama_cpp(special):
    file = ModelFile(real_models.smollm2())
    assert checksums(Tokenizer(file.metadata), special) == RECORDED[f"smollm2/{special}"].tolist()
    file.close()


@pytest.mark.parametrize("special", [False, True])
def test_gemma3_gives_the_ids_of_llama_cpp(special, tmp_path_factory):
    file = ModelFile(real_models.gemma3(tmp_path_factory.getbasetemp()))
    assert checksums(Tokenizer(file.metadata), special) == RECORDED[f"gemma3/{special}"].tolist()
    file.close()


@pytest.mark.parametrize(("bert", "checksum"), [(True, 2862730586), (False, 1996654496)])
def test_characters_are_those_of_unicode_15(bert, checksum):
    """On every Python version. llama.cpp made the same of each character in a vocabulary that holds all of them."""
    points = [*range(0xD800), *range(0xE000, 0x33480), *range(0xE0000, 0xE0200)]
    found = "\n".join(normalized(chr(point), bert, bert) for point in points)
    assert zlib.crc32(found.encode()) == checksum


# ---- decoding --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["spm without space", "bpe"])
def test_decoding_returns_the_text(kind, bpe):
    tokenizer = Tokenizer(bpe if kind == "bpe" else vocabularies.KINDS[kind]())
    for data in TEXTS:
        text = data.decode(errors="ignore")
        if kind == "bpe" or "\u2581" not in text:  # SentencePiece cannot tell its sign from a space
            assert tokenizer.decode(tokenizer.encode(text, add_bos=False)) == text


@pytest.mark.parametrize("kind", ["spm", "bpe"])
def test_a_stream_gives_the_same_text(kind, bpe):
    tokenizer = Tokenizer(bpe if kind == "bpe" else vocabularies.spm(False))
    for data in TEXTS:
        ids, decoder = tokenizer.encode(data, add_bos=False), tokenizer.decoder()
        pieces = [decoder.push(i) for i in ids]
        assert "".join([*pieces, decoder.flush()]) == tokenizer.decode(ids)


def test_a_stream_holds_back_incomplete_characters(bpe):
    tokenizer, decoder = Tokenizer(bpe), Tokenizer(bpe).decoder()
    ids = tokenizer.encode("\U00010348", add_bos=False)
    assert len(ids) == 4
    assert [decoder.push(i) for i in ids] == ["", "", "", "\U00010348"]
    assert decoder.push(ids[0]) == "" and decoder.flush() == "\ufffd" and decoder.flush() == ""


def test_special_tokens_have_no_text_unless_asked_for(bpe):
    tokenizer = Tokenizer(bpe)
    ids = tokenizer.encode("a<|im_end|>b<h1>", special=True)
    assert [tokenizer.text(i) for i in ids] == ["a", "<|im_end|>", "b", "<h1>"]
    assert tokenizer.decode(ids) == "ab<h1>"
    assert tokenizer.decode(ids, special=True) == "a<|im_end|>b<h1>"
    ids = tokenizer.encode("a<|im_end|>b<h1>", add_bos=False)
    assert tokenizer.decode(ids) == "a<|im_end|>b<h1>" and tokenizer.text(ids[-1]) == "<h1>"
    assert not tokenizer.control & set(ids)


def test_the_space_before_a_text_is_dropped():
    tokenizer = Tokenizer(vocabularies.spm())
    for text in ("Alice", "  two spaces", "你好 é"):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text and tokenizer.decode(ids, special=True) == "<s> " + text
        assert tokenizer.decode(tokenizer.encode(text, add_bos=False)) == text


def test_wordpiece_decodes_words():
    tokenizer = Tokenizer(vocabularies.wordpiece())
    assert tokenizer.decode(tokenizer.encode("  She was Late.")) == "she was late ."


# ---- special tokens --------------------------------------------------------------------------------------------------
def test_beginning_and_end():
    spm, t5 = Tokenizer(vocabularies.spm()), Tokenizer(vocabularies.unigram())
    assert spm.encode("") == [1] and spm.encode("", add_bos=False) == []
    assert t5.encode("") == [1] and t5.encode("x", add_bos=False)[-1] != 1
    bert = Tokenizer(vocabularies.wordpiece()).encode("")
    assert bert == [2, 3]
    with pytest.raises(ValueError, match="tokenize: the vocabulary has no token for the beginning"):
        t5.encode("x", add_bos=True)


def test_ends_of_generation(bpe):
    def ends(*texts, **keys):
        tokens = [*bpe["tokenizer.ggml.tokens"], *texts]
        types = bpe["tokenizer.ggml.token_type"] + [vocabularies.CONTROL] * len(texts)
        changed = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types}
        tokenizer = Tokenizer({**bpe, **changed, **{f"tokenizer.ggml.{k}": v for k, v in keys.items()}})
        return {tokenizer.text(i) for i in tokenizer.eog}

    assert ends() == {"<|endoftext|>", "<|im_end|>"}
    assert ends("</s>", "<end_of_turn>") == {"<|endoftext|>", "<|im_end|>", "</s>", "<end_of_turn>"}
    assert ends(eot_token_id=65) == {"<|endoftext|>", "<|im_end|>", "A"}
    assert "<|end|>" in ends("<|end|>") and "<|end|>" not in ends("<|end|>", "<|return|>", "<|call|>")
    assert "<|fim_pad|>" in ends("<|fim_pad|>", "<fim_pad>") and "<fim_pad>" not in ends("<|fim_pad|>", "<fim_pad>")


def test_longer_special_tokens_are_found_first(bpe):
    tokens = [*bpe["tokenizer.ggml.tokens"], "<a", "<a>", "a>b"]
    types = bpe["tokenizer.ggml.token_type"] + [vocabularies.USER_DEFINED] * 3
    tokenizer = Tokenizer({**bpe, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types})
    assert [tokenizer.text(i) for i in tokenizer.encode("<a><a!<a>b", add_bos=False)] == ["<a>", "<a", "!", "<a>", "b"]


def test_white_space_around_special_tokens_of_phi3(bpe):
    tokenizer = Tokenizer({**bpe, "general.name": "Phi-3 mini"})
    assert tokenizer.encode("<|im_end|> \n a", special=True) == tokenizer.encode("<|im_end|>a", special=True)


# ---- wrong input -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("change", "message"), [
    ({"tokenizer.ggml.model": "rwkv"}, "'rwkv': need one of 'llama', 'gpt2'"),
    ({"tokenizer.ggml.model": None}, "None: need one of"),
    ({"tokenizer.ggml.model": ["gpt2"]}, "need one of"),
    ({"tokenizer.ggml.model": "x" * 1000}, "tokenizer.ggml.model is 'x{20}': need one of"),
    ({"tokenizer.ggml.tokens": None}, "tokenizer.ggml.tokens is missing or empty"),
    ({"tokenizer.ggml.tokens": []}, "tokenizer.ggml.tokens is missing or empty"),
    ({"tokenizer.ggml.tokens": [1, 2]}, r"tokenizer.ggml.tokens is \[1, 2\]: need an array of strings"),
    ({"tokenizer.ggml.token_type": [1]}, "tokenizer.ggml.token_type has 1 items: need"),
    ({"tokenizer.ggml.token_type": 1.5}, "tokenizer.ggml.token_type is 1.5: need an array of integers"),
    ({"tokenizer.ggml.token_type": [True] * 999}, "tokenizer.ggml.token_type is .*: need an array of integers"),
    ({"tokenizer.ggml.pre": "mine"}, "tokenizer.ggml.pre is 'mine': need one of .*llama-bpe"),
    ({"tokenizer.ggml.pre": 7}, "tokenizer.ggml.pre is 7: need one of"),
    ({"tokenizer.ggml.merges": None}, "tokenizer.ggml.merges"),
    ({"tokenizer.ggml.merges": "a b"}, "tokenizer.ggml.merges is 'a b': need an array of strings"),
    ({"tokenizer.ggml.merges": [3, 4]}, r"tokenizer.ggml.merges is \[3, 4\]: need an array of strings"),
    ({"tokenizer.ggml.add_bos_token": "no"}, "tokenizer.ggml.add_bos_token is 'no': need a bool"),
    ({"tokenizer.ggml.eos_token_id": 1.0}, "tokenizer.ggml.eos_token_id is 1.0: need an integer"),
    ({"tokenizer.ggml.eot_token_id": True}, "tokenizer.ggml.eot_token_id is True: need an integer"),
])
def test_wrong_vocabularies_are_named(change, message, bpe):
    metadata = {k: v for k, v in {**bpe, **change}.items() if v is not None}
    with pytest.raises(ValueError, match="^Tokenizer: .*" + message):
        Tokenizer(metadata)


@pytest.mark.parametrize(("kind", "change", "message"), [
    ("llama", {"scores": ["a"] * 9999}, "scores is .*: need an array of numbers"),
    ("llama", {"scores": 1.0}, "scores is 1.0: need an array of numbers"),
    ("llama", {"add_space_prefix": 1}, "add_space_prefix is 1: need a bool"),
    ("bert", {"normalizer.lowercase": "x"}, "normalizer.lowercase is 'x': need a bool"),
    ("t5", {"scores": None}, "the file has no tokenizer.ggml.scores"),
    ("t5", {"precompiled_charsmap": [0.5]}, "precompiled_charsmap is .*: need an array of integers"),
    ("t5", {"precompiled_charsmap": [99] * 50}, "precompiled_charsmap: .*parse"),
])
def test_wrong_vocabularies_of_other_kinds_are_named(kind, change, message):
    metadata = vocabularies.wordpiece() if kind == "bert" else {**vocabularies.spm(), "tokenizer.ggml.model": kind}
    metadata |= {f"tokenizer.ggml.{key}": value for key, value in change.items()}
    with pytest.raises(ValueError, match="^Tokenizer: .*" + message):
        Tokenizer({k: v for k, v in metadata.items() if v is not None})


def test_strange_vocabularies_do_not_fail(bpe):
    tokens = [*bpe["tokenizer.ggml.tokens"], "", "a", "\udcff", "\ud800"]
    types = bpe["tokenizer.ggml.token_type"] + [99, -1, 1, 1]
    merges = bpe["tokenizer.ggml.merges"]
    merges = [*merges, "x", "", " ", "  ", "no such", "a b", "a b", merges[0]]
    tokenizer = Tokenizer({**bpe, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types,
                           "tokenizer.ggml.merges": merges, "tokenizer.ggml.eos_token_id": 10**9,
                           "tokenizer.ggml.bos_token_id": -5})  # fmt: skip
    ids = tokenizer.encode("Hello <h1> \U0001f600", special=True)
    assert tokenizer.decode(ids) == "Hello <h1> \U0001f600"
    assert tokenizer.bos == tokenizer.eos == 11  # the default
    assert all(isinstance(tokenizer.piece(i), bytes) for i in range(tokenizer.n_vocab))
    spm = vocabularies.spm()
    for key in ("tokens", "scores", "token_type"):
        spm[f"tokenizer.ggml.{key}"] = spm[f"tokenizer.ggml.{key}"][:40]  # most bytes have no token now
    spm["tokenizer.ggml.scores"] = [float("nan")] * 40
    assert set(Tokenizer(spm).encode("\u4e00zz")) == {0, 1}  # unknown, and the beginning


def test_bytes_without_a_token_are_left_out_and_separate(bpe):
    pairs = [tuple(merge.split(" ")) for merge in bpe["tokenizer.ggml.merges"]]
    left, right = next((a, b) for a, b in pairs if (a + b).isalpha() and (a + b).isascii() and len(a + b) == 2)
    tokens = [t if t != "X" else "[none]" for t in bpe["tokenizer.ggml.tokens"]]
    tokenizer = Tokenizer({**bpe, "tokenizer.ggml.tokens": tokens})
    ids = tokenizer.encode(f"{left}X{right}1{left}{right}")
    assert [tokenizer.text(i) for i in ids] == [left, right, "1", left + right]
    assert tokenizer.encode(b"X") == [] and tokenizer.decode(tokenizer.encode(b"\xed\xa0\xbdX1")) == "\ufffd" * 3 + "1"


def test_wrong_arguments(bpe):
    tokenizer = Tokenizer(bpe)
    for wrong in (3, None, ["a"]):
        with pytest.raises(TypeError, match="tokenize: text is a .*: need str or bytes"):
            tokenizer.encode(wrong)
    for wrong in (-1, tokenizer.n_vocab, 2**70):
        with pytest.raises(IndexError, match="detokenize: token .* does not exist: need 0 to"):
            tokenizer.decode([wrong])
    with pytest.raises(ValueError, match="tokenizer.ggml.scores has 2 items"):
        Tokenizer({**vocabularies.spm(), "tokenizer.ggml.scores": [1.0, 2.0]})


@pytest.mark.parametrize("text", ["a", "\n", " ", "\u4e00", "<", "\U0001f600\u200d", "1"])
def test_long_texts_of_one_character(text, bpe):
    count = 100_000
    for tokenizer in (Tokenizer(bpe), Tokenizer(vocabularies.spm(False)), Tokenizer(vocabularies.wordpiece())):
        ids = tokenizer.encode(text * count, special=True)
        assert ids and (tokenizer.model == "bert" or tokenizer.decode(ids) == text * count)


def test_a_missing_library_is_named(tmp_path):
    code = """
import sys
sys.modules["tokenizers"] = sys.modules["jinja2"] = sys.modules["tqdm"] = None
import ggml.models
sys.path.insert(0, sys.argv[1])
import model_vocabularies as v
from ggml.models._tokenizer import Tokenizer
assert Tokenizer(v.spm()).encode("hi") and Tokenizer(v.wordpiece()).encode("hi")
try:
    Tokenizer(v.bpe("default", 5))
except ModuleNotFoundError as error:
    print(error)
"""
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "tokenizers is missing: pip install 'ggml-cython[llm]'", done.stderr


# ---- the table of tokens ---------------------------------------------------------------------------------------------
def test_the_table_finds_every_token():
    rng = random.Random(1)
    texts = list({rng.randbytes(1 + rng.randrange(20)) for _ in range(5000)})
    table = TokenTable(texts)
    assert len(table) == len(texts)
    assert [table.find(t) for t in texts] == list(range(len(texts)))
    assert [table[i] for i in range(len(texts))] == texts
    assert table.find(b"") == -1 and table.find(b"no such text at all, too long") == -1
    text = b"".join(texts[:50])
    assert table.occurring(text) == [i for i, t in enumerate(texts) if t in text]
    with pytest.raises(IndexError):
        table[len(texts)]
    with pytest.raises(TypeError, match="need bytes"):
        TokenTable(["text"])
    with pytest.raises(ValueError, match="2 scores for 3 tokens"):
        TokenTable([b"a", b"b", b"c"], [1.0, 2.0])


def test_merging_takes_the_best_score_and_then_the_leftmost():
    table = TokenTable([b"a", b"b", b"ab", b"ba", b"aba"], [0, 0, 1, 1, 5])
    assert [table[i] for i in table.merge(b"ababa")] == [b"aba", b"ba"]
    assert table.merge(b"axb") == [0, 1] and table.merge(b"axb", 9) == [0, 9, 1] and table.merge(b"") == []


@pytest.mark.parametrize(("data", "text", "strict"), [
    (b"abc\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "abc\xe9\u20ac\U0001f600", "abc\xe9\u20ac\U0001f600"),
    (b"\xff\x80a", "\ufffd\ufffda", "\ufffd\ufffda"),
    (b"\xe2\x82", "\ufffd\ufffd", "\ufffd\ufffd"),
    (b"\xe2\x82a", "\ufffd\ufffda", "\ufffd\ufffda"),
    (b"\xc0\xaf", "/", "\ufffd"),
    (b"\xed\xa0\xbd", "\ud83d", "\ufffd"),
    (b"\xf7\xbf\xbf\xbf", "\ufffd", "\ufffd"),
    (b"\xf8\x88\x80\x80\x80", "\ufffd" * 5, "\ufffd" * 5),
    (b"", "", ""),
])
def test_repairing_utf8(data, text, strict):
    assert repair(data) == text and repair(data, strict=True) == strict
    assert repair(data, strict=True, replacement=33) == strict.replace("\ufffd", "!")
