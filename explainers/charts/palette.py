"""The one palette. Each dictionary or tuple is a role: what is coloured. The sets of kernels, peers, tensors,
sequences, marks and sign have no colour in common, and none that is hard to tell from another set's.

Every colour stands out from both themes' backgrounds at 3 to 1 at least, so a picture needs no second set for the dark
theme. No one colour can be read as text on both (4.5 to 1): text has the theme's own colour, and a swatch beside it.
Within a set colours differ for the colour-blind too; never is it red against green alone. JavaScript gets the same by
`for_browser`, so that none stands twice. tests/explainers/charts/test_palette.py holds all this.
"""

from collections.abc import Iterable
from typing import TypedDict

from kernels.catalog import KERNELS as CATALOGUE
from kernels.core.spec import KernelSpec

# The hues of Okabe and Ito, the light ones made darker so that they show on white: for what has no set of its own.
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

# A tensor's place in attention, whatever the kernel calls it; `other` is for every other tensor.
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
MARKS = {"load": "#31858D", "store": "#C9212E"}  # the frame around what a step reads and writes
KERNELS = ("#626CDC", "#AC4A1E", "#38A23D", "#D03275", "#FA5D32", "#A97CF0", "#00764F", "#EA5FBD")  # kernel_colour
PEERS = ("#239ABC", "#9647AD", "#766F8F", "#AF8687", "#6FA131", "#59691B", "#1A67EA")  # in the order of timing.peers
SEQUENCES = (
    "#0098F3",
    "#AD2B96",
    "#978B32",
    "#F45693",
    "#467504",
    "#794BD5",
    "#9D606D",
)  # of a KV cache, in the order in which they come
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
PHASES = {"prefill": OKABE_ITO["orange"], "decode": OKABE_ITO["sky"]}  # of a request that is served
MAGNITUDE = ("#00224e", "#575c6d", "#a69d75", "#fee838")  # cividis, from low to high
WRONG = OKABE_ITO["vermillion"]  # a number that is off by more than rounding
AXIS = OKABE_ITO["grey"]  # of rules and labels; the browser writes text of this colour in the theme's own (blocks.js)


class Palette(TypedDict):
    """What palette.for_browser gives: colours by role; see palette.py."""

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
    """The one colour of a kernel, by its place in its family in the catalogue. kernel: its spec, name or title; one
    that the catalogue does not know has the colour after its family's last."""
    spec = kernel if isinstance(kernel, KernelSpec) else _named(kernel)
    family = [s.name for s in CATALOGUE.values() if spec is not None and s.family == spec.family]
    place = family.index(spec.name) if spec is not None and spec.name in family else len(family)
    return KERNELS[place % len(KERNELS)]


def kernel_colours(kernels: Iterable[KernelSpec | str]) -> list[str]:
    """The colour of each of these, in order. Where one is there twice (two builds in one chart), its second has a
    colour that is no kernel's."""
    listed = list(kernels)
    keys = {f"{n}": kernel_colour(kernel) for n, kernel in enumerate(listed)}
    return list(told_apart(keys).values())


def _named(text: str) -> KernelSpec | None:
    """By name, by title, or by a label in which the name stands ("A: NAME", "NAME BLOCK_Q=16")."""
    for spec in CATALOGUE.values():
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
    """name -> colour: each name's preferred colour; a later name whose colour is taken gets one that nobody prefers,
    then any that is left."""
    left = [*(c for c in spare if c not in preferred.values()), *spare]
    found: dict[str, str] = {}
    for name, colour in preferred.items():
        taken = set(found.values())
        found[name] = colour if colour not in taken else next((c for c in left if c not in taken), AXIS)
    return found
