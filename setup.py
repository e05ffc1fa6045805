"""Compiles the C sources (the kernels once for each instruction set) and the Cython modules.

The source tree defines what is built: the instruction sets are the rows of ggml/_simd/tables/isa.h, the compile units
those of families.h, and the modules are the .pyx files in ggml/. Environment variables:
  GGML_JOBS=N         number of compilers that run simultaneously (default: number of CPUs)
  GGML_SANITIZE=1     builds with the address and undefined-behaviour sanitizers
  GGML_SANITIZE=thread
                      builds with ThreadSanitizer and without OpenMP, because the sanitizer does not understand libgomp
  GGML_COVERAGE=1     builds with gcov counters in the C sources
  GGML_WERROR=1       treats warnings in the C sources as errors
  GGML_DEBUG=1        keeps debugging information, symbols and unwind tables, for debuggers and profilers: the modules
                      get larger

A product (a generated C file, an object, a module) is made again if its command or the content of a file that it was
made from has changed. Times do not count: pip builds in environments whose files, those of Cython included, are new.
"""

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import Cython
from Cython.Build import cythonize
from Cython.Build.Dependencies import create_dependency_tree
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent
SIMD = Path("ggml/_simd")
JOBS = int(os.environ.get("GGML_JOBS", os.cpu_count() or 1))
WINDOWS, MAC = sys.platform == "win32", sys.platform == "darwin"
FREE_THREADED = ["-DGG_FREE_THREADED"] if sysconfig.get_config_var("Py_GIL_DISABLED") else []
INSTRUMENTED = any(os.environ.get(name) for name in ("GGML_SANITIZE", "GGML_COVERAGE"))
# Modules whose functions a program calls rarely: they are compiled for size, which makes them smaller by a quarter.
RARE = re.compile(
    r"ggml\._(system\.|backend\.(backend|device|foreign|meta|registry|transfer)$|"
    r"graph\.(grad|graph_copy|opt|record|sched)|io\.(export|gguf|gguf_read|gguf_write|quants)$)"
)
DEBUG = INSTRUMENTED or bool(os.environ.get("GGML_DEBUG"))


