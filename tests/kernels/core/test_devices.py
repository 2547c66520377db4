"""Plans over several devices: repeated launches, copies between devices, and what waits for what."""

import tomllib
from dataclasses import replace

import pytest

from kernels.catalog import KERNELS, load_kernel
from kernels.core import frontmatter
from kernels.core.launch import Copy
from kernels.core.planning import Waits, waits_of_copy, waits_of_launch
from kernels.errors import FrontMatterError
from kernels.families.ring.problem import RingProblem

RING = KERNELS["ring_attention"]


def plan(**fields):
    return RING.plan(RingProblem(**fields))


def test_each_step_launches_on_every_device_copies_and_waits_for_what_it_reads_and_overwrites():
    made = plan(gpus=2, causal=False, order="plain")
    said = [f"{'launch' if step in made.launches else step.source + ' to ' + step.target}" for step in made.steps]
    copies = ["k_0 to k_1_odd", "k_1 to k_0_odd", "v_0 to v_1_odd", "v_1 to v_0_odd"]
    assert said == ["launch", "launch", *copies, "launch", "launch"]
    assert [(launch.step, launch.device) for launch in made.launches] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    made = plan(gpus=4, causal=False, order="plain")
    (first, later) = made.launches[0], made.launches[9]
    assert waits_of_launch(made, 0) == () and first.step == 0
    waited = [made.copies[n] for n in waits_of_launch(made, 9)]
    assert (later.step, later.device) == (2, 1)
    assert [(copy.source, copy.target) for copy in waited] == [("k_0_odd", "k_1_even"), ("v_0_odd", "v_1_even")]
    made = plan(gpus=2, causal=False, order="plain")
    copied = replace(made, copies=(Copy("m_0", "m_1", 0, 2), Copy("q_0", "q_1", 0, 2)))
    assert [waits_of_launch(copied, n) for n in range(4)] == [(), (), (0,), (0, 1)]  # GPU 0 writes m_0, GPU 1 has both
    made = plan(gpus=4, causal=False, order="plain")
    number = next(n for n, copy in enumerate(made.copies) if (copy.step, copy.source) == (2, "k_0_even"))
    assert made.copies[number].target == "k_1_odd"
    waits = waits_of_copy(made, number)
    assert [(made.launches[n].step, made.launches[n].device) for n in waits.launches] == [(1, 1)]  # reads the target
    ends = [(made.copies[n].source, made.copies[n].target) for n in waits.copies]
    assert ends == [("k_0", "k_1_odd"), ("k_1_odd", "k_2_even"), ("k_3_odd", "k_0_even")]
    made = plan(gpus=2, num_heads=2, split="heads")
    assert [(copy.source, copy.target) for copy in made.copies] == [("o_1", "o_1_on_0")]
    assert waits_of_copy(made, 0) == Waits((1,), ())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('device = "gpu"\nwhen', 'device = "0"\nwhen', "a launch on device 0 takes q_1, which is on device 1"),
        ('source = "o_{gpu}"', 'source = "q_{gpu}"', "there is no tensor 'q_9'"),
        ('when = "works[step][gpu]"', 'when = "step < 0"', "no launch is left"),
        ('target = "o_{gpu}_on_0"', 'target = "lse_{gpu}"', "Copy tensors of one size"),
    ],
)
def test_a_mistake_in_a_plan_names_its_place(tmp_path, old, new, said):
    assert old in RING.source
    text = RING.source.replace(old, new.replace("q_{gpu}", "q_{gpu+8}"))
    (tmp_path / "mine.cu").write_text(text)
    (tmp_path / "ring.cuh").write_text(dict(RING.files)["ring.cuh"])
    spec = load_kernel(tmp_path / "mine.cu")
    with pytest.raises(FrontMatterError, match=said):
        spec.plan(RingProblem(gpus=2, split="heads", num_heads=2))


@pytest.mark.parametrize(
    "more",
    [
        "[scratch.spare]\nshape = [1]\naxes = ['one']\nrepeat = {n = 65, m = 64}\n",
        "[[copies]]\nsource = 'q_0'\ntarget = 'q_0'\nrepeat = {n = 64, m = 64}\n",
        "[[copies]]\nsource = 'q_0'\ntarget = 'q_0'\nrepeat = {n = 0, m = 2_000_000_000}\n",
        "[[copies]]\nsource = 'q_0'\ntarget = 'q_0'\nrepeat = {n = 2048}\n" * 2,
    ],
)
def test_all_tables_of_a_plan_share_one_limit_of_steps(more):
    scratch, copies = frontmatter.scratch("x.cu", tomllib.loads(more)), frontmatter.copies("x.cu", tomllib.loads(more))
    spec = replace(RING, scratch=(*RING.scratch, *scratch), copy_texts=(*RING.copy_texts, *copies))
    with pytest.raises(FrontMatterError, match="A plan has at most 4,096"):
        spec.plan(RingProblem(gpus=2))


@pytest.mark.parametrize("key", ["launches", "copies"])
def test_a_comment_has_a_limit_of_tables(key):
    table = {key: [{}] * (frontmatter.MOST_TABLES + 1)}
    read = frontmatter.copies if key == "copies" else lambda file, table: frontmatter.launches(file, "", True, table)
    with pytest.raises(FrontMatterError, match=f"{key} has 65 tables"):
        read("x.cu", table)
