# Written by scripts/make_stubs.py.
from . import *
