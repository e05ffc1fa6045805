"""Thread pools: handles that stand for a number of threads. A compute with a pool uses that many."""
import ctypes
import itertools

from .._core cimport arg_int32, enter, fail, is_a, pointed, repr_short
from .. import _constants, _structs

cdef dict pools = {}                                  # handle: its parameters
cdef object handles = itertools.count(0x1000, 0x10)

cdef object pool_params(object p, str name):
    params = pointed(p, _structs.ggml_threadpool_params)
    if params is None:
        fail(TypeError, f"{name} is {repr_short(p)}: need a pointer to ggml_threadpool_params")
    return params

cdef int pool_threads(object n) except -1:
    cdef int k = arg_int32(n, b"n_threads")
    if not 0 < k <= _constants.GGML_MAX_N_THREADS:
        fail(ValueError, f"n_threads is {k}: need 1 to {_constants.GGML_MAX_N_THREADS}")
    return k

cdef object defaults(object p, object n_threads):
    ctypes.memset(ctypes.addressof(p), 0, ctypes.sizeof(p))
    p.n_threads, p.poll = pool_threads(n_threads), 50
    return p

def ggml_threadpool_params_default(n_threads):
    """Creates parameters of a thread pool with default values.

    Args:
        n_threads: number of threads, 1 to 512.
    Returns:
        ggml_threadpool_params by value: any CPU, normal priority, poll 50, not strict, not paused.
    Raises:
        TypeError: n_threads is not an integer.
        ValueError: n_threads is out of range.
    """
    enter(b"ggml_threadpool_params_default")
    return defaults(_structs.ggml_threadpool_params(), n_threads)

def ggml_threadpool_params_init(p, n_threads):
    """Overwrites parameters of a thread pool with the default values.

    Args:
        p: ggml_threadpool_params, or a pointer to one; set as ggml_threadpool_params_default does it.
        n_threads: number of threads, 1 to 512.
    Returns:
        None.
    Raises:
        TypeError: p is not a pointer to ggml_threadpool_params, or n_threads is not an integer.
        ValueError: n_threads is out of range.
    """
    enter(b"ggml_threadpool_params_init")
    defaults(pool_params(p, "p"), n_threads)

def ggml_threadpool_params_match(p0, p1):
    """Tells whether two sets of thread pool parameters describe the same threads.

    It compares n_threads, prio, poll, strict_cpu and cpumask, but not paused.

    Args:
        p0: ggml_threadpool_params, or a pointer to one.
        p1: ggml_threadpool_params, or a pointer to one.
    Returns:
        True if the compared fields are equal.
    Raises:
        TypeError: p0 or p1 is not a pointer to ggml_threadpool_params.
    """
    enter(b"ggml_threadpool_params_match")
    a, b = pool_params(p0, "p0"), pool_params(p1, "p1")
    equal = all(getattr(a, k) == getattr(b, k) for k in ("n_threads", "prio", "poll", "strict_cpu"))
    return equal and bytes(a.cpumask) == bytes(b.cpumask)

def ggml_threadpool_new(params):
    """Creates a handle that stands for a number of threads.

    No thread is started: graphs run on the threads of OpenMP. A backend that gets the pool
    (ggml_backend_cpu_set_threadpool) computes with n_threads threads; the other parameters have no effect.

    Args:
        params: ggml_threadpool_params, or a pointer to one; it is copied.
    Returns:
        Handle of the pool (int); free it with ggml_threadpool_free.
    Raises:
        TypeError: params is not a pointer to ggml_threadpool_params.
        ValueError: params.n_threads is not 1 to 512.
    """
    enter(b"ggml_threadpool_new")
    copy = _structs.ggml_threadpool_params.from_buffer_copy(pool_params(params, "params"))
    pool_threads(copy.n_threads)
    handle = next(handles)
    pools[handle] = copy
    return handle

cdef object pool(object handle):
    key = handle.value if is_a(handle, ctypes.c_void_p) else handle
    if type(key) is not int or key not in pools:
        fail(RuntimeError, f"threadpool is {repr_short(handle)}: no live thread pool")
    return key

def ggml_threadpool_free(threadpool):
    """Frees a thread pool.

    Args:
        threadpool: handle of the pool; None is accepted and ignored.
    Returns:
        None.
    Raises:
        RuntimeError: threadpool is not a live thread pool.
    """
    enter(b"ggml_threadpool_free")
    if threadpool is not None:
        del pools[pool(threadpool)]

def ggml_threadpool_pause(threadpool):
    """Marks a thread pool as paused.

    The mark has no effect: the threads sleep between graphs anyway.

    Args:
        threadpool: handle of the pool.
    Returns:
        None.
    Raises:
        RuntimeError: threadpool is not a live thread pool.
    """
    enter(b"ggml_threadpool_pause")
    pools[pool(threadpool)].paused = True

def ggml_threadpool_resume(threadpool):
    """Removes the mark that ggml_threadpool_pause set.

    Args:
        threadpool: handle of the pool.
    Returns:
        None.
    Raises:
        RuntimeError: threadpool is not a live thread pool.
    """
    enter(b"ggml_threadpool_resume")
    pools[pool(threadpool)].paused = False

def ggml_threadpool_get_n_threads(threadpool):
    """Returns the number of threads that a pool stands for.

    Args:
        threadpool: handle of the pool.
    Returns:
        Number of threads (int), 1 to 512.
    Raises:
        RuntimeError: threadpool is not a live thread pool.
    """
    enter(b"ggml_threadpool_get_n_threads")
    return threadpool_threads(threadpool)

def threadpool_threads(threadpool):
    """The number of threads of a pool; errors begin with the name of the function that runs."""
    return pools[pool(threadpool)].n_threads
