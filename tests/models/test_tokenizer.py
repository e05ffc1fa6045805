"""Tokenizers: ids equal to llama.cpp's on texts in many scripts and broken UTF-8, decoding, wrong vocabularies."""

import json
import random
import subprocess
import sys
import time
import zlib
from pathlib import Path

import model_texts
import model_vocabularies as vocabularies
import numpy as np
import pytest
import real_models
from ggml.models.text.tokens import CharsMap, TokenTable, repair

from ggml.models.files.model_file import ModelFile
from ggml.models.text import encoders
from ggml.models.text.encoders import normalized
from ggml.models.text.tokenizer import Tokenizer

pytest.importorskip("tokenizers")  # of the extra [test]; not installed on emulated CPUs
RECORDED = np.load(Path(__file__).parents[1] / "data" / "models" / "tokens.npz")
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
    from ggml.models.text.pretokenizers import PRE_TOKENIZERS

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


def test_replaced_characters_are_those_of_sentencepiece():
    file = Path(__file__).parents[1] / "data" / "models" / "charsmap.json"  # made by SentencePiece from a few rules
    recorded = json.loads(file.read_text(encoding="utf-8"))
    charsmap = CharsMap(bytes(recorded["charsmap"]))
    assert [charsmap.normalize(text.encode()).decode() for text in recorded["texts"]] == recorded["normalized"]
    assert sum(a != b for a, b in zip(recorded["texts"], recorded["normalized"], strict=True)) > 40
    metadata = {**vocabularies.unigram(), "tokenizer.ggml.precompiled_charsmap": recorded["charsmap"]}
    for text, normalized_ in zip(recorded["texts"], recorded["normalized"], strict=True):
        assert Tokenizer(metadata).encode(text) == Tokenizer(vocabularies.unigram()).encode(normalized_)
        break


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


GPT_OSS = "<|start|> <|end|> <|message|> <|channel|> <|constrain|> <|return|> <|call|>".split()


@pytest.mark.parametrize("kind", [vocabularies.CONTROL, vocabularies.USER_DEFINED, vocabularies.NORMAL])
def test_tokens_of_gpt_oss_are_text_unless_asked_for(kind, bpe):
    tokens = [*bpe["tokenizer.ggml.tokens"], *GPT_OSS]
    types = bpe["tokenizer.ggml.token_type"] + [kind] * len(GPT_OSS)
    tokenizer = Tokenizer({**bpe, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types})
    first = len(tokens) - len(GPT_OSS)
    for i, text in enumerate(GPT_OSS):
        assert tokenizer.encode(text, special=True) == [first + i]
        ids = tokenizer.encode(f"a{text}b")
        assert max(ids) < first and tokenizer.decode(ids) == f"a{text}b"
    assert tokenizer.decode([first, first + 2]) == "<|start|><|message|>"  # they are shown


