"""Block table: a KV cache in pages, and the kernels that find their way through it."""

import streamlit as st

from app import frame, runs
from app.choices import cache as choices
from app.choices import show_ignored
from app.choices.pages import BLOCK_TABLE as page
from app.sections import cache, heads, partitions, walk
from kernels.errors import ProblemError

SECTIONS = {"cache": cache.show, "walk": walk.show, "partitions": partitions.show, "heads": heads.show}

survey = runs.survey()
try:
    chosen = choices.sidebar(page, survey)
except ProblemError as error:
    st.header("Block table", anchor=False)
    frame.cannot(error, "These events cannot be played.")
    if st.button("Start again"):
        page.change(**page.read_link({})[0])
    st.stop()

st.header("Block table", anchor=False)
st.markdown(f"**{chosen.scenario.title}.** {chosen.scenario.about}")
show_ignored()
view = page.segments("view", choices.VIEWS)
SECTIONS[view](chosen, survey)
frame.labels()