@functools.cache
def content(path):
    """The hash of a file's content. Nothing changes a file after it was first asked for in a build."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


class Stamp:
    """A file that tells what a product was made from: the words of its command, hashes of its inputs."""

    def __init__(self, product, words, file=None):
        self.product, self.file = Path(product), Path(file or f"{product}.stamp")
        # A virtual environment that lives for this build alone is part of no product.
        self.words = [str(word).replace(sys.prefix, sys.base_prefix) for word in words]

    def holds(self):
        """Whether the product exists and would be made again from the same."""
        try:
            known = json.loads(self.file.read_text())
            return (
                self.product.exists()
                and known["words"] == self.words
                and all(content(path) == hash_ for path, hash_ in known["inputs"].items())
            )
        except (OSError, ValueError):
            return False

    def write(self, inputs):
        found = {str(path): content(path) for path in sorted(map(str, inputs))}
        self.file.write_text(json.dumps({"words": self.words, "inputs": found}, indent=0))


def machine():
    """The target architecture. Cross-builds set _PYTHON_HOST_PLATFORM, and ARCHFLAGS on macOS."""
    flags = os.environ.get("ARCHFLAGS", "")
    host = "arm64" if "arm64" in flags else "x86_64" if "x86_64" in flags else sysconfig.get_platform().lower()
    if any(a in host for a in ("aarch64", "arm64")):
        return "ARM"
    return "X86" if any(a in host for a in ("x86_64", "amd64", "win-amd64")) else "ANY"


def isas():
    """The name, base, compiler flags and compile units of each instruction set of the target architecture.

    A unit is a name and its families.
    """
    row = r"^ISA\((\w+),\s*\"[^\"]*\",\s*(\w+),\s*(\w+),\s*(\w+)\)\s*/\* flags: ?(.*?) ?\*/"
    table, families = ((SIMD / "tables" / name).read_text() for name in ("isa.h", "families.h"))
    rows = re.findall(row, table, re.M)
    units = re.findall(r"X\((\w+),\s*(isa|bytes|base),\s*([\w ]*)\)", families)
    if len(rows) != len(re.findall(r"^ISA\(", table, re.M)) or len(units) != len(re.findall(r"^ +X\(", families, re.M)):
        sys.exit("ggml/_simd/tables: isa.h or families.h has a row that setup.py does not understand")
    return [
        (
            name,
            base,
            flags.split(),
            [
                (unit, members.split())
                for unit, whose, members in units
                if name == {"isa": name, "bytes": own_bytes, "base": base}[whose]
            ],
        )
        for name, arch, base, own_bytes, flags in rows
        if arch in ("ANY", machine())
    ]


def flags():
    """The compiler and linker flags of all C sources, and those of OpenMP: (compile, link, OpenMP, OpenMP link)."""
    cc = [
        "-std=c11",
        "-O3",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-ffp-contract=off",
        "-fvisibility=hidden",
        "-Wall",
        "-Wextra",
        "-Wno-unused-function",
        "-DNDEBUG",
    ]
    link = [] if DEBUG or WINDOWS else ["-Wl,-x"] if MAC else ["-Wl,-s"]  # without the names of static functions
    cc.append("-g" if DEBUG else "-g0")  # Python's own flags may ask for -g
    if not DEBUG and sys.platform == "linux":
        cc.append("-fno-asynchronous-unwind-tables")  # they are a 25th of the modules; C code throws no exceptions
    if os.environ.get("GGML_WERROR"):
        cc.append("-Werror")
    if os.environ.get("GGML_SANITIZE") == "thread":
        san = ["-fsanitize=thread", "-fno-omit-frame-pointer", "-g", "-O1", "-fPIC"]
        return [*cc, *san, "-DGG_OWN_THREADS"], san, [], []
    if os.environ.get("GGML_SANITIZE"):
        # No alignment check: strides come from the caller, and all supported CPUs allow unaligned access.
        san = [
            "-fsanitize=address,undefined",
            "-fno-sanitize=alignment",
            "-fno-sanitize-recover=undefined",
            "-fno-omit-frame-pointer",
            "-g",
            "-O1",
        ]
        cc, link = cc + san, link + san
    if os.environ.get("GGML_COVERAGE"):
        cc, link = [*cc, "--coverage", "-fprofile-update=atomic", "-O0", "-g"], [*link, "--coverage"]
    if WINDOWS:
        return ["/clang:" + f for f in cc], link, ["/openmp"], [str(llvm() / "lib" / "libomp.lib")]
    if MAC:
        brew = ["brew", "--prefix", "libomp"]
        base = os.environ.get("LIBOMP_PREFIX") or subprocess.check_output(brew, text=True).strip()
        return [*cc, "-fPIC"], link, ["-Xpreprocessor", "-fopenmp", f"-I{base}/include"], [f"-L{base}/lib", "-lomp"]
    return [*cc, "-fPIC"], link, ["-fopenmp"], ["-fopenmp"]


def llvm():
    """The folder of the LLVM installation whose clang-cl is on the path (Windows). It contains the OpenMP library."""
    found = shutil.which("clang-cl")
    if not found:
        sys.exit("clang-cl is not on the path: install LLVM for Windows")
    return Path(found).resolve().parent.parent


class Build(build_ext):
    """Compiles the C sources in parallel and links them into ggml._core. Other modules are built as usual."""

    def run(self):
        super().run()
        self.write_stubs()

    def write_stubs(self):
        """Writes the type stubs and the annotations of the modules that were built, which are imported for it.

        A build for another system cannot import them: it takes the files from the tree, where a build in place or an
        sdist puts them.
        """
        root = ROOT if self.inplace else Path(self.build_lib).resolve()
        if "_PYTHON_HOST_PLATFORM" in os.environ or INSTRUMENTED or not (root / "ggml" / "__init__.py").exists():
            return
        script = [sys.executable, ROOT / "scripts" / "make_stubs.py", "--into", root / "ggml"]
        path = os.pathsep.join([str(root), *sys.path])
        subprocess.run(script, check=True, cwd=root, env={**os.environ, "PYTHONPATH": path})

    def build_extensions(self):
        cflags, ldflags, omp_c, omp_l = flags()
        objects = self.compile_c(cflags, omp_c)
        if WINDOWS:  # generated modules include the headers of the C sources, which MSVC cannot compile
            self.compiler.initialize()
            self.compiler.cc = str(llvm() / "bin" / "clang-cl.exe")
        quiet = [f for f in cflags if not f.endswith(("-Wextra", "-Wall", "-Werror", "-O3"))]
        for ext in self.extensions:
            level = "-Os" if RARE.match(ext.name) else "-O2"
            ext.extra_compile_args += [*quiet, level, "-Wno-unused-function", "-Wno-unused-but-set-variable"]
            ext.extra_compile_args += FREE_THREADED
            ext.extra_link_args += ldflags
            if ext.name == "ggml._core":
                ext.extra_objects += objects
                ext.depends += objects
                ext.extra_link_args += omp_l
        self.parallel = JOBS
        self.force = True  # build_extension decides
        super().build_extensions()
        if WINDOWS:  # Windows finds a DLL in the folder of the module that needs it
            shutil.copy(llvm() / "bin" / "libomp.dll", Path(self.get_ext_fullpath("ggml._core")).parent)

    def build_extension(self, ext):
        """Compiles and links a module, unless it was made from the same."""
        words = [str(getattr(self.compiler, name, "")) for name in ("compiler_so", "linker_so")]
        words += [sys.version, *ext.extra_compile_args, *ext.extra_link_args, *ext.extra_objects]
        # Not beside the module: all that is there becomes part of the wheel.
        stamp = Stamp(self.get_ext_fullpath(ext.name), words, Path(self.build_temp, ext.name + ".stamp"))
        if not stamp.holds():
            super().build_extension(ext)
            stamp.write([*ext.sources, *ext.depends, *ext.extra_objects])

    def compile_c(self, cflags, omp):
        # Not in build_temp, which belongs to one version of Python: the kernels serve all of them.
        out = Path("build") / f"simd.{sysconfig.get_platform()}-{machine()}"
        out.mkdir(parents=True, exist_ok=True)
        common = [*cflags, f"-DGG_ARCH_{machine()}"]
        # The checks add and multiply sizes from the caller before they compare them with limits: these may overflow.
        wrap = "/clang:-fwrapv" if WINDOWS else "-fwrapv"
        suffix = "_free.o" if FREE_THREADED else ".o"
        jobs = [
            (src, out / f"{src.parent.name}_{src.stem}{suffix}", [*common, *omp, wrap, *FREE_THREADED])
            for src in sorted(SIMD.rglob("*.c"))
            if src.parent.name != "isa"
        ]
        for isa, base, isa_flags, units in isas():
            for unit, families in units:
                named = [f"-DGG_BASE={base}", f"-DGG_UNIT={unit}", f"-DGG_UNIT_{unit}"]
                for i, family in enumerate(families, 1):
                    named += [f"-DGG_FAMILY_{i}={family}", f"-DGG_FAMILY_{family}=1"]
                jobs.append((SIMD / f"isa/{isa}.c", out / f"{isa}_{unit}.o", [*common, *isa_flags, *named]))
        with ThreadPoolExecutor(JOBS) as pool:
            list(pool.map(lambda job: self.compile_one(*job), jobs))
        return [str(obj) for _, obj, _ in jobs]

    def compile_one(self, src, obj, args):
        """Compiles an object, unless it was made from the same. The compiler lists the headers (-MD)."""
        found = Path(str(obj) + ".d")
        cmd = [*self.c_compiler(), *args]
        cmd += [
            "-c",
            str(src),
            *(
                [f"/Fo{obj}", "/clang:-MD", f"/clang:-MF{found}"]
                if WINDOWS
                else ["-o", str(obj), "-MD", "-MF", str(found)]
            ),
        ]
        stamp = Stamp(obj, [self.c_compiler_version(), *cmd])
        if not stamp.holds():
            print(" ".join(cmd), flush=True)
            subprocess.run(cmd, check=True)
            # a blank separates names; one within a name is escaped
            names = re.findall(r"(?:\\ |\S)+", found.read_text().split(": ", 1)[1].replace("\\\n", " "))
            stamp.write(name.replace("\\ ", " ") for name in names)

    @functools.cache  # noqa: B019 - there is one Build
    def c_compiler_version(self):
        return subprocess.run([*self.c_compiler(), "--version"], capture_output=True, text=True, check=True).stdout

    def c_compiler(self):
        if WINDOWS:
            return [str(llvm() / "bin" / "clang-cl.exe")]
        cc = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
        parts = cc.split()
        if not shutil.which(parts[0]):
            parts = ["cc"]
        extra = os.environ.get("CPPFLAGS", "").split()
        return [*parts, *extra, *(os.environ.get("ARCHFLAGS", "").split() if MAC else [])]


def repair(module):
    """Corrects what Cython 3.3.0 and 3.3.1 write for list comprehensions.

    An element for which the list gets no memory is released twice. Other versions do not write this text.
    """
    for source in map(Path, module.sources):
        before = source.read_bytes()
        after = re.sub(rb"(int result = PyList_Append\(list, x\);\s+)(Py_DECREF\(x\);)", rb"\1if (!result) \2", before)
        if after != before:
            source.write_bytes(after)


class Sdist(sdist):
    """Adds the type stubs and annotations, for builds that cannot import what they build."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        self.run_command("build")
        built = Path(self.get_finalized_command("build").build_lib)
        for path in [*built.rglob("*.pyi"), built / "ggml" / "_signatures.py"]:
            target = Path(base_dir) / path.relative_to(built)
            target.unlink(missing_ok=True)  # it may be a hard link to a file of the tree
            shutil.copyfile(path, target)


