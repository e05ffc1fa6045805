"""Files and other libraries' arrays: GGUF, quantised types, exported graphs, NumPy and DLPack."""
