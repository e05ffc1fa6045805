"""`Llama`, the names of llama-cpp-python."""
