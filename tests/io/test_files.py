"""Functions that take a path: invalid names, irregular files, and files that are written as a whole."""

import ctypes
import os
import stat
import sys
from pathlib import Path

import pytest

import ggml
from ggml._io import files

pytestmark = pytest.mark.core
OUT = ctypes.c_void_p()


@pytest.fixture
def graph(ctx):
    a = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 4)
    g = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(g, ggml.ggml_sqr(ctx, a))
    return g


def gguf():
    g = ggml.gguf_init_empty()
    ggml.gguf_set_val_u32(g, b"key", 1)
    return g


def readers():
    return {
        "gguf_init_from_file": lambda p: ggml.gguf_init_from_file(p, ggml.gguf_init_params(no_alloc=True)),
        "ggml_graph_import": lambda p: ggml.ggml_graph_import(p, ctypes.byref(OUT), ctypes.byref(OUT)),
    }


def writers(graph):
    return {
        "gguf_write_to_file": lambda p: ggml.gguf_write_to_file(gguf(), p, False),
        "ggml_graph_export": lambda p: ggml.ggml_graph_export(graph, p),
        "ggml_graph_dump_dot": lambda p: ggml.ggml_graph_dump_dot(graph, None, p),
    }


def others():
    return {
        "ggml_fopen": lambda p: ggml.ggml_fopen(p, b"rb"),
        "ggml_backend_load": ggml.ggml_backend_load,
        "ggml_backend_load_all_from_path": ggml.ggml_backend_load_all_from_path,
    }


NO_NAMES = [b"a\0b", "a\0b", "a\0" + "b" * 100] + (["\ud800"] if os.name == "posix" else [])


@pytest.mark.parametrize("path", NO_NAMES)
def test_a_path_that_is_no_name(path, graph, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, call in {**readers(), **writers(graph), **others()}.items():
        with pytest.raises(ValueError, match=f"^{name}: \\w+ is .*(NUL|can't be encoded)"):
            call(path)
    assert not os.listdir(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
def test_what_is_no_regular_file_is_not_read(tmp_path, child):
    """In a child: a reader that waits for a pipe's writer would hang."""
    os.mkfifo(tmp_path / "pipe")
    code = """
import os, sys
sys.path[:0] = [sys.argv[2], os.path.dirname(sys.argv[2])]
import test_files
for name, call in test_files.readers().items():
    for path in ("pipe", ".", "/dev/null", "/dev/zero"):
        try:
            call(os.path.join(sys.argv[1], path))
        except OSError as error:
            print(error.errno > 0 and f"{name}: a " in str(error) and "need a regular file" in str(error))
"""
    assert child(code, str(tmp_path), str(Path(__file__).resolve().parent)).split() == ["True"] * 8


@pytest.fixture(params=["unnamed", "named"])
def way(request, monkeypatch):
    """Both ways of writing, on a system that has files without a name."""
    if request.param == "named":
        monkeypatch.setattr(files, "_open_unnamed", lambda folder: None)
    return request.param


def test_files_are_replaced_as_a_whole(way, graph, tmp_path):
    for name, write in writers(graph).items():
        path = tmp_path / name
        write(path)
        first = path.read_bytes()
        assert first
        path.write_bytes(b"old")
        if os.name == "posix":
            path.chmod(0o640)
        write(path)
        assert path.read_bytes() == first
        assert os.name != "posix" or stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(os.listdir(tmp_path)) == sorted(writers(graph))


@pytest.mark.skipif(os.name != "posix", reason="links need privileges on Windows")
def test_a_link_stays_a_link(way, graph, tmp_path):
    (tmp_path / "link").symlink_to("target")
    for _ in range(2):  # the target is new, then there already
        for write in writers(graph).values():
            write(tmp_path / "link")
            assert (tmp_path / "link").is_symlink() and (tmp_path / "target").stat().st_size


def test_a_new_file_has_the_usual_mode(way, tmp_path):
    files.write_file(tmp_path / "a", lambda write: write(b"x"))
    (tmp_path / "b").write_bytes(b"x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_a_failing_write_leaves_the_old_file(way, tmp_path):
    def write(put):
        put(b"new")
        raise KeyError("stop")

    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(KeyError):
        files.write_file(path, write)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["a"]


def test_writing_into_a_folder_that_is_missing(way, graph, tmp_path):
    for name, write in writers(graph).items():
        if name == "gguf_write_to_file":
            assert write(tmp_path / "no" / "such") is False
            continue
        with pytest.raises(FileNotFoundError, match=name):
            write(tmp_path / "no" / "such")


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="the system has no files without a name")
def test_a_killed_process_leaves_nothing_behind(tmp_path):
    unnamed = files._open_unnamed(tmp_path)
    if unnamed is None:
        pytest.skip("the file system has no files without a name")
    unnamed.close()
    (tmp_path / "a").write_bytes(b"old")
    pid = os.fork()
    if pid == 0:
        files.write_file(tmp_path / "a", lambda write: (write(b"new" * 1000), os.kill(os.getpid(), 9)))
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 9
    assert os.listdir(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"old"
