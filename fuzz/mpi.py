"""Jobs of random collectives over MPI, some of whose ranks are slow, stopped, killed, interrupted or finish early.

    python fuzz/mpi.py --seconds 3600 --seed 1
    python fuzz/mpi.py --seed 17 --job "early 2 4"     # what rank 2 of 4 does in job 17, under mpiexec -n 4

A job has 2 to 4 ranks, which compute the same random collectives and messages. Every result is compared with NumPy: the
operands are small whole numbers, whose sums are exact. What may happen to a rank, by kind of job:

    busy         nothing, on a machine with 4 other busy processes: all ranks complete, none reports another one
    slow         it sleeps between operations: all ranks complete
    stopped      SIGSTOP, later SIGCONT: all ranks complete
    late         the same, and waiting raises after half a second. The ranks go on with the next operation: all
                 complete, results that arrive are right, and MPI has not written into the program's own arrays
    early        it ends before the last operations: another rank says so
    killed       SIGKILL: the job ends
    interrupted  SIGINT, which it does not catch: the job ends, or the rank had completed
    caught       SIGINT, after which it ends normally: no other result is wrong, and the job ends

No job may run longer than LIMIT. A job that fails is printed with its number. The exit status is 1 if there was one.
Needs mpi4py and mpiexec (pip install mpi4py mpich); without them it prints NOT RUN.
"""

import argparse
import faulthandler
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import numpy as np

KINDS = ("busy", "slow", "stopped", "late", "early", "killed", "interrupted", "caught")
LIMIT = 60  # seconds for a job
NAMED = 10  # seconds in which a rank that ended early is named
BUSY = 4  # busy processes beside a job
# Prints the status with which a rank that is interrupted ends. The launcher's report is no guide: it combines those of
# all ranks by "or", so that 2 (SIGINT, which has its default action when Python has ended) and 9 read as 11 (SIGSEGV).
REPORT = ("sh", "-c", '"$@"; status=$?; echo "ended with $status"; exit $status', "sh")
CRASHES = [f"ended with {128 + number}" for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE)]
NODES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "message")
CALLS = ("share", "collect", "barrier", "agree")


