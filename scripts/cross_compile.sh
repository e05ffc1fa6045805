#!/usr/bin/env bash
# Compiles the C sources for Windows, macOS and musl on a Linux machine, by the compiler of the package ziglang from PyPI.
# That finds what a system lacks or names otherwise; linking and running need the system itself.
# Usage: scripts/cross_compile.sh [TARGET...]   (default: all of those below)
. "$(dirname "$0")/lib.sh"
# target of the compiler: the platform as Python names it
declare -A PLATFORMS=(
  [x86_64-windows-gnu]=win-amd64 [aarch64-windows-gnu]=win-arm64
  [x86_64-macos]=macosx-11.0-x86_64 [aarch64-macos]=macosx-11.0-arm64
  [x86_64-linux-musl]=linux-x86_64 [aarch64-linux-musl]=linux-aarch64
)
temporary_folder
"$PYTHON" -m venv "$WORK/tools"
"$WORK/tools/bin/pip" install -q ziglang 'setuptools>=77' 'Cython>=3.3'
mkdir "$WORK/include"
cp "$("${CC:-gcc}" -print-file-name=include/omp.h)" "$WORK/include" # the compiler knows OpenMP, but has no header for it
copy_tree "$WORK/tree"
cd "$WORK/tree"
[ $# -gt 0 ] || set -- "${!PLATFORMS[@]}"
for target; do
  platform=${PLATFORMS[$target]-}
  [ -n "$platform" ] || die "unknown target $target: choose from ${!PLATFORMS[*]}"
  cat >"$WORK/$target-cc" <<EOF
#!/bin/sh
for flag; do # zig knows extensions of Arm by -mcpu alone
  shift
  case \$flag in -march=armv8.2-a+*) flag=-mcpu=generic+v8_2a+\${flag#-march=armv8.2-a+} ;; esac
  set -- "\$@" "\$flag"
done
exec "$WORK/tools/bin/python" -m ziglang cc -target $target -isystem "$WORK/include" "\$@"
EOF
  chmod +x "$WORK/$target-cc"
  CC=$WORK/$target-cc CPPFLAGS= GGML_WERROR=1 _PYTHON_HOST_PLATFORM=$platform \
    "$WORK/tools/bin/python" setup.py -q compile_c >"$WORK/log" 2>&1 || { cat "$WORK/log" >&2; die "$target: failed"; }
  say "$target: $(find build -path "*simd.$platform-*" -name '*.o' | wc -l) objects"
  rm -rf build
done
say "cross_compile: passed"
