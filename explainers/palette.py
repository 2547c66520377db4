"""The one palette, for charts and dense views: Okabe-Ito for what is told apart, blue to orange for signed values,
cividis for magnitude.

Each dictionary is a role: what is coloured. JavaScript gets the same colours by `for_browser`, so that none stands
twice.
"""

from collections.abc import Iterable

from explainers.frames import Palette

OKABE_ITO = {
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "green": "#009E73",
    "yellow": "#F0E442",
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "purple": "#CC79A7",
    "grey": "#8C8C8C",
}


def _named(*names: str) -> tuple[str, ...]:
    return tuple(OKABE_ITO[name] for name in names)


# A tensor's place in attention, whatever the kernel calls it; `other` is for every other tensor.
TENSORS = dict(
    zip(
        ("Q", "K", "V", "S", "P", "O", "other"),
        _named("blue", "orange", "green", "purple", "sky", "vermillion", "grey"),
    )
)
SIGN = dict(zip(("below", "above"), _named("blue", "orange")))  # zero
KERNELS = _named(
    "grey", "orange", "green", "vermillion", "sky", "blue", "purple", "yellow"
)  # of a family, in the catalogue's order
PEERS = _named("purple", "blue", "sky", "yellow")  # in the order of timing.peers
SEQUENCES = _named(
    "orange", "sky", "green", "purple", "vermillion", "blue", "yellow"
)  # of a KV cache, in the order in which they come
SOURCES = dict(zip(("recorded", "measured", "logged", "float64"), _named("blue", "vermillion", "vermillion", "sky")))
WAVEFRONTS = dict(zip(("now", "before", "conflict", "moved"), _named("orange", "blue", "vermillion", "vermillion")))
MARKS = dict(zip(("load", "store"), _named("sky", "vermillion")))  # the frame around what a step reads and writes
MAGNITUDE = ("#00224e", "#575c6d", "#a69d75", "#fee838")  # cividis, from low to high
WRONG = OKABE_ITO["vermillion"]  # a number that is off by more than rounding
AXIS = OKABE_ITO["grey"]  # readable on both themes; Altair's own text colour is not


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
        "wrong": WRONG,
        "axis": AXIS,
    }


def told_apart(preferred: dict[str, str], spare: Iterable[str] = tuple(OKABE_ITO.values())) -> dict[str, str]:
    """name -> colour: each name's preferred colour; a later name whose colour is taken gets one that nobody prefers,
    then any that is left."""
    left = [*(c for c in spare if c not in preferred.values()), *spare]
    found: dict[str, str] = {}
    for name, colour in preferred.items():
        taken = set(found.values())
        found[name] = colour if colour not in taken else next((c for c in left if c not in taken), AXIS)
    return found
