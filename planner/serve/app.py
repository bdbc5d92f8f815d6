"""The server: its routes, its checks of requests, and its pools of processes."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Container, Coroutine, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from planner.base import files, resources
from planner.serve import bodies, find, page
from planner.serve.bodies import MAX_BODY
from planner.serve.openapi import describe_api
from planner.serve.programs import LONG as LOOKED_FOR
from planner.serve.programs import TOOLS, Programs
from planner.serve.workers import REASONS, Busy, Greedy, Workers

#: Answers that are kept, and bytes of one with its question at most.
LAST, KEPT = 100, 200_000
#: Seconds that a client has to send a body, and after which it may ask a busy server again.
PATIENCE, AGAIN = 15, 5
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": page.POLICY,
    **resources.load_beside(__file__, "headers.yaml"),
}
#: Names of a server that only this machine reaches.
LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))


#: The Host header, with its port; a charset other than UTF-8 in a header.
HOST = re.compile(r"([\w.-]*|\[[\da-f:.]*\])(:\d{0,5})?", re.ASCII | re.IGNORECASE)
CHARSET = re.compile(r"charset\s*=\s*(?!\"?utf-?8\b)", re.IGNORECASE)


class Pool(NamedTuple):
    """Limits for a kind of work: processes, seconds per request, requests that wait, and those of
    one client."""

    processes: int
    seconds: float
    waiting: int
    each: int


#: For answers while a control moves, and for long searches.
QUICK = Pool((os.cpu_count() or 1) + 1, 10, 64, 16)
LONG = Pool(3, 120, 16, 4)


class Refused(Exception):
    """A request that is rejected: a status, and the reason."""

    def __init__(self, status: int, why: str) -> None:
        """Keep the status of the answer, and why the request is refused."""
        super().__init__(why)
        self.status, self.why = status, why


def _make_fault(status: int, why: str) -> Response:
    """Return an answer with one fault."""
    return Response(bodies.encode_faults(why), status, media_type="application/json")


class Guard:
    """Middleware for every route: it checks the host and origin, adds headers to each answer, and
    turns errors into one line.

    Args:
        hosts: accepted names of the server; None for any.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None) -> None:
        """Guard an application; ``hosts`` are the names that a Host header may have, None for
        any."""
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        begun = False

        async def sent(message: Message) -> None:
            """Send a message, the first with the headers of every answer."""
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            self.check_headers(Headers(scope=scope))
            await self.app(scope, receive, sent)
        except Exception as error:
            if not begun:
                await refuse_request(error)(scope, receive, sent)

    def check_headers(self, headers: Headers) -> None:
        """Reject requests under another host name or from another site's page.

        Raises:
            Refused: the host is invalid or not one of ours, or the origin is another page.
        """
        host = headers.get("host", "")
        named = HOST.fullmatch(host)
        if named is None:
            raise Refused(400, "the Host header is not a name with a port")
        if self.hosts is not None and named[1].strip("[]").lower() not in self.hosts:
            raise Refused(421, "this server answers at 127.0.0.1 and localhost only")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise Refused(403, "requests from pages of other addresses are not allowed")


def refuse_request(error: Exception) -> Response:
    """Return the response for an error."""
    if isinstance(error, Refused):
        return _make_fault(error.status, error.why)
    if isinstance(error, HTTPException):
        words = {404: "there is nothing at this address", 405: "not with this method"}
        response = _make_fault(error.status_code, words.get(error.status_code, error.detail))
        response.headers.update(error.headers or {})
        return response
    if type(error) in REASONS:
        response = _make_fault(*REASONS[type(error)])
        if isinstance(error, Busy | Greedy):
            response.headers["Retry-After"] = str(AGAIN)
        return response
    return _make_fault(500, f"internal error: {type(error).__name__}")


def find_client(address: str) -> str:
    """Return the client of an address: in IPv6 its /64 network."""
    with suppress(ValueError):
        if ipaddress.ip_address(address).version == 6:
            return str(ipaddress.ip_network((address, 64), strict=False))
    return address


async def _read_body(request: Request) -> bytes:
    """Read the body of a request.

    Raises:
        Refused: it is too large, too slow, compressed, or not UTF-8.
    """
    headers, raw = request.headers, bytearray()
    if headers.get("content-encoding", "identity") != "identity":
        raise Refused(415, "compressed bodies are not accepted")
    if CHARSET.search(headers.get("content-type", "")):
        raise Refused(415, "the body must be JSON in UTF-8")
    if int(headers.get("content-length", 0)) > MAX_BODY:
        raise Refused(413, f"a request has at most {MAX_BODY // 1000} kB")
    try:
        async with asyncio.timeout(PATIENCE):
            async for piece in request.stream():
                raw += piece
                if len(raw) > MAX_BODY:
                    raise Refused(413, f"a request has at most {MAX_BODY // 1000} kB")
    except TimeoutError:
        raise Refused(408, f"the request did not arrive within {PATIENCE} s") from None
    return bytes(raw)


