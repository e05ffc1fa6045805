"""Several ranks on one machine: starts the tests of ggml.distributed with two, and ranks that fail.

mpiexec and mpi4py come with `pip install '.[mpi,test]' mpich`. scripts/mpi.sh runs more ranks.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import real_models
from python_command import PYTHON

HERE = Path(__file__).parents[1]
LIMIT = 60  # seconds; a process that still runs then waits for a rank that has ended


def mpiexec():
    """The launcher: that beside this Python, or on the path."""
    found = shutil.which("mpiexec", path=os.path.dirname(sys.executable)) or shutil.which("mpiexec")
    if found is None or find_spec("mpi4py") is None:
        pytest.skip("mpi4py or mpiexec is not installed: pip install '.[mpi]' mpich")
    return found


def started(tmp_path, program, ranks=2):
    """Starts a program on several ranks."""
    path = tmp_path / "program.py"
    path.write_text(program)
    command = [mpiexec(), "-n", str(ranks), *PYTHON, str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path)


def output(process):
    """What a process wrote. It must end."""
    try:
        return process.communicate(timeout=LIMIT)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def test_two_ranks(tmp_path):
    files = sorted(HERE.glob("test_distributed*.py"))
    command = [mpiexec(), "-n", "2", sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *files]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-2000:]


PROGRAM = """
import os, signal, sys, time
import numpy as np
import ggml
from ggml.distributed import mpi
from ggml.utils import from_numpy, to_numpy

comm = mpi()
ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
x = from_numpy(np.ones(100_000, np.float32), ctx)
y = comm.all_reduce(ctx, x)
graph = ggml.ggml_new_graph(ctx)
ggml.ggml_build_forward_expand(graph, y)

def compute():
    ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)

compute()
assert to_numpy(y)[0] == comm.size
print(f"rank {comm.rank} started", flush=True)
if comm.rank == 1:
    time.sleep(0.5)
    {failure}
compute()
print(f"rank {comm.rank} went on", flush=True)
"""
FAILURES = {
    "raises": 'raise ValueError("no data")',
    "exits": "sys.exit(3)",
    "returns": "sys.exit(0)",
    "leaves at once": "os._exit(0)",
    "is killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "is interrupted": "os.kill(os.getpid(), signal.SIGINT)",
}


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("failure", FAILURES)
def test_a_rank_that_fails_ends_all(failure, ranks, tmp_path):
    process = started(tmp_path, PROGRAM.replace("{failure}", FAILURES[failure]), ranks)
    text = output(process)
    assert "rank 0 started" in text and "went on" not in text
    assert process.returncode != 0 or failure == "leaves at once"  # the launcher ends the others, and reports 0
    if failure == "raises":
        assert "RuntimeError: all_reduce: rank 1 raised ValueError: no data" in text
    elif failure in ("exits", "returns"):
        assert "RuntimeError: all_reduce: rank 1 has ended" in text


def test_sigint_ends_all_ranks(tmp_path):
    process = started(tmp_path, PROGRAM.replace("{failure}", "time.sleep(600)"), 3)
    begun = ""
    while begun.count("started") < 3:  # the launcher may mix the lines of the ranks
        line = process.stdout.readline()
        assert line, begun
        begun += line
    process.send_signal(signal.SIGINT)
    text = output(process)
    assert process.returncode != 0 and "went on" not in text


FREED = """
import time
import numpy as np
import ggml
from ggml.distributed import mpi
from ggml.utils import from_numpy, to_numpy

comm = mpi(timeout=1)
ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
values = np.arange(1_000_000, dtype=np.float32)
if comm.rank == 0:
    x = from_numpy(values, ctx)
    y = {node}
else:
    time.sleep(2)
    x = from_numpy(values, ctx)
    y = {other}
graph = ggml.ggml_new_graph(ctx)
ggml.ggml_build_forward_expand(graph, y)
try:
    ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)
    print(f"rank {comm.rank} right: {np.array_equal(to_numpy(y), values)}", flush=True)
