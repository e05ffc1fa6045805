"""Ctrl-C during calls of ggml.models: wherever it comes, the model gives the results of a new one afterwards."""

import ctypes
import functools
import gc
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

for library in ("gguf", "jinja2", "safetensors", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import hf_models  # noqa: E402
import tiny_models  # noqa: E402
from interrupts import before_instruction, when_due  # noqa: E402
from tiny_models import VOCAB, Letters  # noqa: E402

import ggml  # noqa: E402
from ggml.models import convert, load, state, trace  # noqa: E402
from ggml.models.arch import prepared  # noqa: E402
from ggml.models.conversion import folder  # noqa: E402
from ggml.models.files import model_file  # noqa: E402
from ggml.models.generate import scheduler, text  # noqa: E402
from ggml.models.run import (  # noqa: E402
    adapters,
    batch,
    cache,
    decoder,
    encoder_decoder,
    heads,
    memory,
    pages,
    runner,
    sequences,
    split,
)
from ggml.models.train import adapter, finetune, gradients, graph, segment  # noqa: E402
from ggml.models.train import state as train_state  # noqa: E402

FILES = {
    module.__file__
    for module in (adapters, batch, cache, decoder, memory, pages, runner, sequences, text, trace, state, scheduler)
}
LONG = np.random.default_rng(9).integers(3, VOCAB, 700).tolist()  # more than the cells of layers with a window
OTHERS = np.random.default_rng(10).integers(3, VOCAB, 40).tolist()
GREEDY = {"max_tokens": 3, "temperature": 0, "logprobs": 1}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return tiny_models.write(folder / "model.gguf", "gemma2"), tiny_models.write_lora(folder / "lora.gguf", "gemma2")


@pytest.fixture
def open_model(files):
    models = []

    def run(n_seq=1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the context is longer than that of the training
            models.append(load(files[0], n_ctx=720, n_seq=n_seq, threads=1, kv_type="f32"))
        models[-1].prompts.tokenizer = Letters()
        return models[-1]

    yield run
    for model in models:
        model.close()


def interrupted(action, line):
    """Runs a function and raises KeyboardInterrupt before the n-th line that it executes in FILES.

    Returns:
        Whether that line was reached.
    """
    left = line

    def trace(frame, event, argument):
        nonlocal left
        # a signal can't come before the last line of computed: nothing is called between it and the compute
        if frame.f_code.co_filename not in FILES or frame.f_code.co_name in ("computed", "<genexpr>", "<listcomp>"):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    except KeyboardInterrupt:
        assert left == 0
        return True
    finally:
        sys.settrace(former)
    return False


def result(model, ids):
    text = model.generate(ids, **GREEDY)
    list(text)
    return text.ids, [t.logprob for t in text.logprobs]


def test_each_line_of_a_call_can_be_interrupted(open_model, files):
    model, fresh = open_model(2), open_model()
    prompts = [LONG[:150] + OTHERS[:5], LONG[:640] + OTHERS[:20]]
    expected = []
    for prompt in prompts:
        fresh.reset()
        expected.append(result(fresh, prompt))
    model.feed(LONG[:300])
    state = model.save_state()

    def many():
        list(model.generate_many([OTHERS[:9], OTHERS[:12], OTHERS[:3]], max_tokens=3, temperature=0))

    def alternately():
        a, b, c = (model.generate(OTHERS[:n], max_tokens=3, temperature=0) for n in (8, 12, 15))
        list(zip(a, b, c))

    def adapted():
        model.set_lora(files[1])
        with model.edit("blk.1.out", lambda values: values + 1), model.trace("blk.0.out"):
            list(model.generate(OTHERS[:8], max_tokens=1))
        model.set_lora()

    def as_before():
        model.runner.tracer = None  # a signal may come between __enter__ and the statement's body
        model.runner.edits.clear()
        model.set_lora()

    actions = [
        (3, lambda: list(model.generate(LONG[:660] + OTHERS[:10], max_tokens=2, seed=1))),
        (2, lambda: model.load_state(state)),
        (11, many),
        (7, alternately),
        (11, adapted),
    ]
    for stride, action in actions:  # the lines of a token come several times
        line = stride
        reached = True
        while reached:
            model.reset()
            model.feed(LONG[:690])
            reached = interrupted(action, line)
            if action is adapted:
                as_before()
            for prompt, (ids, probabilities) in zip(prompts, expected):
                assert (got := result(model, prompt))[0] == ids
                assert np.allclose(got[1], probabilities, atol=1e-4)
            line += stride


@pytest.fixture
def ctrl_c():
    """SIGINT raises KeyboardInterrupt, also in processes that were started with it ignored, as background jobs are."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("point", ["token_embd", "blk.1.attn_out", "blk.2.out"])
def test_a_compute_can_be_interrupted(point, open_model):
    """Signals are handled between nodes: keys and values of some layers are stored then."""
    model, fresh, armed = open_model(), open_model(), False
    prompts = [LONG[:640] + OTHERS[:20], LONG[:150] + OTHERS[:5]]

    def stop(values):
        if armed:
            signal.raise_signal(signal.SIGINT)

    with model.edit(point, stop):
        for prompt in prompts:
            armed = False
            model.reset()
            model.feed(LONG[:650])
            armed = True
            with pytest.raises(KeyboardInterrupt):
                model.feed(OTHERS)
            assert model.held() == LONG[:650]
            with pytest.raises(KeyboardInterrupt):
                list(model.generate(LONG[:645] + OTHERS, max_tokens=1))
            armed = False
            fresh.reset()
            got, expected = result(model, prompt), result(fresh, prompt)
            assert got[0] == expected[0] and np.allclose(got[1], expected[1], atol=1e-4)


def at_its_first_instruction(*args):
    """A callback in which a signal arrives before its first statement, as far as C can tell."""
    raise KeyboardInterrupt


POINTER = ctypes.POINTER(ggml.ggml_tensor)
PLAIN = ctypes.CFUNCTYPE(None, POINTER, POINTER, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("address", [False, True])
@pytest.mark.parametrize("kind", [ggml.ggml_custom1_op_t, ggml.ggml_custom1_op_t.prototype, PLAIN])
def test_an_operation_that_did_not_complete_ends_the_compute(kind, address, threads, capfd):
    """Also one of ctypes' own type, which ctypes calls without a function of this package between."""
    hook, ctx = sys.unraisablehook, ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
    made = kind(at_its_first_instruction)
    fun = ctypes.cast(made, ctypes.c_void_p).value if address else made
    x = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 4)
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, ggml.ggml_map_custom1(ctx, x, fun, 1, None))
    with pytest.raises(KeyboardInterrupt):
        ggml.ggml_graph_compute_with_ctx(ctx, graph, threads)
    assert sys.unraisablehook is hook and capfd.readouterr() == ("", "")
    ggml.ggml_free(ctx)


