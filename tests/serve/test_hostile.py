"""Documents and clients that nobody means well, over HTTP: each has an answer, on lines, in
time, and nobody waits for another."""

from __future__ import annotations

import contextlib
import gzip
import json
import logging
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import Any

import pytest

pytest.importorskip("starlette")
from fuzz.served import HOSTILE, Server, differs, hurts, serving, setting
from planner.cli import main
from planner.cli.commands import COMMANDS
from planner.serve import connections
from planner.serve.bodies import parse_body
from planner.serve.programs import MOST, build_programs
from tests.conftest import read_data

PLAN = '"plan": "llama70b_h100x1024"'
QUICK = {"plan": "llama70b_h100x1024", "quantities": ["mfu"]}
BODY = b"HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n\r\n"
OTHER = "127.0.0.2"  # another client of this machine


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_a_hostile_document_has_an_answer(server: Server, number: int) -> None:
    document = HOSTILE[number]
    asked = {"plan": document, "quantity": "mfu"}
    paths = ("/v1/evaluate", "/v1/explain", "/page/answer", "/page/more", "/page/why")
    path = paths[number % len(paths)]
    given = {"text": document, "id": "time.mfu"} if path.startswith("/page") else asked
    assert hurts(server, path, given) is None


def test_there_are_fifty() -> None:
    assert len(HOSTILE) >= 50


@pytest.mark.slow
def test_random_settings_answer_as_the_command_line(server: Server) -> None:
    """A thousand of them: `python -m fuzz.served`."""
    random = Random(5)
    wrong = (differs(server, *setting(random)) for _ in range(6))
    assert [one for one in wrong if one] == []


def sent(server: Server, raw: bytes, seconds: float = 30) -> bytes:
    """The first line of what is answered to bytes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as one:
        one.sendall(raw)
        return one.makefile("rb").readline()


@pytest.mark.parametrize(
    ("status", "head"),
    [
        (400, b"GET / HTTP/1.1\r\nHost: ["),
        (400, b"GET / HTTP/1.1\r\nHost: a]b["),
        (400, b"GET / HTTP/1.1\r\nHost: localhost:123456789"),
        (400, b"GET / HTTP/1.1\r\nHost: evil@localhost"),
        (400, b"GET / HTTP/1.1\r\nHost: l\xf6calhost"),
        (400, b"GET / HTTP/1.1\r\nX: y"),
        (400, b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil"),
        (421, b"GET / HTTP/1.1\r\nHost: evil"),
        (403, b"GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://["),
        (400, b"\x16\x03\x01\x02"),
        (400, b"POST /v1/evaluate HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5"),
        (413, b"POST /v1/evaluate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999"),
        (404, b"GET /static/%2e%2e/%2e%2e/%00 HTTP/1.1\r\nHost: localhost"),
        (404, b"GET /%ff%00/../../etc/passwd HTTP/1.1\r\nHost: localhost"),
    ],
)
def test_a_malformed_header_is_refused(server: Server, status: int, head: bytes) -> None:
    """The server's end tells whether it printed a traceback."""
    assert sent(server, head + b"\r\n\r\n").split()[1] == str(status).encode()


@pytest.mark.parametrize(
    ("status", "words", "body", "headers"),
    [
        *read_data("serve")["hostile_bodies"],
        (400, "digits", '{%s, "set": {"training.micro_batch": ' + "9" * 6001 + "}}", {}),
        (400, "nested", '{%s, "set": ' + "[" * 100_000, {}),
        (422, "at most 1000", '{%s, "fix": [' + '"a",' * 1000 + '"b"]}', {}),
    ],
)
def test_a_body_that_cannot_be_meant_is_refused(
    server: Server, status: int, words: str, body: str, headers: dict[str, str]
) -> None:
    many = ", ".join(f'"k{n}": 1' for n in range(1001))
    raw = (body % ((PLAN, many)[: body.count("%s")])).encode()
    answer = server.ask("POST", "/v1/search", raw, headers)
    (fault,) = answer[1]["faults"]
    assert answer[0] == status and words in fault["message"] and "\n" not in fault["message"]


def test_what_expands_is_not_expanded(server: Server) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    assert server.ask("POST", "/v1/evaluate", bomb, {"Content-Encoding": "gzip"})[0] == 415


@pytest.mark.parametrize("body", read_data("serve")["never_sent"])
def test_what_the_page_would_not_send_is_refused(server: Server, body: str) -> None:
    for path in ("/page/answer", "/page/why", "/page/panel"):
        assert server.ask("POST", path, body.encode())[0] == 400


