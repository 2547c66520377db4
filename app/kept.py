"""What a widget begins at on each page. Streamlit drops a widget's value when its page is left, yet its key is still there when the next page begins:
a widget of the same key there is a new one, and would begin at its first value."""

import streamlit as st


def note_page(name):
    """Which page this run draws, before it draws anything; on another one than in the run before, no widget holds its key yet."""
    if st.session_state.get("page") != name:
        st.session_state.page, st.session_state.held = name, set()


def restore(key, value):
    """Puts a widget's key at the kept value, unless a widget of this page holds it already; the key."""
    held = st.session_state.setdefault("held", set())
    if key not in held or key not in st.session_state:
        st.session_state[key] = value
        held.add(key)
    return key
