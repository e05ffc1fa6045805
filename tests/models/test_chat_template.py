"""Chat templates: prompts equal to llama-cpp-python's, and templates that try to do harm."""

import json
from pathlib import Path

import model_vocabularies as vocabularies
import pytest
import real_models
from model_texts import CONVERSATIONS

pytest.importorskip("jinja2")

from ggml.models.chat import sandbox  # noqa: E402
from ggml.models.chat.template import BUILT_IN, ChatTemplate  # noqa: E402
from ggml.models.files.model_file import ModelFile  # noqa: E402
from ggml.models.text.tokenizer import Tokenizer  # noqa: E402

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "models" / "chat.json").read_text(encoding="utf-8"))
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(vocabularies.spm())


def render(source, tokenizer, messages=HELLO, **variables):
    return ChatTemplate({"tokenizer.chat_template": source}, tokenizer).render(messages, **variables)


# ---- prompts ---------------------------------------------------------------------------------------------------------
def test_the_template_of_smollm2():
    file = ModelFile(real_models.smollm2())
    tokenizer = Tokenizer(file.metadata)
    template = ChatTemplate(file.metadata, tokenizer)
    assert [template.render(messages) for messages in CONVERSATIONS] == RECORDED["file"]
    ids = template.tokens(HELLO)
    assert tokenizer.decode(ids, special=True) == template.render(HELLO)
    assert [tokenizer.text(i) for i in ids].count("<|im_start|>") == 3  # the template adds instructions
    file.close()


@pytest.mark.parametrize(("name", "mark"), [("chatml", "<|im_start|>"), ("gemma", "<start_of_turn>")])
def test_formats_of_files_without_a_template(name, mark):
    metadata = vocabularies.spm()
    metadata["tokenizer.ggml.tokens"][300] = mark
    tokenizer = Tokenizer(metadata)
    template = ChatTemplate({}, tokenizer)
    assert template.source == BUILT_IN[mark]
    begin = tokenizer.text(tokenizer.bos) if name == "gemma" else ""
    for messages, wanted in zip(CONVERSATIONS, RECORDED[name], strict=True):
        assert template.render(messages) == begin + wanted


def test_a_file_without_template_and_format(tokenizer):
    with pytest.raises(ValueError, match="chat: the file has no chat template"):
        ChatTemplate({}, tokenizer)
    with pytest.raises(ValueError, match="chat: tokenizer.chat_template is 7: need a string"):
        ChatTemplate({"tokenizer.chat_template": 7}, tokenizer)


def test_what_templates_expect(tokenizer):
    source = """{{ bos_token }}{%- for m in messages %}
{% if m['role'] not in ['user'] %}{{ raise_exception('only users') }}{% endif %}
{{ m.content | trim | tojson }}{% if loop.last %}{% break %}{% endif %}
    {% endfor %}{% generation %}[{{ tools[0].name }}]{% endgeneration %}{{ eos_token }}
{{- strftime_now('%Y') | length }}"""
    text = render(source, tokenizer, [{"role": "user", "content": ' <&"\u00e9 '}], tools=[{"name": "f"}])
    assert text == '<s>"<&\\"\u00e9"[f]</s>4'
    with pytest.raises(ValueError, match="chat: the template refuses the messages: only users"):
        render(source, tokenizer, [{"role": "system", "content": ""}])
    assert render("{% if add_generation_prompt %}A{% endif %}", tokenizer) == "A"
    assert render("x{% if add_generation_prompt %}A{% endif %}", tokenizer, add_generation_prompt=False) == "x"
    assert render("{{ {'b': [1, none], 'a': 1.5} | tojson(indent=1) }}", tokenizer) == (
        '{\n "b": [\n  1,\n  null\n ],\n "a": 1.5\n}'
    )
    source = "{{ ['a', 'b'] | join('-') }} {{ 'a-b'.split('-') | last }} {{ '%s!' % 'x' }} {{ 'a' ~ 1 }}"
    assert render(source, tokenizer) == "a-b b x! a1"


def test_the_beginning_of_a_text_stands_once(tokenizer):
    for source in ("{{ bos_token }}Hi", "Hi"):
        ids = ChatTemplate({"tokenizer.chat_template": source}, tokenizer).tokens(HELLO)
        assert ids[0] == tokenizer.bos and ids.count(tokenizer.bos) == 1


