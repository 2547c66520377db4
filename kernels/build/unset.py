"""Unset locals as NaN. g++'s own pattern is a finite float, which a first rescale factor of 0 removes.

g++ -ftrivial-auto-var-init=pattern writes 0xfe into each byte of an unset local. Its assembler text has this pattern as
a constant of 4 or 8 bytes. Here each one becomes 0xff: NaN in all types of floats, and -1 as a whole number. Clang's
pattern is NaN already.
"""

import re
from pathlib import Path

from kernels.errors import BuildError

OPTION = "-DSIMT_UNSET_IS_NAN"  # in the key of a build
MOST_BYTES = 2**28  # of an assembler text
_PATTERN = re.compile(r"(?<![\w.-])-(?:16843010|72340172838076674)(?!\w)")
_HALF = re.compile(r"(\tmovw\t\$)-258(?=,)")
_FILLED = re.compile(r"(\tmovl\t\$)254(, %esi\n(?:\t(?!call)[^\n]*\n){0,6}\tcall\tmemset)")
_OWN = re.compile(r"(?i)0x0?fefefefe|16843010|4278124286|0x0?1010101|72340172838076674")


def as_nan(assembler: Path, text: str) -> None:
    """Changes the pattern in an assembler text. text: of the kernel. One that has this constant itself stays as it is.

    Raises BuildError for a text of more than MOST_BYTES."""
    if _OWN.search(text):
        return
    if assembler.stat().st_size > MOST_BYTES:
        raise BuildError(f"The build has more than {MOST_BYTES >> 20} MB of machine code. Make its loops smaller.")
    made = assembler.read_text(errors="surrogateescape")
    made = _FILLED.sub(r"\g<1>255\2", _HALF.sub(r"\1-1", _PATTERN.sub("-1", made)))
    assembler.write_text(made, errors="surrogateescape")


WARNINGS = ("-Wuninitialized", "-Wmaybe-uninitialized", "-fno-diagnostics-show-caret")
MOST_WARNINGS = 20
_WARNING = re.compile(
    r"(?<![^\s:])([^\s:]+\.cuh?):(\d+):\d+: warning: [‘'](\w[^’']*)[’'] (?:is|may be) used uninitialized"
)


def kept(log: str) -> str:
    """The lines of a compiler's log on unset locals, at most MOST_WARNINGS."""
    lines = [line for line in log.splitlines() if _WARNING.search(line)]
    return "\n".join(lines[:MOST_WARNINGS])


def named(log: str) -> list[tuple[str, int, str]]:
    """(file, line, local) of the uses of unset locals that the compiler found, in the order of its log."""
    return [(found[1].rpartition("/")[2], int(found[2]), found[3]) for found in _WARNING.finditer(log)]
