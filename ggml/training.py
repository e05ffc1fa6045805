"""A few lines between NumPy arrays and `ggml_opt_*`: what the examples train with.

A `Session` has the weights; `start` builds the graph of a training step once; `epoch` and `predict` feed it arrays.
"""

import ctypes
import math

import numpy as np

from . import ggml
from .utils import GGML_TYPE_TO_NUMPY_DTYPE, from_numpy, to_numpy

F32 = ggml.GGML_TYPE_F32


def adamw(rate, decay=0.0, steps=0):
    """Parameters of AdamW (and SGD) for each step; the rate falls to 0 along a cosine over `steps` steps (0: it stays)."""
    done = 0

    def parameters(_):
        nonlocal done
        made = ggml.ggml_opt_get_default_optimizer_params(None)
        made.adamw.alpha = made.sgd.alpha = rate * (1 + math.cos(math.pi * min(done / steps, 1))) / 2 if steps else rate
        made.adamw.wd = made.sgd.wd = decay
        done += 1
        return made

    return parameters


def picture(path, title, **curves):
    """Draws curves over epochs into a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, values in curves.items():
        axes.plot(range(1, len(values) + 1), values, label=name.replace("_", " "))
    axes.set(title=title, xlabel="epoch")
    axes.legend()
    figure.savefig(path, dpi=110)


class Session:
    """A CPU backend, a scheduler, weights and, after `start`, an optimisation context. Use it in a `with` statement."""

    def __init__(self, threads=0):
        self.backend = ggml.ggml_backend_cpu_init()
        if threads:
            ggml.ggml_backend_cpu_set_n_threads(self.backend, threads)
        self.sched = ggml.ggml_backend_sched_new((ctypes.c_void_p * 1)(self.backend), None, 1, 1024, False)
        self.weights = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
        self.nodes = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, no_alloc=True))
        self.opt = self.dataset = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        ggml.ggml_opt_free(self.opt)
        ggml.ggml_opt_dataset_free(self.dataset)
        ggml.ggml_backend_sched_free(self.sched)
        ggml.ggml_backend_free(self.backend)
        ggml.ggml_free(self.nodes)
        ggml.ggml_free(self.weights)

    def parameter(self, name, values):
        """A tensor to be trained, with its first values."""
        tensor = from_numpy(np.ascontiguousarray(values, np.float32), self.weights)
        ggml.ggml_set_name(tensor, name.encode())
        ggml.ggml_set_param(tensor)
        return tensor

    def frozen(self, name, values, kind=F32):
        """A tensor that stays as it is, quantised to `kind`."""
        values = np.ascontiguousarray(values, np.float32)
        tensor = ggml.ggml_new_tensor(self.weights, kind, values.ndim, values.shape[::-1])
        ggml.ggml_set_name(tensor, name.encode())
        ggml.ggml_quantize_chunk(kind, values, tensor.contents.data, 0, values.size // values.shape[-1], values.shape[-1], None)
        return tensor

    def start(self, forward, width, batch, loss, parameters, optimizer=ggml.GGML_OPT_OPTIMIZER_TYPE_ADAMW, kind=F32):
        """Builds the graph: `forward(ctx, inputs)` gives the outputs for inputs [width, batch] of a type; `parameters`: see `adamw`."""
        self.batch, self.kind = batch, kind
        inputs = ggml.ggml_new_tensor_2d(self.nodes, kind, width, batch)
        ggml.ggml_set_name(inputs, b"inputs")
        params = ggml.ggml_opt_default_params(self.sched, loss)
        params.ctx_compute, params.inputs, params.outputs = self.nodes, inputs, forward(self.nodes, inputs)
        params.get_opt_pars = ggml.ggml_opt_get_optimizer_params(parameters)
        params.optimizer = optimizer
        self.opt = ggml.ggml_opt_init(params)
        return self

    def epoch(self, data, labels=None):
        """Trains on the datapoints once, in random order, but for those that fill no batch; gives loss and accuracy."""
        n = self._rows("epoch", data) // self.batch * self.batch
        if n == 0:
            raise ValueError(f"Session.epoch: data has {len(data)} rows: need a batch of {self.batch} or more")
        shape = (data.shape[1], labels.shape[1] if labels is not None else 0, len(data))
        if self.dataset is None or shape != self.shape:  # type: ignore[has-type]
            ggml.ggml_opt_dataset_free(self.dataset)
            self.dataset, self.shape = ggml.ggml_opt_dataset_init(self.kind, F32, *shape, 1), shape
        to_numpy(ggml.ggml_opt_dataset_data(self.dataset))[:] = data
        if labels is not None:
            to_numpy(ggml.ggml_opt_dataset_labels(self.dataset))[:] = labels
        ggml.ggml_opt_dataset_shuffle(self.opt, self.dataset, -1)
        result = ggml.ggml_opt_result_init()
        try:
            for i in range(n // self.batch):
                ggml.ggml_opt_alloc(self.opt, True)
                ggml.ggml_opt_dataset_get_batch(self.dataset, ggml.ggml_opt_inputs(self.opt), ggml.ggml_opt_labels(self.opt), i)
                ggml.ggml_opt_eval(self.opt, result)
            return [_number(f, result) for f in (ggml.ggml_opt_result_loss, ggml.ggml_opt_result_accuracy)]
        finally:
            ggml.ggml_opt_result_free(result)

    def predict(self, data):
        """The outputs for rows of inputs."""
        rows = np.zeros((-(-self._rows("predict", data) // self.batch) * self.batch, data.shape[1]), GGML_TYPE_TO_NUMPY_DTYPE[self.kind])
        rows[: len(data)] = data
        found = []
        for first in range(0, len(rows), self.batch):
            ggml.ggml_opt_alloc(self.opt, False)
            block = rows[first : first + self.batch]
            ggml.ggml_backend_tensor_set(ggml.ggml_opt_inputs(self.opt), block.ctypes.data, 0, block.nbytes)
            ggml.ggml_opt_eval(self.opt, None)
            found.append(to_numpy(ggml.ggml_opt_outputs(self.opt)).reshape(self.batch, -1).copy())
        return np.concatenate(found)[: len(data)]

    def _rows(self, name, data):
        """How many datapoints there are; an error where they don't fit the network."""
        width = ggml.ggml_opt_inputs(self.opt).contents.ne[0]
        if data.ndim != 2 or data.shape[1] != width:
            raise ValueError(f"Session.{name}: data is {data.shape}: need rows of {width}, as the inputs have")
        return len(data)


def _number(function, result):
    value = ctypes.c_double()
    function(result, ctypes.byref(value), None)
    return value.value
