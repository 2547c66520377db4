"""Faults of Warpglass in the server's log."""

import sys
import traceback

LONGEST = 500  # characters of a line, which may quote a stranger's text


def write(error: BaseException) -> None:
    """Writes the traceback of an error, each line shortened."""
    lines = "".join(traceback.format_exception(error)).splitlines()
    print("\n".join(line[:LONGEST] for line in lines), file=sys.stderr, flush=True)
