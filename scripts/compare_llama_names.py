"""Lists what modules of llama-cpp-python's sources have and `ggml.models.llama_cpp` has not: names, methods, arguments.

Usage: compare_llama_names.py FOLDER, of the unpacked sources. Names that begin with an underscore are left out.
"""

import ast
import inspect
import sys
from importlib import import_module
from pathlib import Path

MODULES = (
    "llama_cpp llama llama_cache llama_chat_format llama_grammar llama_speculative llama_tokenizer llama_types".split()
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def defined(tree):
    """The names of a module with what defines them."""
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)):
            yield node.name, node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((target.id, node) for target in targets if isinstance(target, ast.Name))


def missing(own, name, node):
    """Lines about a name of a module or class that differs."""
    if not hasattr(own, name):
        yield f"{name}"
        return
    found = getattr(own, name)
    if isinstance(node, ast.ClassDef):
        for part in node.body:
            if isinstance(part, FUNCTIONS) and (part.name == "__init__" or not part.name.startswith("_")):
                yield from (f"{name}.{line}" for line in missing(found, part.name, part))
    elif isinstance(node, FUNCTIONS) and callable(found):
        parameters = inspect.signature(found).parameters
        if any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters.values()):
            return
        wanted = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        lacking = [a for a in wanted if a not in (*parameters, "self", "cls")]
        if lacking and len(parameters) < len(wanted):
            yield f"{name}: arguments {', '.join(lacking)}"


def main(folder):
    for module in MODULES:
        own = import_module(f"ggml.models.llama_cpp.{module}")
        tree = ast.parse(Path(folder, "llama_cpp", f"{module}.py").read_text(encoding="utf-8"))
        for name, node in dict(defined(tree)).items():
            if not name.startswith("_"):
                for line in missing(own, name, node):
                    print(f"{module}: {line}")


if __name__ == "__main__":
    main(*sys.argv[1:])
