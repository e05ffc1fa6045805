"""`Llama`: the names and answers of llama-cpp-python, on a tiny model and on SmolLM2."""

import itertools
import pickle

import numpy as np
import pytest
import real_models

for library in ("gguf", "jinja2", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import tiny_models  # noqa: E402

from ggml.models import Llama, load  # noqa: E402

TEMPLATE = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}{{ tools or '' }}A:"
GREEDY = {"temperature": 0, "max_tokens": 12}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    return tiny_models.write(folder / "tiny.gguf", "llama", change={"tokenizer.chat_template": TEMPLATE})


@pytest.fixture
def llama(path):
    with Llama(path, n_ctx=64, n_threads=1, seed=3, verbose=False) as model:
        yield model


@pytest.fixture(scope="module")
def expected(path):
    """What Model generates."""
    with load(path, n_ctx=64, threads=1) as model:
        return "".join(model.generate("abc", temperature=0, max_tokens=12))


def test_completion(llama, path, expected):
    answer = llama("abc", **GREEDY)
    (choice,) = answer["choices"]
    assert list(choice) == ["text", "index", "logprobs", "finish_reason"]
    assert choice == {"index": 0, "text": expected, "logprobs": None, "finish_reason": "length"} and expected
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 12, "total_tokens": 15}
    assert answer["object"] == "text_completion" and answer["model"] == str(path)
    assert answer["id"].startswith("cmpl-") and answer["created"] > 0
    assert llama.create_completion([*llama.tokenize(b"abc")], **GREEDY)["choices"][0]["text"] == expected
    assert llama("abc", echo=True, model="me", **GREEDY)["choices"][0]["text"] == "abc" + expected


def test_streaming(llama, expected):
    chunks = list(llama("abc", stream=True, echo=True, **GREEDY))
    assert "".join(c["choices"][0]["text"] for c in chunks) == "abc" + expected
    assert [c["choices"][0]["finish_reason"] for c in chunks] == [None] * (len(chunks) - 1) + ["length"]
    assert len({c["id"] for c in chunks}) == 1 and "usage" not in chunks[0]


def test_chat(llama):
    messages = [{"role": "user", "content": "hi"}]
    answer = llama.create_chat_completion(messages, **GREEDY)
    (choice,) = answer["choices"]
    assert choice["message"]["role"] == "assistant" and answer["object"] == "chat.completion"
    assert choice["message"]["content"] == llama("u:hi;A:", **GREEDY)["choices"][0]["text"]
    head, *chunks, last = llama.create_chat_completion(messages, stream=True, **GREEDY)
    assert head["choices"][0]["delta"] == {"role": "assistant"} and head["object"] == "chat.completion.chunk"
    assert "".join(c["choices"][0]["delta"]["content"] for c in chunks) == choice["message"]["content"]
    assert last["choices"][0]["delta"] == {} and last["choices"][0]["finish_reason"] == "length"


def test_a_named_format_replaces_the_template(path):
    with Llama(path, chat_format="chatml", n_ctx=96, n_threads=1) as model:
        answer = model.create_chat_completion([{"role": "user", "content": "hi"}], max_tokens=1)
    prompt = answer["usage"]["prompt_tokens"]
    text = "<|im_start|>system<|im_end|><|im_start|>userhi<|im_end|><|im_start|>assistant"
    assert prompt == len(text)  # the vocabulary has no line break


def test_stop_and_limits(llama, expected):
    at = max(i for i in range(11) if expected.find(expected[i : i + 2]) == i)
    cut = llama("abc", stop=[expected[at : at + 2]], **GREEDY)["choices"][0]
    assert cut["text"] == expected[:at] and cut["finish_reason"] == "stop"
    whole = llama("abc", max_tokens=None, temperature=0)
    assert whole["usage"]["total_tokens"] <= llama.n_ctx()
    for count in (64, 65):  # no room for a token
        with pytest.raises(
            ValueError, match=f"create_completion: Requested tokens .{count}. exceed context window of 64"
        ):
            llama("a" * count)
    for limit in (0, -1, 1000):
        assert llama("abc", max_tokens=limit, temperature=0)["usage"] == whole["usage"]


