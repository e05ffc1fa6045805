"""Python code for child processes of tests that fork; continue it with lines that are indented by four spaces."""

FORK = """if 1:
    import os, signal, sys, threading, traceback, warnings
    import numpy as np
    warnings.simplefilter("ignore")     # Python warns of a fork with several threads

    def in_child(function):
        # Forks, calls the function in the child, and returns once that has ended without an error.
        pid = os.fork()
        if not pid:
            signal.alarm(50)    # ends a child that hangs
            try:
                function()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    def beside(call):
        # Calls it again and again in another thread, until the result is called.
        end = threading.Event()
        def run():
            while not end.is_set():
                call()
        thread = threading.Thread(target=run)
        thread.start()
        return lambda: (end.set(), thread.join())
"""
