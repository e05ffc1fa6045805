"""Texts of a language: JSON, schemas, regular expressions, grammars, choices."""

import json
import os
import re

import numpy as np
import pytest

for library in ("gguf", "tokenizers", "llguidance", "jsonschema"):  # of the extra [test]
    pytest.importorskip(library)

import jsonschema  # noqa: E402
import structured  # noqa: E402
import tiny_models  # noqa: E402
from ggml.models.sample.choice import exclude_tokens  # noqa: E402

from ggml._cli import main  # noqa: E402
from ggml.models import Llama, Sampler, load  # noqa: E402
from ggml.models.llama_cpp.llama_grammar import LlamaGrammar  # noqa: E402
from ggml.models.sample import constraint, trial  # noqa: E402
from ggml.models.sample.constraint import KINDS, PROPERTIES, SIZE, constrained  # noqa: E402

SCHEMAS = int(os.environ.get("GGML_SCHEMAS", "40"))
PARTS = {"x": {"type": "integer", "minimum": 0, "maximum": 9}, "name": {"enum": ["a"]}}
POINT = {"type": "object", "properties": PARTS, "required": ["x", "name"], "additionalProperties": False}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return structured.write_model(tmp_path_factory.mktemp("structured") / "bytes.gguf")


@pytest.fixture(scope="module")
def model(path):
    with load(path, n_ctx=256, n_seq=4, threads=1) as model:
        yield model


def test_answers_are_valid_for_their_schemas(model):
    """With random weights; most end, as the schemas have bounds."""
    prompt, ended = [5, 6, 7], 0
    for i, schema in enumerate(structured.schemas(SCHEMAS)):
        text = model.generate(prompt, json_schema=schema, max_tokens=240, seed=i, temperature=1.0, top_k=0, min_p=0.0)
        answer = "".join(text)
        if text.finish_reason == "stop":
            ended += 1
            jsonschema.Draft202012Validator(schema).validate(json.loads(answer))
        else:
            assert len(text.ids) == 240
    assert ended > 0.9 * SCHEMAS


@pytest.mark.parametrize("options", [{}, {"temperature": 0}, {"repeat_penalty": 3.0}, {"mirostat": 2}, {"top_k": 1}])
def test_the_language_comes_before_every_setting(options, model):
    for seed in range(5):
        text = model.generate("x", json_schema=POINT, max_tokens=100, seed=seed, **options)
        found = json.loads("".join(text))
        assert text.finish_reason == "stop" and list(found) == ["x", "name"]
        jsonschema.validate(found, POINT)

    def against(ids, logits):
        logits[:] = -1e9
        logits[ids[-1]] = 1e9

    assert json.loads("".join(model.generate("x", json_schema=POINT, logits_filter=against)))["name"] == "a"


def test_languages(model):
    def texts(**options):
        return {"".join(model.generate("x", max_tokens=60, seed=seed, top_k=0, **options)) for seed in range(12)}

    odd = ["two words", 'quo"te\\', "line\nbreak", "größe 😀", "a|b(", "it's"]
    found = texts(choices=odd, temperature=50.0)
    assert found <= set(odd) and len(found) > 1
    assert all(re.fullmatch("[0-9]{3}-(ab|cd)+x", text) for text in texts(regex="[0-9]{3}-(ab|cd){1,3}x"))
    gbnf = 'root ::= item ("," item)?\nitem ::= "yes" | "no" [!?]{2}  # a comment\n'
    lark = 'start: item ("," item)?\nitem: "yes" | "no" /[!?]{2}/\n'
    for grammar in (gbnf, lark):
        found = texts(grammar=grammar, temperature=5.0)
        assert len(found) > 1
        assert all(re.fullmatch(r"(yes|no[!?]{2})(,(yes|no[!?]{2}))?", text) for text in found)
    assert all(isinstance(json.loads(text), dict) for text in texts(json_schema=json.dumps(POINT)))
    assert "".join(model.generate("x", json=False, json_schema=None, max_tokens=3, seed=1)) == "".join(
        model.generate("x", max_tokens=3, seed=1)
    )


def test_a_text_that_is_cut_off_says_so(model):
    text = model.generate("x", json_schema=POINT, max_tokens=4)
    assert "".join(text).startswith("{") and text.finish_reason == "length" and len(text.ids) == 4


