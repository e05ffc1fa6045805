"""The ranks that run the tests: those of mpiexec, or one without MPI, which other tests of this process would notice."""

from ggml.distributed import Communicator, mpi
from ggml.distributed._transport import Alone, started_by_launcher

comm = mpi(timeout=60) if started_by_launcher() else Communicator(Alone(), "rank")
