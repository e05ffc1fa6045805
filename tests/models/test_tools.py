"""Calls of tools and reasoning in answers: each form of calls, reading, grammars, streaming, wrong descriptions."""

import json
import os
import random
import re
from pathlib import Path

import numpy as np
import pytest

for library in ("gguf", "jinja2", "tokenizers", "llguidance", "jsonschema"):  # of the extra [test]
    pytest.importorskip(library)

import jsonschema  # noqa: E402
import structured  # noqa: E402

from ggml.models import Llama, load  # noqa: E402
from ggml.models.chat.conversation import Conversations  # noqa: E402
from ggml.models.chat.reasoning import Addressed, Plain, reasoning_tokens, tags_of  # noqa: E402
from ggml.models.chat.tools import FORMATS, GENERIC, format_of, schemas_of, takes_tools  # noqa: E402
from ggml.models.sample.constraint import limited_to  # noqa: E402

ARGUMENTS = {"city": "New York", "days": 3, "opt": True}
PARAMETERS = {
    "type": "object", "required": ["city"], "additionalProperties": False,
    "properties": {"city": {"type": "string", "maxLength": 9}, "days": {"type": "integer", "minimum": 0, "maximum": 99},
                   "opt": {"type": "boolean"}},
}  # fmt: skip
OTHER = {"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string", "enum": ["a", "b c"]}}}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Of a city.", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "find-it", "parameters": OTHER}},
]
SCHEMAS = schemas_of(TOOLS)
MESSAGES = [{"role": "user", "content": "hi"}]
JSON = json.dumps(ARGUMENTS)
NAMED = f'{{"name": "get_weather", "arguments": {JSON}}}'
XML = ("<function=get_weather>\n<parameter=city>\nNew York\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
       "<parameter=opt>\ntrue\n</parameter>\n</function>")  # fmt: skip
M3 = "]<]minimax[>["
BAR, LINE = "\uff5c", "\u2581"
EXAMPLES = {
    "hermes": f'<tool_call>\n{NAMED}\n</tool_call>',
    "generic": f'<tool_call>{NAMED}</tool_call>',
    "qwen-xml": f"<tool_call>\n{XML}\n</tool_call>",
    "seed": f"<seed:tool_call>\n{XML}\n</seed:tool_call>",
    "llama3": NAMED.replace("arguments", "parameters"),
    "pythonic": "[get_weather(city='New York', days=3, opt=True)]",
    "lfm2": '<|tool_call_start|>[get_weather(city="New York", days=3, opt=true)]<|tool_call_end|>',
    "mistral": f"[TOOL_CALLS]get_weather[ARGS]{JSON}",
    "mistral-list": f'[TOOL_CALLS][{NAMED[:-1]}, "id": "abcdefghi"}}]',
    "gemma4": '<|tool_call>call:get_weather{city:<|"|>New York<|"|>,days:3,opt:true}<tool_call|>',
    "functiongemma": "<start_function_call>call:get_weather{city:<escape>New York<escape>,days:3,opt:true}"
                     "<end_function_call>",
    "deepseek": f"<{BAR}tool{LINE}calls{LINE}begin{BAR}><{BAR}tool{LINE}call{LINE}begin{BAR}>function<{BAR}tool{LINE}"
                f"sep{BAR}>get_weather\n```json\n{JSON}\n```<{BAR}tool{LINE}call{LINE}end{BAR}>"
                f"<{BAR}tool{LINE}calls{LINE}end{BAR}>",
    "deepseek-v3.1": f"<{BAR}tool{LINE}calls{LINE}begin{BAR}><{BAR}tool{LINE}call{LINE}begin{BAR}>get_weather<{BAR}tool"
                     f"{LINE}sep{BAR}>{JSON}<{BAR}tool{LINE}call{LINE}end{BAR}><{BAR}tool{LINE}calls{LINE}end{BAR}>",
    "deepseek-dsml": f'<{BAR}DSML{BAR}function_calls>\n<{BAR}DSML{BAR}invoke name="get_weather">\n'
                     f'<{BAR}DSML{BAR}parameter name="city" string="true">New York</{BAR}DSML{BAR}parameter>\n'
                     f'<{BAR}DSML{BAR}parameter name="days" string="false">3</{BAR}DSML{BAR}parameter>\n'
                     f'<{BAR}DSML{BAR}parameter name="opt" string="false">true</{BAR}DSML{BAR}parameter>\n'
                     f"</{BAR}DSML{BAR}invoke>\n</{BAR}DSML{BAR}function_calls>",
    "glm": "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>New York</arg_value>\n<arg_key>days</arg_key>\n"
           "<arg_value>3</arg_value>\n<arg_key>opt</arg_key>\n<arg_value>true</arg_value>\n</tool_call>",
    "gpt-oss": f"<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{JSON}",
    "kimi-k3": '<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|><|open|>argument key="city" '
               'type="string"<|sep|>New York<|close|>argument<|sep|><|open|>argument key="days" type="number"<|sep|>3'
               '<|close|>argument<|sep|><|open|>argument key="opt" type="boolean"<|sep|>true<|close|>argument<|sep|>'
               "<|close|>call<|sep|><|close|>tools<|sep|>",
    "muse": ' to=get_weather<|message|><atem:function_calls>\n<atem:invoke name="get_weather">\n<atem:parameter '
            'name="city">New York</atem:parameter>\n<atem:parameter name="days">3</atem:parameter>\n<atem:parameter '
            'name="opt">true</atem:parameter>\n</atem:invoke>\n</atem:function_calls>',
    "functionary-3.2": f"get_weather\n{JSON}",
    "granite": f'<|tool_call|>[{NAMED}]',
    "phi4": f'<|tool_call|>[{NAMED}]<|/tool_call|>',
    "command-r": f'<|START_ACTION|>[\n {{"tool_call_id": "0", "tool_name": "get_weather", "parameters": {JSON}}}\n]'
                 "<|END_ACTION|>",
    "command-r-plus": f'Action: ```json\n[{{"tool_name": "get_weather", "parameters": {JSON}}}]```',
    "kimi": f"<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{JSON}"
            "<|tool_call_end|><|tool_calls_section_end|>",
    "minimax": '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">New York</parameter>\n'
               '<parameter name="days">3</parameter>\n<parameter name="opt">true</parameter>\n</invoke>\n'
               "</minimax:tool_call>",
    "minimax-m3": f'{M3}<tool_call>\n{M3}<invoke name="get_weather">{M3}<city>New York{M3}</city>{M3}<days>3{M3}</days>'
                  f"{M3}<opt>true{M3}</opt>{M3}</invoke>\n{M3}</tool_call>",
    "minimax-m1": f'<tool_calls>\n{NAMED}\n</tool_calls>',
    "tool-calls": f'<tool_calls>[{NAMED}]</tool_calls>',
    "nemotron": f'<TOOLCALL>[{NAMED}]</TOOLCALL>',
    "functools": f' functools[{NAMED}]',
    "functionary": f"<function=get_weather>{JSON}</function>",
    "gigachat": f'<|function_call|>{NAMED}',
    "gigachat3": f"function call<|role_sep|>\n{NAMED}",
    "apertus": f'<|tools_prefix|>[{{"get_weather": {JSON}}}]<|tools_suffix|>',
    "hy3": "<tool_calls:opensource>\n<tool_call:opensource>get_weather<tool_sep:opensource>\n"
           "<arg_key:opensource>city</arg_key:opensource>\n<arg_value:opensource>New York</arg_value:opensource>\n"
           "<arg_key:opensource>days</arg_key:opensource>\n<arg_value:opensource>3</arg_value:opensource>\n"
           "<arg_key:opensource>opt</arg_key:opensource>\n<arg_value:opensource>true</arg_value:opensource>\n"
           "</tool_call:opensource>\n</tool_calls:opensource>",
    "minicpm": '<function name="get_weather"><param name="city">New York</param><param name="days">3</param>'
               '<param name="opt">True</param></function>',
    "solar": "<|tool_calls|><|tool_call:begin|>x1<|tool_call:name|>get_weather<|tool_call:args|>"
             f"{JSON}<|tool_call:end|>",
}  # fmt: skip
SAID = {  # how answers that consist of messages think, speak, and go on
    "gpt-oss": ("<|channel|>analysis<|message|>{}<|end|><|start|>assistant",
                "<|channel|>commentary<|message|>{}<|end|><|start|>assistant"),
    "kimi-k3": ("<|open|>think<|sep|>{}<|close|>think<|sep|>", "<|open|>response<|sep|>{}<|close|>response<|sep|>"),
    "muse": (" to=self<|message|>{}<|eom|><|start|>assistant", " to=user<|message|>{}<|eom|><|start|>assistant"),
    "functionary-3.2": (None, "all\n{}>>>"),
}  # fmt: skip
ROWS = {row.name: row for row in (*FORMATS, GENERIC)}


