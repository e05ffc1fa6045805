"""Random programs of all operations. Every way to compute one must give the same values, and the right ones.

    python fuzz/programs.py --seconds 3600 --seed 1
    python fuzz/programs.py --peer venv/bin/python     # also compares with the ctypes bindings in that environment
    python fuzz/programs.py --seed 17 --show           # prints program 17 as a Python script
    python fuzz/programs.py --threads 8                # in threads of this process, see below

A program (program/make.py) has 5 to 40 operations on tensors of all types, layouts and in-place forms, sometimes with
gradients. A process for each instruction set of this machine (GGML_ISA) computes it (program/execute.py) node by node,
with 1, 2 and 3 threads, with other inputs, with other parameters, by a graph allocator and by a scheduler with two
CPUs: all must give equal bits, and the reference kernels (use_ref) those of `scalar`. Then contexts, buffers and
allocators are freed in random order, and NumPy views of the results must still show them. Every result is compared with
the float64 reference of its row in tests/cases, every instruction set with `scalar`, every gradient with differences of
the float64 loss (program/judge.py).

With --threads, so many threads compute a program at a time: each must get the bits that one gets alone
(program/abreast.py). During half of the time they share contexts, handles and views instead (program/stress.py).

A program that fails, hangs or ends its process is made shorter and written to --out as a script. The exit status is 1
if there was one. Only for Linux.
"""

import argparse
import faulthandler
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))
from cases.harness import ISAS  # noqa: E402
from program import abreast, judge, make, shrink, stress  # noqa: E402

import ggml  # noqa: E402
from ggml import _core  # noqa: E402

TIME_LIMIT = 120  # seconds for one program in one process
SHRINK = 60  # seconds to make a failing program shorter
PEER_TRIES = 8  # times that the bindings may end their process over one program
# Rows whose gradient the C library has for operands in f32; it ends the process for all others.
PEER_GRADIENTS = set(
    "dup add sub mul div add1 sqr sqrt log sin cos sum sum_rows mean repeat rms_norm mul_mat scale cont cont_2d "
    "cast_F32 reshape reshape_1d reshape_2d reshape_3d reshape_4d view_1d view_2d view_3d view_4d permute transpose "
    "soft_max diag_mask_zero abs neg relu silu exp expm1 softplus sgn step get_rows pool_2d_avg swiglu_split "
    "cross_entropy_loss".split()
)


