"""The choice of the memory hierarchy's page: whose figures it shows."""

from app.choices.choice import Choice
from app.choices.page import Correction, Descriptions, Page, State
from app.measured import levels
from kernels.core.fields import quoted

OWN = {"source": Choice("", late=True, meaning="whose figures are shown")}


def correct(page: Page, state: State) -> list[Correction]:
    names = levels.names()
    if not state["source"] or state["source"] in names:
        return []
    said = f"source is {quoted(state['source'])}. Here it can be one of {', '.join(names) or 'none'}."
    state["source"] = ""
    return [Correction("source", said)]


def describe(page: Page, state: State) -> Descriptions:
    names = levels.names()
    options = {name: name for name in names}
    now = state["source"] or next(iter(names), "")
    return {
        "source": {"hidden": len(names) < 2, "kind": "select", "label": "Figures of", "value": now, "options": options}
    }
