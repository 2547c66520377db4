"""What stages show, made once in a worker and kept as immutable bytes, named by their content.

`get` answers with a bundle's name, or with a Waiting, or raises why there is none. Equal requests are made once,
whoever asks. They are kept on disk (disk.py), so that another server finds them; one that is harmed is made again.
"""

import asyncio
import contextlib
import functools
import math
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from app.parts.story import Story
from app.store import disk
from app.web import keys, making
from kernels.errors import FAULT, RunError, WarpglassError
from kernels.run import workers

MOST_NAMES = 10_000  # of bundles that this process knows without looking at the disk
FORGIVEN = 2.0  # seconds for which a failure is the answer to all who ask; then it is tried again
WAITS = 3.0  # seconds after which who has not asked again does not wait any more


@dataclass(frozen=True)
class Waiting:
    """A bundle that is being made. running: by a worker, and for so many seconds; else it waits since then, and `place`
    others go before it."""

    key: str
    seconds: float
    place: int
    running: bool


@dataclass
class _Making:
    """asked: who waits for it -> when they last asked, or infinity while a question of theirs is open; "" is the server
    itself, which waits until it is made. tell: called when it is made, for questions that wait now."""

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
    story: Story, what: Any, backend: str, device: str, part: str = "", again: bool = False, who: str = ""
) -> str | Waiting:
    """The name of the bundle of a story's stage, or of a part of it; a Waiting while it is made. WarpglassError says
    why it could not be. again: a failure of a moment ago is no answer. who: a page that asks; it waits as long as it
    asks again within WAITS. The server itself ("") waits until the end."""
    key = keys.key_of(story.path, part, what, device)
    with _lock:
        if name := _known(key):
            return name
        task = _making.get(key)
        if task and task.failed and not again and time.monotonic() - task.began < FORGIVEN:
            raise task.failed
        if not task or task.failed:
            label = f"{story.title}{': ' + part if part else ''}"
            make = making.make_and_send if workers.elsewhere() else making.make
            job = workers.submit(
                make, story.path, part, what, key, keys.seen(), backend=backend, title=label, client=_client(who)
            )
            task = _making[key] = _Making(job, story.title, time.monotonic())
            job.when_done(functools.partial(_end, key, task))
            job.when_done(lambda: [tell() for tell in list(task.tell)])
        if not task.job.done():
            if who not in task.asked:
                task.job.join(_client(who))
            task.asked[who] = math.inf if who == "" else time.monotonic()
            _watching()
            running = task.job.seconds()
            waited = time.monotonic() - task.began if running is None else running
            return Waiting(key, waited, task.job.ahead(), running is not None)
    _end(key, task)
    if task.failed:
        raise task.failed
    return _names[key][0]


def _end(key: str, task: _Making) -> None:
    """Takes what a job that has ended gave: the names, or why there are none, which is forgotten soon."""
    with _lock:
        if task.failed or _making.get(key) is not task:
            return
        for old in [k for k, m in _making.items() if m.failed and time.monotonic() - m.began > FORGIVEN]:
            del _making[old]
        try:
            _names[key] = _taken(key, task.job.result(timeout=0))
            del _making[key]
        except Exception as error:
            task.failed, task.began = _told(error, task.title), time.monotonic()


def _taken(key: str, made: object) -> list[str]:
    """The names that a worker sent, or of the bytes that it sent. RunError for another answer, which a kernel may have
    written."""
    sent = made if isinstance(made, tuple) and len(made) == 2 else None
    names, files = sent or (made, [])
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name.isalnum() for name in names):
        raise RunError(f"The worker sent {made!r:.60} in place of a bundle. Run it again.")
    if not isinstance(files, list) or not all(isinstance(data, bytes) for data in files):
        raise RunError("The worker sent files that are no bytes. Run it again.")
    return making.keep_sent(key, names, files) if sent else names


async def settled(key: str, seconds: float, who: str = "") -> None:
    """Waits until what is being made under that key is made, or has failed; at most so long. Meanwhile `who` counts as
    one who waits for it."""
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


def stop(key: str, who: str = "") -> None:
    """Stops what is being made under that key, unless others than `who` wait for it too; who stopped it is told so."""
    if job := _left(key, who):
        job.cancel()


def drop(key: str, who: str) -> None:
    """`who` asks for something else now: as stop, but nobody is told; who asks for it again has it made anew."""
    if job := _left(key, who, forget=True):
        job.cancel()


def _left(key: str, who: str, forget: bool = False) -> workers.Job | None:
    """The job that nobody waits for now that `who` does not; None if others do, or if there is none."""
    with _lock:
        task = _making.get(key)
        if not task or task.failed:
            return None
        task.asked.pop(who, None)
        if _client(who) not in map(_client, task.asked):
            task.job.leave(_client(who))
        if _wanted(task):
            return None
        if forget:
            del _making[key]
    return task.job


def _client(who: str) -> str:
    """Who takes turns in the queue: all pages of a browser together (browsers.page_of)."""
    return who.partition("/")[0]


def _wanted(task: _Making) -> bool:
    return any(time.monotonic() - asked < WAITS for asked in list(task.asked.values()))  # a question may come now


def _watching() -> None:
    global _watch
    if not _watch or not _watch.is_alive():
        _watch = threading.Thread(target=_drop_silent, daemon=True)
        _watch.start()


def _drop_silent() -> None:
    """Drops who has not asked for WAITS seconds, their page being gone, and stops what nobody else waits for."""
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
                for who, asked in list(task.asked.items())
                if time.monotonic() - asked >= WAITS
            ]
            left = [_left(key, who, forget=True) for key, who in silent]
        for job in filter(None, left):
            job.cancel()


def forget() -> None:
    """What this process knows of the cache; for tests."""
    with _lock:
        _names.clear()
        _making.clear()


def _told(error: Exception, title: str) -> WarpglassError:
    """The error as a user is told it; a fault of ours is told as one, and stands in the server's log."""
    if isinstance(error, WarpglassError):
        return error
    traceback.print_exception(error)
    said = f"{title} could not be made: {type(error).__name__}: {error}"
    return RunError(f"{said}. {FAULT}")


def _known(key: str) -> str | None:
    """The bundle's name, if it is kept whole: it, and the files that it offers."""
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
