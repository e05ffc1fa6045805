"""ggml_opt: minimises a scalar by its parameters, by Adam (arXiv:1412.6980) or L-BFGS with a backtracking line search.

Values and gradients come from the engine's graphs in f32; what is done with them is NumPy in f64.
"""

from collections import deque

import numpy as np

import ggml

from ._arena import Tensor, api, contexts
from ._graph import compute, expand, ggml_build_backward, nodes_of, print_graph, reset
from ._structs import constants, ggml_cgraph, ggml_init_params, ggml_opt_params
from ._tensors import ggml_free, ggml_init

OK, DID_NOT_CONVERGE, NO_CONTEXT, INVALID_WOLFE, FAIL = range(5)
SEARCH_FAIL, SEARCH_MINIMUM_STEP, SEARCH_MAXIMUM_STEP, SEARCH_MAXIMUM_ITERATIONS, SEARCH_INVALID = range(-128, -123)
ARMIJO, WOLFE, STRONG_WOLFE = range(3)
ADAM, LBFGS = range(2)
SHRINK, GROW = 0.5, 2.1  # of a line search's step
DEFAULT_ARENA = 16 << 20
RESOLUTION = float(np.finfo(np.float32).eps)  # values that differ by less, relatively, may be equal


@api
def ggml_opt_default_params(type: int):
    """Gives the default settings of an optimiser for ggml_opt, to be changed by the caller.

    Both print the forward and the backward graph; set print_forward_graph and print_backward_graph to False to
    avoid that. Adam: at most 10000 iterations, alpha 0.001, beta1 0.9, beta2 0.999, eps_f 1e-5. L-BFGS: 6
    corrections, at most 100 iterations of at most 20 evaluations, Wolfe conditions.

    Args:
        type: GGML_OPT_ADAM or GGML_OPT_LBFGS.
    Returns:
        A new ggml_opt_params.
    Raises:
        TypeError: type is not an integer.
        ValueError: type is neither of the two.
    """
    if type not in (ADAM, LBFGS):
        raise ValueError(f"type is {type}: need GGML_OPT_ADAM or GGML_OPT_LBFGS")
    p = ggml_opt_params(type=type, n_threads=1, past=0, delta=1e-5, print_forward_graph=True, print_backward_graph=True)
    if type == ADAM:
        p.max_no_improvement = 100
        a = p.adam
        a.n_iter, a.alpha, a.beta1, a.beta2, a.eps, a.eps_f, a.eps_g = 10000, 0.001, 0.9, 0.999, 1e-8, 1e-5, 1e-3
    else:
        b = p.lbfgs
        b.m, b.n_iter, b.max_linesearch, b.eps, b.ftol, b.wolfe = 6, 100, 20, 1e-5, 1e-4, 0.9
        b.min_step, b.max_step, b.linesearch = 1e-20, 1e20, constants["GGML_LINESEARCH_DEFAULT"]
    return p


class Diverged(Exception):
    """The value or the gradient is not finite."""


class Objective:
    """The scalar as a function of one vector: all parameters' elements, one after the other."""

    def __init__(self, ctx, f, params):
        self.ctx, self.f = ctx, f
        self.forward = ggml_cgraph(n_threads=params.n_threads)
        expand(self.forward, f)
        self.parameters = [t for t in nodes_of(self.forward) if t.struct.is_param]
        if not self.parameters:
            raise ValueError("f depends on no parameter: call ggml_set_param on the tensors to change")
        for t in self.parameters:
            if t.struct.type != ggml.GGML_TYPE_F32:
                raise ValueError(f"parameter {t.label()} is not f32")
        self.backward = ggml_build_backward(ctx.engine, self.forward, True)
        if params.print_forward_graph:
            print_graph(self.forward)
        if params.print_backward_graph:
            print_graph(self.backward)
        self.at = [np.asarray(t.twin) for t in self.parameters]
        self.grads = [np.asarray(t.grad.twin) for t in self.parameters]

    def start(self):
        return np.concatenate([a.ravel() for a in self.at]).astype(np.float64)

    def __call__(self, x):
        """Value and gradient at x, which the parameters then hold."""
        self.set(x)
        reset(self.forward)
        ggml.ggml_set_f32(self.f.grad.twin, 1.0)
        compute(self.ctx, self.backward)
        value = ggml.ggml_get_f32_1d(self.f.twin, 0)
        gradient = np.concatenate([g.ravel() for g in self.grads]).astype(np.float64)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            raise Diverged
        return value, gradient

    def set(self, x):
        i = 0
        for a in self.at:
            a[...] = x[i : i + a.size].reshape(a.shape)
            i += a.size