def test_forced_tokens_are_not_computed(model):
    """What is certain is appended without logits; with log-probabilities each token has its own."""
    schema = {"const": {"a long name": [1, 2, 3], "another one": None}}
    seen = []
    count = {"logits_filter": lambda ids, logits: seen.append(1)}
    quick = model.generate("x", json_schema=schema, max_tokens=200, temperature=0, **count)
    answer = "".join(quick)
    assert json.loads(answer) == schema["const"] and len(seen) <= len(quick.ids) - 15
    seen.clear()
    certain = model.generate("x", choices=["all of it is certain"], **count)
    assert "".join(certain) == "all of it is certain" and len(seen) < 4 < len(certain.ids)
    seen.clear()
    text = model.generate("x", json_schema=schema, max_tokens=200, temperature=0, logprobs=1, **count)
    assert json.loads("".join(text)) == schema["const"]
    assert len(seen) in (len(text.ids), len(text.ids) + 1) and len(text.logprobs) == len(text.ids)


@pytest.mark.parametrize("share", [0, 0.01, 0.5, 1])
def test_masks_of_any_length(share):
    rng = np.random.default_rng(1)
    for n in (1, 7, 8, 9, 64, 203):
        allowed, logits = rng.random(n) < share, rng.standard_normal(n).astype(np.float32)
        found = logits.copy()
        assert exclude_tokens(found, np.packbits(allowed, bitorder="little").tobytes()) == allowed.any()
        assert (found == np.where(allowed, logits, -np.inf)).all()
    with pytest.raises(ValueError, match="generate: 8 bits of a mask: need 9"):
        exclude_tokens(np.zeros(9, np.float32), b"1")


def test_masks_are_computed_beside_the_graph(model, monkeypatch):
    """In another thread, if they take long; texts are the same."""

    def write():
        texts = model.generate_many(["x", "y", "z"], json_schema=POINT, max_tokens=60, seed=1)
        list(texts)
        return [text.ids for text in texts.texts]

    texts = write()
    begun = []
    monkeypatch.setattr(constraint, "QUICK", -1.0)
    submit = constraint.BESIDE.pool.submit
    monkeypatch.setattr(constraint.BESIDE.pool, "submit", lambda *args: begun.append(args) or submit(*args))
    assert write() == texts and len(begun) > 20
    constraint.BESIDE.renew()  # as in the child of a fork
    assert write() == texts


def test_several_texts_each_in_its_own_language(model):
    texts = model.generate_many(["x", "y", "z"], choices=["one", "two"], max_tokens=9, seed=1)
    found = [""] * 3
    for i, piece in texts:
        found[i] += piece
    assert set(found) <= {"one", "two"}
    first = model.generate("x", choices=["one"])
    second = model.generate("x", regex="[0-9]{4}")
    pieces = ["", ""]
    for _ in range(9):
        for i, text in enumerate((first, second)):
            pieces[i] += next(text, "")
    assert pieces[0] == "one" and re.fullmatch("[0-9]{4}", pieces[1])


