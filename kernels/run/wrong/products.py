"""Products whose sums have 16 bits, in the text of a plain kernel: mma.sync with f16 sums, wmma fragments of half."""

import re
from collections.abc import Iterable

from kernels.build.plain.macros import macros_of
from kernels.build.plain.tokens import bare, functions, line_of, tokens
from kernels.core.request import Request
from kernels.core.tolerance import OutputError
from kernels.run.wrong.found import Reason

MOST_SHARE = 100.0  # of the limit: a sum of 16 bits is off by a few of its last places
_SUMS = re.compile(
    r"mma\.sync[\w.:\s\"\\]{0,160}?\.f16\.f16\.f16\.f16|fragment\s{0,9}<[^<>]{0,80}\baccumulator\b[^<>]{0,80}\b(?:__)?half\s{0,9}>"
)


def reason(request: Request, wrong: Iterable[OutputError]) -> Reason | None:
    """The reason of small errors of a kernel whose products are summed in 16 bits, with the line of a product."""
    if not request.kernel.plain or not all(error.share <= MOST_SHARE for error in wrong):
        return None
    line = _line(request.kernel.files)
    text = "sums of its products have 16 bits. The limit is for sums of float32"
    return Reason("half", f"The {text}, such as mma with .f32 for C and D.", line=line) if line else None


def _line(files: tuple[tuple[str, str], ...]) -> int:
    """The first line of a device function of the .cu with such a product, or 0."""
    named = {name for _, text in files for name, macro in macros_of(text).items() if _SUMS.search(macro.body)}
    text = files[0][1]
    found, code = tokens(text), bare(text)
    for function in functions(text, found):
        first, last = found[function.body].start, found[function.last].end
        places = [first + one.start() for one in _SUMS.finditer(text[first:last])]
        places += [token.start for token in found[function.body : function.last] if token.text in named]
        if function.on_device and places and code[min(places)].strip():
            return line_of(text, min(places))
    return 0
