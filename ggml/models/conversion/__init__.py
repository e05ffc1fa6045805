"""Folders as Hugging Face saves models become GGUF files."""