def test_what_cannot_be_used_is_an_error_of_the_call(model):
    nested: dict = {"type": "integer"}
    for _ in range(3000):
        nested = {"items": nested}
    cycle: list = []
    cycle.append({"items": cycle})
    cases = [
        ({"json_schema": {"properties": {"a/b": {"items": {"uniqueItems": True}}}}},
         "json_schema: #/properties/a~1b/items/uniqueItems: the keyword 'uniqueItems' is not supported"),
        ({"json_schema": {"properties": {"not": {"not": {}}}}}, "#/properties/not/not: the keyword 'not'"),
        ({"json_schema": {"anyOf": [{}, {"format": "no-such", "type": "string"}]}}, "#/anyOf/1/format: Unknown format"),
        ({"json_schema": {"items": {"type": "strin"}}}, "#/items/type: Invalid type: strin"),
        ({"json_schema": {"pattern": "(?=a)", "type": "string"}}, "#/pattern: regex parse error"),
        ({"json_schema": {"type": "integer", "minimum": 3, "maximum": 1}}, "Unsatisfiable schema"),
        ({"json_schema": {"items": {"properties": {"a": {}}, "maxProperties": 1}}},
         "json_schema: #/items/maxProperties: min/maxProperties only supported when"),
        ({"json_schema": {"items": {"oneOf": [{"type": "integer"}, {"type": "number"}]}}}, "#/items/oneOf: oneOf"),
        ({"json_schema": {"$ref": "#/x"}}, "'/x' does not exist"),
        ({"json_schema": "{"}, "json_schema is no JSON"),
        ({"json_schema": False}, "json_schema is False: no value is valid for it"),
        ({"json_schema": nested}, "nested too deeply"),
        ({"json_schema": {"items": cycle}}, "nested too deeply|Circular"),
        ({"json_schema": {"properties": {f"p{i}": {} for i in range(PROPERTIES + 1)}}}, "# has 1001 optional"),
        ({"regex": "a("}, "regex: .*unclosed group"),
        ({"regex": "a" * (SIZE + 1)}, "regex has 131,073 characters: need at most 131,072"),
        ({"grammar": 'root ::= "a" | foo'}, "the grammar cannot be parsed: Rule 'foo' not found"),
        ({"grammar": "root ::= " + "(" * 3000}, "the grammar (is nested too deeply|cannot be parsed)"),
        ({"grammar": 'start: "a" | b'}, 'unknown name: "b"'),
        ({"grammar": ""}, "the grammar cannot be parsed"),
        ({"grammar": "root ::= root"}, "no token of the vocabulary continues the text"),
        ({"json": True, "regex": "a"}, "json and regex are given: need one of them"),
    ]  # fmt: skip
    for options, message in cases:
        with pytest.raises(ValueError, match=f"(?s)generate: .*({message})"):
            model.generate("x", **options)
    for wrong in ({"json_schema": 3}, {"json_schema": {"const": {1, 2}}}, {"regex": b"a"}, {"grammar": 5},
                  {"choices": "ab"}, {"choices": []}, {"choices": ["a", ""]}):  # fmt: skip
        with pytest.raises(TypeError, match="generate: "):
            model.generate("x", **wrong)
    assert "".join(model.generate("x", choices=["ok"])) == "ok"
    wide = "root ::= " + "|".join(f'"{i}"' for i in range(13000))  # more alternatives than are followed
    with pytest.raises(ValueError, match="generate: the text cannot go on in its language: .*13001 items"):
        list(model.generate("x", grammar=wide))
    many = {"type": "object", "properties": {f"p{i}": {"type": "integer"} for i in range(PROPERTIES)}}
    assert "".join(model.generate("x", json_schema=many, max_tokens=1)).startswith("{")


def test_languages_that_take_for_ever(model, monkeypatch):
    """Where nothing else bounds the time, they are compiled in another process at first."""
    monkeypatch.setattr(trial, "SECONDS", 1.5)
    both = " & ".join(f"/(?s:.*)a{{{i}}}(?s:.*)/" for i in range(1, 30))
    for options in ({"grammar": f"start: A\nA: {both}"}, {"json_schema": {"type": "integer", "multipleOf": 99999989}}):
        with pytest.raises(ValueError, match="generate: [a-z_]+: it takes more than 1.5 seconds to compile"):
            model.generate("x", **options)
    monkeypatch.setattr(trial, "SECONDS", 20)
    schema = {"allOf": [{"type": "integer", "multipleOf": 5}, {"minimum": 3, "maximum": 9}]}
    assert "".join(model.generate("x", json_schema=schema)) == "5"
    deep: dict = {"type": "integer"}
    for _ in range(400):
        deep = {"items": deep}
    with pytest.raises(ValueError, match="generate: json_schema: recursion limit exceeded"):
        model.generate("x", json_schema=deep)


def test_a_vocabulary_that_lacks_a_character(tmp_path):
    with load(tiny_models.write(tmp_path / "tiny.gguf", "llama"), n_ctx=64, threads=1) as model:
        assert "".join(model.generate("a", choices=["abc"])) == "abc"  # the text may end though nothing follows
        with pytest.raises(ValueError, match="no token of the vocabulary continues the text in its language"):
            model.generate("a", choices=["é"])
        with pytest.raises(ValueError, match="generate: no token of the vocabulary continues the text"):
            list(model.generate("a", choices=["aé"]))


def test_a_vocabulary_without_an_end(tmp_path):
    drop = ("tokenizer.ggml.eos_token_id",)
    path = tiny_models.write(tmp_path / "tiny.gguf", "llama", drop=drop)
    with load(path, n_ctx=64, threads=1) as model:
        model.tokenizer.eog = set()
        text = model.generate("a", choices=["abc", "abcd"], temperature=3.0)
        assert "".join(text) in ("abc", "abcd") and text.finish_reason == "stop"


def test_classes_of_pydantic(model):
    class Point:
        @staticmethod
        def model_json_schema():
            return POINT

    assert json.loads("".join(model.generate("x", json_schema=Point, max_tokens=100)))["name"] == "a"


