"""A kernel without and with the constants that move the rows of a tile to other banks."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from explainers.story.warp_requests import source_lines
from kernels.core.launch import Constant
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.run.results import Run
from kernels.trace.memory import traced


def remedies(spec: KernelSpec) -> list[Constant]:
    """Returns the constants that move the rows of a tile to other banks."""
    return [constant for constant in spec.constants_of("pad", "swizzle") if 0 in constant.values]


def pads(spec: KernelSpec) -> bool:
    """Whether the kernel can pad its tiles, and does arithmetic on them."""
    can_pad = any(0 in constant.values for constant in spec.constants_of("pad"))
    return can_pad and bool(spec.problem_type().work)


def before_and_after(request: Request) -> tuple[Request, ...]:
    """Returns the request without a remedy, and with the chosen ones or the smallest possible one.

    For a kernel without remedies, the result is the request itself.
    """
    found = remedies(request.kernel)
    plain = _with(request, {c.name: 0 for c in found})
    if not found or not _possible(plain):
        return (request,)
    if plain.constants != request.constants:
        return plain, request
    tried = (_with(request, {c.name: value}) for c in found for value in sorted(c.values) if value)
    after = next((other for other in tried if _possible(other)), None)
    return (plain, after) if after else (request,)


def _with(request: Request, changes: dict[str, int]) -> Request:
    return replace(request, settings=tuple({**request.constants, **changes}.items()))


def _possible(request: Request) -> bool:
    try:
        request.kernel.plan(request.problem, request.constants)
    except ProblemError:
        return False
    return True


def side_names(requests: Sequence[Request]) -> list[str]:
    """Returns the remedies in which the requests differ, in words, as a name for each."""
    if len(requests) < 2:
        return [""] * len(requests)
    differ = [c for c in remedies(requests[0].kernel) if len({request.constants[c.name] for request in requests}) > 1]
    return [", ".join(_name(c, request.constants[c.name]) for c in differ) for request in requests]


def _name(remedy: Constant, value: int) -> str:
    if remedy.role == "pad":
        return f"padded by {value}" if value else "no padding"
    return "swizzled" if value else "no swizzle"


def swizzled(sides: Sequence[Request]) -> Request | None:
    """Returns the swizzled build next to a build without remedies and a padded one. None if it is not possible."""
    plain, chosen = sides[0], sides[-1]
    roles = {c.role for c in remedies(plain.kernel) if chosen.constants[c.name]}
    if roles != {"pad"} or not plain.kernel.constants_of("swizzle"):
        return None
    made = _with(plain, {c.name: 1 for c in plain.kernel.constants_of("swizzle")})
    return made if _possible(made) else None


def unused_words(requests: Sequence[Request]) -> int:
    """Returns the words that the second request leaves free after each row, and the first one does not. 0 for one."""
    if len(requests) < 2:
        return 0
    before, after = (sum(r.constants[constant.name] for constant in r.kernel.constants_of("pad")) for r in requests[:2])
    return max(0, after - before)


def compare_padding(plain: Run, padded: Run) -> pd.DataFrame:
    """Returns for each source line the wavefronts per request without and with padding, at best, and in total.

    The columns `file` and `line` name the probe.
    """
    tables = [traced.requests(run.trace, space="shared").by_line for run in (plain, padded)]
    keys = ["launch", "file", "line", "kind", "tensor", "bytes"]
    both = tables[0].merge(tables[1][[*keys, "wavefronts"]], on=keys, suffixes=("_without", "_with"))
    return pd.DataFrame(
        {
            **source_lines(plain, both),
            "tensor": both.tensor,
            "kind": both.kind,
            "bytes": both.bytes,
            "requests": both.requests,
            "at best": both.ideal / both.requests,
            "not padded": both.wavefronts_without / both.requests,
            "padded": both.wavefronts_with / both.requests,
            "wavefronts without": both.wavefronts_without,
            "wavefronts with": both.wavefronts_with,
            "file": both.file,
            "line": both.line,
        }
    )


def padding_sentence(table: pd.DataFrame, remedy: str = "padding") -> str:
    """Returns the total effect of padding or another remedy in a sentence."""
    before, after = int(table["wavefronts without"].sum()), int(table["wavefronts with"].sum())
    text = f"All accesses of shared memory together: {before:,} wavefronts without {remedy}, {after:,} with it."
    if before == after:
        return f"{text} Nothing is saved."
    worst = table.loc[(table["wavefronts without"] - table["wavefronts with"]).abs().idxmax()]
    return (
        f"{text} Most of that is {worst['source line']}: {worst['not padded']:g} wavefronts a request without, "
        f"{worst['padded']:g} with, {worst['at best']:g} at best."
    )