def template_of(row):
    """A chat template that has the marks of a form, in a comment."""
    marks = " ".join(mark.split(" or ")[0] for mark in row.marks)
    return (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if tools %}{{ tools | length }}{# "
        f"tool_calls {marks} #}}{{% endif %}}{{% if add_generation_prompt %}}<answer>{{% endif %}}"
    )


def read(reader, pieces):
    parts = [part for piece in pieces for part in reader.push(piece)] + reader.finish()
    texts = {kind: "".join(part.text for part in parts if part.kind == kind) for kind in ("reasoning", "content")}
    return texts["reasoning"], texts["content"], [part.call[:2] for part in parts if part.call]


def reader_of(row, tags=None, thinking=False):
    return Addressed(row, SCHEMAS) if row.heads else Plain(row, tags, thinking, SCHEMAS)


@pytest.mark.parametrize("name", ROWS)
def test_a_form_is_found_and_read(name):
    """The example of each form, as a whole and character by character, alone and after other text."""
    row, text = ROWS[name], EXAMPLES[name]
    assert format_of(template_of(row)) is row
    expected = [("get_weather", ARGUMENTS)]
    for pieces in ([text], list(text), [text[:7], text[7:]]):
        assert read(reader_of(row), pieces) == ("", "", expected)
    if row.heads:
        thought, spoken = SAID[name]
        before = (thought.format("I think.") if thought else "") + spoken.format("So: 1 < 2 > 1 [a].")
        wanted = "I think." if thought else "", "So: 1 < 2 > 1 [a].", expected
        assert read(reader_of(row), list(before + text)) == read(reader_of(row), [before + text]) == wanted
    elif not row.bare:
        said = list(f"<think>\nI think.\n</think>\n\nSo: 1 < 2 [a].\n{text}\n")
        assert read(reader_of(row, ("<think>", "</think>")), said) == ("I think.", "So: 1 < 2 [a].", expected)
        said = list(f"I think.\n</think>\n\n{text}")
        assert read(reader_of(row, ("<think>", "</think>"), True), said) == ("I think.", "", expected)


