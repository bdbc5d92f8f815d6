"""The server: its addresses, what it refuses, and the processes that compute."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Container, Coroutine
from contextlib import aclosing, asynccontextmanager, suppress
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from planner.base import files, resources
from planner.base.errors import Fault, PlanError
from planner.documents import source
from planner.serve import bodies, find, page
from planner.serve.openapi import description
from planner.serve.programs import LONG as LOOKED_FOR
from planner.serve.programs import TOOLS, Programs
from planner.serve.workers import REASONS, Busy, Workers

#: Answers that are kept, and bytes of one with its question at most.
LAST, KEPT = 400, 200_000
#: Bytes of a request at most.
MAX_BODY = 1_000_000
#: Seconds that a client has to send one.
PATIENCE = 20
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data: blob:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
#: What a server that only this machine reaches may be called.
LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))


class Pool(NamedTuple):
    """How many processes there are for a kind of work, how long a request may take, how many may
    wait."""

    processes: int
    seconds: float
    waiting: int


#: For what is answered while somebody moves a control, and for what is looked for at length.
QUICK = Pool(os.cpu_count() or 1, 10, 64)
LONG = Pool(2, 120, 8)


class Refused(Exception):
    """A request that is not answered: a status, and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


def _fault(status: int, why: str) -> Response:
    return Response(bodies.of_faults(why), status, media_type="application/json")


class Guard:
    """What stands before every address: who may ask, what every answer says of itself, and that
    no error of the program is told but on a line.

    Args:
        hosts: what the server may be called; None for anything.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            self.check(Headers(scope=scope))
            await self.app(scope, receive, sent)
        except Exception as error:
            if not begun:
                await refusal(error)(scope, receive, sent)

    def check(self, headers: Headers) -> None:
        """A page elsewhere can lead a browser here under another name, or send it here.

        Raises:
            Refused: the host is none of ours, or the request is another page's.
        """
        host = headers.get("host", "")
        if self.hosts is not None and urlsplit(f"//{host}").hostname not in self.hosts:
            raise Refused(421, "this server answers at 127.0.0.1 and localhost only")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            raise Refused(403, "a page of another address may not ask here")


def refusal(error: Exception) -> Response:
    """What is answered in the place of an error."""
    if isinstance(error, Refused):
        return _fault(error.status, error.why)
    if isinstance(error, HTTPException):
        words = {404: "there is nothing at this address", 405: "not with this method"}
        response = _fault(error.status_code, words.get(error.status_code, error.detail))
        response.headers.update(error.headers or {})
        return response
    for kind, status in ((Busy, 503), (TimeoutError, 504)):
        if isinstance(error, kind):
            return _fault(status, REASONS[kind])
    return _fault(500, f"a fault of the program: {type(error).__name__}")


async def _raw(request: Request) -> bytes:
    """The body of a request.

    Raises:
        Refused: it is too large, or comes too slowly.
    """
    raw = b""
    try:
        async with asyncio.timeout(PATIENCE):
            async for piece in request.stream():
                raw += piece
                if len(raw) > MAX_BODY:
                    raise Refused(413, f"a request has at most {MAX_BODY // 1000} kB")
    except TimeoutError:
        raise Refused(408, f"the request did not arrive within {PATIENCE} s") from None
    return raw


async def _while_there(receive: Receive, work: Coroutine[Any, Any, Any]) -> Any:
    """What some work gives, which ends when the client goes away.

    Raises:
        ClientDisconnect: it did.
    """

    async def left() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    doing, leaving = asyncio.ensure_future(work), asyncio.ensure_future(left())
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise ClientDisconnect
        return doing.result()
    finally:
        doing.cancel()
        leaving.cancel()


class Lines(Response):
    """An answer that is looked for at length: lines of JSON, `{"progress": …}` now and then, at the
    end `{"done": …}` or `{"faults": […]}`."""

    media_type = "application/x-ndjson"

    def __init__(self, steps: AsyncGenerator[tuple[bool, Any]]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self.steps = steps

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _while_there(receive, self.told(send))

    async def told(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async with aclosing(self.steps):
                async for ended, what in self.steps:
                    if not ended:
                        line = bodies.written({"progress": what})
                    else:
                        status, body = what
                        line = b'{"done": %s}' % body if status == 200 else body
                    await send(_piece(line))
        except Exception as error:
            await send(_piece(bytes(refusal(error).body)))
        await send({"type": "http.response.body", "body": b""})


def _piece(line: bytes) -> Message:
    return {"type": "http.response.body", "body": line + b"\n", "more_body": True}


async def _page(request: Request) -> Response:
    name = _known(request, find.AT_ONCE)
    return await _answer(request, request.app.state.quick, find.at_once, name)


async def _v1(request: Request) -> Response:
    programs: Programs = request.app.state.programs
    name = _known(request, TOOLS)
    pool = request.app.state.long if name in LOOKED_FOR else request.app.state.quick
    return await _answer(request, pool, programs.call, name)


async def _answer(
    request: Request, pool: Workers, function: bodies.Function, name: str
) -> Response:
    """What a function answers a request. It hangs on what is asked alone, so that who asks the same
    again, as people do who move a control to and fro, is answered from the last answers."""
    raw = await _raw(request)
    last: OrderedDict[Any, tuple[int, bytes]] = request.app.state.last
    asked = request.url.path, raw
    if asked in last:
        last.move_to_end(asked)
        status, body = last[asked]
    else:
        work = pool.run(bodies.answered, function, name, raw)
        status, body = await _while_there(request.receive, work)
        if len(raw) + len(body) <= KEPT:
            last[asked] = status, body
        if len(last) > LAST:
            last.popitem(last=False)
    return Response(body, status, media_type="application/json")


async def _find(request: Request) -> Response:
    name = _known(request, find.FUNCTIONS)
    raw = await _raw(request)
    return Lines(request.app.state.long.told(bodies.answered, find.call, name, raw))


def _known(request: Request, names: Container[str]) -> str:
    name: str = request.path_params["name"]
    if name not in names:
        raise HTTPException(404)
    return name


async def _openapi(request: Request) -> Response:
    return Response(_described(request.app.state.programs), media_type="application/json")


@lru_cache(maxsize=1)
def _described(programs: Programs) -> bytes:
    return bodies.written(description(programs))


async def _index(request: Request) -> Response:
    plan: Path | None = request.app.state.plan
    return HTMLResponse(page.shell(None if plan is None else files.read_text(plan, MAX_BODY)))


async def _style(request: Request) -> Response:
    return Response(page.style(), media_type="text/css")


def application(
    programs: Programs, plan: Path | None = None, hosts: frozenset[str] | None = LOOPBACK
) -> ASGIApp:
    """The server as an ASGI application.

    Args:
        programs: what programs may ask for.
        plan: a document that the page begins with.
        hosts: what the server may be called by those who ask; None for anything.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.quick, app.state.long = Workers(*QUICK), Workers(*LONG)
        beginning = asyncio.ensure_future(app.state.quick.run(os.getpid))
        try:
            yield
        finally:
            beginning.cancel()
            app.state.quick.close()
            app.state.long.close()

    async def told(request: Request, error: Exception) -> Response:
        return refusal(error)

    static = StaticFiles(directory=resources.folder("templates") / "serve")
    routes = [
        Route("/", _index),
        Route("/style.css", _style),
        Route("/openapi.json", _openapi),
        Route("/page/{name}", _page, methods=["POST"]),
        Route("/find/{name}", _find, methods=["POST"]),
        Route("/v1/{name}", _v1, methods=["POST"]),
        Mount("/static", static),
    ]
    handlers: Any = dict.fromkeys((Refused, HTTPException, Exception), told)
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.state.programs, app.state.plan = programs, plan
    app.state.last = OrderedDict()
    return Guard(app, hosts)


