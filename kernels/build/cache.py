"""The build cache: a folder per content, named by a hash. An entry that is cut short, changed or unreadable is made
again."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

MANIFEST = "build.json"


def cache_folder() -> Path:
    """$WARPGLASS_CACHE, or warpglass in the user's cache folder."""
    if os.environ.get("WARPGLASS_CACHE"):
        return Path(os.environ["WARPGLASS_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "warpglass"


def key_of(*texts: str) -> str:
    """32 hex digits that change with any of the texts."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:32]


def get(key: str, product: str, make: Callable[[Path], dict[str, Any]]) -> tuple[Path, dict[str, Any]]:
    """(folder, facts) of an entry: from the cache if it is whole, else made. make(folder) writes the file `product`
    and returns facts in JSON's types; what it raises leaves nothing behind."""
    folder = cache_folder() / key
    held = _whole(folder, product)
    if held is not None:
        return folder, held
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=folder.parent, prefix="making-"))
    try:
        facts = make(work)
        (work / MANIFEST).write_text(json.dumps({"facts": facts, "sha256": _digests(work)}))
        _put(work, folder, product)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder, facts


def _put(work: Path, folder: Path, product: str) -> None:
    """Moves a new entry into place. Where another process made it first, and whole, theirs stays."""
    for _ in range(2):
        try:
            os.rename(work, folder)
            return
        except OSError:
            if _whole(folder, product) is not None:
                return
            shutil.rmtree(folder, ignore_errors=True)
    raise OSError(f"{folder} cannot be replaced. Remove it, or set WARPGLASS_CACHE to another folder.")


def _whole(folder: Path, product: str) -> dict[str, Any] | None:
    """The facts of an entry whose files are as they were written; else None."""
    try:
        stamp = tuple((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(folder.iterdir()))
    except OSError:
        return None
    return _read(folder, product, stamp)


@lru_cache(maxsize=1024)
def _read(folder: Path, product: str, stamp: tuple) -> dict[str, Any] | None:
    """As _whole; `stamp` says names, sizes and times of the files, so that what did not change is not read again."""
    try:
        held = json.loads((folder / MANIFEST).read_text())
        if product in held["sha256"] and held["sha256"] == _digests(folder):
            return held["facts"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _digests(folder: Path) -> dict[str, str]:
    """File name -> SHA-256, of every file of an entry but its manifest."""
    files = sorted(path for path in folder.iterdir() if path.name != MANIFEST)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
