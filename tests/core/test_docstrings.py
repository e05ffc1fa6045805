"""The docstrings of the public functions: summary, parameters, result, exceptions; no two alike.

The form is that of the functions themselves:

    Summary of one line, which ends in a period.

    Further sentences, if needed.

    Args:
        name: meaning; for a tensor, its shape and type.
    Returns:
        Meaning of the result.
    Raises:
        ValueError: cause.
"""

import inspect
import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

import ggml
import ggml.legacy

API = json.loads((Path(__file__).parents[1] / "data" / "api_current.json").read_text())
FACTS = {f["name"]: f for f in API["functions"]}

COLUMNS = 116  # of a line without the indentation of the docstring
HEADINGS = ("Args", "Returns", "Raises", "Example", "Note", "See also")
SHAPE = re.compile(r"\[[^\]]*\]|any shape|shape of|scalar|NULL")
TYPE = re.compile(
    r"\b([fi]\d+|bf16|q\d\w*|any type|any other type|quantised|type of|type as|same type)\b|any tensor|'s type|NULL"
)


# ---- the rules -------------------------------------------------------------------------------------------------------


def sections(doc):
    """The text below each heading; that before the first heading has the key ""."""
    parts, current = {"": []}, ""
    for line in doc.splitlines():
        heading = line.removesuffix(":")
        if line.endswith(":") and heading in HEADINGS:
            current = heading
            parts[current] = []
        else:
            parts[current].append(line)
    return {heading: "\n".join(lines).strip("\n") for heading, lines in parts.items()}


def entries(section):
    """The entries of a section as (name, text) in order. A continuation line is indented by more than its entry."""
    found = []
    for line in section.splitlines():
        entry = re.match(r" {4}(\*{0,2}\w+)(?: \([^)]*\))?: *(.*)", line)
        if entry:
            found.append((entry[1], entry[2]))
        elif found and line.startswith(" " * 8):
            name, text = found[-1]
            found[-1] = (name, f"{text} {line.strip()}")
    return found


def form_problems(doc):
    """What is wrong with the summary and the lines."""
    lines = doc.splitlines()
    if not lines or not lines[0].strip():
        return ["has no summary"]
    found = []
    if not lines[0].endswith("."):
        found.append(f"the summary {lines[0]!r} is not a line that ends in a period")
    if len(lines) > 1 and lines[1].strip():
        found.append("no blank line follows the summary")
    found += [f"a line has {len(line)} columns, at most {COLUMNS}: {line!r}" for line in lines if len(line) > COLUMNS]
    return found


def args_problems(doc, parameters, tensors):
    """What is wrong with the entries of the parameters. `parameters` are the names, with the stars of *args."""
    if not parameters:
        return []
    parts = sections(doc)
    if "Args" not in parts:
        return ["has no section Args"]
    described = entries(parts["Args"])
    names = [name for name, _ in described]
    if parameters[-1].startswith("*"):  # entries that follow may explain what *args stands for
        names = names[: len(parameters)]
    if names != parameters:
        return [f"Args describes {names}, not {parameters}"]
    found = [f"the entry of {name} is empty" for name, text in described if not text.strip()]
    for name, text in described:
        if name in tensors and not SHAPE.search(text):
            found.append(f"the entry of the tensor {name} has no shape: {text!r}")
        if name in tensors and not TYPE.search(text):
            found.append(f"the entry of the tensor {name} has no type: {text!r}")
    return found


def result_problems(doc, parameters):
    """What is wrong with the sections Returns and Raises. A function without parameters need not raise."""
    parts = sections(doc)
    found = []
    if not parts.get("Returns", "").strip():
        found.append("has no section Returns, or an empty one")
    if parameters and "Raises" not in parts:
        found.append("has no section Raises")
    elif "Raises" in parts:
        raised = [name for name, text in entries(parts["Raises"]) if text]
        if not raised or not all(re.fullmatch(r"\w*(Error|Interrupt|Exception)", name) for name in raised):
            found.append("Raises names no exception with its cause")
    return found


def problems(doc, parameters=(), tensors=()):
    """What is wrong with a docstring. `tensors` are the parameters that are tensors."""
    parameters = list(parameters)
    return form_problems(doc) + args_problems(doc, parameters, tensors) + result_problems(doc, parameters)


def repeated(docs):
    """The names whose text or summary another name has too, from a dict of docstrings."""
    texts, summaries = defaultdict(list), defaultdict(list)
    for name, doc in docs.items():
        texts[" ".join(doc.split())].append(name)
        summaries[doc.partition("\n")[0].strip()].append(name)
    return sorted({tuple(names) for names in [*texts.values(), *summaries.values()] if len(names) > 1})


# ---- the functions ---------------------------------------------------------------------------------------------------


def functions(module):
    """The public functions of a module by name: those of the C library, not classes and types."""
    named = {name: f for name, f in vars(module).items() if name.startswith(("ggml_", "gguf_")) or name in FACTS}
    named = {name: f for name, f in named.items() if name not in ggml.ext._MOVED}
    return {name: f for name, f in named.items() if callable(f) and not inspect.isclass(f) and not is_new_type(f)}


def is_new_type(value):
    return hasattr(value, "__supertype__")


CURRENT, LEGACY = functions(ggml), functions(ggml.legacy)
ADDITIONS = {name: getattr(ggml.ext, name) for name in ggml.ext.__all__}
STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def parameters_of(function):
    return [STARS.get(p.kind, "") + p.name for p in inspect.signature(function).parameters.values()]


