"""What a widget begins at on each page. Streamlit drops a widget's value when its page is left, yet its key is still
there when the next page begins: a widget of the same key there is a new one, and would begin at its first value."""

from typing import Any

import streamlit as st


def note_page(name: str) -> None:
    """Which page this run draws, before it draws anything. On another one than in the run before, no widget holds its
    key yet."""
    if st.session_state.get("kept_page") != name:
        st.session_state.kept_page, st.session_state.kept_keys = name, set()


def restore(key: str, value: Any) -> str:
    """Puts a widget's key at the kept value, unless a widget of this page holds it already. Returns the key."""
    held = st.session_state.setdefault("kept_keys", set())
    if key not in held or key not in st.session_state:
        st.session_state[key] = value
        held.add(key)
    return key


def forget(*keys: str) -> None:
    """The widgets of these keys begin anew at what is kept, in this run or the next."""
    for key in keys:
        st.session_state.pop(key, None)