class CompileC(Build):
    """Compiles the C sources alone, by the compiler $CC for the system $_PYTHON_HOST_PLATFORM, of any Python."""

    def run(self):
        cflags, _, omp, _ = flags()
        self.compile_c(cflags, omp)


class Wheel(bdist_wheel):
    """Adds a list of the software that is in the modules (PEP 770, CycloneDX). auditwheel adds what it copies."""

    def write_wheelfile(self, wheelfile_base, *args, **kwargs):
        super().write_wheelfile(wheelfile_base, *args, **kwargs)
        folder = Path(wheelfile_base) / "sboms"
        folder.mkdir()
        (folder / "ggml-cython.cdx.json").write_text(json.dumps(self.materials(), indent=1) + "\n")

    def materials(self):
        def library(name, version, licence, **more):
            return {
                "type": "library",
                "bom-ref": name,
                "name": name,
                "version": version,
                "licenses": [{"license": {"id": licence}}],
                **more,
            }

        name, version = self.distribution.get_name(), self.distribution.get_version()
        parts = [
            library(
                "cython",
                Cython.__version__,
                "Apache-2.0",
                purl=f"pkg:pypi/cython@{Cython.__version__}",
                description="its run-time code is part of the generated C files",
            )
        ]
        if WINDOWS:
            found = subprocess.run(["clang-cl", "--version"], capture_output=True, text=True, check=True).stdout
            release = re.search(r"version (\S+)", found)[1]
            parts.append(
                {
                    "type": "library",
                    "bom-ref": "libomp",
                    "name": "libomp",
                    "version": release,
                    "licenses": [{"expression": "Apache-2.0 WITH LLVM-exception"}],
                }
            )
        return {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {"component": library(name, version, "MIT", purl=f"pkg:pypi/{name}@{version}")},
            "components": parts,
            "dependencies": [{"ref": name, "dependsOn": [part["bom-ref"] for part in parts]}],
        }