def test_arguments_by_position(llama, expected):
    named = llama("abc", max_tokens=5, temperature=0.0, top_p=0.9, min_p=0.1, logprobs=2, echo=True)
    placed = llama("abc", None, 5, 0.0, 0.9, 0.1, 1.0, 2, True)
    assert placed["choices"] == named["choices"] and named["choices"][0]["text"] == "abc" + expected[:5]
    messages = [{"role": "user", "content": "hi"}]
    found = llama.create_chat_completion(messages, None, None, None, "auto", 0.0, 0.95, 40, 0.05, 1.0, False, ["x"])
    assert found["choices"] == llama.create_chat_completion(messages, temperature=0, stop="x")["choices"]
    ids = llama.tokenize(b"abc")
    tokens = list(itertools.islice(llama.generate(ids, 40, 0.95, 0.05, 1.0, 0.0), 5))
    assert llama.detokenize(tokens).decode() == expected[:5]
    llama.reset()
    llama.eval(ids)
    assert llama.sample(40, 0.95, 0.05, 1.0, 0.0) == tokens[0]
    with pytest.raises(TypeError, match="create_completion: 26 arguments by position: need at most 25"):
        llama("abc", *[None] * 25)
    with pytest.raises(TypeError, match="create_completion: 'max_tokens' is given by position and by name"):
        llama("abc", None, 5, max_tokens=5)


def test_stopping_criteria(llama, expected):
    seen = []

    def at_six(ids, logits):
        seen.append((ids.dtype, len(ids), logits.shape))
        return len(ids) >= 6

    for criteria in (at_six, [lambda ids, logits: False, at_six]):
        seen.clear()
        answer = llama("abc", stopping_criteria=criteria, **GREEDY)
        assert answer["choices"][0]["text"] == expected[:3] and answer["choices"][0]["finish_reason"] == "stop"
        assert seen == [(np.intc, n, (llama.n_vocab(),)) for n in (3, 4, 5, 6)]
    ids = llama.tokenize(b"abc")
    assert llama.detokenize([*llama.generate(ids, temp=0.0, stopping_criteria=at_six)]).decode() == expected[:3]


def test_log_probabilities(llama):
    found = llama("abc", logprobs=3, **GREEDY)["choices"][0]["logprobs"]
    assert len(found["tokens"]) == len(found["token_logprobs"]) == 12
    logits = llama.model.logits(llama.tokenize(b"abc"))[-1].astype(np.float64)
    wanted = logits - logits.max()
    wanted -= np.log(np.exp(wanted).sum())
    assert found["token_logprobs"][0] == pytest.approx(wanted.max(), abs=1e-5)
    assert len(found["top_logprobs"][0]) == 3 and max(found["top_logprobs"][0].values()) == found["token_logprobs"][0]
    assert found["text_offset"] == [*range(3, 15)]
    parts = llama("abc", logprobs=3, stream=True, **GREEDY)
    assert [c["choices"][0]["logprobs"]["text_offset"] for c in parts if c["choices"][0]["text"]] == [
        [i] for i in range(3, 15)
    ]
    question = [{"role": "user", "content": "x"}]
    chat = llama.create_chat_completion(question, logprobs=True, top_logprobs=2, max_tokens=2, temperature=0)
    assert [len(t["top_logprobs"]) for t in chat["choices"][0]["logprobs"]["content"]] == [2, 2]


def test_log_probabilities_of_the_prompt(llama):
    """With echo, those of the prompt's tokens come first; nothing precedes the first one."""
    expected = llama.model.log_probabilities(llama.tokenize(b"abc"))
    for stream in (False, True):
        answer = llama("abc", logprobs=1, echo=True, max_tokens=2, temperature=0, stream=stream)
        chunks = [c["choices"][0]["logprobs"] for c in answer][:-1] if stream else [answer["choices"][0]["logprobs"]]
        found = {key: [value for chunk in chunks for value in chunk[key]] for key in chunks[0]}
        assert found["tokens"][:3] == ["a", "b", "c"] and found["text_offset"] == [0, 1, 2, 3, 4]
        assert found["token_logprobs"][0] is None and found["top_logprobs"][0] is None
        assert found["token_logprobs"][1:3] == pytest.approx(expected.tolist(), abs=1e-5)
        assert found["top_logprobs"][1]["b"] == found["token_logprobs"][1]


