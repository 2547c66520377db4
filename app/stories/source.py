"""Source: a kernel's CUDA, PTX and SASS side by side, for any build and architecture; needs no GPU."""

import pandas as pd
import streamlit as st

from app import frame, runs
from app.choices.choice import fields_of_build
from app.choices.pages import SOURCE as page
from app.clock import components
from kernels.build import Mode
from kernels.errors import WarpglassError

with st.sidebar:
    kernel = page.choose_kernel()
    left, right = st.columns(2)
    about = "timed: no probes; probed: writes the trace; timeline: notes when each block ran"
    mode, arch = Mode(page.widget("build", left, "Build", help=about)), page.widget("arch", right, "Architecture")
    page.widgets(hidden=set(page.fields(page.state)) - fields_of_build(kernel.problem_type))
page.write_link()
frame.title("Source", kernel)
try:
    problem, settings = page.problem(), tuple(page.settings().items())
    with st.spinner(f"Compiling {kernel.name} for {arch}"):
        listing, checks = runs.listing(kernel, problem, settings, mode, arch)
except WarpglassError as error:
    frame.cannot(error, "This cannot be compiled.")
    st.stop()
components.source(kernel, listing, f"{kernel.name} {mode.value} {arch} {problem} {settings}")

left, right = st.columns(2, gap="large")
with left:
    st.subheader("Instruction mix", anchor=False)
    rows = [
        {
            "kind": kind,
            "instructions": sum(counts.values()),
            "opcodes": ", ".join(f"{name} {count}" for name, count in list(counts.items())[:8]),
        }
        for kind, counts in listing.mix.items()
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch")
    st.caption("Counted in the machine code as it stands, not as it runs: an instruction in a loop counts once.")
with right:
    st.subheader("Are the pinned widths what the machine does", anchor=False)
    wrong = [check for check in checks if not check.ok]
    if wrong:
        said = "; ".join(f"{c.file} line {c.line} wants {c.wanted} and the machine code has {c.found}" for c in wrong)
        st.error(said, icon=":material/error:")
    elif checks:
        said = f"Yes: all {len(checks)} accesses that this build holds have the width that their source line says."
        st.success(said, icon=":material/check_circle:")
    else:
        st.info("This build holds no access whose width a probe states.", icon=":material/info:")
    texts = {name: text.splitlines() for name, text in kernel.files}
    rows = [
        {
            "file": c.file,
            "line": c.line,
            "wanted": c.wanted,
            "found": ", ".join(f"{name} x {count}" for name, count in c.found.items()),
            "source": texts[c.file][c.line - 1].strip(),
        }
        for c in checks
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch")
frame.builds_of(kernel, problem, settings, arch)
frame.labels()
