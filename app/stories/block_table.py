"""Block table: a KV cache in pages, and the kernels that find their way through it."""

import streamlit as st

from app import cache_choices, frame, runs
from app.cache_choices import VIEWS
from app.choices import show_ignored
from app.sections import cache, heads, partitions, walk
from kernels.errors import ProblemError

SECTIONS = {"cache": cache.show, "walk": walk.show, "partitions": partitions.show, "heads": heads.show}

survey = runs.survey()
try:
    chosen = cache_choices.sidebar(survey)
except ProblemError as error:
    st.header("Block table", anchor=False)
    st.error(f"**These events cannot be played.** {error}", icon=":material/block:")
    if st.button("Start again"):
        cache_choices.change(**cache_choices.defaults())
    st.stop()

st.header("Block table", anchor=False)
st.markdown(f"**{chosen.scenario.title}.** {chosen.scenario.about}")
show_ignored()
view = st.segmented_control("Section", list(VIEWS), key=cache_choices.PREFIX + "view", format_func=VIEWS.get, label_visibility="collapsed", required=True)
SECTIONS[view](chosen, survey)
frame.labels()