# ---- wrong messages and templates ------------------------------------------------------------------------------------
@pytest.mark.parametrize("messages", ["Hello", HELLO[0], [["user", "Hello"]], [{"content": "x"}], [{"role": 1}], [3]])
def test_wrong_messages(messages, tokenizer):
    with pytest.raises(TypeError, match="chat: messages must be a list such as"):
        render("x", tokenizer, messages)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ x", "not valid"),
        ("{% for %}", "not valid"),
        ("{{" + "(" * 5000 + ")" * 5000 + "}}", "nested too deeply"),
        ("{{ none.foo.bar }}", "failed"),
        ("{{ messages[0].content + 1 }}", "failed: TypeError"),
        ("{% include 'other' %}", "failed"),
        ("{{ 1 / 0 }}", "failed: ZeroDivisionError"),
    ],
)
def test_templates_with_errors(source, message, tokenizer):
    with pytest.raises(ValueError, match=f"^chat: .*{message}"):
        render(source, tokenizer)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.clear() }}",
        "{{ [].append.__self__ }}",
        "{{ raise_exception.__globals__ }}",
        "{{ messages[0].update(a=1) }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ ''['__class__'].mro() }}",
        "{{ ('%s' | attr('__mod__')).__class__ }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ strftime_now.__code__ }}",
    ],
)
def test_templates_cannot_leave_the_sandbox(source, tokenizer):
    try:
        assert "<" not in render(source, tokenizer)  # unsafe attributes are undefined, and render as nothing
    except ValueError as error:
        assert str(error).startswith("chat: ")
    assert HELLO == [{"role": "user", "content": "Hello"}]


def test_templates_keep_lists_of_their_own(tokenizer):
    """As Kimi's do: names of calls that wait for results."""
    source = "{% set ns = namespace(x=[]) %}{% for i in range(3) %}{% set _ = ns.x.append(i) %}{% endfor %}"
    assert render(source + "{{ ns.x.pop(0) }}{{ ns.x }}{{ ns.x | map('string') | tojson }}", tokenizer) == (
        '0[1, 2]["1", "2"]'
    )
    assert render("{% set _ = messages.append(1) %}{{ messages | length }}", tokenizer) == "2"
    assert HELLO == [{"role": "user", "content": "Hello"}]


GROW = "{%% set ns = namespace(x=%s) %%}{%% for i in range(100) %%}%s{%% endfor %%}"


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' * 10**9 }}",
        "{% set a = [] %}{% for i in range(99) %}{% set _ = a.append([a, a]) %}{% endfor %}{{ a }}",
        "{{ 10**9 * [1] }}",
        "{{ 10**1000000 }}",
        "{{ 'a'.ljust(10**9) }}",
        "{{ 'a'|center(10**9) }}",
        "{{ '%1000000000d' % 5 }}",
        "{{ '{:1000000000}'.format(5) }}",
        "{{ '%1000000000d'|format(5) }}",
        "{{ '%*d' % (1000000000, 5) }}",
        "{{ 2|round(10**9, 'floor') }}",
        "{{ {}|tojson(indent=10**9) }}",
        "{{ 'a'|batch(10**9)|list }}",
        "{{ ['a' * 4000000] * 1000 }}",
        "{% for x in range(100000) %}{{ 'a'*999999 }}{% endfor %}",
        "{{ ('a' * 9999).expandtabs(10**9) }}",
        "{{ ('\n' * 99999)|indent(99999) }}",
        "{{ [1]|sum(start=10**100000) }}",
        GROW % ("['a']", "{% set ns.x = ns.x + ns.x %}"),
        GROW % ("'a'", "{% set ns.x = ns.x ~ ns.x %}"),
        GROW % ("'a'", "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}"),
        GROW % ("2", "{% set ns.x = ns.x * ns.x %}"),
        GROW % ("'a'", "{% set ns.x = ns.x|replace('a', 'aaaaaaaaaa') %}"),
        GROW % ("'a'", "{% set ns.x = ns.x.replace('a', 'aaaaaaaaaa') %}"),
        GROW % ("'a'", "{% set ns.x = [ns.x, ns.x, ns.x]|join('') %}"),
        GROW % ("'a'", "{% set ns.x = ns.x.join(['a'] * 1000) %}"),
    ],
)
def test_templates_cannot_make_large_values(source, tokenizer):
    with pytest.raises(ValueError, match="^chat: the template"):
        render(source, tokenizer)


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{{ range(100000)|list|map('string')|map('center', 9999)|list|length }}",
        GROW % ("['a']", "{% set ns.x = [ns.x, ns.x] %}") + "{{ ns.x }}",
    ],
)
def test_templates_cannot_take_long(source, tokenizer, monkeypatch):
    monkeypatch.setattr(sandbox, "SECONDS", 0.5)
    with pytest.raises(ValueError, match="^chat: the (chat )?template (takes more than|makes a value|makes values)"):
        render(source, tokenizer)


def test_templates_cannot_recurse_for_ever(tokenizer):
    with pytest.raises(ValueError, match="chat: the chat template calls itself too often"):
        render("{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}", tokenizer)
