"""Model files and what they say: tensors, sizes, settings."""