def test_a_sampler_alone(model):
    """mask excludes; accept goes on; done tells the end."""
    given = {"choices": ["no", "yes"]}
    sampler = Sampler(constraint=constrained("test", model.tokenizer, given))
    logits = np.zeros(model.config.n_vocab, np.float32)
    allowed = {model.tokenizer.piece(i) for i in np.flatnonzero(sampler.mask(logits) == 0)}
    assert {piece[:1] for piece in allowed} == {b"n", b"y"} and not sampler.done()
    for piece in ("n", "o"):
        (token,) = model.tokenizer.encode(piece, add_bos=False)
        sampler.accept(token)
    assert sampler.done() and (logits == 0).all()
    with pytest.raises(ValueError, match="the text cannot go on in its language|no token of the vocabulary"):
        Sampler(constraint=constrained("test", model.tokenizer, given)).accept(token)
    assert constrained("test", model.tokenizer, dict.fromkeys(KINDS)) is None


def test_the_command(path, tmp_path, capsys):
    (tmp_path / "schema.json").write_text(json.dumps(POINT))
    (tmp_path / "yes.gbnf").write_text('root ::= "yes" | "no"')

    def run(*options):
        assert main(["run", str(path), "-p", "x", "--threads", "1", "-n", "90", *options]) == 0
        return capsys.readouterr().out[:-1]

    assert json.loads(run("--json-schema", str(tmp_path / "schema.json")))["name"] == "a"
    assert run("--grammar", str(tmp_path / "yes.gbnf")) in ("yes", "no")
    assert run("--choice", "left", "--choice", "right") in ("left", "right")
    assert re.fullmatch("[0-9]{5}", run("--regex", "[0-9]{5}"))
    assert run("--choice", "left", "--samplers", "top_k;temperature", "--mirostat", "0", "--top-n-sigma", "2") == "left"
    assert main(["run", str(path), "-p", "x", "--regex", "("]) == 1
    assert "ggml run: generate: regex: " in capsys.readouterr().err.replace("run: regex", "run: generate: regex")


def test_grammars_and_formats_of_llama(path, tmp_path):
    (tmp_path / "list.gbnf").write_text('root ::= "[" [0-9] ("," [0-9])? "]"')
    messages = [{"role": "user", "content": "hi"}]
    schema = {"type": "json_schema", "json_schema": {"name": "point", "schema": POINT, "strict": True}}
    with Llama(path, n_ctx=256, n_threads=1, chat_format="chatml", verbose=False) as llama:
        for grammar, pattern in (
            (LlamaGrammar.from_string('root ::= "yes" | "no"'), "yes|no"),
            (LlamaGrammar.from_file(tmp_path / "list.gbnf"), r"\[[0-9](,[0-9])?\]"),
            (LlamaGrammar.from_json_schema(json.dumps({"enum": [12, "ab"]})), '12|"ab"'),
        ):
            answer = llama("x", grammar=grammar, max_tokens=50)["choices"][0]
            assert re.fullmatch(pattern, answer["text"]) and answer["finish_reason"] == "stop"
            tokens = []
            for token in llama.generate(llama.tokenize(b"x"), grammar=grammar):
                if token in llama.model.tokenizer.eog:
                    break
                tokens.append(token)
            assert re.fullmatch(pattern, llama.detokenize(tokens).decode())
        for given in (schema, {"type": "json_object", "schema": POINT}, {"type": "json_schema", "schema": POINT}):
            answer = llama.create_chat_completion(messages, response_format=given, max_tokens=100)["choices"][0]
            jsonschema.validate(json.loads(answer["message"]["content"]), POINT)
        answer = llama.create_chat_completion(messages, response_format={"type": "json_object"}, max_tokens=5)
        assert answer["choices"][0]["message"]["content"].startswith("{")
        for wrong in ({"type": "xml"}, "json", {"type": "json_schema"}):
            with pytest.raises(ValueError, match="create_chat_completion: response_format"):
                llama.create_chat_completion(messages, response_format=wrong)
        with pytest.raises(TypeError, match="create_completion: grammar is a str: need a LlamaGrammar"):
            llama("x", grammar="root ::= x")
        with pytest.raises(ValueError, match="the grammar cannot be parsed"):
            llama("x", grammar=LlamaGrammar.from_string("root ::= ("))
    (tmp_path / "empty").write_text("")
    with pytest.raises(ValueError, match="LlamaGrammar.from_file: .*empty is empty"):
        LlamaGrammar.from_file(tmp_path / "empty")
