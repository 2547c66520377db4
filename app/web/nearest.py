"""The nearest choice that can run, for a page that cannot."""

from collections.abc import Callable, Iterator

from app.choices.choice import Choice
from app.choices.page import Page, State
from kernels.core.fields import write_value
from kernels.errors import WarpglassError

QUICK = 1.0  # seconds that a proposal may take on the CPU. A slower one is the second choice
MOST = 80  # states that are tried


def offer(page: Page, state: State, seconds: Callable[[State], float]) -> dict[str, object] | None:
    """A change of one choice with which the page can run: {text, label, set: (choice, value)}, or None.

    seconds: of a state, estimated. Raises WarpglassError if the state cannot run.
    """
    slower, tried = None, 0
    for name, value in _candidates(page, state):
        tried += 1
        if tried > MOST:
            break
        other = {**state, name: value}
        try:
            page.correct(page, other)
            takes = seconds(other)
        except WarpglassError:
            continue
        if other[name] != value:
            continue
        if takes <= QUICK:
            return _said(name, value)
        slower = slower or _said(name, value)
    return slower


def _said(name: str, value: object) -> dict[str, object]:
    text = write_value(value)
    return {"text": f"{name} {text} can run here.", "label": f"Use {name} {text}", "set": (name, text)}


def _candidates(page: Page, state: State) -> Iterator[tuple[str, object]]:
    """(choice, value) with the choices of the reader first, and for each the nearest value first."""
    if not page.kernels:
        return
    choices = {
        name: choice
        for side in page.sides
        for name, choice in {**page.fields(state, side), **page.constants(state, side)}.items()
        if name in state
    }
    chosen = [name for name, choice in choices.items() if state[name] != choice.default]
    for name in [*chosen, *(name for name in choices if name not in chosen)]:
        for value in _near(choices[name], state[name]):
            yield name, value


def _near(choice: Choice, value: object) -> list[object]:
    """Other values of a choice, the nearest first: the allowed ones, or halves down to the default."""
    if choice.allowed is not None:
        others = [other for other in choice.allowed if other != value]
        if isinstance(value, (int, float)):
            others.sort(key=lambda other: abs(other - value))
        return others
    if isinstance(value, bool) or not isinstance(value, int):
        return [choice.default] if value != choice.default else []
    least = max(1, int(choice.low or 1))
    halves: list[object] = []
    while value // 2 >= least:
        value //= 2
        halves.append(value)
    return halves
