"""Which browser asks. The server gives each browser a random id in a signed cookie, so no browser can take the id of
another. A browser without this cookie counts as its address."""

import os
import secrets
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from itsdangerous import BadSignature, Signer
from starlette.requests import HTTPConnection
from starlette.responses import Response

from kernels.build import folders
from kernels.errors import CacheError

COOKIE = "warpglass_browser"
LASTS = 12 * 3600  # seconds
MOST_NAME = 40  # characters of the name that a page gives itself
KEY_BYTES = 32


@lru_cache
def _signer() -> Signer:
    """Signs with a key of the cache, as a restarted server has to know the browsers of its rooms."""
    try:
        return Signer(folders.write(_key_in), salt="browser")
    except CacheError:
        return Signer(secrets.token_bytes(KEY_BYTES), salt="browser")


def _key_in(folder: Path) -> bytes:
    path = folder / "browsers.key"
    with suppress(FileNotFoundError):
        if len(key := path.read_bytes()) == KEY_BYTES:
            return key
        path.unlink()  # its writer was killed
    with suppress(FileExistsError), os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secrets.token_bytes(KEY_BYTES))
    return path.read_bytes()


def known(connection: HTTPConnection) -> str:
    """The id that this server gave to the browser; "" for none."""
    try:
        return _signer().unsign(connection.cookies.get(COOKIE, "")).decode()
    except BadSignature:
        return ""


def address(connection: HTTPConnection) -> str:
    return connection.client.host if connection.client else "somewhere"


def client(connection: HTTPConnection) -> str:
    """The browser's id, or its address. It is never "", which is the server itself."""
    return known(connection) or address(connection)


def page_of(connection: HTTPConnection, name: str) -> str:
    """ADDRESS CLIENT/NAME of a page, which names itself. Queues are fair between addresses, then between clients: an
    address can get a new cookie with each request."""
    return f"{address(connection)} {client(connection)}/{name[:MOST_NAME]}"


def new_cookie(connection: HTTPConnection, base: str) -> str:
    """A Set-Cookie header with a new id; "" for a browser with an id."""
    if known(connection):
        return ""
    answer = Response()
    answer.set_cookie(
        COOKIE,
        _signer().sign(secrets.token_urlsafe(12)).decode(),
        max_age=LASTS,
        path=base or "/",
        httponly=True,
        samesite="lax",
        secure=connection.url.scheme in ("https", "wss"),
    )
    return answer.headers["set-cookie"]


def remember(answer: Response, connection: HTTPConnection, base: str) -> Response:
    """The answer, with a new id if the browser has none."""
    if cookie := new_cookie(connection, base):
        answer.headers.append("set-cookie", cookie)
    return answer