@pytest.mark.parametrize("kind", ["spm", "wordpiece", "unigram", "default", "llama-bpe", "gemma4"])
def test_no_text_becomes_a_control_token(kind, bpe):
    """Whatever the vocabulary calls one: tokens that texts of the file have become control tokens."""
    if kind in vocabularies.KINDS:
        metadata = vocabularies.KINDS[kind]()
    else:
        metadata = {**bpe, "tokenizer.ggml.pre": kind} | ({"tokenizer.ggml.model": kind} if kind == "gemma4" else {})
    plain = Tokenizer(metadata)
    before = [plain.encode(text, add_bos=False) for text in TEXTS]
    used = sorted({i for ids in before for i in ids} - plain.control)
    chosen = set(random.Random(3).sample(used, len(used) // 3))
    types = list(metadata["tokenizer.ggml.token_type"])
    for token in chosen:
        types[token] = vocabularies.CONTROL
    tokenizer = Tokenizer({**metadata, "tokenizer.ggml.token_type": types})
    for text, ids in zip(TEXTS, before, strict=True):
        found = set(tokenizer.encode(text, add_bos=False)) - {tokenizer.unknown}
        assert not found & tokenizer.control, [tokenizer.text(i) for i in found & tokenizer.control]
        if not set(ids) & chosen and kind == "wordpiece":  # nothing else changes
            assert tokenizer.encode(text, add_bos=False) == ids
    name = tokenizer.text(max(chosen, key=lambda i: len(tokenizer.text(i))))
    assert tokenizer.has(name)


def test_white_space_around_special_tokens_of_phi3(bpe):
    tokenizer = Tokenizer({**bpe, "general.name": "Phi-3 mini"})
    assert tokenizer.encode("<|im_end|> \n a", special=True) == tokenizer.encode("<|im_end|>a", special=True)


# ---- wrong input -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokenizer.ggml.model": "plamo2"}, "'plamo2': need one of 'llama', 'gpt2'"),
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
    ],
)
def test_wrong_vocabularies_are_named(change, message, bpe):
    metadata = {k: v for k, v in {**bpe, **change}.items() if v is not None}
    with pytest.raises(ValueError, match="^Tokenizer: .*" + message):
        Tokenizer(metadata)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("llama", {"scores": ["a"] * 9999}, "scores is .*: need an array of numbers"),
        ("llama", {"scores": 1.0}, "scores is 1.0: need an array of numbers"),
        ("llama", {"add_space_prefix": 1}, "add_space_prefix is 1: need a bool"),
        ("bert", {"normalizer.lowercase": "x"}, "normalizer.lowercase is 'x': need a bool"),
        ("t5", {"scores": None}, "the file has no tokenizer.ggml.scores"),
        ("t5", {"precompiled_charsmap": [0.5]}, "precompiled_charsmap is .*: need an array of integers"),
        ("t5", {"precompiled_charsmap": [99] * 50}, "precompiled_charsmap: .*parse"),
    ],
)
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


def long_special(length=2000):
    tokens = ["<unk>", "<s>", "</s>", *("a" * (i + 2) for i in range(length))]
    return {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": [2, 3, 3] + [4] * length,
            "tokenizer.ggml.scores": [0.0] * len(tokens)}  # fmt: skip


def long_tokens(model, *extra):
    tokens = ["<unk>", "<s>", "</s>", "\u2581", "\u2581a", *("a" * (i + 1) for i in range(3000)), "b" * 100000, *extra]
    return {"tokenizer.ggml.model": model, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.unknown_token_id": 0,
            "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.seperator_token_id": 2,
            "tokenizer.ggml.scores": [0.0] * len(tokens)}  # fmt: skip


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        (long_special(), "a" * 20000),
        (long_special(), "ab" * 20000),
        (long_tokens("bert"), "a" * 20000),
        (long_tokens("bert"), "b" * 90000),
        (long_tokens("t5"), "a" * 20000),
        (long_tokens("llama"), "a" * 20000),
        (long_tokens("llama"), "b" * 90000),
        (long_tokens("t5"), "b" * 90000),
    ],
)
def test_strange_vocabularies_take_no_quadratic_time(metadata, text):
    tokenizer = Tokenizer(metadata)
    begin = time.process_time()
    assert tokenizer.encode(text)
    assert time.process_time() - begin < 10  # quadratic time is minutes


@pytest.mark.parametrize("pre", ["superbpe", "tiny_aya", "afmoe"])
@pytest.mark.parametrize("digits", ["1", "1\u0661", "\u00b2", "9" * 299 + "\u00b9"])
def test_long_numbers_are_cut_as_short_ones_are(pre, digits, bpe, monkeypatch):
    tokenizer, rng = Tokenizer({**bpe, "tokenizer.ggml.pre": pre}), random.Random(1)
    numbers = [(digits * 999)[: rng.randrange(290, 999)] for _ in range(30)]
    texts = ["ab "[i % 3] + number + "x, "[i % 3] + "\ud800" * (i % 2) for i, number in enumerate(numbers)]
    found = [tokenizer.encode(text) for text in texts]
    monkeypatch.setattr(encoders, "LONG_NUMBER", 10**6)  # by the patterns alone
    assert found == [tokenizer.encode(text) for text in texts]
    monkeypatch.undo()
    begin = time.process_time()
    assert tokenizer.decode(tokenizer.encode((digits * 50000)[:50000])) == (digits * 50000)[:50000]
    assert time.process_time() - begin < 10