os.chdir(ROOT)
headers = [str(p) for folder in ("runtime", "tables", "quants") for p in sorted((SIMD / folder).glob("*.h"))]
modules = [
    Extension(".".join(p.with_suffix("").parts), [str(p)], include_dirs=["ggml", "ggml/_simd"], depends=headers)
    for p in sorted(Path("ggml").rglob("*.pyx"))
]
for module in modules:
    if module.name == "ggml._core":
        module.depends = [*headers, "ggml/_sections.h", "ggml/_pointers.h"]
shared = "ggml._cython"  # what Cython would otherwise write into each module: the types of functions, memory views
modules.append(Extension(shared, ["ggml/_cython.c"]))
directives = {
    "language_level": 3,
    "binding": True,
    "cdivision": False,
    "embedsignature": False,
    "auto_pickle": False,
    "legacy_implicit_noexcept": False,
    "freethreading_compatible": True,  # see ggml/_sections.h
}


def generate(modules):
    """The modules with their C files, which Cython writes anew where a source or its own version has changed."""
    words = [Cython.__version__, json.dumps(directives), shared]
    stamps = {ext.sources[0]: Stamp(Path("build/cython", ext.sources[0]).with_suffix(".c"), words) for ext in modules}
    for stamp in stamps.values():
        if stamp.holds():
            os.utime(stamp.product)  # for cythonize, which compares times
        else:
            stamp.product.unlink(missing_ok=True)
    modules = cythonize(
        modules,
        compiler_directives=directives,
        build_dir="build/cython",
        nthreads=JOBS,
        quiet=True,
        shared_utility_qualified_name=shared,
    )
    for module in modules:
        repair(module)
    for source, stamp in stamps.items():
        if not stamp.holds():
            # Those outside come with Cython, and so does the shared module.
            used = create_dependency_tree().all_dependencies(source) if source.endswith(".pyx") else []
            stamp.write(os.path.relpath(path) for path in used if Path(path).resolve().is_relative_to(ROOT))
    return modules


