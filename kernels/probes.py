"""Reads the PROBE lines of a .cu: the line itself is the only declaration of what it logs. Record layout: cuda/probe.cuh."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from kernels.errors import BuildError

RECORD = np.dtype([("payload", "<u8"), ("line", "<u4"), ("keys", "<u4")])
READS, WRITES = ("load", "ldmatrix"), ("store", "cp_async")  # of shared memory: cp_async writes it without passing by the registers
ACCESSES = (*READS, *WRITES)
MAX_KEYS = {"mark": 2, "value": 4} | dict.fromkeys(ACCESSES, 2)
TAKEN = ("launch", "block", "thread", "warp", "lane", "seq", "line", "event", "value", "space", "tensor", "offset", "bytes")  # a trace's own columns
SPACES = {"gmem": "global", "smem": "shared"}
_PROBE = re.compile(r"\bPROBE_(MARK|VALUE|LOAD|STORE|LDMATRIX|CP_ASYNC)\((.*)\);\s*$")


@dataclass(frozen=True)
class Site:
    """One probe line: `kind` is mark, value, load, store, ldmatrix or cp_async (which writes shared memory); `keys` the names of its keys, in order.

    For accesses `event` equals `kind`, `space` is global or shared, `tensor` is the name without its space (K of K_smem),
    `bytes` the width (on the line a number or the name of a compile-time constant); for marks and values those are None, None
    and 0. `code_line` is the statement it speaks of: the access after it, or the line before it that computed the value.
    """

    line: int
    kind: str
    event: str
    keys: tuple[str, ...]
    space: str | None = None
    tensor: str | None = None
    bytes: int = 0
    code_line: int = 0


def is_probe_line(text):
    """Whether a source line is instrumentation: it holds a probe and nothing that computes."""
    return bool(re.search(r"\bPROBE_(BEGIN|MARK|VALUE|LOAD|STORE|LDMATRIX|CP_ASYNC)\(", text))


@lru_cache(maxsize=64)
def sites(path: Path, constants: tuple[tuple[str, int], ...] = ()) -> dict[int, Site]:
    """Line number -> Site for every probe of the file, built with these constants. BuildError for a probe that cannot be read back."""
    lines = path.read_text().splitlines()
    found = {}
    for number, text in enumerate(lines, 1):
        if "PROBE_" not in text or text.lstrip().startswith(("//", "#")):
            continue
        if re.search(r"PROBE_(BEGIN\(\)|PARAM)", text) and text.count("PROBE_") == 1:
            continue
        probe = _PROBE.search(text)
        if not probe or text.count("PROBE_") != 1:
            raise BuildError(f"{path.name}:{number}: a probe must be one statement alone on its line: {text.strip()}")
        found[number] = _site(path.name, number, probe[1].lower(), _arguments(probe[2]), lines, dict(constants))
    return found


def _site(file, line, kind, args, lines, constants):
    try:
        if kind in ACCESSES:
            tensor, _, memory = args[0].rpartition("_")
            site = Site(line, kind, kind, tuple(args[3:]), SPACES[memory], tensor, int(constants.get(args[2], args[2])))
        else:
            site = Site(line, kind, args[0], tuple(args[1:-1] if kind == "value" else args[1:]))
    except (KeyError, IndexError, ValueError):
        raise BuildError(f"{file}:{line}: cannot read this {kind} probe; its forms are listed in cuda/probe.cuh") from None
    odd = [key for key in site.keys if not key.isidentifier() or key in TAKEN]
    if odd or len(site.keys) > MAX_KEYS[kind]:
        raise BuildError(f"{file}:{line}: keys must be at most {MAX_KEYS[kind]} plain variables, as their names become "
                         f"columns beside {', '.join(TAKEN)}; found {', '.join(site.keys)}")
    return replace(site, code_line=_code_line(lines, line, -1 if kind == "value" else 1))


def _code_line(lines, line, step):
    """The nearest line before (step -1) or after (step 1) that holds code and no probe."""
    at = line + step
    while 1 <= at <= len(lines):
        text = lines[at - 1].strip()
        if text and text != "}" and not text.startswith("//") and "PROBE_" not in text:
            return at
        at += step
    return line


def _arguments(text):
    """The arguments of a macro call, split at its top-level commas."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return parts + [text[start:].strip()]


def strip_probes(source):
    """The source with every probe line blanked: what the timed build must equal, instruction for instruction."""
    return "\n".join("" if is_probe_line(line) else line.replace(" PROBE_PARAM", "") for line in source.splitlines())
