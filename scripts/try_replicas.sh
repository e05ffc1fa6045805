#!/usr/bin/env bash
# Two servers of a model behind HAProxy, one of which is killed under load: try_replicas.py in the environment of PYTHON,
# with haproxy of the system (Debian: haproxy).
# Usage: [PYTHON=python] bash scripts/try_replicas.sh
set -euo pipefail
cd "$(dirname "$0")/.."
command -v haproxy >/dev/null || { echo "NOT RUN: no haproxy (Debian: haproxy)"; exit 0; }
exec "${PYTHON:-python}" -P scripts/try_replicas.py