class Progress:
    """The stops that both optimisers share: a small change over `past` iterations, none better for a while."""

    def __init__(self, params, value):
        self.delta, self.patience = params.delta, params.max_no_improvement
        self.earlier = deque([value], maxlen=params.past) if params.past > 0 else None
        self.best, self.worse = value, 0

    def done(self, value):
        if self.earlier is not None:
            full = len(self.earlier) == self.earlier.maxlen
            if full and abs(self.earlier[0] - value) < self.delta * abs(value):
                return True
            self.earlier.append(value)
        if self.patience > 0:
            self.worse = 0 if value < self.best else self.worse + 1
            self.best = min(self.best, value)
            return self.worse >= self.patience
        return False


def adam(objective, params):
    p = params.adam
    x = objective.start()
    m, v = np.zeros_like(x), np.zeros_like(x)
    value, gradient = objective(x)
    progress = Progress(params, value)
    for t in range(1, p.n_iter + 1):
        m = p.beta1 * m + (1 - p.beta1) * gradient
        v = p.beta2 * v + (1 - p.beta2) * gradient * gradient
        x -= p.alpha * (m / (1 - p.beta1**t)) / (np.sqrt(v / (1 - p.beta2**t)) + p.eps)
        before = value
        value, gradient = objective(x)
        if abs(value - before) < p.eps_f * abs(value) or value == before or progress.done(value):
            return OK
    return DID_NOT_CONVERGE


def line_search(objective, x, value, gradient, direction, step, p):
    """Shrinks or grows the step until the conditions of p.linesearch hold: (status, x, value, gradient) there."""
    slope, noise = gradient @ direction, RESOLUTION * abs(value)
    if step <= 0:
        return SEARCH_INVALID, x, value, gradient
    if slope > 0:
        return SEARCH_FAIL, x, value, gradient
    for _ in range(p.max_linesearch):
        new = x + step * direction
        try:
            new_value, new_gradient = objective(new)
        except Diverged:
            new_value, new_gradient = np.inf, gradient
        new_slope = new_gradient @ direction
        if new_value > value + step * p.ftol * slope + noise:
            factor = SHRINK
        elif p.linesearch == ARMIJO:
            return OK, new, new_value, new_gradient
        elif new_slope < p.wolfe * slope:
            factor = GROW
        elif p.linesearch == STRONG_WOLFE and new_slope > -p.wolfe * slope:
            factor = SHRINK
        else:
            return OK, new, new_value, new_gradient
        if step < p.min_step:
            return SEARCH_MINIMUM_STEP, x, value, gradient
        if step > p.max_step:
            return SEARCH_MAXIMUM_STEP, x, value, gradient
        step *= factor
    return SEARCH_MAXIMUM_ITERATIONS, x, value, gradient


def newton_direction(gradient, corrections):
    """-H gradient, by the two loops over the corrections (s, y, s.y), oldest first (Nocedal and Wright, algorithm 7.4)."""
    d, weights = -gradient, []
    for s, y, sy in reversed(corrections):
        weights.append((s @ d) / sy)
        d = d - weights[-1] * y
    if corrections:
        s, y, sy = corrections[-1]
        d *= sy / (y @ y)
    for s, y, sy in corrections:
        d = d + (weights.pop() - (y @ d) / sy) * s
    return d


