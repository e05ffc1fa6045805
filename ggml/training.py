"""Training on NumPy arrays, over the functions `ggml_opt_*`; the examples use it.

A `Session` holds the weights. Its method `start` builds the graph of a training step once; `epoch` and `predict` run it
on arrays.
"""

import ctypes
import math

import numpy as np

from . import ggml
from .utils import GGML_TYPE_TO_NUMPY_DTYPE, from_numpy, to_numpy

F32 = ggml.GGML_TYPE_F32


def adamw(rate, decay=0.0, steps=0):
    """Creates a function that gives the optimiser's parameters, with a constant or a cosine learning rate.

    Step t, counted from 0, has the rate: rate * (1 + cos(pi * min(t / steps, 1))) / 2. The same rate and weight
    decay are set for AdamW and SGD; the other parameters are the defaults.

    Args:
        rate: learning rate at the beginning.
        decay: weight decay, 0 to 1.
        steps: steps until the rate is 0; 0 keeps it constant.
    Returns:
        Function for Session.start or ggml_opt_get_optimizer_params. Each call counts as a step.
    """
    done = 0

    def parameters(_):
        nonlocal done
        made = ggml.ggml_opt_get_default_optimizer_params(None)
        factor = (1 + math.cos(math.pi * min(done / steps, 1))) / 2 if steps else 1
        made.adamw.alpha = made.sgd.alpha = rate * factor
        made.adamw.wd = made.sgd.wd = decay
        done += 1
        return made

    return parameters


