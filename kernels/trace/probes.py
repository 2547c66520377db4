"""Reads the PROBE lines of a kernel's .cu and headers. Each line is the only declaration of its records.

device/probe.cuh explains the macros and the record, device/hopper.cuh those for Hopper. A probe becomes a Site here. A
record has its site's word, which both sides compute from file name and line number.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce

import numpy as np
import pyarrow as pa

from kernels.core.expressions import whole
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import BuildError, FrontMatterError, TraceError
from kernels.trace.kinds import KINDS, MACROS

RECORD = np.dtype([("payload", "<u8"), ("site", "<u4"), ("keys", "<u4")])
"""struct ProbeRecord of device/probe.cuh."""
MARK = np.dtype([("clock", "<i8"), ("site", "<u4"), ("keys", "<u4")])
"""struct MarkRecord of device/marks.cuh."""
CLOCKS = np.dtype([(n, "<i8") for n in ("start_cycles", "end_cycles", "start_ns", "end_ns", "sm")])
"""struct WriterClocks of device/marks.cuh."""
OUT_OF_RANGE = 1 << 31
"""The bit of a record's site word for a key outside 0 to 65,535."""
LINE_BITS = 18
MAX_KEYS = {"mark": 2, "value": 4, "access": 2, "role": 0}
BEFORE_KEYS = ("launch", "block", "thread", "warp", "lane", "seq", "file", "line", "event", "role")
AFTER_KEYS = ("value", "space", "tensor", "offset", "bytes")
SPACES = {"gmem": "global", "smem": "shared"}
PLUMBING = {"PROBE_PARAM", "PROBE_BEGIN", "PROBE_REF", "PROBE_PASS", "PROBE_CHILDREN", "PROBE_CHILD"}
"""The macros without a record."""
_LOGGING = ("PROBE_MARK", "PROBE_VALUE", "PROBE_ROLE", *MACROS)
_PROBE = re.compile(rf"(?:(?!\bPROBE_).)*+({'|'.join(_LOGGING)})\((.*)\);\s*")
_IS_PROBE = re.compile(rf"\b(PROBE_BEGIN|{'|'.join(_LOGGING)})\(")


@dataclass(frozen=True)
class Site:
    """One probe line.

    kind: mark, value, role or access.
    event: the name of a mark, value or role. For an access, its kind's event, such as load.
    keys: the names of its keys, in order.
    space: of an access, global or shared, else None.
    tensor: of an access, its name without the space (K of K_smem), else None.
    bytes: of one record of an access: a lane's bytes or a whole tile, else 0.
    code_line: its statement: the access after it, or the computation of the value before it. A comment `// logged: m`
        marks the computation of m on another line, or in another file.
    code_file: of this line, if it is another file."""

    file: str
    line: int
    kind: str
    event: str
    keys: tuple[str, ...] = ()
    space: str | None = None
    tensor: str | None = None
    bytes: int = 0
    code_line: int = 0
    code_file: str = ""

    @property
    def word(self) -> int:
        return site_word(self.file, self.line)

    @property
    def place(self) -> str:
        """File and line of its statement, such as 03_flash.cu:57."""
        return f"{self.code_file or self.file}:{self.code_line}"


