"""Messages of errors: the name of the function with which they begin."""

import contextlib
import re

_FUNCTION = re.compile(r"^(?:ggml_\w+|gguf_\w+|ggml\.ext\.\w+|ggml\.onnx\.load|load|load_lora|Tokenizer|from_numpy): ")


def without_function(message):
    """A message without the name of the function with which it begins."""
    return _FUNCTION.sub("", message)


def renamed_os_error(error, function, path):
    """The error of the operating system with another function at its beginning and, unless None, another path."""
    if error.strerror is None:
        return type(error)(f"{function}: {without_function(str(error))}")
    text = f"{function}: {without_function(error.strerror)}"
    return type(error)(error.errno, text, error.filename if path is None else path)


@contextlib.contextmanager
def renamed(function, path=None):
    """Makes errors of ggml functions begin with the name of the public function that called them.

    Args:
        function: name of the public function.
        path: name of the file that the caller was given, which the errors then show, or None.
    """
    try:
        yield
    except OSError as error:
        raise renamed_os_error(error, function, path) from None
    except (TypeError, ValueError, MemoryError, RuntimeError) as error:
        text = without_function(str(error))
        if path is not None and str(path) not in text:
            text = f"{str(path)!r}: {text}"
        raise type(error)(f"{function}: {text}") from None


@contextlib.contextmanager
def naming(path):
    """Puts a file's name before errors of its contents, in place of the function that reads it."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}: {without_function(str(error))}") from None
