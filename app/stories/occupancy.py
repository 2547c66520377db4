"""Occupancy: how many blocks a multiprocessor holds, from the real cubin; and the timeline of a grid, a lane for each multiprocessor."""

from dataclasses import fields

import streamlit as st

from app import frame, runs
from app.choices import show_ignored
from app.lab_choices import Choice, Page
from explainers import occupancy
from kernels import counters, measurements
from kernels.build import DEFAULT_ARCH
from kernels.catalog import KERNELS
from kernels.errors import WarpglassError
from kernels.execute import Request
from kernels.occupancy import MACHINES, TILES, machine

ARCHES = tuple(f"{arch}a" if arch in ("sm_90", "sm_100", "sm_120") else arch for arch in MACHINES)
TITLES = {"occupancy": "Occupancy", "timeline": "Timeline"}


def show_occupancy(page, gpu):
    with st.sidebar:
        kernel = page.choose_kernel()
        st.selectbox("Architecture", ARCHES, key=page.key("arch"), format_func=lambda arch: f"{arch} ({machine(arch).gpu})")
        arch = page.keep("arch")
        page.widgets([f.name for f in fields(kernel.problem_type) if f.name != "seed"])
        page.widgets([c.name for c in kernel.constants])
    problem, settings = page.problem(), page.settings()
    on = machine(arch)
    here = gpu and gpu.target == arch
    count, name = (gpu.multiprocessors, gpu.name) if here else (on.multiprocessors, f"{'an' if on.gpu[0] in 'AHLR' else 'a'} {on.gpu}")
    page.write_url()
    found = runs.occupancy(kernel, problem, settings, arch, count)
    for launch in found:
        (st.info if launch.blocks else st.error)(occupancy.sentence(launch, on, count, name), icon=":material/memory:")
    left, right = st.columns([2, 3], gap="large")
    with left:
        st.altair_chart(occupancy.limits_chart(found), key="limits", width="stretch", alt="Blocks per multiprocessor that each resource allows")
    with right:
        st.dataframe(occupancy.launches_table(found).set_index("kernel").T.astype(str), width="stretch", height="content")
    st.caption(f"Derived from the registers and shared bytes of the timed build's cubin for {arch}, and the limits of its multiprocessor: {on.warps} warps, "
               f"{on.blocks} blocks, 65,536 registers, {on.shared_bytes // 1024} KiB of shared memory. The grid is not launched for this. {_checked()}")
    if any(c.name in TILES for c in kernel.constants):
        st.subheader("What another tile size would give", anchor=False)
        with st.spinner("Compiling the other tile sizes"):
            others = runs.alternatives(kernel, problem, settings, arch, count)
        st.dataframe(occupancy.alternatives_table(others, dict(settings)), hide_index=True, width="stretch")
        st.caption("Each is a build of its own, compiled for this table. Of a kernel with several launches, the one with the most blocks.")


def _checked():
    """What is known of how right the derivation is."""
    table, where = measurements.recorded_table(counters.OCCUPANCY)
    return (f"Compared with the driver's own figure on an {where['device']}, {where['date']}: equal in {int((table.derived == table.driver).sum())} of "
            f"{len(table)} launches, of every kernel.")


def show_timeline(page, gpu, backend):
    with st.sidebar:
        if backend == "gpu":
            kernel = page.choose_kernel()
            page.widgets([f.name for f in fields(kernel.problem_type) if f.name != "seed"])
            page.widgets([c.name for c in kernel.constants])
            request = page.request("gpu")
        else:
            entries = list(measurements.timeline_index().values())
            said = ("seq_len", "causal", "context_lens")
            names = [f"{e['kernel']}: " + ", ".join(f"{k} {v}" for k, v in e["problem"].items() if k in said) for e in entries]
            page.state["recorded"] = min(page["recorded"], len(entries) - 1)
            st.selectbox("Recorded timeline", range(len(entries)), key=page.key("recorded"), format_func=names.__getitem__)
            entry = entries[page.keep("recorded")]
            kernel = KERNELS[entry["kernel"]]
            problem = kernel.problem_type(**entry["problem"])
            request = Request(kernel, problem, tuple(entry["settings"].items()), backend="recorded")
    page.write_url()
    found = runs.timeline(request)
    facts = occupancy.timeline_facts(found)
    st.info(occupancy.timeline_sentence(found, facts), icon=":material/timeline:")
    every = found.multiprocessors
    shown = st.segmented_control("Multiprocessors shown", (8, 32, every), default=every, required=True)
    st.altair_chart(occupancy.timeline_chart(found, shown), key="timeline", width="stretch", alt="When each block ran, on a lane for each multiprocessor")
    st.altair_chart(occupancy.running_chart(found), key="running", width="stretch", alt="Blocks running at each moment")
    st.badge(found.provenance, color=frame.BADGE_COLOURS[found.provenance])
    st.caption(f"{found.provenance.capitalize()} on {found.device}, {found.date}: {kernel.name}, {request.problem.size}. Each block's first thread noted its "
               "multiprocessor and the GPU's global timer (in steps of 32 ns) where its probes would begin and at its end, in a build of its own: not a "
               "kernel's time. Launches follow one another.")


page = Page("occupancy", list(KERNELS), first="03_flash", begin={"seq_len": 4096, "head_dim": 64, "heads": 8}, view=Choice("occupancy", tuple(TITLES)),
            arch=Choice(DEFAULT_ARCH, ARCHES), recorded=Choice(2, None, 0, 1000))
survey = runs.survey()
st.header("Occupancy", anchor=False)
st.markdown("How many blocks a multiprocessor holds at once, what stops it from holding more, and when and where the blocks of a grid then ran.")
show_ignored()
view = st.segmented_control("Section", list(TITLES), key=page.key("view"), format_func=TITLES.get, label_visibility="collapsed", required=True)
page.keep("view")
try:
    if view == "occupancy":
        show_occupancy(page, survey.devices.get("gpu"))
    else:
        with st.sidebar:
            chosen = page.choose_backend(survey)
        show_timeline(page, survey.devices.get("gpu"), chosen)
except WarpglassError as error:
    page.write_url()
    st.error(f"**This cannot be shown.** {error}".replace("`", "'"), icon=":material/block:")
frame.labels()
