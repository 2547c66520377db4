"""The questions of a proposal, with a guess where names of the text suggest one."""

import re

from kernels.opening.matching import Parameter
from kernels.opening.names import Names

LAST_LINE = 10**6


def say(option: str, guess: str) -> str:
    return f"A guess: --say '{option}={guess}'" if guess else f"Say it with --say {option}=EXPRESSION"


def tiles_guess(name: str, names: Names) -> str:
    """The number of tiles for a name such as T_r or Tr, if B_r or Br is the size of a tile, or ""."""
    found = re.fullmatch(r"T(_?\w)", name)
    size = names.expression(f"B{found[1]}", LAST_LINE) if found else None
    return f"ceil_div(seq_len, {size})" if size and size.isdigit() else ""


def size_guess(key: str, listed: list[Parameter], names: Names) -> str:
    """A guess of a grid over the tiles of rows, and of a block with the sizes of two constants, or ""."""
    if key == "grid":
        return next((guess for one in listed if (guess := tiles_guess(one.name, names))), "")
    said = (names.expression(f"block_dim_{axis}", LAST_LINE) for axis in "xy")
    return ", ".join(size for size in said if size)
