"""The folders in which builds and bundles are kept: the user's cache, and a spare one where that cannot be used.

The cache is private. A library in it is loaded and run, so what is read must have been written by this user: the
folder is made 0700, and one that belongs to another user, or into which others can write, is neither read nor written.

The spare is a temporary folder of one server and its workers (they are handed its name), for when the cache is not
private or cannot be written: a read-only or full disk, a file in its place. It is removed when the server ends.
"""

import errno
import functools
import os
import pwd
import secrets
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from kernels.errors import CacheError

T = TypeVar("T")
SPARE = "WARPGLASS_SPARE"  # in a worker's environment: its server's spare folder
NOBODY = 65534  # as whom a container without root sees root
REMEDY = "or set WARPGLASS_CACHE to another folder"
OVER = 60.0  # seconds: a disk that is nearly full takes what is small
_NOTICE = "notice"  # in the spare: why it is used

_removers: list[subprocess.Popen] = []


def cache_folder() -> Path:
    """$WARPGLASS_CACHE, or warpglass in the user's cache folder, whether it can be used or not."""
    if os.environ.get("WARPGLASS_CACHE"):
        return Path(os.environ["WARPGLASS_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "warpglass"


def readable() -> list[Path]:
    """The folders to look in, the cache first: those that are there and private, links followed."""
    found = []
    for name in (cache_folder, spare):
        try:
            found.append(_private(name()))
        except NotPrivate as error:
            _tell(f"{error}: nothing is read from it.")
        except OSError:
            continue
    return found


def write(put: Callable[[Path], T]) -> T:
    """put(folder) in the cache, or where that raises OSError, in the spare. CacheError, with what to do, if it cannot
    be done in either."""
    faults = []
    for name in (cache_folder, spare):
        try:
            os.makedirs(name(), 0o700, exist_ok=True)
            done = put(_private(name()))
        except OSError as error:
            faults.append(_said(error, name))
            continue
        _notice(faults)
        return done
    raise CacheError(f"Nothing can be kept on disk: {' '.join(faults)}")


def notice() -> str:
    """Why the spare is used in place of the cache, in a sentence; empty where it is not."""
    with suppress(OSError):
        return (_private(spare()) / _NOTICE).read_text()
    return ""


# ---- what is private ----


class NotPrivate(PermissionError):
    """A folder into which others may have written; its text says why."""


def _private(folder: Path) -> Path:
    """The folder, links followed, if it is this user's alone. NotPrivate; OSError if it is not there."""
    folder, user = Path(os.path.realpath(folder, strict=True)), os.geteuid()
    found = folder.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    if found.st_uid != user:
        raise NotPrivate(f"{folder} belongs to {_name_of(found.st_uid)}, not to {_name_of(user)}")
    if found.st_mode & 0o022:
        raise NotPrivate(f"{folder} can be written by others (mode {stat.S_IMODE(found.st_mode):o})")
    if is_spare(folder):
        return folder  # as safe as any temporary file
    for above in folder.parents:  # who can rename one of these can put a folder of their own in our place
        held = above.stat()
        if held.st_uid not in (0, NOBODY, user):
            raise NotPrivate(f"{folder} lies in {above}, which belongs to {_name_of(held.st_uid)}")
        others = held.st_mode & 0o002 or (held.st_mode & 0o020 and held.st_gid not in (0, os.getegid()))
        if others and not held.st_mode & stat.S_ISVTX:
            raise NotPrivate(f"{folder} lies in {above}, which can be written by others")
    return folder


# ---- the spare ----


def spare() -> Path:
    """The name of the spare folder. OSError if there is no place for temporary files."""
    return Path(os.environ[SPARE]) if os.environ.get(SPARE) else _own()


def is_spare(folder: Path) -> bool:
    """Whether that folder, links followed, is the spare."""
    with suppress(OSError):
        return folder == spare().resolve()
    return False


def handed_down() -> dict[str, str]:
    """What the environment of this process's workers says, so that they use the same spare."""
    with suppress(OSError):
        return {SPARE: str(spare())}
    return {}


@functools.cache
def _own() -> Path:
    """A new name, and a process that removes what lies there when this one has ended, however it did."""
    folder = Path(tempfile.gettempdir(), f"warpglass-{os.geteuid()}-{secrets.token_hex(8)}")
    wait = ["/bin/sh", "-c", 'read -r _; rm -rf -- "$1"', "sh", str(folder)]  # reads the end of a pipe that we hold
    with suppress(OSError):
        _removers.append(subprocess.Popen(wait, stdin=subprocess.PIPE, cwd="/", start_new_session=True))
    return folder


# ---- what is told ----


def _notice(faults: list[str]) -> None:
    """Keeps, beside what is in the spare, why it is there; until, for a while, all went to the cache again."""
    with suppress(OSError):
        place = spare() / _NOTICE
        if not faults:
            if time.time() - place.stat().st_mtime > OVER:
                place.unlink()
            return
        said = f"{faults[0]} For now what is made is kept in {place.parent}, which is removed when Warpglass ends."
        _tell(said)
        place.write_text(said)


@functools.cache
def _tell(sentence: str) -> None:
    """Once, in the server's log."""
    print(sentence, file=sys.stderr, flush=True)


def _said(error: OSError, name: Callable[[], Path]) -> str:
    """What is wrong with a folder, and what to do."""
    try:
        folder = name()
    except OSError:
        return f"There is no place for temporary files: {error.strerror}. Set TMPDIR to a folder."
    if isinstance(error, NotPrivate):
        return f"{error}: remove it, {REMEDY}."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{folder} has no space left: free some, {REMEDY}."
    if error.errno == errno.EROFS:
        return f"{folder} is on a read-only file system: make it writable, {REMEDY}."
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{folder} may not be written by {_name_of(os.geteuid())}: give it to that user, {REMEDY}."
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return f"{folder} cannot be made, as a file is in its place: remove that, {REMEDY}."
    return f"{folder} cannot be used ({error.strerror or error}): mend that, {REMEDY}."


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