@pytest.mark.parametrize("name", ROWS)
def test_texts_without_calls_stay(name):
    row = ROWS[name]
    texts = "", "A plain answer.\n\n- 1 < 2\n", "an [example] {of: text} <b>", '{"no": "call"}', "[1, 2", "<tool_"
    for text in texts:
        opened = SAID[name][1].partition("{}")[0] if row.heads else ""
        for said in (text, opened + text):
            for pieces in ([said], list(said)):
                assert read(reader_of(row), pieces) == ("", text, [])


@pytest.mark.parametrize("name", ROWS)
def test_any_text_is_read_alike_in_any_pieces(name):
    """Damaged answers: no exception, and the same result however the text is divided."""
    row, dice = ROWS[name], random.Random(name)
    for _ in range(60):
        text = dice.choice(["", "<think>a</think>", "so: "]) + EXAMPLES[name] * dice.choice([1, 1, 2])
        for _ in range(dice.randrange(3)):
            at, size = dice.randrange(len(text)), dice.randrange(6)
            text = text[:at] + dice.choice(["", "x", "<", '"', "{}", "]", "</think>"]) + text[at + size :]
        tags = dice.choice([None, ("<think>", "</think>")])
        expected = read(reader_of(row, tags), [text])
        cuts = sorted(dice.sample(range(len(text) + 1), min(len(text), 5)))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)])]
        for divided in (list(text), pieces):
            assert read(reader_of(row, tags), divided) == expected, (text, tags)


def test_several_calls_and_broken_ones():
    two = EXAMPLES["hermes"] + "\n" + EXAMPLES["hermes"].replace("get_weather", "find-it")
    assert [call[0] for call in read(reader_of(GENERIC), list(two))[2]] == ["get_weather", "find-it"]
    listed = EXAMPLES["phi4"].replace("}]<", '}, {"name": "find-it", "arguments": {}}]<')
    assert [call[0] for call in read(reader_of(ROWS["phi4"]), [listed])[2]] == ["get_weather", "find-it"]
    lines = EXAMPLES["pythonic"][:-1] + ", other()]"
    assert read(reader_of(ROWS["pythonic"]), list(lines))[2] == [("get_weather", ARGUMENTS), ("other", {})]
    apart = EXAMPLES["llama3"] + "; " + EXAMPLES["llama3"]
    assert len(read(reader_of(ROWS["llama3"]), list(apart))[2]) == 2
    cut = '<tool_call>{"name": "f", "arguments": {"a": 1'
    for broken in (cut, "<tool_call>nothing</tool_call>", '<tool_call>{"a": 1}'):
        assert read(reader_of(GENERIC), ["x " + broken]) == ("", "x" + broken, []), broken
    text = '<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>'  # arguments as a JSON string
    assert read(reader_of(GENERIC), [text])[2] == [("f", {"a": 1})]


def test_values_follow_the_schema():
    """Without quotes around texts, only the schema tells 12 from "12"."""
    text = EXAMPLES["glm"].replace("New York", "12").replace(">3<", ">12<")
    assert read(reader_of(ROWS["glm"]), [text])[2] == [("get_weather", {"city": "12", "days": 12, "opt": True})]
    python = EXAMPLES["minicpm"].replace(">3<", ">['a', {'b': None}]<").replace("New York", "<![CDATA[1 < 2]]>")
    found = {"city": "1 < 2", "days": ["a", {"b": None}], "opt": True}
    assert read(reader_of(ROWS["minicpm"]), [python])[2] == [("get_weather", found)]
    nested = '<|tool_call>call:f{a:[1,<|"|>x}<|"|>,{b:null}],c:{}}<tool_call|>'
    assert read(reader_of(ROWS["gemma4"]), list(nested))[2] == [("f", {"a": [1, "x}", {"b": None}], "c": {}})]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    change = {"tokenizer.chat_template": template_of(ROWS["hermes"])}
    return structured.write_model(tmp_path_factory.mktemp("tools") / "bytes.gguf", change=change)


@pytest.fixture(scope="module")
def model(path):
    with load(path, n_ctx=256, threads=1) as model:
        yield model


def short(model):
    """Biases with which strings end soon."""
    ids = [token for token in range(model.config.n_vocab) if model.tokenizer.piece(token)[:1] in (b"<", b'"', b"]")]
    return dict.fromkeys(ids, 6.0)


@pytest.mark.parametrize("name", ROWS)
def test_calls_that_must_be_are_valid(name, model):
    """With random weights."""
    options = {"chat_template": template_of(ROWS[name]), "logit_bias": short(model), "max_tokens": 230, "top_k": 0}
    for seed, choice in enumerate(("required", "required", "find-it", "get_weather")):
        answer = model.chat(MESSAGES, tools=TOOLS, tool_choice=choice, seed=seed, parallel_tool_calls=False, **options)
        content = "".join(answer)
        (call,) = answer.tool_calls
        assert answer.finish_reason == "tool_calls" and content == "" and call["type"] == "function"
        arguments = json.loads(call["function"]["arguments"])
        jsonschema.validate(arguments, SCHEMAS[call["function"]["name"]])
        assert choice in ("required", call["function"]["name"])
        assert re.fullmatch("[a-z0-9]{9}" if name.startswith("mistral") else "call_[0-9a-f]{24}", call["id"])
        assert answer.message["content"] is None and answer.message["tool_calls"] == answer.tool_calls


