"""Builders of operations, one module for each family of them, each with its gradients.

A public function ggml_NAME reads its arguments and appends a node to the context. A function grad_NAME adds the
gradients of a node to a backward pass: t is the node, g the gradient of the loss with respect to t. The formulas in
docstrings write x, y, ... for the sources of t and dx, dy, ... for the gradients with respect to them.
"""
