"""The build cache: a folder for each content, with a hash as its name.

A damaged, changed, unreadable or foreign entry is built again. folders.py chooses the place of the cache. The entries
of strangers have a limit in bytes. The least recently used go first.
"""

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
MAKING = "making-"  # the prefix of unfinished folders
ABANDONED = 3600.0  # seconds
STRANGERS = "stranger-"  # the prefix of the key of a stranger's build
STRANGERS_BYTES = 2**28
USED_S = 600.0  # seconds between two notes of an entry's use. After a note, the entry is read again
_seconds = 0.0


def seconds_making() -> float:
    return _seconds


def key_of(*texts: str) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:32]


def get(key: str, product: str, make: Callable[[Path], dict[str, Any]]) -> tuple[Path, dict[str, Any]]:
    """(folder, facts) of an entry, from the cache or new.

    make: make(folder) writes the product and returns facts in JSON's types. After an error nothing stays. After an
        OSError, as on a full disk, it runs again with another folder.
    Raises CacheError if no folder can be written."""
    for folder in folders.readable():
        held = _whole(folder / key, product)
        if held is not None:
            entry = folder / key
            with contextlib.suppress(OSError):  # it went just now, or the disk is read-only
                if entry.name.startswith(STRANGERS) and time.time() - entry.stat().st_mtime > USED_S:
                    os.utime(entry)
            return folder / key, held
    return folders.write(lambda folder: _new(folder / key, product, make))


def _prune(folder: Path) -> None:
    """Removes the least recently used entries of strangers until the rest fits."""
    kept = []
    for entry in folder.glob(f"{STRANGERS}*"):
        with contextlib.suppress(OSError):  # another process prunes as well
            kept.append((entry.stat().st_mtime, sum(path.stat().st_size for path in entry.iterdir()), entry))
    too_much = sum(size for _, size, _ in kept) - STRANGERS_BYTES
    for _, size, entry in sorted(kept):
        if too_much <= 0:
            break
        _remove(entry)
        too_much -= size


def _new(folder: Path, product: str, make: Callable[[Path], dict[str, Any]]) -> tuple[Path, dict[str, Any]]:
    for unfinished in folder.parent.glob(f"{MAKING}*"):  # of killed processes
        with contextlib.suppress(OSError):  # another process removed it
            if time.time() - unfinished.stat().st_mtime > ABANDONED:
                _remove(unfinished)
    work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=MAKING))
    try:
        global _seconds
        start = time.monotonic()
        facts = make(work)
        _seconds += time.monotonic() - start
        entry = {"facts": facts, "sha256": _digests(work)}
        (work / MANIFEST).write_text(json.dumps({"entry": entry, "sha256": _digest_of(entry)}))
        _put(work, folder, product)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if folder.name.startswith(STRANGERS):
        _prune(folder.parent)
    return folder, facts


def _put(work: Path, folder: Path, product: str) -> None:
    """Moves a new entry into place. A whole entry of a faster process stays."""
    for _ in range(2):
        try:
            work.rename(folder)
            return
        except OSError as error:
            if _whole(folder, product) is not None:
                return
            failed = error
            _remove(folder)
    raise failed


def _remove(folder: Path) -> None:
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
    else:
        folder.unlink(missing_ok=True)


def _whole(folder: Path, product: str) -> dict[str, Any] | None:
    """The facts of an unchanged entry of this user, else None."""
    try:
        found = [(path.name, path.lstat()) for path in (folder, *sorted(folder.iterdir()))]
    except OSError:
        return None
    if any(s.st_uid != os.geteuid() or stat.S_ISLNK(s.st_mode) for _, s in found):
        return None
    stamp = tuple((name, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for name, s in found)
    return _read(folder, product, stamp)


@lru_cache(maxsize=1024)
def _read(folder: Path, product: str, stamp: tuple[object, ...]) -> dict[str, Any] | None:
    """Reads an entry for _whole. stamp: names, sizes and times of the files. Only a changed entry is read again."""
    try:
        held = json.loads((folder / MANIFEST).read_text())
        entry = held["entry"]
        digests = entry["sha256"]
        if held["sha256"] == _digest_of(entry) and product in digests and digests == _digests(folder):
            return entry["facts"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def _digests(folder: Path) -> dict[str, str]:
    """File name -> SHA-256, for each file of an entry except its manifest."""
    files = sorted(path for path in folder.iterdir() if path.name != MANIFEST)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _digest_of(entry: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()
