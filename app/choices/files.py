"""The choice of a file of another profiler. Its value is the name of the opened file in app/store/opened.py."""

import re
from collections.abc import Callable

from app.choices.choice import Choice
from app.choices.page import Correction, Description, State, put
from kernels.errors import ProblemError
from kernels.measure.elsewhere.packed import Block, Report
from kernels.measure.elsewhere.record import MOST_BYTES

NAME = re.compile(r"[0-9a-f]{32}")
ACCEPTED = {"trace": ".json,.pftrace,.perfetto-trace,.pb,.gz,.nanotrace", "stalls": ".csv,.txt,.gz"}


def of_file(meaning: str) -> Choice:
    return Choice("", check=_check, late=True, stays=True, meaning=meaning)


def _check(name: str) -> None:
    if name and not NAME.fullmatch(name):
        raise ProblemError(f"{name!r:.40} names no opened file. Open a file.")


def described(kind: str, label: str, shown: Block | Report | None) -> Description:
    """The description of the choice. kind: of the route that opens it (app/web/openings.py)."""
    more = {"opens": kind, "accept": ACCEPTED[kind], "most": MOST_BYTES, "file": shown.file if shown else ""}
    return {"label": label, "kind": "file", "hidden": False, **more}


def corrected(state: State, name: str, load: Callable[[], object]) -> list[Correction]:
    """Leaves a file out, in place, that the store lacks or that is for another page. load: raises ProblemError then."""
    if not state[name]:
        return []
    try:
        load()
    except ProblemError as error:
        return [put(state, name, "", str(error))]
    return []
