"""The app's own routes, next to Streamlit's.

    GET  /wg/ask/STORY?CHOICES[&_set=NAME&_to=VALUE][&_carried=1][&_part=TAB]  -> JSON: choices, link, and the name of a
             bundle or the key of its job. [&_key=KEY] waits a second for a job. [&_again=1] repeats a failed job.
             [&_who=NAME] names the page within its browser
    GET  /wg/found                                                             -> what the search finds (searching.py)
    GET  /wg/bundle/NAME                                                       -> gzip bytes, immutable
    GET  /wg/file/NAME/FILE                                                    -> a file for download
    POST /wg/stop?key=KEY&who=NAME[&drop=1]                                    -> stops a job, unless other pages need
             it. With drop, no page gets an error
    GET  /wg/measure                                                           -> the progress of the measurement
    POST /wg/measure {what: ...}                                               -> starts one (measuring.py)
    POST /wg/measure/stop, /wg/measure/forget?what=WHAT                        -> stops it, or drops its results
    GET  /wg/VERSION/stage.js                                                  -> the browser's modules in one file,
             immutable, and below the same address each module, and the source map
    GET  /wg/VERSION/vega.js                                                   -> Vega, Vega-Lite and vega-embed
    GET  /, /STORY, /static/FILE                                               -> Streamlit's page with our first style,
             and its files (modules.py)
    and the routes of a class, of the workbench and of opened files: classroom/routes.py, workbench/routes.py and
    openings.py

The server takes POST requests only from its own pages. During a class, only the leader can measure. A question costs
the web process a few milliseconds and no rerun. Workers do all work (bundles.py).
"""

import asyncio
import contextlib
import gzip
import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from app.classroom import access
from app.classroom import routes as classroom
from app.guards import audit, browsers
from app.guards.guard import Guard, body_of, ours
from app.guards.hosts import Hosts
from app.measured import measuring
from app.store import disk, vega
from app.stories import STORIES, listed
from app.web import asking, bundles, modules, one_file, openings, searching
from app.web.modules import PACKED, Files, packed
from app.workbench import routes as workbench
from kernels.build import CPU, Mode, build
from kernels.catalog import current
from kernels.core.fields import nearest, shortened
from kernels.errors import FAULT, BackendUnavailable, RunCancelled, WarpglassError
from kernels.run import workers
from kernels.run.workers import served

MOST_ANSWER = 2**28  # bytes that a worker may send to the web process: names, or bundles from another host
MOST_JSON = 2**22  # bytes of JSON in such an answer: names take some 100, a failure some 1,000
LATER = 5.0  # seconds: the charts' script takes a core for a while
TIDY = 30.0  # seconds between two returns of memory: a hundred sessions leave 100 MB free in glibc
PATIENCE = 1.0  # seconds that a question waits for a job
OWN = {"_set", "_to", "_carried", "_part", "_key", "_again", "_who"}
SENT = ("choices", "link", "told", "refused", "offer", "headline", "problem")  # of an answer
MOST_ASKED = 2**16  # bytes of the body of a question
MOST_SAID = 1000  # characters of an error, which may quote a stranger's text
MOST_LINK = 60_000  # characters of a link. The server's parser takes 65,535, with the path


def answer(path: str, query: dict[str, str]) -> dict[str, Any]:
    story = STORIES[path]
    params = {name: text for name, text in query.items() if name not in OWN}
    change = (query["_set"], query.get("_to", "")) if "_set" in query else None
    try:
        survey = workers.survey()
        asked_for = asking.ask_once(story, params, survey, change, "_carried" in query, query.get("_part", ""))
    except BackendUnavailable as error:
        return {"story": path, "error": str(error), "title": "Nothing can run here."}
    said = {"story": path} | {name: getattr(asked_for, name) for name in SENT}
    if asked_for.error:
        return said | {"error": asked_for.error, "title": "This cannot run."}
    part = query.get("_part", "")
    if part and part not in story.parts:
        return said | {"error": f"{shortened(part)} is no tab of {story.title}.", "title": "There is no such tab."}
    device = survey.pick(asked_for.backend)
    try:
        got = bundles.get(
            story,
            asked_for.subject,
            story.made_on or asked_for.backend,
            f"{device.name} {device.driver}",
            part,
            again="_again" in query,
            who=query.get("_who", ""),
            seconds=asked_for.seconds,
        )
    except RunCancelled as error:
        return said | {"error": str(error), "title": "Stopped."}
    except WarpglassError as error:
        return said | {"error": str(error), "title": "The run failed."}
    if isinstance(got, bundles.Waiting):
        return said | {"waiting": asdict(got) | {"seconds": round(got.seconds, 1)}}
    return said | {"bundle": got}


