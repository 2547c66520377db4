"""Middleware before all routes, ours and Streamlit's: it checks the host and sends the headers that a browser obeys.

It also closes Streamlit's upload route, and ends a request whose body never comes."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.guards import audit, browsers, hosts
from app.guards.hosts import Hosts

BODY_SECONDS = 30.0  # for a whole request
CLOSED = "/_stcore/upload_file"  # pages send files to our own routes
EMBEDDED = re.compile(rb"(?:^|&)embed=true(?:&|$)")
# Streamlit imports a component's script from a blob, and Vega compiles its expressions.
POLICY = {
    "default-src": "'self'",
    "script-src": "'self' 'unsafe-eval' blob:",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data: blob:",
    "font-src": "'self' data:",
    "worker-src": "'self' blob:",
    "object-src": "'none'",
    "base-uri": "'self'",
    "form-action": "'self'",
}


class Guard:
    """hosts: the allowed hosts."""

    def __init__(self, app: ASGIApp, hosts: Hosts):
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        host = given[0] if given else ""
        if len(given) != 1 or not self.hosts.allows(host):
            audit.note("refused_host", browsers.page_of(HTTPConnection(scope), ""), host=hosts.name_of(host))
            return await _refuse(scope, receive, send, host)
        if not all(self._believed(*pair) for pair in scope["headers"]):
            scope = {**scope, "headers": [pair for pair in scope["headers"] if self._believed(*pair)]}
        if scope["type"] == "websocket":
            return await self.app(scope, receive, send)
        sending = _Headed(send, host, bool(EMBEDDED.search(scope["query_string"])))
        if CLOSED in scope["path"]:
            return await PlainTextResponse("Warpglass takes no files here.", 404)(scope, receive, sending)
        try:
            await self.app(scope, _Patient(receive), sending)
        except ClientDisconnect:  # nobody waits for an answer
            pass
        except _Late:
            if not sending.started:
                said = f"The request did not arrive within {BODY_SECONDS:g} seconds. Send it again."
                await PlainTextResponse(said, 408, {"connection": "close"})(scope, receive, sending)

    def _believed(self, name: bytes, value: bytes) -> bool:
        """A proxy's name for this server must be an allowed host too."""
        return name != b"x-forwarded-host" or self.hosts.allows(value.decode("latin-1"))


async def _refuse(scope: Scope, receive: Receive, send: Send, host: str) -> None:
    if scope["type"] == "websocket":
        return await send({"type": "websocket.close", "code": 1008})
    name = hosts.name_of(host)
    said = (
        f"This server does not answer as {name or 'a host without a name'}. "
        f"Open it by its IP address or as localhost. To allow a name, start the server with --allow-host "
        f"{name or 'NAME'}, or set {hosts.VARIABLE}={name or 'NAME'}."
    )
    await PlainTextResponse(said, 403)(scope, receive, send)


class _Late(Exception):
    """A body did not arrive in time."""


class _Patient:
    """A `receive` with a limit of BODY_SECONDS for a whole body, and no limit for later messages."""

    def __init__(self, receive: Receive):
        self.receive, self.whole = receive, False
        self.until = asyncio.get_running_loop().time() + BODY_SECONDS

    async def __call__(self) -> Message:
        if self.whole:
            return await self.receive()
        try:
            async with asyncio.timeout_at(self.until):
                message = await self.receive()
        except TimeoutError:
            raise _Late from None
        self.whole = not message.get("more_body", False)
        return message


class _Headed:
    """A `send` that adds the headers.

    host: the allowed host of the request.
    embedded: whether any site may frame the page."""

    def __init__(self, send: Send, host: str, embedded: bool):
        self.send, self.more, self.started = send, _headers(host, embedded), False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            message = {**message, "headers": [*message.get("headers", ()), *self.more]}
        await self.send(message)


@lru_cache(maxsize=256)
def _headers(host: str, embedded: bool) -> list[tuple[bytes, bytes]]:
    sockets = f"'self' ws://{host} wss://{host}"  # older browsers do not count sockets as 'self'
    policy = POLICY | {"connect-src": sockets} | ({} if embedded else {"frame-ancestors": "'self'"})
    text = "; ".join(f"{name} {value}" for name, value in policy.items())
    return [
        (b"content-security-policy", text.encode("latin-1")),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),
    ]


HTTP = {"ws": "http", "wss": "https"}  # the scheme of the page that opens a socket


def is_ours(connection: HTTPConnection) -> bool:
    """Whether a page of this server asks, by scheme, host and port. A program sends no origin, and is trusted."""
    origin, headers = connection.headers.get("origin"), connection.headers
    if not origin:
        return True
    try:
        scheme, host = urlsplit(origin)[:2]
    except ValueError:
        return False
    own = connection.scope["scheme"]
    return scheme == HTTP.get(own, own) and host in (headers.get("host"), headers.get("x-forwarded-host"))


async def body_of(request: Request, most: int = 4000) -> bytes | None:
    """The body of a request; None if it has more than `most` bytes."""
    body = bytearray()  # bytes would be copied with each part
    async for part in request.stream():
        body += part
        if len(body) > most:
            return None
    return bytes(body)


def ours(change: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """A route that changes something: asked by a page of another site, it refuses."""

    async def checked(request: Request) -> Response:
        if not is_ours(request):
            here = f"{request.url.scheme}://{request.headers.get('host', '')}"
            said = (
                f"{request.headers['origin']} is another site than {here}. Only Warpglass's own pages can ask that. "
                f"A proxy in front must pass Host and X-Forwarded-Proto, and --proxy must name it."
            )
            return JSONResponse({"error": said}, 403)
        return await change(request)

    return checked
