"""Bank conflicts: wavefronts, sentences, and plain next to padded or swizzled tiles."""

import json

import pytest

from explainers.stories.bank_conflicts import bank_conflicts, bank_costs, bank_questions, bank_walk, padding
from explainers.stories.coalescing import sector_walk
from explainers.story import encoding, stage
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.families.lab.tiles import ColumnsProblem
from kernels.families.paged.problem import PagedProblem
from kernels.trace.memory import model
from kernels.trace.probes import sites_of


def read_at(run, tensor):
    """(file, line) of the first probe of a load of that tensor of shared memory."""
    site = next(s for s in sites_of(run.request) if (s.space, s.event, s.tensor) == ("shared", "load", tensor))
    return site.file, site.line


def walk_line(run):
    return read_at(run, "X")


@pytest.mark.parametrize("settings", [(), (("PAD", 1),), (("WIDTH", 16),), (("WIDTH", 8), ("PAD", 2))])
def test_every_wavefront_serves_each_bank_at_most_once_and_every_lane_is_served(cpu_run, settings):
    run = cpu_run("lab_columns", ColumnsProblem(), settings)
    story = bank_walk.explain([run], walk_line(run))
    (side,) = story.sides
    assert len(story.frames) == sum(access["wavefronts"] for access in side["accesses"])
    assert story.total == sum(access["alike"] for access in side["accesses"])
    for access in side["accesses"]:
        words = dict(settings).get("WIDTH", 4) // 4
        assert sorted((lane, bank) for lane, bank, *_ in access["cells"]) == sorted(
            {(lane, bank) for lane, bank, *_ in access["cells"]}
        )
        assert len(access["cells"]) == 32 * words
        for wavefront in range(access["wavefronts"]):
            served = [(bank, word) for _, bank, w, word, *_ in access["cells"] if w == wavefront]
            assert served and len({bank for bank, _ in served}) == len(set(served))
    for frame in story.frames:
        cells = side["accesses"][frame["access"]]["cells"]
        now = sorted({cell[0] for cell in cells if cell[2] == frame["wavefront"]})
        assert (
            f"lane{'' if len(now) == 1 else 's'} {now[0]}" in frame["sentence"].lower()
            or f"{len(now)} lanes" in frame["sentence"]
        )


def test_a_conflict_is_told_from_a_broadcast_and_padding_k_is_seen_in_the_kernels_own_traces(cpu_run):
    walk = cpu_run("lab_columns", ColumnsProblem())
    conflict = bank_walk.explain([walk], walk_line(walk))
    assert "Bank 0 holds 32 of the words and serves one at a time. Now" in conflict.frames[0]["sentence"]
    run = cpu_run("03_flash")
    said = bank_walk.explain([run], read_at(run, "P")).frames[0]["sentence"]
    assert "Lanes share words, and each bank serves at most one." in said
    for name in ("02_tiled", "03_flash"):
        table = padding.compare_padding(cpu_run(name), cpu_run(name, settings=(("PAD_K", 4),)))
        k = table[(table.tensor == "K") & (table.kind == "load")].iloc[0]
        assert (k["not padded"], k["padded"], k["at best"]) == (32, 4, 4) and "K_smem" in k["access"]
        others = table[(table.tensor != "K")]
        assert (others["not padded"] == others["padded"]).all()
        assert f"{int(table['wavefronts without'].sum()):,} wavefronts without padding" in padding.padding_sentence(
            table
        )


