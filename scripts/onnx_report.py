"""Runs ONNX's own tests through ggml.onnx, plain and strict, and writes docs/onnx_operators.md.

python scripts/onnx_report.py                             all cases; writes the document
python scripts/onnx_report.py test_add 'test_cast_*' -v   some cases, with tracebacks
python scripts/onnx_report.py --check                     fails if a case fails that the document does not list
python scripts/onnx_report.py --compare                   also the reference evaluator, and onnxruntime if installed
"""

import argparse
import fnmatch
import functools
import sys
import textwrap
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "onnx_operators.md"


def array(value):
    """An operand of a case: tensors in messages become arrays."""
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def data_sets(case):
    """Pairs of inputs and expected outputs."""
    if case.data_sets is not None:
        return [tuple([array(v) for v in values] for values in pair) for pair in case.data_sets]
    pairs = []
    for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
        pair = []
        for kind in ("input", "output"):
            files = sorted(folder.glob(f"{kind}_*.pb"), key=lambda f: int(f.stem.rpartition("_")[2]))
            pair.append([numpy_helper.to_array(TensorProto.FromString(f.read_bytes())) for f in files])
        pairs.append(tuple(pair))
    return pairs


def model_of(case):
    """The ModelProto of a case."""
    return case.model if case.model is not None else onnx.load(Path(case.model_dir) / "model.onnx")


def check(got, wanted, rtol, atol):
    """Raises AssertionError if an output is not what the case expects."""
    if isinstance(wanted, (list, tuple)):
        assert isinstance(got, (list, tuple)) and len(got) == len(wanted), f"{len(wanted)} elements expected"
        for a, b in zip(got, wanted):
            check(a, b, rtol, atol)
        return
    if wanted is None:
        assert got is None, "an empty optional expected"
        return
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape, f"shape {got.shape}, not {wanted.shape}"
    if wanted.dtype.kind in "OUS":
        texts = [[v.decode() if isinstance(v, bytes) else str(v) for v in a.ravel()] for a in (got, wanted)]
        assert texts[0] == texts[1], "strings differ"
        return
    assert got.dtype == wanted.dtype, f"type {got.dtype}, not {wanted.dtype}"
    if wanted.dtype.kind == "V" or wanted.dtype.name not in np.sctypeDict:
        got, wanted = got.astype(np.float32), wanted.astype(np.float32)
    wrong = ~np.isclose(got, wanted, rtol=rtol, atol=atol, equal_nan=True)
    if wrong.any():
        first = tuple(np.argwhere(wrong)[0])
        text = f"{wrong.sum()} of {wrong.size} elements differ, the first: {got[first]}, not {wanted[first]}"
        raise AssertionError(text)


def outside(model):
    """Whether a model uses strings, sequences, optionals or ai.onnx.ml: types that no tensor library has."""
    if any(o.domain == "ai.onnx.ml" for o in model.opset_import):
        return True
    for info in [*model.graph.input, *model.graph.output]:
        kind = info.type.WhichOneof("value")
        if kind != "tensor_type" or info.type.tensor_type.elem_type == TensorProto.STRING:
            return True
    return any(n.op_type.startswith(("Sequence", "Optional", "String", "SplitToSequence")) for n in model.graph.node)


def through_ggml(strict):
    """A function (model, inputs) -> outputs."""
    import ggml.onnx

    loaded: dict = {}

    def run(model, inputs):
        if loaded.get("model") is not model:
            loaded.update(model=model, ready=ggml.onnx.load(model, strict=strict))
        return loaded["ready"].run(*inputs)

    return run


def through_reference(model, inputs):
    """The onnx package's reference evaluator."""
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model).run(None, dict(zip((i.name for i in model.graph.input), inputs)))