def prepare() -> None:
    """Makes the first pages before a reader asks for them, one after the other, because a machine may have two
    cores. The kernel of the first stop compiles while the workers still import."""
    workers.limit_answers(MOST_ANSWER, MOST_JSON)

    def first() -> None:
        for name in (modules.ORIGIN, modules.ENTRY):
            packed(modules.modules()[name])
        with contextlib.suppress(WarpglassError):
            for request in asking.requests_in(asking.ask(STORIES["tiling"], {}, workers.survey()).subject):
                if request.backend == "cpu":  # its worker then finds the C++ in the cache
                    build(request.kernel, request.defines, Mode.PROBED, CPU)
        workers.ready()
        for path in ("tiling", "start", "memory_hierarchy"):  # the first stops. No first visit waits for them
            if waiting := answer(path, {}).get("waiting"):
                asyncio.run(bundles.settled(waiting["key"], workers.TIME_LIMIT))
        time.sleep(LATER)
        with contextlib.suppress(WarpglassError):  # readers of charts get the error, or start the job again
            vega.bundle()
        for path in listed(current()):  # the first answer of each story reads the recordings, so nobody waits for them
            with contextlib.suppress(WarpglassError):
                asking.ask(STORIES[path], {}, workers.survey())
        answer("timing", {})

    def tidy() -> None:
        while True:
            time.sleep(TIDY)
            served.return_memory()

    threading.Thread(target=first, daemon=True).start()
    threading.Thread(target=tidy, daemon=True).start()


async def ask(request: Request) -> Response:
    path = request.path_params["story"]
    known = listed(current())
    if path not in known:
        said = f"{shortened(path)} is no story.{nearest(path, known)}"
        return JSONResponse({"error": said, "title": "There is no such page."}, 404)
    if len(request.url.query) > MOST_LINK:
        said = f"This link has {len(request.url.query):,} characters. At most {MOST_LINK:,} are read. Leave some out."
        return JSONResponse({"story": path, "error": said, "title": "This link is too long."}, 414)
    query = dict(request.query_params)
    query["_who"] = browsers.page_of(request, query.get("_who", ""))
    if key := query.get("_key"):
        await bundles.settled(key, PATIENCE, query["_who"])
    try:
        return JSONResponse(await run_in_threadpool(answer, path, query))
    except WarpglassError as error:  # of a draft's text, which the worker had not yet read to this place
        said = str(error)[:MOST_SAID]
        return JSONResponse({"story": path, "error": said, "title": "This cannot run."}, 400)
    except Exception as error:
        audit.write(error)
        said = f"{STORIES[path].title} could not answer: {type(error).__name__}: {error}. {FAULT}"
        return JSONResponse({"story": path, "error": said, "title": "This could not be answered."}, 500)


async def bundle(request: Request) -> Response:
    return await _kept(request, "This bundle is not kept any more.", PACKED)


async def file(request: Request) -> Response:
    gone = "This file is not kept any more. Open its tab again."
    return await _kept(request, gone, {"content-disposition": "attachment"})


async def _kept(request: Request, gone: str, headers: dict[str, str]) -> Response:
    name = request.path_params["name"]
    data = await run_in_threadpool(disk.read, name)
    if data is None:
        return Response(gone, 404)
    return Response(data, media_type="application/octet-stream", headers=headers)


async def saved_page(request: Request) -> Response:
    """A bundle as one file that steps without a server."""
    said = request.query_params
    story, step, picture = STORIES.get(said.get("story", "")), said.get("step", "0"), said.get("picture", "")
    data = await run_in_threadpool(disk.read, request.path_params["name"])
    if data is None or not story:
        return Response("This bundle is not kept any more. Load the page anew, and save again.", 404)
    if not re.fullmatch(r"\d{1,7}", step) or not re.fullmatch(r"[\w-]{0,80}", picture):
        return Response("step is a whole number from 0, and picture the name of one.", 400)
    text = await run_in_threadpool(one_file.page, gzip.decompress(data), story.title, int(step), picture)
    named = f"attachment; filename=warpglass-{said['story']}-{int(step) + 1}.html"
    return Response(text, media_type="text/html", headers={"content-disposition": named})


@ours
async def stop(request: Request) -> Response:
    said = request.query_params
    who, forget = browsers.page_of(request, said.get("who", "")), bool(said.get("drop"))
    await run_in_threadpool(bundles.stop, said.get("key", ""), who, forget)
    return Response(status_code=204)


async def measured(request: Request) -> Response:
    return JSONResponse(asdict(measuring.progress()))


@classroom.for_the_leader
async def measure(request: Request) -> Response:
    body = await body_of(request, MOST_ASKED)
    if body is None:
        return JSONResponse({"error": f"A measurement is asked for in at most {MOST_ASKED:,} bytes."}, 413)
    try:
        return JSONResponse(asdict(await run_in_threadpool(measuring.start, json.loads(body))))
    except (ValueError, RecursionError) as error:
        return JSONResponse({"error": f"This is no JSON: {error}."}, 400)
    except WarpglassError as error:
        return JSONResponse({"error": str(error)}, 400)


