"""The common parts of stories about a warp's accesses."""

import numpy as np
import pandas as pd

from explainers.story.frames import BankAccess, SectorRequest
from explainers.story.glossary import count
from kernels.run.results import Run


def renumbered(units: np.ndarray) -> tuple[int, ...]:
    """Returns the units, such as banks or sectors, as numbers in the order of their first appearance."""
    _, first, inverse = np.unique(units, return_index=True, return_inverse=True)
    return tuple(np.argsort(np.argsort(first))[inverse].ravel().tolist())


def numbered(noun: str, shown: BankAccess | SectorRequest) -> str:
    """Returns the name of an access or request: its number, and the count of equal ones."""
    others = shown["alike"] - 1
    return f"{noun} {shown['number'] + 1}" + (f", and {count(others, 'other')} alike" if others else "")


def source_lines(run: Run, table: pd.DataFrame) -> dict[str, list[str]]:
    """Returns two columns for a table of probes: "source line" (FILE:LINE) and "access" (the text of the line).

    table: with the columns file and line. An access of a plain kernel within a library has no line of its text.
    """
    sites, texts = run.sites, {name: text.splitlines() for name, text in run.request.kernel.files}
    found = [sites.find(file, line) for file, line in zip(table.file, table.line)]
    lines = [texts[s.file][s.code_line - 1].strip() if s.file in texts else "a function of CUDA" for s in found]
    return {"source line": [s.place for s in found], "access": lines}
