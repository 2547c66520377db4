"""Bundles: the bytes of stages and tabs, made once in a worker and named by their content.

`get` returns the name of a bundle, or a Waiting, or raises the reason for its failure. Equal requests share one job.
The bytes are on disk (app/store/disk.py), so that other servers find them. A damaged bundle is made again.
"""

import asyncio
import contextlib
import functools
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from app.choices.estimates import requests_in
from app.guards import audit
from app.parts.story import Story
from app.store import disk
from app.web import making
from kernels.errors import FAULT, RunError, WarpglassError
from kernels.jail import setting
from kernels.run import workers

MOST_NAMES = 10_000  # of bundles that this process knows without looking at the disk
FORGIVEN = 2.0  # seconds during which a failure answers every request. Later requests try again
WAITS = 3.0  # seconds without a request, after which a page no longer waits


@dataclass(frozen=True)
class Waiting:
    """A bundle that a worker makes, or that waits for a worker.

    seconds: since the worker started, or since the request.
    place: the number of jobs in front.
    running: whether a worker makes it now.
    why: the reason why no free worker takes it, or ""."""

    key: str
    seconds: float
    place: int
    running: bool
    why: str = ""


@dataclass
class _Making:
    """The state of a job.

    asked: page -> time of its last request, or infinity during an open request. "" is the server, which waits to the
        end.
    tell: callbacks for the end of the job.
    failed: the error, after a failure."""

    job: workers.Job
    title: str
    began: float
    asked: dict[str, float] = field(default_factory=dict)
    tell: set[Callable[[], None]] = field(default_factory=set)
    failed: WarpglassError | None = None


_names: OrderedDict[str, list[str]] = OrderedDict()  # key -> names of the bundle and its files, of those last asked for
_making: dict[str, _Making] = {}
_lock = threading.RLock()
_watch: threading.Thread | None = None  # drops what nobody waits for any more, while anything is being made


def get(
    story: Story,
    subject: object,
    backend: str,
    device: str,
    part: str = "",
    again: bool = False,
    who: str = "",
    seconds: float = 0.0,
) -> str | Waiting:
    """The name of the bundle of a stage or a tab, or a Waiting. Raises the WarpglassError of its job.

    again: whether to try again after a recent failure.
    who: the page. It waits while it asks again within WAITS seconds. The server ("") waits to the end.
    seconds: its estimated time."""
    key = making.key_of(story.path, part, subject, device)
    with _lock:
        if name := _known(key):
            return name
        task = _making.get(key)
        if task and task.failed and not again and time.monotonic() - task.began < FORGIVEN:
            raise task.failed
        if not task or task.failed:
            label = f"{story.title}{': ' + part if part else ''}"
            make = making.make_and_send if workers.elsewhere() else making.make
            for draft in {one.kernel.path for one in requests_in(subject) if setting.is_jailed(one.kernel.path)}:
                audit.note("jailed_run", who, draft=draft.stem)
            args = story.path, part, subject, key, making.seen()
            job = workers.submit(make, *args, backend=backend, title=label, client=_client(who), estimate=seconds)
            task = _making[key] = _Making(job, story.title, time.monotonic())
            job.when_done(functools.partial(_end, key, task))
            job.when_done(lambda: [tell() for tell in list(task.tell)])
        if not task.job.done():
            if who not in task.asked:
                task.job.join(_client(who))
            task.asked[who] = math.inf if who == "" else time.monotonic()
            global _watch
            if not _watch or not _watch.is_alive():
                _watch = threading.Thread(target=_drop_silent, daemon=True)
                _watch.start()
            running = task.job.seconds()
            waited = time.monotonic() - task.began if running is None else running
            return Waiting(key, waited, task.job.ahead(), running is not None, task.job.held(_client(who)))
    _end(key, task)
    if task.failed:
        raise task.failed
    return _names[key][0]


