"""Drafts: texts from the page, each a .cu in a private folder of its own, under a name that nobody can guess.

The author may share the name: a link with it opens the draft for everybody, also after a restart of the server.

A worker reads each draft first. If the worker takes READ_SECONDS at most, the draft is admitted. The web process reads
only admitted drafts.
"""

import hmac
import re
import secrets
import shutil
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from kernels.build import folders
from kernels.catalog import Catalog, load_kernel
from kernels.core.cases import sample
from kernels.core.spec import KernelSpec
from kernels.errors import FrontMatterError, ProblemError, WarpglassError
from kernels.jail import setting
from kernels.trace.probes import sites

KEPT = 256  # drafts on disk
MOST_LINE = 2000  # characters of a line. Our longest has 145
READ_SECONDS = 0.25  # of CPU time to read a draft and to find its pages. Our kernels take 0.02
_ADMITTED = "admitted"  # the file next to an admitted draft
_NAME = re.compile(r"draft_[0-9a-f]{40}")  # 8 digits of its browser, and 32 of its browser and text
BROWSER = len("draft_") + 8  # letters of a name that are equal for all drafts of a browser
_key = secrets.token_bytes(32)  # a new server gives new names, and the drafts keep their old ones


def name_of(text: str, browser: str) -> str:
    """The name of a browser's draft. Only the web process knows the key: a name does not tell whether a text exists."""
    own, whole = (hmac.digest(_key, part.encode(), "sha256").hex() for part in (browser, f"{browser}\0{text}"))
    return f"draft_{own[:8]}{whole[:32]}"


def keep(text: str, name: str) -> Path:
    """The file of a text. name: see name_of. Raises CacheError without room on the disk."""

    def put(folder: Path) -> Path:
        own = folder / setting.DRAFTS / name
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        (own / f"{name}.cu").write_text(text)
        return own / f"{name}.cu"

    path = folders.write(put)
    _prune(path.parents[1])
    return path


def check_lines(text: str) -> None:
    """Raises ProblemError for a line with more than MOST_LINE characters."""
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MOST_LINE:
            raise ProblemError(
                f"Line {number} has {len(line):,} characters. The server reads at most {MOST_LINE:,}. Break the line."
            )


def read(path: Path) -> KernelSpec:
    """The kernel of a draft, for a worker. Raises WarpglassError, also if the web process could not read it quickly."""
    began = time.thread_time()
    kernel = load_kernel(path)
    with suppress(ProblemError):  # the check reports a problem that cannot be
        shown = sample(kernel)
        kernel.plan(shown.problem, shown.settings)
        sites(kernel, {**shown.problem.defines, **kernel.settings(shown.settings)})
    if (seconds := time.thread_time() - began) > READ_SECONDS:
        raise FrontMatterError(
            f"{path.name}: the server took {seconds:.1f} s to read this text, and it allows {READ_SECONDS:g} s. "
            "Shorten the opening comment and the lines with probes."
        )
    return kernel


def admit(path: Path) -> None:
    """Lets pages show a draft that a worker has read."""
    with suppress(OSError):  # the draft is gone
        (path.parent / _ADMITTED).touch()


def with_drafts(found: Catalog, texts: Iterable[str]) -> Catalog:
    """The catalogue, with the drafts that a link names. A draft that is gone or not admitted is left out."""
    named = frozenset(file for text in texts if _NAME.fullmatch(text) for file in _admitted(text))
    return _joined(found, named) if named and not setting.why_no_workbench() else found


def _admitted(name: str) -> list[Path]:
    places = [folder / setting.DRAFTS / name for folder in folders.readable()]
    return [own / f"{name}.cu" for own in places if (own / _ADMITTED).is_file()][:1]


@lru_cache(maxsize=8)  # pages keep their choices for each catalogue
def _joined(found: Catalog, named: frozenset[Path]) -> Catalog:
    kernels = dict(found.kernels)
    for path in sorted(named):
        with suppress(WarpglassError):
            kernels[path.stem] = load_kernel(path)
    return Catalog(kernels, found.faults, found.families, found.stamps)


def _prune(folder: Path) -> None:
    """Removes drafts over KEPT: the oldest one of the browser with most drafts, again and again."""
    drafts = defaultdict[str, list[tuple[float, Path]]](list)  # begin of a name, which is its browser's -> its drafts
    for own in folder.iterdir():
        with suppress(OSError):  # another process may remove it now
            drafts[own.name[:BROWSER]].append(((own / f"{own.name}.cu").stat().st_mtime, own))
    for _ in range(sum(map(len, drafts.values())) - KEPT):
        held = [(len(one), -min(one)[0], name) for name, one in drafts.items() if one]
        browser = max(held)[-1]  # of two with equally many, the one with the oldest draft
        oldest = min(drafts[browser])
        drafts[browser].remove(oldest)
        shutil.rmtree(oldest[1], ignore_errors=True)
