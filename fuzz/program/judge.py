"""Compares what programs computed: with float64 references, over instruction sets, and with differences of the loss."""

import base64

import numpy as np
from cases.harness import EPS

from .make import ROWS, decoded, evaluate, reference_arguments

# The absolute error of a rounding: half the distance of subnormal numbers, which f32 kernels may take for zero.
TINY = {"F16": 2.0**-25, "F32": 1e-37, "BF16": 1e-37}


def unpack(text):
    return base64.b64decode(text)


# ---- each item against its reference ---------------------------------------------------------------------------------
class Values:
    """The values of a reply, as arrays. `kind` is the part of the reply: values, final ..."""

    def __init__(self, program, found, stale=()):
        self.calls, self.found, self.stale = program.calls, found, dict(stale)
        self.cache = {}

    def __getitem__(self, k):
        if k not in self.cache:
            made = self.calls[k]
            self.cache[k] = decoded(unpack(self.found[str(k)]), made.type, made.ne)
        return self.cache[k]

    def operand(self, i, k, item):
        """Operand k of call i, as the call read it."""
        text = self.stale.get(f"{i} {k}")
        return self[item] if text is None else decoded(unpack(text), self.calls[item].type, self.calls[item].ne)


def wrong_items(program, values, items=None):
    """(item, what is wrong) of the calls whose result is not near the reference of their row, which is given the very
    operands that the call read; and the number of comparisons.
    """
    wrong, count = [], 0
    for i, item in enumerate(program.items):
        if "fn" not in item or items is not None and i not in items:
            continue
        row, made = ROWS[program.calls[i].row], program.calls[i]
        operands = operands_of(program, i, lambda k, a, i=i: values.operand(i, k, a))
        want = evaluate(row, operands, made.shape, made.type)
        if want is None:
            continue
        count += 1
        problem = difference(row, item, operands, want, values[i], made)
        if problem:
            wrong.append((i, problem))
    return wrong, count


def operands_of(program, i, value_of):
    """The arguments of call i as its reference reads them; value_of(argument, item) gives the values of a tensor."""
    return reference_arguments(ROWS[program.calls[i].row].fn, program.items[i]["args"], value_of, program.calls[i].type)


def difference(row, item, operands, want, got, made):
    """What is wrong with a result, or None. An error is permitted that the tolerance of the row explains, as an error
    of the result or of the operands.
    """
    if got.dtype.kind == "i":
        return None if np.array_equal(got, want) else f"{np.sum(got != want)} of {got.size} integers differ"
    with np.errstate(all="ignore"):
        return float_difference(row, item, operands, want, got, made)


def float_difference(row, item, operands, want, got, made):
    finite = np.isfinite(want)
    top = {"F16": 65504.0, "F32": 3.4e38}.get(made.type, np.inf)
    sure = ~(np.abs(want) > 0.99 * top) | ~finite  # the others may overflow or not
    if all(np.isfinite(x).all() for x in operands if isinstance(x, np.ndarray)):
        alike = not np.isfinite(got[~finite]).any()  # an overflow on the way may end as infinity or as NaN
    else:
        alike = np.array_equal(got[~finite], want[~finite], equal_nan=True)
    if not alike and not limits(operands):
        return f"not finite: {got[~finite][:3]}, expected {want[~finite][:3]}"
    finite &= sure
    if not finite.any():
        return None
    tol = 1.01 * EPS.get(made.type, 0) + row.tol
    w, g = want[finite], got[finite]
    allowed = tol * np.maximum(np.abs(w), np.mean(np.abs(w))) + TINY.get(made.type, 0)
    if item["fn"] == "mul_mat" and item["tol"] == 0.03:
        allowed = allowed + rounded_operand(row, operands)[finite]
    if np.all(np.abs(g - w) <= allowed):
        return None
    allowed = allowed + 4 * spread(row, operands, want, made, max(row.tol, 2.0**-21))[finite]
    ratio = np.where(np.isnan(g), np.inf, np.abs(g - w) / allowed)
    worst = np.argmax(ratio)
    if ratio[worst] <= 1:
        return None
    return (f"{g[worst]!r}, expected {w[worst]!r} (element {worst} of {w.size}, {ratio[worst]:.3g} times the "
            f"tolerance; {np.sum(ratio > 1)} are wrong)")  # fmt: skip


def limits(operands):
    """Whether an operand is so large that squares and products of it overflow in f32."""
    return any(isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.size and not np.nanmax(np.abs(x)) < 1e18
               for x in operands)  # fmt: skip


def spread(row, operands, want, made, tol):
    """How far the reference moves when the operands have relative errors of tol."""
    far, rng = np.zeros(want.shape), np.random.default_rng(0)
    for _ in range(8):
        near = [x * (1 + tol * rng.uniform(-1.5, 1.5, x.shape))
                if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in operands]  # fmt: skip
        moved = evaluate(row, near, made.shape, made.type, smooth=True)
        if moved is not None:
            far = np.maximum(far, np.nan_to_num(np.abs(moved - want), nan=0.0, posinf=0.0))
    return np.maximum(far, np.mean(far))


def rounded_operand(row, operands):
    """The error of a product whose second operand was rounded to 8 bits: of each element at most half a step, with
    random signs.
    """
    w, x = operands
    step = np.abs(x).max(-1, keepdims=True, initial=0) / 127
    return 8 * row.ref(w * w, np.ones_like(x)) ** 0.5 * step / 12**0.5


