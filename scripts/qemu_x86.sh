#!/usr/bin/env bash
# Runs the tests under qemu-x86_64 on a CPU without AVX, which must use the scalar kernels, and on one with AVX2 but
# without AVX-512. Needs qemu-user-static (Debian).
# Usage: [PYTHON=python3.12] [CPUS="Nehalem Haswell"] scripts/qemu_x86.sh [core|all]
. "$(dirname "$0")/lib.sh"
choose_tests "${1-core}"
temporary_folder
QEMU=$(command -v qemu-x86_64-static || command -v qemu-x86_64) || die "qemu-x86_64 is not installed"

# Built without -march flags: code outside of the kernels must not use instructions beyond the baseline.
say "building"
native_wheel "$WORK/wheel"
"$PYTHON" -m venv "$WORK/venv"
"$WORK/venv/bin/pip" install -q "$(echo "$WORK"/wheel/*.whl)[test]"
real=$(readlink -f "$WORK/venv/bin/python")

# A wrapper in the environment's bin/. sys.executable is the wrapper, so that child processes are emulated too.
emulated=$WORK/venv/bin/emulated-python
for cpu in ${CPUS:-Nehalem Haswell}; do
  case $cpu in
    qemu64 | Nehalem | Westmere) wanted=scalar ;;
    Haswell* | Broadwell*) wanted=avx2 ;;
    *) die "which instruction set belongs to $cpu?" ;;
  esac
  printf '#!/bin/sh\nexec "%s" -cpu %s -0 "$0" "%s" "$@"\n' "$QEMU" "$cpu" "$real" >"$emulated"
  chmod +x "$emulated"
  say "$cpu"
  chosen=$(cd "$WORK" && "$emulated" -c '
from ggml import _core
print(*(isa["name"] for isa in _core.isa_info() if isa["chosen"]))' 2>"$WORK/stderr") || die "$(cat "$WORK/stderr")"
  [ "$chosen" = "$wanted" ] || die "on $cpu the instruction set is '$chosen', not $wanted"
  echo "chosen: $chosen"
  OPENBLAS_CORETYPE=Nehalem OPENBLAS_NUM_THREADS=1 run_pytest "$emulated" ${SELECT[@]+"${SELECT[@]}"}
done
say "qemu_x86: passed"
