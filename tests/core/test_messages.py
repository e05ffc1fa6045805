"""Messages in OpenAI's form: tool calls, no content, parts of text, and the template for tools.

The texts are those that transformers renders where its form of the messages suits the template.
"""

import json

import model_vocabularies as vocabularies
import pytest

pytest.importorskip("jinja2")

from ggml.models.chat.template import ChatTemplate  # noqa: E402
from ggml.models.text.tokenizer import Tokenizer  # noqa: E402

ARGUMENTS = '{"city":"Par\u00eds","days":3}'
OBJECT = {"city": "Par\u00eds", "days": 3}
JSON = '{"city": "Par\u00eds", "days": 3}'
# What templates do with the arguments of a call, with the content of its message, and with a list of parts.
CALLS = "{% for m in messages %}{% for c in m.tool_calls or [] %}<%s>{% endfor %}{% endfor %}"
CONTENT = "{% for m in messages %}{{ m.role }}:%s;{% endfor %}"
PARTS = "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}[{{ p.text }}]{% endfor %}"
PARTS += "{% endif %}"


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(vocabularies.spm())


def render(source, tokenizer, messages, **variables):
    keys = {"tokenizer.chat_template": source} if isinstance(source, str) else source
    return ChatTemplate(keys, tokenizer).render(messages, **variables)


def call(arguments, **message):
    function = {"name": "weather", "arguments": arguments}
    tool_call = {"id": "1", "type": "function", "function": function}
    return [{"role": "user", "content": "Rain?"}, {"role": "assistant", "tool_calls": [tool_call], **message}]


@pytest.mark.parametrize("arguments", [ARGUMENTS, OBJECT])
@pytest.mark.parametrize(
    ("form", "wanted"),
    [
        ("{{ c.function.arguments | tojson }}", JSON),  # a string would be encoded twice
        ("{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }},{% endfor %}", "city=Par\u00eds,days=3,"),
        ("{% for k, v in c.function.arguments|items %}{{ k }}={{ v }},{% endfor %}", "city=Par\u00eds,days=3,"),
        (
            "{% if c.function.arguments is string %}{{ c.function.arguments }}{% else %}"
            "{{ c.function.arguments | tojson }}{% endif %}",
            JSON,
        ),
        ("{{ '```' + c.function.arguments }}", "```{}"),
        ("{{ c.function.arguments }}", "{}"),  # these take strings
        ("{{ c.function.arguments | tojson | tojson }}", json.dumps(JSON, ensure_ascii=False)),
    ],
)
def test_arguments_of_calls(form, wanted, arguments, tokenizer):
    text = arguments if isinstance(arguments, str) else JSON
    expected = f"<{wanted if wanted not in ('{}', '```{}') else wanted.replace('{}', text)}>"
    assert render(CALLS.replace("%s", form), tokenizer, call(arguments, content=None)) == expected


@pytest.mark.parametrize("arguments", ["", "not JSON", "[1, 2]", "3", "{}"])
def test_arguments_that_are_no_object(arguments, tokenizer):
    source = CALLS.replace("%s", "{{ c.function.arguments }}")
    assert render(source, tokenizer, call(arguments)) == f"<{arguments}>"


def test_messages_of_the_caller_are_not_changed(tokenizer):
    messages = call(ARGUMENTS, content=None)
    render(CALLS.replace("%s", "{{ c.function.arguments | tojson }}"), tokenizer, messages)
    assert messages == call(ARGUMENTS, content=None)


@pytest.mark.parametrize(
    ("form", "wanted"),
    [
        ("{{ m.content }}", ""),  # not None
        ("{% if m.content is defined %}{{ m.content }}{% else %}absent{% endif %}", "absent"),
        ("{{ '' + m.content }}", ""),
        ("{{ m['content'].split('x')[0] }}", ""),
    ],
)
def test_no_content(form, wanted, tokenizer):
    text = render(CONTENT.replace("%s", form), tokenizer, call(ARGUMENTS, content=None))
    assert text == f"user:Rain?;assistant:{wanted};"


