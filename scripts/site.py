"""Writes what the documentation site is built from: all pages into build/pages, and build/site.yml from mkdocs.yml.

    python scripts/site.py && zensical build --strict -f build/site.yml

The site's tree is that of the repository, so that relative links are right in both: the folder docs/, the other pages
that the README leads to, and the files that pages link to. Generated are the reference (from the stubs and the modules'
docstrings) and the results on the page docs/performance.md (by scripts/site_plots.py from benchmarks/results).
"""

import ast
import posixpath
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import site_plots  # noqa: E402

PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md", "benchmarks/README.md")
STUB = "ggml/__init__.pyi"
# The reference: title, and the modules whose functions the page describes. Each module in _ops has a page of its own.
ROOMS = (
    ("Contexts", ["_core"]),
    ("Creating tensors", ["_tensor/create"]),
    ("Properties of tensors", ["_tensor/properties"]),
    ("Values of tensors", ["_tensor/values"]),
    ("Graphs and gradients", ["_graph/graph", "_graph/grad", "_graph/graph_copy", "_io/export"]),
    ("Allocating graphs", ["_graph/alloc"]),
    ("Scheduler", ["_graph/sched"]),
    ("Training", [f"_graph/opt{part}" for part in ("", "_dataset", "_params", "_result", "_fit", "_checkpoint")]),
    ("Backends and devices", ["_backend/backend", "_backend/registry", "_backend/device", "_backend/meta"]),
    ("Buffers and copies", ["_backend/buffer", "_backend/transfer"]),
    ("GGUF files", ["_io/gguf", "_io/gguf_read", "_io/gguf_write"]),
    ("Quantised types", ["_io/quants", "_system/numbers"]),
    ("CPU, threads and messages", ["_system/cpu", "_system/threadpool", "_system/messages"]),
)
MODULES = {  # what each is
    "ggml.ext": "operations and options that the C library does not have",
    "ggml.utils": "NumPy arrays, DLPack and other helpers",
    "ggml.training": "helpers for training",
    "ggml.models": "language models",
    "ggml.onnx": "ONNX models",
    "ggml.distributed": "collectives over MPI, training on several machines",
    "ggml.profiler": "where the time and memory of computes go",
    "ggml.view": "how tensors, graphs and files show themselves",
}
FENCE = re.compile(r"^ *(```|~~~)")
LINK = re.compile(r"(?<!!)\[([^\[\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
NAMED_FUNCTION = re.compile(r"(?<![\[`])`(g(?:gml|guf)_\w+)(?:\(\))?`(?![`\]])")


def stub_tree():
    return ast.parse((ROOT / STUB).read_text(encoding="utf-8"))


def summary(module):
    """The first paragraph of the docstring of a Cython module, as one line."""
    if module == "_core":  # its docstring is about what other modules take from it
        return "Contexts: creating them, how much memory they take, emptying and freeing them."
    found = re.match(r'\s*r?"""(.*?)(?:\n\n|""")', (ROOT / "ggml" / f"{module}.pyx").read_text(encoding="utf-8"), re.S)
    return " ".join(found[1].split()) if found else ""


def functions_by_module(names):
    """{module: the public functions that it defines}; what no Cython module defines is under "generated"."""
    found, left = {}, set(names)
    for path in sorted((ROOT / "ggml").rglob("*.pyx")):
        module = path.relative_to(ROOT / "ggml").with_suffix("").as_posix()
        defined = re.findall(r"^def (g(?:gml|guf)_\w+)\(", path.read_text(encoding="utf-8"), re.M)
        found[module] = [name for name in defined if name in left]
        left -= set(found[module])
    unary = re.findall(r"^UNARY\(\d+, +(\w+)", (ROOT / "ggml/_simd/tables/unary.h").read_text(encoding="utf-8"), re.M)
    made = [f"ggml_{name.lower()}{form}" for name in unary for form in ("", "_inplace")]  # in a loop over the table
    found["_ops/unary"] = [name for name in made if name in left] + found["_ops/unary"]
    left -= set(made)
    found["_io/gguf"] += sorted(name for name in left if name.startswith("gguf_"))  # made in a loop over types
    found["generated"] = sorted(name for name in left if not name.startswith("gguf_"))
    return found


def reference_page(title, intro, objects):
    """A page on which mkdocstrings describes objects."""
    return "\n\n".join([f"# {title}", intro, *(f"::: {name}" for name in objects)]) + "\n"


def module_page(module):
    """A page on which mkdocstrings describes a module, with the methods that its classes inherit."""
    options = ("inherited_members: true", "show_root_heading: false", "show_root_toc_entry: false")
    return "\n".join([f"# {module}\n", f"::: {module}", "    options:", *(f"      {line}" for line in options)]) + "\n"


def constants_page(tree):
    rows = [
        f"| `{ast.unparse(node.target)}` | `{ast.unparse(node.value)}` |"
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and node.value and ast.unparse(node.annotation) == "Final"
    ]
    return "# Constants\n\n| name | value |\n| --- | ---: |\n" + "\n".join(rows) + "\n"


def structs_page(tree):
    parts = ["# Structs", "The structs of the C library as `ctypes.Structure`. *Type* is what reading the field gives."]
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "ctypes.Structure" for base in node.bases):
            parts += [f"## {node.name}", ast.get_docstring(node) or ""]
            # field: _Field[what reading gives, what may be written]
            fields = [
                (ast.unparse(field.target), field.annotation.slice.elts[0])
                for field in node.body
                if isinstance(field, ast.AnnAssign)
                and isinstance(field.annotation, ast.Subscript)
                and isinstance(field.annotation.slice, ast.Tuple)
            ]
            if fields:
                lines = [
                    f"| `{name}` | `{ast.unparse(type_)}` |".replace(" | None`", "` or None") for name, type_ in fields
                ]
                parts.append("\n".join(["| field | type |", "| --- | --- |", *lines]))
    return "\n\n".join(parts) + "\n"


