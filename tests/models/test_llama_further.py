"""The functions of llama.h for samplers, states, adapters, embeddings and chat templates; against Model and Sampler."""

import ctypes
import struct
from inspect import isfunction, signature

import numpy as np
import pytest

for library in ("gguf", "jinja2", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import gguf  # noqa: E402
import gguf_files  # noqa: E402
import structured  # noqa: E402

import ggml  # noqa: E402
from ggml.models import Sampler, load  # noqa: E402
from ggml.models import llama_cpp as low  # noqa: E402

IDS = [104, 101, 108, 108, 111, 32, 119, 111]
N_VOCAB = 500


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return structured.write_model(tmp_path_factory.mktemp("further") / "bytes.gguf")


@pytest.fixture(scope="module")
def model(path):
    found = low.llama_model_load_from_file(str(path).encode(), low.llama_model_default_params())
    yield found
    low.llama_model_free(found)


def new_context(model, **params):
    own = low.llama_context_default_params()
    own.n_ctx, own.n_seq_max, own.n_threads = 64, 2, 1
    own.type_k = own.type_v = ggml.GGML_TYPE_F32
    for name, value in params.items():
        setattr(own, name, value)
    return low.llama_init_from_model(model, own)


@pytest.fixture
def context(model):
    found = new_context(model)
    yield found
    low.llama_free(found)


def decode(context, ids):
    assert low.llama_decode(context, low.llama_batch_get_one((low.llama_token * len(ids))(*ids), len(ids))) == 0


def logits_of(context, i=-1):
    n_vocab = context.model.config.n_vocab
    return np.ctypeslib.as_array(low.llama_get_logits_ith(context, i), (n_vocab,)).copy()


def chain_of(*parts):
    chain = low.llama_sampler_chain_init(low.llama_sampler_chain_default_params())
    for part in parts:
        low.llama_sampler_chain_add(chain, part)
    return chain


def candidates(logits):
    data = (low.llama_token_data * len(logits))(*((i, float(x), 0.0) for i, x in enumerate(logits)))
    array = low.llama_token_data_array(data, len(logits), -1, False)
    array.kept = data
    return array


def shown(array):
    return [(array.data[i].id, array.data[i].logit) for i in range(array.size)]


def test_a_chain_chooses_what_a_sampler_with_the_same_settings_chooses(context):
    decode(context, IDS)
    chain = chain_of(low.llama_sampler_init_penalties(N_VOCAB, 8, 1.3, 0.1, 0.2), low.llama_sampler_init_top_k(20),
                     low.llama_sampler_init_top_p(0.9, 1), low.llama_sampler_init_min_p(0.01, 1),
                     low.llama_sampler_init_temp(0.8), low.llama_sampler_init_dist(7))  # fmt: skip
    assert low.llama_sampler_get_seed(chain) == 7 and low.llama_sampler_chain_n(chain) == 6
    expected = Sampler(0.8, 20, 0.9, 0.01, 1.3, 8, 7, frequency_penalty=0.1, presence_penalty=0.2, min_keep=1)
    for _ in range(12):
        token = expected(logits_of(context))
        expected.accept(token)
        assert low.llama_sampler_sample(chain, context, -1) == token
        decode(context, [token])
    assert low.llama_perf_sampler(chain).n_sample == 12
    low.llama_perf_sampler_reset(chain)
    assert low.llama_perf_sampler(chain).n_sample == 0


def test_clones_and_resets_draw_the_same_again(context):
    decode(context, IDS)
    vocab = low.llama_model_get_vocab(low.llama_get_model(context))
    drawing = [
        low.llama_sampler_init_dist(3),
        low.llama_sampler_init_mirostat(N_VOCAB, 3, 5.0, 0.1, 100),
        low.llama_sampler_init_mirostat_v2(3, 5.0, 0.1),
        low.llama_sampler_init_adaptive_p(0.3, 0.9, 3),
    ]
    for part in drawing:
        chain = chain_of(low.llama_sampler_init_dry(vocab, 0.5, 1.5, 1, 16, (ctypes.c_char_p * 1)(b"\n"), 1),
                         low.llama_sampler_init_xtc(0.5, 0.01, 1, 9), part)  # fmt: skip
        first = [low.llama_sampler_sample(chain, context, -1) for _ in range(5)]
        copied = low.llama_sampler_clone(chain)
        after = [low.llama_sampler_sample(chain, context, -1) for _ in range(5)]
        assert [low.llama_sampler_sample(copied, context, -1) for _ in range(5)] == after
        low.llama_sampler_reset(chain)
        assert [low.llama_sampler_sample(chain, context, -1) for _ in range(5)] == first
        low.llama_sampler_copy(copied, chain)
        assert low.llama_sampler_chain_n(chain) == 3


def test_applying_changes_an_array_of_candidates():
    logits = [1.0, 3.0, 2.0, 0.0, 2.5, -1.0]
    array = candidates(logits)
    low.llama_sampler_apply(low.llama_sampler_init_top_k(3), ctypes.byref(array))
    assert shown(array) == [(1, 3.0), (4, 2.5), (2, 2.0)] and array.sorted and array.selected == -1
    low.llama_sampler_apply(low.llama_sampler_init_temp(0.5), ctypes.pointer(array))
    assert shown(array) == [(1, 6.0), (4, 5.0), (2, 4.0)]
    low.llama_sampler_apply(low.llama_sampler_init_greedy(), array)
    assert array.selected == 0
    array = candidates(logits)
    bias = (low.llama_logit_bias * 2)((3, 9.0), (700, 1.0))
    low.llama_sampler_apply(low.llama_sampler_init_logit_bias(N_VOCAB, 2, bias), array)
    low.llama_sampler_apply(low.llama_sampler_init_dist(1), array)
    p = np.exp(np.array([1, 3, 2, 9, 2.5, -1]))
    np.testing.assert_allclose([array.data[i].p for i in range(6)], p / p.sum(), rtol=1e-5)
    with pytest.raises(ValueError, match="llama_sampler_apply: 0 candidates"):
        low.llama_sampler_apply(low.llama_sampler_init_greedy(), low.llama_token_data_array())


def test_names_are_those_of_llama_cpp(model):
    made = {
        b"?top-k": low.llama_sampler_init_top_k(0), b"top-p": low.llama_sampler_init_top_p(0.5, 1),
        b"?top-p": low.llama_sampler_init_top_p(1.5, 1), b"?min-p": low.llama_sampler_init_min_p(0.0, 1),
        b"typical": low.llama_sampler_init_typical(0.5, 1), b"?temp": low.llama_sampler_init_temp(1.0),
        b"temp-ext": low.llama_sampler_init_temp_ext(0.5, 0.2, 1.0), b"greedy": low.llama_sampler_init_greedy(),
        b"?xtc": low.llama_sampler_init_xtc(0.0, 0.1, 1, 1), b"top-n-sigma": low.llama_sampler_init_top_n_sigma(1.0),
        b"infill": low.llama_sampler_init_infill(model), b"chain": chain_of(),
        b"?penalties": low.llama_sampler_init_penalties(N_VOCAB, 64, 1.0, 0.0, 0.0),
    }  # fmt: skip
    assert {low.llama_sampler_name(part): part for part in made.values()} == made


def test_grammars_limit_from_the_beginning_or_from_a_trigger_on(context):
    pytest.importorskip("llguidance")
    vocab = low.llama_model_get_vocab(low.llama_get_model(context))
    decode(context, IDS)

    def written(chain, forced=()):
        tokens = []
        for i in range(8):
            if i < len(forced):
                low.llama_sampler_accept(chain, forced[i])
                tokens.append(forced[i])
            else:
                tokens.append(low.llama_sampler_sample(chain, context, -1))
            if low.llama_vocab_is_eog(vocab, tokens[-1]):
                break
        return b"".join(map(context.model.tokenizer.piece, tokens))

    text = b'start ::= "ab" [0-9] "c"'
    chain = chain_of(low.llama_sampler_init_grammar(vocab, text, b"start"), low.llama_sampler_init_greedy())
    for _ in range(2):
        found = written(chain)
        assert found[:2] == b"ab" and found[2:3].isdigit() and found[3:] == b"c"
        low.llama_sampler_reset(chain)
    lazy = low.llama_sampler_init_grammar_lazy(vocab, b'root ::= "!" "xyz"', b"root", (ctypes.c_char_p * 1)(b"!"), 1,
                                               None, 0)  # fmt: skip
    chain = chain_of(lazy, low.llama_sampler_init_greedy())
    assert written(chain, b"oh!") == b"oh!xyz"
    copied = low.llama_sampler_clone(chain)
    assert low.llama_vocab_is_eog(vocab, low.llama_sampler_sample(copied, context, -1))
    with pytest.raises(ValueError, match="llama_sampler_init_grammar: "):
        low.llama_sampler_init_grammar(vocab, b"root ::= (", b"root")


def test_a_program_makes_a_sampler_of_its_own(context):
    decode(context, IDS)
    seen = []

    @low.llama_sampler_i_apply
    def apply(sampler, pointer):
        array = pointer.contents
        array.data[0] = low.llama_token_data(42, 1.0, 1.0)
        array.size, array.selected = 1, 0

    own = low.llama_sampler_i(
        apply=apply,
        accept=low.llama_sampler_i_accept(lambda sampler, token: seen.append(token)),
    )  # fmt: skip
    sampler = low.llama_sampler_init(ctypes.pointer(own), None)
    assert low.llama_sampler_sample(chain_of(sampler), context, -1) == 42 and seen == [42]
    assert low.llama_sampler_name(sampler) == b"(null)"
    with pytest.raises(ValueError, match="llama_sampler_init: "):
        low.llama_sampler_init(low.llama_sampler_i(), None)


def test_samplers_that_are_freed_or_no_samplers_raise(context):
    part = low.llama_sampler_init_greedy()
    chain = chain_of(part)
    with pytest.raises(ValueError, match="llama_sampler_chain_add: "):
        low.llama_sampler_chain_add(chain, chain)
    with pytest.raises(ValueError, match="llama_sampler_chain_add: "):
        low.llama_sampler_chain_add(chain, part)
    with pytest.raises(ValueError, match="has no logits of token 3"):
        low.llama_sampler_sample(chain, context, 3)
    assert low.llama_sampler_chain_get(chain, 1) is None and low.llama_sampler_chain_remove(chain, 5) is None
    low.llama_sampler_free(chain)
    low.llama_sampler_free(chain)
    for own in (chain, part):
        with pytest.raises(ValueError, match="llama_sampler_name: .* was freed"):
            low.llama_sampler_name(own)
    with pytest.raises(TypeError, match="llama_sampler_reset: the sampler is a NoneType"):
        low.llama_sampler_reset(None)
    decode(context, IDS)
    with pytest.raises(ValueError, match="chooses no token"):
        low.llama_sampler_sample(low.llama_sampler_init_top_k(3), context, -1)


def test_states_are_copied_in_memory_and_in_files(context, tmp_path):
    memory = low.llama_get_memory(context)
    decode(context, IDS)
    expected = logits_of(context)
    size = low.llama_state_get_size(context)
    data = (ctypes.c_uint8 * size)()
    assert low.llama_state_get_data(context, data, size) == size
    assert low.llama_state_get_data(context, data, size - 1) == 0
    tokens, name = (low.llama_token * len(IDS))(*IDS), str(tmp_path / "session").encode()
    assert low.llama_state_save_file(context, name, tokens, len(IDS))
    one = (ctypes.c_uint8 * low.llama_state_seq_get_size(context, 0))()
    assert low.llama_state_seq_get_data(context, one, len(one), 0) == len(one)
    single = str(tmp_path / "sequence").encode()
    written = low.llama_state_seq_save_file(context, single, 0, tokens, len(IDS))

    low.llama_memory_clear(memory, True)
    assert low.llama_state_set_data(context, data, size) == size
    assert low.llama_memory_seq_pos_max(memory, 0) == len(IDS) - 1
    np.testing.assert_array_equal(logits_of(context), expected)
    low.llama_memory_clear(memory, True)
    found, count = (low.llama_token * 64)(), ctypes.c_size_t()
    assert low.llama_state_load_file(context, name, found, 64, ctypes.byref(count))
    assert found[: count.value] == IDS and low.llama_memory_seq_pos_max(memory, 0) == len(IDS) - 1
    assert low.llama_state_seq_set_data(context, one, len(one), 1) == len(one)
    assert low.llama_memory_seq_pos_max(memory, 1) == len(IDS) - 1
    low.llama_memory_clear(memory, True)
    assert low.llama_state_seq_load_file(context, single, 1, found, 64, ctypes.byref(count)) == written
    assert low.llama_memory_seq_pos_max(memory, 1) == len(IDS) - 1
    with pytest.raises(ValueError, match="llama_state_load_file: .*not those of such a file"):
        low.llama_state_load_file(context, single, found, 64, None)
    with pytest.raises(ValueError, match="there is room for 3"):
        low.llama_state_load_file(context, name, found, 3, None)


def test_damaged_states_change_nothing(context):
    memory = low.llama_get_memory(context)
    decode(context, IDS)
    size = low.llama_state_get_size(context)
    data = (ctypes.c_uint8 * size)()
    low.llama_state_get_data(context, data, size)
    whole = bytes(data)
    random = np.random.default_rng(5)
    for end in (0, 7, 30, size // 2, size - 1):
        with pytest.raises(ValueError, match="llama_state_set_data: "):
            low.llama_state_set_data(context, whole[:end], end)
    for _ in range(40):
        bad = bytearray(whole)
        place = int(random.integers(0, 400))
        bad[place] ^= int(random.integers(1, 256))
        try:
            low.llama_state_set_data(context, bytes(bad), size)
        except ValueError as error:
            assert str(error).startswith("llama_state_set_data: ")
        assert low.llama_memory_seq_pos_max(memory, 0) == len(IDS) - 1
    with pytest.raises(ValueError, match="the size is 99"):
        low.llama_state_seq_set_data(context, b"", 99, 0)
    huge = whole[:8] + struct.pack("<QQQ", 2, 1 << 60, 1 << 60) + whole[32:]
    with pytest.raises(ValueError, match="incomplete"):
        low.llama_state_set_data(context, huge, size)


def test_embeddings_are_those_of_the_model(model, path):
    with load(path, n_ctx=64, threads=1, kv_type="f32") as reference:
        states, expected = reference.embed([IDS], pooling="none")[0], reference.logits(IDS)
    batch = (low.llama_token * len(IDS))(*IDS)
    for pooling, name in enumerate(("none", "mean", "cls", "last")):
        context = new_context(model, embeddings=True, pooling_type=pooling)
        assert low.llama_pooling_type(context) == pooling
        assert not low.llama_get_embeddings_seq(context, 0) and not low.llama_get_embeddings_ith(context, 0)
        assert low.llama_decode(context, low.llama_batch_get_one(batch, len(IDS))) == 0
        last = np.ctypeslib.as_array(low.llama_get_embeddings_ith(context, -1), (states.shape[1],))
        np.testing.assert_allclose(last, states[-1], rtol=1e-4, atol=1e-5)
        pooled = low.llama_get_embeddings_seq(context, 0)
        assert bool(pooled) == (name != "none") and bool(low.llama_get_embeddings(context)) == (name == "none")
        if pooled:
            wanted = {"mean": states.mean(0), "cls": states[0], "last": states[-1]}[name]
            np.testing.assert_allclose(np.ctypeslib.as_array(pooled, wanted.shape), wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(logits_of(context), expected[-1], rtol=1e-3, atol=1e-4)
        low.llama_set_embeddings(context, False)
        decode(context, [105])
        assert not low.llama_get_embeddings_ith(context, -1)
        low.llama_free(context)


def write_adapter(path, model, scale):
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_string("general.type", "adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 2.0)
    random = np.random.default_rng(3)
    columns, rows = model.weight_shape("blk.0.attn_q.weight")[:2]
    for part, shape in (("a", (2, columns)), ("b", (rows, 2))):
        data = random.normal(0, scale, shape).astype(np.float32)
        writer.add_tensor(f"blk.0.attn_q.weight.lora_{part}", data)
    gguf_files.finish(writer)
    return str(path)


def test_adapters_are_set_by_arrays(model, context, path, tmp_path):
    file = write_adapter(tmp_path / "adapter.gguf", model, 1.0)
    with load(path, n_ctx=64, threads=1, kv_type="f32") as reference:
        reference.set_lora((file, 0.5))
        expected = reference.logits(IDS)[-1]
    decode(context, IDS)
    before = logits_of(context)
    adapter = low.llama_adapter_lora_init(model, file.encode())
    array = (low.llama_adapter_lora_p * 1)(adapter)
    assert low.llama_set_adapters_lora(context, array, 1, (ctypes.c_float * 1)(0.5)) == 0
    decode(context, IDS)
    np.testing.assert_allclose(logits_of(context), expected, rtol=1e-3, atol=1e-4)
    assert abs(expected - before).max() > 0.01
    low.llama_set_adapters_lora(context, None, 0, None)
    decode(context, IDS)
    np.testing.assert_array_equal(logits_of(context), before)
    buffer = ctypes.create_string_buffer(64)
    assert low.llama_adapter_meta_val_str(adapter, b"adapter.type", buffer, 64) == 4 and buffer.value == b"lora"
    count = low.llama_adapter_meta_count(adapter)
    assert low.llama_adapter_meta_key_by_index(adapter, count, buffer, 64) == -1
    low.llama_adapter_lora_free(adapter)
    with pytest.raises(ValueError, match="llama_set_adapter_lora|llama_set_adapters_lora: the adapter is"):
        low.llama_set_adapter_lora(context, adapter, 1.0)
    with pytest.raises(ValueError, match="llama_adapter_lora_init: "):
        low.llama_adapter_lora_init(model, str(path).encode())


def test_chat_templates_names_and_parts_of_files(model):
    chat = (low.llama_chat_message * 2)((b"system", b"Be kind."), (b"user", b"Hi"))
    expected = b"<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    buffer = ctypes.create_string_buffer(200)
    assert low.llama_chat_apply_template(None, chat, 2, True, buffer, 200) == len(expected)
    assert buffer.value == expected
    template = b"{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}"
    assert low.llama_chat_apply_template(template, chat, 2, False, None, 0) == 24
    assert low.llama_chat_apply_template(b"unknown", chat, 2, False, None, 0) == -1
    assert low.llama_chat_builtin_templates((ctypes.c_char_p * 4)(), 4) >= 1
    assert low.llama_split_path(buffer, 200, b"/a/model", 1, 4) == 28
    assert buffer.value == b"/a/model-00002-of-00004.gguf"
    assert low.llama_split_prefix(buffer, 200, b"/a/model-00002-of-00004.gguf", 1, 4) == 8
    assert buffer.value == b"/a/model" and low.llama_split_prefix(buffer, 200, b"model.gguf", 1, 4) == 0
    assert low.llama_load_mode_from_str(low.llama_load_mode_name(low.LLAMA_LOAD_MODE_MMAP)) == 1
    assert low.llama_model_meta_key_str(low.LLAMA_MODEL_META_KEY_SAMPLING_TEMP) == b"general.sampling.temp"
    assert b"CPU" in low.llama_print_system_info() and low.llama_model_cls_label(model, 0) is None


def test_what_is_not_supported_says_why(context):
    for name in ("llama_memory_seq_add", "llama_model_quantize", "llama_batch_ext_init", "llama_opt_init"):
        with pytest.raises(NotImplementedError, match=f"{name}: not supported: "):
            getattr(low, name)(context, 0, 0, 0, 0)
    assert low.llama_get_sampled_token_ith(context, 0) == low.LLAMA_TOKEN_NULL
    assert low.llama_set_sampler(context, 0, None) is False


def test_calls_with_arguments_of_any_kind_raise_exceptions(model, path):
    random = np.random.default_rng(8)
    closed = low.llama_model_load_from_file(str(path).encode())
    contexts = [new_context(model), new_context(closed)]
    low.llama_free(contexts[1])
    low.llama_model_free(closed)
    freed = low.llama_sampler_init_greedy()
    low.llama_sampler_free(freed)
    values = [None, 1, -1, 2.5, b"x", "y", *contexts, closed, model, freed, low.llama_sampler_init_dist(1), chain_of(),
              candidates([1.0, 2.0]), low.llama_batch_init(4, 0, 1), ctypes.create_string_buffer(32), [3]]  # fmt: skip
    names = [name for name in low.llama_cpp.__all__ if isfunction(getattr(low, name)) and "free" not in name]
    raised = 0
    for _ in range(2000):
        name = names[random.integers(len(names))]
        count = len(signature(getattr(low, name)).parameters)
        arguments = [values[random.integers(len(values))] for _ in range(count)]
        try:
            getattr(low, name)(*arguments)
        except (TypeError, ValueError, NotImplementedError, RuntimeError, IndexError, OSError, AttributeError) as error:
            assert name in str(error) or isinstance(error, (IndexError, AttributeError))
            raised += 1
    assert raised > 800
