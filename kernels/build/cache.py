"""The build cache: a folder per content, named by a hash. An entry that is cut short, changed, unreadable or another
user's is made again; where it can be kept, folders.py says."""

import contextlib
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from kernels.build import folders

MANIFEST = "build.json"
MAKING = "making-"  # so begin the names of folders whose entry is being made
ABANDONED = 3600.0  # seconds
_seconds = 0.0


def seconds_making() -> float:
    """Seconds that this process has spent making entries: compiling."""
    return _seconds


def key_of(*texts: str) -> str:
    """32 hex digits that change with any of the texts."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:32]


def get(key: str, product: str, make: Callable[[Path], dict[str, Any]]) -> tuple[Path, dict[str, Any]]:
    """(folder, facts) of an entry: from the cache if it is whole, else made. make(folder) writes the file `product`
    and returns facts in JSON's types; what it raises leaves nothing behind, and where that is an OSError, as of a full
    disk, it is called again with another folder. CacheError if none can be written."""
    for folder in folders.readable():
        held = _whole(folder / key, product)
        if held is not None:
            return folder / key, held
    return folders.write(lambda folder: _made(folder / key, product, make))


def _made(folder: Path, product: str, make: Callable[[Path], dict[str, Any]]) -> tuple[Path, dict[str, Any]]:
    _tidy(folder.parent)
    work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=MAKING))
    try:
        global _seconds
        began = time.monotonic()
        facts = make(work)
        _seconds += time.monotonic() - began
        said = {"facts": facts, "sha256": _digests(work)}
        (work / MANIFEST).write_text(json.dumps({"entry": said, "sha256": _digest_of(said)}))
        _put(work, folder, product)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder, facts


def _tidy(folder: Path) -> None:
    """Removes what was being made by processes that were killed."""
    for work in folder.glob(f"{MAKING}*"):
        with contextlib.suppress(OSError):  # another process removed it
            if time.time() - work.stat().st_mtime > ABANDONED:
                _remove(work)


def _put(work: Path, folder: Path, product: str) -> None:
    """Moves a new entry into place. Where another process made it first, and whole, theirs stays."""
    for _ in range(2):
        try:
            os.rename(work, folder)
            return
        except OSError as error:
            if _whole(folder, product) is not None:
                return
            failed = error
            _remove(folder)
    raise failed


def _remove(folder: Path) -> None:
    """Removes what lies in an entry's place, whatever it is."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
    else:
        folder.unlink(missing_ok=True)


def _whole(folder: Path, product: str) -> dict[str, Any] | None:
    """The facts of an entry whose files are as they were written, by this user; else None."""
    try:
        found = [(path.name, path.lstat()) for path in (folder, *sorted(folder.iterdir()))]
    except OSError:
        return None
    if any(s.st_uid != os.geteuid() or stat.S_ISLNK(s.st_mode) for _, s in found):
        return None
    stamp = tuple((name, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for name, s in found)
    return _read(folder, product, stamp)


@lru_cache(maxsize=1024)
def _read(folder: Path, product: str, stamp: tuple) -> dict[str, Any] | None:
    """As _whole; `stamp` says names, sizes and times of the files, so that what did not change is not read again."""
    try:
        held = json.loads((folder / MANIFEST).read_text())
        said = held["entry"]
        if held["sha256"] == _digest_of(said) and product in said["sha256"] and said["sha256"] == _digests(folder):
            return said["facts"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def _digests(folder: Path) -> dict[str, str]:
    """File name -> SHA-256, of every file of an entry but its manifest."""
    files = sorted(path for path in folder.iterdir() if path.name != MANIFEST)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _digest_of(said: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
