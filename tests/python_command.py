"""How tests start Python in a process of its own."""

import sys

# The package under test is the installed one: its sources, which may lie in the working directory, are not found.
PYTHON = [sys.executable, "-P"] if sys.version_info >= (3, 11) else [sys.executable]
