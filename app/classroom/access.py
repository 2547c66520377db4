"""Access to the site: open, by the class password, or by login (OIDC through Streamlit's st.login).

    WARPGLASS_PASSWORD       class password of the whole site, entered once per browser
    WARPGLASS_LOGIN=oidc     login with the provider in [auth] of .streamlit/secrets.toml
    WARPGLASS_ROOM_SECRET    secret of leaders, needed to open a room (unset: none needed)

An admitted browser has a signed cookie for twelve hours. Our routes check only this cookie. Streamlit's login ends on
its own page. This page gives the browser a ticket, and the browser exchanges it at /wg/enter for the cookie (page.py).
"""

import asyncio
import base64
import hashlib
import hmac
import html
import os
import tomllib
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote

from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.classroom.tries import Tries
from app.guards import audit, browsers
from app.guards.guard import body_of, is_ours, ours
from kernels.errors import ProblemError

COOKIE, BACK = "warpglass_access", "warpglass_back"
LASTS = 12 * 3600  # seconds of access per cookie
TICKET = 120  # seconds of validity of a ticket
LOGINS = ("", "oidc")


def password() -> str:
    return os.environ.get("WARPGLASS_PASSWORD", "")


def by_login() -> bool:
    return os.environ.get("WARPGLASS_LOGIN", "") == "oidc"


def check() -> None:
    """Checks the variables. Raises ProblemError for values without a meaning."""
    login = os.environ.get("WARPGLASS_LOGIN", "")
    if login not in LOGINS:
        raise ProblemError(f"WARPGLASS_LOGIN is {login!r}. Set it to oidc, or remove it.")
    if login and password():
        raise ProblemError("WARPGLASS_LOGIN and WARPGLASS_PASSWORD are both set. Remove one.")
    auth = _secrets().get("auth") if login else None
    if login and not (isinstance(auth, dict) and auth.get("cookie_secret")):
        raise ProblemError(
            "WARPGLASS_LOGIN is oidc, and .streamlit/secrets.toml has no [auth] with a cookie_secret. See app/class.md."
        )


def may_open(secret: str) -> bool:
    due = os.environ.get("WARPGLASS_ROOM_SECRET", "")
    return not due or _same(secret, due)


def ticket() -> str:
    """The ticket of a browser after its login, handed out by page.py."""
    return _signer("ticket").dumps("in")


@cache
def _secrets() -> dict[str, Any]:
    """Streamlit's secrets, from Streamlit's own two folders. Raises ProblemError for an unreadable file."""
    found: dict[str, Any] = {}
    for folder in (Path.home(), Path.cwd()):
        path = folder / ".streamlit" / "secrets.toml"
        try:
            found |= tomllib.loads(path.read_text())
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise ProblemError(f"{path} cannot be read: {error}. Repair it, or remove it.") from None
    return found


def _same(a: str, b: str) -> bool:
    return hmac.compare_digest(a.encode(errors="surrogatepass"), b.encode(errors="surrogatepass"))


def _signer(salt: str) -> URLSafeTimedSerializer:
    """A signer of cookies. A new password or login secret changes its key and ends all cookies."""
    key = password() or f"oidc {_secrets()['auth']['cookie_secret']}"
    return URLSafeTimedSerializer(hashlib.sha256(f"warpglass {key}".encode()).hexdigest(), salt=salt)


def _holds(text: str | None, salt: str, seconds: int) -> bool:
    try:
        return _signer(salt).loads(text or "", max_age=seconds) == "in"
    except BadSignature:
        return False


def _has_cookie(asked: HTTPConnection) -> bool:
    return _holds(asked.cookies.get(COOKIE), "access", LASTS)


async def _is_in(asked: HTTPConnection) -> bool:
    """Whether the cookie is valid. Programs may send the password by HTTP basic authentication."""
    if _has_cookie(asked):
        return True
    kind, _, said = asked.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic" or not password() or not await passwords.turn(browsers.address(asked), "a program"):
        return False
    try:
        if _same(base64.b64decode(said).decode().partition(":")[2], password()):
            return True
    except ValueError:  # neither base64 nor text
        pass
    passwords.wrong(browsers.address(asked))
    audit.note("wrong_password", browsers.page_of(asked, ""))
    return False


