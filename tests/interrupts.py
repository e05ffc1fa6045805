"""Ctrl-C at a place that a test chooses."""

import sys


def before_instruction(number, filename, action):
    """Runs a function and raises KeyboardInterrupt before the n-th bytecode instruction that it executes in a file.

    Instructions of finalisers, in which Python ignores interrupts, are not counted.

    Returns:
        Whether that instruction was reached.
    """
    left = number

    def finalised(frame):
        while frame and frame.f_code.co_name != "__del__":
            frame = frame.f_back
        return frame

    def trace(frame, event, argument):
        nonlocal left
        if frame.f_code.co_filename != filename or finalised(frame):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
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
    return False
