"""What programs import from llama_cpp: names, chat formats, caches, tools, text to fill in, the package itself."""

import json
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

for library in ("gguf", "jinja2", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import structured  # noqa: E402
import tiny_models  # noqa: E402

import ggml  # noqa: E402
from ggml.models import llama_cpp  # noqa: E402
from ggml.models.llama_cpp import Llama, LlamaDiskCache, LlamaRAMCache, llama_chat_format  # noqa: E402
from ggml.models.llama_cpp.llama_speculative import LlamaPromptLookupDecoding  # noqa: E402

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "chat_formats.json").read_text(encoding="utf-8"))
TEMPLATE = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}{{ tools | length if tools }}A:"
MESSAGES = [{"role": "user", "content": "hi"}]
GREEDY = {"temperature": 0, "max_tokens": 12}
PARAMETERS = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9, "minimum": 0}}, "required": ["n"]}
TOOL = {"type": "function", "function": {"name": "count", "parameters": {**PARAMETERS, "additionalProperties": False}}}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    keys = {"tokenizer.chat_template": TEMPLATE, "tokenizer.ggml.fim_pre_token_id": 300,
            "tokenizer.ggml.fim_suf_token_id": 301, "tokenizer.ggml.fim_mid_token_id": 302}  # fmt: skip
    return structured.write_model(tmp_path_factory.mktemp("llama") / "bytes.gguf", change=keys)


@pytest.fixture
def llama(path):
    with Llama(path, n_ctx=256, n_threads=1, seed=3, verbose=False) as model:
        yield model


def test_constants():
    assert (llama_cpp.LLAMA_POOLING_TYPE_MEAN, llama_cpp.LLAMA_ROPE_SCALING_TYPE_YARN) == (1, 2)
    assert llama_cpp.LLAMA_DEFAULT_SEED == 0xFFFFFFFF and llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M == 15
    assert llama_cpp.GGML_TYPE_Q8_0 == ggml.GGML_TYPE_Q8_0
    assert all(hasattr(llama_cpp, name) for name in llama_cpp.__all__)
    assert llama_cpp.ChatCompletionStreamResponseDeltaEmpty == llama_cpp.llama_types.ChatCompletionChunkDeltaEmpty


@pytest.mark.parametrize("name", RECORDED["formats"])
def test_formats_equal_those_of_llama_cpp_python(name):
    """saiga alone differs on purpose: there, answers are left out of the prompt."""
    recorded, formatter = RECORDED["formats"][name], llama_chat_format.FORMATS[name]
    for messages, prompt in zip(RECORDED["conversations"], recorded["prompts"]):
        if name != "saiga" or len(messages) == 1:
            found = formatter(messages)
            assert (found.prompt, found.stop) == (prompt, recorded["stop"])


def test_formats_and_handlers_of_a_program(llama, path):
    @llama_chat_format.register_chat_format("mine")
    def mine(messages, **others):
        return llama_chat_format.ChatFormatterResponse("".join(m["content"] for m in messages) + ">", stop="never")

    with Llama(path, n_ctx=256, n_threads=1, chat_format="mine") as own:
        answer = own.create_chat_completion(MESSAGES, **GREEDY)
        assert answer["choices"][0]["message"]["content"] == own("hi>", **GREEDY)["choices"][0]["text"]
    llama.chat_format = "no-such"
    with pytest.raises(llama_chat_format.LlamaChatCompletionHandlerNotFoundException, match="no chat format 'no-such'"):
        llama.create_chat_completion(MESSAGES)
    llama.chat_handler = lambda llama, messages, **options: (messages, options)
    assert llama.create_chat_completion(MESSAGES, stop="x") == (MESSAGES, {"stop": "x"})
    formatter = llama_chat_format.Jinja2ChatFormatter("{{ bos_token }}{{ messages[0].content }}", "</s>", "<s>")
    assert formatter(messages=MESSAGES).prompt == "<s>hi" and formatter(messages=MESSAGES).stop == ["</s>"]
    registry = llama_chat_format.LlamaChatCompletionHandlerRegistry()
    registry.register_chat_completion_handler("a", mine)
    with pytest.raises(ValueError, match="there is one of the name 'a'"):
        registry.register_chat_completion_handler("a", mine)
    registry.unregister_chat_handler("a")
    assert "a" not in registry