# ---- a rank ----------------------------------------------------------------------------------------------------------
class Rank:
    """One rank of a job. `steps` are the operations, which all ranks draw from the same seed."""

    def __init__(self, comm, kind, victim, seed, folder):
        self.comm, self.kind, self.victim, self.seed, self.folder = comm, kind, victim, seed, folder
        self.draw = random.Random(seed)
        self.mine, self.late = [], 0
        self.steps = self.draw.randint(20, 60)

    def values(self, step, rank, shape):
        return np.random.default_rng([self.seed, step, rank]).integers(-4, 5, shape).astype(np.float32)

    def run(self):
        last = self.draw.randrange(self.steps // 2, self.steps - 1)
        pauses = random.Random(self.seed * 7 + self.comm.rank)
        for step in range(self.steps):
            name = self.draw.choice(NODES + CALLS)
            if self.comm.rank == self.victim:
                if self.kind == "early" and step == last:
                    Path(self.folder, "ended").touch()
                    sys.exit(0)
                time.sleep(pauses.random() * {"slow": 0.1, "busy": 0}.get(self.kind, 0.02))
            if self.kind == "early" and step == self.steps - 1:
                name = "barrier"  # at which the others wait for a rank that has ended
            try:
                getattr(self, name)(step) if name in NODES else self.call(name, step)
            except RuntimeError as error:
                if self.kind != "late" or "did not take part within" not in str(error):
                    raise
                self.late += 1
            if self.kind == "late":
                self.mine += [np.full(8192, 7, np.uint8) for _ in range(50)]
        if any((array != 7).any() for array in self.mine):
            raise AssertionError("WRONG: MPI wrote into arrays of the program")

    def check(self, what, found, wanted):
        if found.shape != wanted.shape or not np.array_equal(found, wanted):
            raise AssertionError(f"WRONG: {what}: {found.reshape(-1)[:8]}, not {wanted.reshape(-1)[:8]}")

    def shape(self):
        """Three sizes, of which the last, ne[0], and the first can be divided by the number of ranks."""
        n = self.comm.size
        return self.draw.choice([n, 2 * n]), self.draw.randint(1, 3), n * self.draw.choice([1, 5, 300, 6000])

    def compute(self, build, values, operand=True):
        """The result of build(ctx, x) of one graph, whose memory is overwritten and freed afterwards."""
        ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
        try:
            x = from_numpy(values, ctx) if operand else None
            y = build(ctx, x)
            graph = ggml.ggml_new_graph(ctx)
            ggml.ggml_build_forward_expand(graph, y)
            try:
                ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)
                return to_numpy(y).copy()
            finally:
                if x is not None:
                    to_numpy(x)[...] = -99
        finally:
            ggml.ggml_free(ctx)

    def parts(self, step, shape):
        return [self.values(step, rank, shape) for rank in range(self.comm.size)]

    def all_reduce(self, step):
        parts = self.parts(step, self.shape())
        op, order = self.draw.choice(["sum", "max", "min"]), self.draw.choice(["rank", "mpi"])
        found = self.compute(lambda ctx, x: self.comm.all_reduce(ctx, x, op, order), parts[self.comm.rank])
        wanted = {"sum": np.sum, "max": np.max, "min": np.min}[op](parts, 0)
        self.check("all_reduce", found.reshape(wanted.shape), wanted)

    def all_gather(self, step):
        parts, axis = self.parts(step, self.shape()), self.draw.choice([0, 2])
        found = self.compute(lambda ctx, x: self.comm.all_gather(ctx, x, 2 - axis), parts[self.comm.rank])
        wanted = np.concatenate(parts, axis)
        self.check("all_gather", found.reshape(wanted.shape), wanted)

    def reduce_scatter(self, step):
        parts, axis = self.parts(step, self.shape()), self.draw.choice([0, 2])
        found = self.compute(lambda ctx, x: self.comm.reduce_scatter(ctx, x, 2 - axis), parts[self.comm.rank])
        wanted = np.split(np.sum(parts, 0), self.comm.size, axis)[self.comm.rank]
        self.check("reduce_scatter", found.reshape(wanted.shape), wanted)

    def all_to_all(self, step):
        parts, axis = self.parts(step, self.shape()), self.draw.choice([0, 2])
        found = self.compute(lambda ctx, x: self.comm.all_to_all(ctx, x, 2 - axis), parts[self.comm.rank])
        wanted = np.concatenate([np.split(part, self.comm.size, axis)[self.comm.rank] for part in parts], axis)
        self.check("all_to_all", found.reshape(wanted.shape), wanted)

    def broadcast(self, step):
        parts, root = self.parts(step, self.shape()), self.draw.randrange(self.comm.size)
        found = self.compute(lambda ctx, x: self.comm.broadcast(ctx, x, root), parts[self.comm.rank])
        self.check("broadcast", found.reshape(parts[root].shape), parts[root])

    def message(self, step):
        source, dest = self.draw.sample(range(self.comm.size), 2)
        values, tag = self.values(step, source, self.shape()), self.draw.randrange(3)
        if self.comm.rank == source:
            self.compute(lambda ctx, x: self.comm.send(ctx, x, dest, tag), values)
        elif self.comm.rank == dest:
            ne = values.shape[::-1]
            found = self.compute(lambda ctx, x: self.comm.recv(ctx, F32, ne, source, tag), None, operand=False)
            self.check("message", found.reshape(values.shape), values)

    def call(self, name, step):
        parts = self.parts(step, self.shape())
        root = self.draw.randrange(self.comm.size)
        if name == "share":
            self.check(name, self.comm.share(parts[self.comm.rank], root), parts[root])
        elif name == "collect":
            self.check(name, self.comm.collect(parts[self.comm.rank]), np.array(parts))
        elif name == "agree":
            self.comm.agree(f"agree on step {step}")
        else:
            self.comm.barrier()


def rank_of_job(kind, victim, seed, folder):
    faulthandler.enable()
    comm = distributed.mpi(timeout=0.5 if kind == "late" else None)
    rank = Rank(comm, kind, victim, seed, folder)
    pid = Path(folder, f"new {comm.rank}")
    pid.write_text(str(os.getpid()))
    pid.rename(Path(folder, f"rank {comm.rank}"))
    try:
        rank.run()
    except KeyboardInterrupt:
        if kind != "caught":
            raise
        print("caught", flush=True)
        sys.exit(0)
    print(f"complete: {rank.late} late", flush=True)


