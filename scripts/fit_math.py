"""Fits the polynomials of ggml/_simd/vec/math.h again, and compares the header's coefficients with the best ones.

Each fit minimises the largest relative error of a function over an interval (Remez' algorithm, in float64). A
polynomial p of the header enters its function as base(x) + factor(x) p(x), so its error is weighed by factor(x) /
function(x). The header's coefficients are rounded to f32, which may add up to their half units in the last place to the
error.

Usage: scripts/fit_math.py [HEADER]    prints the fits; the exit status is 1 if coefficients of the header are none
"""

import math
import re
import sys
from pathlib import Path

import numpy as np

HEADER = Path(__file__).parents[1] / "ggml" / "_simd" / "vec" / "math.h"
LN2 = math.log(2)


def taylor(term):
    """The function x -> the sum over k of term(k) x^k."""
    c = np.array([term(k) for k in range(30)])
    return lambda x: np.polyval(c[::-1], x)


def log_rest(x):
    """(log(1 + x) - x + x^2 / 2) / x^3"""
    near = np.abs(x) < 0.03
    far = np.where(near, 1, x).astype(np.longdouble)
    exact = ((np.log1p(far) - far + far * far / 2) / far**3).astype(float)
    return np.where(near, taylor(lambda k: (-1) ** k / (k + 3))(x), exact)


def mills(v):
    """(t + 3.5) Phi(-t) exp(t^2 / 2) for v = (t - 3.5) / (t + 3.5)"""
    t = 3.5 * (1 + v) / (1 - v)
    tails = np.array([math.erfc(s / math.sqrt(2)) for s in t]) / 2
    return (t + 3.5) * tails * np.exp(t * t / 2)


def tail_log(centre, constant):
    """The function u -> (log2(Phi(-t) exp(t^2 / 2)) - constant) / u for t = centre + u"""

    def log_mills(t):
        return np.log2([math.erfc(s / math.sqrt(2)) / 2 for s in t]) + t * t / (2 * LN2)

    def fitted(u):
        near = np.abs(u) < 1e-3
        far = np.where(near, 1e-3, u)
        before, at, after = log_mills(centre + np.array([-1e-3, 0, 1e-3]))
        bend = (before - 2 * at + after) / 2e-6
        return np.where(near, (after - before) / 2e-3 + bend * u, (log_mills(centre + far) - constant) / far)

    return fitted


complement = np.vectorize(math.erfc, otypes=[float])
half_erf = taylor(lambda k: (-1) ** k / (math.factorial(k) * 2**k * (2 * k + 1) * math.sqrt(2 * math.pi)))

# what is fitted: where its coefficients stand in the header, how many stand before those that are fitted; p(x); the
# weight of the error of p(x); the interval
FITS = {
    "exp(x) - 1 = x + x^2 p(x)": (
        "gg_exp_c[] =", 2, taylor(lambda k: 1 / math.factorial(k + 2)),
        lambda x: x / np.where(x == 0, 1, np.expm1(x) / np.where(x == 0, 1, x)), (-LN2 / 2, LN2 / 2)),
    "log(1 + x) = x - x^2 / 2 + x^3 p(x)": (
        "float k[] =", 0, log_rest,
        lambda x: x * x / np.where(x == 0, 1, np.log1p(x) / np.where(x == 0, 1, x)), (-1 / 3, 1 / 3)),
    "exp(-x) = 1 + x p(x)": (
        "c[] = {1, -0.9999997f", 1, taylor(lambda k: (-1) ** (k + 1) / math.factorial(k + 1)),
        lambda x: x / np.exp(-x), (-LN2 / 2, LN2 / 2)),
    "2^x = 1 + x p(x)": (
        "c[] = {1, 0.693147004f", 1, taylor(lambda k: LN2 ** (k + 1) / math.factorial(k + 1)),
        lambda x: x / np.exp2(x), (-1 / 2, 1 / 2)),
    "exp(-x) = 1 + x p(x), for results in half precision": (
        "c[] = {1, -0.9999668f", 1, taylor(lambda k: (-1) ** (k + 1) / math.factorial(k + 1)),
        lambda x: x / np.exp(-x), (-LN2 / 2, LN2 / 2)),
    "Phi(-t) exp(t^2 / 2) = p(x) / (t + 3.5), x = (t - 3.5) / (t + 3.5)": (
        "c[] = {5.24432e-09f", 0, mills, lambda x: 1 / mills(x), (-1, 11.5 / 18.5)),        # t up to 15
    "Phi(t) = 1/2 + t p(x), x = t^2": (
        "c[] = {0.398942292f", 0, half_erf,
        lambda x: np.sqrt(x) / (0.5 - np.sqrt(x) * half_erf(x)), (0, 0.49)),
    "Phi(-t) exp(t^2 / 2) = 2^(u p(u) - 2.40625), u = t - 1.70509565": (
        "gg_tail_near[] =", 0, tail_log(1.70509565, -2.40625), lambda u: LN2 * np.maximum(np.abs(u), 0.01),
        (-1.70509565, 5.5 - 1.70509565)),
    "Phi(-t) exp(t^2 / 2) = 2^(u p(u) - 4.54522705078125), u = t - 9.2083292": (
        "gg_tail_far[] =", 0, tail_log(9.2083292, -4.54522705078125), lambda u: LN2 * np.maximum(np.abs(u), 0.01),
        (5.5 - 9.2083292, 14.5 - 9.2083292)),
    "2^x = 1 + x p(x), of 7 coefficients": (
        "e[] = {1, 0.693147182f", 1, taylor(lambda k: LN2 ** (k + 1) / math.factorial(k + 1)),
        lambda x: x / np.exp2(x), (-1 / 2, 1 / 2)),
    "erf(x) = 1 - exp(-x p(x))": (
        "c[] = {1.12847781f", 0, lambda x: -np.log(complement(x)) / x,
        lambda x: x * complement(x) / (1 - complement(x)), (0.5, 3.95)),
    "sin(r) = r + r^3 p(x), x = r^2": (
        "float s[] =", 0, taylor(lambda k: (-1) ** (k + 1) / math.factorial(2 * k + 3)),
        lambda x: x / np.sinc(np.sqrt(x) / math.pi), (0, (math.pi / 4) ** 2)),
    "cos(r) = 1 - r^2 / 2 + r^4 p(x), x = r^2": (
        "c[] = {0.0416666456f", 0, taylor(lambda k: (-1) ** k / math.factorial(2 * k + 4)),
        lambda x: x * x / np.cos(np.sqrt(x)), (0, (math.pi / 4) ** 2)),
}  # fmt: skip


