"""Occupancy: how many blocks a multiprocessor holds, from the real cubin; and the timeline of a grid, a lane for each
multiprocessor."""

import streamlit as st

from app import frame, runs
from app.choices import show_ignored
from app.choices.pages import OCCUPANCY as page
from explainers import occupancy
from kernels.build.occupancy import block_constants, machine
from kernels.core.request import Request
from kernels.errors import WarpglassError
from kernels.memory import counters
from kernels.timing import timelines

TITLES = {"occupancy": "Occupancy", "timeline": "Timeline"}
UNSEEN = ("seed", "score_scale")  # fields that decide what is computed, and nothing of how


def show_occupancy() -> None:
    gpu = survey.devices.get("gpu")
    with st.sidebar:
        kernel = page.choose_kernel()
        arch = page.widget("arch", st, "Architecture", format_func=lambda arch: f"{arch} ({machine(arch).gpu})")
        page.widgets(hidden=UNSEEN)
    page.write_link()
    problem, settings, on = page.problem(), tuple(page.settings().items()), machine(arch)
    well_known = on.multiprocessors, f"{'an' if on.gpu[0] in 'AHLR' else 'a'} {on.gpu}"
    count, name = (gpu.multiprocessors, gpu.name) if gpu and gpu.target == arch else well_known
    found = runs.occupancy(kernel, problem, settings, arch, count)
    for launch in found:
        (st.info if launch.blocks else st.error)(occupancy.sentence(launch, on, count, name), icon=":material/memory:")
    left, right = st.columns([2, 3], gap="large")
    with left:
        about = "Blocks per multiprocessor that each resource allows"
        st.altair_chart(occupancy.limits_chart(found), key="limits", width="stretch", alt=about)
    with right:
        st.dataframe(
            occupancy.launches_table(found).set_index("kernel").T.astype(str), width="stretch", height="content"
        )
    st.caption(
        f"Derived from the registers and shared bytes of the timed build's cubin for {arch}, and the limits of its "
        f"multiprocessor: {on.warps} warps, "
        f"{on.blocks} blocks, 65,536 registers, {on.shared_bytes // 1024} KiB of shared memory. The grid is not "
        f"launched for this. {checked()}"
    )
    if block_constants(kernel):
        st.subheader("What another tile size would give", anchor=False)
        with st.spinner("Compiling the other tile sizes"):
            others = runs.alternatives(kernel, problem, settings, arch, count)
        st.dataframe(occupancy.alternatives_table(others, dict(settings)), hide_index=True, width="stretch")
        st.caption(
            "Each is a build of its own, compiled for this table. Of a kernel with several launches, the one with the "
            "most blocks."
        )


def checked() -> str:
    """What is known of how right the derivation is."""
    for table, where in counters.recorded_occupancies():
        same = int((table.derived == table.driver).sum())
        place = f"on {where.device}, {where.date}"
        return f"Compared with the driver's own figure {place}: equal in {same} of {len(table)} launches."
    return "No comparison with the driver's own figure is recorded."


def show_timeline() -> None:
    request = timeline_request()
    if not request:
        reasons = " ".join(timelines.left_out()) or "Make one on a GPU with python -m kernels measure timelines."
        st.info(f"No timeline of the present code is recorded. {reasons}", icon=":material/info:")
        return
    found = runs.timeline(request)
    st.info(occupancy.timeline_sentence(found, occupancy.timeline_facts(found)), icon=":material/timeline:")
    every = found.multiprocessors
    shown = st.segmented_control("Multiprocessors shown", (8, 32, every), default=every, required=True)
    about = "When each block ran, on a lane for each multiprocessor"
    st.altair_chart(occupancy.timeline_chart(found, shown), key="timeline", width="stretch", alt=about)
    st.altair_chart(occupancy.running_chart(found), key="running", width="stretch", alt="Blocks running at each moment")
    st.badge(found.provenance, color=frame.BADGE_COLOURS[found.provenance])
    st.caption(
        f"{found.provenance.capitalize()} on {found.device}, {found.date}: {request.kernel.name}, "
        f"{request.problem.size}. Each block's first "
        "thread noted its multiprocessor and the GPU's global timer (in steps of 32 ns) where its probes would begin "
        "and at its end, in a build "
        "of its own: not a kernel's time. Launches follow one another."
    )


def timeline_request() -> Request | None:
    """The sidebar of the timeline, and whose is asked for: any kernel's on a GPU, else one of those recorded; None if
    there is none."""
    with st.sidebar:
        if page.choose_backend(survey) == "gpu":
            page.choose_kernel()
            page.widgets(hidden=UNSEEN)
            page.write_link()
            return page.request("gpu")
        entries = timelines.recorded()
        if entries:
            page.state["recorded"] = min(page["recorded"], len(entries) - 1)
            page.widget(
                "recorded", st, "Recorded timeline", options=range(len(entries)), format_func=lambda n: entries[n].label
            )
    page.write_link()
    return entries[page["recorded"]].request if entries else None


survey = runs.survey()
st.header("Occupancy", anchor=False)
st.markdown(
    "How many blocks a multiprocessor holds at once, what stops it from holding more, and when and where the blocks of "
    "a grid then ran."
)
view = page.segments("view", TITLES)
show_ignored()
try:
    (show_occupancy if view == "occupancy" else show_timeline)()
except WarpglassError as error:
    page.write_link()
    frame.cannot(error, "This cannot be shown.")
frame.labels()
