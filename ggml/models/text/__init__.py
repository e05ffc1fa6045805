"""Tokens of texts."""
