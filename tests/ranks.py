"""The ranks that run the tests: those of mpiexec, or a single one without MPI, as other tests share its process."""

from ggml.distributed import Communicator, mpi
from ggml.distributed._transport import Alone, started_by_launcher

comm = mpi(timeout=60) if started_by_launcher() else Communicator(Alone(), "rank")