def test_texts_cannot_be_chosen_to_collide():
    """They fell into one slot of a table whose hash had no key: 50,000 took 10 seconds, 100,000 four times as long."""
    inverse, texts = pow(0x9E3779B97F4A7C15, -1, 1 << 64), []

    def undo(h, shift):
        found = h
        for _ in range(64 // shift + 1):
            found = h ^ (found >> shift)
        return found

    for i in range(100_000):
        h = undo(undo(i << 24 | 5, 32) * inverse % (1 << 64), 29) * inverse % (1 << 64)
        texts.append((h ^ 0xCBF29CE484222325 ^ 8).to_bytes(8, "little"))
    begin = time.process_time()
    assert TokenTable(texts).find(texts[-1]) == len(texts) - 1
    assert time.process_time() - begin < 10


@pytest.mark.parametrize(
    "charsmap",
    [
        [0xFC, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0],
        [1],
        [4, 0, 0, 0],
        [3, 0, 0, 0, 1, 2, 3],
        [0, 0, 0, 0, 65],
    ],
)
def test_damaged_maps_of_characters_are_named(charsmap):
    with pytest.raises(ValueError, match="Tokenizer: tokenizer.ggml.precompiled_charsmap: cannot parse"):
        Tokenizer({**vocabularies.unigram(), "tokenizer.ggml.precompiled_charsmap": charsmap})


def test_maps_of_characters_never_leave_their_memory():
    recorded = json.loads((Path(__file__).parents[1] / "data" / "models" / "charsmap.json").read_text(encoding="utf-8"))
    rng, texts = random.Random(1), [text.encode() for text in recorded["texts"]] + [b"hello", b"\xff\xfe"]
    for _ in range(2000):
        data = bytearray(recorded["charsmap"])
        for _ in range(rng.randrange(1, 40)):
            data[rng.randrange(4, len(data) - 1)] = rng.randrange(256)
        charsmap = CharsMap(bytes(data))
        for text in rng.sample(texts, 5):
            try:
                charsmap.normalize(text)
            except ValueError as error:
                assert "charsmap makes more than 64 bytes of one" in str(error)
    assert CharsMap(bytes([4, 0, 0, 0, 0, 0, 200, 12, 0])).normalize(b"hello") == b"hello"


@pytest.mark.parametrize(
    "merges",
    [
        ["<|im_end|> \u00a4"],
        ["a" * 100 + " b"],
        ["\u00a4 \u00a4"],
        ["a " + "\u00e9" * 9],
    ],
)
def test_merges_longer_than_all_tokens(merges):
    metadata = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["<|im_end|>", "\u00a4", "a"]}
    tokenizer = Tokenizer({**metadata, "tokenizer.ggml.merges": merges})  # as llama.cpp, which never gets there
    assert tokenizer.encode("aa") == [2, 2]


def test_panics_of_the_library_are_exceptions(bpe, monkeypatch):
    class PanicException(BaseException):
        pass

    def panic(*_, **__):
        raise PanicException("index out of bounds")

    tokenizer = Tokenizer(bpe)
    monkeypatch.setattr(tokenizer._encoder, "pipeline", type("Pipeline", (), {"encode": panic}))
    with pytest.raises(ValueError, match="Tokenizer: .*index out of bounds"):
        tokenizer.encode("a")


def test_a_missing_library_is_named(tmp_path):
    code = """
import sys
sys.modules["tokenizers"] = sys.modules["jinja2"] = sys.modules["tqdm"] = None
import ggml.models
sys.path.insert(0, sys.argv[1])
import model_vocabularies as v
from ggml.models.text.tokenizer import Tokenizer
assert Tokenizer(v.spm()).encode("hi") and Tokenizer(v.wordpiece()).encode("hi")
try:
    Tokenizer(v.bpe("default", 5))
except ModuleNotFoundError as error:
    print(error)
"""
    command = [sys.executable, "-c", code, str(Path(__file__).parents[1])]
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
    with pytest.raises(IndexError):
        table[len(texts)]
    with pytest.raises(TypeError, match="need bytes"):
        TokenTable(["text"])
    with pytest.raises(ValueError, match="2 scores for 3 tokens"):
        TokenTable([b"a", b"b", b"c"], [1.0, 2.0])