@classroom.for_the_leader
async def measure_stop(request: Request) -> Response:
    await run_in_threadpool(measuring.stop)
    return JSONResponse(asdict(measuring.progress()))


@classroom.for_the_leader
async def measure_forget(request: Request) -> Response:
    try:
        measuring.forget(request.query_params.get("what", ""))
    except WarpglassError as error:
        return JSONResponse({"error": str(error)}, 400)
    return JSONResponse(asdict(measuring.progress()))


async def module(request: Request) -> Response:
    name, texts = request.path_params["name"], modules.modules()
    if request.path_params["version"] != modules.version():
        return Response("This is of another version of Warpglass. Load the page anew.", 404)
    if name == "vega.js":
        try:
            data = await run_in_threadpool(vega.bundle)
        except WarpglassError as error:
            return Response(str(error), 503)
        return Response(data, media_type="text/javascript", headers=PACKED)
    if name not in texts:
        return Response("There is no such module.", 404)
    kind = "text/css" if name.endswith(".css") else "text/javascript"
    return Response(packed(texts[name]), media_type=kind, headers=PACKED)


class _PageName(StringConvertor):
    """A name that a page could have. Streamlit answers the others: its own files, and the way back from a login."""

    regex = r"(?!oauth2callback$)[A-Za-z0-9][A-Za-z0-9_-]*"


register_url_convertor("page", _PageName())


def pages(index: Path, base: str) -> list[BaseRoute]:
    """Streamlit's page (`index`) at the address of every story, with our style for its frame and the modules that will
    be wanted: nothing shifts when the rest comes, and it comes sooner."""
    frame = modules.modules()["shell/frame.css"]
    origin = f'<script src="./wg/{modules.version()}/{modules.ORIGIN}"></script>'
    link = f'<link rel="modulepreload" href="./wg/{modules.version()}/{modules.ENTRY}">'
    plain = re.sub(
        r"<script>.*?</script>", "", index.read_text(), flags=re.DOTALL
    )  # the policy allows no inline script
    text = plain.replace("</head>", f"{origin}<style>{frame}</style>{link}</head>", 1)

    async def page(request: Request) -> Response:
        answer = Response(text, media_type="text/html", headers={"cache-control": "no-cache"})
        return access.remember(browsers.remember(answer, request, base), request)

    async def unknown(request: Request) -> Response:
        """To the start page, which names the address. Streamlit's own page for it would cover the menu."""
        name = request.path_params["name"]
        if name in STORIES:  # with a slash behind it
            return RedirectResponse(f"{base}/{'' if name == 'start' else name}?{request.url.query}", 303)
        return RedirectResponse(f"{base}/?{urlencode({'nopage': name})}", 303)

    stories = [Route(f"{base}/" if path == "start" else f"{base}/{path}", page) for path in STORIES]
    return [*stories, Route(f"{base}/{{name:page}}", unknown), Route(f"{base}/{{name:page}}/", unknown)]


def routes(base: str, sessions: Callable[[], int] = lambda: 0, site: str = "") -> list[BaseRoute]:
    """All routes of the app apart from pages.

    base: the app's path below the host, such as /warpglass.
    sessions: the number of open browsers.
    site: a suffix for the cookies."""
    return [
        Route(f"{base}/wg/ask/{{story}}", ask),
        Route(f"{base}/wg/found", searching.found),
        Route(f"{base}/wg/near", searching.near),
        Route(f"{base}/wg/bundle/{{name}}", bundle),
        Route(f"{base}/wg/file/{{name}}/{{file}}", file),
        Route(f"{base}/wg/page/{{name}}", saved_page),
        Route(f"{base}/wg/stop", stop, methods=["POST"]),
        Route(f"{base}/wg/measure", measured),
        Route(f"{base}/wg/measure", measure, methods=["POST"]),
        Route(f"{base}/wg/measure/stop", measure_stop, methods=["POST"]),
        Route(f"{base}/wg/measure/forget", measure_forget, methods=["POST"]),
        *classroom.routes(base, modules.version(), sessions, site),
        *workbench.routes(base),
        *openings.routes(base),
        Route(f"{base}/wg/{{version}}/{{name:path}}", module),
    ]


def base_of(option: str) -> str:
    """The app's path below the host, such as /warpglass, or nothing, of Streamlit's server.baseUrlPath."""
    path = option.strip("/")
    return f"/{path}" if path else ""


def middleware(base: str, index: Path, hosts: Hosts) -> list[Middleware]:
    """The middleware in front of all routes.

    index: Streamlit's page, with its files in the same folder.
    hosts: the allowed hosts."""
    first = re.findall(r'(?:src|href)="\./static/([^"]+)"', index.read_text())
    return [
        Middleware(Guard, hosts=hosts),
        Middleware(access.Gate, base=base, version=modules.version()),
        Middleware(Files, folder=index.parent / "static", at=f"{base}/static/", first=first),
    ]
