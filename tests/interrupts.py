"""Ctrl-C at a place that a test chooses."""

import itertools
import sys


def before_instruction(number, filename, action):
    """Runs a function and raises KeyboardInterrupt before the n-th bytecode instruction that it executes in a file.

    Instructions of finalisers, in which Python ignores interrupts, are not counted.

    Returns:
        Whether that instruction was reached.
    """
    count = itertools.count(1)
    return when_due({filename}, lambda: next(count) == number, action)


def when_due(filenames, due, action):
    """Runs a function and raises KeyboardInterrupt before an instruction in some files: the first one that is due.

    Instructions of finalisers do not count, see before_instruction.

    Args:
        filenames: the files.
        due: function that is called before each instruction.
        action: the function.
    Returns:
        Whether an instruction was due.
    """
    reached = False

    def finalised(frame):
        while frame and frame.f_code.co_name != "__del__":
            frame = frame.f_back
        return frame

    def trace(frame, event, argument):
        nonlocal reached
        if frame.f_code.co_filename not in filenames or finalised(frame):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and due():
            reached = True
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(former)
    return reached
