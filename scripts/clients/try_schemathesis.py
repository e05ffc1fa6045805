"""Requests made from the OpenAPI description of `ggml serve`: none ends with status 500 or hangs.

Usage: try_schemathesis.py [cases of each endpoint [options of schemathesis]]
"""

import os
import subprocess
import sys
import urllib.request

from served import served

cases = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("GGML_CASES", "1000")
with served("--ctx", "64", "--sequences", "4", "--timeout", "20") as url:
    command = [os.path.join(os.path.dirname(sys.executable), "schemathesis"), "run", f"{url}/openapi.json",
               "--checks", "not_a_server_error", "--max-examples", cases, "--request-timeout", "60", "--workers", "4",
               "--phases", "examples,coverage,fuzzing", "--continue-on-failure", *sys.argv[2:]]  # fmt: skip
    status = subprocess.run(command).returncode
    urllib.request.urlopen(f"{url}/health", timeout=10).close()
sys.exit(status)
