"""What bundles are kept in: immutable bytes on disk, named by the SHA-256 of their content, and notes of what was made
for which key.

Bytes are checked whenever they are read, notes too: what is truncated, changed or gone is as if it had never been kept.
All processes of this user share one folder in the cache, bounded in bytes; the least recently used go first. Where the
cache is not private or cannot be written the server's spare folder takes its place (kernels/build/folders.py).
"""

import gzip
import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from kernels.build import folders

KEPT_BYTES = 2**30
SPARE_BYTES = 2**28  # in the spare, which may lie in memory
BLOCK = 4096  # bytes that the smallest file takes
FOLDER, NOTES = "bundles", "of"

_damaged: set[Path] = set()  # files that are not what they should be and cannot be removed, on a read-only disk


def pack(data: bytes) -> bytes:
    """As browsers unpack them (gzip): equal bytes are packed equally."""
    return gzip.compress(data, 6, mtime=0)


def keep(data: bytes) -> str:
    """Keeps bytes; their name. CacheError, with what to do, if there is no place for them."""
    name = _name_of(data)
    folders.write(lambda folder: write_whole(folder / FOLDER / name, data))
    return name


def read(name: str) -> bytes | None:
    """The bytes of that name; None if they are not kept (any more) or are damaged."""
    for path in _paths(name):
        try:
            data = path.read_bytes()
        except OSError:
            continue
        if _name_of(data) == name:
            _touch(path)
            return data
        _drop(path)
    return None


def note(key: str, names: list[str]) -> None:
    """Notes which bytes were made for a key. CacheError."""
    text = " ".join([*names, _check(key, names)]).encode()
    folders.write(lambda folder: write_whole(folder / FOLDER / NOTES / key, text))


def noted(key: str) -> list[str] | None:
    """The names that `note` noted for a key, if all that they name is there."""
    for folder in _folders():
        try:
            *names, check = (folder / NOTES / key).read_text().split()
        except (OSError, ValueError):
            continue
        if check == _check(key, names) and use(key, names):
            return names
    return None


def use(key: str, names: list[str]) -> bool:
    """Whether all of these are kept; if so, they were used now, and so was the note of their key."""
    places = [next((path for path in _paths(name) if path.exists()), None) for name in names]
    found = [path for path in places if path]
    if len(found) < len(names):
        return False
    for path in (*found, *(folder / NOTES / key for folder in _folders())):
        _touch(path)
    return True


def prune() -> None:
    """The least recently used go until the rest fits; notes count, too."""
    for folder in _folders():
        kept = []
        with suppress(OSError):  # the folder went just now
            for path in folder.rglob("*"):
                with suppress(FileNotFoundError):  # another process prunes as well
                    found = path.lstat()
                    if stat.S_ISREG(found.st_mode):
                        kept.append((found.st_mtime, max(found.st_size, BLOCK), path))
        too_much = sum(size for _, size, _ in kept) - (SPARE_BYTES if folders.is_spare(folder.parent) else KEPT_BYTES)
        for _, size, path in sorted(kept):
            if too_much <= 0:
                break
            _drop(path)
            too_much -= size


def _folders() -> list[Path]:
    return [folder / FOLDER for folder in folders.readable()]


def _paths(name: str) -> list[Path]:
    """Where bytes of that name may lie. What is no name leads nowhere."""
    if not name.isalnum():
        return []
    return [path for path in (folder / name for folder in _folders()) if path not in _damaged]


def _name_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _check(key: str, names: list[str]) -> str:
    """What shows that a note is of that key, and whole."""
    return _name_of(" ".join([key, *names]).encode())[:16]


def _touch(path: Path) -> None:
    """It was used; what was not goes first."""
    with suppress(OSError):  # it went just now, or the disk is read-only
        os.utime(path)


def _drop(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        _damaged.add(path)


def write_whole(path: Path, data: bytes) -> None:
    """All of it or nothing. OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).replace(path)
    except OSError:
        with suppress(OSError):
            Path(temporary).unlink()
        raise
    _damaged.discard(path)
