"""The palette of all pictures. Each dictionary or tuple gives colours for one role: kernels, peers, tensors and so on.

The sets of kernels, peers, tensors, sequences, marks and sign share no colour and no similar colours.

Each colour has a contrast of at least 3 to 1 on the backgrounds of both themes, so pictures need one set only. No
colour has the contrast of text (4.5 to 1) on both, so text has the colour of its theme, next to a swatch. The colours
of a set also differ for colour-blind readers. JavaScript gets the palette from `for_browser`.
tests/explainers/charts/test_palette.py checks these rules.
"""

from collections.abc import Iterable
from typing import TypedDict

from kernels import catalog
from kernels.core.spec import KernelSpec

# The hues of Okabe and Ito for roles without a set. Light hues are darker here, so they are visible on white.
OKABE_ITO = {
    "orange": "#BF8300",
    "sky": "#3D95C9",
    "green": "#009E73",
    "yellow": "#9A9000",
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "purple": "#C46E9D",
    "grey": "#8C8C8C",
}

# The part of a tensor in attention. All other tensors have the colour of `other`.
TENSORS = {
    "Q": "#4B5EA2",
    "K": "#8D5403",
    "V": "#2A904B",
    "S": "#B15CDF",
    "P": "#0CA4A0",
    "O": "#E94649",
    "other": "#6E6E6E",
}
SIGN = {"below": "#3D54D6", "above": "#CF7B26"}  # zero
MARKS = {"load": "#31858D", "store": "#C9212E"}  # the frame around the elements of a read or write
KERNELS = ("#626CDC", "#AC4A1E", "#38A23D", "#D03275", "#FA5D32", "#A97CF0", "#00764F", "#EA5FBD")  # kernel_colour
PEERS = (
    "#239ABC",
    "#9647AD",
    "#766F8F",
    "#AF8687",
    "#6FA131",
    "#59691B",
    "#1A67EA",
    "#8207FE",
)  # in the order of timing.peers
SEQUENCES = (
    "#0098F3",
    "#AD2B96",
    "#978B32",
    "#F45693",
    "#467504",
    "#794BD5",
    "#9D606D",
)  # sequences of a KV cache, in their order
SOURCES = {
    "recorded": OKABE_ITO["blue"],
    "measured": OKABE_ITO["vermillion"],
    "logged": OKABE_ITO["vermillion"],
    "float64": OKABE_ITO["sky"],
}
WAVEFRONTS = {
    "now": OKABE_ITO["orange"],
    "before": OKABE_ITO["blue"],
    "conflict": OKABE_ITO["vermillion"],
    "moved": OKABE_ITO["vermillion"],
}
PHASES = {"prefill": OKABE_ITO["orange"], "decode": OKABE_ITO["sky"]}  # of a served request
MAGNITUDE = ("#00224e", "#575c6d", "#a69d75", "#fee838")  # cividis, from low to high
WRONG = OKABE_ITO["vermillion"]  # a number with an error larger than rounding
AXIS = OKABE_ITO["grey"]  # rules and labels. The browser gives text of this colour the theme's own (blocks.js).


class Palette(TypedDict):
    """The result of palette.for_browser: colours by role."""

    tensors: dict[str, str]
    sign: dict[str, str]
    kernels: list[str]
    peers: list[str]
    sequences: list[str]
    wavefronts: dict[str, str]
    marks: dict[str, str]
    magnitude: list[str]
    phases: dict[str, str]
    wrong: str
    axis: str


def kernel_colour(kernel: KernelSpec | str) -> str:
    """The colour of a kernel, by its place in its family.

    kernel: its spec, name or title. A kernel outside the catalogue gets the colour after the last one of its family.
    """
    spec = kernel if isinstance(kernel, KernelSpec) else _named(kernel)
    family = [s.name for s in catalog.current().kernels.values() if spec is not None and s.family == spec.family]
    place = family.index(spec.name) if spec is not None and spec.name in family else len(family)
    return KERNELS[place % len(KERNELS)]


def kernel_colours(kernels: Iterable[KernelSpec | str]) -> list[str]:
    """The colour of each kernel, in order. The second build of a kernel gets a colour of no kernel."""
    listed = list(kernels)
    keys = {f"{n}": kernel_colour(kernel) for n, kernel in enumerate(listed)}
    return list(told_apart(keys).values())


def _named(text: str) -> KernelSpec | None:
    """The kernel with that name or title, or with its name in that label ("A: NAME", "NAME BLOCK_Q=16")."""
    for spec in catalog.current().kernels.values():
        if text in (spec.name, spec.title) or spec.name in text.replace(":", " ").split():
            return spec
    return None


def for_browser() -> Palette:
    """The palette as plain JSON, for JavaScript."""
    return {
        "tensors": dict(TENSORS),
        "sign": dict(SIGN),
        "kernels": list(KERNELS),
        "peers": list(PEERS),
        "sequences": list(SEQUENCES),
        "wavefronts": dict(WAVEFRONTS),
        "marks": dict(MARKS),
        "magnitude": list(MAGNITUDE),
        "phases": dict(PHASES),
        "wrong": WRONG,
        "axis": AXIS,
    }


def told_apart(preferred: dict[str, str], spare: Iterable[str] = (*OKABE_ITO.values(), *KERNELS)) -> dict[str, str]:
    """name -> colour. A name gets its preferred colour, unless an earlier name has it. Then it gets a colour without
    preference, or any other."""
    left = [*(c for c in spare if c not in preferred.values()), *spare]
    found: dict[str, str] = {}
    for name, colour in preferred.items():
        taken = set(found.values())
        found[name] = colour if colour not in taken else next((c for c in left if c not in taken), AXIS)
    return found
