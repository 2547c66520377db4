"""The opening comment for a text without one: proposed from its signatures and its launches (kernels/opening)."""

import re
from pathlib import Path

from kernels.errors import WarpglassError
from kernels.opening.command import proposed

_OPENING = re.compile(r"\s*/\*[^*]*?\bfamily\s*=")


def is_bare(text: str) -> bool:
    """Whether a text has no opening comment of a kernel."""
    return not _OPENING.match(text)


def proposal(text: str) -> tuple[str, str]:
    """The text with a proposed opening comment, and "". Without a proposal: "", and the reason."""
    try:
        made = proposed(Path("my_kernel.cu"), text)
    except WarpglassError as error:
        return "", str(error)
    if made.questions:
        return "", f"A proposal needs an answer first: {' '.join(made.questions)}"
    return made.text_of(text), ""
