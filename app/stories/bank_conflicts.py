"""Bank conflicts: 32 lanes by 32 banks, wavefront by wavefront; the lab's walks, and the attention kernels' own accesses."""

import streamlit as st

from app import frame, runs
from app.choices import show_ignored
from app.lab_choices import Choice, Page
from app.sections import attention_banks, bank_lab
from kernels.catalog import BANKS
from kernels.errors import ProblemError

SECTIONS = {"lab": bank_lab.show, "attention": attention_banks.show}
TITLES = {"lab": "The lab", "attention": "The attention kernels"}

page = Page("banks", [*BANKS, *attention_banks.PADDING], view=Choice("lab", tuple(SECTIONS)), line=Choice(0, None, 0, 10**5))
survey = runs.survey()
st.header("Bank conflicts", anchor=False)
st.markdown("Shared memory is 32 banks wide, 4 bytes each. Lanes of a warp that want different words of one bank wait for one another.")
show_ignored()
view = st.segmented_control("Section", list(TITLES), key=page.key("view"), format_func=TITLES.get, label_visibility="collapsed", required=True)
if page.keep("view") == "lab" and page["kernel"] not in BANKS or view == "attention" and page["kernel"] in BANKS:
    page.change(kernel="lab_columns" if view == "lab" else "03_flash")
try:
    SECTIONS[view](page, survey)
except ProblemError as error:
    page.write_url()
    st.error(f"**This cannot run.** {error}".replace("`", "'"), icon=":material/block:")
frame.labels()