def test_other_ignored_exceptions_are_not_those_of_a_compute(monkeypatch):
    ignored = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: ignored.append(args.exc_type))

    class Owner:
        def __del__(self):
            raise LookupError

    def fun(*args):
        Owner()

    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
    x = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 4)
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, ggml.ggml_map_custom1(ctx, x, PLAIN(fun), 1, None))
    assert ggml.ggml_graph_compute_with_ctx(ctx, graph, 1) == ggml.GGML_STATUS_SUCCESS
    assert ignored == [LookupError]
    ggml.ggml_free(ctx)


def test_ctrl_c_counts_more_than_an_earlier_exception():
    errors = iter([LookupError, KeyboardInterrupt])

    def fun(*args):
        raise next(errors)

    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
    x = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 4)
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, ggml.ggml_map_custom1(ctx, x, fun, 2, None))
    with pytest.raises(KeyboardInterrupt):
        ggml.ggml_graph_compute_with_ctx(ctx, graph, 2)
    ggml.ggml_free(ctx)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_in_a_callback_that_no_call_runs():
    function = ggml.ggml_log_callback(at_its_first_instruction)
    with pytest.raises(KeyboardInterrupt):
        function(1, b"", None)
        for _ in range(1000):  # the signal is handled between two instructions
            pass


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the fuzzer needs a timer")
def test_calls_are_interrupted_at_random_moments():
    """A short run of fuzz/interrupts.py."""
    script = Path(__file__).resolve().parents[2] / "fuzz" / "interrupts.py"
    done = subprocess.run([sys.executable, script, "--seconds", "4"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 faults in custom" in done.stdout


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="has no /proc")
def test_ctrl_c_while_a_file_is_read_loses_no_memory(tmp_path, monkeypatch):
    """The interrupt comes before every seventh bytecode in turn; the file has 24 MiB."""
    monkeypatch.setattr(tiny_models, "HIDDEN", 16384)
    path = tiny_models.write(tmp_path / "model.gguf", "llama")

    def resident():
        return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]) << 10

    count, reached, before = 0, True, 0
    while reached:
        count += 7
        reached = before_instruction(count, model_file.__file__, lambda: model_file.ModelFile(path, mmap=False).close())
        before = before or resident()
    assert count > 300 and resident() - before < 50 << 20