def test_every_number_and_list_that_programs_send_is_bounded() -> None:
    for tool in build_programs(COMMANDS, main.run_words).tools.values():
        for option in tool.options.values():
            kinds = option.schema.get("type", ())
            if "integer" in kinds:
                assert option.schema["maximum"] == MOST
            if "array" in kinds:
                assert option.schema["maxItems"] == MOST


@pytest.mark.parametrize("number", ["1e308", "-0.0", "1e-999", f"{10**20 + 1}", "0.1"])
def test_every_other_number_is_read(number: str) -> None:
    assert parse_body(f'{{"a": {number}}}'.encode())["a"] == json.loads(number)


def half_open(server: Server, count: int, source: str) -> list[socket.socket]:
    """Connections that never finish their header."""
    made = []
    for _ in range(count):
        address = "127.0.0.1", server.port
        with contextlib.suppress(OSError):
            one = socket.create_connection(address, timeout=5, source_address=(source, 0))
            made.append(one)
            one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
    return made


def is_open(one: socket.socket) -> bool:
    one.setblocking(False)
    try:
        return one.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


needs_addresses = pytest.mark.skipif(sys.platform != "linux", reason="only 127.0.0.1 is local")


@needs_addresses
@pytest.mark.parametrize("source", ["127.0.0.1", OTHER])
def test_connections_that_say_nothing_hold_up_nobody(server: Server, source: str) -> None:
    with contextlib.ExitStack() as stack:
        made = half_open(server, 150, source)
        for one in made:
            stack.enter_context(one)
        assert server.ask("GET", "/style.css", seconds=10)[0] == 200
        assert len(made) > 100
        until = time.monotonic() + 30
        while sum(map(is_open, made)) > connections.MOST // 4:
            assert time.monotonic() < until, "they stay open"
            time.sleep(0.1)


@pytest.mark.slow
@needs_addresses
def test_with_few_files_everybody_is_served_and_the_log_is_short() -> None:
    with serving(files=64) as one, contextlib.ExitStack() as stack:
        for other in half_open(one, 200, OTHER):
            stack.enter_context(other)
        assert one.ask("GET", "/style.css")[0] == 200
        assert one.ask("POST", "/v1/evaluate", QUICK)[0] in (200, 504)
        for _ in range(300):
            sent(one, b"\x16\x03\x01\r\n\r\n")
        assert len(one.stopped()) < 1000


def seconds_of_drops(server: Server, request: bytes) -> float:
    """How long a client is kept that sends a request and then a byte now and then."""
    start = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=1) as one:
        one.sendall(request)
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - start < 2 * connections.REQUEST + 20:
                one.sendall(b"x")
                with contextlib.suppress(TimeoutError):
                    if one.recv(1 << 16) == b"":
                        break
    return time.monotonic() - start


def seconds_unread(server: Server) -> float:
    """How long a client is kept that reads none of its answers."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", server.port))
        one.settimeout(1)
        with contextlib.suppress(TimeoutError):
            one.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
        start = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - start < connections.ANSWER + 20:
                time.sleep(1)
                with contextlib.suppress(TimeoutError):
                    one.recv(64)
                    one.send(b"x")
        return time.monotonic() - start


@pytest.mark.slow
def test_clients_that_keep_the_server_waiting_are_ended(server: Server) -> None:
    """All at once: a header, a body and a body that nobody reads come a byte now and then, and
    answers are left where they are."""
    late = {
        b"GET / HTTP/1.1\r\nX: ": connections.HEADER,
        b"POST /v1/evaluate " + BODY: connections.REQUEST,
        b"GET / " + BODY: connections.REQUEST,
    }
    with ThreadPoolExecutor() as threads:
        unread = threads.submit(seconds_unread, server)
        kept = list(threads.map(partial(seconds_of_drops, server), late))
        assert all(took < most + 10 for took, most in zip(kept, late.values(), strict=True))
        assert unread.result() < connections.ANSWER + 20


@pytest.mark.slow
def test_a_message_is_logged_once_in_a_while_and_on_one_line() -> None:
    seldom = connections.Seldom()

    def passes(message: str, error: Any = None) -> logging.LogRecord | None:
        about = (type(error), error, None) if error else None
        record = logging.LogRecord("x", logging.ERROR, "x", 1, message, (), about)
        return record if seldom.filter(record) else None

    first = passes("no files\nsocket: 1", OSError("too many"))
    assert first is not None
    text = logging.Formatter().format(first)
    assert "\n" not in text and "too many" in text
    assert not any(passes(f"no files\nsocket: {n}") for n in range(1000))
    assert sum(passes(f"kind {n}") is not None for n in range(1000)) <= connections.KINDS + 1
