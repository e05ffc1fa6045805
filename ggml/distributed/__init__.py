"""Several machines, over MPI: collectives as nodes of a graph, with gradients.

    import ggml
    from ggml.distributed import mpi

    comm = mpi()                               # mpiexec -n 4 python program.py
    total = comm.all_reduce(ctx, x)            # a node: the sum of x over all ranks

`mpi` needs the extra `[mpi]` (pip install 'ggml-cython[mpi]') and an MPI library; a program that was not started by
`mpiexec` runs as one rank without either. See docs/distributed.md.
"""

from ._comm import Communicator, mpi

__all__ = ["Communicator", "mpi"]
