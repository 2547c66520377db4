"""The start page: what this is, which device was found and why, and the way into the stories."""

import streamlit as st

from app import runs
from app.stories import PAGES
from kernels.catalog import KERNELS
from kernels.run.backends import NAMES

PER_ROW = 4

survey = runs.survey()
st.title("Warpglass", anchor=False)
st.markdown("#### Watch real CUDA attention kernels run, one step at a time.")
st.markdown(
    "Warpglass compiles the kernels beside each picture, runs them, and shows what they did: the tile a block works "
    "on, the running max "
    "and sum of the online softmax, the bytes it all costs, the banks and sectors it touches. Every number comes from "
    "a run "
    "of the source you see."
)

for first in range(0, len(PAGES), PER_ROW):
    for column, (path, title, text) in zip(st.columns(PER_ROW, gap="medium"), PAGES[first : first + PER_ROW]):
        with column.container(border=True, height="stretch"):
            st.subheader(title, anchor=False)
            st.markdown(text)
            st.page_link(path, label=f"Open {title.lower()}", icon=":material/play_circle:")

picked = survey.pick()
titles = {"gpu": "GPU", "cpu": "CPU", "recorded": "Recordings"}
with st.container(border=True):
    st.markdown(f"**Runs go to: {picked.name}** ({titles[picked.backend]}, {picked.driver or picked.target})")
    for name in NAMES:
        if name in survey.devices:
            st.markdown(f":material/check_circle: **{titles[name]}**: {survey.devices[name].name}")
        else:
            st.markdown(f":material/cancel: **{titles[name]}**: {survey.reasons[name]}")
st.caption(
    "Kernels: "
    + "; ".join(f"{spec.name} ({spec.title})" for spec in KERNELS.values())
    + ". Keys on the story pages: Space plays and pauses, Left and Right step, Shift+Left and Shift+Right go a tile, "
    "Home and End go to the ends."
)
