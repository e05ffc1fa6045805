"""Builders of operations, one module a family, each with its gradients."""
