"""The routes of the workbench.

POST /wg/workbench/check?who=NAME[&whole=1]   the text -> JSON: {diagnostics, ok, said, kernel, pages} or {error}
POST ...&exercise=NAME                        the text as an answer to an exercise -> the same, with its cases
POST /wg/workbench/versions?who=NAME          {texts: [2], titles: [2]} -> JSON: a Comparison (kernels/watching), or
                                              {error}

A text has at most MOST_BYTES. A new question of a page stops its question before, and so does a closed connection.
A program without a cookie has a page for each question. A browser has at most MOST_OPEN questions, and an address
MOST_OF_ADDRESS. Only our own pages can ask.
"""

import asyncio
import json
import secrets
from collections.abc import Callable, Coroutine

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from app.guards import audit, browsers
from app.guards.guard import body_of, ours
from app.stories import listed
from app.workbench import drafts, examine, versions
from kernels.catalog import current
from kernels.core.sources import MOST_BYTES
from kernels.errors import FAULT, BuildError, ProblemError, RunCancelled, WarpglassError
from kernels.jail import setting
from kernels.run import workers
from kernels.run.workers.fair import group_of

TIME_LIMITS = {False: 40.0, True: 60.0}  # seconds of a worker, for a few problems and for all
MOST_TITLE = 60  # characters
MOST_OPEN, MOST_OF_ADDRESS = 2, 128  # open questions of a browser, and of an address: a class may share one
Answer = dict[str, object]
_asking: dict[str, workers.Job] = {}  # page -> its question


class TooManyChecks(ProblemError):
    pass


class Refused(ProblemError):
    """A text that is refused before any worker reads it. reason: for the log."""

    def __init__(self, said: str, reason: str, status: int = 400):
        super().__init__(said)
        self.reason, self.status = reason, status


@ours
async def check(request: Request) -> Response:
    def answer(who: str, body: bytes) -> Coroutine[object, object, Answer]:
        text = _text(body)
        _note_run(who, text)
        if exercise := request.query_params.get("exercise"):
            return _asked(who, TIME_LIMITS[True], examine.graded, exercise, text)
        return _answer(text, who, bool(request.query_params.get("whole")))

    return await _answered(request, MOST_BYTES, answer)


@ours
async def compare(request: Request) -> Response:
    def answer(who: str, body: bytes) -> Coroutine[object, object, Answer]:
        try:
            said = json.loads(body)
            given, titles = [said["texts"], said["titles"]], said["titles"]
        except (ValueError, TypeError, KeyError, RecursionError):
            given = []
        if not all(isinstance(one, list) and len(one) == 2 and all(isinstance(t, str) for t in one) for one in given):
            given = []
        if not given or max(map(len, titles)) > MOST_TITLE:
            raise Refused("A comparison needs two texts and their titles. Reload the page.", "form")
        texts = [_text(text.encode(errors="replace")) for text in given[0]]
        _note_run(who, *texts)
        return _compared(who, texts, [title.encode(errors="replace").decode() for title in titles])

    return await _answered(request, 4 * MOST_BYTES, answer)


async def _answered(
    request: Request, most: int, answer: Callable[[str, bytes], Coroutine[object, object, Answer]]
) -> Response:
    """The answer to a body of at most `most` bytes, or its error in a sentence. answer: of the page and the body."""
    name = request.query_params.get("who", "") if browsers.known(request) else secrets.token_hex(8)
    who = browsers.page_of(request, name)
    if reason := setting.why_no_workbench():
        audit.note("refused_text", who, reason="closed")
        return JSONResponse({"error": reason}, 403)
    body = await body_of(request, most)
    try:
        if body is None:
            raise _too_long()
        return JSONResponse(await _until_gone(request, answer(who, body)))
    except Refused as error:
        audit.note("refused_text", who, reason=error.reason)
        return JSONResponse({"error": str(error)}, error.status)
    except TooManyChecks as error:
        return JSONResponse({"error": str(error)}, 429)
    except RunCancelled:
        return JSONResponse({"error": "A newer text is being checked."})
    except WarpglassError as error:
        of_the_text = isinstance(error, (ProblemError, BuildError))
        return JSONResponse({"error": str(error)}, 400 if of_the_text else 503)
    except Exception as error:
        audit.write(error)
        return JSONResponse({"error": f"The text could not be checked. {FAULT}"}, 500)