@pytest.mark.filterwarnings("ignore:load. n_ctx is")
def test_calls_of_tools(llama, path):
    pytest.importorskip("llguidance")
    options = {"tools": [TOOL], "seed": 1, "max_tokens": 99, "parallel_tool_calls": False}
    for choice in ("required", {"type": "function", "function": {"name": "count"}}):
        answer = llama.create_chat_completion(MESSAGES, tool_choice=choice, **options)
        (selected,) = answer["choices"]
        assert selected["finish_reason"] == "tool_calls" and selected["message"]["content"] is None
        (call,) = selected["message"]["tool_calls"]
        assert call["function"]["name"] == "count" and set(json.loads(call["function"]["arguments"])) == {"n"}
        named = selected["message"].get("function_call")  # as llama-cpp-python gives it where a tool is named
        assert named == (call["function"] if isinstance(choice, dict) else None)
    chunks = list(llama.create_chat_completion(MESSAGES, tool_choice="required", stream=True, **options))
    (calls, *_) = (c["choices"][0]["delta"]["tool_calls"] for c in chunks if "tool_calls" in c["choices"][0]["delta"])
    assert calls[0]["function"]["name"] == "count" and calls[0]["index"] == 0
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    old = llama.create_chat_completion(
        MESSAGES, functions=[TOOL["function"]], function_call={"name": "count"}, seed=1, max_tokens=99
    )
    assert old["choices"][0]["message"]["function_call"]["name"] == "count"
    free = llama.create_chat_completion(MESSAGES, tools=[TOOL], tool_choice="auto", **GREEDY)
    plain = llama.create_chat_completion(MESSAGES, tools=[TOOL], tool_choice="none", **GREEDY)
    assert free["usage"]["prompt_tokens"] == plain["usage"]["prompt_tokens"] + 1  # the number of tools
    with Llama(path, n_ctx=480, n_threads=1, chat_format="chatml-function-calling") as other:
        answer = other.create_chat_completion(MESSAGES, tool_choice="required", **options)
        assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "count"


def test_answers_as_objects_of_openai(llama):
    pytest.importorskip("openai")
    answer = llama.create_chat_completion_openai_v1(MESSAGES, **GREEDY)
    expected = llama.create_chat_completion(MESSAGES, **GREEDY)["choices"][0]["message"]["content"]
    assert answer.choices[0].message.content == expected and answer.usage.completion_tokens == 12
    chunks = llama.create_chat_completion_openai_v1(MESSAGES, stream=True, **GREEDY)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == expected


def test_a_text_to_fill_in(llama, path):
    answer = llama("ab", suffix="yz", **GREEDY)
    ids = [300, *llama.tokenize(b"ab", add_bos=False), 301, *llama.tokenize(b"yz", add_bos=False), 302]
    assert answer["usage"]["prompt_tokens"] == len(ids)
    assert answer["choices"][0]["text"] == llama(ids, **GREEDY)["choices"][0]["text"]
    with Llama(path, n_ctx=256, n_threads=1, spm_infill=True) as other:
        middle = ids.index(301)
        after_first = [*ids[middle:-1], *ids[:middle], 302]
        expected = llama(after_first, **GREEDY)["choices"][0]["text"]
        assert other("ab", suffix="yz", **GREEDY)["choices"][0]["text"] == expected


def test_a_file_that_cannot_fill_in(tmp_path):
    with Llama(tiny_models.write(tmp_path / "tiny.gguf", "llama"), n_ctx=64, n_threads=1) as llama:
        with pytest.raises(ValueError, match="create_completion: suffix: the file has no token for the prefix"):
            llama("ab", suffix="c")


def test_caches(llama, tmp_path):
    expected = [llama(prompt, **GREEDY)["choices"][0]["text"] for prompt in ("abcdef", "abcxyz", "other")]
    for cache in (LlamaRAMCache(), LlamaDiskCache(str(tmp_path / "states"))):
        llama.set_cache(cache)
        for _ in range(2):
            found = [llama(prompt, **GREEDY)["choices"][0]["text"] for prompt in ("abcdef", "abcxyz", "other")]
            assert found == expected
        assert len(cache.keys()) == 3 and cache.cache_size > 0
        ids = llama.tokenize(b"abcdef")
        assert ids in cache and [500, 501] not in cache
        assert cache[ids].input_ids[: len(ids)].tolist() == ids
        with pytest.raises(KeyError):
            cache[[500]]
        cache.capacity_bytes = cache.cache_size * 2 // 3
        llama("one more", **GREEDY)
        assert 1 <= len(cache.keys()) < 4 and cache.cache_size <= cache.capacity_bytes
        llama.set_cache(None)
    list(llama("abc", stream=True, **GREEDY))