except RuntimeError as error:
    print(f"rank {comm.rank}: {error}", flush=True)
    to_numpy(x)[...] = to_numpy(y)[...] = 7  # the program may use its memory for something else
mine = [np.full(8192, 7, np.uint8) for _ in range(200)]
time.sleep(1.5 * (comm.rank == 0))  # rank 1 has computed then, and does not yet wait for a second
comm.barrier()
changed = sum((a != 7).any() for a in mine)
print(f"rank {comm.rank} changed: {changed} {(to_numpy(y) != 7).any()}\\n", end="", flush=True)  # in one call of write
"""


@pytest.mark.parametrize(
    "node, other",
    [("comm.broadcast(ctx, x)",) * 2, ("comm.send(ctx, x, 1)", "comm.recv(ctx, 0, [values.size], 0)")],
    ids=["collective", "message"],
)
def test_memory_of_an_operation_that_raised_is_the_program_s(node, other, tmp_path):
    """Rank 1 gets what rank 0 meant to send; MPI writes into nothing that belongs to rank 0."""
    text = output(process := started(tmp_path, FREED.replace("{node}", node).replace("{other}", other)))
    assert "did not take part within 1 s" in text and "rank 1 right: True" in text
    assert "rank 0 changed: 0 False" in text and process.returncode == 0


KILLED = """
import os, signal, sys, threading, time
from pathlib import Path
import numpy as np
import ggml
from ggml.distributed import mpi
from ggml.utils import from_numpy, to_numpy

comm = mpi()
victim, launcher = comm.collect(np.array([os.getpid(), os.getppid()]))[-1].tolist()
transport = comm._transport
original = transport.{method}

def dies(*operands):  # the last rank has begun to send, and dies; the launcher is stopped, or it would kill the others
    steps = original(*operands)
    next(steps)()
    os.kill(launcher, signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGKILL)
    yield

def late(*operands):  # the others begin with the data only then
    while Path(f"/proc/{victim}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    return (yield from original(*operands))

def compute(build):
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, y := build(from_numpy(values, ctx)))
    ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)
    return to_numpy(y)

values = np.full((4, 150_000), comm.rank + 1, np.float32)
ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
setattr(transport, "{method}", dies if comm.rank == comm.size - 1 else late)
threading.Timer(3, os.kill, (launcher, signal.SIGCONT)).start()
for again in range(2):
    try:
        print(f"rank {comm.rank} got a result:", {call}, flush=True)
    except RuntimeError as error:
        print(f"rank {comm.rank} raised: {error}\\n", end="", flush=True)
os.kill(launcher, signal.SIGCONT)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "method, call",
    [
        ("all_gather", "comm.collect(values)"),
        ("broadcast", "comm.share(values, comm.size - 1)"),
        ("all_to_all", "compute(lambda x: comm.all_to_all(ctx, x, 0))"),
        ("all_reduce", "compute(lambda x: comm.all_reduce(ctx, x, order='mpi'))"),
    ],
    ids=lambda value: value if value.isidentifier() else "",
)
def test_a_message_of_a_rank_that_was_killed_is_no_result(method, call, tmp_path):
    """MPICH's collectives end with success where a rank has died, and leave its part of the result as it was."""
    text = output(started(tmp_path, KILLED.replace("{method}", method).replace("{call}", call), 3))
    assert "got a result" not in text, text
    if method != "all_reduce":  # after MPI's own reduction the ranks wait for the dead one until the launcher ends them
        assert "rank 0 raised:" in text and "rank 2 has ended, or a message" in text, text


LEFT_OVER = """
from ggml.distributed import mpi
import numpy as np

comm = mpi()
if comm.rank == 1:  # a message that belongs to no operation, as one that failed may leave it
    comm._transport.data.Send(np.zeros(100, np.uint8), 0)
for step in range(2):
    try:
        comm.collect(np.zeros(100_000))
    except RuntimeError as error:
        print(f"rank {comm.rank}: {error}\\n", end="", flush=True)
"""


