"""Modules that the ctypes bindings have under this name."""
