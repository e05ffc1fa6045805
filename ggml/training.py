"""Training on NumPy arrays, over the functions `ggml_opt_*`; the examples use it.

A `Session` holds the weights. Its method `start` builds the graph of a training step once; `epoch` and `predict` run it
on arrays.
"""

from __future__ import annotations

import ctypes
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import ggml
from ._errors import named
from ._extras import require
from ._graph.opt_checkpoint import Checkpoint, _save_checkpoint
from ._graph.opt_dataset import _order, _set_order
from ._io.gguf_write import _write_to_file
from ._owners import Owner, keep
from .utils import GGML_TYPE_TO_NUMPY_DTYPE, from_numpy, get_shape, to_numpy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt
    from typing_extensions import Self

    from .distributed import Communicator

    Tensor = ggml.ggml_tensor_p
    PathName = str | bytes | os.PathLike

F32 = ggml.GGML_TYPE_F32


def adamw(rate: float, decay: float = 0.0, steps: int = 0) -> _Schedule:
    """Creates a function that gives the optimiser's parameters, with a constant or a cosine learning rate.

    Step t, counted from 0, has the rate: rate * (1 + cos(pi * min(t / steps, 1))) / 2. The same rate and weight
    decay are set for AdamW and SGD; the other parameters are the defaults.

    Args:
        rate: learning rate at the beginning, more than 0, at most 1e6; usual ones are below 1.
        decay: weight decay, 0 to 1.
        steps: steps until the rate is 0, 0 or more; 0 keeps it constant.
    Returns:
        Function for Session.start or ggml_opt_get_optimizer_params. Each call counts as a step; the attribute done
        is their number.
    Raises:
        ValueError: rate, decay or steps is out of range.
    """
    if not 0 < rate <= 1e6 or not 0 <= decay <= 1:
        raise ValueError(f"adamw: rate is {rate}, decay is {decay}: need a rate above 0 up to 1e6, a decay of 0 to 1")
    if not steps >= 0:
        raise ValueError(f"adamw: steps is {steps}: need 0 or more")
    return _Schedule(rate, decay, steps)


class _Schedule:
    """The function that adamw returns."""

    def __init__(self, rate, decay, steps):
        self.rate, self.decay, self.steps, self.done = rate, decay, steps, 0

    def __call__(self, _: object) -> ggml.ggml_opt_optimizer_params:
        made = ggml.ggml_opt_get_default_optimizer_params(None)
        factor = (1 + math.cos(math.pi * min(self.done / self.steps, 1))) / 2 if self.steps else 1
        made.adamw.alpha = made.sgd.alpha = self.rate * factor
        made.adamw.wd = made.sgd.wd = self.decay
        self.done += 1
        return made


def check_packages(*modules: str, install: str = "'ggml-cython[demo]'") -> None:
    """Checks that optional packages are installed, before a long training rather than during it.

    Args:
        *modules: names of the modules that will be imported.
        install: what pip has to install if one is missing, as on its command line, for the message.
    Returns:
        None.
    Raises:
        ModuleNotFoundError: a package is missing; the message names all that are, and how to install them.

    Example:
        check_packages("sklearn", "tqdm")
        from tqdm import tqdm
    """
    require("check_packages: ", modules, install)


def check_picture(path: str | os.PathLike) -> None:
    """Checks that picture will be able to write a file, before a long training rather than after it.

    Args:
        path: path of the file.
    Returns:
        None.
    Raises:
        ImportError: matplotlib is not installed.
        ValueError: the file's suffix is not one that matplotlib can write.
        OSError: the folder of the file does not exist.
    """
    _require_picture("check_picture", path)


def _require_picture(caller: str, path: str | os.PathLike) -> None:
    """What check_picture does, for the function of a name."""
    require(f"{caller}: ", ["matplotlib"], "'ggml-cython[profile]'")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    suffixes = FigureCanvasAgg.get_supported_filetypes()
    if (suffix := Path(path).suffix[1:].lower()) not in suffixes:
        raise ValueError(f"{caller}: {path} ends in {suffix!r}: need one of {', '.join(suffixes)}")
    if not Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(f"{caller}: the folder of {path} does not exist")