async def _run_connected(receive: Receive, work: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of some work; cancel it when the client disconnects.

    Raises:
        ClientDisconnect: it disconnected.
    """

    async def wait_for_end() -> None:
        """Wait until the client is gone."""
        while (await receive())["type"] != "http.disconnect":
            pass

    doing, leaving = asyncio.ensure_future(work), asyncio.ensure_future(wait_for_end())
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise ClientDisconnect
        return doing.result()
    finally:
        doing.cancel()
        leaving.cancel()


class Lines(Response):
    """A streamed answer: lines of JSON, `{"progress": …}` now and then, at the end `{"done": …}` or
    `{"faults": […]}`."""

    media_type = "application/x-ndjson"

    def __init__(self, steps: AsyncGenerator[tuple[bool, Any]]) -> None:
        """Stream steps, each whether it is the last one, and a line or an answer."""
        super().__init__()
        del self.headers["content-length"]
        self.steps = steps

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _run_connected(receive, self.send_lines(send))

    async def send_lines(self, send: Send) -> None:
        """Send progress and the answer, a line of JSON each. Headers wait for the first line, so
        that a refusal still has its status."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        begun = False
        try:
            async with aclosing(self.steps):
                async for ended, what in self.steps:
                    if not begun:
                        await send(start)
                        begun = True
                    if not ended:
                        line = bodies.encode_json({"progress": what})
                    else:
                        status, body = what
                        line = b'{"done": %s}' % body if status == 200 else body
                    await send(_make_chunk(line))
        except Exception as error:
            if not begun:
                raise
            await send(_make_chunk(bytes(refuse_request(error).body)))
        await send({"type": "http.response.body", "body": b""})


def _make_chunk(line: bytes) -> Message:
    """Return the message of one line."""
    return {"type": "http.response.body", "body": line + b"\n", "more_body": True}


async def _answer_page(request: Request) -> Response:
    """Answer a function of the page that takes a moment: one process, the last answers cached."""
    name = _read_name(request, find.AT_ONCE)
    return await _answer_cached(request, request.app.state.quick, find.call_function, name)


async def _answer_v1(request: Request) -> Response:
    """Answer a program: what takes long has processes of its own."""
    programs: Programs = request.app.state.programs
    name = _read_name(request, TOOLS)
    pool = request.app.state.long if name in LOOKED_FOR else request.app.state.quick
    return await _answer_cached(request, pool, programs.call_tool, name)


async def _answer_cached(
    request: Request, pool: Workers, function: bodies.Function, name: str
) -> Response:
    """Answer a request by a function. The answer depends on the request alone, so the last answers
    are cached: users move a control to and fro."""
    raw = await _read_body(request)
    last: OrderedDict[Any, tuple[int, bytes]] = request.app.state.last
    asked = request.url.path, raw
    if asked in last:
        last.move_to_end(asked)
        status, body = last[asked]
    else:
        asked_of = function, name, raw, function is find.call_function
        work = pool.run(bodies.compute_answer, *asked_of, client=_get_client(request))
        status, body = await _run_connected(request.receive, work)
        if len(raw) + len(body) <= KEPT:
            last[asked] = status, body
        if len(last) > LAST:
            last.popitem(last=False)
    return Response(body, status, media_type="application/json")


async def _answer_find(request: Request) -> Response:
    """Answer a search, a question or a chart: progress first, and an end when the client is
    gone."""
    name = _read_name(request, find.FUNCTIONS)
    raw = await _read_body(request)
    long: Workers = request.app.state.long
    return Lines(
        long.track_function(
            bodies.compute_answer, find.call_function, name, raw, client=_get_client(request)
        )
    )


def _get_client(request: Request) -> str:
    """Return the client that a request counts for."""
    return find_client(request.client.host) if request.client else ""


def _read_name(request: Request, names: Container[str]) -> str:
    """Return the last part of the address; 404 if no function has that name."""
    name: str = request.path_params["name"]
    if name not in names:
        raise HTTPException(404)
    return name


@lru_cache(maxsize=1)
def _encode_openapi(programs: Programs) -> bytes:
    """Encode the description once: it depends on the program alone."""
    return bodies.encode_json(describe_api(programs))


async def _answer_index(request: Request) -> Response:
    """Answer with the page; it starts from the plan of the command line, read anew each time."""
    plan: Path | None = request.app.state.plan
    return HTMLResponse(_shell(None if plan is None else files.read_text(plan, MAX_BODY)))


_shell = lru_cache(maxsize=1)(page.render_shell)


def create_app(
    programs: Programs, plan: Path | None = None, hosts: frozenset[str] | None = LOOPBACK
) -> ASGIApp:
    """Create the server as an ASGI application.

    Args:
        programs: the tools of the interface for programs.
        plan: the document of the page at start.
        hosts: accepted names of the server; None for any.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        """Keep the processes that compute while the server runs; the first begins at once."""
        app.state.quick, app.state.long = Workers(*QUICK), Workers(*LONG)
        beginning = asyncio.ensure_future(app.state.quick.run(os.getpid))
        try:
            yield
        finally:
            beginning.cancel()
            app.state.quick.close()
            app.state.long.close()

    async def answer_error(request: Request, error: Exception) -> Response:
        """Answer with the fault of a refused request."""
        return refuse_request(error)

    static = StaticFiles(directory=resources.folder("templates") / "serve")
    as_json = partial(Response, media_type="application/json")
    routes = [
        Route("/", _answer_index),
        Route("/style.css", lambda _: Response(page.render_style(), media_type="text/css")),
        Route("/openapi.json", lambda _: as_json(_encode_openapi(programs))),
        Route("/page/{name}", _answer_page, methods=["POST"]),
        Route("/find/{name}", _answer_find, methods=["POST"]),
        Route("/v1/{name}", _answer_v1, methods=["POST"]),
        Mount("/static", static),
    ]
    handlers: Any = dict.fromkeys((Refused, HTTPException, Exception), answer_error)
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.state.programs, app.state.plan = programs, plan
    app.state.last = OrderedDict()
    return Guard(app, hosts)