# ---- jobs ------------------------------------------------------------------------------------------------------------
def run_job(launcher, kind, seed):
    """Runs a job. Returns what is wrong, or None, and its output."""
    draw = random.Random(seed + 10**6)
    ranks = draw.randint(2, 4)
    victim = draw.randrange(ranks)
    with tempfile.TemporaryDirectory() as folder:
        report = REPORT if kind in ("interrupted", "caught") else ()
        command = [launcher, "-n", str(ranks), *report, sys.executable, __file__, "--seed", str(seed), "--job",
                   f"{kind} {victim}", "--folder", folder]  # fmt: skip
        with tempfile.TemporaryFile() as errors:
            begin = time.monotonic()
            job = subprocess.Popen(command, stdout=errors, stderr=errors, env={**os.environ, "OMP_NUM_THREADS": "1"})
            try:
                act(job, kind, Path(folder, f"rank {victim}"), draw)
                job.wait(max(1, LIMIT - (time.monotonic() - begin)))
            except subprocess.TimeoutExpired:
                job.send_signal(signal.SIGTERM)
                try:
                    job.wait(5)
                except subprocess.TimeoutExpired:
                    job.kill()
                    job.wait()
                return f"hung: {ranks} ranks, victim {victim}", read(errors)
            ended = Path(folder, "ended")
            if ended.exists() and time.time() - ended.stat().st_mtime > NAMED:
                return f"rank {victim} ended early, which the others noticed after more than {NAMED} s", read(errors)
            return judge(kind, ranks, victim, job.returncode, read(errors)), read(errors)


def read(file):
    file.seek(0)
    return file.read().decode(errors="replace")


def act(job, kind, pid, draw):
    """Does to the victim what the kind of job says."""
    if kind not in ("stopped", "late", "killed", "interrupted", "caught"):
        return
    while not pid.exists() and job.poll() is None:
        time.sleep(0.01)
    time.sleep(draw.random() * 0.6)
    try:
        victim = int(pid.read_text())
        if kind in ("stopped", "late"):
            os.kill(victim, signal.SIGSTOP)
            time.sleep(0.2 + draw.random() * 1.3)
            os.kill(victim, signal.SIGCONT)
        else:
            os.kill(victim, signal.SIGKILL if kind == "killed" else signal.SIGINT)
    except (ProcessLookupError, FileNotFoundError):
        pass  # the job was faster


def judge(kind, ranks, victim, status, text):
    complete = text.count("complete:")
    if "WRONG" in text:
        return "a wrong result"
    if any(crash in text for crash in (*CRASHES, "Fatal Python error")):
        return "a crash"
    if kind in ("busy", "slow", "stopped", "late"):
        return None if complete == ranks and status == 0 else f"{complete} of {ranks} ranks complete, status {status}"
    if kind == "early":
        return None if f"rank {victim} has ended" in text and status else f"status {status}, the rank is not named"
    if complete == ranks:
        return None  # the signal came while the ranks ended
    if kind == "caught":
        return None if status == 0 or "has ended" in text else f"status {status}"
    return None if status else "status 0, although a rank failed"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=10**9, help="run at most so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job:
        kind, victim = args.job.split()[:2]
        rank_of_job(kind, int(victim), args.seed, args.folder)
        return 0
    launcher = shutil.which("mpiexec", path=os.path.dirname(sys.executable)) or shutil.which("mpiexec")
    if launcher is None or find_spec("mpi4py") is None:
        print("NOT RUN: no mpiexec or no mpi4py (pip install mpi4py mpich)")
        return 0
    counts, failed, begin, job = Counter(), 0, time.monotonic(), args.seed
    while time.monotonic() - begin < args.seconds and job < args.seed + args.jobs:
        kind = args.kinds[job % len(args.kinds)]
        load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY * (kind == "busy"))]
        try:
            problem, text = run_job(launcher, kind, job)
        finally:
            for process in load:
                process.kill()
                process.wait()
        counts[kind] += 1
        if problem:
            failed += 1
            print(f"job {job}, {kind}: {problem}\n{text[-3000:]}", flush=True)
        job += 1
    print(f"{sum(counts.values())} jobs, {failed} failed: {dict(counts)}")
    return failed > 0


if __name__ == "__main__":
    # here, because this file has the name of a function of ggml.distributed and reads its options before MPI starts
    import ggml
    from ggml import distributed
    from ggml.utils import from_numpy, to_numpy

    F32 = ggml.GGML_TYPE_F32
    sys.exit(main())