@pytest.mark.parametrize("name", ["hermes", "glm", "pythonic", "mistral"])
def test_schemas_with_definitions(name, model):
    """As pydantic makes them: a part of the schema is elsewhere in it."""
    kinds = {"k": {"enum": ["C", "F"]}}
    unit = {"type": "object", "properties": kinds, "required": ["k"], "additionalProperties": False}
    parameters = {"$defs": {"Unit": unit}, "type": "object", "properties": {"u": {"$ref": "#/$defs/Unit"}},
                  "required": ["u"], "additionalProperties": False}  # fmt: skip
    tools = [{"function": {"name": "f", "parameters": parameters}}]
    answer = model.chat(MESSAGES, tools=tools, tool_choice="required", parallel_tool_calls=False, seed=1,
                        chat_template=template_of(ROWS[name]))  # fmt: skip
    assert "".join(answer) == ""
    assert json.loads(answer.tool_calls[0]["function"]["arguments"])["u"]["k"] in ("C", "F")


def test_a_named_tool_is_called_once(model):
    options = {"tools": TOOLS, "tool_choice": "find-it", "chat_template": template_of(ROWS["hermes"])}
    call = '<tool_call>\n{"name": "find-it", "arguments": {"kind": "a"}}\n</tool_call>'
    for choice in ("find-it", "required"):
        constraint = model.chat(MESSAGES, **{**options, "tool_choice": choice}).text.sampler.constraint
        for token in model.tokenizer.encode(call, add_bos=False):
            constraint.accept(token)
        assert constraint.done() == (choice == "find-it")


def test_streams_of_calls(model):
    options = {"tools": TOOLS, "tool_choice": "required", "logit_bias": short(model), "seed": 5, "max_tokens": 240}
    deltas = list(model.chat(MESSAGES, **options).deltas())
    answer = model.chat(MESSAGES, **options)
    assert "".join(answer) == ""
    streamed = [call for delta in deltas for call in delta["tool_calls"]]
    assert [call["index"] for call in streamed] == list(range(len(streamed))) and streamed
    assert [call["function"] for call in streamed] == [call["function"] for call in answer.tool_calls]
    assert len({call["id"] for call in streamed}) == len(streamed)


def forced(model, text, **options):
    """The answer of a model that writes a text in any case."""
    return model.chat(MESSAGES, choices=[text], max_tokens=200, **options)


def test_answers_with_reasoning_and_calls(model):
    source = template_of(ROWS["hermes"]) + "{# <think> </think> #}"
    text = "<think>Let me see.</think>\n\nI ask.\n" + EXAMPLES["hermes"]
    answer = forced(model, text, tools=TOOLS, chat_template=source)
    assert "".join(answer) == "I ask." and answer.reasoning == "Let me see." and answer.finish_reason == "tool_calls"
    assert answer.message["reasoning_content"] == "Let me see." and answer.message["content"] == "I ask."
    assert json.loads(answer.tool_calls[0]["function"]["arguments"]) == ARGUMENTS
    kinds = [key for delta in forced(model, text, tools=TOOLS, chat_template=source).deltas() for key in delta]
    assert list(dict.fromkeys(kinds)) == ["reasoning_content", "content", "tool_calls"]
    for options in ({}, {"tools": TOOLS, "tool_choice": "none"}):
        answer = forced(model, text, chat_template=source, **options)
        assert "".join(answer) == "I ask.\n" + EXAMPLES["hermes"] and answer.tool_calls == []
    plain = forced(model, text)  # a template that shows no reasoning
    assert "".join(plain) == text and plain.message == {"role": "assistant", "content": text}
    cut = model.chat(MESSAGES, choices=[text], max_tokens=8, chat_template=source)
    assert "".join(cut) == "" and cut.finish_reason == "length"
    cut.close()


def test_a_budget_of_reasoning(model):
    """Reasoning is ended after some tokens; a language is that of what follows."""
    source = template_of(ROWS["hermes"]) + "<think>\n{# </think> #}"
    for budget in (0, 1, 7):
        answer = model.chat(MESSAGES, chat_template=source, reasoning_budget=budget, json_schema={"const": 12}, seed=1)
        assert "".join(answer) == "12" and answer.finish_reason == "stop"
        end = model.tokenizer.encode("</think>", add_bos=False)
        assert answer.ids[budget : budget + len(end)] == end
    open_ended = model.chat(MESSAGES, chat_template=source, choices=["x"], max_tokens=9, seed=1)
    assert "".join(open_ended) == "" and len(open_ended.ids) == 9 and open_ended.finish_reason == "length"
    asked = {"tools": TOOLS, "tool_choice": "find-it", "logit_bias": short(model), "seed": 1}
    call = model.chat(MESSAGES, chat_template=source, reasoning_budget=2, **asked)
    assert "".join(call) == "" and call.tool_calls[0]["function"]["name"] == "find-it"
    with pytest.raises(ValueError, match="chat: reasoning_budget is -1: need an integer from 0, or None"):
        model.chat(MESSAGES, reasoning_budget=-1)


def test_tokens_of_reasoning_are_counted(model):
    source = template_of(ROWS["hermes"]) + "{# <think> </think> #}"
    answer = forced(model, "<think>Let me see.</think>\n\nSo.", chat_template=source)
    list(answer)
    assert answer.reasoning_tokens == len(model.tokenizer.encode("Let me see.</think>", add_bos=False))
    assert forced(model, "So.", chat_template=source).reasoning_tokens == 0
    pieces = list("<|channel|>analysis<|message|>ab<|end|><|start|>assistant<|channel|>final<|message|>c")
    assert reasoning_tokens(Addressed(ROWS["gpt-oss"], {}), pieces) == len("ab<|end|>")