def picture(path, title, **curves):
    """Draws one curve per keyword over the epochs and saves the figure, for example as PNG.

    It requires matplotlib.

    Args:
        path: path of the file.
        title: title of the figure.
        **curves: values of each curve, for the epochs 1, 2, 3 ... Underscores in a name become spaces in the
            legend.
    Returns:
        None.
    Raises:
        ImportError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
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
    """Trains a model on NumPy arrays: holds backend, scheduler, weights and optimisation context.

    Create the weights with parameter and frozen, call start once, then epoch and predict as often as needed. Use it
    in a with statement, at whose end everything is freed; NumPy views of weights stay valid.

    Args:
        threads: number of threads; 0 for the default.

    Example:
        with Session() as s:
            w = s.parameter("w", 0.1 * rng.standard_normal((10, 784)))
            loss = ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY
            s.start(lambda ctx, x: ggml.ggml_mul_mat(ctx, w, x), 784, 64, loss, adamw(1e-3))
            mean_loss, accuracy = s.epoch(images, labels)
    """

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
        """Creates an f32 tensor that is trained, with its initial values.

        Args:
            name: name of the tensor.
            values: array of 1 to 4 dimensions, converted to float32. Its last dimension becomes dimension 0.
        Returns:
            Tensor, marked with ggml_set_param.
        Raises:
            ValueError: values has more than 4 dimensions.
            MemoryError: there is not enough memory.
        """
        tensor = from_numpy(np.ascontiguousarray(values, np.float32), self.weights)
        ggml.ggml_set_name(tensor, name.encode())
        ggml.ggml_set_param(tensor)
        return tensor

    def frozen(self, name, values, kind=F32):
        """Creates a tensor that is not trained, quantised if wanted.

        Args:
            name: name of the tensor.
            values: array of 1 to 4 dimensions, converted to float32. Its last dimension becomes dimension 0.
            kind: GGML_TYPE_* of the tensor; rows must be whole blocks of it.
        Returns:
            Tensor.
        Raises:
            ValueError: the shape does not fit kind, or kind cannot be quantised to or requires importance weights.
            MemoryError: there is not enough memory.
        """
        values = np.ascontiguousarray(values, np.float32)
        tensor = ggml.ggml_new_tensor(self.weights, kind, values.ndim, values.shape[::-1])
        ggml.ggml_set_name(tensor, name.encode())
        width = values.shape[-1]
        ggml.ggml_quantize_chunk(kind, values, tensor.contents.data, 0, values.size // width, width, None)
        return tensor

    def start(self, forward, width, batch, loss, parameters, optimizer=ggml.GGML_OPT_OPTIMIZER_TYPE_ADAMW, kind=F32):
        """Builds the graph of a training step. Call it once, after the weights are created.

        Args:
            forward: called once as forward(ctx, inputs) with inputs [width, batch]; returns the outputs, f32 [n_out,
                batch].
            width: numbers per datapoint.
            batch: datapoints per batch.
            loss: GGML_OPT_LOSS_TYPE_*.
            parameters: function that gives the optimiser's parameters for each step, see adamw and
                ggml_opt_get_optimizer_params.
            optimizer: GGML_OPT_OPTIMIZER_TYPE_*.
            kind: GGML_TYPE_* of the inputs, one that NumPy has.
        Returns:
            The session itself.
        Raises:
            TypeError: forward did not return a tensor, or another argument is of the wrong kind.
            ValueError: outputs and loss do not fit, or a number is not allowed.
            MemoryError: there is not enough memory.
        """
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
        """Trains on all datapoints once, in random order.

        The datapoints that do not fill a whole batch are left out; other ones each time.

        Args:
            data: array [n, width] with one datapoint per row, at least one batch of them.
            labels: float array [n, n_out]; None for the losses MEAN and SUM, which take no labels.
        Returns:
            List of loss and accuracy (float) over the batches; the accuracy is NaN if there are no predictions (see
            ggml_opt_result_accuracy).
        Raises:
            TypeError: start was not called.
            ValueError: data or labels do not fit the model, or there is less than one batch.
            RuntimeError: the loss is NaN or infinite (see ggml_opt_eval).
        """
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
                inputs, targets = ggml.ggml_opt_inputs(self.opt), ggml.ggml_opt_labels(self.opt)
                ggml.ggml_opt_dataset_get_batch(self.dataset, inputs, targets, i)
                ggml.ggml_opt_eval(self.opt, result)
            return [_number(f, result) for f in (ggml.ggml_opt_result_loss, ggml.ggml_opt_result_accuracy)]
        finally:
            ggml.ggml_opt_result_free(result)

    def predict(self, data):
        """Computes the outputs for datapoints, without training.

        Args:
            data: array [n, width] with one datapoint per row, n at least 1.
        Returns:
            New float32 array [n, n_out].
        Raises:
            TypeError: start was not called.
            ValueError: data does not fit the model, or is empty.
            RuntimeError: the loss, which is computed with the labels of the last batch, is NaN or infinite.
        """
        n = self._rows("predict", data)
        if n == 0:
            raise ValueError("Session.predict: data has 0 rows: need 1 or more")
        batches = -(-n // self.batch)
        rows = np.zeros((batches * self.batch, data.shape[1]), GGML_TYPE_TO_NUMPY_DTYPE[self.kind])
        rows[:n] = data
        found = []
        for first in range(0, len(rows), self.batch):
            ggml.ggml_opt_alloc(self.opt, False)
            block = rows[first : first + self.batch]
            ggml.ggml_backend_tensor_set(ggml.ggml_opt_inputs(self.opt), block.ctypes.data, 0, block.nbytes)
            ggml.ggml_opt_eval(self.opt, None)
            found.append(to_numpy(ggml.ggml_opt_outputs(self.opt)).reshape(self.batch, -1).copy())
        return np.concatenate(found)[:n]

    def _rows(self, name, data):
        """The number of datapoints; raises ValueError if they do not fit the model."""
        width = ggml.ggml_opt_inputs(self.opt).contents.ne[0]
        if data.ndim != 2 or data.shape[1] != width:
            raise ValueError(f"Session.{name}: data is {data.shape}: need rows of {width}, as the inputs have")
        return len(data)


def _number(function, result):
    """The value that a function of a result writes."""
    value = ctypes.c_double()
    function(result, ctypes.byref(value), None)
    return value.value
