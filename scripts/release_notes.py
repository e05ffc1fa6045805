"""Prints the section of a version in CHANGELOG.md, as the text of a release.

python scripts/release_notes.py VERSION
"""

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).resolve().parent.parent / "CHANGELOG.md"


def section(text, version):
    """What stands between the heading of a version and the next one."""
    found = re.search(rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    if not found or not found[1].strip():
        sys.exit(f"release_notes.py: CHANGELOG.md has no entries for {version}")
    return found[1].strip()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(section(CHANGELOG.read_text(encoding="utf-8"), sys.argv[1]))
