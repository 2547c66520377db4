"""What stages show, made once in a worker and kept as immutable bytes, named by their content.

`get` answers with a bundle's name, or with a Waiting, or raises why there is none. Equal requests are made once,
whoever asks. They are kept on disk (store.py), so that another server finds them; one that is harmed is made again.
"""

import asyncio
import contextlib
import functools
import hashlib
import json
import math
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from app import store
from app.story import Story
from explainers import stage
from kernels import families
from kernels.build.cpp import Toolchain
from kernels.core.remembered import recordings_changed
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import FAULT, RunError, WarpglassError
from kernels.run import workers

ROOT = Path(__file__).parents[1]
RECORDINGS = ROOT / "kernels" / "recordings"
MOST_NAMES = 10_000  # of bundles that this process knows without looking at the disk
FORGIVEN = 2.0  # seconds for which a failure is the answer to all who ask; then it is tried again
WAITS = 3.0  # seconds after which who has not asked again does not wait any more
LOOKED_AGAIN = 5.0  # seconds
PRUNES = 60.0  # seconds between two looks at how much is kept


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
    key = key_of(story.path, part, what, device)
    with _lock:
        if name := _known(key):
            return name
        making = _making.get(key)
        if making and making.failed and not again and time.monotonic() - making.began < FORGIVEN:
            raise making.failed
        if not making or making.failed:
            label = f"{story.title}{': ' + part if part else ''}"
            make = _make_and_send if workers.elsewhere() else _make
            job = workers.submit(
                make, story.path, part, what, key, _seen, backend=backend, what=label, client=_client(who)
            )
            making = _making[key] = _Making(job, story.title, time.monotonic())
            job.when_done(functools.partial(_end, key, making))
            job.when_done(lambda: [tell() for tell in list(making.tell)])
        if not making.job.done():
            if who not in making.asked:
                making.job.join(_client(who))
            making.asked[who] = math.inf if who == "" else time.monotonic()
            _watching()
            running = making.job.seconds()
            waited = time.monotonic() - making.began if running is None else running
            return Waiting(key, waited, making.job.ahead(), running is not None)
    _end(key, making)
    if making.failed:
        raise making.failed
    return _names[key][0]


def _end(key: str, making: _Making) -> None:
    """Takes what a job that has ended gave: the names, or why there are none, which is forgotten soon."""
    with _lock:
        if making.failed or _making.get(key) is not making:
            return
        for old in [k for k, m in _making.items() if m.failed and time.monotonic() - m.began > FORGIVEN]:
            del _making[old]
        try:
            _names[key] = _taken(key, making.job.result(timeout=0))
            del _making[key]
        except Exception as error:
            making.failed, making.began = _told(error, making.title), time.monotonic()


def _taken(key: str, made: object) -> list[str]:
    """The names that a worker sent, or of the bytes that it sent. RunError for another answer, which a kernel may have
    written."""
    sent = made if isinstance(made, tuple) and len(made) == 2 else None
    names, files = sent or (made, [])
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name.isalnum() for name in names):
        raise RunError(f"The worker sent {made!r:.60} in place of a bundle. Run it again.")
    if not isinstance(files, list) or not all(isinstance(data, bytes) for data in files):
        raise RunError("The worker sent files that are no bytes. Run it again.")
    return _keep_sent(key, names, files) if sent else names


async def settled(key: str, seconds: float, who: str = "") -> None:
    """Waits until what is being made under that key is made, or has failed; at most so long. Meanwhile `who` counts as
    one who waits for it."""
    making, loop, done = _making.get(key), asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        with contextlib.suppress(RuntimeError):  # who waited has left, with its loop
            loop.call_soon_threadsafe(done.set)

    if making and not making.job.done():
        making.asked[who] = math.inf
        making.tell.add(tell)
        if making.job.done():  # just now
            tell()
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), seconds)
        finally:
            making.tell.discard(tell)
            if who and who in making.asked:
                making.asked[who] = time.monotonic()


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
        making = _making.get(key)
        if not making or making.failed:
            return None
        making.asked.pop(who, None)
        if _client(who) not in map(_client, making.asked):
            making.job.leave(_client(who))
        if _wanted(making):
            return None
        if forget:
            del _making[key]
    return making.job


def _client(who: str) -> str:
    """Who takes turns in the queue: all pages of a browser together (browsers.page_of)."""
    return who.partition("/")[0]


