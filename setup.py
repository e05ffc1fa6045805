"""Compiles the C sources (the kernels once for each instruction set) and the Cython modules.

The source tree defines what is built: the instruction sets are the rows of ggml/_simd/tables/isa.h, the compile units
those of families.h, and the modules are the .pyx files in ggml/. Environment variables:
  GGML_JOBS=N         number of compilers that run simultaneously (default: number of CPUs)
  GGML_SANITIZE=1     builds with the address and undefined-behaviour sanitizers
  GGML_SANITIZE=thread
                      builds with ThreadSanitizer and without OpenMP, because the sanitizer does not understand libgomp
  GGML_COVERAGE=1     builds with gcov counters in the C sources
  GGML_WERROR=1       treats warnings in the C sources as errors
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
SIMD = Path("ggml/_simd")
JOBS = int(os.environ.get("GGML_JOBS", os.cpu_count() or 1))
WINDOWS, MAC = sys.platform == "win32", sys.platform == "darwin"


def machine():
    """The target architecture. Cross-builds set _PYTHON_HOST_PLATFORM, and ARCHFLAGS on macOS."""
    flags = os.environ.get("ARCHFLAGS", "")
    host = "arm64" if "arm64" in flags else "x86_64" if "x86_64" in flags else sysconfig.get_platform().lower()
    if any(a in host for a in ("aarch64", "arm64")):
        return "ARM"
    return "X86" if any(a in host for a in ("x86_64", "amd64", "win-amd64")) else "ANY"


def isas():
    """The name, compiler flags and compile units of each instruction set of the target architecture.

    A unit is a name and its families.
    """
    row = r"^ISA\((\w+),\s*\"[^\"]*\",\s*(\w+),\s*(\w+)\)\s*/\* flags: ?(.*?) ?\*/"
    table, families = ((SIMD / "tables" / name).read_text() for name in ("isa.h", "families.h"))
    rows = re.findall(row, table, re.M)
    units = re.findall(r"X\((\w+),\s*(isa|base),\s*([\w ]*)\)", families)
    if len(rows) != len(re.findall(r"^ISA\(", table, re.M)) or len(units) != len(re.findall(r"^ +X\(", families, re.M)):
        sys.exit("ggml/_simd/tables: isa.h or families.h has a row that setup.py does not understand")
    return [(name, flags.split(), [(unit, members.split()) for unit, whose, members in units
                                   if whose == "isa" or name == base])
            for name, arch, base, flags in rows if arch in ("ANY", machine())]


def flags():
    """The compiler and linker flags of all C sources, and those of OpenMP: (compile, link, OpenMP, OpenMP link)."""
    cc = ["-std=c11", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fvisibility=hidden",
          "-Wall", "-Wextra", "-Wno-unused-function", "-DNDEBUG"]
    link = []
    if os.environ.get("GGML_WERROR"):
        cc.append("-Werror")
    if os.environ.get("GGML_SANITIZE") == "thread":
        san = ["-fsanitize=thread", "-fno-omit-frame-pointer", "-g", "-O1", "-fPIC"]
        return [*cc, *san, "-DGG_OWN_THREADS"], san, [], []
    if os.environ.get("GGML_SANITIZE"):
        # No alignment check: strides come from the caller, and all supported CPUs allow unaligned access.
        san = ["-fsanitize=address,undefined", "-fno-sanitize=alignment", "-fno-sanitize-recover=undefined",
               "-fno-omit-frame-pointer", "-g", "-O1"]
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

    def build_extensions(self):
        cflags, ldflags, omp_c, omp_l = flags()
        objects = self.compile_c(cflags, omp_c)
        if WINDOWS:  # generated modules include the headers of the C sources, which MSVC cannot compile
            self.compiler.initialize()
            self.compiler.cc = str(llvm() / "bin" / "clang-cl.exe")
        quiet = [f for f in cflags if not f.endswith(("-Wextra", "-Wall", "-Werror", "-O3"))]
        for ext in self.extensions:
            ext.extra_compile_args += [*quiet, "-O2", "-Wno-unused-function", "-Wno-unused-but-set-variable"]
            ext.extra_link_args += ldflags
            if ext.name == "ggml._core":
                ext.extra_objects += objects
                ext.depends += objects
                ext.extra_link_args += omp_l
        self.parallel = JOBS
        super().build_extensions()
        if WINDOWS:  # Windows finds a DLL in the folder of the module that needs it
            shutil.copy(llvm() / "bin" / "libomp.dll", Path(self.get_ext_fullpath("ggml._core")).parent)

    def compile_c(self, cflags, omp):
        out = Path(self.build_temp) / "simd"
        out.mkdir(parents=True, exist_ok=True)
        common = [*cflags, f"-DGG_ARCH_{machine()}"]
        # The checks add and multiply sizes from the caller before they compare them with limits: these may overflow.
        wrap = "/clang:-fwrapv" if WINDOWS else "-fwrapv"
        jobs = [(src, out / f"{src.parent.name}_{src.stem}.o", [*common, *omp, wrap])
                for src in sorted(SIMD.rglob("*.c")) if src.parent.name != "isa"]
        for isa, isa_flags, units in isas():
            for unit, families in units:
                named = [f"-DGG_UNIT={unit}", f"-DGG_UNIT_{unit}"]
                for i, family in enumerate(families, 1):
                    named += [f"-DGG_FAMILY_{i}={family}", f"-DGG_FAMILY_{family}=1"]
                jobs.append((SIMD / f"isa/{isa}.c", out / f"{isa}_{unit}.o", [*common, *isa_flags, *named]))
        with ThreadPoolExecutor(JOBS) as pool:
            list(pool.map(lambda job: self.compile_one(*job), jobs))
        return [str(obj) for _, obj, _ in jobs]

    def compile_one(self, src, obj, args):
        """Compiles an object, unless it is newer than the source and its headers (-MD) and the command is the same."""
        cc = self.c_compiler()
        cmd = [*cc, *args, "-c", str(src), "-o", str(obj), "-MD", "-MF", str(obj) + ".d"]
        if WINDOWS:
            cmd = [*cc, *args, "-c", str(src), f"/Fo{obj}"]
        stamp, dep = Path(str(obj) + ".cmd"), Path(str(obj) + ".d")
        if obj.exists() and dep.exists() and stamp.exists() and stamp.read_text() == " ".join(cmd):
            files = dep.read_text().split(":", 1)[1].replace("\\\n", " ").split()
            if all(Path(f).exists() and Path(f).stat().st_mtime <= obj.stat().st_mtime for f in files):
                return
        print(" ".join(cmd), flush=True)
        subprocess.run(cmd, check=True)
        stamp.write_text(" ".join(cmd))

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


os.chdir(ROOT)
headers = [str(p) for folder in ("runtime", "tables", "quants") for p in sorted((SIMD / folder).glob("*.h"))]
modules = [
    Extension(".".join(p.with_suffix("").parts), [str(p)], include_dirs=["ggml/_simd"], depends=headers)
    for p in sorted(Path("ggml").rglob("*.pyx"))
]
directives = {"language_level": 3, "binding": True, "cdivision": False,
              "embedsignature": False, "auto_pickle": False, "legacy_implicit_noexcept": False}
requested = {argument for argument in sys.argv[1:] if not argument.startswith("-")}
if not requested & {"egg_info", "dist_info", "sdist", "clean"}:  # these need no C files
    modules = cythonize(modules, compiler_directives=directives, build_dir="build/cython", nthreads=JOBS, quiet=True)
    for module in modules:
        repair(module)
setup(ext_modules=modules, cmdclass={"build_ext": Build})
