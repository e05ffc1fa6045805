"""What threads do with contexts, handles and views that all of them know: `Stress` checks what must be right then."""

import collections
import contextlib
import random
import threading
import time

import numpy as np

import ggml
from ggml.utils import to_numpy

F32 = ggml.GGML_TYPE_F32
MOST = 40  # contexts that all threads know
EXPECTED = (RuntimeError, ValueError, TypeError, BufferError, MemoryError)  # of a call with what another thread freed


class Made:
    """A context with a graph whose result is known. Other threads than its maker hold `turn` while they compute it."""

    def __init__(self, rng, turn):
        self.turn = turn
        self.n = rng.choice([4, 16, 1000])
        size = rng.choice([0, 1 << 20])  # the first grows
        self.ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=size, mem_buffer=None, no_alloc=False))
        self.number, self.freed = rng.randrange(100), False
        self.x = ggml.ggml_new_tensor_1d(self.ctx, F32, self.n)
        ggml.ggml_set_f32(self.x, self.number)
        y, self.adds = self.x, rng.randrange(1, 12)
        for _ in range(self.adds):
            y = ggml.ggml_add(self.ctx, y, self.x)
        self.y = y
        self.view = ggml.ggml_view_1d(self.ctx, y, self.n // 2, 0)
        self.graph = ggml.ggml_new_graph_custom(self.ctx, 32, False)
        ggml.ggml_build_forward_expand(self.graph, y)

    @property
    def expected(self):
        return self.number * (self.adds + 1)


class Stress:
    """Threads that create, free, look up, compute and view at random.

    What a thread does with its own context must succeed and give the right values; what it does with one that another
    thread may free or fill may give anything or raise one of EXPECTED. A view shows the values of its tensor.
    Unless they take turns, threads that compute one graph write the same results at a time: a program must not do that.
    """

    def __init__(self, threads=8, seed=0, take_turns=False):
        self.new_turn = threading.Lock if take_turns else contextlib.nullcontext
        self.threads, self.seed = threads, seed
        self.known, self.buffers = collections.deque(), collections.deque()
        self.counts = [collections.Counter() for _ in range(threads)]
        self.errors = []
        self.stopped = threading.Event()

    def run(self, seconds):
        """Runs the threads; returns how often each thing was done (Counter), and raises their first error."""
        workers = [threading.Thread(target=self.work, args=(k,)) for k in range(self.threads)]
        for worker in workers:
            worker.start()
        self.stopped.wait(seconds)
        self.stopped.set()
        for worker in workers:
            worker.join()
        if self.errors:
            raise self.errors[0]
        return sum(self.counts, collections.Counter())

    def work(self, k):
        rng = random.Random(f"{self.seed} {k}")
        views = collections.deque(maxlen=20)
        actions = [self.own, self.own, self.free, self.read, self.build, self.compute, self.handle, self.mistake]
        try:
            while not self.stopped.is_set():
                for _ in range(20):
                    action = rng.choice(actions)
                    action(k, rng)
                    self.counts[k][action.__name__] += 1
                    self.look(k, rng, views)
        except BaseException as error:
            self.errors.append(error)
            self.stopped.set()

    def own(self, k, rng):
        """Makes a context, computes it, and shows it to the others."""
        made = Made(rng, self.new_turn())
        for _ in range(rng.randrange(1, 5)):  # from the second on its graph is prepared
            assert ggml.ggml_graph_compute_with_ctx(made.ctx, made.graph, 1) == 0
        values = to_numpy(made.y)
        assert (values == made.expected).all(), (values, made.expected)
        assert ggml.ggml_nelements(made.view) == made.n // 2
        if rng.random() < 0.5:
            self.show(self.known, made, lambda oldest: self.free_known(k, oldest))
        else:
            ggml.ggml_free(made.ctx)
            assert (values == made.expected).all()

    def show(self, known, made, free):
        """Lets the other threads know an object; frees the oldest, which some of them may be using."""
        known.append(made)
        if len(known) > MOST:
            with contextlib.suppress(IndexError):  # other threads have taken them
                free(known.popleft())

    def other(self, rng):
        try:
            return rng.choice(self.known)
        except IndexError:  # there is none, or another thread has changed their number
            return None

    def attempt(self, k, function, *args):
        """Calls a function with what another thread may have freed."""
        try:
            return function(*args)
        except EXPECTED as error:
            name = str(error).partition(":")[0]
            assert name == getattr(function, "__name__", name), (name, function)
            self.counts[k]["refused"] += 1
            return None

    def free(self, k, rng):
        if made := self.other(rng):
            self.free_known(k, made)

    def free_known(self, k, made):
        made.freed = True
        self.attempt(k, ggml.ggml_free, made.ctx)

    def read(self, k, rng):
        if made := self.other(rng):
            for function in (ggml.ggml_nelements, ggml.ggml_get_name, ggml.ggml_nbytes, ggml.ggml_get_data):
                self.attempt(k, function, rng.choice([made.x, made.y, made.view]))
            self.attempt(k, ggml.ggml_used_mem, made.ctx)
            self.attempt(k, ggml.ggml_get_tensor, made.ctx, b"node_0")
            self.attempt(k, ggml.ggml_graph_node, made.graph, 0)

    def build(self, k, rng):
        """Adds to a context of all threads, from tensors of others."""
        made, source = self.other(rng), self.other(rng)
        for _ in range(rng.randrange(8) if made and source else 0):
            self.attempt(k, ggml.ggml_add, made.ctx, source.x, source.y)
            self.attempt(k, ggml.ggml_view_1d, made.ctx, source.y, 2, 4)
            self.attempt(k, ggml.ggml_new_tensor_1d, made.ctx, F32, rng.choice([1, 100, 300_000]))

    def compute(self, k, rng):
        """Computes a graph that others may be computing or freeing."""
        if made := self.other(rng):
            with made.turn:
                self.attempt(k, ggml.ggml_graph_compute_with_ctx, made.ctx, made.graph, 1)

    def look(self, k, rng, views):
        """Views stay readable, whoever frees their context."""
        if (made := self.other(rng)) and rng.random() < 0.2:
            view = self.attempt(k, to_numpy, made.x)
            if view is not None and made.freed and not (view.size == made.n and (view == made.number).all()):
                self.counts[k]["another"] += 1  # long after it was freed another tensor lies at the same address
            elif view is not None:
                views.append((view, made.number))
        if views and rng.random() < 0.2:
            view, number = rng.choice(views)
            assert (np.asarray(view) == number).all(), (view, number)

    def handle(self, k, rng):
        """Buffers, that is handles: those of this thread, and those of all."""
        buffer = ggml.ggml_backend_buft_alloc_buffer(ggml.ggml_backend_cpu_buffer_type(), 4096)
        assert ggml.ggml_backend_buffer_get_size(buffer) == 4096
        self.show(self.buffers, buffer, lambda oldest: self.attempt(k, ggml.ggml_backend_buffer_free, oldest))
        for _ in range(3):
            try:
                some = rng.choice(self.buffers)
            except IndexError:
                continue
            function = rng.choice([ggml.ggml_backend_buffer_get_base, ggml.ggml_backend_buffer_free])
            self.attempt(k, function, some)

    def mistake(self, k, rng):
        """Messages name the function of their own thread."""
        function = rng.choice([ggml.ggml_nelements, ggml.ggml_used_mem, ggml.ggml_graph_size, ggml.ggml_free])
        try:
            function("nothing")
        except TypeError as error:
            assert str(error).startswith(function.__name__ + ":"), (str(error), function)
        else:
            raise AssertionError(f"{function.__name__} takes a str")


def stress(seconds, threads=8, seed=0, take_turns=False):
    """Runs `Stress` and prints what was done."""
    began = time.monotonic()
    counts = Stress(threads, seed, take_turns).run(seconds)
    print(f"{threads} threads, {time.monotonic() - began:.0f} s: ", dict(sorted(counts.items())), flush=True)
    return counts
