"""Makes bundles in a worker: a story's stage or one of its tabs becomes bytes, named by their content."""

import contextlib
import functools
import hashlib
import json
import threading
import time
from dataclasses import fields, is_dataclass
from importlib import metadata
from pathlib import Path

from app.store import disk
from app.stories import STORIES
from explainers.story import encoding
from kernels.build import cpp_compiler
from kernels.catalog import current, folders
from kernels.core.remembered import recordings_changed
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import WarpglassError

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT / "kernels" / "recordings" / "data"
LOOKED_AGAIN = 5.0  # seconds


def key_of(*parts: object) -> str:
    """The key of a bundle, from everything that can change its content."""
    # the version changes with the code, with the text of any kernel, and with the recordings
    version = f"{_code()} {current().fingerprint} {_recorded(int(time.monotonic() / LOOKED_AGAIN))}"
    text = json.dumps([version, _identity(parts)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _identity(value: object) -> object:
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


@functools.cache
def _code() -> str:
    """A hash of our code and words, of the user's families and of the installed packages."""
    digest = hashlib.sha256()
    for folder in (*(ROOT / part for part in ("app", "explainers", "kernels")), *folders()):
        for path in sorted(path for kind in ("py", "toml") for path in folder.rglob(f"*.{kind}")):
            digest.update(path.read_bytes())
    packages, compiler = sorted({(d.name, d.version) for d in metadata.distributions()}), ""
    with contextlib.suppress(WarpglassError, OSError):
        path = Path(cpp_compiler()[0]).resolve()  # its version would need a process, which may hang
        compiler = f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}"
    return hashlib.sha256(f"{digest.hexdigest()} {packages} {compiler}".encode()).hexdigest()[:16]


@functools.lru_cache(maxsize=1)
def _recorded(_: int) -> str:
    """A hash of the name, size and time of every recording. It is renewed after LOOKED_AGAIN seconds."""
    said = []
    for path in sorted(RECORDINGS.rglob("*")):
        with contextlib.suppress(OSError):  # it went just now
            found = path.stat()
            said.append((str(path), found.st_size, found.st_mtime_ns))
    return look_again(hashlib.sha256(repr(said).encode()).hexdigest()[:16])


_seen = ""


def look_again(recorded: str) -> str:
    """Forgets this process's recordings, if the files changed."""
    global _seen
    if _seen not in ("", recorded):
        recordings_changed()
    _seen = recorded
    return recorded


def seen() -> str:
    """The state of the recordings that this process saw last."""
    return _seen


PRUNES = 60.0  # seconds between two checks of the store's size


def make(path: str, part: str, subject: object, key: str, recorded: str) -> list[str]:
    """Makes a bundle and stores it. Returns its name and the names of its files.

    recorded: the state of the recordings in the server."""
    look_again(recorded)
    story = STORIES[path]
    disk.offered.clear()
    content = story.parts[part](subject) if part else story.make(subject)
    names = [disk.keep(disk.pack(encoding.encode(content))), *disk.offered]
    disk.note(key, names)
    _prune()
    return names


_pruned = 0.0  # when this process did it last


def _prune() -> None:
    global _pruned
    if time.monotonic() - _pruned > PRUNES:
        _pruned = time.monotonic()
        disk.prune()


def make_and_send(path: str, part: str, subject: object, key: str, recorded: str) -> tuple[list[str], list[bytes]]:
    """Makes a bundle on a host with its own cache folder. Returns the names and the bytes."""
    names = make(path, part, subject, key, recorded)
    return names, [data for data in map(disk.read, names) if data is not None]


def keep_sent(key: str, names: list[str], files: list[bytes]) -> list[str]:
    """Stores the bytes from another host and returns their names. It runs in the server, in the thread of the job."""
    for data in files:
        disk.keep(data)
    disk.note(key, names)
    threading.Thread(target=_prune, daemon=True).start()
    return names