def test_changes_of_the_logits(llama, expected):
    first = llama.tokenize(expected[0].encode())[0]
    other = llama("abc", logit_bias={first: -100.0}, **GREEDY)["choices"][0]["text"]
    assert other[0] != expected[0]
    with pytest.raises(ValueError, match="logit_bias: token 100000 does not exist: need 0 to"):
        llama("abc", logit_bias={100000: 1.0}, **GREEDY)

    def one_token(ids, scores):
        return np.where(np.arange(len(scores)) == 40, scores, -np.inf)

    only = llama("abc", logits_processor=[one_token], **GREEDY)
    assert set(only["choices"][0]["text"]) == {chr(40 - 3 + 33)}
    free = llama("abc", temperature=0, max_tokens=40)["choices"][0]["text"]
    varied = llama("abc", temperature=0, max_tokens=40, frequency_penalty=1.5, presence_penalty=1.5)
    assert len(set(varied["choices"][0]["text"])) > len(set(free))


def test_seeds(llama):
    def draw(**options):
        return llama("abc", max_tokens=20, temperature=2.0, **options)["choices"][0]["text"]

    assert draw(seed=1) == draw(seed=1) != draw(seed=2)
    llama.set_seed(3)
    row = [draw(), draw()]
    assert row[0] != row[1]
    llama.set_seed(3)
    assert [draw(), draw()] == row
    draw(seed=5)
    after = draw()
    assert draw(seed=5) and draw() == after
    assert len({draw(seed=-1) for _ in range(4)}) > 1
    llama.set_seed(0xFFFFFFFF)
    assert len({draw() for _ in range(4)}) > 1


def test_tokens(llama):
    ids = llama.tokenize(b"abc</s>")
    assert llama.tokenize(b"abc</s>", special=True) == [*ids[:3], llama.token_eos()]
    assert llama.detokenize(ids) == b"abc</s>" and llama.detokenize([1, *ids[:2]], special=True) == b"</s>ab"
    assert (llama.token_bos(), llama.token_eos(), llama.n_vocab()) == (0, 1, tiny_models.VOCAB)
    assert llama.n_embd() == tiny_models.WIDTH and llama.metadata["general.architecture"] == "llama"
    with pytest.raises(TypeError, match="tokenize: text is a str: need bytes"):
        llama.tokenize("abc")


def test_step_by_step(llama, expected):
    with pytest.raises(RuntimeError, match="call eval first"):
        llama.sample()
    llama.eval(llama.tokenize(b"ab"))
    llama.eval(llama.tokenize(b"c"))
    assert llama.n_tokens == 3 and llama.detokenize(llama.eval_tokens) == b"abc"
    assert llama.detokenize([llama.sample(temp=0)]).decode() == expected[0]
    llama.reset()
    assert llama.n_tokens == 0
    for _ in range(2):  # the second time with tokens that are there already
        tokens = list(itertools.islice(llama.generate(llama.tokenize(b"abc"), temp=0), 12))
        assert llama.detokenize(tokens).decode() == expected
    llama.eval([])
    steps = llama.generate(llama.tokenize(b"abc"), temp=0)
    first, after = next(steps), llama.tokenize(b"xy")
    steps.send(after)
    assert llama.eval_tokens == [*llama.tokenize(b"abc"), first, *after]


def test_the_end_of_the_context(path):
    """Whoever asks for more gets what there is room for."""
    never_end = {"logits_processor": lambda ids, logits: np.where(np.arange(len(logits)) == 1, -np.inf, logits)}
    with Llama(path, n_ctx=24, n_threads=1, verbose=False) as llama:
        for room in (None, -1, 100):
            choice = llama.create_completion("abcd", max_tokens=room, temperature=0, **never_end)["choices"][0]
            assert choice["finish_reason"] == "length" and len(llama.tokenize(choice["text"].encode())) == 20
        found = list(llama.generate(llama.tokenize(b"abcd"), temp=0, **never_end))
        assert llama.detokenize(found[:20]).decode() == choice["text"] and len(found) == 21
        steps = llama.generate(llama.tokenize(b"abcd" * 6), temp=0, **never_end)
        next(steps)
        with pytest.raises(ValueError, match="feed: 24 . 2 tokens exceed the context of 24"):
            steps.send(llama.tokenize(b"x"))


