"""Drafts: texts from the page, each a .cu in a private folder of its own, under a name of its content."""

import hashlib
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from kernels.build import folders
from kernels.catalog import Catalog, load_kernel
from kernels.errors import WarpglassError
from kernels.jail import setting

KEPT = 256  # drafts on disk; the oldest go first
_NAME = re.compile(r"draft_[0-9a-f]{12}")


def name_of(text: str) -> str:
    """The name of a draft: a hash of its text."""
    return f"draft_{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def keep(text: str) -> Path:
    """The file of a text. Raises CacheError without room on the disk."""
    name = name_of(text)

    def put(folder: Path) -> Path:
        own = folder / setting.DRAFTS / name
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        (own / f"{name}.cu").write_text(text)
        return own / f"{name}.cu"

    path = folders.write(put)
    _prune(path.parents[1])
    return path


def with_drafts(found: Catalog, texts: Iterable[str]) -> Catalog:
    """The catalogue, with the drafts that a link names. A draft that is gone or refused is left out."""
    named = frozenset(text for text in texts if _NAME.fullmatch(text))
    return _joined(found, named) if named and not setting.why_no_workbench() else found


@lru_cache(maxsize=8)  # pages keep their choices for each catalogue
def _joined(found: Catalog, named: frozenset[str]) -> Catalog:
    kernels = dict(found.kernels)
    for name in sorted(named):
        for folder in folders.readable():
            with suppress(WarpglassError):
                kernels[name] = load_kernel(folder / setting.DRAFTS / name / f"{name}.cu")
                break
    return Catalog(kernels, found.faults, found.families, found.stamps)


def _prune(folder: Path) -> None:
    ages = []
    for draft in folder.iterdir():
        with suppress(OSError):  # another process may remove it now
            ages.append((draft.stat().st_mtime, draft))
    for _, draft in sorted(ages)[:-KEPT]:
        shutil.rmtree(draft, ignore_errors=True)