# ---- what is created is freed ----------------------------------------------------------------------------------------
CREATED = {
    "ggml_init": "ggml_free", "ggml_gallocr_new": "ggml_gallocr_free", "gguf_init_empty": "gguf_free",
    "ggml_backend_cpu_buffer_from_ptr": "ggml_backend_buffer_free",
}  # fmt: skip


class Alive:
    """The native objects that the functions of CREATED have created and that were not freed.

    Attributes:
        calls: how often these functions, or those that free, were called.
    """

    def __init__(self):
        self.held, self.calls = set(), 0

    def reached(self, calls):
        return self.calls >= calls

    def creates(self, function):
        def counted(*args):
            made = function(*args)
            self.held.add((type(made), getattr(made, "value", made)))
            self.calls += 1
            return made

        return counted

    def frees(self, function):
        def counted(handle):
            function(handle)
            self.held.discard((type(handle), getattr(handle, "value", handle)))
            self.calls += 1

        return counted


@pytest.fixture
def alive(monkeypatch):
    found = Alive()
    for create, free in CREATED.items():
        monkeypatch.setattr(ggml, create, found.creates(getattr(ggml, create)))
        monkeypatch.setattr(ggml, free, found.frees(getattr(ggml, free)))
    known = {name: getattr(ggml, function.__name__) for name, function in prepared.FREE.items()}
    monkeypatch.setattr(prepared, "FREE", known)
    return found


IDS = hf_models.tokens(24)


@pytest.fixture(scope="module")
def files_of_kinds(tmp_path_factory):
    """GGUF files of some kinds, and a folder."""
    path, found = tmp_path_factory.mktemp("kinds"), {}
    for kind in ("t5", "bert", "bert+classes", "llama"):
        record = hf_models.record(kind)
        found["folder"] = hf_models.write_folder(path / kind, record["config"], record["shapes"])
        found[kind] = path / f"{kind}.gguf"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # there is no tokenizer
            convert(found["folder"], found[kind])
    return found


def translated(files, out):
    with load(files["t5"], threads=1, n_seq=2) as model:
        list(model.generate_many([IDS[:9], IDS[9:12]], max_tokens=2, temperature=0))


def classified(files, out):
    with load(files["bert+classes"], threads=1) as model:
        model.classify([IDS[:4]])


def trained(files, out):
    with load(files["bert"], threads=1) as model:
        pairs = [(IDS[i : i + 3], IDS[i + 9 : i + 12]) for i in range(2)]
        model.finetune(pairs, out / "lora.gguf", steps=1, rank=1, targets="blk.2.attn_q", validation=0, checkpoint=True)


def differentiated(files, out):
    with load(files["t5"], threads=1) as model:
        model.gradients(IDS[:4], decoder=IDS[:2])


def opened(files, out):
    folder.FolderFile(files["folder"]).close()


def divided(files, out):
    file = model_file.ModelFile(files["llama"])
    try:
        split.Split(SimpleNamespace(size=2, rank=1), runner.config_of(file), file, True).close()
    finally:
        file.close()


OWNERS = {module.__file__ for module in (adapter, encoder_decoder, finetune, folder, gradients, graph, heads, segment,
                                         split, train_state)}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*has no tokenizer")
@pytest.mark.parametrize(("action", "stride"), [
    (translated, 1), (classified, 1), (trained, 1), (differentiated, 1), (opened, 9), (divided, 9),  # many buffers
])  # fmt: skip
def test_ctrl_c_loses_no_native_object(action, stride, alive, files_of_kinds, tmp_path):
    """The interrupt comes before the first instruction behind each call that creates or frees one."""
    number, reached = 1 - stride, True
    while reached:
        number, alive.calls = number + stride, 0
        due = functools.partial(alive.reached, number)
        reached = when_due(OWNERS, due, lambda: action(files_of_kinds, tmp_path))
        gc.collect()
        assert not alive.held, f"the interrupt behind call {number} left {len(alive.held)} objects"
    assert number > 4
