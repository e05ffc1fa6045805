"""How OpenMP threads wait for their next region. The run-time reads it from the environment when it is loaded."""

import contextlib
import os

# With these values libgomp spins for some 20 us, as long as it takes to wake a thread, and then sleeps; libomp sleeps
# without spinning. By default libgomp spins for milliseconds and libomp for 200 ms: on a busy machine that takes
# processors from the threads that compute.
WAITING = {"GOMP_SPINCOUNT": "2000", "KMP_BLOCKTIME": "0"}


@contextlib.contextmanager
def sleeping_threads():
    """Sets the policy while the run-time is loaded, unless the environment already says how threads wait."""
    names = [] if os.environ.keys() & {"OMP_WAIT_POLICY", *WAITING} else list(WAITING)
    os.environ.update({name: WAITING[name] for name in names})
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