class Gate:
    """Middleware. Visitors without access get the password page, or an error. Sockets of other sites are closed.

    base: the app's path below the host, for example /warpglass
    version: of the stage's modules"""

    def __init__(self, app: ASGIApp, base: str = "", version: str = ""):
        self.app, self.base, self.version = app, base, version

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and not is_ours(HTTPConnection(scope)):
            return await send({"type": "websocket.close", "code": 1008})
        if scope["type"] == "lifespan" or not self._closed(scope["path"].removeprefix(self.base)):
            return await self.app(scope, receive, send)
        asked = HTTPConnection(scope)
        if await _is_in(asked):
            return await self.app(scope, receive, send)
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1008})
        answer: Response = JSONResponse({"error": "Sign in: reload the page."}, 401)
        if "text/html" in asked.headers.get("accept", "") and by_login():
            answer = RedirectResponse(f"{self.base}/", 303)  # the page of st.login
        elif "text/html" in asked.headers.get("accept", ""):
            here = scope["path"] + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
            answer = browsers.remember(HTMLResponse(_door(self.base, here), 401), asked, self.base)
        await answer(scope, receive, send)

    def _closed(self, path: str) -> bool:
        if path in ("/wg/enter", "/_stcore/health"):
            return False
        if password():
            return True
        modules = path.startswith(f"/wg/{self.version}/")  # no secret in them, and the page needs them for the login
        return by_login() and not modules and (path.startswith("/wg/") or path in ("/metrics", "/health"))


# ---- the door ----

passwords = Tries()


@ours
async def enter(request: Request) -> Response:
    """POST {password, to} from the password page, or {ticket} from page.py. Sets the cookie."""
    if not password() and not by_login():
        return PlainTextResponse("This server has no password. Open its first page.", 404)
    body = await body_of(request, 2**18) or b""  # with the link, so it may be long
    given = {name: values[0] for name, values in parse_qs(body.decode("latin-1")).items()}
    base = request.scope.get("root_path", "") + request.url.path.removesuffix("/wg/enter")
    to = given.get("to", "")
    local = to.startswith(f"{base}/") and not to.startswith("//") and "\\" not in to
    if not local or not all(letter.isprintable() for letter in unquote(to)):
        to = f"{base}/"  # never to another site
    if "ticket" in given and by_login() and _holds(given["ticket"], "ticket", TICKET):
        return _let_in(JSONResponse({}), request, base)
    address = browsers.address(request)
    if not _has_cookie(request) and not await passwords.turn(address, browsers.known(request)):
        said = "Too many passwords from this browser or network wait for their turn. Wait a minute, then try again."
        return HTMLResponse(_door(base, to, said), 429)
    if password() and _same(given.get("password", "").strip(), password()):
        passwords.right(browsers.known(request))
        return _let_in(RedirectResponse(to, 303), request, base)
    passwords.wrong(address, browsers.known(request))
    audit.note("wrong_password", browsers.page_of(request, ""))
    await asyncio.sleep(0.3)  # slows down guessing
    return HTMLResponse(_door(base, to, "That is not the password of this class."), 401)


def _let_in(answer: Response, request: Request, base: str) -> Response:
    text, secure = _signer("access").dumps("in"), request.url.scheme == "https"
    answer.set_cookie(COOKIE, text, max_age=LASTS, path=base or "/", httponly=True, samesite="lax", secure=secure)
    return answer


def _door(base: str, to: str, said: str = "") -> str:
    wrong = f'<p class="bad" role="alert">{html.escape(said)}</p>' if said else ""
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Warpglass</title><style>:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; display: grid; place-content: center; min-height: 90vh; margin: 0 1rem; }}
form {{ display: grid; gap: .8rem; max-width: 22rem; }} h1 {{ font-size: 1.3rem; margin: 0; }} p {{ margin: 0; }}
input, button {{ font: inherit; padding: .5rem .7rem; border: 1px solid #888; border-radius: .4rem; }}
button {{ cursor: pointer; font-weight: 600; }} .bad {{ border-left: 4px solid #D55E00; padding-left: .6rem; }}</style>
<form method="post" action="{html.escape(base)}/wg/enter"><h1>Warpglass</h1>
<p>This class has a password. Its leader knows it.</p>{wrong}
<label for="password">Password</label>
<input id="password" name="password" type="password" required autofocus autocomplete="current-password">
<input type="hidden" name="to" value="{html.escape(to)}"><button>Come in</button></form></html>"""


def remember(answer: Response, request: Request) -> Response:
    """Stores a browser's destination before st.login. The script of page.py returns to it."""
    plain = request.url.path.endswith("/") and not request.url.query  # the app's first page, the end of a login
    if by_login() and not plain and not _has_cookie(request):
        here = quote(request.url.path + (f"?{request.url.query}" if request.url.query else ""), safe="")
        if len(here) <= 3000:  # the limit of a cookie
            answer.set_cookie(BACK, here, max_age=600, samesite="lax")
    return answer
