"""The folders for builds and bundles: the user's cache, and a spare folder if the cache is unusable.

The cache is private, since its libraries run in this user's processes. The folder has mode 0700. A folder of another
user, or a folder that others can write, is neither read nor written.

The spare is a temporary folder of one server and its workers. It serves if the cache is not private or not writable,
for example on a read-only or full disk. It ends with the server.
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
NOBODY = 65534  # root in a container without root
REMEDY = "or set WARPGLASS_CACHE to another folder"
OVER = 60.0  # seconds: an almost full disk still takes small files
_NOTICE = "notice"  # in the spare: the reason of its use

_removers: list[subprocess.Popen[bytes]] = []


def cache_folder() -> Path:
    """$WARPGLASS_CACHE, or warpglass in the user's cache folder. It may be unusable."""
    if os.environ.get("WARPGLASS_CACHE"):
        return Path(os.environ["WARPGLASS_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "warpglass"


def readable() -> list[Path]:
    """The existing private folders, the cache first, with links followed."""
    found = []
    for name in (cache_folder, spare):
        try:
            found.append(_private(name()))
        except NotPrivate as error:
            _print_once(f"{error}: nothing is read from it.")
        except OSError:
            continue
    return found


def write(put: Callable[[Path], T]) -> T:
    """put(folder) in the cache, or after an OSError in the spare. Raises CacheError with the remedy if both fail."""
    faults = []
    for name in (cache_folder, spare):
        try:
            name().mkdir(0o700, parents=True, exist_ok=True)
            done = put(_private(name()))
        except OSError as error:
            faults.append(_fault(error, name))
            continue
        _notice(faults)
        return done
    raise CacheError(f"Warpglass cannot write to disk: {' '.join(faults)}")


def notice() -> str:
    """The reason for the spare in a sentence, or "" if the cache works."""
    with suppress(OSError):
        return (_private(spare()) / _NOTICE).read_text()
    return ""


# ---- private folders ----


class NotPrivate(PermissionError):
    """A folder that others may have written. Its text is the reason."""


def _private(folder: Path) -> Path:
    """The folder with links followed. Raises NotPrivate unless only this user can write, OSError if it is missing."""
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
    for above in folder.parents:  # with the right to rename a parent, a user could replace our folder
        held = above.stat()
        if held.st_uid not in (0, NOBODY, user):
            raise NotPrivate(f"{folder} is in {above}, a folder of {_name_of(held.st_uid)}")
        others = held.st_mode & 0o002 or (held.st_mode & 0o020 and held.st_gid not in (0, os.getegid()))
        if others and not held.st_mode & stat.S_ISVTX:
            raise NotPrivate(f"{folder} is in {above}, and others can write there")
    return folder


# ---- the spare ----


def spare() -> Path:
    """The spare folder's name. Raises OSError without a folder for temporary files."""
    return Path(os.environ[SPARE]) if os.environ.get(SPARE) else _own()


def is_spare(folder: Path) -> bool:
    """Whether the folder, with links followed, is the spare."""
    with suppress(OSError):
        return folder == spare().resolve()
    return False


def handed_down() -> dict[str, str]:
    """The variables for this process's workers, so that they use the same spare."""
    with suppress(OSError):
        return {SPARE: str(spare())}
    return {}


@functools.cache
def _own() -> Path:
    """A new name, and a process that removes the folder after the end of this process."""
    folder = Path(tempfile.gettempdir(), f"warpglass-{os.geteuid()}-{secrets.token_hex(8)}")
    wait = ["/bin/sh", "-c", 'read -r _; rm -rf -- "$1"', "sh", str(folder)]  # reads the end of our pipe
    with suppress(OSError):
        _removers.append(subprocess.Popen(wait, stdin=subprocess.PIPE, cwd="/", start_new_session=True))
    return folder


# ---- messages ----


def _notice(faults: list[str]) -> None:
    """Writes the reason into the spare. Removes it after OVER seconds without a fault."""
    with suppress(OSError):
        notice_file = spare() / _NOTICE
        if not faults:
            if time.time() - notice_file.stat().st_mtime > OVER:
                notice_file.unlink()
            return
        text = f"{faults[0]} For now new files go to {notice_file.parent}. Warpglass removes it at its end."
        _print_once(text)
        notice_file.write_text(text)


@functools.cache
def _print_once(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _fault(error: OSError, name: Callable[[], Path]) -> str:
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
        return f"{folder} cannot exist, as a file is in its place: remove that, {REMEDY}."
    return f"{folder} cannot be used ({error.strerror or error}): mend that, {REMEDY}."


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
