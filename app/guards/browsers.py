"""Which browser asks. The server gives each browser a random id in a signed cookie, so no browser can take the id of
another. A browser without this cookie counts as its address."""

import secrets

from itsdangerous import BadSignature, Signer
from starlette.requests import HTTPConnection
from starlette.responses import Response

COOKIE = "warpglass_browser"
LASTS = 12 * 3600  # seconds
MOST_NAME = 40  # characters of the name that a page gives itself
_signer = Signer(secrets.token_bytes(32), salt="browser")  # a new server gives new ids


def known(connection: HTTPConnection) -> str:
    """The id that this server gave to the browser; "" for none."""
    try:
        return _signer.unsign(connection.cookies.get(COOKIE, "")).decode()
    except BadSignature:
        return ""


def address(connection: HTTPConnection) -> str:
    """The address that asks."""
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
        _signer.sign(secrets.token_urlsafe(12)).decode(),
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