# ---- processes -------------------------------------------------------------------------------------------------------
class Worker:
    """A process that computes programs. It is started again after it died or hung."""

    def __init__(self, label, python=sys.executable, **environment):
        self.label, self.python, self.environment, self.process = label, python, environment, None

    def start(self):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [self.python, str(HERE / "program" / "execute.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.errors, bufsize=0, env={**os.environ, **self.environment},
            cwd=tempfile.gettempdir())  # fmt: skip
        os.set_blocking(self.process.stdin.fileno(), False)
        self.rest = b""

    def ask(self, request):
        """The answer to a program; {"died": what it did last} if there is none."""
        if self.process is None:
            self.start()
        self.last, end = "start", time.monotonic() + TIME_LIMIT
        waiting = json.dumps(request).encode() + b"\n"  # what was not written yet: the process may not read it
        to, answers = self.process.stdin.fileno(), self.process.stdout.fileno()
        while True:
            while b"\n" in self.rest:
                line, _, self.rest = self.rest.partition(b"\n")
                if not line.startswith(b"#"):
                    return json.loads(line)
                self.last = line[2:].decode()
            readable, writable, _ = select.select([answers], [to] if waiting else [], [],
                                                  max(0.0, end - time.monotonic()))  # fmt: skip
            if readable:
                data = os.read(answers, 1 << 20)
                if not data:
                    return self.died()
                self.rest += data
            elif writable:
                try:
                    waiting = waiting[os.write(to, waiting) :]
                except BrokenPipeError:
                    waiting = b""  # it ended: the next read says so
            if time.monotonic() >= end:
                return self.died("hung")

    def died(self, how=None):
        if how:
            self.process.send_signal(signal.SIGABRT)  # faulthandler shows where it hung
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
        status = self.process.wait()
        self.errors.seek(0)
        text = self.errors.read()[-1500:].decode(errors="replace")
        self.close()
        return {"died": f"{how or f'ended with status {status}'} at: {self.last}", "errors": text}

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close(), self.process.stdout.close(), self.errors.close()
        self.process = None


# ---- one program -----------------------------------------------------------------------------------------------------
class Examiner:
    """Has programs computed and compares the answers. `counts` is what was done since it was last taken."""

    def __init__(self, peer=None):
        # scalar comes first: the others are compared with it. The threads of the last wait as they do by default; those
        # of the others sleep immediately, which is faster where more processes run than there are cores.
        self.workers = [Worker(name, GGML_ISA=name, OMP_WAIT_POLICY="passive") for name in ISAS[:-1]]
        self.workers.append(Worker(ISAS[-1], GGML_ISA=ISAS[-1]))
        # Without this variable the C library starts a debugger for a back-trace whenever it ends its process.
        self.peer = Worker("bindings", peer, GGML_NO_BACKTRACE="1") if peer else None
        self.refused_by_peer, self.counts = set(), Counter()

    def close(self):
        for worker in [*self.workers, *([self.peer] if self.peer else [])]:
            worker.close()

    def examine(self, program):
        """None, or (kind of failure, message, an answer that has the values of the items, or None)."""
        first = None
        for worker in self.workers:
            answer = worker.ask(program.sent(noise=first is None))
            if "died" in answer:
                return "died", f"{worker.label}: {answer['died']}\n{answer['errors']}", first
            if "fault" in answer:
                return "fault", f"{worker.label}: {answer['fault']}", first
            problem = self.examine_answer(program, worker, answer, first)
            if problem:
                return (*problem, answer)
            first = first or answer
        self.count("programs")
        self.counts.update(f"operation {name}" for name in first["names"])
        self.counts.update(f"type {made.type}" for made in program.calls)
        return None

    def count(self, what, n=1):
        self.counts[what] += n

    def examine_answer(self, program, worker, answer, first):
        values = judge.Values(program, answer["values"], answer["stale"].items())
        self.count("comparisons: bits over threads, inputs, parameters, allocators", answer["compared"])
        changed = None if first is None else [
            k for k in range(len(program.items)) if answer["values"][str(k)] != first["values"][str(k)]]  # fmt: skip
        if first is None or changed or answer["stale"] != first["stale"]:
            wrong, n = judge.wrong_items(program, values)
            self.count("comparisons: results with float64", n)
            if wrong:
                i, message = wrong[0]
                return "reference", f"{worker.label}: t{i} = {program.items[i]['fn']}: {message}"
        for k, value in answer["scalar"].items():
            if value != (first or answer)["final"][k]:
                return "reference kernels", f"{worker.label} with use_ref: t{k} has other bits than scalar"
        doubtful = set()  # what cancellation changes, and what is computed from it
        problem = self.against_scalar(program, worker, answer, first, changed, doubtful) if first else None
        return problem or self.examine_gradients(program, worker, answer, first or answer, doubtful)

    def against_scalar(self, program, worker, answer, first, changed, doubtful):
        self.count("comparisons: results over instruction sets", sum("fn" in item for item in program.items))
        here, base = judge.Values(program, answer["values"]), judge.Values(program, first["values"])
        noisy = [judge.Values(program, run) for run in first["noisy"]]
        for k in changed:
            item = program.items[k]
            if item.get("fn") and (program.calls[k].row == "quantise" or any(
                    make.is_tensor(a) and a["t"] in doubtful for a in item["args"])):  # fmt: skip
                doubtful.add(k)
                continue
            type = program.calls[k].type
            problem = judge.apart(here[k], base[k], [run[k] for run in noisy], item.get("tol", 0.0), type)
            if problem == "coarse":
                doubtful.add(k)
            elif problem == "unstable" or problem and judge.cancels(program, k, here[k], base):
                self.count("skipped: results that rounding changes altogether")
                doubtful.add(k)
            elif problem:
                return "instruction sets", f"{worker.label} and scalar: t{k} = {item.get('fn')}: {problem}"
        return None

    def examine_gradients(self, program, worker, answer, first, doubtful):
        found = answer.get("gradients")
        if not found:
            return None
        if "refused" in found:
            self.count("skipped: gradients refused")
            return None if found["refused"].startswith("ggml_build_backward_expand") else ("message", found["refused"])
        noisy = first["gradients"]["noisy"]
        for k, (got, base, *runs) in judge.gradients_of(program, found, first["gradients"]).items():
            problem = judge.apart(got, base, runs, 2e-5, "F32")
            if problem not in (None, "unstable", "coarse") and not doubtful:
                return "instruction sets", f"{worker.label} and scalar: the gradient of t{k}: {problem}"
        said = judge.gradient_problem(program, found["grads"], noisy)
        if said != "checked" and not said.startswith("skipped"):
            return "gradient", f"{worker.label}: {said}"
        self.count("comparisons: gradients with float64" if said == "checked" else f"{said} (gradients)")
        return None

    # ---- the bindings ------------------------------------------------------------------------------------------------
    def signature(self, program, k):
        """What the bindings refused or accept: a function with operands of these types and layouts."""
        item = program.items[k]
        operands = [program.calls[a["t"]] for a in item["args"] if make.is_tensor(a)]
        views = [program.items[a["t"]].get("fn") in make.VIEWS for a in item["args"] if make.is_tensor(a)]
        return item["fn"], tuple((x.type, len([n for n in x.ne if n > 1]), v) for x, v in zip(operands, views))

    def compare_with_peer(self, program):
        """Computes a program with the bindings. Where they end their process, the call is left out and the rest tried
        again. Returns a failure of this package, or None; what the bindings compute wrongly is counted.
        """
        for _ in range(PEER_TRIES):
            known = [k for k, item in enumerate(program.items) if "fn" in item
                     and self.signature(program, k) in self.refused_by_peer]  # fmt: skip
            program = shrink.without(program, known)
            if not any("fn" in item for item in program.items):
                break
            if not {made.row for made in program.calls} <= {None, *PEER_GRADIENTS}:
                program.grads = None
            answer = self.peer.ask(program.sent(noise=False))
            if "values" in answer:
                return self.judge_peer(program, answer)
            words = self.peer.last.split()
            if "fault" in answer and "AttributeError" not in answer["fault"] and "ArgumentError" not in answer["fault"]:
                self.count(f"bindings: {answer['fault'][:60]}")
            if words[0] not in ("call", "node") or int(words[1]) < 0 or words[2] == "None":
                self.count("bindings: gradients that end the process")
                program.grads = None
            else:
                self.refused_by_peer.add(self.signature(program, int(words[1])))
                self.count(f"bindings refuse {words[2]}")
        self.count("skipped: programs that the bindings refuse")
        return None

    def judge_peer(self, program, answer):
        failure = self.examine(program)
        if failure:
            return failure
        other = [i for i, (ne, made) in enumerate(zip(answer["ne"], program.calls)) if tuple(ne) != made.ne]
        if other:
            self.count(f"bindings differ in the sizes of the result: {program.items[other[0]].get('fn')}")
            return None
        ours = self.workers[0].ask(program.sent(noise=True))
        wrong, n = judge.wrong_items(program, judge.Values(program, answer["values"], answer["stale"].items()))
        self.count("comparisons: results with the bindings", n)
        self.counts.update(f"bindings differ from float64: {program.items[i]['fn']}" for i, _ in wrong)
        if program.grads and answer["grads"] and "grads" in ours.get("gradients", {}):
            said = judge.gradient_problem(program, answer["grads"], ours["gradients"]["noisy"])
            self.count("comparisons: gradients of the bindings with float64")
            if said != "checked" and not said.startswith("skipped"):
                self.count("bindings differ from float64: gradients")
        return None


def examine_seed(examiner, seed, peer):
    """Makes and examines the program of a seed. Returns the failing program with its failure, or None."""
    maker = make.Maker(seed, peer)
    try:
        program = maker.make(make.SUBJECTS[seed % len(make.SUBJECTS)])
    finally:
        maker.close()
    examiner.count("operations", sum("fn" in item for item in program.items))
    examiner.counts.update("skipped: calls refused while a program was made" for _ in program.refused)
    failure = examiner.compare_with_peer(program) if peer else examiner.examine(program)
    return failure and (program, *failure)


def report(examiner, seed, found, out):
    """Shortens a failing program and writes it. Returns what to print."""
    program, kind, message, answer = found
    values = {k: judge.unpack(v) for k, v in (answer or {}).get("values", {}).items()}

    def fails(candidate):
        failure = examiner.examine(candidate)
        return bool(failure) and failure[0] == kind

    before = Counter(examiner.counts)
    short = shrink.shrink(program, fails, values, SHRINK)
    examiner.counts = before
    failure = examiner.examine(short) or (kind, message, None)
    path = out / f"program-{seed}.py"
    path.write_text(shrink.script(short, f"Program {seed} of fuzz/programs.py: {failure[0]}."))
    return f"FAILED: seed {seed}: {kind}: {message}\nshortened, in {path}: {failure[1]}\n{shrink.listing(short)}"


def child(args):
    """Examines one seed after the other, and prints the counts of each as a line of JSON."""
    examiner, end = Examiner(args.peer), time.monotonic() + args.seconds
    try:
        for seed in range(args.seed, args.seed + (args.programs or sys.maxsize)):
            if not args.programs and time.monotonic() > end:
                break
            print(f"seed {seed}", flush=True)
            # every third program is made for the bindings and compared with them too
            found = examine_seed(examiner, seed, bool(args.peer) and seed % 3 == 0)
            if found:
                examiner.count("failures")
                print(report(examiner, seed, found, args.out), flush=True)
            print(json.dumps(examiner.counts), flush=True)
            examiner.counts.clear()
    finally:
        examiner.close()


# ---- the command -----------------------------------------------------------------------------------------------------
def supervise(args, counts):
    """Runs `child` in a process of its own, and again behind the seed at which it ended or hung."""
    end, seed, last = time.monotonic() + args.seconds, args.seed, args.seed + args.programs
    while time.monotonic() < end if not args.programs else seed < last:
        command = [sys.executable, __file__, "--child", "--seed", str(seed), "--out", str(args.out),
                   "--seconds", str(max(1.0, end - time.monotonic()))]  # fmt: skip
        command += ["--programs", str(last - seed)] if args.programs else []
        command += ["--peer", args.peer] if args.peer else []
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        while True:
            if not select.select([process.stdout], [], [], 20 * TIME_LIMIT)[0]:
                os.killpg(process.pid, signal.SIGKILL)
            line = process.stdout.readline()
            if not line:
                break
            if line.startswith("seed "):
                seed = int(line.split()[1])
            elif line.startswith("{"):
                counts.update(json.loads(line))
            else:
                print(line, end="", flush=True)
        status = process.wait()
        if status == 0:
            return
        counts["failures"] += 1
        print(f"FAILED: seed {seed}: the process that makes and judges the program ended with status {status}")
        seed += 1


def operations():
    """The names under which operations are counted: those of unary operations and GLU are their own."""
    names = {row["name"] for row in _core.op_table()} - {"NONE", "UNARY", "GLU"}
    for prefix, name_of in (("GGML_UNARY_OP_", ggml.ggml_unary_op_name), ("GGML_GLU_OP_", ggml.ggml_glu_op_name)):
        numbers = {v for k, v in vars(ggml).items() if k.startswith(prefix) and not k.endswith("_COUNT")}
        names |= {name_of(number).decode() for number in numbers}
    return names


def types():
    """The names of all types but those that only the second operand of a product is rounded to."""
    return {*make.EPS, *make.MOVED, *make.QUANTISED}


def summary(counts):
    """What was done: nodes by operation and tensors by type, with those that never occurred, and all other counts."""
    kinds = {"operation": operations(), "type": types()}
    lines = [f"instruction sets: {', '.join(ISAS)}"]
    lines += [f"{name}: {n}" for name, n in sorted(counts.items()) if name.split()[0] not in kinds]
    for kind, wanted in kinds.items():
        used = {name.removeprefix(kind + " "): n for name, n in counts.items() if name.split()[0] == kind}
        lines.append(f"by {kind}: " + ", ".join(f"{name} {n}" for name, n in sorted(used.items())))
        lines.append(f"by {kind}, never: " + (", ".join(sorted(wanted - set(used))) or "none"))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--programs", type=int, default=0, help="run this many programs, without a time limit")
    parser.add_argument("--peer", help="the Python of an environment that has the ctypes bindings")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()), help="folder for failing programs")
    parser.add_argument("--show", action="store_true", help="prints the program of the seed as a script, and ends")
    parser.add_argument("--threads", type=int, default=0, help="examines so many threads of this process")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.show:
        maker = make.Maker(args.seed, bool(args.peer) and args.seed % 3 == 0)
        print(shrink.script(maker.make(make.SUBJECTS[args.seed % len(make.SUBJECTS)]), f"Program {args.seed}."))
        return
    if args.child:
        child(args)
        return
    if args.threads:
        faulthandler.enable()
        counts = abreast.run(args.seconds / 2, args.threads, args.seed)
        print(*[f"{name}: {n}" for name, n in sorted(counts.items())], sep="\n", flush=True)
        stress.stress(args.seconds / 2, args.threads, args.seed)
        sys.exit(1 if counts["failures"] else 0)
    counts = Counter()
    supervise(args, counts)
    print(summary(counts))
    sys.exit(1 if counts["failures"] or not counts["programs"] else 0)


if __name__ == "__main__":
    main()
