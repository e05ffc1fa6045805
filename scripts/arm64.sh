#!/usr/bin/env bash
# Cross-builds the package for aarch64 on an x86-64 Debian and runs its tests under qemu-aarch64 on several CPUs.
# Usage: scripts/arm64.sh setup            once: an aarch64 Python, and as root compiler and emulator (about 1 GB)
#        scripts/arm64.sh [core|all]       builds and tests; CPUS="max cortex-a57" selects the CPUs
# All files except the Debian packages are in $ARM64 (default ~/.cache/ggml-cython/arm64).
. "$(dirname "$0")/lib.sh"
ARM64=${ARM64:-${XDG_CACHE_HOME:-$HOME/.cache}/ggml-cython/arm64}
TRIPLET=aarch64-linux-gnu
VERSION=3.11 # that of Debian 12; the build needs a Python of the same minor version
PYTHON=${HOSTPYTHON:-python$VERSION}
SYSROOT=$ARM64/sysroot
unset CC CXX LDSHARED # which setuptools would prefer to the compiler for the other Python

# A separate apt state for arm64 packages. They are unpacked, not installed; the system's apt is not changed.
fetch_sysroot() {
  local apt=$ARM64/apt archive
  mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$ARM64/debs" "$SYSROOT"
  : >"$apt/status"
  archive=$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | head -n 1)
  echo "deb [arch=arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive bookworm main" >"$apt/list"
  cat >"$apt/conf" <<CONF
Dir::State "$apt/state"; Dir::State::status "$apt/status"; Dir::Cache "$apt/cache";
Dir::Etc::sourcelist "$apt/list"; Dir::Etc::sourceparts "/dev/null";
APT::Architecture "arm64"; APT::Architectures { "arm64"; }; APT::Sandbox::User "root";
CONF
  export APT_CONFIG=$apt/conf
  apt-get -qq update
  (cd "$ARM64/debs" && apt-get -qq download libc6 libgcc-s1 libgomp1 libstdc++6 zlib1g libexpat1 libffi8 libbz2-1.0 \
    liblzma5 libssl3 libuuid1 libcrypt1 libsqlite3-0 libreadline8 libtinfo6 libncursesw6 media-types \
    python$VERSION-minimal libpython$VERSION-minimal libpython$VERSION-stdlib libpython$VERSION-dev)
  unset APT_CONFIG
  for deb in "$ARM64"/debs/*.deb; do dpkg -x "$deb" "$SYSROOT"; done
}

setup() {
  if ! { command -v $TRIPLET-gcc && command -v qemu-aarch64-static; } >/dev/null; then
    apt-get -qq install -y --no-install-recommends gcc-$TRIPLET libc6-dev-arm64-cross qemu-user-static </dev/null
  fi
  fetch_sysroot
  "$PYTHON" -m venv "$ARM64/venv"
  "$ARM64/venv/bin/pip" install -q 'setuptools>=77' wheel 'Cython>=3.3' numpy
  # pip uses the tags as given: it does not know that 2_28 includes the older ones.
  "$ARM64/venv/bin/pip" install -q --target "$ARM64/site" --only-binary :all: --python-version $VERSION \
    --implementation cp --abi cp${VERSION/./} --abi abi3 --abi none --platform manylinux_2_28_aarch64 \
    --platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64 --platform any numpy pytest
  # Compiled to bytecode by the host's Python of the same version, because parsing is slow under emulation.
  "$PYTHON" -m compileall -q "$SYSROOT/usr/lib/python$VERSION" "$ARM64/site" >/dev/null || true
  mkdir -p "$ARM64/config" "$ARM64/bin"
  cp "$SYSROOT/usr/lib/python$VERSION/_sysconfigdata__$TRIPLET.py" "$ARM64/config/"
  cat >"$ARM64/bin/python" <<WRAPPER
#!/bin/sh
export PYTHONHOME=$SYSROOT/usr
exec qemu-aarch64-static -L $SYSROOT -0 "\$0" $SYSROOT/usr/bin/python$VERSION "\$@"
WRAPPER
  chmod +x "$ARM64/bin/python"
  PYTHONPATH=$ARM64/site "$ARM64/bin/python" -c '
import numpy, platform
print("ready:", platform.machine(), "Python", platform.python_version(), "NumPy", numpy.__version__)'
  touch "$ARM64/ready"
}

# Three variables make setuptools build for the other Python: the path of its sysconfig data, the name of that data, and
# the name of the platform. The data define the compiler and the suffix of modules.
build() {
  copy_tree "$WORK/tree"
  (cd "$WORK/tree" && env PYTHONPATH="$ARM64/config" _PYTHON_SYSCONFIGDATA_NAME=_sysconfigdata__$TRIPLET \
    _PYTHON_HOST_PLATFORM=linux-aarch64 CPPFLAGS="-I$SYSROOT/usr/include/python$VERSION -I$SYSROOT/usr/include" \
    "$ARM64/venv/bin/pip" wheel -q --no-deps --no-build-isolation -w "$WORK/wheel" .)
  "$PYTHON" -m zipfile -e "$WORK"/wheel/*.whl "$WORK/package"
  ls "$WORK"/package/ggml/*.cpython-*-$TRIPLET.so >/dev/null || die "the wheel contains no module for $TRIPLET"
}

if [ "${1-}" = setup ]; then
  setup
  exit
fi
choose_tests "${1-core}"
need_stubs
[ -e "$ARM64/ready" ] || die "run 'scripts/arm64.sh setup' first"
temporary_folder
say "cross-building"
build
for cpu in ${CPUS:-max cortex-a76 cortex-a57}; do
  case $cpu in # the instruction set that must be chosen
    max*) wanted=i8mm ;;
    cortex-a76 | neoverse-n1) wanted=dotprod ;;
    cortex-a57 | cortex-a53 | cortex-a72) wanted=neon ;;
    *) die "which instruction set belongs to $cpu?" ;;
  esac
  say "$cpu"
  export QEMU_CPU=$cpu PYTHONPATH=$WORK/package:$ARM64/site OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=1
  chosen=$(cd "$WORK" && "$ARM64/bin/python" -c '
from ggml import _core
print(*(isa["name"] for isa in _core.isa_info() if isa["chosen"]))' 2>"$WORK/stderr") || die "$(cat "$WORK/stderr")"
  [ "$chosen" = "$wanted" ] || die "on $cpu the instruction set is '$chosen', not $wanted"
  echo "chosen: $chosen"
  run_pytest "$ARM64/bin/python" ${SELECT[@]+"${SELECT[@]}"}
  unset QEMU_CPU PYTHONPATH
done
say "arm64: passed"
