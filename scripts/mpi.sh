#!/usr/bin/env bash
# The tests of ggml.distributed with several ranks, and what collectives cost on a network of known speed.
# Needs pip install '.[mpi,test]' and an MPI: that of the system, or pip install mpich. The network part needs root,
# ip, tc and nsenter: two network namespaces stand for two machines; without these it is reported as NOT RUN.
# Usage: [PYTHON=python] [RATES="100 250 500 1000"] bash scripts/mpi.sh [tests [RANKS...]|network [FOLDER]|all]
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD python=${PYTHON:-python}
mpiexec=$(dirname "$(command -v "$python")")/mpiexec
[ -x "$mpiexec" ] || mpiexec=$(command -v mpiexec) || { echo "NOT RUN: no mpiexec (pip install mpich)"; exit 0; }
"$python" -c "import mpi4py" 2>/dev/null || { echo "NOT RUN: no mpi4py (pip install '.[mpi]')"; exit 0; }
folder=$(mktemp -d)

have() { for tool; do command -v "$tool" >/dev/null || return 1; done; }

# run_tests RANKS...: every rank runs all tests, in another folder, so that the clone does not hide the package. Each
# has a folder of its own for temporary files: pytest removes those of earlier runs when it ends, and two that remove
# the same ones fail.
run_tests() {
  local ranks
  for ranks; do
    echo "== $ranks ranks"
    (cd "$folder" && timeout 300 "$mpiexec" -n "$ranks" \
      bash -c 'PYTEST_DEBUG_TEMPROOT=$(mktemp -d -p "$PWD") && export PYTEST_DEBUG_TEMPROOT && exec "$@"' rank \
      "$python" -m pytest -x -p no:cacheprovider "$root"/tests/*/test_distributed*.py) || return 1
  done
}

names=(ggml-mpi-a ggml-mpi-b)
addresses=(10.213.77.1 10.213.77.2)

remove_network() {
  local name
  for name in "${names[@]}"; do ip netns del "$name" 2>/dev/null || true; done
}
trap 'remove_network; rm -rf "$folder"' EXIT

make_network() {
  local i
  remove_network
  for i in 0 1; do ip netns add "${names[i]}" || return 1; done
  ip link add veth0 netns "${names[0]}" mtu 9000 type veth peer name veth0 mtu 9000 netns "${names[1]}" || return 1
  for i in 0 1; do
    ip -n "${names[i]}" addr add "${addresses[i]}/24" dev veth0 && ip -n "${names[i]}" link set veth0 up &&
      ip -n "${names[i]}" link set lo up || return 1
  done
  for i in 0 1; do # MPI libraries leave out links that are not up yet
    for _ in $(seq 50); do
      if ip -n "${names[i]}" link show veth0 | grep -q "state UP"; then break; fi
      sleep 0.1
    done
  done
  # what the launcher uses instead of ssh: HOST COMMAND..., in the namespace that has the address
  cat >"$folder/in_namespace" <<END
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
name=${names[0]}
[ "\$1" = ${addresses[1]} ] && name=${names[1]}
shift
exec nsenter --mount=/proc/$$/ns/mnt ip netns exec "\$name" bash -c "\$*"
END
  chmod +x "$folder/in_namespace"
}

# network FOLDER: writes the measurements as JSON, one file for each bandwidth, and the plot
network() {
  local target=${1:-$folder} rate i
  if [ "$(id -u)" != 0 ] || ! have ip tc nsenter || ! make_network; then
    echo "NOT RUN: network namespaces need root, ip, tc and nsenter"
    return 0
  fi
  mkdir -p "$target"
  for rate in ${RATES:-100 250 500 1000}; do
    for i in 0 1; do
      ip netns exec "${names[i]}" tc qdisc replace dev veth0 root tbf rate ${rate}mbit burst 512kb latency 2s
    done
    (cd "$folder" && ip netns exec "${names[0]}" env UCX_TLS=tcp,self UCX_NET_DEVICES=veth0 FI_PROVIDER=tcp \
      FI_TCP_IFACE=veth0 timeout 300 "$mpiexec" -launcher ssh -launcher-exec "$folder/in_namespace" -iface veth0 \
      -hosts "${addresses[0]},${addresses[1]}" -n 2 -ppn 1 \
      "$python" "$root/scripts/mpi_network.py" --rate $rate --out "$target/$rate.json") || return 1
  done
  "$python" scripts/mpi_network.py --plot "$target/bandwidth.png" "$target"/*.json
}

case ${1:-all} in
  tests) shift && run_tests "${@:-2}" ;;
  network) network "${2:-}" ;;
  all) run_tests 1 2 3 4 && network ;;
  *) echo "usage: bash scripts/mpi.sh [tests [RANKS...]|network [FOLDER]|all]" && exit 2 ;;
esac
