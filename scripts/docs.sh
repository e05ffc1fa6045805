#!/usr/bin/env bash
# Builds the documentation site into build/site, in a new virtual environment, with warnings as errors, and checks that
# every file and anchor that a page of it refers to exists.
# Usage: scripts/docs.sh
. "$(dirname "$0")/lib.sh"
temporary_folder
cd "$ROOT"
need_stubs
say "tools"
"$PYTHON" -m venv "$WORK/venv"
# The requirements of the extra [docs] alone: the site is made from the type stubs, which must be there.
"$WORK/venv/bin/python" - <<'CODE' >"$WORK/requirements"
import pathlib, re

text = pathlib.Path("pyproject.toml").read_text()
print("\n".join(re.findall(r'"([^"]+)"', re.search(r"^docs = \[(.*?)\]$", text, re.M | re.S)[1])))
CODE
"$WORK/venv/bin/pip" install -q -r "$WORK/requirements"
say "pages"
"$WORK/venv/bin/python" scripts/site.py
say "zensical"
"$WORK/venv/bin/zensical" build --strict --clean -f build/site.yml
say "links"
"$WORK/venv/bin/python" scripts/check_links.py build/site
say "docs: passed"
