"""Checks the CI configuration: the wheels that cibuildwheel would build, and the schema of the workflows.

It needs the tools of `pip install --group lint`.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("cp310", "cp311", "cp312", "cp313")
# platform: {architecture, as in the workflow: tags of its wheels}
PLATFORMS: dict[str, dict[str, tuple[str, ...]]] = {
    "linux": {
        "x86_64": ("manylinux_x86_64", "musllinux_x86_64"),
        "aarch64": ("manylinux_aarch64", "musllinux_aarch64"),
    },
    "macos": {"x86_64": ("macosx_x86_64",), "arm64": ("macosx_arm64",)},
    "windows": {"AMD64": ("win_amd64",)},
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
            wanted = {f"{python}-{tag}" for python in PYTHONS for tag in tags}
            if built != wanted:
                sys.exit(f"wheels for {platform} {architecture}: missing {sorted(wanted - built)}, "
                         f"unexpected {sorted(built - wanted)}")
            count += len(built)
    print(f"cibuildwheel builds the {count} expected wheels")


def check_workflows():
    """Validates the workflows against the schema of GitHub."""
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    if not workflows:
        sys.exit("no workflows found")
    tool("check_jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)
    print("valid workflows:", *(path.name for path in workflows))


def main():
    check_wheels()
    check_workflows()


if __name__ == "__main__":
    main()
