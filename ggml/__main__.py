"""`python -m ggml`: the console script by another name."""

import sys

from ._cli import main

sys.exit(main())