def test_reasoning_of_llama(path):
    source = template_of(ROWS["hermes"]) + "<think>\n{# </think> #}"
    given = {"tokenizer.chat_template": source}
    with Llama(path, n_ctx=256, n_threads=1, verbose=False, kv_overrides=given) as llama:
        options = {"messages": MESSAGES, "max_tokens": 60, "response_format": {"type": "json_object"}, "seed": 1}
        answer = llama.create_chat_completion(**options, reasoning_budget=3)["choices"][0]["message"]
        assert answer["reasoning_content"] and answer["content"].startswith("{")
        plain = llama.create_chat_completion(**options)["choices"][0]["message"]
        assert plain["content"].startswith("{") and "reasoning_content" not in plain
        parts = llama.create_chat_completion(**options, reasoning_budget=3, stream=True)
        deltas = [part["choices"][0]["delta"] for part in parts]
        assert "".join(delta.get("reasoning_content", "") for delta in deltas) == answer["reasoning_content"]
        with pytest.raises(ValueError, match="create_chat_completion: reasoning_budget is -1"):
            llama.create_chat_completion(MESSAGES, reasoning_budget=-1)


def test_strict_tools(model):
    """Any text may come, but calls have valid arguments."""
    tools = [{"function": {**TOOLS[0]["function"], "strict": True}}, TOOLS[1]]
    call = '<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call>'
    for text, fits in (
        ("Some text, <b> and <tool> and so on", True),
        ("So: " + call % ("get_weather", '{"city": "Rome"}'), True),
        (call % ("find-it", '{"any": [1]}'), True),
        (call % ("get_weather", '{"town": "Rome"}'), False),
        (call % ("get_weather", '{"city": 5}'), False),
        (call % ("no-such", "{}"), False),
        ("Then <tool_call> and so on", False),
    ):
        constraint = model.chat(MESSAGES, tools=tools).text.sampler.constraint
        try:
            for token in model.tokenizer.encode(text, add_bos=False):
                constraint.accept(token)
            assert fits, text
        except ValueError:
            assert not fits, text
    free = model.chat(MESSAGES, tools=tools, max_tokens=20, seed=1)
    assert "".join(free) and free.finish_reason == "length"
    assert model.chat(MESSAGES, tools=TOOLS).text.sampler.constraint is None


def writes(ids):
    """A filter that makes a model write some tokens."""
    rest = iter(ids)

    def choose(_, logits):
        token = next(rest)
        logits[:] = -np.inf
        logits[token] = 0

    return choose


def fits(model, ids, **options):
    """Whether tokens can be an answer's beginning."""
    constraint = model.chat(MESSAGES, **options).text.sampler.constraint
    try:
        for token in ids:
            constraint.accept(token)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("name, call", [("llama3", '{"name": "get_weather", "parameters": {"city": %s}}'),
                                        ("pythonic", "[get_weather(city=%s)]")])  # fmt: skip
def test_strict_tools_of_answers_that_are_nothing_but_calls(name, call, model):
    tools = [{"function": {**TOOLS[0]["function"], "strict": True}}]
    options = {"tools": tools, "chat_template": template_of(ROWS[name])}
    for text, good in (("So: {x} [y]", True), (call % '"Rome"', True), ("\n\n" + call % '"Rome"', True), ("  ", True),
                       (call % 5, False), ("{x", False if name == "llama3" else True), ("", True)):  # fmt: skip
        assert fits(model, model.tokenizer.encode(text, add_bos=False), **options) == good, text


def test_strict_tools_beside_reasoning_between_control_tokens(tmp_path):
    vocabulary = structured.model_vocabularies.bpe("gpt-2")
    types = list(vocabulary["tokenizer.ggml.token_type"])
    tokens = list(vocabulary["tokenizer.ggml.tokens"])
    for i, name in enumerate(("<think>", "</think>", "<|channel>", "<channel|>")):
        tokens[-9 - i], types[-9 - i] = name, structured.model_vocabularies.CONTROL
    change = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types}
    change["tokenizer.chat_template"] = template_of(ROWS["hermes"]) + "{# <think> </think> #}"
    tools = [{"function": {**TOOLS[0]["function"], "strict": True}}]
    with load(structured.write_model(tmp_path / "m.gguf", change=change), n_ctx=256, threads=1) as model:
        for text, good in (("<think>a</think>\n\nb", True), ("b", True), ("b<think>", False),
                           ("<think><tool_call></think><tool_call>\n{", True), ("<tool_call>x", False)):  # fmt: skip
            ids = model.tokenizer.encode(text, add_bos=False, special=True)
            assert fits(model, ids, tools=tools) == good, text
        source = template_of(ROWS["gemma4"]) + "{# <channel|> #}"
        text = "<|channel>thought\nhm<channel|>So."
        ids = model.tokenizer.encode(text, add_bos=False, special=True)
        answer = model.chat(MESSAGES, chat_template=source, max_tokens=len(ids), logits_filter=writes(ids))
        assert "".join(answer) == "So." and answer.reasoning == "hm"


