"""Messages of errors, which begin with the name of the public function that was called.

The name is added where a call enters the library: in Cython by `fail`, in Python by the decorator `named`. What raises
inside need not know it. An error keeps the name that its message begins with in its attribute `function`, so that a
public function which calls another one can put its own name in the place of the other's.
"""

import contextlib

KINDS = (TypeError, ValueError, MemoryError, RuntimeError, OSError)


def bare(error):
    """The message of an error without the function's name; that of a system's error without its number and path."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    function = getattr(error, "function", None)
    return text.removeprefix(f"{function}: ") if function else text


def rename(error, function, path=None):
    """Lets the message of an error begin with the name of a function, in place of the one that it has.

    Args:
        error: the exception, which is changed.
        function: name of a public function.
        path: name of a file as the caller gave it, which the message then has, or None.
    Returns:
        The exception; another one if messages of its class cannot be changed.
    """
    text = bare(error).removeprefix(f"{function}: ")
    if isinstance(error, OSError) and error.strerror:
        error.strerror = f"{function}: {text}"
        error.args = (error.errno, error.strerror, *error.args[2:])
        if path is not None:
            error.filename = path
    else:
        if path is not None and str(path) not in text:
            text = f"{str(path)!r}: {text}"
        error = changed(error, f"{function}: {text}")
    error.function = function
    return error


def changed(error, text):
    """The exception with another message; a ValueError if messages of its class consist of other parts."""
    if isinstance(error, UnicodeError):
        return ValueError(text)
    error.args = (text,)
    return error


class named(contextlib.ContextDecorator):
    """Decorator or context: errors that leave it begin with the name of a public function.

    Args:
        function: the name.
        path: name of a file that the caller gave, which errors then show, or None.
        callbacks: True where callbacks of the caller run: only errors that have the name of a function get another one.
    """

    def __init__(self, function, path=None, callbacks=False):
        self.function, self.path, self.callbacks = function, path, callbacks

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if isinstance(error, KINDS) and (hasattr(error, "function") or not self.callbacks):
            new = rename(error, self.function, self.path)
            if new is not error:
                raise new from None
        return False


@contextlib.contextmanager
def naming(path):
    """Puts a file's name before errors of its contents, in place of the function that reads it."""
    try:
        yield
    except ValueError as error:
        new = changed(error, f"{path}: {bare(error)}")
        new.function = None
        raise new from None
