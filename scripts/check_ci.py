"""Checks the CI configuration: the wheels that cibuildwheel would build, and the schemas of workflows and other files.

It needs the tools of `pip install --group lint`.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("cp310", "cp311", "cp312", "cp313", "cp314", "cp314t")
NONE = {"cp310-win_arm64"}  # NumPy has no wheel for it
# platform: {architecture, as in the workflow: tags of its wheels}
PLATFORMS: dict[str, dict[str, tuple[str, ...]]] = {
    "linux": {
        "x86_64": ("manylinux_x86_64", "musllinux_x86_64"),
        "aarch64": ("manylinux_aarch64", "musllinux_aarch64"),
    },
    "macos": {"x86_64": ("macosx_x86_64",), "arm64": ("macosx_arm64",)},
    "windows": {"AMD64": ("win_amd64",), "ARM64": ("win_arm64",)},
}
FORM = "vendor.github-issue-forms"
SCHEMAS = {
    ".github/workflows/*.yml": "vendor.github-workflows",
    ".github/dependabot.yml": "vendor.dependabot",
    ".github/ISSUE_TEMPLATE/*.yml": FORM,
    ".github/ISSUE_TEMPLATE/config.yml": "vendor.github-issue-config",
    "CITATION.cff": "vendor.citation-file-format",
}


def tool(module, *arguments):
    """Runs a module with this Python and returns its output. Exits if it fails."""
    done = subprocess.run([sys.executable, "-m", module, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{module} {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_wheels():
    """Compares the wheels that cibuildwheel would build with PYTHONS and PLATFORMS."""
    count = 0
    for platform, architectures in PLATFORMS.items():
        for architecture, tags in architectures.items():
            options = ("--platform", platform, "--archs", architecture, "--print-build-identifiers")
            built = set(tool("cibuildwheel", *options, ROOT).split())
            wanted = {f"{python}-{tag}" for python in PYTHONS for tag in tags} - NONE
            if built != wanted:
                sys.exit(
                    f"wheels for {platform} {architecture}: missing {sorted(wanted - built)}, "
                    f"unexpected {sorted(built - wanted)}"
                )
            count += len(built)
    print(f"cibuildwheel builds the {count} expected wheels")


def check_schemas():
    """Validates the workflows and the other files that GitHub reads against their schemas."""
    for pattern, schema in SCHEMAS.items():
        paths = sorted(path for path in ROOT.glob(pattern) if schema != FORM or path.name != "config.yml")
        if not paths:
            sys.exit(f"no file {pattern}")
        tool("check_jsonschema", "--builtin-schema", schema, *paths)
        print("valid:", *(path.name for path in paths))


def text_of(script):
    """The text of a script and of the modules beside it that it imports: either may define its options."""
    text = script.read_text(encoding="utf-8")
    modules = (script.parent / f"{name}.py" for name in re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE))
    return "\n".join([text, *(module.read_text(encoding="utf-8") for module in modules if module.is_file())])


def check_jobs():
    """Every action is pinned to a commit, with its release in a comment; every script that a job runs exists and knows
    the options that it gets.
    """
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if "uses:" in line and not re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v\d", line):
                sys.exit(f"{path.name}:{i}: pin the action to a commit and name its release: {line.strip()}")
            for script, words in re.findall(r"\b((?:scripts|fuzz)/\w+\.(?:sh|py))\b([^&|;]*)", line):
                if not (ROOT / script).is_file():
                    sys.exit(f"{path.name}:{i}: there is no {script}")
                text = text_of(ROOT / script)
                for option in re.findall(r"(?<!\S)(--[\w-]+|core|all|setup|fuzz|tests|network)(?!\S)", words):
                    if option not in text:
                        sys.exit(f"{path.name}:{i}: {script} has no option {option}")


def main():
    check_wheels()
    check_schemas()
    check_jobs()


if __name__ == "__main__":
    main()
