"""Prints version, compiler, threads and instruction sets of this build on this machine."""

import platform
from importlib.metadata import PackageNotFoundError, version

from ggml import _core


def add_arguments(parser):
    pass


def run(options):
    try:
        number = version("ggml-cython")
    except PackageNotFoundError:
        number = "(not installed)"
    build = _core.build_info()
    print(f"ggml-cython {number}, CPython {platform.python_version()}, {platform.system()} {platform.machine()}")
    print(f"compiler  {build['compiler']}")
    print(f"threads   {build['threads']} by default")
    print("instruction sets built:")
    for isa in _core.isa_info():
        state = "chosen" if isa["chosen"] else "supported" if isa["supported"] else "not supported"
        print(f"  {isa['name']:<12}{state:<15}{isa['needs']}")
