"""The frames of the stages of rounding."""

import math

import numpy as np

from explainers.stories.precision.frames import RoundingFrame
from explainers.stories.precision.replay import STAGES, Replay
from explainers.stories.precision.replays import TITLES, short
from explainers.story import picture
from kernels.core.dtypes import element_type
from kernels.run.results import Run

PERCENTS = 0.01, 0.1, 1, 2  # of an error: the limits of a small change
_EVENTS = {
    "scores": ("score",),
    "exponential": ("m", "rescale", "p"),
    "weights": ("p",),
    "sum": ("l",),
    "output": ("o",),
}


def frames_of(run: Run, made: Replay) -> list[RoundingFrame]:
    sites = run.sites
    counts = np.bincount(sites.index(run.trace.table), minlength=len(sites))
    by_event: dict[str, dict[str, int]] = {}
    symbols = {place: symbol for symbol, place in picture.places(run.request).items()}
    for site, times in zip(sites, counts.tolist()):
        moved = site.kind == "access" and site.space == "global"
        name = site.event if site.kind == "value" else f"{site.tensor}" if moved else ""
        if name and times:
            by_event.setdefault(name, {})[site.place] = times
    events = _EVENTS | {"inputs": tuple(symbols[place] for place in "QKV"), "write": (symbols["O"],)}
    said = _sentences(made)
    parts, so_far, shares = made.sizes.tolist(), made.so_far.tolist(), made.shares.tolist()
    return [
        {
            "tile": -1,
            "title": TITLES[name],
            "phase": name,
            "sentence": said[name],
            "lines": {place: n for event in events.get(name, ()) for place, n in by_event.get(event, {}).items()},
            "part": parts[number],
            "so_far": so_far[number],
            "share": shares[number],
        }
        for number, name in enumerate(STAGES)
    ]


def _sentences(made: Replay) -> dict[str, str]:
    """A sentence for each stage: its input from the run, its error, and its effect on O."""
    request = made.request
    given, taken, written = (picture.tensor_at(request, place).dtype for place in "QVO")
    bits = request.value_of("sum_bits") or 32
    row, _ = np.unravel_index(np.argmax(np.abs(np.nan_to_num(made.o[-1], nan=np.inf))), made.exact.shape)
    score, weight, total = (_largest_of_parts(errors) for errors in (made.score, made.weight, made.sum))
    moved = max(made.moved.values())
    low = element_type(taken).bytes <= 2
    said = {
        "exact": "We start from an exact float64 result. Each next step swaps in one kind of the kernel's rounded "
        "numbers.",
        "inputs": f"Q, K and V are rounded to {given}. An element moves by up to {short(moved)}, and a score by up to "
        f"{short(score[1])}."
        if moved
        else f"Q, K and V are {given} already. Nothing is rounded.",
        "scores": f"The scores now come from the kernel. They are off by up to {short(score[2])}.",
        "exponential": f"The weights now come from the kernel. A key's share of its row is off by up to "
        f"{short(weight[3])}.",
        "weights": f"The kernel rounds its weights to {taken} for the tensor cores. A key's share moves by up to "
        f"{short(weight[4])}."
        if low
        else f"The kernel keeps its weights in {taken}. Nothing is rounded.",
        "sum": f"The sum l now comes from the kernel. It is off by up to {short(total[5])} of itself.",
        "output": f"The products of weights and V now come from the kernel, added in {bits} bits.",
        "write": f"The kernel divides O by l and rounds it to {written}{_ending(made)}. The largest error is "
        f"{short(np.abs(made.o[-1][row]).max())}, in row {made.rows[0] + row}.",
    }
    parts, so_far = made.sizes, made.so_far
    for number, name in enumerate(STAGES[1:], 1):
        said[name] += f" {_told(parts[number], so_far[number - 1], so_far[number])}"
    return said


def _told(part: float, before: float, after: float) -> str:
    """The effect of a stage on O's error."""
    if not math.isfinite(after):
        return "From here on O holds NaN or infinity." if math.isfinite(before) else "O stays NaN or infinite."
    if not part:
        return f"O's RMS error stays {short(after)}."
    if part < 0.02 * before:
        percent = next(limit for limit in PERCENTS if 100 * part < limit * before)
        return f"O hardly moves: its error changes by less than {percent}%."
    return f"O's RMS error goes from {short(before)} to {short(after)}."


def _ending(made: Replay) -> str:
    left = float(np.abs(made.left_over).max())
    return "" if left == 0 else f" but for {short(left)}"


def _largest_of_parts(errors: np.ndarray) -> list[float]:
    """The largest change by each stage, from errors so far [stages, ...]."""
    with np.errstate(invalid="ignore"):
        changes = np.abs(np.diff(errors, axis=0, prepend=0.0)).reshape(len(errors), -1)
    present = ~np.isnan(errors[0]).ravel()
    return [float(change[present].max(initial=0.0)) for change in changes]