@pytest.mark.parametrize(
    ("form", "wanted"),
    [
        ("{{ m.content }}", "Hello\nthere"),
        ("{{ m.content | trim }}", "Hello\nthere"),
        ("{{ m.content + '' }}", "Hello\nthere"),
        ("{{ m['content'].strip() }}", "Hello\nthere"),
        ("{{ m.content | tojson }}", r'"Hello\nthere"'),
        (PARTS, "[Hello][there]"),
        ("{{ m.content is string }}", "True"),
    ],
)
def test_parts_of_text(form, wanted, tokenizer):
    parts = [{"type": "text", "text": "Hello"}, {"type": "text", "text": "there"}]
    text = render(CONTENT.replace("%s", form), tokenizer, [{"role": "user", "content": parts}])
    assert text == f"user:{wanted};"
    for role in ("system", "assistant", "tool"):
        assert render("{% for m in messages %}{{ m.content }}{% endfor %}", tokenizer,
                      [{"role": role, "content": parts[:1]}]) == "Hello"  # fmt: skip


def test_parts_that_are_not_text(tokenizer):
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": "data:"}}]
    messages = [{"role": "system", "content": "x"}, {"role": "user", "content": parts}]
    for form in ("{{ m.content }}", "{{ m.content + '' }}"):
        with pytest.raises(ValueError, match=r"^chat: messages\[1\] has a part of the type 'image_url'.* takes text"):
            render(CONTENT.replace("%s", form), tokenizer, messages)
    images = "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text or '<image>' }}"
    source = CONTENT.replace("%s", images + "{% endfor %}{% endif %}")
    assert "What is it?<image>" in render(source, tokenizer, messages)


def test_refusals_are_those_of_the_first_form(tokenizer):
    source = "{{ raise_exception('no ' + ('parts' if messages[0].content is not string else 'text')) }}"
    with pytest.raises(ValueError, match="^chat: the template refuses the messages: no parts"):
        render(source, tokenizer, [{"role": "user", "content": [{"type": "text", "text": "a"}]}])


def test_reasoning_under_each_name(tokenizer):
    source = "{{ messages[0].reasoning_content }}|{{ messages[0].thinking }}"
    for name in ("reasoning_content", "thinking", "reasoning"):
        assert render(source, tokenizer, [{"role": "assistant", "content": "x", name: "so"}]) == "so|so"


def test_the_template_for_tools(tokenizer):
    keys = {"tokenizer.chat_template": "plain", "tokenizer.chat_template.tool_use": "{{ tools | length }} tools"}
    messages, tool = [{"role": "user", "content": "a"}], {"type": "function", "function": {"name": "f"}}
    assert render(keys, tokenizer, messages) == render(keys, tokenizer, messages, tools=None) == "plain"
    assert render(keys, tokenizer, messages, tools=[tool]) == "1 tools"
    assert render({"tokenizer.chat_template": "{{ tools | length }}"}, tokenizer, messages, tools=[tool]) == "1"
    with pytest.raises(ValueError, match="tokenizer.chat_template.tool_use is 7: need a string"):
        render({**keys, "tokenizer.chat_template.tool_use": 7}, tokenizer, messages)


def test_no_tools_are_none_as_in_transformers(tokenizer):
    messages = [{"role": "user", "content": "a"}]
    assert render("{{ tools is none }} {{ documents is none }}", tokenizer, messages) == "True True"
    assert render("{% for t in tools %}{% endfor %}x", tokenizer, messages) == "x"  # where None fails


def test_options_of_tojson(tokenizer):
    messages = [{"role": "user", "content": {"b": [1, "\u00e9"], "a": None}}]
    for options, wanted in [
        ("", '{"b": [1, "\u00e9"], "a": null}'),
        ("separators=(',', ':')", '{"b":[1,"\u00e9"],"a":null}'),
        ("indent=1, separators=(',', '=')", '{\n "b"=[\n  1,\n  "\u00e9"\n ],\n "a"=null\n}'),
        ("sort_keys=true, ensure_ascii=true", '{"a": null, "b": [1, "\\u00e9"]}'),
    ]:
        assert render("{{ messages[0].content | tojson(" + options + ") }}", tokenizer, messages) == wanted
    with pytest.raises(ValueError, match="failed: TypeError"):
        render("{{ 1 | tojson(other=1) }}", tokenizer, messages)
