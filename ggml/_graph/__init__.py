"""Graphs: building and computing, gradients, allocation, the scheduler, training."""
