"""Writing texts, one or many at the same time."""
