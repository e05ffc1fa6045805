"""The functions of llama.h: batches, logits, tokens, the memory of sequences; against Model and the file's own keys."""

import ctypes

import numpy as np
import pytest

for library in ("gguf", "jinja2", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import structured  # noqa: E402

import ggml  # noqa: E402
from ggml.models import llama_cpp as low  # noqa: E402
from ggml.models import load  # noqa: E402

IDS = [104, 101, 108, 108, 111, 32, 119, 111]
KEYS = {"tokenizer.chat_template": "T", "tokenizer.chat_template.tool_use": "U", "tokenizer.ggml.fim_pre_token_id": 300}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return structured.write_model(tmp_path_factory.mktemp("low") / "bytes.gguf", change=KEYS)


@pytest.fixture
def model(path):
    found = low.llama_model_load_from_file(str(path).encode(), low.llama_model_default_params())
    yield found
    low.llama_model_free(found)


@pytest.fixture
def context(model):
    params = low.llama_context_default_params()
    params.n_ctx, params.n_seq_max, params.n_threads = 64, 3, 1
    params.type_k = params.type_v = ggml.GGML_TYPE_F32
    found = low.llama_init_from_model(model, params)
    yield found
    low.llama_free(found)


@pytest.fixture(scope="module")
def expected(path):
    with load(path, n_ctx=64, threads=1, kv_type="f32") as reference:
        return reference.logits(IDS)


def filled(tokens, sequences=((0,),), begin=0, wanted=()):
    """A batch; the tokens take their sequences in turns."""
    batch = low.llama_batch_init(16, 0, 3)
    batch.n_tokens = len(tokens)
    seen = {}
    for i, token in enumerate(tokens):
        own = sequences[i % len(sequences)]
        batch.token[i], batch.n_seq_id[i], batch.logits[i] = token, len(own), i in wanted
        batch.pos[i] = begin + seen.get(own, 0)
        seen[own] = seen.get(own, 0) + 1
        for n, number in enumerate(own):
            batch.seq_id[i][n] = number
    return batch


def row(pointer, model):
    return np.ctypeslib.as_array(pointer, (low.llama_n_vocab(low.llama_model_get_vocab(model)),))


def close(found, expected):
    return np.allclose(found, expected, atol=1e-4)


def test_one_sequence(model, context, expected):
    assert not low.llama_get_logits(context)
    assert low.llama_decode(context, filled(IDS[:5], wanted=(1, 4))) == 0
    assert close(row(low.llama_get_logits_ith(context, 1), model), expected[1])
    assert close(row(low.llama_get_logits_ith(context, 4), model), expected[4])
    assert close(row(low.llama_get_logits_ith(context, -1), model), expected[4])
    both = np.ctypeslib.as_array(low.llama_get_logits(context), (2, expected.shape[1]))
    assert close(both, expected[[1, 4]])
    assert not low.llama_get_logits_ith(context, 0) and not low.llama_get_logits_ith(context, 5)
    assert not low.llama_get_logits_ith(context, -3)
    rest = (low.llama_token * 3)(*IDS[5:])
    assert low.llama_decode(context, low.llama_batch_get_one(rest, 3)) == 0
    assert close(row(low.llama_get_logits(context), model), expected[7])
    memory = low.llama_get_memory(context)
    assert (low.llama_memory_seq_pos_min(memory, 0), low.llama_memory_seq_pos_max(memory, 0)) == (0, 7)
    assert low.llama_memory_seq_rm(memory, 0, 6, -1) and low.llama_memory_seq_pos_max(memory, 0) == 5
    assert low.llama_decode(context, filled(IDS[6:], begin=6, wanted=(0, 1))) == 0
    assert close(row(low.llama_get_logits_ith(context, 0), model), expected[6])


def test_several_sequences(model, context, expected):
    """Tokens of several sequences alternate; tokens of a common beginning belong to all of them."""
    assert low.llama_decode(context, filled(IDS[:3], [(0, 1, 2)], wanted=(2,))) == 0
    assert close(row(low.llama_get_logits_ith(context, 2), model), expected[2])
    mixed = [token for token in IDS[3:6] for _ in range(2)]
    assert low.llama_decode(context, filled(mixed, [(0,), (2,)], begin=3, wanted=(2, 5))) == 0
    assert close(row(low.llama_get_logits_ith(context, 2), model), expected[4])
    assert close(row(low.llama_get_logits_ith(context, 5), model), expected[5])
    assert [low.llama_memory_seq_pos_max(context, i) for i in range(4)] == [5, 2, 5, -1]
    low.llama_memory_seq_cp(context, 2, 1, -1, -1)
    assert low.llama_decode(context, filled(IDS[6:8], [(1,)], begin=6, wanted=(1,))) == 0
    assert close(row(low.llama_get_logits_ith(context, 1), model), expected[7])
    low.llama_memory_seq_cp(context, 1, 0, 0, 4)
    assert [low.llama_memory_seq_pos_max(context, i) for i in range(3)] == [3, 7, 5]
    low.llama_memory_seq_keep(context, 2)
    assert [low.llama_kv_self_seq_pos_max(context, i) for i in range(3)] == [-1, -1, 5]
    low.llama_kv_cache_clear(context)
    assert low.llama_memory_seq_pos_max(context, 2) == -1 and not low.llama_memory_can_shift(context)


def test_what_cannot_be_computed_changes_nothing(model, context):
    assert low.llama_decode(context, filled(IDS)) == 0
    assert not low.llama_get_logits(context)  # none were wanted
    assert low.llama_decode(context, filled(IDS[:1], begin=9)) == -1
    assert low.llama_decode(context, filled(IDS[:1], begin=0)) == -1
    assert low.llama_decode(context, filled(IDS[:1], [(3,)])) == -1
    assert low.llama_decode(context, filled(IDS[:1], [(-1,)])) == -1
    assert low.llama_decode(context, filled([-1], begin=8)) == -1
    assert low.llama_decode(context, filled([low.llama_n_vocab(model)], begin=8)) == -1
    assert low.llama_decode(context, filled([], begin=8)) == -1
    many = (low.llama_token * 57)(*[65] * 57)
    assert low.llama_decode(context, low.llama_batch_get_one(many, 57)) == 1
    assert low.llama_encode(context, filled(IDS[:1], begin=8)) == -1
    assert not low.llama_memory_seq_rm(context, 0, 2, 4) and not low.llama_memory_seq_rm(context, 5, -1, -1)
    assert low.llama_memory_seq_rm(context, 0, 4, 4)
    assert low.llama_memory_seq_pos_max(context, 0) == 7
    with pytest.raises(ValueError, match="llama_memory_seq_cp: 0 to 9 from 0: need sequences from 0 to 2"):
        low.llama_memory_seq_cp(context, 0, 9, 0, -1)
    batch = filled(IDS)
    batch.n_tokens = 17
    with pytest.raises(ValueError, match="llama_decode: n_tokens is 17: the batch has room for 16"):
        low.llama_decode(context, batch)
    batch = filled(IDS)
    batch.n_seq_id[0] = 4
    with pytest.raises(ValueError, match="llama_decode: a token has 4 sequences"):
        low.llama_decode(context, batch)
    with pytest.raises(ValueError, match="llama_batch_get_one: n_tokens is 58: the array has 57"):
        low.llama_batch_get_one(many, 58)
    low.llama_batch_free(batch)
    assert low.llama_decode(context, batch) == -1
    for wrong in ((-1, 0, 1), (1, 64, 1), (1, 0, -1)):
        with pytest.raises(ValueError, match="llama_batch_init: n_tokens="):
            low.llama_batch_init(*wrong)
    with pytest.raises(TypeError, match="llama_decode: the context is a int"):
        low.llama_decode(5, batch)
    with pytest.raises(TypeError, match="llama_vocab_bos: the model is a str"):
        low.llama_vocab_bos("x")


def test_tokens(model):
    vocab = low.llama_model_get_vocab(model)
    text, array = b"hello  wo", (low.llama_token * 9)()
    ids = model.tokenizer.encode(text, False)
    assert low.llama_tokenize(vocab, text, len(text), array, 9, False, True) == len(ids)
    assert array[: len(ids)] == ids
    assert low.llama_tokenize(vocab, text, len(text), array, 1, False, True) == -len(ids)
    assert low.llama_tokenize(vocab, text, len(text), None, 0, False, True) == -len(ids)
    assert low.llama_tokenize(vocab, text, 2, array, 9, False, True) == len(model.tokenizer.encode(b"he", False))
    buffer = ctypes.create_string_buffer(16)
    assert low.llama_detokenize(vocab, array, len(ids), buffer, 16, False, True) == 9 and buffer.value == text
    assert low.llama_detokenize(vocab, array, len(ids), buffer, 8, False, True) == -9
    space = model.tokenizer.encode(b" ", False)[0]
    assert low.llama_token_to_piece(vocab, space, buffer, 16, 0, False) == 1 and buffer.raw[:1] == b" "
    assert low.llama_token_to_piece(vocab, space, buffer, 16, 1, False) == 0
    assert low.llama_token_to_piece(vocab, space, buffer, 0, 0, False) == -1
    assert low.llama_token_to_piece(vocab, 1 << 20, buffer, 16, 0, False) == 0
    for call in (lambda: low.llama_token_to_piece(vocab, space, buffer, 17, 0, False),
                 lambda: low.llama_tokenize(vocab, text, len(text), array, 10, False, True)):  # fmt: skip
        with pytest.raises(ValueError, match="the length is 1[07]: the buffer has"):
            call()
    with pytest.raises(TypeError, match="llama_token_to_piece: the buffer is b'x': need an array of ctypes"):
        low.llama_token_to_piece(vocab, space, b"x", 1, 0, False)
    tokens, types = (model.metadata["tokenizer.ggml." + key] for key in ("tokens", "token_type"))
    for token in (0, 65, len(tokens) - 1):
        assert low.llama_vocab_get_text(vocab, token) == tokens[token].encode()
        assert low.llama_token_get_text(vocab, token) == tokens[token].encode()
        attribute = {
            1: low.LLAMA_TOKEN_ATTR_NORMAL,
            2: low.LLAMA_TOKEN_ATTR_UNKNOWN,
            3: low.LLAMA_TOKEN_ATTR_CONTROL,
            4: low.LLAMA_TOKEN_ATTR_USER_DEFINED,
        }
        assert low.llama_vocab_get_attr(vocab, token) == attribute[types[token]]
        assert low.llama_vocab_is_control(vocab, token) == (types[token] == 3)
        assert low.llama_vocab_is_eog(vocab, token) == (token in model.tokenizer.eog)
        assert low.llama_vocab_get_score(vocab, token) == 0
    with pytest.raises(IndexError, match="token 5000 does not exist"):
        low.llama_vocab_get_attr(vocab, 5000)
    eos = model.metadata["tokenizer.ggml.eos_token_id"]
    assert low.llama_vocab_eos(vocab) == low.llama_token_eos(vocab) == eos
    assert (
        low.llama_vocab_fim_pre(vocab) == low.llama_token_fim_pre(vocab) == 300 and low.llama_vocab_fim_rep(vocab) == -1
    )
    assert low.llama_vocab_type(vocab) == low.LLAMA_VOCAB_TYPE_BPE and low.llama_vocab_n_tokens(vocab) == len(tokens)


def test_keys_and_sizes(model, context, path):
    buffer = ctypes.create_string_buffer(64)
    assert low.llama_model_meta_val_str(model, b"general.architecture", buffer, 64) == 5 and buffer.value == b"llama"
    assert low.llama_model_meta_val_str(model, b"general.architecture", buffer, 3) == 5 and buffer.value == b"ll"
    assert low.llama_model_meta_val_str(model, b"no.such.key", buffer, 64) == -1 and buffer.value == b""
    found = {}
    for i in range(low.llama_model_meta_count(model)):
        low.llama_model_meta_key_by_index(model, i, buffer, 64)
        key = buffer.value.decode()
        low.llama_model_meta_val_str_by_index(model, i, buffer, 64)
        found[key] = buffer.value.decode()
    assert found == {k: low.Llama(path, n_ctx=8, n_threads=1).metadata[k] for k in found} and len(found) > 10
    assert low.llama_model_meta_key_by_index(model, len(found), buffer, 64) == -1
    assert (
        low.llama_model_chat_template(model, None) == b"T" and low.llama_model_chat_template(model, b"tool_use") == b"U"
    )
    assert low.llama_model_chat_template(model, b"rerank") is None
    assert low.llama_model_desc(model, buffer, 64) == 5
    weights = model.runner.weights.values()
    assert low.llama_model_n_params(model) == sum(int(np.prod(t.contents.ne[:4])) for t in weights)
    assert low.llama_model_size(model) <= path.stat().st_size < 2 * low.llama_model_size(model)
    assert (low.llama_n_ctx(context), low.llama_n_seq_max(context), low.llama_n_batch(context)) == (64, 3, 2048)
    assert low.llama_get_model(context).config == context.model.config
    assert low.llama_model_n_embd(model) == low.llama_n_embd(model) == 64 and low.llama_model_n_layer(model) == 3
    assert low.llama_model_n_head_kv(model) == 2 and not low.llama_model_is_recurrent(model)
    params = low.llama_context_default_params()
    params.type_k = ggml.GGML_TYPE_Q4_K
    with pytest.raises(NotImplementedError, match="llama_init_from_model: type_k=12, type_v=1"):
        low.llama_init_from_model(model, params)


def test_functions_of_a_llama(path, expected):
    """Llama.ctx shares the sequence of eval, as programs expect that use both."""
    with low.Llama(path, n_ctx=64, n_threads=1, n_batch=32) as llama:
        assert low.llama_n_batch(llama.ctx) == llama.n_batch == 32
        llama.eval(IDS[:4])
        assert low.llama_decode(llama.ctx, filled(IDS[4:], begin=4, wanted=(3,))) == 0
        assert np.abs(row(low.llama_get_logits(llama.ctx), llama.model) - expected[7]).max() < 0.05  # f16 is stored
        assert llama.n_tokens == 8
        pointer = low.llama_get_logits_ith(llama.ctx, 3)
        values = row(pointer, llama.model).copy()
        low.llama_decode(llama.ctx, filled(IDS[:1], begin=8, wanted=(0,)))
        assert np.array_equal(row(pointer, llama.model), values)  # memory stays as long as a pointer to it
    with pytest.raises(RuntimeError, match="llama_decode: the model is closed"):
        low.llama_decode(llama.ctx, filled(IDS[:1]))


def test_functions_by_their_address(model):
    """llguidance, for one, calls llama_tokenize by its address, with the vocabulary as a number."""
    vocab = low.llama_model_get_vocab(model)
    address = ctypes.cast(low.llama_cpp._lib.llama_tokenize, ctypes.c_void_p).value
    kinds = (
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_int32,
        ctypes.c_void_p,
        ctypes.c_int32,
        ctypes.c_bool,
        ctypes.c_bool,
    )
    tokenize = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(address)
    array, ids = (low.llama_token * 9)(), model.tokenizer.encode(b"hello", False)
    assert tokenize(vocab.__index__(), b"hello you", 5, array, 9, False, True) == len(ids) and array[: len(ids)] == ids
    assert tokenize(vocab.__index__(), b"hello", 5, None, 0, False, True) == -len(ids)
    assert tokenize(0, b"hello", 5, array, 9, False, True) == -(1 << 31)