def _wanted(making: _Making) -> bool:
    return any(time.monotonic() - asked < WAITS for asked in list(making.asked.values()))  # a question may come now


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
            undone = {key: making for key, making in _making.items() if not making.job.done()}
            if not undone:
                _watch = None
                return
            silent = [
                (key, who)
                for key, making in undone.items()
                for who, asked in list(making.asked.items())
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


def key_of(*parts: Any) -> str:
    """The name of what a bundle is made of: everything that can change its content."""
    said = json.dumps([_version(), _identity(parts)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(said.encode()).hexdigest()[:32]


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
    if not names or not store.use(key, names):
        names = store.noted(key)
    if not names:
        _names.pop(key, None)
        return None
    _names[key] = names
    _names.move_to_end(key)
    while len(_names) > MOST_NAMES:
        _names.popitem(last=False)
    return names[0]


def _identity(value: Any) -> Any:
    if isinstance(value, KernelSpec):
        return [value.name, _text_hash(value)]
    if isinstance(value, Request):
        scope = [value.scope.first, value.scope.count, value.scope.others]
        return [_identity(value.kernel), value.identity, scope, value.backend]
    if is_dataclass(value):
        return [type(value).__name__, *(_identity(getattr(value, f.name)) for f in fields(value))]
    if isinstance(value, (tuple, list)):
        return [_identity(v) for v in value]
    if isinstance(value, dict):
        return {str(k): _identity(v) for k, v in value.items()}
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


@functools.lru_cache(maxsize=256)
def _text_hash(spec: KernelSpec) -> str:
    return hashlib.sha256(repr(spec.files).encode()).hexdigest()[:16]


def _version() -> str:
    """Changes with what makes bundles, and with what is recorded."""
    return f"{_code()} {_recorded(int(time.monotonic() / LOOKED_AGAIN))}"


@functools.cache
def _code() -> str:
    """Changes with our code, that of the user's families, and the packages that it stands on."""
    digest = hashlib.sha256()
    for place in (*(ROOT / part for part in ("app", "explainers", "kernels")), *map(Path, families.__path__)):
        for path in sorted(place.rglob("*.py")):
            digest.update(path.read_bytes())
    packages = sorted({(d.name, d.version) for d in metadata.distributions()})
    return hashlib.sha256(f"{digest.hexdigest()} {packages} {_compiler()}".encode()).hexdigest()[:16]


def _compiler() -> str:
    with contextlib.suppress(WarpglassError):
        return Toolchain().version
    return ""


@functools.lru_cache(maxsize=1)
def _recorded(_: int) -> str:
    """Changes with every recording: their names, sizes and times; looked at again after LOOKED_AGAIN."""
    said = []
    for path in sorted(RECORDINGS.rglob("*")):
        with contextlib.suppress(OSError):  # it went just now
            found = path.stat()
            said.append((str(path), found.st_size, found.st_mtime_ns))
    return _look_again(hashlib.sha256(repr(said).encode()).hexdigest()[:16])


_seen = ""


def _look_again(recorded: str) -> str:
    """Forgets what this process has read of recordings, if they are others now."""
    global _seen
    if _seen not in ("", recorded):
        recordings_changed()
    _seen = recorded
    return recorded


# ---- in a worker ----


_files: list[str] = []  # names of those that were kept for the bundle that is being made


def keep_file(data: bytes, file: str) -> str:
    """Keeps bytes to be downloaded from the bundle that is being made; where, below the app's own address."""
    _files.append(store.keep(data))
    return f"/wg/file/{_files[-1]}/{file}"


def _make(path: str, part: str, what: Any, key: str, recorded: str) -> list[str]:
    """Makes a bundle and keeps it. Its name, and those of its files. recorded: what the server knows of it."""
    from app.stories import STORIES

    _look_again(recorded)
    story = STORIES[path]
    _files.clear()
    made = story.parts[part](what) if part else story.make(what)
    names = [store.keep(store.pack(stage.encode(made))), *_files]
    store.note(key, names)
    _prune()
    return names


_pruned = 0.0  # when this process did it last


def _prune() -> None:
    global _pruned
    if time.monotonic() - _pruned > PRUNES:
        _pruned = time.monotonic()
        store.prune()


def _make_and_send(path: str, part: str, what: Any, key: str, recorded: str) -> tuple[list[str], list[bytes]]:
    """As _make, on a host with a cache folder of its own: the bytes of what it kept come along."""
    names = _make(path, part, what, key, recorded)
    return names, [data for data in map(store.read, names) if data is not None]


def _keep_sent(key: str, names: list[str], files: list[bytes]) -> list[str]:
    """Keeps what another host has sent; its names. In the server, by the thread that heard it."""
    for data in files:
        store.keep(data)
    store.note(key, names)
    threading.Thread(target=_prune, daemon=True).start()
    return names
