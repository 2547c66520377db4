"""The steps of the backward in words."""

from explainers.stories.backward.frames import Span, TouchedRows
from explainers.stories.backward.parts import GRADIENTS, MARKS
from explainers.story.glossary import listed, phase_title
from kernels.trace.steps import StepRow

SAID = {
    "delta": "delta = rowsum(dO * O): one number per query, made once before the loops. dS needs it.",
    "S": "The block multiplies Q by K once more and scales: nobody stored the scores.",
    "P": "P = e^(S - LSE). The stored LSE replaces the max and the sum.",
    "dP": "dP = dO Vᵀ tells how each weight changes the loss.",
    "dV": "dV += Pᵀ dO. The sum stays in registers.",
    "dS": "dS = P * (dP - delta): the gradient of the scores.",
    "dK": "dK += dSᵀ Q. The sum stays in registers.",
    "dQ": "dQ += dS K. The sum stays in registers.",
}
ADDED = (
    "The block adds dS K to dQ in global memory by atomics: additions that do not disturb each other. "
    "Other blocks add to these queries, too."
)
PART = "dS K is the part of this block in dQ. Other blocks have other parts of it."
PHASES = {
    "add": "The block adds its part of dQ in global memory, where other blocks add too.",
    "key_value_sums": "The products for dV and dK run. A later step completes both sums of this tile.",
}


def title(step: StepRow, made: list[str], touched: list[TouchedRows]) -> str:
    """A few words for the clock: the parts made or written in the step."""
    tile = f"Tile {step.tile} · " if step.tile >= 0 else ""
    writes = _names(touched, "store")
    if made:
        return tile + listed(made)
    if part := _ready(step.phase):
        return f"{tile}{part} ready"
    return tile + (f"Write {listed(writes)}" if writes else phase_title(step.phase))


def _ready(phase: str) -> str:
    """The part whose products a step waits for, or an empty text."""
    name = phase.removesuffix("_done")
    return MARKS.get(name, "") if name != phase else ""


def sentence(phase: str, made: list[str], touched: list[TouchedRows], adds: bool) -> str:
    """A step in a sentence or two.

    made: the computed parts.
    adds: whether blocks add to dQ in any order.
    """
    said = [SAID[part] for part in made]
    if "dQ" in made and adds:
        said[made.index("dQ")] = ADDED if "dQ" in _names(touched, "store") else PART
    if made[:2] == ["S", "P"]:
        said[:2] = ["The block computes S = scale · Q Kᵀ once more, and P = e^(S - LSE) without a max."]
    if said:
        return " ".join(said[:2])
    if phase in PHASES:
        return PHASES[phase]
    if part := _ready(phase):
        return f"{part} is complete. The tensor cores had it in work since an earlier step."
    reads, writes = (_names(touched, kind) for kind in ("load", "store"))
    if "dQ" in reads and "dQ" in writes:
        return "The sums of dQ are complete. Another kernel scales them and writes dQ."
    parts = [f"reads {listed(reads)} from global memory"] if reads else []
    parts += [f"writes {listed(writes)} to global memory" + _once(writes, adds)] if writes else []
    return f"The block {listed(parts)}." if parts else f"{phase_title(phase)}: the block moves no data."


def details(
    step: StepRow, queries: Span | None, keys: Span | None, touched: list[TouchedRows], groups: list[list[str]]
) -> str:
    """The exact rows of a step, and the parts that one step of the kernel makes together."""
    where = [f"Block {step.block}", *([step.role] if step.role else []), f"launch {step.launch}"]
    tile = [f"queries {queries[0]} to {queries[1]}"] if queries else []
    tile += [f"keys {keys[0]} to {keys[1]}"] if keys else []
    moved = [f"{t['kind']} {t['part']} {t['rows'][0]} to {t['rows'][1]}" for t in touched]
    said = f"{', '.join([*where, *tile])}: {listed(moved) if moved else 'no access of global memory'}."
    together = [part for made in groups for part in made]
    return said + (f" One step of the kernel makes {listed(together)}." if len(groups) > 1 else "")


def _names(touched: list[TouchedRows], kind: str) -> list[str]:
    return list(dict.fromkeys(t["part"] for t in touched if t["kind"] == kind))


def _once(writes: list[str], adds: bool) -> str:
    return ", once" if set(writes) <= set(GRADIENTS) and not (adds and "dQ" in writes) else ""
