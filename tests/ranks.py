"""The ranks that run the tests: those of mpiexec, or one without MPI, so that other tests of the process have none."""

from ggml.distributed import Communicator, mpi
from ggml.distributed._transport import Alone, started_by_launcher

comm = mpi(timeout=60) if started_by_launcher() else Communicator(Alone(), "rank")
