"""The listening socket: limits of connections, deadlines of clients, and the log."""

from __future__ import annotations

import logging
import os
import resource
import socket
import time
from contextlib import suppress
from tempfile import TemporaryDirectory
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from planner.base import files
from planner.base.display import one_line
from planner.base.errors import PlanError
from planner.documents import references
from planner.serve import page
from planner.serve.app import LOOPBACK, create_app, find_client, refuse_request
from planner.serve.bodies import MAX_BODY
from planner.serve.programs import Programs
from planner.serve.workers import Busy, Greedy

#: Files that the server opens itself, and connections at most. Beyond three quarters of these one
#: that the server waits for makes room for the next, and of one client beyond a quarter.
OWN = 40
MOST = min(256, max(8, resource.getrlimit(resource.RLIMIT_NOFILE)[0] % 2**31 - OWN))
#: Seconds in which a client has sent a header, a whole request, and has read an answer.
HEADER, REQUEST, ANSWER = 10, 30, 60
#: Seconds between two lines of the log that say the same, and kinds of these.
SELDOM, KINDS = 60, 100


class Listener(socket.socket):
    """A listening socket whose connections never use up the process's files."""

    def __init__(self, one: socket.socket) -> None:
        """Take over a socket that listens."""
        super().__init__(one.family, one.type, one.proto, one.detach())
        self.open: list[socket.socket] = []

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; wait while there are as many as the server has files for."""
        self.open = [other for other in self.open if other.fileno() >= 0]
        if len(self.open) >= MOST:
            time.sleep(0.001)
            raise BlockingIOError  # as if there were none: it waits until another has ended
        one, address = super().accept()
        self.open.append(one)
        return one, address


class Connection(H11Protocol):
    """A connection with deadlines, closed for a newer one while it waits for its client."""

    ended = False

    def connection_made(self, transport: Any) -> None:
        """Begin a connection. Beyond the bounds of the server or of one client, the one that has
        waited longest is closed."""
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        self.whose, self.since = find_client(address), self.loop.time()
        there: set[Any] = self.connections - {self}
        others = [one for one in there if not one.ended]
        alike = [one for one in others if one.whose == self.whose]
        if address in self.app.trusted_hosts:  # a proxy has the connections of many
            alike = []
        for crowd, most, error in (alike, MOST // 4, Greedy()), (others, MOST * 3 // 4, Busy()):
            late = [one for one in crowd if one.is_waiting()]
            if len(crowd) >= most and late:
                min(late, key=lambda one: float(one.since)).close_now()
            elif len(crowd) >= most:
                self.app = refuse_request(error)
        self.check_deadline()

    def is_waiting(self) -> bool:
        """Decide whether the server waits for the client, to send or to read."""
        sent = self.conn.their_state in (h11.DONE, h11.MUST_CLOSE) and self.cycle
        unread = self.transport.get_write_buffer_size() > 0
        return unread or not sent or self.cycle.response_complete

    def check_deadline(self) -> None:
        """Close the connection when the client takes too long, whatever it sent meanwhile."""
        now, unread = self.loop.time(), self.transport.get_write_buffer_size()
        if not self.is_waiting():
            self.since = now
        begun = self.conn.their_state is not h11.IDLE
        if now - self.since > (ANSWER if unread else REQUEST if begun else HEADER):
            self.close_now()
        if self in self.connections:
            self.loop.call_later(1, self.check_deadline)

    def close_now(self) -> None:
        """Close the connection without an answer."""
        self.ended = True
        self.transport.abort()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request of the connection."""
        self.app = self.config.loaded_app
        if self.conn.their_state is not h11.SEND_BODY:  # else its deadline is that of the request
            self.since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is no HTTP, unless an answer has begun."""
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # an answer has begun
            self.close_now()


class Seldom(logging.Filter):
    """Filter that passes each message once in a while, as one line."""

    last: dict[str, float] = {}  # noqa: RUF012  # of all logs

    def filter(self, record: logging.LogRecord) -> bool:
        """Pass a message of a kind once in ``SELDOM`` seconds, escaped and cut, without its
        trace."""
        kind, now = str(record.msg).partition("\n")[0], time.monotonic()
        if now - self.last.get(kind, -SELDOM) < SELDOM or len(self.last) > KINDS:
            return False
        self.last[kind] = now
        error = record.exc_info and record.exc_info[1]
        record.msg = one_line(f"{record.getMessage()} {error or ''!r}")[:300]
        record.args = record.exc_info = None
        return True


def open_socket(host: str, port: int) -> socket.socket:
    """Open a socket at an address, before anything else starts.

    Raises:
        PlanError: an invalid port or address, or another program uses it.
    """
    if not 0 <= port < 2**16:
        raise PlanError(f"--port {port}", None, "1 to 65535, or 0 for any that is free")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        why = os.strerror(error.errno or 0) if (error.errno or 0) > 0 else error.strerror
        said = f"cannot listen at {host}, port {port}: {str(why).lower()}"
        raise PlanError(said, None, "another --host or --port") from None


def run_server(programs: Programs, plan: str | None, host: str, port: int) -> None:
    """Serve until interrupted, and print the address.

    Args:
        programs: the functions that answer programs.
        plan: path or name of the plan that the page opens with.
        host: address to listen on; a loopback address admits no other host names.
        port: 0 for a free one.

    Raises:
        PlanError: of the plan, or of the address.
    """
    path = references.locate_file(plan, "plan")[0] if plan is not None else None
    if path is not None:
        text = files.read_text(path, MAX_BODY)
        with TemporaryDirectory() as empty, files.restrict_reading(empty):  # as the page reads it
            page.load_from_text(text, str(path))
    with open_socket(host, port) as one:
        app = create_app(programs, path, LOOPBACK if host in LOOPBACK else None)
        proxies = os.environ.get("FORWARDED_ALLOW_IPS", "")  # of uvicorn, which believes 127.0.0.1
        how = uvicorn.Config(app, http=Connection, ws="none", log_level="warning", backlog=128,
                             forwarded_allow_ips=proxies, timeout_graceful_shutdown=1)  # fmt: skip
        for name in ("uvicorn.error", "asyncio"):
            logging.getLogger(name).addFilter(Seldom())
        at = f"[{host}]" if ":" in host else host
        print(f"http://{at}:{one.getsockname()[1]}/ is the planner; Ctrl-C ends it", flush=True)
        with suppress(KeyboardInterrupt):
            uvicorn.Server(how).run(sockets=[Listener(one)])
