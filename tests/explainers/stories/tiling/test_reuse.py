"""How often the query tile is read, held against the trace's own records."""

import numpy as np
import pytest
from conftest import of_fp32, small_tiles

from explainers.models import tiling
from explainers.stories.tiling import reuse
from explainers.story import encoding
from kernels.core.scope import Scope
from kernels.families.dense.problem import DenseProblem
from kernels.trace import steps
from kernels.trace.probes import sites_of

DENSE = of_fp32(tiling)
CASES = {
    "whole": (DenseProblem(), Scope(1), 16, 32),
    "causal and ragged": (DenseProblem(seq_len=50, causal=True), Scope(3), 48, 50),
    "wide": (DenseProblem(seq_len=40, head_dim=64), Scope(0), 0, 16),
}


def made_of(run):
    return reuse.explain(run, tiling.view(run, tiling.explain(run))[0])


def counted(run, row0, end):
    """[steps of the trace, rows, dims]: how often each element of Q is read, from the offsets alone."""
    width, settings = run.request.problem.head_dim, run.request.constants
    cut = steps.cut(run.trace, sites_of(run.request))
    frame = run.trace.frame().assign(step=cut.of_record)
    frame = frame[(frame.step >= 0) & (frame.tensor == "Q") & frame.event.isin(["load", "ldmatrix"])]
    shared = frame[frame.space == "shared"]
    found = np.zeros((len(cut.table), end - row0, width), int)
    if shared.empty:  # Q is read where it lies, of head 0
        for step, offset, size in zip(frame.step, frame.offset, frame.bytes):
            for element in range(int(offset) // 4, (int(offset) + int(size)) // 4):
                found[step, element // width - row0, element % width] += 1
        return found
    item = 2 if (shared.event == "ldmatrix").any() else 4  # Q in three parts of bfloat16, or as it is
    stride = width + settings.get("PAD", 0) + settings.get("PAD_QK", 0)
    for step, offset, size in zip(shared.step, shared.offset, shared.bytes):
        for at in range(int(offset) // item, (int(offset) + int(size)) // item):
            row, dim = divmod(at, stride)
            if row < end - row0 and dim < width:  # the first of the parts; rows beyond the last query hold no element
                found[step, row, dim] += 1
    return found


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", DENSE)
def test_every_read_of_an_element_of_q_is_counted_once(cpu_run, name, case):
    problem, scope, row0, end = CASES[case]
    run = cpu_run(name, problem, small_tiles(name), scope)
    made, truth = made_of(run), counted(run, row0, end)
    assert made.steps == [n for n in range(len(truth)) if truth[n].any()] and truth.sum() > 0
    assert (made.least == truth[made.steps].min(2)).all() and (made.most == truth[made.steps].max(2)).all()
    so_far = truth[made.steps].cumsum(0)
    assert (made.so_far[0] == so_far.min(2)).all() and (made.so_far[1] == so_far.max(2)).all()
    assert made.read.tolist() == truth.sum((1, 2)).cumsum().tolist()
    frame = run.trace.frame()
    fetched = frame[(frame.space == "global") & (frame.tensor == "Q") & (frame.event == "load")].bytes.sum()
    assert made.fetched[-1] == fetched


def test_the_words_have_the_numbers_of_both_memories(cpu_run):
    flash = made_of(cpu_run("03_flash", DenseProblem(), small_tiles("03_flash"), Scope(1)))
    assert reuse.sentence(flash, 0) == "No lane has read Q yet. The block has fetched 2,048 bytes from global memory."
    assert reuse.sentence(flash, len(flash.read) - 1) == (
        "The lanes read each element of Q 64 times from shared memory. The block fetched only 2,048 bytes from global "
        "memory. It would fetch 131,072 without the copy."
    )
    naive = made_of(cpu_run("01_naive", DenseProblem(seq_len=50, causal=True), small_tiles("01_naive"), Scope(3)))
    assert reuse.sentence(naive, len(naive.read) - 1) == (
        "The lanes read each element of Q 49 to 50 times, always from global memory: 12,672 bytes."
    )


def test_the_picture_is_small_and_says_each_step(cpu_run):
    run = cpu_run("03_flash", DenseProblem(), small_tiles("03_flash"))
    story = tiling.explain(run)
    (view,) = reuse.views(run, tiling.view(run, story)[0])
    assert (view.kind, view.id) == ("reuse", "reuse") and len(view.meta["said"]) == len(story.frames)
    assert view.meta["tiles"] == [0, 1, 2, 3] and view.columns["least"].shape == (4, 16)
    assert len(encoding.encode(view)) < 10_000
