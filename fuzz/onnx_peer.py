"""What the fuzzers of ONNX operators and graphs share: random values, the comparison with onnxruntime, the report."""

import argparse
import contextlib
import math
import random
import resource
import signal
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import onnx

import ggml.onnx

try:
    import onnxruntime
except ImportError:  # the programs say so
    onnxruntime = None

FLOATS = [np.float32] * 4 + [np.float64, np.float16]
INTEGERS = [np.int64, np.int32, np.int8, np.uint8, np.int16, np.uint16, np.uint32, np.uint64]
SIZES = [1, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 33, 64, 70]
SPECIAL = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1e30, -1e-40, 3e38]
MUCH = 20_000  # elements of a random array
LIMIT = 30  # seconds for a model
MEMORY = 8 << 30  # bytes of addresses


class SlowError(BaseException):  # no handler of other errors catches it
    """A model took too long."""


class Dice(random.Random):
    """Random choices, and random arrays from the same seed."""

    def __init__(self, seed):
        super().__init__(seed)
        self.numpy = np.random.default_rng(seed)

    def chance(self, probability):
        return self.random() < probability

    def some(self, items, low=1):
        """A random selection of items, in a random order."""
        items = list(items)
        return self.sample(items, self.randint(min(low, len(items)), len(items)))

    def shape(self, low=0, high=4, zero=0.05):
        """A shape of low to high dimensions, of which few are large; zero: probability of a dimension of 0."""
        shape = [0 if self.chance(zero) else self.choice(SIZES) for _ in range(self.randint(low, high))]
        while math.prod(shape) > MUCH:
            shape[self.randrange(len(shape))] = self.choice(SIZES[:8])
        return tuple(shape)

    def broadcast(self, shape):
        """A shape that broadcasts to another one."""
        found = [1 if self.chance(0.25) else d for d in shape]
        return tuple(found[self.randint(0, len(found)) if self.chance(0.3) else 0 :])

    def array(self, shape, dtype=np.float32, low=None, high=None, special=0.08):
        """An array of a type: within limits, or with a few special values."""
        dtype, limited = np.dtype(dtype), low is not None
        if dtype.kind == "b":
            return np.asarray(self.numpy.random(shape) < 0.5)
        if dtype.kind == "f":
            a = self.numpy.random(shape) * (high - low) + low if limited else self.numpy.standard_normal(shape)
            a = np.asarray(a if limited else a * self.choice([1, 1, 3, 30]))
            values = SPECIAL
        else:
            info = np.iinfo(dtype)
            low, high = (low, high) if limited else (max(info.min, -20), 20)
            a = np.asarray(self.numpy.integers(low, high, shape, endpoint=True))
            values = [info.min, info.max, info.max // 3]
        with np.errstate(over="ignore"):
            a = a.astype(dtype)
            if a.size and not limited and self.chance(special):
                places = self.numpy.integers(0, a.size, 2)
                a.reshape(-1)[places] = np.array([self.choice(values) for _ in places]).astype(dtype)
        return a

    def uniform_array(self, *shape):
        """Floats from -1 to 1."""
        return self.array(shape, low=-1, high=1)

    def indices(self, size, shape, dtype=None, negative=True):
        """Indices of an axis."""
        return self.array(shape, dtype or self.choice([np.int64, np.int32]), -size if negative else 0, size - 1)


# Comparisons


def differ(ours, theirs, relative, absolute, units=0, rare=0.0):
    """In words how two results differ, or ""; units: by how much integers of at most 16 bits may.

    rare: the share of floats that may.
    """
    if ours is None or theirs is None:
        return "" if ours is theirs else f"{type(ours).__name__}, theirs is {type(theirs).__name__}"
    if isinstance(theirs, list) and theirs and isinstance(theirs[0], dict):
        theirs = {key: np.array([row[key] for row in theirs]) for key in theirs[0]}
        ours = {key: np.array([row[key] for row in ours]) for key in ours[0]}
    if isinstance(theirs, (list, dict)):
        if len(ours) != len(theirs):
            return f"{len(ours)} items, theirs has {len(theirs)}"
        pairs = zip(ours, theirs) if isinstance(theirs, list) else ((ours[k], v) for k, v in theirs.items())
        return next(filter(None, (differ(a, b, relative, absolute, units, rare) for a, b in pairs)), "")
    a, b = np.asarray(ours), np.asarray(theirs)
    if a.shape != b.shape:
        return f"shape {a.shape}, theirs is {b.shape}"
    if b.dtype.kind in "OUS":
        bad = a.astype(str) != b.astype(str)
        return f"texts {a[bad][:3]}, theirs {b[bad][:3]}" if bad.any() else ""
    if a.dtype != b.dtype and b.dtype.kind in "fiub":
        return f"dtype {a.dtype}, theirs is {b.dtype}"
    if a.dtype.kind in "biu":
        allowed = units if a.dtype.itemsize <= 2 else 0
        bad = np.abs(a.astype(object) - b.astype(object)) > allowed if allowed else a != b
        return f"{bad.sum()} of {a.size} integers: {a[bad][0]}, theirs {b[bad][0]}" if bad.any() else ""
    bad = wrong(a, b, relative, absolute)
    if bad.sum() <= max(rare * bad.size, rare > 0):
        return ""
    place, gap = tuple(int(i) for i in np.argwhere(bad)[0]), np.abs(a[bad].astype(float) - b[bad].astype(float))
    return (
        f"{bad.sum()} of {a.size} floats, at {place} {float(a[place])!r}, theirs {float(b[place])!r}; largest "
        f"difference {np.nanmax(gap, initial=0):.3g} of {np.nanmax(np.abs(b), initial=0):.3g}"
    )


def wrong(ours, theirs, relative, absolute):
    """Which elements differ by more than rounding, given the size of the element and the usual size."""
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    finite = np.abs(b[np.isfinite(b)])
    usual = float(np.median(finite)) if finite.size else 0.0
    with np.errstate(all="ignore"):
        close = np.abs(a - b) <= absolute + relative * (np.abs(b) + usual)
        return ~((a == b) | (np.isnan(a) & np.isnan(b)) | close)


def rounding(session, feed, name, ours, theirs):
    """Whether onnxruntime's own result moves as far when its inputs change in their last bits."""
    a, b = (np.asarray(v) for v in (ours, theirs))
    if a.shape != b.shape or a.dtype.kind not in "fiu" or a.dtype != b.dtype:
        return False
    a, b = a.astype(np.float64), b.astype(np.float64)
    known = np.isfinite(a) & np.isfinite(b)
    if not ((a == b) | (np.isnan(a) & np.isnan(b)) | known).all():
        return False
    dice, moved = np.random.default_rng(0), 0.0
    for k in range(24):
        shaken = {n: shake(v, dice, 1 << k // 6) for n, v in feed.items()}
        (other,) = session.run([name], shaken)
        if np.shape(other) == b.shape:
            moved = max(moved, float(np.nanmax(np.abs(other.astype(np.float64) - b)[known], initial=0)))
    return bool(np.max(np.abs(a - b)[known], initial=0) <= 4 * moved)


def shake(value, dice, ulps):
    """Floats that differ by a few units in the last place."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return value
    factor = 1 + ulps * np.finfo(value.dtype).eps * dice.choice([-1.0, 0.0, 1.0], value.shape)
    with np.errstate(all="ignore"):
        return (value * factor).astype(value.dtype)


# One model through both


def session_of(model, optimised=True):
    """An onnxruntime session on one thread whose products of bytes do not saturate."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.x64quantprecision", "1")
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def laid_out(feed, kind):
    """The inputs with other strides: 1: Fortran order, 2: every second element, 3: reversed."""

    def changed(a):
        if not isinstance(a, np.ndarray) or a.ndim < 1 or a.dtype.kind not in "fiub":
            return a
        if kind == 1:
            return np.asfortranarray(a)
        if kind == 2:
            wide = np.zeros((*a.shape[:-1], a.shape[-1] * 2 + 1), a.dtype)
            wide[..., 1::2] = a
            return wide[..., 1::2]
        return a[::-1].copy()[::-1]

    return {name: changed(a) for name, a in feed.items()} if kind else feed


def copied(value):
    return [copied(v) for v in value] if isinstance(value, list) else np.copy(value) if value is not None else None


def compare(
    data, feeds, relative=3e-4, absolute=3e-5, units=0, rare=0.0, threads=1, full=True, optimised=True, valid=True
):
    """Runs a model on each of the feeds in turn, here and in onnxruntime.

    Args:
        data: bytes, the model.
        feeds: list of dicts of arrays by name.
        relative, absolute, units: what may differ.
        rare: the share of floats that may differ by any amount (or one), where tiny differences decide about steps.
        threads: threads of ggml.
        full: bool, the first feeds are repeated, with several strides, and for each output alone.
        optimised: whether onnxruntime may rewrite the graph.
        valid: whether all feeds are operands that the specification allows; otherwise the first ones are.
    Returns:
        (str, str): "ok", "both refuse", "theirs refuses" or "FAULT", and what happened.
    """
    try:
        session, reason = session_of(data, optimised), ""
    except Exception as error:
        session, reason = None, str(error)
    try:
        model = ggml.onnx.load(data, threads=threads)
    except Exception as error:
        return ("FAULT", f"load: {error}") if session else ("both refuse", "")
    if session is None:
        with contextlib.suppress(ValueError, TypeError, RuntimeError, MemoryError, OSError):
            model.run(feeds[0])
            return "theirs refuses", reason
        return "both refuse", ""
    names, kept = [o.name for o in session.get_outputs()], []
    for turn, feed in enumerate([*feeds, feeds[0]]):
        where = f"feed {turn} {[np.shape(v) for v in feed.values()]}"
        try:
            want = session.run(None, feed)
        except Exception as error:
            want, reason = None, str(error)
        for kind in (0, 0, 1, 2, 3) if full and turn < 2 else (0,):
            try:
                got = model.run(laid_out(feed, kind))
            except Exception as error:
                if want is not None and (valid or turn == 0 or alone(data, feed) is not None):
                    return "FAULT", f"{where}, strides {kind}: {type(error).__name__}: {error}"
                break
            if want is None:
                if turn == 0:
                    return "theirs refuses", reason
                break
            for i, (name, a, b) in enumerate(zip(names, got, want)):
                found = differ(a, b, relative, absolute, units, rare)
                if found and not valid and turn:  # operands that are none, perhaps: others must not have mattered
                    fresh = alone(data, feed)
                    found = fresh and differ(a, fresh[i], relative, absolute)
                if found and not rounding(session, feed, name, a, b):
                    return "FAULT", f"{where}, strides {kind}, output {name!r}: {found}"
            kept.append((got, copied(got)))
        if want is None and turn == 0:
            return "both refuse", ""
        if full and turn == 0:
            for name, b in zip(names, want):
                (a,) = model.run(feed, outputs=[name])
                found = differ(a, b, relative, absolute, units, rare)
                if found and not rounding(session, feed, name, a, b):
                    return "FAULT", f"{where}, output {name!r} alone: {found}"
    for got, before in kept:
        if any(differ(a, b, 0, 0) for a, b in zip(got, before)):
            return "FAULT", "results changed while the model ran again"
    return "ok", ""


def alone(data, feed):
    """What a model that has seen no other inputs makes of some, or None if it refuses them."""
    try:
        return ggml.onnx.load(data, threads=1).run(feed)
    except (ValueError, TypeError, RuntimeError):
        return None


def other_sizes(feed, dice):
    """Inputs in which a dimension has another size wherever it occurs, for models with dimensions that vary."""
    sizes = sorted({n for a in feed.values() if isinstance(a, np.ndarray) for n in a.shape if n})
    if not sizes:
        return feed
    old = dice.choice(sizes)
    new = max(old + dice.choice((-1, 1, 2, 7, old)), 1)  # of none, onnxruntime's own operators may end the process
    shapes = {k: [new if n == old else n for n in np.shape(a)] for k, a in feed.items()}
    if any(math.prod(s) > 4 * MUCH for s in shapes.values()):
        return feed
    return {k: np.resize(a, shapes[k]) if isinstance(a, np.ndarray) else a for k, a in feed.items()}


# Programs


def late(signum, frame):
    raise SlowError


def run(description, made, arguments=()):
    """The main function of a program: tries random models until the time is over.

    Args:
        description: str, of the program.
        made: function of a seed and the options; it returns None or (name, data, feeds, keywords of `compare`, a
            description, the reason why results may differ or "").
        arguments: (flag, keywords) of further options.
    Returns:
        int: 0, or 1 after faults.
    """
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="try only the case with this number, as a fault names it")
    parser.add_argument("--last", default="/tmp/onnx-peer-last.onnx", help="file for the model that is tried")
    for flag, keywords in arguments:
        parser.add_argument(flag, **keywords)
    options = parser.parse_args()
    if onnxruntime is None:
        print("onnxruntime is needed: results are compared with its own (pip install onnxruntime)")
        return 2
    onnxruntime.set_default_logger_severity(4)
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, late)
    counts, faults, end = Counter(), Counter(), time.monotonic() + options.seconds
    number = options.seed * 1_000_003
    while time.monotonic() < end:
        number += 1
        if options.case is not None:
            number, end = options.case, 0
        case = made(number, options)
        if case is None:
            continue
        name, data, feeds, keywords, text, reason = case
        Path(options.last).write_bytes(data)
        signal.setitimer(signal.ITIMER_REAL, LIMIT, 1)  # again each second: an exception in a finaliser is lost
        try:
            word, found = compare(data, feeds, **keywords)
        except SlowError:
            word, found = "FAULT", f"longer than {LIMIT} s"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if word == "FAULT" and reason:
            word, found = "differ as they should", f"{reason} ({found})"
        counts[word] += 1
        if options.case is not None:
            print(word, found, text, sep="\n")
        elif word == "FAULT":
            faults[name] += 1
            if faults[name] <= 4:
                print(f"--case {number}: {name}: {found[:600]}\n    {text[:900]}", flush=True)
    print(sum(counts.values()), "models:", dict(counts), "faults:", dict(faults) or "none")
    return int(bool(counts["FAULT"]))


def declared(name, value, dynamic):
    """The declaration of an input; dynamic: without the sizes of its dimensions."""
    kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    return onnx.helper.make_tensor_value_info(name, kind, [None] * value.ndim if dynamic else value.shape)