def test_arguments_of_langchain(path):
    """Its default constructor passes the base of the rotary embedding whatever the model."""
    given = {"n_parts": -1, "f16_kv": True, "use_mlock": False, "n_batch": 8, "rope_freq_scale": 1.0, "lora_base": None,
             "rope_freq_base": 10000.0, "vocab_only": False, "seed": -1, "last_n_tokens_size": 64}  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Llama(model_path=str(path), n_ctx=128, n_threads=1, **given) as llama:
            assert llama.context_params.n_ctx == llama.n_ctx() == 128 and llama.context_params.n_batch == 8
    with pytest.warns(UserWarning, match="Llama: rope_freq_base=5000.0 is ignored: the file says 10000"):
        Llama(path, n_ctx=64, n_threads=1, rope_freq_base=5000.0).close()


def test_a_tokenizer_of_a_program(path):
    class Upper(llama_cpp.BaseLlamaTokenizer):
        def tokenize(self, text, add_bos=True, special=True):
            return list(text.upper())

        def detokenize(self, tokens, prev_tokens=None, special=False):
            return bytes(tokens)

    with Llama(path, n_ctx=64, n_threads=1, tokenizer=Upper()) as llama:
        assert llama.tokenize(b"ab") == [65, 66] and llama.detokenize([67]) == b"C"
        assert llama("ab", max_tokens=1)["usage"]["prompt_tokens"] == 2
        with pytest.raises(TypeError):
            llama_cpp.BaseLlamaTokenizer()


def test_files_of_the_hub(path, monkeypatch):
    """With a module in the place of huggingface_hub."""
    asked = []

    def download(repo, name, **options):
        asked.append((repo, name, options["local_dir"]))
        return str(path)

    names = ["README.md", "a-Q4_0.gguf", "a-Q8_0.gguf"]
    hub = SimpleNamespace(list_repo_files=lambda repo: names, hf_hub_download=download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    with Llama.from_pretrained("me/a", "*Q8_0.gguf", ["README.md"], local_dir="x", n_ctx=64, n_threads=1) as llama:
        assert llama.n_ctx() == 64 and llama.model_path == str(path)
    assert asked == [("me/a", "a-Q8_0.gguf", "x"), ("me/a", "README.md", "x")]
    for pattern, count in ((None, 2), ("*.gguf", 2), ("b.gguf", 0)):
        message = f"Llama.from_pretrained: {count} files of me/a match .*: need one of a-Q4_0.gguf, a-Q8_0.gguf"
        with pytest.raises(ValueError, match=message):
            Llama.from_pretrained("me/a", pattern)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModuleNotFoundError, match="Llama.from_pretrained: huggingface_hub is missing"):
        Llama.from_pretrained("me/a", "x")


def test_lists_of_functions(llama):
    size = len(llama.tokenize(b"abc"))
    only = llama_cpp.LogitsProcessorList([lambda ids, scores: np.where(np.arange(len(scores)) == 40, scores, -np.inf)])
    end = llama_cpp.StoppingCriteriaList([lambda ids, logits: len(ids) >= size + 3])
    text = llama("abc", logits_processor=only, stopping_criteria=end, max_tokens=9)["choices"][0]["text"]
    assert text.encode() == llama.detokenize([40] * 3)
    least = llama_cpp.MinTokensLogitsProcessor(2, 1)
    for count, excluded in ((3, True), (4, True), (5, False)):
        assert (least(np.arange(count), np.zeros(4))[1] == -np.inf) == excluded


def test_guesses_from_the_text():
    guess = LlamaPromptLookupDecoding(max_ngram_size=2, num_pred_tokens=3)
    assert guess(np.array([1, 2, 3, 4, 5, 1, 2])).tolist() == [3, 4, 5]
    assert guess(np.array([7, 2, 3, 9, 2])).tolist() == [3, 9, 2]
    assert guess(np.array([1, 2, 3])).tolist() == [] == guess(np.array([1])).tolist()


