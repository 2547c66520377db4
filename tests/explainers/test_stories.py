"""Every story lists exactly the kernels whose events, tensors and axes it can show, and never by name."""

import re
from pathlib import Path

import pytest
from dropped import odd_kernel

from explainers import (
    bank_conflicts,
    block_table,
    coalescing,
    compare,
    generic,
    kv_heads,
    online_softmax,
    palette,
    partitions,
    stories,
    tiling,
)
from explainers.glossary import PHASES, phase_title
from kernels.catalog import KERNELS, family_names, of_family
from kernels.trace.probes import sites_of

HERE = Path(tiling.__file__).parent
DENSE, PAGED = [*of_family("dense"), *of_family("tensor_cores")], ["paged_v1", "paged_v2"]
SHARED = [name for name, spec in KERNELS.items() if any(s.space == "shared" for s in sites_of(stories.sample(spec)))]


def test_any_two_kernels_of_one_problem_can_be_compared():
    assert list(stories.accepting(compare)) == list(KERNELS)


@pytest.mark.parametrize(
    ("module", "names", "begins"),
    [
        (tiling, DENSE, "03_flash"),
        (online_softmax, DENSE, "03_flash"),
        (block_table, PAGED, "paged_v1"),
        (kv_heads, PAGED, "paged_v1"),
        (partitions, ["paged_v2"], "paged_v2"),
        (bank_conflicts, SHARED, "lab_columns"),
        (coalescing, list(KERNELS), "01_naive"),
        (generic, list(KERNELS), "01_naive"),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_a_story_lists_exactly_the_kernels_that_it_can_show(module, names, begins):
    assert list(stories.accepting(module)) == names and stories.first(module).name == begins


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        ("PROBE_VALUE(l, row, tile, l);", "(void)l;", {online_softmax}),
        ("PROBE_VALUE(m, row, tile, m_new);", "PROBE_VALUE(m_new, row, tile, m_new);", {online_softmax}),
        ("PROBE_VALUE(score, row, col, score);", "PROBE_VALUE(score, row, score);", {online_softmax}),
        ('item = "query tile"', 'item = "key tile"', {tiling, online_softmax}),
        ('"q", "k", "v", "o"', '"q", "k", "q", "o"', {tiling, online_softmax}),
    ],
    ids=["no l", "m by another name", "score without its col", "other items", "no V"],
)
def test_a_story_refuses_a_kernel_that_lacks_what_it_shows(variant, old, new, refused):
    spec = variant("03_flash", old, new)
    for module in (tiling, online_softmax, compare, coalescing, bank_conflicts, generic):
        assert module.accepts(spec) == (module not in refused), module.__name__


def test_a_variant_with_more_is_shown_by_all_that_show_the_kernel_itself(with_more):
    for module in (tiling, online_softmax, compare, coalescing, bank_conflicts, generic):
        assert module.accepts(with_more)
    assert not block_table.accepts(with_more) and not partitions.accepts(with_more) and not kv_heads.accepts(with_more)


def test_a_family_that_nothing_knows_is_shown_by_the_generic_view_alone_of_the_attention_stories(monkeypatch):
    spec = odd_kernel(monkeypatch)
    assert generic.accepts(spec)
    assert not any(module.accepts(spec) for module in (tiling, online_softmax, block_table, partitions, kv_heads))


def test_no_explainer_names_a_kernel_or_asks_for_a_class_of_problem():
    """Rule: views find tensors by axes and values by events. (A family's own arithmetic may be imported, as that of the
    KV cache.)"""
    for path in HERE.glob("*.py"):
        text = path.read_text()
        named = [name for name in KERNELS if re.search(rf"\b{name}\b", text)]
        assert not named, f"{path.name} names {named}"
        assert "isinstance" not in text or not re.search(r"isinstance\([^)]*Problem", text)
        assert not re.search(rf"""["']({"|".join(family_names())})["']""", text), f"{path.name} names a family"


def test_every_mark_of_a_kernel_has_a_title_and_an_unknown_one_its_own_name():
    marks = {mark for spec in KERNELS.values() for mark in stories.marks(spec)} - {"tile_begin", "tile_end"}
    assert all(phase_title(mark) == PHASES.get(mark, mark.replace("_", " ")) for mark in marks)
    assert phase_title("wait_for_tma") == "wait for tma"


def test_the_palette_is_json_of_colours_that_differ_within_a_role():
    made = palette.for_browser()
    for role in ("tensors", "sign", "kernels", "peers", "sequences", "magnitude"):
        colours = list(made[role].values() if isinstance(made[role], dict) else made[role])
        assert all(re.fullmatch("#[0-9a-fA-F]{6}", colour) for colour in colours) and len(set(colours)) == len(colours)
    orange, blue, green = (palette.OKABE_ITO[name] for name in ("orange", "blue", "green"))
    apart = palette.told_apart({"a": orange, "b": orange, "c": blue}, (orange, blue, green))
    assert apart == {"a": orange, "b": green, "c": blue}
    many = palette.told_apart(dict.fromkeys(map(str, range(20)), palette.KERNELS[0]))
    assert len(many) == 20 and len(set(many.values())) == len(palette.OKABE_ITO) + len(palette.KERNELS)
