"""The routes of a class.

POST /wg/rooms {secret}     -> {code, secret}: opens a room with the room secret of this server, if any
WS   /wg/room/CODE          -> first {who}, or {who, secret} of a leader, then the messages of rooms.py
GET  /wg/answers.csv        -> the answers of a class, for its leader (x-warpglass-class: CODE SECRET)
GET  /wg/qr?to=ADDRESS      -> SVG of this address as a QR code
GET  /wg/status             -> JSON: devices, queue, sessions, memory
GET  /metrics               -> these figures for Prometheus
GET  /health                -> a page with these figures for the lecturer
POST /wg/enter              -> admits a browser (access.py)
"""

import asyncio
import contextlib
import io
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import psutil
import segno
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from app.classroom import access
from app.classroom.rooms import Room, RoomError, Rooms, Seat
from app.classroom.tries import Tries
from app.guards import audit, browsers
from app.guards.guard import body_of, is_ours, ours
from app.store import disk
from app.stories import STORIES
from kernels.build import folders
from kernels.run import workers

_began = time.monotonic()
DEVICE_METRICS = (  # of each device: kind, name, meaning, key in the figures
    (GaugeMetricFamily, "queue", "Tasks in the queue of a worker.", "waiting"),
    (GaugeMetricFamily, "running", "Running tasks.", "running"),
    (CounterMetricFamily, "worker_deaths", "Crashed workers.", "deaths"),
    (CounterMetricFamily, "compile_seconds", "Seconds spent compiling.", "compiling"),
    (GaugeMetricFamily, "device_out", "1 for a device out of service.", "out"),
)


def now(classes: list[dict[str, Any]], sessions: int) -> dict[str, Any]:
    """The present figures: devices as in workers.status, and bytes of memory of this process and its children.

    classes: rooms.figures()
    sessions: browsers with an open page"""
    own = psutil.Process()
    return {
        "devices": [asdict(device) for device in workers.status()],
        "sessions": sessions,
        "classes": classes,
        "minutes": round((time.monotonic() - _began) / 60),
        "web_bytes": own.memory_info().rss,
        "worker_bytes": sum(_bytes(child) for child in own.children(recursive=True)),
        "free_bytes": psutil.virtual_memory().available,
    }


def for_prometheus(found: dict[str, Any]) -> tuple[bytes, str]:
    """(text, content type) of the result of `now`, in Prometheus format."""
    registry = CollectorRegistry()
    registry.register(_Collector(found))
    return generate_latest(registry), CONTENT_TYPE_LATEST


class _Collector:
    def __init__(self, figures: dict[str, Any]):
        self.figures = figures

    def collect(self) -> Iterator[Metric]:
        found = self.figures
        runs = CounterMetricFamily("warpglass_runs", "Finished tasks of workers.", labels=["device", "gpu", "outcome"])
        for device in found["devices"]:
            for outcome in ("done", "failed"):
                runs.add_metric([device["name"], device["gpu"], outcome], device[outcome])
        yield runs
        for family, name, meaning, key in DEVICE_METRICS:
            metric = family(f"warpglass_{name}", meaning, labels=["device", "gpu"])
            for device in found["devices"]:
                value = bool(device["out"]) if key == "out" else device[key]
                metric.add_metric([device["name"], device["gpu"]], float(value))
            yield metric
        memory = GaugeMetricFamily("warpglass_memory_bytes", "Resident memory.", labels=["process"])
        memory.add_metric(["web"], found["web_bytes"])
        memory.add_metric(["workers"], found["worker_bytes"])
        yield memory
        yield GaugeMetricFamily("warpglass_sessions", "Browsers with a page open.", value=found["sessions"])
        yield GaugeMetricFamily("warpglass_classes", "Open classes.", value=len(found["classes"]))
        followers = sum(one["followers"] for one in found["classes"])
        yield GaugeMetricFamily("warpglass_followers", "Their followers.", value=followers)


