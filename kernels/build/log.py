"""A compiler's log -> the one line that says what is wrong, with our file and line."""

import re
from pathlib import Path

from kernels.core.spec import KernelSpec


def first_error(spec: KernelSpec, log: str, pattern: str) -> str:
    """The first error of a log. pattern: a regular expression with file, line and what is wrong as its groups."""
    found = re.search(pattern, log)
    refused = re.search(r"^ptxas .*error\s*: (.*)$", log, re.M)
    if refused and not found:
        return f"{spec.path.name} does not compile for this architecture: {refused[1]}"
    if not found:
        return f"{spec.path.name} does not compile: {log.strip()[:2000]}"
    return f"{Path(found[1]).name} line {found[2]}: {found[3].strip()}"