def reference():
    """The pages of the reference: {path: text}, in the order of the navigation."""
    tree = stub_tree()
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    modules = functions_by_module(names)
    pages = {}
    index = [
        "# Reference",
        "The functions of `ggml` by subject, then the modules beside them.",
        "| page | about |\n| --- | --- |",
    ]

    def add(path, title, about, text):
        pages[f"docs/api/{path}.md"] = text
        index[-1] += f"\n| [{title}]({path}.md) | {about} |"

    def add_modules(path, title, sources):
        listed = [f"ggml.{name}" for source in sources for name in modules.pop(source)]
        about = summary(sources[0])
        add(path, title, about, reference_page(title, about, listed))

    for title, sources in ROOMS:
        add_modules(re.sub(r"\W+", "_", title.lower()), title, sources)
    for module in sorted(name for name in modules if name.startswith("_ops/")):
        add_modules("op_" + module[5:], f"Operations: {module[5:]}", [module])
    for module, about in MODULES.items():
        add(module.replace(".", "_"), module, about, module_page(module))
    add("structs", "Structs", "the structs and their fields", structs_page(tree))
    add("constants", "Constants", "names and values", constants_page(tree))
    absent = [f"ggml.{name}" for name in modules.pop("generated")]
    about = "functions of backends that are not built: they raise RuntimeError; helpers of the bindings"
    add("absent", "Backends that are not built", about, reference_page("Backends that are not built", about, absent))
    forgotten = sorted(name for left in modules.values() for name in left)
    if forgotten:
        raise SystemExit(f"scripts/site.py: no page of the reference has {', '.join(forgotten)}: add them to ROOMS")
    return {"docs/api/index.md": "\n\n".join(index) + "\n", **pages}


def examples():
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").glob("*/README.md"))


def linked_files(pages):
    """Files outside docs/ that pages link to and that are not pages themselves."""
    for page in pages:
        for _, target, _ in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
            if (ROOT / path).is_file() and path not in pages and not path.startswith("../"):
                yield path


# ---- writing ---------------------------------------------------------------------------------------------------------
def page_text(path, markdown, known):
    """A page with the results, with links to README files in place of folders, and functions' names as links.

    Args:
        path: of the page in the repository.
        markdown: its text.
        known: set of the names that the reference has.
    """
    if path == "docs/performance.md":
        markdown = markdown.replace("<!-- results -->", site_plots.tables())
        markdown = markdown.replace("<!-- sizes -->", site_plots.sizes())

    def link(found):
        words, target, anchor = found[1], found[2], found[3] or ""
        folder = ROOT / posixpath.dirname(path) / target
        if not folder.is_dir():
            return found[0]
        return f"[{words}]({target}/README.md{anchor})" if (folder / "README.md").is_file() else words

    def function(found):
        return f"[{found[0]}][ggml.{found[1]}]" if found[1] in known else found[0]

    lines, fenced = [], False
    for line in markdown.split("\n"):
        if FENCE.match(line):
            fenced = not fenced
        if not fenced and not line.startswith(("#", "    ")):
            line = LINK.sub(link, line)
            line = NAMED_FUNCTION.sub(function, line)
        lines.append(line)
    return "\n".join(lines)


def files():
    """The files of the site: {path: text or bytes}."""
    made = reference()
    known = {name[5:] for text in made.values() for name in re.findall(r"^::: (ggml\.\w+)$", text, re.M)}
    pages = [*PAGES, *examples(), *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").glob("*.md")))]
    others = [path for path in (ROOT / "docs").rglob("*") if path.is_file() and path.suffix != ".md"]
    others += (ROOT / "examples").rglob("*.png")
    copied = {*(path.relative_to(ROOT).as_posix() for path in others), *linked_files(pages)}
    found = {path: page_text(path, (ROOT / path).read_text(encoding="utf-8"), known) for path in pages}
    return found | {path: (ROOT / path).read_bytes() for path in copied} | made | site_plots.files()


def configuration(paths):
    """mkdocs.yml with paths for a file in build/, and the lists that it leaves empty. A page that it omits raises."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    made = [path for path in paths if path.startswith("docs/api/") and path != "docs/api/index.md"]
    lists = {"Examples": examples(), "Reference": ["docs/api/index.md", "docs/operations.md", *made]}
    for title, entries in lists.items():
        before, found, after = text.partition(f"- {title}: []")
        indent = " " * (len(before) - len(before.rstrip(" ")) + 4)
        text = (
            before
            + found.removesuffix(" []")
            + "".join(f"\n{indent}- {path}" for path in entries)
            + "\n"
            + (after.partition("\n")[2])
        )
    omitted = [path for path in paths if path.endswith(".md") and not re.search(rf"[ :]{re.escape(path)}$", text, re.M)]
    if omitted:
        raise SystemExit(f"scripts/site.py: mkdocs.yml omits {', '.join(omitted)}")
    extension = "scripts/site_docstrings.py"
    text = text.replace("_dir: build/", "_dir: ").replace(extension, f"{ROOT}/{extension}")
    return text.replace("paths: [.]", f"paths: ['{ROOT}']")


def main():
    build = ROOT / "build"
    shutil.rmtree(build / "pages", ignore_errors=True)
    found = files()
    for path, content in found.items():
        target = build / "pages" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    (build / "site.yml").write_text(configuration(list(found)), encoding="utf-8")


if __name__ == "__main__":
    main()