def tensors_of(name):
    """The parameters of a function that are tensors according to the manifest."""
    facts = FACTS.get(name, {})
    types = (facts.get("argtypes") or "").strip("[]").split(", ")
    return {p for p, type_ in zip(facts.get("params", []), types) if type_ == "ctypes.POINTER(ggml_tensor)"}


def test_every_function_of_the_manifest_is_checked():
    assert len(FACTS) == 793 and set(FACTS) - set(CURRENT) == set()


@pytest.mark.parametrize("name", CURRENT)
def test_docstring(name):
    doc = inspect.cleandoc(CURRENT[name].__doc__ or "")
    assert problems(doc, parameters_of(CURRENT[name]), tensors_of(name)) == [], name


@pytest.mark.parametrize("name", LEGACY)
def test_docstring_of_the_functions_of_may_2023(name):
    doc = inspect.cleandoc(LEGACY[name].__doc__ or "")
    assert problems(doc, parameters_of(LEGACY[name])) == [], name


@pytest.mark.parametrize("name", ADDITIONS)
def test_docstring_of_additions(name):
    doc = inspect.cleandoc(ADDITIONS[name].__doc__ or "")
    tensors = {"a", "b", "scale", "bias"} & set(parameters_of(ADDITIONS[name]))
    assert problems(doc, parameters_of(ADDITIONS[name]), tensors) == [], name


@pytest.mark.parametrize("named", [CURRENT | ADDITIONS, LEGACY], ids=["current", "legacy"])
def test_no_two_docstrings_are_alike(named):
    assert repeated({name: inspect.cleandoc(f.__doc__ or "") for name, f in named.items()}) == []


# ---- the rules find faults -------------------------------------------------------------------------------------------

GOOD = """Multiplies matrices: result = b @ a.T.

Further sentences.

Args:
    ctx: context that receives the result.
    a: f32 or f16, [k, n, ne2, ne3]. This sentence
        continues.
    n: number of rows.
Returns:
    f32 tensor [n, m].
Raises:
    ValueError: the sizes differ.
    MemoryError: the context is full.
See also:
    ggml_mul_mat_id.
"""
NAMES, TENSORS = ["ctx", "a", "n"], {"a"}


def changed(before, after):
    assert before in GOOD
    return GOOD.replace(before, after)


def test_a_good_docstring_has_no_problems():
    assert problems(GOOD, NAMES, TENSORS) == []
    assert problems("Counts ticks.\n\nReturns:\n    Ticks (int).") == []


def test_entries_after_stars_explain_them():
    doc = GOOD.replace("    n: number of rows.\n", "    *args: (rows) or (rows, columns).\n    rows: a number.\n")
    assert problems(doc, ["ctx", "a", "*args"], TENSORS) == []
    assert problems(doc, ["ctx", "*args"], TENSORS) != [] != problems(doc, ["ctx", "a"], TENSORS)


@pytest.mark.parametrize(
    "doc, message",
    [
        ("", "has no summary"),
        (changed("b @ a.T.", "b @ a.T"), "ends in a period"),
        (changed("b @ a.T.\n", "b @ a.T,\nwhich\n"), "ends in a period"),
        (changed("T.\n\nFurther", "T.\nFurther"), "no blank line follows the summary"),
        (changed("Further", "Further" + " x" * 60), "has 138 columns, at most 116"),
        (changed("Args:", "Arguments:"), "no section Args"),
        (changed("    ctx: context that receives the result.\n", ""), r"Args describes \['a', 'n'\], not \['ctx', 'a'"),
        (changed("    n: number of rows.\n", ""), r"Args describes \['ctx', 'a'\], not "),
        (changed("    n: number of rows.\n", "    n: number of rows.\n    b: no parameter.\n"), "describes .*'b'"),
        (changed("ctx: ", "n: ").replace("n: number", "ctx: number"), r"Args describes \['n', 'a', 'ctx'\], not "),
        (changed("number of rows.", ""), "the entry of n is empty"),
        (changed("[k, n, ne2, ne3]", "weights"), "the tensor a has no shape"),
        (changed("f32 or f16, ", ""), "the tensor a has no type"),
        (changed("    f32 tensor [n, m].\n", ""), "no section Returns, or an empty one"),
        (changed("Returns:\n    f32 tensor [n, m].\n", ""), "no section Returns, or an empty one"),
        (changed("Raises:", "Errors:"), "has no section Raises"),
        (changed("ValueError: the", "the").replace("MemoryError: the", "the"), "Raises names no exception"),
        (changed("ValueError: ", "faults: "), "Raises names no exception"),
    ],
)  # fmt: skip
def test_a_fault_is_found(doc, message):
    found = problems(doc, NAMES, TENSORS)
    assert any(re.search(message, problem) for problem in found), found


def test_equal_texts_and_summaries_are_found():
    one, other = "Adds.\n\nReturns:\n    Sum.", "Subtracts.\n\nReturns:\n    Difference."
    assert repeated({"a": one, "b": other}) == []
    assert repeated({"a": one, "b": other, "c": "Adds.\n\n  Returns:\n  Sum."}) == [("a", "c")]
    assert repeated({"a": one, "b": one + "\n    More."}) == [("a", "b")]


WITHOUT_OPERANDS = ("ggml_new_", "ggml_dup_tensor", "ggml_get_")  # these make tensors that nothing computes


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, facts in FACTS.items()
        if facts["params"][:1] == ["ctx"] and "ggml_tensor" in str(facts.get("restype"))
        if not name.startswith((*WITHOUT_OPERANDS, "gguf_"))
    ],
)
def test_builders_say_whether_there_is_a_gradient(name):
    assert "gradient" in getattr(ggml, name).__doc__.lower(), "the docstring does not say to what the gradient flows"