@pytest.mark.parametrize("name", ROWS)
def test_strict_tools_of_each_form(name, model):
    """An answer may be a text, or a call with valid arguments, after reasoning where there are messages for it."""
    tools = [{"function": {**TOOLS[0]["function"], "strict": True}}, TOOLS[1]]
    options = {"tools": tools, "chat_template": template_of(ROWS[name])}
    call = EXAMPLES[name].replace('"tool_call_id": "0", ', "").replace("\n {", "{").replace("}\n]", "}]")
    call = call.replace(', "id": "abcdefghi"', "").replace(">True<", ">true<").replace(">x1<", ">1<")
    call = call.replace(
        "get_weather(city='New York', days=3, opt=True)", 'get_weather(city="New York", days=3, opt=true)'
    )
    call = call.replace("<tool_call>{", "<tool_call>\n{").replace("}</tool_call>", "}\n</tool_call>")
    if name == "kimi-k3":  # whose prompt has the head of the response
        call = "<|close|>response<|sep|>" + call + "<|close|>message<|sep|>"
    thought, spoken = SAID.get(name, (None, None))
    text = "So: 1 < 2 [a]" if not spoken or name == "kimi-k3" else spoken.partition("{}")[0] + "So: 1 < 2 [a]"
    for said, good in ((text, True), (call, True), (call.replace("3", "3000"), False),
                       (call.replace("get_weather", "get_other"), False)):  # fmt: skip
        assert fits(model, model.tokenizer.encode(said, add_bos=False), **options) == good, said
    if spoken and name != "kimi-k3":
        before = (thought or "{}").format("hm") if thought else ""
        said = before + spoken.format("So:") + call
        assert fits(model, model.tokenizer.encode(said, add_bos=False), **options)
        assert not fits(model, model.tokenizer.encode(said.replace("3", '"x"'), add_bos=False), **options)


def test_texts_without_quotes_follow_their_schema(model):
    schemas = {"a": {"type": "string", "pattern": "^x[0-9]/?$"}, "b": {"type": "string", "pattern": "[0-9]"},
               "c": {"type": "string", "const": "one"}}  # fmt: skip
    tools = [
        {"function": {"name": "f", "parameters": {"type": "object", "properties": schemas, "required": list("abc")}}}
    ]
    for name in ("qwen-xml", "glm", "minimax-m3"):
        options = {"tools": tools, "tool_choice": "required", "chat_template": template_of(ROWS[name])}
        given = [(("x1/", "a 1 b", "one"), True), (("y1", "a1", "one"), False), (("x1", "ab", "one"), False)]
        for values, good in (*given, (("x1", "1", "two"), False)):
            form = {
                "qwen-xml": ("<tool_call>\n<function=f>\n", "<parameter={0}>\n{1}\n</parameter>\n"),
                "glm": ("<tool_call>f\n", "<arg_key>{0}</arg_key>\n<arg_value>{1}</arg_value>\n"),
                "minimax-m3": ('{2}<tool_call>\n{2}<invoke name="f">'.replace("{2}", M3), "{2}<{0}>{1}{2}</{0}>"),
            }[name]
            text = form[0] + "".join(form[1].format(key, value, M3) for key, value in zip("abc", values))
            assert fits(model, model.tokenizer.encode(text, add_bos=False), **options) == good, text


def test_other_heads_of_calls_of_gpt_oss(model):
    """The template writes the tool before the channel; models write either."""
    source, name = template_of(ROWS["gpt-oss"]), "get_weather"
    text = f" to=functions.{name}<|channel|>commentary json<|message|>{JSON}<|call|>"
    assert read(reader_of(ROWS["gpt-oss"]), list(text))[2] == [(name, ARGUMENTS)]
    tools = [{"function": {**TOOLS[0]["function"], "strict": True}}]
    ids = model.tokenizer.encode(text.removesuffix("<|call|>"), add_bos=False)
    assert fits(model, ids, tools=tools, chat_template=source)


def test_elements_within_elements(model):
    """MiniMax M3 writes objects and lists as elements."""
    inner = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]}
    properties = {"ones": {"type": "array", "items": inner}, "empty": {"type": "array", "items": {"type": "string"}},
                  "o": {"type": "object"}, "t": {"type": "string"}}  # fmt: skip
    parameters = {"type": "object", "properties": properties, "required": ["ones", "empty"]}
    m = M3
    text = (
        f'{m}<tool_call>\n{m}<invoke name="f">{m}<ones>{m}<item>{m}<a>1{m}</a>{m}<b>x < y{m}</b>{m}</item>\n{m}<item>'
        f"{m}<a>2{m}</a>{m}</item>{m}</ones>{m}<empty>{m}</empty>{m}<o>{m}</o>{m}<t>12{m}</t>{m}</invoke>"
        f"\n{m}</tool_call>"
    )
    expected = {"ones": [{"a": 1, "b": "x < y"}, {"a": 2}], "empty": [], "o": {}, "t": "12"}
    for pieces in ([text], list(text)):
        assert read(Plain(ROWS["minimax-m3"], None, False, {"f": parameters}), pieces)[2] == [("f", expected)]
    assert read(Plain(ROWS["minimax-m3"], None, False, {}), [text])[2][0][1]["ones"] == expected["ones"]
    deep = f'{m}<tool_call>{m}<invoke name="f">' + f"{m}<a>" * 3000 + f"{m}</invoke>"
    assert read(Plain(ROWS["minimax-m3"], None, False, {}), [deep])[2] == []
    tools = [{"function": {"name": "f", "parameters": parameters}}]
    options = {"tools": tools, "tool_choice": "required", "chat_template": template_of(ROWS["minimax-m3"])}
    for said, good in ((text.replace(" < ", " ").replace("\n" + m + "<item>", m + "<item>"), True),
                       (text.replace("<a>1", "<a>x"), False)):  # fmt: skip
        said = said.partition(f"{m}<o>")[0] + said.partition(f"{m}</o>")[2]
        assert fits(model, model.tokenizer.encode(said, add_bos=False), **options) == good
    bare = "</mm:think>\n\nYes. </mm:think>"  # a turn without reasoning begins with the mark that ends it
    for pieces in ([bare], list(bare)):
        found = read(Plain(ROWS["minimax-m3"], ("<mm:think>", "</mm:think>"), False, {}), pieces)
        assert found == ("", "Yes. </mm:think>", [])


