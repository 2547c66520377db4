"""Only our own pages may change something or open a socket."""

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response

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
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > most:
            return None
    return body


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
