"""Makes bundles in a worker: a story's stage or one of its tabs becomes bytes, named by their content."""

import threading
import time

from app.store import disk
from app.stories import STORIES
from app.web import keys
from explainers.story import encoding

PRUNES = 60.0  # seconds between two checks of the store's size


def make(path: str, part: str, subject: object, key: str, recorded: str) -> list[str]:
    """Makes a bundle and stores it. Returns its name and the names of its files.

    recorded: the state of the recordings in the server.
    """
    keys.look_again(recorded)
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
