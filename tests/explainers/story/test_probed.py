"""Every story lists exactly the kernels whose events, axes and declared parts it can show, and never by name."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from dropped import odd_kernel

import explainers
from explainers.charts import palette
from explainers.models import softmax_rows, threads, tiling
from explainers.stories.any_kernel.story import STORY as ANY_KERNEL
from explainers.stories.bank_conflicts import bank_conflicts
from explainers.stories.block_table import partitions, walk
from explainers.stories.coalescing.story import STORY as COALESCING
from explainers.stories.compare import two_kernels
from explainers.stories.precision import rounding
from explainers.stories.sparsity import story as sparsity_story
from explainers.stories.tensor_cores import story as fragments_story
from explainers.story import axes, picture, probed
from explainers.story.glossary import PHASES, phase_title
from kernels.catalog import KERNELS, current
from kernels.core.tensors import Role, Tensor
from kernels.families.dense.problem import DenseProblem
from kernels.trace.probes import sites_of

HERE = Path(explainers.__file__).parent
DENSE = [*current().of_family("dense"), "rope_attention", *current().of_family("tensor_cores")]
PAGED = ["paged_v1", "paged_v2"]
ONCE = [name for name, spec in KERNELS.items() if not spec.repeats]  # one probe of the others has several tensors
TERMS = {"free", "fusion", "launches", "ring"}  # families with the name of a term or of a picture
SHARED = [name for name, spec in KERNELS.items() if any(s.space == "shared" for s in sites_of(probed.sample(spec)))]


def test_the_declared_parts_are_drawn_each_refusal_has_a_reason_and_two_kernels_can_be_compared():
    assert list(probed.accepting(two_kernels)) == ONCE
    types = {spec.problem_type for spec in KERNELS.values()}
    assert {part for kind in types for part in kind.picture.values()} == {*"QKVSPO", *GRADIENTS}
    assert all(len(set(kind.picture.values())) == len(kind.picture) for kind in types)
    for module in (tiling, softmax_rows, rounding, fragments_story.STORY, sparsity_story.STORY):
        for spec in KERNELS.values():
            assert bool(module.refusal(spec)) != module.accepts(spec), (module.__name__, spec.name)
    assert softmax_rows.refusal(KERNELS["block_sparse"]).endswith("with more than a causal mask.")


@pytest.mark.parametrize(
    ("module", "names", "begins"),
    [
        (tiling, DENSE, "03_flash"),
        (softmax_rows, DENSE, "03_flash"),
        (walk, PAGED, "paged_v1"),
        (bank_conflicts, SHARED, "lab_columns"),
        (COALESCING, list(KERNELS), "01_naive"),
        (ANY_KERNEL, ONCE, "01_naive"),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_a_story_lists_exactly_the_kernels_that_it_can_show(module, names, begins):
    assert list(probed.accepting(module)) == names and probed.first(module).name == begins


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        ("PROBE_VALUE(l, row, tile, l);", "(void)l;", {softmax_rows}),
        ("PROBE_VALUE(m, row, tile, m_new);", "PROBE_VALUE(m_new, row, tile, m_new);", {softmax_rows}),
        ("PROBE_VALUE(score, row, col, score);", "PROBE_VALUE(score, row, score);", {softmax_rows}),
        ('item = "query tile"', 'item = "key tile"', {tiling, softmax_rows}),
        ('"q", "k", "v", "o"', '"q", "k", "q", "o"', {tiling, softmax_rows}),
    ],
    ids=["no l", "m by another name", "score without its col", "other items", "no V"],
)
def test_a_story_refuses_a_kernel_that_lacks_what_it_shows(variant, old, new, refused):
    spec = variant("03_flash", old, new)
    for module in (tiling, softmax_rows, two_kernels, COALESCING, bank_conflicts, ANY_KERNEL):
        assert module.accepts(spec) == (module not in refused), module


class GradientProblem(DenseProblem):
    """DenseProblem with dQ, the gradient of Q, in place of O."""

    def tensors(self):
        *given, o = super().tensors()
        return (*given, replace(o, name="dq"))


class UndeclaredProblem(GradientProblem):
    """GradientProblem without any part of a picture."""

    picture = {}


@pytest.mark.parametrize(
    ("problem_type", "lacking"), [(GradientProblem, "O"), (UndeclaredProblem, "Q, K, V and O")], ids=["no O", "none"]
)
def test_a_kernel_that_writes_the_gradient_of_q_is_not_drawn_as_if_it_wrote_o(variant, problem_type, lacking):
    """The axes of dQ are the axes of O, so only the problem can tell the two apart."""
    spec = replace(variant("03_flash", '"q", "k", "v", "o"', '"q", "k", "v", "dq"'), problem_type=problem_type)
    drawing = (tiling, softmax_rows, rounding, fragments_story.STORY, sparsity_story.STORY)
    assert not [module.__name__ for module in drawing if module.accepts(spec)]
    assert f"03_flash has no tensor for {lacking}." in tiling.refusal(spec) == softmax_rows.refusal(spec)
    assert "O" not in picture.places(probed.sample(spec)).values() and ANY_KERNEL.accepts(spec)


def test_a_paged_kernel_without_a_declared_o_is_refused_though_its_axes_fit(variant):
    spec = variant("paged_v1", "PROBE_MARK", "PROBE_MARK")  # a copy, which no cache knows
    declared = {name: part for name, part in spec.problem_type.picture.items() if part != "O"}
    undeclared = type("PagedGradientProblem", (spec.problem_type,), {"picture": declared})
    assert not any(m.accepts(replace(spec, problem_type=undeclared)) for m in (walk, partitions))
    assert walk.accepts(KERNELS["paged_v1"])


GRADIENTS = ("dO", "dP", "dS", "delta", "dQ", "dK", "dV")


def test_weights_in_a_tensor_without_a_part_are_not_said_to_stay_in_registers(monkeypatch):
    spec = KERNELS["04_warp_rows"]
    assert threads.keeps_weights(spec)
    known = axes.tensors(probed.sample(spec))
    weights = Tensor("weights", (64, 64), axes=("query", "key"), role=Role.SCRATCH)
    monkeypatch.setattr(axes, "tensors", lambda request: {**known, "W": weights})
    assert not threads.keeps_weights(spec)


def test_more_than_a_story_shows_keeps_a_kernel_and_an_unknown_family_has_the_generic_view(with_more, monkeypatch):
    for module in (tiling, softmax_rows, two_kernels, COALESCING, bank_conflicts, ANY_KERNEL):
        assert module.accepts(with_more)
    assert not walk.accepts(with_more) and not partitions.accepts(with_more)
    spec = odd_kernel(monkeypatch)
    assert ANY_KERNEL.accepts(spec)
    assert not any(module.accepts(spec) for module in (tiling, softmax_rows, walk, partitions))


def test_no_explainer_names_a_kernel_every_mark_has_a_title_and_the_palette_differs_within_a_role():
    """Rule: views find tensors by axes and values by events. (A family's own arithmetic may be imported, as that of the
    KV cache.)"""
    families = "|".join(set(current().families) - TERMS)
    for path in HERE.rglob("*.py"):
        text = path.read_text()
        named = [name for name in KERNELS if re.search(rf"\b{name}\b", text)]
        assert not named, f"{path.name} names {named}"
        assert "isinstance" not in text or not re.search(r"isinstance\([^)]*Problem", text)
        assert not re.search(rf"""["']({families})["']""", text), f"{path.name} names a family"
    marks = {mark for spec in KERNELS.values() for mark in probed.marks(spec)} - {"tile_begin", "tile_end"}
    assert all(phase_title(mark) == PHASES.get(mark, mark.replace("_", " ")) for mark in marks)
    assert phase_title("wait_for_tma") == "wait for tma"
    made = palette.for_browser()
    for role in ("tensors", "sign", "kernels", "peers", "sequences", "magnitude"):
        colours = list(made[role].values() if isinstance(made[role], dict) else made[role])
        assert all(re.fullmatch("#[0-9a-fA-F]{6}", colour) for colour in colours) and len(set(colours)) == len(colours)
    orange, blue, green = (palette.OKABE_ITO[name] for name in ("orange", "blue", "green"))
    apart = palette.told_apart({"a": orange, "b": orange, "c": blue}, (orange, blue, green))
    assert apart == {"a": orange, "b": green, "c": blue}
    many = palette.told_apart(dict.fromkeys(map(str, range(20)), palette.KERNELS[0]))
    assert len(many) == 20 and len(set(many.values())) == len(palette.OKABE_ITO) + len(palette.KERNELS)
