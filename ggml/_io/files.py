"""Opening and replacing files: what the functions share that read or write a path."""

import errno
import itertools
import os
import stat

from .._errors import rename

serial = itertools.count()  # makes the names of temporary files unique


def open_regular(path, function):
    """Opens a regular file for reading, without a buffer.

    Folders, pipes and devices are refused: their size says nothing, and reading them may wait or never end.

    Args:
        path: str or bytes.
        function: name of the public function, for messages.
    Returns:
        The file object.
    Raises:
        OSError: the file cannot be opened, or is not a regular file.
    """
    try:
        _require_regular(os.stat(path).st_mode)
        # Without O_NONBLOCK, a pipe that has taken the place of the file since would wait for a writer.
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            _require_regular(os.fstat(fd).st_mode)
        except OSError:
            os.close(fd)
            raise
    except OSError as error:
        raise rename(error, function, path) from None
    return open(fd, "rb", buffering=0)


def read_regular(path, function):
    """The bytes of a regular file: see open_regular."""
    with open_regular(path, function) as file:
        return file.read()


def _require_regular(mode):
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a folder: need a regular file")
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "a pipe or device: need a regular file")


def write_file(path, write):
    """Writes a file, which replaces `path` once it is complete: there is never half a file of this name.

    Where the system can, the bytes go to a file without a name, of which nothing remains if the process is killed
    (Linux: O_TMPFILE). Elsewhere they go to a temporary file in the same folder, which an exception removes but a kill
    leaves behind. Devices and pipes are written directly.

    Args:
        path: str, bytes or os.PathLike; symbolic links are followed.
        write: function that is called once with a function that takes bytes.
    Raises:
        OSError: the file cannot be written; the error names `path`, not the file that takes the bytes meanwhile.
    """
    path, given = os.path.realpath(os.fsdecode(path)), os.fsdecode(path)
    try:
        _write(path, write)
    except OSError as error:
        name = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else path
        if not name.startswith((path, "/proc/self/fd/")):  # an error of another file, such as one that `write` reads
            raise
        raise type(error)(error.errno, error.strerror or str(error), given) from None


def _write(path, write):
    if os.path.lexists(path) and not os.path.isfile(path):
        with open(path, "wb", buffering=0) as file:
            write(lambda data: _write_all(file, data))
        return
    unnamed = _open_unnamed(os.path.dirname(path))
    if unnamed is None:
        _write_named(path, write)
    else:
        with unnamed:
            write(lambda data: _write_all(unnamed, data))
            _give_name(unnamed, path)


def save(path, data, function):
    """Writes bytes to a file as write_file does; `function`, the name of the public function, begins its messages."""
    try:
        write_file(path, lambda write: write(data))
    except OSError as error:
        raise rename(error, function, path) from None


def _write_all(file, data):
    view = memoryview(data)
    while len(view):  # the operating system writes at most 2 GiB per call
        view = view[file.write(view) :]


def _open_unnamed(folder):
    """A new file without a name; None if the system has none, or no way to give it a name later."""
    if not hasattr(os, "O_TMPFILE"):
        return None
    try:
        fd = os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o666)
    except OSError:  # the file system has no such files; or another reason, which the named file will meet as well
        return None
    file = open(fd, "wb", buffering=0)
    if os.path.exists(f"/proc/self/fd/{fd}"):
        return file
    file.close()
    return None


def _give_name(file, path):
    """Gives a file without a name the name `path`, in place of the file that has it."""
    source = f"/proc/self/fd/{file.fileno()}"
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:  # with a folder, os.link calls linkat, which follows the symbolic link in /proc
        if not os.path.lexists(path):
            try:
                os.link(source, os.path.basename(path), src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=True)
                return
            except FileExistsError:  # made meanwhile
                pass
        os.fchmod(file.fileno(), stat.S_IMODE(os.stat(path).st_mode))
        name = _temporary(path)
        os.link(source, os.path.basename(name), src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=True)
        try:
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    finally:
        os.close(folder)


def _temporary(path):
    return f"{path}.{os.getpid():x}-{next(serial):x}.tmp"


def _write_named(path, write):
    """Writes to a temporary file, which is renamed to `path`."""
    name = _temporary(path)
    try:
        with open(name, "wb", buffering=0) as file:
            write(lambda data: _write_all(file, data))
        if os.path.exists(path):
            os.chmod(name, stat.S_IMODE(os.stat(path).st_mode))
        os.replace(name, path)
    except BaseException:
        if os.path.exists(name):
            os.unlink(name)
        raise


def same_file(a, b):
    """Whether two paths mean one file, which need not exist."""
    if os.path.exists(a) and os.path.exists(b):
        return os.path.samefile(a, b)
    return os.path.realpath(a) == os.path.realpath(b)


def check_outputs(outputs, inputs=()):
    """Refuses, before any work, files that could not be written after it or would replace what is read.

    Args:
        outputs: paths of files to write; None is skipped.
        inputs: paths of files that are read; None is skipped.

    Raises:
        OSError: a path is that of a folder, its folder does not exist, or writing is not permitted.
        ValueError: a path is that of an input or of another output.
    """
    known = [path for path in inputs if path is not None]
    for path in outputs:
        if path is None:
            continue
        folder = os.path.dirname(os.path.abspath(path))
        if os.path.isdir(path):
            raise IsADirectoryError(f"{path}: a folder: need a file")
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"{path}: the folder {folder} does not exist")
        if not os.access(path if os.path.exists(path) else folder, os.W_OK):
            raise PermissionError(f"{path}: writing is not permitted")
        for other in known:
            if same_file(path, other):
                raise ValueError(f"{path} is the same file as {other}: the output needs another name")
        known.append(path)