def test_the_package_that_stands_for_llama_cpp_python(tmp_path):
    from ggml._cli import replace_bindings

    wheel = replace_bindings.write_wheel(tmp_path, "llama-cpp-python", "0.3.36")
    assert wheel.name == "llama_cpp_python-0.3.36-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    program = (
        "import llama_cpp, llama_cpp.llama_types as types, llama_cpp.llama_chat_format\n"
        "from llama_cpp import Llama, LlamaGrammar, LLAMA_POOLING_TYPE_CLS\n"
        "from llama_cpp.llama import LogitsProcessorList, StoppingCriteriaList\n"
        "from llama_cpp.llama_speculative import LlamaPromptLookupDecoding\n"
        "from llama_cpp.llama_tokenizer import LlamaHFTokenizer\n"
        "from llama_cpp._logger import logger\n"
        "import ggml.models\n"
        "assert Llama is ggml.models.Llama and types.ChatCompletionRequestMessage\n"
        "assert llama_cpp.__version__ == '0.3.36'\n"
        "assert llama_cpp.llama_chat_format.register_chat_format and LLAMA_POOLING_TYPE_CLS == 2\n"
    )
    root = Path(ggml.__file__).resolve().parent.parent
    code = f"import sys; sys.path[:0] = [{str(tmp_path / 'site')!r}, {str(root)!r}]\n{program}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_schemas_allow_the_properties_that_they_name():
    from ggml.models.chat.schemas import closed

    inner = {"type": "object", "properties": {"x": {"type": "integer"}}}
    schema = {"properties": {"properties": inner, "list": {"items": inner}}, "$defs": {"enum": inner}}
    found = closed(schema)
    shut = {**inner, "additionalProperties": False}
    assert found["properties"] == {"properties": shut, "list": {"items": shut}} and found["$defs"] == {"enum": shut}
    assert found["additionalProperties"] is False and "additionalProperties" not in schema
    open_ones = {"properties": {"x": {}}, "additionalProperties": True}
    assert closed(open_ones) == open_ones and closed({"type": "object"}) == {"type": "object"}
    assert closed({"allOf": [inner]}) == {"allOf": [inner]} and closed("{") == "{"
    assert closed('{"properties": {"x": {}}}') == {"properties": {"x": {}}, "additionalProperties": False}


def test_grammars_and_formats_by_name():
    pytest.importorskip("llguidance")
    from ggml.models.sample.constraint import language

    own = llama_cpp.llama_grammar
    for text in (own.JSON_GBNF, own.JSON_ARR_GBNF, own.LIST_GBNF, own.json_schema_to_gbnf({"type": "integer"})):
        assert language("test", grammar=own.LlamaGrammar.from_string(text).language["grammar"])
    formats = llama_cpp.llama_chat_format
    registry = formats.LlamaChatCompletionHandlerRegistry()
    registry.register_chat_completion_handler("own", print)
    try:
        assert formats.get_chat_completion_handler("own") is print
    finally:
        formats.LlamaChatCompletionHandlerRegistry().unregister_chat_handler("own")
    messages = [{"role": "user", "content": "Hi"}]
    prompts = {
        "format_snoozy": "or a conversation to respond to; decide which and write an appropriate response.\n"
        "### Prompt: Hi\n### Response:",
        "format_open_orca": "if appropriate.<|end_of_turn|>\nUser: Hi<|end_of_turn|>\nAssistant:",
        "format_openbuddy": "or OpenAI.\n\n\nUser: Hi\nAssistant:",
        "format_llama3": "<|start_header_id|>assistant<|end_header_id|>\n\n",
    }
    for name, end in prompts.items():
        assert getattr(formats, name)(messages=messages).prompt.endswith(end)
    assert formats.guess_chat_format_from_gguf_metadata(
        {"tokenizer.chat_template": formats.CHATML_CHAT_TEMPLATE}
    ) == "chatml"  # fmt: skip
    assert formats.guess_chat_format_from_gguf_metadata({}) is None
    config = {
        "chat_template": "{{ bos_token }}{{ messages[0].content }}",
        "bos_token": "<s>",
        "eos_token": {"content": "</s>"},
    }
    found = formats.hf_tokenizer_config_to_chat_formatter(config)(messages=messages)
    assert found.prompt == "<s>Hi" and found.stop == ["</s>", "<s>"]
    with pytest.raises(ValueError, match="bos_token is None"):
        formats.hf_tokenizer_config_to_chat_formatter({**config, "bos_token": None})