def split_slowly(texts, data, left=b"", right=b""):
    """What TokenTable.split does, one token after the other."""
    parts = [data]
    for token in sorted(range(len(texts)), key=lambda i: (-len(texts[i]), i)):
        done = []
        for part in parts:
            pieces = part.split(texts[token]) if isinstance(part, bytes) else [part]
            for i, piece in enumerate(pieces):
                if i < len(pieces) - 1 and token < len(left) and left[token]:
                    piece = piece.rstrip(b" ")
                if i and token < len(right) and right[token]:
                    piece = piece.lstrip(b" ")
                done += [token, piece] if i else [piece]
        parts = done
    return [part for part in parts if part != b""]


@pytest.mark.parametrize("seed", range(40))
def test_texts_are_split_at_the_longest_tokens(seed):
    rng = random.Random(seed)
    texts = list({bytes(rng.choices(b"ab<", k=rng.randrange(1, 6))) for _ in range(rng.randrange(1, 9))})
    texts.sort(key=lambda text: -len(text))  # as the tokenizer does
    table, strips = TokenTable(texts), [bytes(rng.choices([0, 1], k=len(texts))) for _ in range(2)]
    for _ in range(40):
        data = bytes(rng.choices(b"ab< c", k=rng.randrange(30)))
        assert table.split(data) == split_slowly(texts, data)
        assert table.split(data, *strips, b" ") == split_slowly(texts, data, *strips)
    assert TokenTable([]).split(b"ab") == [b"ab"] and TokenTable([b"", b"a"]).split(b"") == []


@pytest.mark.parametrize("seed", range(20))
def test_words_and_most_likely_tokens(seed):
    rng = random.Random(seed)
    texts = list({"".join(rng.choices("ab\xe9", k=rng.randrange(1, 4))) for _ in range(8)})
    scores = [float(rng.randrange(-9, 0)) for _ in texts]
    table = TokenTable([text.encode() for text in texts], scores)

    def all_ways(text):
        if not text:
            yield 0.0, ()
        for size in range(1, len(text) + 1):
            if text[:size] in texts:
                token = texts.index(text[:size])
                yield from ((s + scores[token], (token, *rest)) for s, rest in all_ways(text[size:]))
        if text and text[0] not in texts:
            yield from ((s - 20, (-1, *rest)) for s, rest in all_ways(text[1:]))

    for _ in range(30):
        text = "".join(rng.choices("ab\xe9c", k=rng.randrange(8)))
        score = max(s for s, _ in all_ways(text))
        ids = table.most_likely(text.encode(), -1, -20.0)
        merged = [w for s, w in all_ways(text) if s == score]
        merged = [[t for i, t in enumerate(w) if t >= 0 or i == 0 or w[i - 1] >= 0] for w in merged]
        assert ids in merged
        wanted, rest = [], text
        while rest and (fits := [t for t in texts if rest.startswith(t)]):
            wanted.append(texts.index(max(fits, key=len)))
            rest = rest[len(max(fits, key=len)) :]
        assert table.longest_first(text.encode()) == (None if rest else wanted)


def test_merging_takes_the_best_score_and_then_the_leftmost():
    table = TokenTable([b"a", b"b", b"ab", b"ba", b"aba"], [0, 0, 1, 1, 5])
    assert [table[i] for i in table.merge(b"ababa")] == [b"aba", b"ba"]
    assert table.merge(b"axb") == [0, 1] and table.merge(b"axb", 9) == [0, 9, 1] and table.merge(b"") == []


@pytest.mark.parametrize(
    ("data", "text", "strict"),
    [
        (b"abc\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "abc\xe9\u20ac\U0001f600", "abc\xe9\u20ac\U0001f600"),
        (b"\xff\x80a", "\ufffd\ufffda", "\ufffd\ufffda"),
        (b"\xe2\x82", "\ufffd\ufffd", "\ufffd\ufffd"),
        (b"\xe2\x82a", "\ufffd\ufffda", "\ufffd\ufffda"),
        (b"\xc0\xaf", "/", "\ufffd"),
        (b"\xed\xa0\xbd", "\ud83d", "\ufffd"),
        (b"\xf7\xbf\xbf\xbf", "\ufffd", "\ufffd"),
        (b"\xf8\x88\x80\x80\x80", "\ufffd" * 5, "\ufffd" * 5),
        (b"", "", ""),
    ],
)
def test_repairing_utf8(data, text, strict):
    assert repair(data) == text and repair(data, strict=True) == strict
    assert repair(data, strict=True, replacement=33) == strict.replace("\ufffd", "!")