def through_onnxruntime(model, inputs):
    """onnxruntime on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return session.run(None, dict(zip((i.name for i in session.get_inputs()), inputs)))


def attempt(run, case, model, verbose=False):
    """ "" if a case passes, otherwise the reason in one line."""
    try:
        for inputs, outputs in data_sets(case):
            got = run(model, inputs)
            assert len(got) == len(outputs), f"{len(got)} outputs, not {len(outputs)}"
            for a, b in zip(got, outputs):
                check(a, b, case.rtol, case.atol)
    except Exception as error:
        if verbose:
            traceback.print_exc()
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        return textwrap.shorten(f"{kind}{error}", 240, placeholder=" ...") or "an assertion failed"
    return ""


def of_kind(kind, result):
    """Whether a result belongs to a group."""
    return result["kind"] == kind


def table(results, columns):
    """Rows of passed / all per group, in Markdown."""
    groups = {
        "node, all": lambda r: r["kind"] == "node",
        "node, without expanded copies": lambda r: r["kind"] == "node" and "_expanded" not in r["name"],
        "node, without strings, sequences, optionals, ai.onnx.ml": lambda r: r["kind"] == "node" and not r["outside"],
    }
    groups.update({k: functools.partial(of_kind, k) for k in KINDS[1:]})
    lines = ["| group | cases | " + " | ".join(columns) + " |", "| --- |" + " --- |" * (len(columns) + 1)]
    for name, belongs in groups.items():
        chosen = [r for r in results if belongs(r)]
        passed = [sum(not r[c] for r in chosen) for c in columns]
        shares = [f"{p} ({p / max(len(chosen), 1):.1%})" for p in passed]
        lines.append(f"| {name} | {len(chosen)} | " + " | ".join(shares) + " |")
    return lines


def document(results, columns):
    """The text of docs/onnx_operators.md."""
    passed = [r for r in results if not r["ggml"]]
    share = sum(not r["strict"] for r in passed) / max(len(passed), 1)
    lines = [
        "<!-- Generated by scripts/onnx_report.py: run it again instead of editing this file. -->",
        "# ONNX's own tests",
        "",
        f"The cases of `onnx.backend.test` of onnx {onnx.__version__} that pass. *strict* refuses to run",
        f"operators on the host: {share:.1%} of those that pass also pass so.",
        "",
        *table(results, columns),
        "",
        "## Cases that do not pass",
        "",
    ]
    lines += [f"- `{r['name']}`: {r['ggml']}" for r in results if r["ggml"]]
    lines += ["", "## Operators that run on the host", "", "| operator and reason | cases |", "| --- | --- |"]
    why = Counter(reason(r["strict"]) for r in results if r["strict"] and not r["ggml"])
    lines += [f"| {text} | {n} |" for text, n in why.most_common()]
    return "\n".join(lines) + "\n"


def listed():
    """The cases that the document lists as not passing."""
    return {line.split("`")[1] for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("- `")}


def reason(text):
    """The operator and the reason of a refusal of a strict model."""
    head, _, why = text.partition(" would run on the host, which strict=True refuses: ")
    return f"{head.rpartition('(')[2].rstrip(')')}: {why}" if why else text


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names or patterns (default: all)")
    parser.add_argument("-v", "--verbose", action="store_true", help="print tracebacks")
    parser.add_argument("--check", action="store_true", help="fail if a case fails that the document does not list")
    parser.add_argument("--compare", action="store_true", help="run the reference evaluator and onnxruntime too")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    columns = {"ggml": through_ggml(False), "strict": through_ggml(True)}
    if options.compare:
        columns["reference evaluator"] = through_reference
        try:
            import onnxruntime

            columns[f"onnxruntime {onnxruntime.__version__}"] = through_onnxruntime
        except ImportError:
            print("onnxruntime is not installed: NOT RUN")
    results, start = [], time.time()
    for kind in KINDS:
        for case in load_model_tests(kind=kind):
            if options.cases and not any(fnmatch.fnmatch(case.name, p) for p in options.cases):
                continue
            model = model_of(case)
            result = {"name": case.name, "kind": kind, "outside": outside(model)}
            for name, run in columns.items():
                result[name] = attempt(run, case, model, options.verbose)
            results.append(result)
            if options.cases:
                print(case.name, *(f"{c}: {result[c] or 'passes'}" for c in columns), sep="\n    ")
    print("\n".join(table(results, columns)), f"\n{time.time() - start:.0f} s")
    if options.check:
        new = [r["name"] for r in results if r["ggml"] and r["name"] not in listed()]
        print("\n".join(f"fails, but is not in {DOCUMENT.name}: {name}" for name in new))
        return bool(new)
    if not options.cases:
        DOCUMENT.write_text(document(results, columns), encoding="utf-8")
    return any(r["ggml"] for r in results) if options.cases else 0


if __name__ == "__main__":
    sys.exit(main())
