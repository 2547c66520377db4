"""The frames of the stages of rounding."""

import math

import numpy as np

from explainers.stories.precision.frames import RoundingFrame
from explainers.stories.precision.replay import STAGES, Replay, rms
from explainers.stories.precision.replays import TITLES, short
from explainers.story import picture
from explainers.story.glossary import figure
from kernels.core.dtypes import element_type
from kernels.run.results import Run
from kernels.trace.probes import sites_of

_EVENTS = {
    "scores": ("score",),
    "exponential": ("m", "rescale", "p"),
    "weights": ("p",),
    "sum": ("l",),
    "output": ("o",),
}


def frames_of(run: Run, made: Replay) -> list[RoundingFrame]:
    sites = sites_of(run.request)
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
    row, dim = np.unravel_index(np.argmax(np.abs(np.nan_to_num(made.o[-1], nan=np.inf))), made.exact.shape)
    score, weight, total = (_largest_of_parts(errors) for errors in (made.score, made.weight, made.sum))
    moved = max(made.moved.values())
    low = element_type(taken).bytes <= 2
    said = {
        "exact": f"Float64 from Q, K and V as they were drawn: the RMS of O is {short(rms(made.exact))}. Each step "
        "takes one thing more from the run and leaves the rest to float64.",
        "inputs": f"Q, K and V are rounded to {given}, {element_type(given).digits} bits: an element moves by up to "
        f"{short(moved)}, and with it a score by up to {short(score[1])}."
        if moved
        else f"Q, K and V are {given}, as they were drawn: nothing is rounded.",
        "scores": f"S as logged, products of {made.label} added up in {bits} bits: a score is off by up to "
        f"{short(score[2])}.",
        "exponential": "Weights e^(score - m) and rescale factors as logged: the share of a key in its row is off by "
        f"up to {short(weight[3])}.",
        "weights": f"Weights are rounded to {taken} before they are multiplied with V: a key's share moves by up to "
        f"{short(weight[4])}."
        if low
        else f"Weights are multiplied with V as the {taken} that they are: nothing is rounded.",
        "sum": f"The sum l as logged, added up in 32 bits: it is off by up to {short(total[5])} of itself.",
        "output": f"O as logged: products of weights and V, added up in {bits} bits and rescaled tile by tile.",
        "write": f"O / l is rounded to {written}, {element_type(written).digits} bits, and this is the kernel's own "
        f"O{_ending(made)}. Its largest error is {short(np.abs(made.o[-1][row, dim]))}, in row {made.rows[0] + row}, "
        f"dim {dim}.",
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
        return (
            f"O moves by {short(part)} (RMS), one part in {figure(float(f'{before / part:.2g}'))} of its error by now."
        )
    return f"O moves by {short(part)} (RMS), and its RMS error goes from {short(before)} to {short(after)}."


def _ending(made: Replay) -> str:
    left = float(np.abs(made.left_over).max())
    return "" if left == 0 else f" but for {short(left)}"


def _largest_of_parts(errors: np.ndarray) -> list[float]:
    """The largest change by each stage, from errors so far [stages, ...]."""
    with np.errstate(invalid="ignore"):
        changes = np.abs(np.diff(errors, axis=0, prepend=0.0)).reshape(len(errors), -1)
    present = ~np.isnan(errors[0]).ravel()
    return [float(change[present].max(initial=0.0)) for change in changes]
