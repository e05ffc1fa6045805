"""Connections that send nothing, send slowly, or do not read: they are closed, and others are answered meanwhile."""

import contextlib
import json
import socket
import time

import pytest

for library in ("gguf", "jinja2", "tokenizers", "llguidance", "fastapi", "uvicorn", "prometheus_client", "httpx"):
    pytest.importorskip(library)  # of the extra [test]

import httpx  # noqa: E402
import tiny_models  # noqa: E402
from server import SETTINGS, listening  # noqa: E402

from ggml.serve import app  # noqa: E402
from ggml.serve.running import connection_class  # noqa: E402

MOST, HEAD, READ = 12, 2.0, 1.0
HEADS = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The address of a server with small limits, and its application."""
    path = tiny_models.write(tmp_path_factory.mktemp("connections") / "a.gguf", "llama")
    application = app({"a": path}, body_timeout=1.0, body=1 << 20, **SETTINGS)
    with listening(application, http=connection_class(MOST, HEAD, READ)) as url:
        yield url, application


def connect(url, data=b""):
    host, _, port = url.removeprefix("http://").partition(":")
    found = socket.create_connection((host, int(port)), timeout=20)
    found.sendall(data)
    return found


def closed(connection):
    """Whether the server closes a connection, and what it wrote before."""
    data = b""
    with connection, contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            data += part
    return data


def answered(url):
    body = {"prompt": [5, 6, 7], "max_tokens": 2}
    return httpx.post(f"{url}/v1/completions", json=body, timeout=30).status_code == 200


def test_connections_that_send_nothing_or_part_of_a_head(served):
    url, _ = served
    begin = time.monotonic()
    idle = [connect(url, data) for data in (b"", b"POST /v1/completions HT", b"GET / HTTP/1.1\r\nHost: x\r\nA: ")]
    assert answered(url)
    assert [closed(connection) for connection in idle] == [b""] * 3
    assert time.monotonic() - begin >= HEAD


def test_a_connection_that_is_used_again_and_then_not(served):
    """A second head that stops in the middle, after an answer."""
    url, _ = served
    with connect(url, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n") as connection:
        assert b"200 OK" in connection.recv(65536)
        connection.sendall(b"GET /hea")
        closed(connection)


def test_more_connections_than_there_may_be(served):
    """The oldest ones that wait for a request are closed."""
    url, _ = served
    idle = [connect(url) for _ in range(2 * MOST)]
    assert answered(url)
    begin = time.monotonic()
    assert [closed(connection) for connection in idle[: MOST + 1]] == [b""] * (MOST + 1)
    assert time.monotonic() - begin < HEAD / 2
    for connection in idle[MOST + 1 :]:
        connection.close()


def test_a_body_that_stops(served):
    url, _ = served
    stopped = [connect(url, HEADS % 1000 + b'{"prompt": ') for _ in range(3)]
    assert answered(url)
    for connection in stopped:
        with connection:
            assert b"408" in connection.recv(65536)


def test_a_client_that_does_not_read(served):
    """Its connection is closed and its texts end, although they have no end of their own."""
    url, application = served
    body = json.dumps({"prompt": [5], "max_tokens": 250, "stream": True, "n": 8, "logprobs": 20, "ignore_eos": True})
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, _, port = url.removeprefix("http://").partition(":")
        connection.connect((host, int(port)))
        connection.sendall(HEADS % len(body) + body.encode())
        entry = application.state.service.catalog.entries["a"]
        end = time.monotonic() + 30
        while not entry.users:
            assert time.monotonic() < end
            time.sleep(0.01)
        while entry.users:
            assert time.monotonic() < end
            time.sleep(0.05)
    assert answered(url)


def test_hang_ups_at_every_moment(served):
    url, application = served
    body = json.dumps({"prompt": [5, 6, 7], "max_tokens": 20, "stream": True}).encode()
    whole = HEADS % len(body) + body
    for length in range(0, len(whole), 7):
        connect(url, whole[:length]).close()
    for length in range(1, 1500, 100):
        with connect(url, whole) as connection:
            while length > 0 and (part := connection.recv(length)):
                length -= len(part)
    assert answered(url)
    entry, end = application.state.service.catalog.entries["a"], time.monotonic() + 20
    while entry.users:
        assert time.monotonic() < end
        time.sleep(0.01)