def test_counts_are_those_of_the_rules_and_probes_in_a_header_are_named_by_it(cpu_run):
    run = cpu_run("lab_columns", ColumnsProblem(36), (("WIDTH", 16),))
    story = bank_walk.explain([run], walk_line(run))
    for access in story.sides[0]["accesses"]:
        offsets = [None] * 32
        for lane, _, _, word, *_ in sorted(access["cells"], key=lambda cell: -cell[3]):
            offsets[lane] = 4 * word
        assert model.shared_wavefronts(offsets, 16, "load").wavefronts == access["wavefronts"]
    run = cpu_run("02_tiled")
    table = sector_walk.by_line(run)
    assert {place.partition(":")[0] for place in table["source line"]} == {"02_tiled.cu", "softmax.cuh"}
    header = table[table.file == "softmax.cuh"].iloc[0]
    story = sector_walk.explain(run, [(header.file, header.line)])
    assert {place for f in story.frames for place in f["lines"]} == {header["source line"]}
    assert "S_gmem" in header.access and json.dumps(story.sides)


def test_an_access_without_a_wavefront_has_a_sentence_and_a_kernel_without_remedy_is_alone(cpu_run):
    problem = KERNELS["lab_access"].problem_type
    run = cpu_run("lab_access", problem("cp_async_l2", 16, offsets=tuple(16 * n for n in range(32))))
    story = bank_walk.explain([run])
    past = [a for a in story.sides[0]["accesses"] if a["kind"] == "a cp.async past L1"]
    assert past and all(a["wavefronts"] == 0 for a in past)
    assert any("no wavefront" in f["sentence"] for f in story.frames) and json.dumps(story.sides)
    request = Request(KERNELS["paged_v1"], PagedProblem((64,)))
    assert padding.before_and_after(request) == (request,)
    story = bank_walk.explain([cpu_run("paged_v1", PagedProblem((64,)))])
    assert [side["name"] for side in story.sides] == [""] and "padd" not in story.frames[0]["sentence"]


def beside(cpu_run, kernel, problem, settings=()):
    """The story of a walk without remedies and with, and its runs."""
    requests = padding.before_and_after(Request(KERNELS[kernel], problem, settings))
    runs = [cpu_run(kernel, problem, request.settings) for request in requests]
    return bank_walk.explain(runs, walk_line(runs[0])), runs


@pytest.mark.parametrize(
    ("settings", "names", "wavefronts"),
    [
        ((), ["no padding", "padded by 1"], [32, 1]),
        ((("PAD", 2),), ["no padding", "padded by 2"], [32, 2]),
        ((("SWIZZLE", 1),), ["no swizzle", "swizzled"], [32, 1]),
        ((("WIDTH", 16),), ["no padding", "padded by 4"], [32, 4]),
        ((("PAD", 1), ("SWIZZLE", 1)), ["no padding, no swizzle", "padded by 1, swizzled"], [32, 2]),
    ],
)
def test_the_plain_tile_stands_beside_the_padded_or_swizzled_one(cpu_run, settings, names, wavefronts):
    story, _ = beside(cpu_run, "lab_columns", ColumnsProblem(), settings)
    assert [side["name"] for side in story.sides] == names
    assert [side["accesses"][0]["wavefronts"] for side in story.sides] == wavefronts
    assert sum(frame["access"] == 0 for frame in story.frames) == 32  # the clock waits for the slower side
    late = next(frame for frame in story.frames if frame["wavefront"] == wavefronts[1])["sentence"]
    assert f"{names[0][1:]}: " in late and f"done after {wavefronts[1]} wavefront" in late


def test_accesses_that_want_the_same_are_shown_once_and_free_words_are_those_that_no_lane_touches(cpu_run):
    for settings in ((), (("SWIZZLE", 1),)):
        story, _ = beside(cpu_run, "lab_columns", ColumnsProblem(), settings)
        assert [a["alike"] for a in story.sides[1]["accesses"]] == [32] and story.total == 32
        assert story.frames[0]["title"] == "Access 1 \u00b7 1 of 32" and not story.left_out
        assert story.frames[0]["sentence"].startswith("Each lane loads 4 bytes of X. ")
    both, _ = beside(cpu_run, "lab_columns", ColumnsProblem(), (("PAD", 1), ("SWIZZLE", 1)))
    assert len(both.sides[1]["accesses"]) > 1 and len(both.frames) <= bank_walk.SHOWN_STEPS + 32
    assert both.total == 32 and both.left_out > 0
    story, _ = beside(cpu_run, "lab_columns", ColumnsProblem(24), (("PAD", 2),))
    plain, padded = story.sides
    assert (plain["words"], plain["free"]) == (32 * 24, [])
    assert padded["words"] == 31 * 26 + 24 and padded["free"] == [[26 * r + 24, 26 * r + 26] for r in range(31)]


