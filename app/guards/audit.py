"""The audit log: a line of JSON for each event that a person in charge may ask about later.

    wrong_password       a failed try of the password
    wrong_room_secret    a failed try to open a room
    wrong_room           a failed try of a room's code, or of its leader's secret
    room_opened          the begin of a class
    jailed_run           a draft in the jail. draft: its name, which opens it
    refused_text         a text that no compiler saw. reason: closed, long, line, encoding or comment
    refused_host         a request under a foreign name. host: this name

Each line has `time` (UTC), `event`, `address` and `browser`, a short hash of the id in its cookie. No line has a
secret, a room's code, a cookie or a text. The lines go to the logger `warpglass.audit`, and to the file of VARIABLE.
logrotate may rename the file: the next line starts a new file.
"""

import hashlib
import json
import logging
import os
import sys
import threading
import time
import traceback
from collections import OrderedDict
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler

from kernels.errors import ProblemError

VARIABLE = "WARPGLASS_AUDIT_LOG"
LOGGER = logging.getLogger("warpglass.audit")
MOST, SPAN = 60, 60.0  # lines of an address, and their seconds. The next line counts the missing ones
MOST_ADDRESSES = 4096
LONGEST = 100  # characters of a host
_lines: OrderedDict[str, tuple[float, int]] = OrderedDict()  # address -> start of its span, number of events in it
_lock = threading.Lock()


def start() -> None:
    """Opens the file of VARIABLE, if set. Raises ProblemError for a file that it cannot write."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        handler = WatchedFileHandler(path, encoding="utf-8")
    except OSError as error:
        raise ProblemError(f"{VARIABLE} is {path!r:.200}, and no log can be written there: {error}.") from None
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False  # the file has each line once, and the terminal none


def note(event: str, page: str, **facts: str) -> None:
    """Writes an event.

    page: ADDRESS BROWSER, or ADDRESS BROWSER/NAME (browsers.page_of).
    facts: more fields, without a secret and without a text of a user."""
    if not LOGGER.isEnabledFor(logging.INFO):
        return
    address, _, browser = page.partition("/")[0].partition(" ")
    now = time.monotonic()
    with _lock:
        begin, count = _lines.get(address, (now, 0))
        left_out = 0
        if now - begin >= SPAN:
            left_out = max(0, count - MOST)
            begin, count = now, 0
        _lines[address] = begin, count + 1
        _lines.move_to_end(address)
        while len(_lines) > MOST_ADDRESSES:
            _lines.popitem(last=False)
    if count >= MOST:
        return
    line = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "event": event,
        "address": address,
        "browser": "" if browser == address else hashlib.sha256(browser.encode()).hexdigest()[:8],
        **{name: text[:LONGEST] for name, text in facts.items()},
        **({"missing": left_out} if left_out else {}),
    }
    LOGGER.info("%s", json.dumps(line))


MOST_WRITTEN = 500  # characters of a line, which may quote a stranger's text


def write(error: BaseException) -> None:
    """Writes the traceback of an error, each line shortened."""
    lines = "".join(traceback.format_exception(error)).splitlines()
    print("\n".join(line[:MOST_WRITTEN] for line in lines), file=sys.stderr, flush=True)
