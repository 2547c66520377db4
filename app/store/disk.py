"""The store of bundles: immutable bytes on disk, named by the SHA-256 of their content, and notes of the names for each
key.

Each read checks the bytes and the notes. Damaged files count as missing. All processes of a user share one folder in
the cache, with a limit in bytes. The least recently used files go first. If the cache is not private or is read-only,
the server's spare folder replaces it (kernels/build/folders.py)."""

import gzip
import hashlib
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from kernels.build import folders

KEPT_BYTES = 2**30
SPARE_BYTES = 2**28  # in the spare folder, which can be in memory
BLOCK = 4096  # bytes that the smallest file takes
FOLDER, NOTES = "bundles", "of"

_damaged: set[Path] = set()  # damaged files on a read-only disk, which cannot be removed


def pack(data: bytes) -> bytes:
    """Packs bytes with gzip for browsers. Equal bytes give equal results."""
    return gzip.compress(data, 6, mtime=0)


def keep(data: bytes) -> str:
    """Stores bytes and returns their name. Raises CacheError if no folder has room."""
    name = _name_of(data)
    folders.write(lambda folder: write_whole(folder / FOLDER / name, data))
    return name


def read(name: str) -> bytes | None:
    """The bytes of a name; None if they are missing or damaged."""
    for path in _paths(name):
        try:
            if not path.is_file():  # a pipe would never answer
                continue
            data = path.read_bytes()
        except OSError:
            continue
        if _name_of(data) == name:
            _touch(path)
            return data
        _drop(path)
    return None


def note(key: str, names: list[str]) -> None:
    """Stores the names of the bytes for a key. Raises CacheError."""
    text = " ".join([*names, _check(key, names)]).encode()
    folders.write(lambda folder: write_whole(folder / FOLDER / NOTES / key, text))


def noted(key: str) -> list[str] | None:
    """The names for a key, if the store has all their bytes; else None."""
    for folder in _folders():
        try:
            *names, check = (folder / NOTES / key).read_text().split()
        except (OSError, ValueError):
            continue
        if check == _check(key, names) and use(key, names):
            return names
    return None


def use(key: str, names: list[str]) -> bool:
    """Whether the store has all these names. If so, marks them and the note of their key as used."""
    places = [next((path for path in _paths(name) if path.is_file()), None) for name in names]
    found = [path for path in places if path]
    if len(found) < len(names):
        return False
    for path in (*found, *(folder / NOTES / key for folder in _folders())):
        _touch(path)
    return True


def prune() -> None:
    """Removes the least recently used files until the rest fits. Notes count too."""
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


# ---- the files that a bundle offers for download: kept while a worker makes the bundle, and named with it ----

offered: list[str] = []  # names of the files of the bundle that this process makes


def offer_file(data: bytes, file: str) -> str:
    """Keeps a file for download. Returns its address below the app's own address."""
    offered.append(keep(data))
    return f"/wg/file/{offered[-1]}/{file}"


# ---- files ----


def _folders() -> list[Path]:
    return [folder / FOLDER for folder in folders.readable()]


def _paths(name: str) -> list[Path]:
    """The possible paths of a name. A text that is no name has none."""
    if not name.isalnum():
        return []
    return [path for path in (folder / name for folder in _folders()) if path not in _damaged]


def _name_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _check(key: str, names: list[str]) -> str:
    """A check sum of a note and its key."""
    return _name_of(" ".join([key, *names]).encode())[:16]


def _touch(path: Path) -> None:
    with suppress(OSError):  # it went just now, or the disk is read-only
        os.utime(path)


def _drop(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        _damaged.add(path)


def write_whole(path: Path, data: bytes) -> None:
    """Writes the whole file or nothing. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        if path.is_dir() and not path.is_symlink():  # something else made it. A bundle of that name needs its place
            shutil.rmtree(path)
        Path(temporary).replace(path)
    except OSError:
        with suppress(OSError):
            Path(temporary).unlink()
        raise
    _damaged.discard(path)
