"""Changed sources with unchanged timed machine code: recordings of the earlier source stay valid.

data/same_code.json maps the measured code_hash to an object with these fields:

- kernel: its name
- now: the code_hash of the source with the same machine code
- probes: for each probe now, its number among the probes of the measured source
- evidence: how the machine codes were compared
"""

import json
from functools import lru_cache

from kernels.core.remembered import of_recordings
from kernels.recordings import DATA

FILE = DATA / "same_code.json"


@of_recordings(lru_cache)
def _changes() -> dict[str, dict]:
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def present(code_hash: str) -> str:
    """The code_hash today of the source with that machine code. Without an entry, the code_hash itself."""
    while code_hash in _changes():
        code_hash = _changes()[code_hash]["now"]
    return code_hash


def probes_now(code_hash: str, count: int) -> list[int]:
    """The number today of each of the `count` probes of the measured source, -1 for a removed one. Only a probe in a
    function without a call may be removed, so no record names it."""
    numbers = list(range(count))
    while code_hash in _changes():
        change = _changes()[code_hash]
        now = {before: number for number, before in enumerate(change["probes"])}
        numbers = [now.get(number, -1) for number in numbers]
        code_hash = change["now"]
    return numbers
