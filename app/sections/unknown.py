"""What a story has no view of: the tensors and values of a kernel that it does not know, in the generic view,
folded."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st

from app.clock import components
from explainers import generic, online_softmax, tiling
from explainers.generic import Generic
from kernels.run.results import Run

KNOWN_VALUES = {*tiling.WANTS, *online_softmax.WANTS}


def show(run: Run, steps: int) -> None:
    """The tensors and values that the tiling and online softmax stories have no place for; nothing if there are none.
    steps: frames of the page's clock; if they are not the trace's own, the view shows what the run left."""
    story = generic.explain(run)
    odd = _only(
        story,
        {t["symbol"] for t in story.tensors} - set(tiling.places(run.request)),
        {v["event"] for v in story.values} - KNOWN_VALUES,
    )
    if not odd.tensors and not odd.values:
        return
    if steps != len(odd.frames):
        still = {name: np.zeros_like(array) if name.endswith("_step") else array for name, array in odd.columns.items()}
        odd = replace(odd, frames=[odd.frames[-1]] * steps, columns=still)
    names = ", ".join([*(t["name"] for t in odd.tensors), *(v["event"] for v in odd.values)])
    with st.expander(f"Beside this story: {names}"):
        st.caption("What this kernel has and no view of this page knows: tensors by their axes, values by their keys.")
        components.view("tensors", *generic.view(odd))


def _only(story: Generic, symbols: Collection[str], events: Collection[str]) -> Generic:
    """The story with these tensors and values alone, its columns numbered anew."""
    tensors = [n for n, t in enumerate(story.tensors) if t["symbol"] in symbols]
    values = [n for n, v in enumerate(story.values) if v["event"] in events]
    columns = {f"tensor_{at}": story.columns[f"tensor_{n}"] for at, n in enumerate(tensors)}
    columns |= {
        f"value_{at}{end}": story.columns[f"value_{n}{end}"]
        for at, n in enumerate(values)
        for end in ("", "_step", "_cell")
    }
    names = {story.tensors[n]["name"] for n in tensors}
    frames: Any = [
        {
            **f,
            "touched": [t for t in f["touched"] if t["tensor"] in names],
            "logged": [v for v in f["logged"] if v["event"] in events],
        }
        for f in story.frames
    ]
    return Generic(frames, [story.tensors[n] for n in tensors], [story.values[n] for n in values], columns)
