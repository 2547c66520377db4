"""Bank conflicts: 32 lanes by 32 banks, wavefront by wavefront; the lab's walks, and any kernel's own accesses."""

import streamlit as st

from app import frame, runs
from app.choices import show_ignored
from app.choices.pages import BANKS as page
from app.sections import bank_lab, padding
from kernels.errors import WarpglassError

SECTIONS = {"lab": bank_lab.show, "attention": padding.show}
TITLES = {"lab": "Access by access", "attention": "Padded or not"}

survey = runs.survey()
st.header("Bank conflicts", anchor=False)
st.markdown(
    "Shared memory is 32 banks wide, 4 bytes each. Lanes of a warp that want different words of one bank wait for one "
    "another."
)
view = page.segments("view", TITLES)
show_ignored()
try:
    SECTIONS[view](page, survey)
except WarpglassError as error:
    page.write_link()
    frame.cannot(error)
frame.labels()