@dataclass(frozen=True)
class Sites:
    """The probes of a kernel, in the order of files and lines. A site's number is its index. Raises BuildError if two
    files have the same hash, as their records would be ambiguous."""

    listed: tuple[Site, ...]

    def __post_init__(self) -> None:
        files: dict[int, str] = {}
        for site in self.listed:
            other = files.setdefault(site.word >> LINE_BITS, site.file)
            if other != site.file:
                raise BuildError(f"The probes of {other} and {site.file} have the same words. Rename one file.")

    def __getitem__(self, number: int) -> Site:
        return self.listed[number]

    def __len__(self) -> int:
        return len(self.listed)

    def __iter__(self) -> Iterator[Site]:
        return iter(self.listed)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(key for site in self.listed for key in site.keys))

    def find(self, file: str, line: int) -> Site:
        """The probe on that line. Raises KeyError."""
        return self.listed[self._number[file, line]]

    @cached_property
    def _number(self) -> dict[tuple[str, int], int]:
        return {(site.file, site.line): number for number, site in enumerate(self.listed)}

    def index(self, table: pa.Table) -> np.ndarray:
        """The site's number of each record in a trace's table, int64 [records]. Raises TraceError for other lines."""
        files = table["file"].unify_dictionaries()
        names = files.chunk(0).dictionary.to_pylist() if files.num_chunks else []
        codes = np.concatenate([chunk.indices.to_numpy() for chunk in files.chunks] or [np.zeros(0, np.int32)])
        lines = table["line"].to_numpy()
        size = int(lines.max(initial=0)) + 1
        numbers = np.full(len(names) * size, -1, np.int64)
        for (file, line), number in self._number.items():
            if file in names and line < size:
                numbers[names.index(file) * size + line] = number
        found = numbers[codes.astype(np.int64) * size + lines]
        if len(found) and found.min() < 0:
            at = int(found.argmin())
            raise TraceError(
                f"The trace names {names[codes[at]]}:{lines[at]}, a line without a probe. It has another source. "
                "Run the kernel again."
            )
        return found

    def index_of_words(self, words: np.ndarray) -> np.ndarray:
        """The site's number of each site word (uint32 [records]), int64. It is -1 for an unknown word."""
        # A word below `first` wraps round to the last entry, -1.
        found = [numbers.take(words - first, mode="clip") for first, numbers in self._by_file]
        return reduce(np.maximum, found) if found else np.full(len(words), -1, np.intp)

    @cached_property
    def _by_file(self) -> list[tuple[np.uint32, np.ndarray]]:
        """For each file: the word of its line 0, and the number of the site on each line, or -1. The last is -1."""
        words = np.array([site.word for site in self], np.uint32)
        tables = []
        for file in np.unique(words >> LINE_BITS):
            own = np.flatnonzero(words >> LINE_BITS == file)
            first = file << np.uint32(LINE_BITS)
            numbers = np.full(int(words[own].max() - first) + 2, -1, np.intp)
            numbers[words[own] - first] = own
            tables.append((first, numbers))
        return tables


def site_word(file: str, line: int) -> int:
    """The word of a site: 13 bits of a hash of the file name above 18 bits of line number (probe_site in C++)."""
    value = 2166136261
    for byte in file.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return ((value ^ value >> 13 ^ value >> 26) & 0x1FFF) << LINE_BITS | line


def sites_of(request: Request) -> Sites:
    """The probes of a request's kernel, with the widths of its build. Raises BuildError."""
    return sites(request.kernel, request.defines)


def sites(spec: KernelSpec, defines: Mapping[str, int]) -> Sites:
    """The probes of a kernel's .cu and headers with these -D constants. Raises BuildError for an invalid probe."""
    return _sites(spec.files, tuple(sorted(defines.items())))


@lru_cache(maxsize=128)
def _sites(files: tuple[tuple[str, str], ...], defines: tuple[tuple[str, int], ...]) -> Sites:
    found = (site for name, text in files for site in _sites_of_file(name, text, dict(defines)))
    computed = {event: at for name, text in files for event, at in _computations(name, text, dict(defines))}
    return Sites(
        tuple(
            replace(site, code_file=computed[site.event][0], code_line=computed[site.event][1])
            if site.kind == "value" and site.event in computed
            else site
            for site in found
        )
    )


def _computations(file: str, text: str, constants: Mapping[str, int]) -> Iterator[tuple[str, tuple[str, int]]]:
    """(value, (file, line)) of each comment `// logged: VALUE`, left out in an `#if CONSTANT == NUMBER` that fails."""
    if "// logged: " not in text:
        return
    lost = list[bool | None]()  # of each open #if: whether its lines are left out. None: both parts count
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#if"):
            asked = re.fullmatch(r"#if (\w+) == (\d+)", line)
            lost.append(constants[asked[1]] != int(asked[2]) if asked and asked[1] in constants else None)
        elif line.startswith(("#else", "#elif")) and lost:
            lost[-1] = None if lost[-1] is None or line.startswith("#elif") else not lost[-1]
        elif line.startswith("#endif") and lost:
            lost.pop()
        elif not any(lost) and (said := re.search(r"// logged: (\w+)$", line)):
            yield said[1], (file, number)