def _bytes(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:  # ended a moment ago
        return 0


KEPT_EVERY = 1.0  # seconds between two writes of the rooms
PACE = 0.1  # seconds, the least between two messages to a leader
MOST_MESSAGES = 60  # messages of a seat in SPAN
SPAN = 1.0  # seconds
LONGEST = 500  # characters of an address for a QR code
ENDED, REFUSED = 4000, 4001  # close codes of a socket: do not connect again


FIRST_MESSAGE = "The first message is {who}, or {who, secret} of a leader."
TOO_MANY = "Too many tries of this browser or network wait for their turn. Wait a minute, then try again."
secrets_tried, codes_tried = Tries(), Tries()
_base = ""
_site = ""  # distinguishes the files of servers with one cache


@cache
def _file() -> Path:
    return folders.write(lambda folder: folder) / f"rooms{_site}.json"


@cache
def rooms() -> Rooms:
    return Rooms(_file(), access.may_open, frozenset(STORIES))


def for_the_leader(change: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """As `ours`. During a class, only its leader may change anything (x-warpglass-class: CODE SECRET)."""

    async def checked(request: Request) -> Response:
        code, _, secret = request.headers.get("x-warpglass-class", "").partition(" ")
        if rooms().in_charge(code, secret):
            return await change(request)
        reason = "A class runs on this server, and only its leader may measure. Measure after its end."
        return JSONResponse({"error": reason}, 403)

    return ours(checked)


_keeping: asyncio.Task[None] | None = None


async def _keep() -> None:
    """Writes the rooms to their file every second."""
    while True:
        await asyncio.sleep(KEPT_EVERY)
        rooms().sweep()
        if (text := rooms().unwritten()) is not None:
            try:
                await run_in_threadpool(disk.write_whole, _file(), text.encode())
            except OSError:  # a full disk. The only loss is the rooms at a restart.
                rooms().write_again()


def _start_keeping() -> None:
    global _keeping
    if _keeping is None or _keeping.done():
        _keeping = asyncio.create_task(_keep())


@ours
async def open_room(request: Request) -> Response:
    body = await body_of(request)
    if not await secrets_tried.turn(browsers.address(request), browsers.known(request)):
        return JSONResponse({"error": TOO_MANY}, 429)
    try:
        given = str(json.loads(body or b"{}").get("secret", ""))
        code, secret = rooms().open(given)
    except (ValueError, AttributeError, RecursionError):
        return JSONResponse({"error": "A request for a room is {secret: ...}."}, 400)
    except RoomError as error:
        if access.may_open(given):
            return JSONResponse({"error": str(error)}, 409)
        secrets_tried.wrong(browsers.address(request), browsers.known(request))
        audit.note("wrong_room_secret", browsers.page_of(request, ""))
        await asyncio.sleep(0.3)  # slows down guessing
        return JSONResponse({"error": str(error)}, 403)
    secrets_tried.right(browsers.known(request))
    audit.note("room_opened", browsers.page_of(request, ""))
    _start_keeping()
    return JSONResponse({"code": code, "secret": secret})


async def room(socket: WebSocket) -> None:
    if not is_ours(socket):
        return await socket.close(REFUSED)
    cookie = browsers.new_cookie(socket, _base)
    await socket.accept(headers=[(b"set-cookie", cookie.encode())] if cookie else None)
    _start_keeping()
    browser, address = browsers.known(socket), browsers.address(socket)
    try:
        said = json.loads(await asyncio.wait_for(socket.receive_text(), 10))
        who, secret = said.get("who"), said.get("secret")
        if not isinstance(who, str) or not who or not isinstance(secret, (str, type(None))):
            raise RoomError(FIRST_MESSAGE)
        if not await codes_tried.turn(address, browser):
            raise RoomError(TOO_MANY)
        here, seat = rooms().enter(socket.path_params["code"], browser or who, secret, address, bool(browser))
    except (WebSocketDisconnect, TimeoutError):
        return
    except (ValueError, AttributeError, KeyError, RecursionError):
        return await _refuse(socket, FIRST_MESSAGE)
    except RoomError as error:
        if error.gone:  # a wrong code, or a wrong secret
            codes_tried.wrong(address, browser)
            audit.note("wrong_room", browsers.page_of(socket, ""))
        return await _refuse(socket, str(error), error.gone)
    codes_tried.right(browser)
    speaking = asyncio.create_task(_speak(socket, here, seat))
    try:
        await _listen(socket, here, seat)
    except (WebSocketDisconnect, RuntimeError, KeyError):  # disconnected, or a message of bytes
        pass
    finally:
        speaking.cancel()
        rooms().leave(here, seat)


async def _refuse(socket: WebSocket, text: str, gone: bool = False) -> None:
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        await socket.send_text(json.dumps({"error": text, "gone": gone}))
        await socket.close(REFUSED)


async def _speak(socket: WebSocket, here: Room, seat: Seat) -> None:
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        while True:
            await seat.news.wait()
            seat.news.clear()
            if seat.gone:
                return await _refuse(socket, "This class is open in another tab of this browser.", gone=True)
            if here.ended:
                await socket.send_text(json.dumps({"ended": here.ended}))
                return await socket.close(ENDED)
            await socket.send_text(here.state_for(seat))
            if seat.leads:
                await asyncio.sleep(PACE)


async def _listen(socket: WebSocket, here: Room, seat: Seat) -> None:
    loop, began, count = asyncio.get_running_loop(), 0.0, 0
    while True:
        text = await socket.receive_text()
        if loop.time() - began > SPAN:
            began, count = loop.time(), 0
        count += 1
        if count > MOST_MESSAGES:
            return await _refuse(socket, f"More than {MOST_MESSAGES} messages in a second.")
        try:
            rooms().hear(here, seat, text)
        except RoomError as error:
            await socket.send_text(json.dumps({"refused": str(error)}))


@ours
async def answers(request: Request) -> Response:
    code, _, secret = request.headers.get("x-warpglass-class", "").partition(" ")
    try:
        text = rooms().answers(code, secret)
    except RoomError as error:
        return JSONResponse({"error": str(error)}, 403)
    return Response(text, media_type="text/csv", headers={"cache-control": "no-store"})


async def qr(request: Request) -> Response:
    to = request.query_params.get("to", "")
    if not to.startswith(("http://", "https://")) or len(to) > LONGEST:
        return Response(f"A QR code needs an address (http...) of at most {LONGEST} characters.", 400)
    drawn = await run_in_threadpool(_qr_code, to)
    return Response(drawn, media_type="image/svg+xml", headers={"cache-control": "no-store"})


@lru_cache(maxsize=64)
def _qr_code(to: str) -> bytes:
    drawn = io.BytesIO()
    segno.make(to, error="m").save(drawn, kind="svg", scale=8, border=4, dark="#000", light="#fff")
    return drawn.getvalue()


def routes(base: str, version: str, sessions: Callable[[], int], site: str = "") -> list[BaseRoute]:
    """The routes.

    base: the app's path below the host
    version: of the stage's modules
    sessions(): number of browsers with an open page
    site: distinguishes servers with one cache, for example -8501"""
    global _site, _base
    _site, _base = site, base
    page = f"""<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Warpglass: the server</title><main></main>
<script type="module" src="./wg/{version}/shell/health.js"></script></html>"""

    async def found() -> dict[str, object]:
        return await run_in_threadpool(now, rooms().figures(), sessions())  # only the event loop touches rooms

    async def health(request: Request) -> Response:
        return HTMLResponse(page)

    async def status(request: Request) -> Response:
        return JSONResponse(await found())

    async def metrics(request: Request) -> Response:
        text, kind = for_prometheus(await found())
        return Response(text, media_type=kind)

    return [
        Route(f"{base}/wg/rooms", open_room, methods=["POST"]),
        WebSocketRoute(f"{base}/wg/room/{{code}}", room),
        Route(f"{base}/wg/answers.csv", answers),
        Route(f"{base}/wg/qr", qr),
        Route(f"{base}/wg/status", status),
        Route(f"{base}/wg/enter", access.enter, methods=["POST"]),
        Route(f"{base}/metrics", metrics),
        Route(f"{base}/health", health),
    ]
