"""A page's link: every choice is in it, and what a link says that is not taken is told on the page."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from kernels.core.fields import write_value


def write(values: Mapping[str, Any]) -> None:
    """Every choice into the page's link, at once: each message to the browser would be a step of its history. `step`
    is the clock's own and stays as it is."""
    now = st.query_params.to_dict()
    wanted = {name: write_value(value) for name, value in values.items()}
    if "step" in now:
        wanted["step"] = now["step"]
    if wanted != now:
        st.query_params.from_dict(wanted)


def ignore(*sentences: str) -> None:
    """Notes what of the link was not taken, to be told by show_ignored."""
    st.session_state.setdefault("ignored", []).extend(sentences)


def show_ignored() -> None:
    """Says once what the link asked for and did not get."""
    ignored = st.session_state.pop("ignored", None)
    st.session_state.setdefault("told", []).extend(ignored or [])
    if ignored:
        said = " ".join(ignored).replace("*", r"\*")
        st.warning(
            f"Some of the link was not understood, and the defaults were taken: {said}", icon=":material/link_off:"
        )


def tell_again() -> None:
    """What this run of the page told is told in the next one too, as this one ends before the page is drawn."""
    ignore(*st.session_state.pop("told", []))


def begin() -> None:
    """Begins a run of a page, which has told nothing yet."""
    st.session_state.told = []