def test_a_prompt_may_end_with_the_head_of_a_message():
    row = ROWS["kimi-k3"]
    for opened, expected in (("<|open|>think<|sep|>", ("a", "b", [])), ("<|open|>response<|sep|>", ("", "a", [])),
                             ("", ("", "b", []))):  # fmt: skip
        text = "a<|close|>think<|sep|><|open|>response<|sep|>b" if "think" in opened else "a<|close|>response<|sep|>"
        text = text if opened else "<|open|>response<|sep|>b<|close|>response<|sep|><|close|>message<|sep|>"
        reader = Addressed(row, SCHEMAS, "before it" + opened)
        assert reader.thinks == ("think" in opened)
        assert read(reader, list(text)) == expected


def test_optional_arguments(model):
    """Of forms whose arguments stand between commas: any of them may be there."""
    optional = {"type": "object", "properties": {key: {"type": "integer"} for key in "abc"}}
    tools = [{"function": {"name": "f", "parameters": optional}}, {"function": {"name": "g", "parameters": {
        **optional, "required": ["b"]}}}]  # fmt: skip
    for name, opened, pattern, close in (("pythonic", "[{}(", "{}={}", ")]"),
                                         ("gemma4", "<|tool_call>call:{}{{", "{}:{}", "}}<tool_call|>")):  # fmt: skip
        options = {"tools": tools, "tool_choice": "required", "chat_template": template_of(ROWS[name])}
        comma = ", " if name == "pythonic" else ","
        given = [("f", keys, True) for keys in ("", "a", "b", "bc", "ac")]
        given += [("g", "b", True), ("g", "bac", True), ("g", "", False), ("g", "a", False)]
        for tool, keys, good in given:
            text = opened.format(tool) + comma.join(pattern.format(key, 1) for key in keys) + close.replace("}}", "}")
            assert fits(model, model.tokenizer.encode(text, add_bos=False), **options) == good, text


def test_prompts(model):
    assert model.apply_chat_template(MESSAGES) == "<user>hi\n<answer>"
    assert model.apply_chat_template(MESSAGES, tools=TOOLS, add_generation_prompt=False) == "<user>hi\n2"
    source = "{{ messages[0].content }}{{ enable_thinking }}{{ x }}"
    assert model.apply_chat_template(MESSAGES, chat_template=source, enable_thinking=False, x=1) == "hiFalse1"
    thinking = {"chat_template": source, "chat_template_kwargs": {"x": "!"}, "enable_thinking": True}
    assert model.detokenize(model.chat(MESSAGES, **thinking).prompt_ids) == "hiTrue!"
    for variable, values in (("thinking", "FalseTrue"), ("thinking_mode", "disabledenabled")):
        shown = [model.apply_chat_template(MESSAGES, chat_template=f"{{{{ {variable} }}}}", enable_thinking=on)
                 for on in (False, True)]  # fmt: skip
        assert "".join(shown) == values
    told = model.apply_chat_template(MESSAGES, chat_template="{% for m in messages %}{{ m.content }}|{% endfor %}",
                                     tools=TOOLS)  # fmt: skip
    said = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": JSON}}]}
    results = [{"role": "tool", "content": "21"}, {"role": "tool", "content": "22"}]
    after = model.apply_chat_template(
        [*MESSAGES, said, *results],
        tools=TOOLS,
        chat_template="{% for m in messages %}{{ m.role }}:{{ m.content }}|{% endfor %}",
    )
    calls = f'assistant:<tool_call>\n{{"name": "f", "arguments": {JSON}}}\n</tool_call>|'
    result = "<tool_response>\n{}\n</tool_response>"
    assert after.endswith(f"|user:hi|{calls}user:{result.format(21)}\n{result.format(22)}|")
    assert told.endswith("|hi|") and '"name": "get_weather"' in told and "<tool_call>" in told