# ---- one instruction set against another -----------------------------------------------------------------------------
def cancels(program, i, got, values):
    """Whether errors of the operands of call i, each of its own, explain the difference of two results."""
    row, made = ROWS[program.calls[i].row], program.calls[i]
    operands = operands_of(program, i, lambda k, item: values[item])
    want = evaluate(row, operands, made.shape, made.type)
    if want is None or want.dtype.kind == "i":
        return False
    with np.errstate(all="ignore"):
        far = 16 * spread(row, operands, want, made, max(row.tol, 2.0**-21))
        return bool(np.all(np.abs(got - values[i]) <= far))


def apart(got, want, noisy, tol, type):
    """What differs between two instruction sets by more than errors of each operation explain; "unstable" if these
    errors change everything, "coarse" if only the errors of other elements or the spacing of the type explain it
    (what is computed from some of the elements may differ by more); None if nothing differs.
    """
    if want.dtype.kind == "i":
        stable = all(np.array_equal(x, want) for x in noisy)
        return None if np.array_equal(got, want) else "integers differ" if stable else "unstable"
    with np.errstate(all="ignore"):
        far = np.max([np.abs(x - want) for x in noisy], 0)
        known = np.isfinite(far) & np.isfinite(want)
        if not known.any():
            return None if np.array_equal(got, want, equal_nan=True) else "unstable"
        far, w, g = far[known], want[known], got[known]
        differs = np.where(np.isfinite(g), np.abs(g - w), np.inf)
        if np.all(differs <= 16 * far + 2 * max(tol, 2e-6) * np.abs(w)):
            return None
        allowed = 16 * np.maximum(far, far.mean()) + 2 * max(tol, 2e-6) * np.maximum(np.abs(w), np.abs(w).mean())
        ratio = differs / (allowed + 2 * TINY.get(type, 0))
        if ratio.max() <= 1:
            return "coarse"
        return f"{g[ratio.argmax()]!r} and {w[ratio.argmax()]!r}, {ratio.max():.3g} times what errors explain"


# ---- gradients against differences of the loss -----------------------------------------------------------------------
def loss_at(program, leaves):
    """The loss in float64, from the values of the leaves."""
    values = {}
    for i in range(len(program.items)):
        if i in leaves:
            values[i] = leaves[i]
            continue
        row, made = ROWS[program.calls[i].row], program.calls[i]
        operands = operands_of(program, i, lambda k, a: values[a])
        values[i] = evaluate(row, operands, made.shape, "F64", smooth=True)
        if values[i] is None:
            return np.nan
    return float(values[program.grads[1]].reshape(()))


def leaf_values(program):
    return {i: decoded(unpack(item["a"]), program.calls[i].type, program.calls[i].ne)
            for i, item in enumerate(program.items) if "type" in item}  # fmt: skip


def slope(program, leaves, direction, h):
    """The derivative of the loss along a direction, by differences of fourth order, and how much the slope differs
    from one side of this place to the other.
    """

    def at(s):
        return loss_at(program, {i: x + s * direction[i] if i in direction else x for i, x in leaves.items()})

    far, near, here = (at(2 * h), at(-2 * h)), (at(h), at(-h)), at(0)
    return (8 * (near[0] - near[1]) - far[0] + far[1]) / (12 * h), abs(sum(near) - 2 * here) / h


def gradients_of(program, found, first):
    """By parameter: its gradient, that of scalar, and those of the perturbed runs of scalar."""
    values = {k: [found["grads"][k], first["grads"][k], *(run[f"grad {k}"] for run in first["noisy"])]
              for k in found["grads"]}  # fmt: skip
    return {k: [gradient(program, int(k), v) for v in texts] for k, texts in values.items()}


def gradient(program, k, text):
    """The values of a gradient. Some operations give it the type of the parameter."""
    made, data = program.calls[k], unpack(text)
    wide = len(data) == 4 * int(np.prod(made.ne))
    return decoded(data, "F32" if wide else made.type, made.ne)


def gradient_problem(program, gradients, noisy):
    """ "checked", why there is no check, or what is wrong with the gradients: their product with a random direction
    against the slope of the float64 loss along it.
    """
    if any(item.get("fn") == "mul_mat" and item["tol"] == 0.03 for item in program.items):
        return "skipped: a product rounds to 8 bits"
    if any(made.row == "quantise" for made in program.calls):
        return "skipped: a result is quantised"
    leaves, rng = leaf_values(program), np.random.default_rng(program.seed)
    direction = {}
    for i in program.grads[0]:
        x = leaves[i]
        direction[i] = rng.choice((-1.0, 1.0), x.shape) * np.maximum(np.abs(x), np.mean(np.abs(x)) if x.size else 0)
    with np.errstate(all="ignore"):
        slopes, bends = zip(*(slope(program, leaves, direction, h) for h in (2e-4, 1e-4)), strict=True)

    def along(found):
        return [float((gradient(program, i, found[str(i)]) * direction[i]).sum())
                for i in program.grads[0] if str(i) in found]  # fmt: skip

    parts = along(gradients)
    got, size = sum(parts), sum(map(abs, parts)) + abs(slopes[1])
    kink = bends[1] > 1e-3 * size and bends[1] > 0.75 * bends[0]  # of a smooth loss, half the step halves the bend
    if not np.isfinite(slopes).all() or abs(slopes[0] - slopes[1]) > 1e-4 * size + 1e-12 or kink:
        return "skipped: not smooth"
    moved = [sum(along({i: run[f"grad {i}"] for i in gradients})) for run in noisy]
    allowed = 2e-3 * size + 16 * max((abs(m - got) for m in moved), default=0) + 1e-12
    if not np.isfinite(allowed):
        return "skipped: not finite"
    if np.isfinite(got) and abs(got - slopes[1]) <= allowed:
        return "checked"
    return f"the gradient along a direction is {got!r}, by differences {slopes[1]!r}"