def listening(host: str, port: int) -> socket.socket:
    """A socket at an address, before anything else begins.

    Raises:
        PlanError: there is no such port or address, or another program has it.
    """
    if not 0 <= port < 2**16:
        raise PlanError(Fault(f"--port {port}", None, "1 to 65535, or 0 for any that is free"))
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        why = os.strerror(error.errno or 0) if (error.errno or 0) > 0 else error.strerror
        said = f"cannot listen at {host}, port {port}: {str(why).lower()}"
        raise PlanError(Fault(said, None, "another --host or --port")) from None


def run(programs: Programs, plan: str | None, host: str, port: int) -> None:
    """Serve until interrupted.

    Raises:
        PlanError: of the plan, or of the address.
    """
    path = source.located(plan, "plan")[0] if plan is not None else None
    if path is not None:
        text = files.read_text(path, MAX_BODY)
        with TemporaryDirectory() as empty, files.within(empty):  # as the page reads it
            page.plan_of(text, str(path))
    with listening(host, port) as one:
        import uvicorn

        app = application(programs, path, LOOPBACK if host in LOOPBACK else None)
        how = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        at = f"[{host}]" if ":" in host else host
        print(f"http://{at}:{one.getsockname()[1]}/ is the planner; Ctrl-C ends it", flush=True)
        with suppress(KeyboardInterrupt):
            uvicorn.Server(how).run(sockets=[one])