def _text(body: bytes) -> str:
    """The text of a body. Raises Refused."""
    if len(body) > MOST_BYTES:
        raise _too_long()
    try:
        text = body.decode()
        drafts.check_lines(text)
    except UnicodeDecodeError:
        raise Refused("The text is not UTF-8. Save it as UTF-8, and open it again.", "encoding") from None
    except ProblemError as error:
        raise Refused(str(error), "line") from None
    return text


def _too_long() -> Refused:
    return Refused(f"The text is too long. At most {MOST_BYTES >> 10} KB are read.", "long", 413)


def _note_run(who: str, *texts: str) -> None:
    for text in texts if not setting.why_no_jail() else ():
        audit.note("jailed_run", who, draft=drafts.name_of(text, who.partition("/")[0]))


async def _compared(who: str, texts: list[str], titles: list[str]) -> Answer:
    """The table of two texts. Raises WarpglassError."""
    names = [drafts.name_of(text, who.partition("/")[0]) for text in texts]
    return await _asked(who, TIME_LIMITS[True], versions.compared, texts, names, titles)


async def _answer(text: str, who: str, whole: bool) -> dict[str, object]:
    """The worker's answer, and the pages for this draft. Raises WarpglassError."""
    name = drafts.name_of(text, who.partition("/")[0])
    path = await run_in_threadpool(drafts.keep, text, name)
    said = await _asked(who, TIME_LIMITS[whole], examine.examine, text, whole, name)
    if not said["kernel"]:
        audit.note("refused_text", who, reason="comment", draft=path.stem)
        return {**said, "pages": []}
    await run_in_threadpool(drafts.admit, path)
    return {**said, "pages": await run_in_threadpool(pages, path.stem)}


async def _until_gone(request: Request, answer: Coroutine[object, object, Answer]) -> Answer:
    """The answer. A closed connection cancels it. Raises WarpglassError."""
    asked, gone = asyncio.ensure_future(answer), asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((asked, gone), return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            return asked.result()
        raise RunCancelled("The page has closed its question.")
    finally:
        asked.cancel()
        gone.cancel()


async def _asked(who: str, seconds: float, function: Callable[..., Answer], *args: object) -> Answer:
    """function(*args) of a worker, in place of the page's question before. Raises WarpglassError."""
    if before := _asking.pop(who, None):
        before.cancel()
    client = who.partition("/")[0]
    clients = [page.partition("/")[0] for page in _asking]
    if clients.count(client) >= MOST_OPEN:
        raise TooManyChecks(f"{MOST_OPEN} checks of this browser are open. Wait for one, or close its page.")
    if sum(group_of(other) == group_of(client) for other in clients) >= MOST_OF_ADDRESS:
        raise TooManyChecks(f"{MOST_OF_ADDRESS} checks of this network are open. Try again in a minute.")
    job = workers.submit(function, *args, backend="cpu", title="The check", time_limit=seconds, client=client)
    _asking[who] = job
    try:
        return await asyncio.wrap_future(job)
    finally:
        if _asking.get(who) is job:
            del _asking[who]


def pages(name: str) -> list[dict[str, object]]:
    """The pages that can show a draft: path, title, and `others`, our kernels there with the same problem."""
    found = drafts.with_drafts(current(), [name])
    shown: list[dict[str, object]] = []
    for path, story in listed(found).items():
        kernels = story.page(found).kernels
        if name in kernels:
            others = [other for other, kernel in kernels.items() if kernel.same_problems(kernels[name])]
            shown.append({"path": path, "title": story.title, "others": [other for other in others if other != name]})
    return shown


def routes(base: str) -> list[BaseRoute]:
    """base: the app's path below the host."""
    return [
        Route(f"{base}/wg/workbench/check", check, methods=["POST"]),
        Route(f"{base}/wg/workbench/versions", compare, methods=["POST"]),
    ]