def test_the_stage_of_banks_says_what_the_trace_says_and_the_swizzle_saves_the_unused_words(cpu_run):
    story, runs = beside(cpu_run, "lab_columns", ColumnsProblem())
    made = bank_conflicts.stage_of(
        story, runs, stage.provenance(runs[0]), "32 and 2 (recorded)", chosen=runs[0].request
    )
    assert encoding.decode(encoding.encode(made))["views"][0]["meta"]["sides"][1]["name"] == "padded by 1"
    said = {state.name: (state.values[0], state.values[-1]) for state in made.state}
    assert said["wavefronts so far, no padding"] == (1, 32) and said["wavefronts so far, padded by 1"] == (1, 1)
    assert said["this access takes, no padding and padded by 1"][0] == "32 and 1"
    assert said["conflicts, no padding and padded by 1"][0] == "31 and 0"
    assert said["cycles an access, no padding and padded by 1"][0] == "32 and 2 (recorded)"
    assert [q.id for q in made.questions] == ["wavefronts", "remedy", "bank_of"] and made.questions[1].step == 31
    assert all("32 and 2 (recorded)" in q.hides for q in made.questions[:2])
    alone = bank_costs.by_line(runs[:1]).set_index("kind")
    assert alone.loc["load", "wavefronts a request"] == 32 and alone.loc["load", "wavefronts"] == 1024
    sides = padding.before_and_after(Request(KERNELS["lab_columns"], ColumnsProblem()))
    other = padding.swizzled(sides)
    assert other and other.constants["SWIZZLE"] == 1 and not other.constants["PAD"]
    padded, swizzled = (cpu_run("lab_columns", ColumnsProblem(), request.settings) for request in (sides[1], other))
    (asks,) = bank_questions.swizzle(padded, swizzled, walk_line(padded))
    assert asks.options[asks.answer] == "The unused words: the tile stays smaller"
    assert "4,096 bytes of shared memory, and the padded one 4,224" in asks.why and "1 wavefront" in asks.why
    assert not bank_questions.swizzle(padded, padded, walk_line(padded)) and padding.swizzled([other, other]) is None


@pytest.mark.parametrize(
    ("settings", "serves", "changes"),
    [
        ((), "One word at a time: one bank holds them all", "The words spread over the banks, and none waits"),
        ((("PAD", 2),), "One word at a time: one bank holds them all", "Some words move to other banks, so fewer wait"),
    ],
)
def test_the_questions_predict_the_conflict_and_its_remedy(cpu_run, settings, serves, changes):
    story, _ = beside(cpu_run, "lab_columns", ColumnsProblem(), settings)
    plain, remedy, _ = bank_questions.questions(story)
    assert plain.options[plain.answer] == serves and remedy.options[remedy.answer] == changes
    assert "picture" not in (*plain.veils, *remedy.veils) and remedy.covers == [{"side": 1, "word": [32, 2**40]}]
    assert "of 32" in plain.hides and "32 and " in "".join(plain.hides)
    for question in (plain, remedy):
        assert all(bool(said) != (n == question.answer) for n, said in enumerate(question.reasons))


def test_a_question_about_one_build_hides_no_bare_number(cpu_run):
    """The picture names banks and lanes with it."""
    walk = bank_walk.explain([cpu_run("lab_columns")])
    service = bank_questions.questions(walk)[0]
    assert len(walk.sides) == 1 and any("wavefront" in text for text in service.hides)
    assert not [text for text in service.hides if text.isdigit()]
