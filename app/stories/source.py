"""Source: a kernel's CUDA, PTX and SASS side by side, for any build and architecture; needs no GPU."""

from dataclasses import fields

import pandas as pd
import streamlit as st

from app import frame, runs
from app.choices import show_ignored
from app.clock import components
from app.lab_choices import Choice, Page
from kernels.build import DEFAULT_ARCH, Mode
from kernels.catalog import KERNELS
from kernels.errors import WarpglassError

ARCHES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120")
COMPILED = ("head_dim", "head_size", "block_size", "dtype", "width", "layout", "op", "matrices", "space")  # problem fields that a build depends on
MODES = tuple(mode.value for mode in Mode)

page = Page("source", list(KERNELS), first="03_flash", arch=Choice(DEFAULT_ARCH, ARCHES), build=Choice("timed", MODES))
with st.sidebar:
    kernel = page.choose_kernel()
    left, right = st.columns(2)
    left.selectbox("Build", MODES, key=page.key("build"), help="timed: no probes; probed: writes the trace; timeline: notes when each block ran")
    right.selectbox("Architecture", ARCHES, key=page.key("arch"))
    mode, arch = Mode(page.keep("build")), page.keep("arch")
    page.widgets([f.name for f in fields(kernel.problem_type) if f.name in COMPILED])
    page.widgets([c.name for c in kernel.constants])
page.write_url()
st.header("Source", anchor=False)
st.markdown(f"**{kernel.name}** {kernel.title}. {kernel.idea[0].upper()}{kernel.idea[1:]}")
show_ignored()
try:
    problem, settings = page.problem(), page.settings()
    with st.spinner(f"Compiling {kernel.name} for {arch}"):
        listing, checks = runs.listing(kernel, problem, settings, mode, arch)
except WarpglassError as error:
    st.error(f"**This cannot be compiled.** {error}".replace("`", "'"), icon=":material/block:")
    st.stop()
components.source(kernel, listing, f"{kernel.name} {mode.value} {arch} {problem} {settings}")

left, right = st.columns(2, gap="large")
with left:
    st.subheader("Instruction mix", anchor=False)
    rows = [{"kind": kind, "instructions": sum(counts.values()), "opcodes": ", ".join(f"{name} {count}" for name, count in list(counts.items())[:8])}
            for kind, counts in listing.mix.items()]
    st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch")
    st.caption("Counted in the machine code as it stands, not as it runs: an instruction in a loop counts once.")
with right:
    st.subheader("Are the pinned widths what the machine does", anchor=False)
    wrong = [check for check in checks if not check.ok]
    if wrong:
        st.error("; ".join(f"line {c.line} wants {c.wanted} and the machine code has {c.found}" for c in wrong), icon=":material/error:")
    else:
        st.success(f"Yes: all {len(checks)} accesses that this build holds have the width that their source line says.", icon=":material/check_circle:")
    source = kernel.source.splitlines()
    st.dataframe(pd.DataFrame([{"line": c.line, "wanted": c.wanted, "found": ", ".join(f"{name} x {count}" for name, count in c.found.items()),
                                "source": source[c.line - 1].strip()} for c in checks]), hide_index=True, width="stretch")
frame.builds_of(kernel, problem, settings, arch)
frame.labels()
