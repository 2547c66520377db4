"""Every shared access of a kernel that can pad its rows, per source line, padded and not."""

from dataclasses import replace

import streamlit as st

from app import frame, runs
from app.choices import Page, lines
from app.clock import components
from explainers import bank_conflicts
from kernels.core.launch import Constant
from kernels.core.spec import KernelSpec
from kernels.run.backends import Survey


def padding_of(spec: KernelSpec) -> Constant | None:
    """The constant that leaves room after each row of a tile; None if the kernel has none, or if it does no work but to
    show such things."""
    found = next((c for c in spec.constants if c.name.startswith("PAD")), None)
    return found if spec.problem_type().work else None


def show(page: Page, survey: Survey) -> None:
    backend = page.sidebar(survey, kernels=[name for name, spec in page.kernels.items() if padding_of(spec)])
    request = page.request(backend)
    kernel, pad = request.kernel, padding_of(request.kernel)
    assert pad  # the sidebar lists no other kernels
    run = runs.run(request)
    settings = [tuple({**dict(request.settings), pad.name: value}.items()) for value in (0, max(pad.values))]
    plain, padded = (runs.run(replace(request, settings=chosen)) for chosen in settings)
    table = bank_conflicts.compare_padding(plain, padded)
    st.subheader("Wavefronts per request, by source line", anchor=False)
    shown = table.drop(columns=["wavefronts without", "wavefronts with", "file", "line"])
    st.dataframe(shown.round(3), hide_index=True, width="stretch")
    st.info(bank_conflicts.padding_sentence(table), icon=":material/data_usage:")
    st.caption(
        f"Of {request.plan.item} {request.scope.first}: addresses {plain.provenance} on {plain.device}, wavefronts "
        f"derived. {pad.name}, "
        f"{pad.meaning}: 0, or padded {max(pad.values)}, so that neighbouring rows begin in other banks."
    )
    costly = table.loc[table["wavefronts without"].idxmax()]
    at = lines.choose(page, run, lines.logged(run, "shared"), (costly.file, int(costly.line)))
    story = bank_conflicts.explain(run, at)
    page.write_link()
    frame.steps(story.frames, (request, at), kernel, lambda: components.view("banks", bank_conflicts.view(story)))
    st.caption(
        f"Warp 0 of the first block, {pad.name} {request.constants[pad.name]}. Offsets are from the tensor's own base: "
        f"another base turns the "
        "banks, and changes no count."
    )
    frame.badge(run)