def test_prompts_of_templates_that_take_tools_in_other_ways(model):
    """Phi-4-mini's system message, SmolLM3's and Firefunction's variables; Gemma 2 has no system messages."""
    write = "{% for m in messages %}{{ m.role }}:{{ m.content }}|{% endfor %}"
    given = [*MESSAGES, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": '{"a": 1}'}}]}]

    def prompt(source, messages=given):
        assert source == write or takes_tools(source)
        return model.apply_chat_template(messages, tools=TOOLS[1:], chat_template=source)

    one = json.dumps([TOOLS[1]["function"]])
    phi = "{% for m in messages %}{% set message = m %}{% if message['tools'] %}{{ message['tools'] }}<|/tool|>"
    phi += "{% endif %}{{ m.role }}:{{ m.content }}|{% endfor %}"
    call = '<|tool_call|>[{"name": "f", "arguments": {"a": 1}}]<|/tool_call|>'
    assert prompt(phi) == f"{one}<|/tool|>system:|user:hi|assistant:{call}|"
    system = [{"role": "developer", "content": "Be."}, *given]
    assert prompt(phi, system) == f"{one}<|/tool|>system:Be.|user:hi|assistant:{call}|"
    smol = "{% if xml_tools %}<tool_call>{{ xml_tools | tojson }}|{% endif %}" + write
    call = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    assert prompt(smol) == f"<tool_call>{json.dumps(TOOLS[1:])}|user:hi|assistant:{call}|"
    fire = "{{ functions }}{{ 'functools' }}{{ datetime | length }}|{% if messages[0].tool_calls %}{% endif %}"
    assert prompt(fire) == f"{json.dumps(TOOLS[1:], indent=2)}functools24|"
    lfm = "{{ tools | length }}<|tool_call_start|>" + write
    assert prompt(lfm).endswith("assistant:<|tool_call_start|>[f(a=1)]<|tool_call_end|>|")
    gemma = "{{ raise_exception('System role not supported') if messages[0].role == 'system' }}" + write
    assert model.apply_chat_template(MESSAGES, tools=TOOLS, chat_template=gemma).endswith("</tool_call>\n\nhi|")


def test_texts_have_no_control_tokens(model):
    """What strangers write stays text, in messages and descriptions of tools; what the template writes is a token."""
    tokenizer = model.tokenizer
    names = [tokenizer.text(token) for token in sorted(tokenizer.control)]
    assert names
    for name in names:
        rest = "{% for m in messages %}{{ m.content | trim }}{% endfor %}{{ tools | tojson }}"
        source = f"{{{{ '{name}' }}}}{rest}"
        tools = [{"function": {"name": "f", "description": name}}]
        messages = [{"role": "user", "content": f" a{name}b{name[:-1]}{name}{name} "}]
        ids = model.chat(messages, tools=tools, chat_template=source).prompt_ids
        assert [token for token in ids if token in tokenizer.control] == [tokenizer.find(name)]
        shown = model.apply_chat_template(messages, tools=tools, chat_template=source)
        assert tokenizer.decode(ids, special=True) == shown
        assert tokenizer.encode(tokenizer.guarded(f"a{name}"), False, True) == tokenizer.encode(f"a{name}", False)


def test_further_templates_by_name(tmp_path):
    keys = {"tokenizer.chat_template": "a{{ messages[0].content }}", "tokenizer.chat_template.rerank": "rank this"}
    with load(structured.write_model(tmp_path / "m.gguf", change=keys), n_ctx=64, threads=1) as model:
        assert model.apply_chat_template(MESSAGES) == "ahi"
        assert model.apply_chat_template(MESSAGES, chat_template="rerank") == "rank this"


@pytest.mark.parametrize(
    "tools, message",
    [
        ([*TOOLS, {"function": {"name": "a b"}}], r"tools\[2\] has the name 'a b': need letters"),
        ([TOOLS[0], TOOLS[0]], r"tools\[1\]: there is another tool of the name 'get_weather'"),
        ([{"function": {"name": "f", "parameters": {"properties": [1]}}}], r"tools\[0\] \(f\): parameters is"),
        ([7], r"tools\[0\] has the name None"),
    ],
)
def test_wrong_descriptions_are_named(tools, message, model):
    with pytest.raises(ValueError, match="chat: " + message):
        model.chat(MESSAGES, tools=tools)


def test_wrong_choices(model):
    for choice in ("no-such", {"type": "function", "function": {"name": "x"}}, 5):
        with pytest.raises(ValueError, match="chat: tool_choice is .*: need one of 'auto', 'none', 'required', 'get_w"):
            model.chat(MESSAGES, tools=TOOLS, tool_choice=choice)
    with pytest.raises(ValueError, match="chat: tool_choice is 'required', and there are no tools"):
        model.chat(MESSAGES, tool_choice="required")
    with pytest.raises(ValueError, match="chat: tool_choice and a language are given"):
        model.chat(MESSAGES, tools=TOOLS, tool_choice="required", regex="a")
    with pytest.raises(TypeError, match="chat: tools is a str"):
        model.chat(MESSAGES, tools="x")
    bad = [{"function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"not": {}}}}}}]
    message = "chat: the tool 'f': #/properties/a/not: the keyword 'not' is not supported"
    with pytest.raises(ValueError, match=message):
        model.chat(MESSAGES, tools=[*TOOLS, *bad], tool_choice="required")
    assert model.chat(MESSAGES, tools=[*TOOLS, *bad], tool_choice="find-it").finish_reason is None
    assert model.chat(MESSAGES, tools=bad).finish_reason is None  # which may be told to the model


@pytest.mark.skipif("GGML_TEMPLATES" not in os.environ, reason="GGML_TEMPLATES names no folder of chat templates")
def test_what_templates_write_is_read(model):
    """Each template of a folder, such as models/templates of llama.cpp: a call that it writes, grammars of calls."""
    prompts, checked = Conversations({"tokenizer.chat_template": "x"}, model.tokenizer), 0
    described = json.loads(
        json.dumps(TOOLS).replace('"type": "', '"description": "d", "type": "')
    )  # some templates ask
    described[0]["function"]["strict"], described[1]["function"]["description"] = True, "d"
    said = {"role": "assistant", "content": "", "tool_calls": [
        {"id": "abcdefghi", "type": "function", "function": {"name": "get_weather", "arguments": JSON}}]}  # fmt: skip
    for file in sorted(Path(os.environ["GGML_TEMPLATES"]).glob("*.jinja")):
        source = file.read_text(encoding="utf-8")
        question = prompts.question("chat", MESSAGES, described, None, True, source)
        asked, whole = (prompts.render(messages, described, source, messages is MESSAGES)
                        for messages in (MESSAGES, [*MESSAGES, said]))  # fmt: skip
        at = len(os.path.commonprefix([asked, whole]))
        while at < len(asked) and whole[at - 1] not in ">\n ]":
            at -= 1
        tags, answer = tags_of(source), whole[at:]
        answer = answer if not question.thinking or not tags or tags[1] in answer else tags[1] + answer
        assert read(question.new_reader(), list(answer))[2] == [("get_weather", ARGUMENTS)], file.name
        assert question.lark is not None, file.name
        for choice in ("auto", "required", "find-it"):
            asked_for = prompts.question("chat", MESSAGES, described, choice, True, source)
            limited_to("chat", model.tokenizer, asked_for.lark)
        checked += 1
    assert checked > 35
