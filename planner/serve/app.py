"""The server: routes, what it refuses, and the processes that compute."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from planner.base import resources
from planner.serve import page
from planner.serve.workers import Busy, Workers

#: Bytes of a request at most.
MAX_BODY = 1_000_000
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src data: blob:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


async def _body(request: Request) -> dict[str, Any]:
    raw = b""
    async for piece in request.stream():
        raw += piece
        if len(raw) > MAX_BODY:
            raise ValueError("the request is too large")
    data = json.loads(raw)
    if not isinstance(data, dict):
        raise ValueError("a JSON object is wanted")
    return data


async def _page(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in page.FUNCTIONS:
        return JSONResponse({"faults": [{"message": "no such page function"}]}, 404)
    try:
        body = await _body(request)
        return JSONResponse(await request.app.state.quick.run(page.call, name, body))
    except ValueError as error:
        return JSONResponse({"faults": [{"message": str(error)}]}, 400)
    except (Busy, TimeoutError):
        return JSONResponse({"faults": [{"message": "the server is busy"}]}, 503)


async def _index(request: Request) -> Response:
    text = resources.read_text(resources.folder("templates") / "serve" / "index.html")
    return HTMLResponse(text, headers=HEADERS)


def application(plan: Path | None = None) -> Starlette:
    """The server as an ASGI application.

    Args:
        plan: a document that the page begins with.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.quick = Workers(os.cpu_count() or 1, seconds=10, waiting=64)
        try:
            yield
        finally:
            app.state.quick.close()

    static = StaticFiles(directory=resources.folder("templates") / "serve")
    routes = [
        Route("/", _index),
        Route("/page/{name}", _page, methods=["POST"]),
        Mount("/static", static),
    ]
    app = Starlette(routes=routes, lifespan=lifespan)
    app.state.plan = plan
    return app


def run(plan: Path | None, host: str, port: int) -> None:
    """Serve until interrupted."""
    import uvicorn

    uvicorn.run(application(plan), host=host, port=port, log_level="warning")