@pytest.mark.parametrize("every", [False, True])
def test_logits_and_states(every, path):
    with Llama(path, n_ctx=64, n_threads=1, logits_all=every) as llama:
        ids = llama.tokenize(b"abcd")
        expected = llama.model.logits(ids)
        llama.reset()
        llama.eval(ids[:2])
        llama.eval(ids[2:])
        assert np.allclose(llama.eval_logits[-1], expected[-1], atol=5e-5)
        assert len(llama.eval_logits) == (4 if every else 1)
        assert llama.input_ids.tolist() == ids + [0] * 60
        if every:
            assert llama.scores.shape == (64, llama.n_vocab())
            assert np.allclose(llama.scores[: llama.n_tokens], expected, atol=5e-5)
        else:
            with pytest.raises(RuntimeError, match="scores: need a model that was opened with logits_all=True"):
                llama.scores  # the property raises
        state, choice = llama.save_state(), llama.sample(temp=0)
        llama.reset()
        llama.eval(ids[:1])
        llama.load_state(state)
        assert llama.eval_tokens == ids and llama.sample(temp=0) == choice
        with pytest.raises(TypeError, match="load_state: state is a bytes: need what save_state returned"):
            llama.load_state(b"")


def test_helpers_of_programs(llama):
    tokenizer = llama.tokenizer()
    assert tokenizer.encode("ab</s>") == [*llama.tokenize(b"ab"), llama.token_eos()]
    assert tokenizer.decode(tokenizer.encode("ab")) == "ab"
    assert Llama.longest_token_prefix([1, 2, 3], [1, 2, 4, 5]) == 2
    assert np.allclose(np.exp(Llama.logits_to_logprobs(np.zeros((2, 4), np.float32), axis=0)), 0.5)
    assert llama.pooling_type() == -1 and llama.set_cache(None) is None
    with pytest.raises(TypeError, match="set_cache: cache is a int: need a LlamaRAMCache or None"):
        llama.set_cache(3)
    epsilon = llama.metadata["llama.attention.layer_norm_rms_epsilon"]
    assert float(epsilon) > 0 and len(epsilon.partition(".")[2]) == 6


def test_embeddings(llama):
    answer = llama.create_embedding(["abc", "xyz"])
    assert [d["index"] for d in answer["data"]] == [0, 1] and answer["usage"]["total_tokens"] == 6
    assert len(answer["data"][0]["embedding"]) == tiny_models.WIDTH
    assert llama.embed(["abc", "de"], return_count=True)[1] == 5
    one = llama.embed("abc", normalize=True)
    assert np.linalg.norm(one) == pytest.approx(1, abs=1e-5)
    row = np.array(answer["data"][0]["embedding"])
    assert np.allclose(row / np.linalg.norm(row), one, atol=1e-5)
    assert len(llama.embed("a" * 100)) == tiny_models.WIDTH
    with pytest.raises(ValueError, match="100 tokens, the context 64"):
        llama.embed("a" * 100, truncate=False)


def test_copies_by_pickle_open_the_file_again(llama, expected):
    with pickle.loads(pickle.dumps(llama)) as other:
        assert other.model is not llama.model and other.n_ctx() == llama.n_ctx()
        assert other("hello", **GREEDY)["choices"][0]["text"] == llama("hello", **GREEDY)["choices"][0]["text"]


def test_options_of_chats(llama):
    messages = [{"role": "user", "content": "hi"}]
    plain = llama.create_chat_completion(messages, **GREEDY)["choices"]
    allowed = {"response_format": {"type": "text"}, "tool_choice": "none", "mirostat_tau": 3.0}
    assert llama.create_chat_completion(messages, **allowed, **GREEDY)["choices"] == plain
    with pytest.raises(ValueError, match="create_chat_completion: tool_choice is .*: need one of 'auto', 'none'"):
        llama.create_chat_completion(messages, tool_choice={"type": "function"})
    with pytest.raises(TypeError, match="create_completion: there is no argument 'temprature'"):
        llama("x", temprature=1)


def test_wrong_constructor_arguments(path):
    for name in ("type_k", "type_v"):
        with pytest.raises(NotImplementedError, match=f"Llama: {name}=12 is not supported: need GGML_TYPE_... of F32"):
            Llama(path, **{name: 12})
    with pytest.raises(OSError):
        Llama("no such file")
    with Llama(path, n_ctx=0, n_gpu_layers=-1, flash_attn=True, type_k=0, type_v=0, n_threads=1) as model:
        assert model.n_ctx() == tiny_models.CONTEXT
        assert model("a", max_tokens=2, temperature=0)["usage"]["completion_tokens"] == 2


def test_smollm2_answers():
    with Llama(real_models.smollm2(), n_ctx=128, verbose=False) as model:
        assert "Paris" in model("The capital of France is", **GREEDY)["choices"][0]["text"]
        question = [{"role": "user", "content": "Say hello."}]
        answer = model.create_chat_completion(question, max_tokens=8, temperature=0)
        assert answer["choices"][0]["message"]["content"].startswith("Hello")