def _end(key: str, task: _Making) -> None:
    """Stores the result of a finished job: the names, or for a short time the error."""
    with _lock:
        if task.failed or _making.get(key) is not task:
            return
        for old in [k for k, m in _making.items() if m.failed and time.monotonic() - m.began > FORGIVEN]:
            del _making[old]
        try:
            # the names, or the names and the bytes of another host. A kernel can write other answers
            answer = task.job.result(timeout=0)
            sent = answer if isinstance(answer, tuple) and len(answer) == 2 else None
            names, files = sent or (answer, [])
            are_names = isinstance(names, list) and all(isinstance(name, str) and name.isalnum() for name in names)
            if not names or not are_names:
                raise RunError(f"The worker sent {answer!r:.60} in place of a bundle. Run it again.")
            if not isinstance(files, list) or not all(isinstance(data, bytes) for data in files):
                raise RunError("The worker sent files that are no bytes. Run it again.")
            _names[key] = making.keep_sent(key, names, files) if sent else names
            del _making[key]
        except WarpglassError as error:
            task.failed, task.began = error, time.monotonic()
        except Exception as error:
            audit.write(error)
            failed = RunError(f"{task.title} could not be made: {type(error).__name__}: {error}. {FAULT}")
            task.failed, task.began = failed, time.monotonic()


async def settled(key: str, seconds: float, who: str = "") -> None:
    """Waits at most `seconds` for the end of the job with that key. The page `who` counts as waiting."""
    task, loop, done = _making.get(key), asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        with contextlib.suppress(RuntimeError):  # who waited has left, with its loop
            loop.call_soon_threadsafe(done.set)

    if task and not task.job.done():
        task.asked[who] = math.inf
        task.tell.add(tell)
        if task.job.done():  # just now
            tell()
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), seconds)
        finally:
            task.tell.discard(tell)
            if who and who in task.asked:
                task.asked[who] = time.monotonic()


def stop(key: str, who: str = "", forget: bool = False) -> None:
    """Stops the job with that key, unless other pages need it. The page `who` gets the error.

    forget: the page asks for something else now. Nobody gets an error, and a new request starts anew."""
    if job := _left(key, who, forget):
        job.cancel()


def _left(key: str, who: str, forget: bool = False) -> workers.Job | None:
    """The job, if no page but `who` waits for it."""
    with _lock:
        task = _making.get(key)
        if not task or task.failed:
            return None
        task.asked.pop(who, None)
        if _client(who) not in map(_client, task.asked):
            task.job.leave(_client(who))
        if any(time.monotonic() - last < WAITS for last in list(task.asked.values())):  # one may come now
            return None
        if forget:
            del _making[key]
    return task.job


def _client(who: str) -> str:
    """Who takes turns in the queue: all pages of a browser together (browsers.page_of)."""
    return who.partition("/")[0]


def _drop_silent() -> None:
    """Forgets the pages without a request for WAITS seconds, and stops the jobs without a page."""
    global _watch
    while True:
        time.sleep(WAITS / 6)
        with _lock:
            undone = {key: task for key, task in _making.items() if not task.job.done()}
            if not undone:
                _watch = None
                return
            silent = [
                (key, who)
                for key, task in undone.items()
                for who, last in list(task.asked.items())
                if time.monotonic() - last >= WAITS
            ]
            left = [_left(key, who, forget=True) for key, who in silent]
        for job in filter(None, left):
            job.cancel()


def forget() -> None:
    """Empties this process's memory of the cache. For tests."""
    with _lock:
        _names.clear()
        _making.clear()


def _known(key: str) -> str | None:
    """The name of the bundle, if the store has the bundle and its files."""
    names = _names.get(key)
    if not names or not disk.use(key, names):
        names = disk.noted(key)
    if not names:
        _names.pop(key, None)
        return None
    _names[key] = names
    _names.move_to_end(key)
    while len(_names) > MOST_NAMES:
        _names.popitem(last=False)
    return names[0]
