"""The steps of the backward in words: one sentence for each, with its reason."""

from typing import NamedTuple

from explainers.models.gradients import GRADIENTS, MARKS, along_keys
from explainers.stories.backward.frames import Span, TouchedRows
from explainers.story.glossary import listed, phase_title
from kernels.trace.steps import StepRow

AGAIN = "because the forward stored LSE but not P"
SAID = {
    "delta": "The block computes delta = rowsum(dO * O) of each query, "
    "because rowsum(P * dP) is equal, but takes a pass over all keys.",
    "S": "The block computes S = scale · Q Kᵀ again, because the forward stored no scores.",
    "P": "The block computes P = exp(S - LSE), because the stored LSE replaces the max and the sum of the softmax.",
    "S and P": "The block computes S = scale · Q Kᵀ and P = exp(S - LSE) again, {again}.",
    "dP": "The block computes dP = dO Vᵀ, the change of the loss with each weight, because O = P V.",
    "dV": "The block adds Pᵀ dO to dV on the chip, because {stay} while {move} change.",
    "dS": "The block computes dS = P * (dP - delta), because a row's weights add up to 1: delta is rowsum(P * dP).",
    "dK": "The block adds dSᵀ Q to dK on the chip, because {stay} while {move} change.",
    "dQ": "The block adds dS K to dQ on the chip, because {stay} while {move} change.",
}
STARTS = {
    "S": "The block starts S = scale · Q Kᵀ of the next tile early, so that the tensor cores have work meanwhile.",
    "dP": "The block starts dP = dO Vᵀ, so that the tensor cores multiply while it computes P.",
    "dV": "The block starts dV += Pᵀ dO, so that the tensor cores multiply while it computes dS.",
    "dK": "The block starts dK += dSᵀ Q, so that the next product can follow without a gap.",
    "dQ": "The block starts dS K, only its part of dQ, because blocks of other keys have the other parts.",
}
DURING = {
    "P": "The block computes P = exp(S - LSE) while {flying} runs, so the tensor cores do not wait for exp.",
    "dS": "The block computes dS = P * (dP - delta) while {flying} runs, so the tensor cores do not wait.",
}
FREE = "the next tile overwrites the {}{} that the product reads"
READS = {"dV": "P", "dK": "dS"}
NEEDS = {
    "S": "P = exp(S - LSE) needs it",
    "dP": "dS = P * (dP - delta) needs it",
    "dQ": "it adds this part to global memory next",
}
ADDED = (
    "The block adds dS K to the sums of dQ in global memory by atomics, because blocks of other keys add there, too."
)
PART = "The block computes dS K, only its part of dQ, because blocks of other keys have the other parts."
TURN = "The block waits for its turn and adds its part of dQ, because a fixed order gives equal bits."
ANY = "The block adds its part to dQ in global memory, in any order, because blocks of other keys add there too."
SUMS = "The block starts the products for dV and dK, and a later step completes both sums."
FIRST = "The block starts S = scale · Q Kᵀ of its first tile, because P and all later steps need it."
UNREAD = "The block starts S once more after the last tile, but no later step reads its numbers."
PARTS = {
    "clear": "The block zeroes its rows of the sums of dQ, because blocks of keys add to them in the next launch.",
    "write_parts": "The block writes its parts of dK and dV in float32, because blocks of other heads have the rest.",
    "add_parts": "The block adds the parts of a sum and writes it, because each came from a block of other heads.",
}
SCALED = (
    "The block multiplies the sums of dQ by scale and writes them, because all blocks have added their parts by now."
)


class Launch(NamedTuple):
    """A launch as its sentences need it.

    number: 1 for the first.
    stays, moves: "keys" and "queries" if each block keeps its keys, else the other way round.
    sums: its gradients that grow on the chip. Empty if it computes none.
    earlier: the number of an earlier launch that computed P, or 0.
    ended: the phases whose products end in a later step.
    weights: the place of P and dS.
    """

    number: int
    stays: str
    moves: str
    sums: list[str]
    earlier: int
    ended: frozenset[str]
    weights: str


class Told(NamedTuple):
    """A step as its sentence needs it.

    made: the computed parts.
    reads, writes: the parts read from and written to global memory.
    flying: the parts whose products run during the step.
    adds, any_order: whether blocks add to dQ, and in any order.
    """

    phase: str
    role: str
    made: list[str]
    reads: list[str]
    writes: list[str]
    flying: list[str]
    adds: bool
    any_order: bool