def picture(
    path: str | os.PathLike,
    title: str,
    *drawings: Callable[[Any], object],
    **curves: Sequence[float] | dict[str, Sequence[float]],
) -> None:
    """Draws each quantity over the epochs on axes of its own, side by side, and saves the figure, for example as PNG.

    It requires matplotlib.

    Args:
        path: path of the file.
        title: title of the figure.
        *drawings: functions that draw something else, each called with axes of its own.
        **curves: the values of a quantity for the epochs 1, 2, 3 ..., or a dict of several such curves by their
            labels. Underscores in names become spaces.
    Returns:
        None.
    Raises:
        ImportError: matplotlib is not installed.
        ValueError: there is nothing to draw.
        OSError: the file cannot be written.

    Example:
        picture("digits.png", "Digits", loss=losses, accuracy={"training": seen, "held out": unseen})
    """
    _require_picture("picture", path)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    n = len(curves) + len(drawings)
    if n == 0:
        raise ValueError("picture: there is nothing to draw: need a curve or a drawing")
    figure = Figure(figsize=(1 + 4 * n, 4), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    places = figure.subplots(1, n, squeeze=False)[0]
    for axes, (name, values) in zip(places, curves.items()):
        labelled = values if isinstance(values, dict) else {None: values}
        for label, curve in labelled.items():
            axes.plot(range(1, len(curve) + 1), curve, label=label, marker="." if len(curve) < 3 else "")
        axes.set(title=name.replace("_", " "), xlabel="epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if isinstance(values, dict):
            axes.legend()
    for axes, draw in zip(places[len(curves) :], drawings):
        draw(axes)
    figure.savefig(path, dpi=110)


def save_weights(ctx: int | None, path: PathName) -> None:
    """Writes the named tensors of a context to a GGUF file, for example the weights of a Session.

    Args:
        ctx: context with tensors that have data, as Session.weights.
        path: path of the file, as str, bytes or os.PathLike; a file of that name is replaced.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a context, or path is not a path.
        ValueError: the context has no named tensor, or two tensors of one name.
        OSError: the file cannot be written.
        RuntimeError: ctx was freed.
    """
    file = ggml.gguf_init_empty()
    try:
        with named("save_weights"):
            for tensor in _named(ctx).values():
                ggml.gguf_add_tensor(file, tensor)
            _write_to_file(file, path, False)
    finally:
        ggml.gguf_free(file)


def load_weights(ctx: int | None, path: PathName) -> None:
    """Reads the values of all named tensors of a context from a GGUF file, as save_weights writes them.

    Everything is checked before a value is changed. Tensors of the file that the context lacks are ignored.

    Args:
        ctx: context with tensors of the names, shapes and types of the file.
        path: path of the file, as str, bytes or os.PathLike.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a context, or path is not a path.
        ValueError: the file lacks a tensor or has it in another shape or type, or is not a GGUF file; or a tensor of
            the context has no data.
        OSError: the file cannot be read.
        RuntimeError: ctx was freed.
    """
    handle = ctypes.c_void_p()
    with named("load_weights"):
        tensors = _named(ctx)
        places = {name: np.asarray(tensor) for name, tensor in tensors.items()}  # also checks that there is memory
    params = ggml.gguf_init_params(no_alloc=False, ctx=ctypes.pointer(handle))
    with named("load_weights", path):
        file = ggml.gguf_init_from_file(path, params)  # type: ignore[arg-type]
    try:
        sources = {name: ggml.ggml_get_tensor(handle.value, name) for name in tensors}
        for name, tensor in tensors.items():
            source = sources[name]
            if not source:
                raise ValueError(f"load_weights: {os.fsdecode(path)} has no tensor {name.decode()!r}")
            if not ggml.ggml_are_same_shape(source, tensor) or source.contents.type != tensor.contents.type:
                raise ValueError(f"load_weights: tensor {name.decode()!r} is {_kind(source)} in the file: "
                                 f"need {_kind(tensor)}")  # fmt: skip
        for name, place in places.items():
            place[...] = np.asarray(sources[name])
    finally:
        ggml.gguf_free(file)
        ggml.ggml_free(handle.value)


def _named(ctx):
    """The tensors of a context that have names, by name."""
    found: dict = {}
    tensor = ggml.ggml_get_first_tensor(ctx)
    while tensor:
        name = tensor.contents.name
        if name in found:
            raise ValueError(f"two tensors are named {name.decode()!r}")
        if name:
            found[name] = tensor
        tensor = ggml.ggml_get_next_tensor(ctx, tensor)
    if not found:
        raise ValueError("the context has no named tensor")
    return found


def _kind(tensor):
    return f"{ggml.ggml_type_name(tensor.contents.type).decode()} {list(get_shape(tensor))}"


@dataclass(frozen=True)
class Step:
    """What the callbacks of a Session get after each training step."""

    epoch: int  # number of the epoch, from 0
    batch: int  # number of the step within the epoch, from 0
    batches: int  # number of steps of the epoch; one batch each, unless the Session accumulates several
    loss: float  # of these batches, before the step


class _Result(Owner):
    """The sums of an epoch, an object of ggml_opt_result_init. One that a callback begins within has its own."""

    handle: int | None = None

    def __init__(self) -> None:
        keep(self, "handle", ggml.ggml_opt_result_init)

    def free(self) -> None:
        if self.handle is not None:
            keep(self, "handle", ggml.ggml_opt_result_free, self.handle)

    def __del__(self) -> None:
        self.free()


class _Network(Owner):
    """What a Session trains: the weights, the graph of a step, and the backend that computes it."""

    # What the attributes hold that have to be freed; None before there is one and after it was freed.
    opt: int | None
    sched: int | None
    backend: int | None
    nodes: int | None
    weights: int | None
    dataset: int | None
    # What frees them, in this order.
    _FREE = {
        "opt": ggml.ggml_opt_free,
        "sched": ggml.ggml_backend_sched_free,
        "backend": ggml.ggml_backend_free,
        "nodes": ggml.ggml_free,
        "weights": ggml.ggml_free,
        "dataset": ggml.ggml_opt_dataset_free,
    }

    def __init__(self, threads: int, comm: Communicator | None, accumulate: int):
        if not isinstance(threads, (int, np.integer)):
            raise TypeError(f"Session: threads is {threads!r}: need an integer")
        if threads < 0:
            raise ValueError(f"Session: threads is {threads}: need 0 or more")
        self.comm, self.rank, self.ranks = comm, comm.rank if comm else 0, comm.size if comm else 1
        self.accumulate = accumulate or self.ranks
        if self.accumulate < 1 or self.accumulate % self.ranks:
            raise ValueError(f"Session: accumulate is {accumulate}: need a multiple of {self.ranks}, one for each rank")
        if comm is not None:
            threads = threads or comm.threads
        vars(self).update(dict.fromkeys(self._FREE))
        keep(self, "backend", ggml.ggml_backend_cpu_init)
        if threads:
            ggml.ggml_backend_cpu_set_n_threads(self.backend, threads)
        keep(self, "sched", ggml.ggml_backend_sched_new, (ctypes.c_void_p * 1)(self.backend), None, 1, 1024, False)
        keep(self, "weights", ggml.ggml_init, ggml.ggml_init_params(mem_size=0))
        keep(self, "nodes", ggml.ggml_init, ggml.ggml_init_params(mem_size=0, no_alloc=True))

    def _free(self, *names: str) -> None:
        """Frees what these attributes hold, or all of them."""
        for name in names or self._FREE:
            if (held := vars(self).get(name)) is not None:
                keep(self, name, self._FREE[name], held)

    def __del__(self) -> None:
        self._free()

    def parameter(self, name: str, values: npt.ArrayLike) -> Tensor:
        """Creates an f32 tensor that is trained, with its initial values.

        Args:
            name: name of the tensor.
            values: array of 1 to 4 dimensions, converted to float32. Its last dimension becomes dimension 0.
        Returns:
            Tensor, marked with ggml_set_param.
        Raises:
            TypeError: name is not a str.
            ValueError: values has more than 4 dimensions, or is not an array of numbers.
            MemoryError: there is not enough memory.
        """
        self._open("parameter")
        with named("Session.parameter"):
            tensor = from_numpy(np.ascontiguousarray(values, np.float32), self.weights)
            ggml.ggml_set_name(tensor, name)
        ggml.ggml_set_param(tensor)
        return tensor

    def frozen(self, name: str, values: npt.ArrayLike, kind: int = F32) -> Tensor:
        """Creates a tensor that is not trained, quantised if wanted.

        Args:
            name: name of the tensor.
            values: array of 1 to 4 dimensions, converted to float32. Its last dimension becomes dimension 0.
            kind: GGML_TYPE_* of the tensor; rows must be whole blocks of it.
        Returns:
            Tensor.
        Raises:
            TypeError: name is not a str, or kind not an integer.
            ValueError: values is empty, the shape does not fit kind, or kind cannot be quantised to or requires
                importance weights.
            MemoryError: there is not enough memory.
        """
        self._open("frozen")
        with named("Session.frozen"):
            values = np.ascontiguousarray(values, np.float32)
            if values.size == 0:
                raise ValueError(f"values has the shape {values.shape}: need at least one number")
            tensor = ggml.ggml_new_tensor(self.weights, kind, values.ndim, values.shape[::-1])  # type: ignore[arg-type]
            ggml.ggml_set_name(tensor, name)
            width = values.shape[-1]
            rows, place = values.size // width, tensor.contents.data
            ggml.ggml_quantize_chunk(kind, values, place, 0, rows, width, None)  # type: ignore[arg-type]
        return tensor

    def start(
        self,
        forward: Callable[[Any, Tensor], Tensor],
        width: int,
        batch: int,
        loss: int,
        parameters: Callable[[Any], ggml.ggml_opt_optimizer_params],
        optimizer: int = ggml.GGML_OPT_OPTIMIZER_TYPE_ADAMW,
        kind: int = F32,
    ) -> Self:
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
            RuntimeError: start was called before.
        """
        self._open("start")
        if self.opt is not None:
            raise RuntimeError("Session.start: start was called before: another network needs another Session")
        if not callable(parameters):
            raise TypeError(f"Session.start: parameters is {parameters!r}: need a function, such as adamw(1e-3)")
        self.batch, self.kind, self.parameters, self.loss_type = batch, kind, parameters, loss
        if self.comm is not None and self.ranks > 1:
            for tensor in self._trained():
                values = to_numpy(tensor)
                values[...] = self.comm.share(values)
        inputs = ggml.ggml_new_tensor_2d(self.nodes, kind, width, batch)
        ggml.ggml_set_name(inputs, b"inputs")
        params = ggml.ggml_opt_default_params(self.sched, loss)
        outputs = forward(self.nodes, inputs)
        if not isinstance(outputs, ggml.ggml_tensor_p):
            raise TypeError(f"Session.start: forward returned {outputs!r}: need a tensor")
        params.ctx_compute, params.inputs, params.outputs = self.nodes, inputs, outputs
        params.get_opt_pars = ggml.ggml_opt_get_optimizer_params(parameters)
        params.optimizer, params.opt_period = optimizer, self.accumulate // self.ranks
        keep(self, "opt", ggml.ext.opt_init, params, self.comm)
        return self

    def _trained(self) -> Iterator[Tensor]:
        """The tensors that are trained."""
        tensor = ggml.ggml_get_first_tensor(self.weights)
        while tensor:
            if tensor.contents.flags & ggml.GGML_TENSOR_FLAG_PARAM:
                yield tensor
            tensor = ggml.ggml_get_next_tensor(self.weights, tensor)

    def _label_width(self) -> int:
        """Numbers per datapoint in the labels; 0 if the loss takes none."""
        labels = ggml.ggml_opt_labels(self.opt)
        return ggml.ggml_nelements(labels) // self.batch if labels else 0

    def _open(self, name: str) -> None:
        """Raises RuntimeError if the session has ended."""
        if self.weights is None:
            raise RuntimeError(f"Session.{name}: the session has ended: its weights and its network were freed")

    def _started(self, name: str) -> None:
        """Raises TypeError unless start was called."""
        self._open(name)
        if self.opt is None:
            raise TypeError(f"Session.{name}: call start first")

    def _rows(self, name: str, data: npt.ArrayLike) -> np.ndarray:
        """The datapoints as an array; raises an error if they do not fit the model."""
        self._started(name)
        data = np.asarray(data)
        width = ggml.ggml_opt_inputs(self.opt).contents.ne[0]
        if data.ndim != 2 or data.shape[1] != width:
            raise ValueError(f"Session.{name}: data is {data.shape}: need rows of {width}, as the inputs have")
        return data


class Session(_Network):
    """Trains a model on NumPy arrays: holds backend, scheduler, weights and optimisation context.

    Create the weights with parameter and frozen, call start once, then epoch and predict as often as needed. Use it
    in a with statement, at whose end everything is freed; NumPy views of weights stay valid.

    Args:
        threads: number of threads; 0 for the default.
        callbacks: a function or several, each called after each training step with a Step (epoch, batch, batches,
            loss), for progress bars and records. An exception that one raises ends Session.epoch.
        comm: ggml.distributed.Communicator to train on several machines, or None. All ranks make the same calls with
            the same data, and each computes its share of every step. Rank 0's initial weights count, and rank 0
            writes the files. One rank that accumulates as many batches gets the same losses, bit for bit if each
            of the ranks computes one batch a step.
        accumulate: batches whose gradients make up a step, on all ranks together: a multiple of their number; 0 for
            one on each rank.
    Raises:
        TypeError: callbacks is neither a function nor an iterable of functions, or threads is not an integer.
        ValueError: threads is negative, or accumulate is not a multiple of the number of ranks.

    Example:
        with Session() as s:
            w = s.parameter("w", 0.1 * rng.standard_normal((10, 784)))
            loss = ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY
            s.start(lambda ctx, x: ggml.ggml_mul_mat(ctx, w, x), 784, 64, loss, adamw(1e-3))
            mean_loss, accuracy = s.epoch(images, labels)
    """

    def __init__(
        self,
        threads: int = 0,
        callbacks: Callable[[Step], object] | Iterable[Callable[[Step], object]] = (),
        comm: Communicator | None = None,
        accumulate: int = 0,
    ):
        self.callbacks = (callbacks,) if callable(callbacks) or not np.iterable(callbacks) else tuple(callbacks)
        for callback in self.callbacks:
            if not callable(callback):
                raise TypeError(f"Session: {callback!r} is among the callbacks: need functions")
        super().__init__(threads, comm, accumulate)
        self.epochs = 0
        self.order: Any = None  # of the next dataset of as many datapoints: that of a file which was loaded
        self.shape: tuple[int, int, int] = (0, 0, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._free()

    def epoch(self, data: npt.ArrayLike, labels: npt.ArrayLike | None = None) -> list[float]:
        """Trains on all datapoints once, in random order.

        The datapoints that do not fill the batches of a whole step are left out; other ones each time. With several
        ranks, all are given the same data, and step k consists of the batches of all ranks.

        Args:
            data: array [n, width] with one datapoint per row, at least the batches of one step.
            labels: float array [n, n_out]; None for the losses MEAN and SUM, which take no labels.
        Returns:
            List of loss and accuracy (float) over the batches; the accuracy is NaN if there are no predictions (see
            ggml_opt_result_accuracy).
        Raises:
            TypeError: start was not called.
            ValueError: data or labels do not fit the model, or there are fewer datapoints than the batches of one step.
            RuntimeError: the loss is NaN or infinite (see ggml_opt_eval), or another rank failed.
        """
        rows = self._rows("epoch", data)
        steps = len(rows) // (self.batch * self.accumulate)
        if steps == 0:
            need = "a batch" if self.accumulate == 1 else f"{self.accumulate} batches"
            raise ValueError(f"Session.epoch: data has {len(rows)} rows: need {need} of {self.batch} or more")
        width = self._label_width()
        wanted = (len(rows), width) if width else None
        shape = None if labels is None else np.shape(labels)
        if shape != wanted:
            raise ValueError(f"Session.epoch: the shape of labels is {shape}: need {wanted}")
        self._make_dataset((rows.shape[1], width, len(rows)))
        to_numpy(ggml.ggml_opt_dataset_data(self.dataset))[:] = rows
        if labels is not None:
            to_numpy(ggml.ggml_opt_dataset_labels(self.dataset))[:] = labels
        ggml.ggml_opt_dataset_shuffle(self.opt, self.dataset, -1)
        result, losses = _Result(), []
        try:
            for i in range(steps):
                losses.append(math.fsum(self._step(i, result.handle)))
                for callback in self.callbacks:
                    callback(Step(self.epochs, i, steps, losses[-1]))
            self.epochs += 1
            loss = math.fsum(losses) / (1 if self.loss_type == ggml.GGML_OPT_LOSS_TYPE_SUM else steps)
            accuracy = _number(ggml.ggml_opt_result_accuracy, result.handle)
            return [loss, float(np.mean(self.comm.collect(np.array(accuracy))) if self.comm else accuracy)]
        finally:
            result.free()

    def _step(self, number: int, result: Any) -> npt.NDArray[np.float32]:
        """Computes this rank's batches of a step; returns the losses of all ranks' batches, in their order."""
        count = self.accumulate // self.ranks
        losses = np.empty(count, np.float32)
        for k in range(count):
            with named("Session.epoch", callbacks=True):
                ggml.ggml_opt_alloc(self.opt, True)
                inputs, targets = ggml.ggml_opt_inputs(self.opt), ggml.ggml_opt_labels(self.opt)
                batch = number * self.accumulate + self.rank * count + k
                ggml.ggml_opt_dataset_get_batch(self.dataset, inputs, targets, batch)
                ggml.ggml_opt_eval(self.opt, result)
            losses[k] = to_numpy(ggml.ggml_opt_loss(self.opt)).item()
        return losses if self.comm is None else self.comm.collect(losses).reshape(-1)

    def predict(self, data: npt.ArrayLike) -> npt.NDArray[np.float32]:
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
        given = self._rows("predict", data)
        n = len(given)
        if n == 0:
            raise ValueError("Session.predict: data has 0 rows: need 1 or more")
        batches = -(-n // self.batch)
        rows = np.zeros((batches * self.batch, given.shape[1]), GGML_TYPE_TO_NUMPY_DTYPE[self.kind])
        rows[:n] = given
        found = []
        for first in range(0, len(rows), self.batch):
            with named("Session.predict", callbacks=True):
                ggml.ggml_opt_alloc(self.opt, False)
                block = rows[first : first + self.batch]
                ggml.ggml_backend_tensor_set(ggml.ggml_opt_inputs(self.opt), block.ctypes.data, 0, block.nbytes)
                ggml.ggml_opt_eval(self.opt, None)
            found.append(to_numpy(ggml.ggml_opt_outputs(self.opt)).reshape(self.batch, -1).copy())
        return np.concatenate(found)[:n]

    def save(self, path: PathName) -> None:
        """Writes the state of the training to a file: weights, moments, steps, order of the datapoints.

        Args:
            path: path of the file, as str, bytes or os.PathLike.
        Returns:
            None.
        Raises:
            TypeError: start was not called.
            OSError: the file cannot be written.
            RuntimeError: rank 0, which writes the file, could not (see comm).
        See also:
            save_weights writes the weights alone.
        """
        error: Exception | None = None
        if self.rank == 0:
            try:
                self._started("save")
                with named("Session.save"):
                    order = _order(self.dataset) if self.dataset is not None else self.order
                    _save_checkpoint(self.opt, path, order)
            except Exception as raised:
                error = raised
        failed = self.comm is not None and self.comm.share(np.array(error is not None)).item()
        if error is not None:
            raise error
        if failed:
            raise RuntimeError(f"Session.save: rank 0 could not write {os.fsdecode(path)!r}")

    def load(self, path: PathName) -> Self:
        """Reads a state that save wrote, so that epoch continues exactly where the other session was.

        Create the same weights and call start with the same arguments first. The learning rate of adamw continues
        too; other functions for the optimiser's parameters have to count on by themselves. The number of ranks may be
        another one, if accumulate is the same; all ranks read the file.

        Args:
            path: path of the file, as str, bytes or os.PathLike.
        Returns:
            The session itself.
        Raises:
            TypeError: start was not called.
            ValueError: the file is damaged or belongs to another model; nothing was changed.
            OSError: the file cannot be read.
        """
        self._started("load")
        with named("Session.load", path), Checkpoint(self.opt, path) as saved:
            saved.restore()
            self.order, done = saved.order, saved.steps
        if hasattr(self.parameters, "done"):
            self.parameters.done = done
        self._free("dataset")
        n = len(self.order or ())
        self.epochs = done // max(n // (self.batch * self.accumulate), 1) if n else 0
        return self

    def _make_dataset(self, shape: tuple[int, int, int]):
        """Makes the dataset of that shape (width, n_out, n) unless there is one."""
        if self.dataset is None or shape != self.shape:
            self._free("dataset")
            width, n_out, n = self.shape = shape
            keep(self, "dataset", ggml.ggml_opt_dataset_init, self.kind, F32, width, n_out, n, 1)
        if self.order is not None and len(self.order) == shape[2]:
            _set_order(self.dataset, self.order)
        self.order = None


def _number(function, result):
    """The value that a function of a result writes."""
    value = ctypes.c_double()
    function(result, ctypes.byref(value), None)
    return value.value
