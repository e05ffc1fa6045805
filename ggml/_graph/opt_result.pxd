# Results: loss, predictions and accuracy, collected over batches.
from libc.stdint cimport int64_t

from .._handle cimport Handle

cdef class Result(Handle):
    cdef int64_t ndata, ncorrect       # ncorrect -1: not known
    cdef object losses                 # array('d') of the batches' losses
    cdef object pred                   # array('i') of the datapoints' predicted classes
    cdef bint per_datapoint            # the losses are means over datapoints, not sums
    cdef int reset(self) except -1
    cdef tuple loss(self)              # mean (or sum) over the batches, and its standard error
    cdef tuple accuracy(self)          # fraction of correct predictions, and its standard error

cdef Result arg_result(object o)
