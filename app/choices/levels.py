"""The choice of the memory hierarchy's page: whose figures it shows."""

from typing import Any

from app.choices.asked import Asked, State
from app.choices.choice import Choice
from app.measured import levels
from kernels.core.fields import quoted

OWN = {"source": Choice("", late=True, meaning="whose figures are shown")}


def settle(asked: Asked, state: State) -> list[tuple[str, str]]:
    there = levels.names()
    if not state["source"] or state["source"] in there:
        return []
    said = f"source is {quoted(state['source'])}; here it can be one of {', '.join(there) or 'none'}."
    state["source"] = ""
    return [("source", said)]


def narrowed(asked: Asked, state: State) -> dict[str, dict[str, Any]]:
    there = levels.names()
    options = {name: name for name in there}
    now = state["source"] or next(iter(there), "")
    return {
        "source": {"hidden": len(there) < 2, "kind": "select", "label": "Figures of", "value": now, "options": options}
    }