def _sites_of_file(file: str, text: str, constants: Mapping[str, int]) -> Iterator[Site]:
    lines, probed = _probed_lines(text)
    for number, line, macros in probed:
        probe = _PROBE.fullmatch(line)
        if not probe or len(macros) != 1:
            raise BuildError(f"{file}:{number}: a probe must be the only statement on its line: {line.strip()[:80]}")
        yield _site(file, number, probe[1], _arguments(probe[2]), lines, constants)


@lru_cache(maxsize=256)  # most kernels include the same headers
def _probed_lines(text: str) -> tuple[list[str], list[tuple[int, str, list[str]]]]:
    """The lines of a file without its comments. And of each line with a probe: its number, its text, its macros."""
    bare = re.sub(r"/\*.*?(?:\*/|\Z)|//[^\n]*", lambda found: "\n" * found[0].count("\n"), text, flags=re.S)
    lines = bare.splitlines()
    found = [(n, line, re.findall(r"\bPROBE_\w+", line)) for n, line in enumerate(lines, 1) if "PROBE_" in line]
    return lines, [
        (n, line, macros)
        for n, line, macros in found
        if macros and not line.lstrip().startswith("#") and not set(macros) <= PLUMBING
    ]


def _site(file: str, line: int, macro: str, args: list[str], lines: list[str], constants: Mapping[str, int]) -> Site:
    kind = "access" if macro in MACROS else macro.removeprefix("PROBE_").lower()
    code_line = _code_line(lines, line, -1 if kind == "value" else 1)
    try:
        if kind == "access":
            tensor, _, memory = args[0].rpartition("_")
            event, space = MACROS[macro], SPACES[memory]
            if not any((known.event, known.space) == (event, space) for known in KINDS):
                raise ValueError(space)
            width = whole(args[2], constants, f"{file}:{line}: the bytes of this {macro}", least=1)
            site = Site(file, line, kind, event, tuple(args[3:]), space, tensor, width, code_line)
        else:
            keys = args[1:-1] if kind == "value" else args[1:]
            site = Site(file, line, kind, args[0], tuple(keys), code_line=code_line)
    except (KeyError, IndexError, ValueError):
        raise BuildError(f"{file}:{line}: cannot read this {macro}. device/probe.cuh lists its forms.") from None
    except FrontMatterError as error:
        raise BuildError(str(error)) from None
    taken = (*BEFORE_KEYS, *AFTER_KEYS)
    odd = [key for key in site.keys if not key.isidentifier() or key in taken]
    few = len(site.keys) < (1 if kind in ("mark", "value") else 0)
    if odd or few or len(site.keys) > MAX_KEYS[kind]:
        raise BuildError(
            f"{file}:{line}: {macro} has the keys {', '.join(site.keys) or 'none'}. Keys must be plain variables, at "
            f"most {MAX_KEYS[kind]}, without the name of a trace's column: {', '.join(taken)}."
        )
    return site


def _code_line(lines: list[str], line: int, step: int) -> int:
    """The nearest line of code without a probe, before (step -1) or after (step 1)."""
    at = line + step
    while 1 <= at <= len(lines):
        text = lines[at - 1].strip()
        if text and text != "}" and not text.startswith("#") and not is_probe_line(text):
            return at
        at += step
    return line


def _arguments(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return parts + [text[start:].strip()]


def is_probe_line(text: str) -> bool:
    """Whether a source line is a probe. A #define is none."""
    return bool(_IS_PROBE.search(text)) and not text.lstrip().startswith("#")


def strip_probes(source: str) -> str:
    """The source with blank probe lines. The timed build equals it, instruction for instruction."""
    bare = (re.sub(r" PROBE_(PARAM|REF|PASS|CHILDREN|CHILD\([^()]*\))(?!\w)", "", line) for line in source.splitlines())
    return "\n".join("" if is_probe_line(line) else line for line in bare)