def test_a_message_of_another_size_is_no_result(tmp_path):
    """The operation raises, and so do all later ones: they would receive the messages of those before."""
    text = output(process := started(tmp_path, LEFT_OVER))
    assert text.count("rank 0: collect: rank 1 sent 100 bytes: 4096 are needed") == 2, text
    assert process.returncode != 0


FINISHED = """
import sys, time
from ggml.distributed import _progress, mpi

comm = mpi()
if comm.rank == 1:
    time.sleep(0.3)  # rank 0 is there first
else:
    advance, progress, begun = _progress.Operation.advance, comm._transport.progress, []
    def late(operation):  # rank 0 sees the end of rank 1 before the end of the barrier
        if begun and not progress._ended:
            return False
        begun.append(operation)
        return advance(operation)
    _progress.Operation.advance = late
comm.barrier()
{more}
print(f"rank {comm.rank} is done", flush=True)
"""


@pytest.mark.parametrize("more", ["", "if comm.rank == 0: comm.barrier()"], ids=["the last", "one too many"])
def test_a_rank_that_has_taken_part_may_end(more, tmp_path):
    text = output(process := started(tmp_path, FINISHED.replace("{more}", more)))
    assert "rank 1 is done" in text
    if more:
        assert "RuntimeError: barrier: rank 1 has ended" in text and process.returncode
    else:
        assert "rank 0 is done" in text and process.returncode == 0, text


def test_random_jobs():
    """A short run of fuzz/mpi.py: one job of each kind."""
    mpiexec()
    command = [sys.executable, HERE.parent / "fuzz" / "mpi.py", "--jobs", "8", "--seed", str(time.time_ns() % 10**6)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0 and done.stdout.startswith("8 jobs, 0 failed"), done.stdout[-4000:] + done.stderr


def test_a_program_without_mpi_is_one_rank(tmp_path):
    """Where mpi4py can't be imported, a program runs alone; with a launcher the error says what to install."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys; sys.modules['mpi4py'] = None\n"
        "from ggml.distributed import mpi\ncomm = mpi()\nprint(comm.rank, comm.size, 'mpi4py.MPI' in sys.modules)\n"
    )
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI", "MPI", "SLURM", "PALS"))}
    alone = subprocess.run([sys.executable, program], capture_output=True, text=True, env=clean, timeout=60)
    assert alone.stdout == "0 1 False\n", alone.stderr
    launched = {**clean, "PMI_RANK": "0", "PMI_SIZE": "2"}
    found = subprocess.run([sys.executable, program], capture_output=True, text=True, env=launched, timeout=60)
    assert "ImportError: mpi: " in found.stderr and "pip install 'ggml-cython[mpi]'" in found.stderr


def test_import_of_ggml_does_not_start_mpi():
    program = "import sys, ggml, ggml.models, ggml.distributed; print('mpi4py' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd="/")
    assert found.stdout == "False\n"


def run_example(name, ranks, *options):
    """The output of a program of examples/distributed."""
    command = [mpiexec(), "-n", str(ranks), sys.executable, HERE.parent / "examples" / "distributed" / name, *options]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.parametrize("model", ["digits", "gpt2_char"])
def test_training_example_has_the_losses_of_one_rank(model):
    pytest.importorskip("sklearn")
    options = ("--quick", "--batches", "2", "--model", model)
    losses = [run_example("train.py", ranks, *options).partition(":")[2] for ranks in (1, 2)]
    assert "first loss" in losses[0] and losses[0] == losses[1]


def test_generating_example_writes_the_text_of_one_rank():
    options = (real_models.smollm2(), "--tokens", "12")
    texts = [run_example("generate.py", ranks, *options).rpartition("\n12 tokens")[0] for ranks in (1, 3)]
    assert len(texts[0]) > 20 and texts[0] == texts[1]
