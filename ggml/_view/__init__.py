"""How tensors, graphs and files show themselves in notebooks and on pages."""
