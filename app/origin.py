"""Whose page asks: what changes something, and every socket, is for our own pages alone."""

from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, Response


def is_ours(headers: Mapping[str, str]) -> bool:
    """Whether a request with these headers comes from a page of this server; one that no browser made has no origin."""
    origin = headers.get("origin")
    try:
        return not origin or urlsplit(origin).netloc in (headers.get("host"), headers.get("x-forwarded-host"))
    except ValueError:
        return False


async def body_of(request: Request, most: int = 4000) -> bytes | None:
    """What is posted, at most so many bytes; None where it is more."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > most:
            return None
    return body


def ours(change: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """A route that changes something: asked by a page of another site, it refuses."""

    async def checked(request: Request) -> Response:
        if not is_ours(request.headers):
            said = f"{request.headers['origin']} is another site; only Warpglass's own pages can ask that."
            return JSONResponse({"error": said}, 403)
        return await change(request)

    return checked
