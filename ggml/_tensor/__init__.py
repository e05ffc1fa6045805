"""Tensors: creation, properties, values."""