def remez(f, weight, interval, n):
    """The polynomial of n coefficients with the least largest error |weight(x) (p(x) - f(x))|."""
    a, b = interval
    grid = (a + b) / 2 - (b - a) / 2 * np.cos(np.linspace(0, np.pi, 20001))
    values, weights = f(grid), np.abs(weight(grid))
    at = np.round((1 - np.cos(np.pi * (np.arange(n + 1) + 0.5) / (n + 1))) / 2 * (len(grid) - 1)).astype(int)
    for _ in range(30):
        signs = (-1.0) ** np.arange(n + 1) / np.maximum(weights[at], 1e-30)
        system = np.column_stack([np.vander(grid[at], n, increasing=True), signs])
        c = np.linalg.solve(system, values[at])[:n]
        error = weights * (np.polyval(c[::-1], grid) - values)
        parts = np.split(np.arange(len(grid)), np.flatnonzero(np.diff(np.sign(error))) + 1)
        peaks = [part[np.abs(error[part]).argmax()] for part in parts]
        while len(peaks) > n + 1:
            peaks = peaks[1:] if abs(error[peaks[0]]) < abs(error[peaks[-1]]) else peaks[:-1]
        if len(peaks) <= n or (np.array(peaks) == at).all():
            break
        at = np.array(peaks)
    return c


def header_coefficients(text, mark, skip):
    """The numbers of the list that begins at `mark`, without the first `skip`."""
    start = text.index(mark)
    numbers = text[text.index("{", start) + 1 : text.index("}", start)]
    return np.array([float(number.rstrip("f")) for number in re.split(r",\s*", numbers.strip())][skip:])


def compare(text):
    """Yields name, the header's coefficients, the best ones, the largest error of both, and what rounding may add."""
    for name, (mark, skip, f, weight, (a, b)) in FITS.items():
        theirs = header_coefficients(text, mark, skip)
        if f is mills:
            theirs[0] += 0.744416058  # its constant has two parts
        best = remez(f, weight, (a, b), len(theirs))
        x = np.linspace(a, b, 40001)[1:-1]
        weights, values = np.abs(weight(x)), f(x)
        errors = [float(np.max(weights * np.abs(np.polyval(c[::-1], x) - values))) for c in (theirs, best)]
        ulps = np.spacing(np.abs(theirs).astype(np.float32)).astype(float) / 2
        yield name, theirs, best, errors, float(np.max(weights * np.polyval(ulps[::-1], np.abs(x))))


def main():
    text = Path(sys.argv[1] if len(sys.argv) > 1 else HEADER).read_text(encoding="utf-8")
    wrong = False
    for name, theirs, best, errors, rounding in compare(text):
        print(
            f"{name}\n  largest relative error 2^{np.log2(errors[0]):.2f}, of the best 2^{np.log2(errors[1]):.2f}, "
            f"rounded coefficients add at most 2^{np.log2(rounding):.2f}"
        )
        for a, b in zip(theirs, best):
            print(f"  {np.float32(a):.9g}  {np.float32(b):.9g}")
        wrong |= errors[0] > 1.02 * errors[1] + rounding
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
