"""Results of training and evaluation: ggml_opt_result_*."""
import math
from array import array

from libc.string cimport memcpy

from .._core cimport arg_buffer, enter
from .._handle cimport HANDLE, Handle, find, opened, set_title

cdef class Result(Handle):
    cdef int reset(self) except -1:
        self.ndata = self.ncorrect = 0
        self.losses, self.pred, self.per_datapoint = array("d"), array("i"), True
        return 0

    cdef tuple loss(self):
        cdef Py_ssize_t n = len(self.losses)
        if n == 0:
            return 0.0, math.nan
        mean = math.fsum(self.losses) / n
        error = math.sqrt(math.fsum([(x - mean) ** 2 for x in self.losses]) / (n - 1) / n) if n > 1 else math.nan
        return (mean, error) if self.per_datapoint else (mean * n, error * n)

    cdef tuple accuracy(self):
        if self.ncorrect < 0 or self.ndata == 0:
            return math.nan, math.nan
        part = self.ncorrect / <double>self.ndata
        return part, (math.sqrt(part * (1 - part) / (self.ndata - 1)) if self.ndata > 1 else math.nan)

set_title(Result, "training result")

cdef Result arg_result(object o):
    return <Result>find(o, Result, "result")

cdef int write_value(object target, const char *name, const void *value, size_t size) except -1:
    """Writes a value to the caller's memory; None: nowhere."""
    cdef void *p
    arg_buffer(target, name, size, &p)
    if p != NULL:
        memcpy(p, value, size)
    return 0

def ggml_opt_result_init():
    """Creates an empty result, which collects loss, predictions and accuracy over batches.

    Returns:
        Handle (int) of the result. Pass it to ggml_opt_eval or ggml_opt_epoch; free it with ggml_opt_result_free.
    """
    cdef Result r = Result()
    r.reset()
    return HANDLE(opened(r))

def ggml_opt_result_free(result):
    """Frees a training result.

    Args:
        result: handle of the result, or None, which does nothing.
    Returns:
        None.
    Raises:
        TypeError: result is not a training result.
        RuntimeError: result was freed already.
    """
    enter(b"ggml_opt_result_free")
    if result is not None:
        arg_result(result).close()

def ggml_opt_result_reset(result):
    """Empties a result, so that the next batch is its first one.

    Args:
        result: handle of the result.
    Returns:
        None.
    Raises:
        TypeError: result is not a training result.
        RuntimeError: result was freed.
    """
    enter(b"ggml_opt_result_reset")
    arg_result(result).reset()

def ggml_opt_result_ndata(result, ndata):
    """Writes how many datapoints a result has collected.

    Each evaluated batch adds ne1 of the outputs.

    Args:
        result: handle of the result.
        ndata: pointer to an int64 that receives the number, or None.
    Returns:
        None.
    Raises:
        TypeError: result is not a training result, or ndata is not a pointer.
        ValueError: ndata has fewer than 8 bytes.
        RuntimeError: result was freed.
    """
    enter(b"ggml_opt_result_ndata")
    write_value(ndata, b"ndata", &arg_result(result).ndata, 8)

cdef int write_pair(tuple values, object first, const char *name, object unc) except -1:
    cdef double value = values[0], error = values[1]
    write_value(first, name, &value, 8)
    return write_value(unc, b"unc", &error, 8)

def ggml_opt_result_loss(result, loss, unc):
    """Writes the loss over all collected batches and its uncertainty.

    The loss is the mean of the batches' losses, and the uncertainty the standard error of that mean. For
    GGML_OPT_LOSS_TYPE_SUM both are multiplied by the number of batches.

    Args:
        result: handle of the result.
        loss: pointer to a double that receives the loss, or None. It is 0 before the first batch.
        unc: pointer to a double that receives the uncertainty, or None. It is NaN for fewer than two batches.
    Returns:
        None.
    Raises:
        TypeError: result is not a training result, or another argument is not a pointer.
        ValueError: loss or unc has fewer than 8 bytes.
        RuntimeError: result was freed.
    """
    enter(b"ggml_opt_result_loss")
    write_pair(arg_result(result).loss(), loss, b"loss", unc)

def ggml_opt_result_pred(result, pred):
    """Writes the predicted class of every collected datapoint.

    There are predictions for GGML_OPT_LOSS_TYPE_CROSS_ENTROPY with outputs [classes, n] only; otherwise nothing is
    written. The order is that of the evaluated batches.

    Args:
        result: handle of the result.
        pred: array of int32 with an entry for each datapoint (see ggml_opt_result_ndata), or None.
    Returns:
        None.
    Raises:
        TypeError: result is not a training result, or pred is not a pointer.
        ValueError: pred is too small.
        RuntimeError: result was freed.
    """
    enter(b"ggml_opt_result_pred")
    cdef Result r = arg_result(result)
    cdef const int[::1] values = r.pred
    if len(r.pred):
        write_value(pred, b"pred", &values[0], <size_t>len(r.pred) * 4)

def ggml_opt_result_accuracy(result, accuracy, unc):
    """Writes the fraction of correct predictions and its uncertainty.

    With p the fraction and n the number of datapoints, the uncertainty is sqrt(p (1 - p) / (n - 1)).

    Args:
        result: handle of the result.
        accuracy: pointer to a double that receives a number from 0 to 1, or None. It is NaN before the first batch,
            and for losses without predictions (see ggml_opt_result_pred).
        unc: pointer to a double that receives the uncertainty, or None. It is NaN for fewer than two datapoints.
    Returns:
        None.
    Raises:
        TypeError: result is not a training result, or another argument is not a pointer.
        ValueError: accuracy or unc has fewer than 8 bytes.
        RuntimeError: result was freed.
    """
    enter(b"ggml_opt_result_accuracy")
    write_pair(arg_result(result).accuracy(), accuracy, b"accuracy", unc)