def lbfgs(objective, params):
    p = params.lbfgs
    if p.linesearch in (WOLFE, STRONG_WOLFE) and not p.ftol < p.wolfe < 1:
        return INVALID_WOLFE
    x = objective.start()
    value, gradient = objective(x)
    progress = Progress(params, value)
    corrections: deque = deque(maxlen=max(1, p.m))
    k = 0
    while np.linalg.norm(gradient) > p.eps * max(1.0, np.linalg.norm(x)):
        if p.n_iter and k >= p.n_iter:
            return DID_NOT_CONVERGE
        k += 1
        direction = newton_direction(gradient, corrections)
        step = 1.0 if corrections else 1 / np.linalg.norm(direction)
        before = value
        status, new, value, new_gradient = line_search(objective, x, value, gradient, direction, step, p)
        if status != OK:
            objective(x)
            return status
        s, y = new - x, new_gradient - gradient
        if s @ y > 0:  # what keeps the approximation positive definite
            corrections.append((s, y, s @ y))
        x, gradient = new, new_gradient
        if abs(value - before) <= RESOLUTION * abs(before) or progress.done(value):
            return OK
    return OK


@api
def ggml_opt(ctx, params, f: Tensor):
    """Minimises a scalar with respect to the parameters that it depends on.

    Adam (arXiv:1412.6980) or L-BFGS (Nocedal and Wright, algorithm 7.4) with a backtracking line search. Values and
    gradients are computed in f32, the iteration in f64. The parameters hold the values of the last iteration
    afterwards.

    Args:
        ctx: context for the backward pass, or None for a temporary one of 16 MiB, which is freed at the end: the
            field `grad` of the nodes of f is not valid afterwards.
        params: ggml_opt_params (see ggml_opt_default_params).
        f: f32 scalar [1] that depends on f32 parameters (see ggml_set_param).
    Returns:
        GGML_OPT_OK, or why it stopped: GGML_OPT_DID_NOT_CONVERGE (all iterations used), GGML_OPT_NO_CONTEXT (no
        memory for the temporary context), GGML_OPT_INVALID_WOLFE (ftol < wolfe < 1 does not hold), GGML_OPT_FAIL (a
        value or gradient is not finite), or GGML_LINESEARCH_* (the line search found no step).
    Raises:
        TypeError: params is not a ggml_opt_params, or f is not a tensor.
        ValueError: f is not an f32 scalar, it depends on no parameter or on one that is not f32, or the type or
            linesearch of params is unknown.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the context is full, or the backward graph has too many nodes.
    """
    if not isinstance(params, ggml_opt_params):
        raise TypeError(f"params is {params!r:.60}: need ggml_opt_params")
    if params.type not in (ADAM, LBFGS) or params.lbfgs.linesearch not in (ARMIJO, WOLFE, STRONG_WOLFE):
        raise ValueError(f"params.type is {params.type}, linesearch {params.lbfgs.linesearch}: need GGML_OPT_*, GGML_LINESEARCH_*")
    if f.struct.type != ggml.GGML_TYPE_F32 or ggml.ggml_nelements(f.twin) != 1:
        raise ValueError(f"f ({f.label()}) is no scalar: need one f32")
    own = None
    if ctx is None:
        try:
            own = ctx = ggml_init(ggml_init_params(mem_size=DEFAULT_ARENA, mem_buffer=None, no_alloc=False))
        except MemoryError:
            return NO_CONTEXT
    try:
        return _optimise(ctx, params, f)
    finally:
        if own is not None:
            ggml_free(own)


def _optimise(ctx, params, f):
    handle = getattr(ctx, "value", ctx)
    if handle not in contexts:
        raise RuntimeError(f"ctx ({ctx!r:.60}) is no live context: freed, or never made")
    objective = Objective(contexts[handle], f, params)
    try:
        return (adam if params.type == ADAM else lbfgs)(objective, params)
    except Diverged:
        return FAIL