def repository():
    """The address of the repository that builds, if it is known: that of a workflow, or GGML_REPOSITORY_URL."""
    server, name = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    return os.environ.get("GGML_REPOSITORY_URL") or (f"{server}/{name}" if server and name else "")


def metadata():
    """What of the metadata depends on the repository's address: the links of the README, which lead there, and URLs."""
    text, url = Path("README.md").read_text(encoding="utf-8"), repository()
    if url:
        text = re.sub(
            r"(!?)(\[[^\]]*\])\((?!\w+:|#)", lambda m: f"{m[1]}{m[2]}({url}/{'raw' if m[1] else 'blob'}/main/", text
        )
    pages = {
        "Source": "",
        "Documentation": "/blob/main/docs/getting_started.md",
        "Issues": "/issues",
        "Changelog": "/blob/main/CHANGELOG.md",
    }
    return {
        "long_description": text,
        "long_description_content_type": "text/markdown",
        "project_urls": {name: url + path for name, path in pages.items()} if url else {},
    }


requested = {argument for argument in sys.argv[1:] if not argument.startswith("-")}
if not requested & {"egg_info", "dist_info", "clean", "compile_c"}:  # these need no C files
    modules = generate(modules)
setup(
    ext_modules=modules,
    cmdclass={"build_ext": Build, "compile_c": CompileC, "bdist_wheel": Wheel, "sdist": Sdist},
    **metadata(),
)