def title(step: StepRow, told: Told, launch: Launch) -> str:
    """A few words for the clock: the tile, and the parts made or written in the step."""
    tile = f"{_one(launch.moves).title()} tile {step.tile} · " if step.tile >= 0 and launch.sums else ""
    if told.made:
        return tile + listed(told.made)
    if part := ready(told.phase):
        return f"{tile}{part} ready"
    if told.phase in MARKS:
        return f"{tile}{MARKS[told.phase]} starts"
    if told.writes and told.phase not in PARTS:
        return f"{tile}Write {listed(told.writes)}"
    return tile + (f"Read {listed(told.reads)}" if told.reads else phase_title(told.phase))


def ready(phase: str) -> str:
    """The part whose products a step waits for, or an empty text."""
    name = phase.removesuffix("_done")
    return MARKS.get(name, "") if name != phase else ""


def sentence(told: Told, launch: Launch) -> str:
    """A step in a sentence: what the block does, and why."""
    if told.made:
        return _made(told, launch)
    if told.phase in PARTS:
        return PARTS[told.phase]
    if told.phase == "add":
        return ANY if told.any_order else TURN
    if told.phase == "key_value_sums":
        return SUMS
    if part := ready(told.phase):
        return f"The block waits for {part} from the tensor cores, because {_needs(part, launch)}."
    if begun := MARKS.get(told.phase):
        return f"The block starts the product for {begun}, and a later step shows its numbers."
    if told.writes:
        return _written(told)
    if told.reads:
        return _read(told, launch)
    return f"{phase_title(told.phase)}: the block moves no data."


def _needs(part: str, launch: Launch) -> str:
    """Why the block waits for the products of a part. It names registers only if the trace has the part there."""
    if part in READS:
        return FREE.format("registers of " if launch.weights == "registers" else "", READS[part])
    return NEEDS.get(part, "a later step needs it")


def _made(told: Told, launch: Launch) -> str:
    """The sentence of the last computed part. S and P have one together."""
    part = "S and P" if told.made[:2] == ["S", "P"] else told.made[-1]
    if f"{told.phase}_done" in launch.ended and part in STARTS:
        return STARTS[part]
    if part == "dQ" and told.adds:
        return ADDED if "dQ" in told.writes else PART
    if told.flying and part in DURING:
        return DURING[part].format(flying=f"the product for {listed(told.flying)}")
    again = f"because launch {launch.earlier} stored neither" if launch.earlier else AGAIN
    return SAID[part].format(again=again, stay=f"its {launch.stays} stay", move=f"the {launch.moves}")


def _written(told: Told) -> str:
    if "dQ" in told.writes and told.adds:
        return SCALED
    names = [part for part in told.writes if part not in ("dK", "dQ")]
    names += [f"{part} times scale" for part in told.writes if part in ("dK", "dQ")]
    if not set(told.writes) <= set(GRADIENTS):
        return f"The block writes {listed(names)} to global memory."
    return f"The block writes {listed(names)} to global memory once, because no other block has a part of these rows."


def _read(told: Told, launch: Launch) -> str:
    who, names, one = told.role or "block", listed(told.reads), _one(launch.moves)
    if ("keys" if along_keys(told.reads[0]) else "queries") == launch.stays:
        whose = "the block's" if told.role else "its"
        return (
            f"The {who} reads {names} into shared memory once, because {whose} {launch.stays} stay for the whole "
            f"loop over {launch.moves}."
        )
    if told.role or told.phase.startswith("prefetch"):
        return f"The {who} requests {names} of a {one} tile early, so that the copy runs during the products."
    why = f", because each {one} tile adds to {listed(launch.sums)}" if launch.sums else ""
    return f"The {who} reads {names} of a {one} tile into shared memory{why}."


def _one(rows: str) -> str:
    return {"queries": "query", "keys": "key"}[rows]


def details(
    step: StepRow, launch: str, tile: tuple[Span | None, Span | None], touched: list[TouchedRows], made: list[str]
) -> str:
    """The exact rows of a step, and the parts that one step of the kernel makes together.

    launch: its name.
    tile: queries and keys.
    made: all parts of the kernel's step, if it has several frames.
    """
    where = [launch, f"block {step.block}", *([step.role] if step.role else [])]
    where += [f"{name} {span[0]} to {span[1]}" for name, span in zip(("queries", "keys"), tile) if span]
    moved = [f"{t['kind']} {t['part']} {t['rows'][0]} to {t['rows'][1]}{t['label']}" for t in touched]
    said = f"{', '.join(where)}: {listed(moved) if moved else 'no access of global memory'}."
    return said + (f" One step of the kernel makes {listed(made)}." if made else "")
