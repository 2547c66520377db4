"""Banks and Coalescing, asked as the browser asks: what they show of the lab and of every kernel, what is disabled and
why, and what of a link is told."""

import pytest
from conftest import one_of_each_family
from pages import page_of

from app.stories import bank_conflicts, coalescing
from app.web import asking
from explainers.story import encoding
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.run import backends
from kernels.trace.probes import sites_of

BANKS, COALESCING = bank_conflicts.STORY, coalescing.STORY


def ask(story, **params):
    return asking.ask(story, {"backend": "cpu", **params}, backends.survey())


def shown(story, **params):
    """The stage of these choices, as the browser decodes it."""
    made = ask(story, **params)
    assert not made.error, made.error
    return encoding.decode(encoding.encode(story.make(made.subject)))


def state(made, name):
    return next(entry["values"] for entry in made["state"] if entry["name"] == name)


def option(made, name, value):
    choice = next(c for c in made.choices if c["name"] == name)
    return next(o for o in choice["options"] if o["value"] == value)


@pytest.mark.parametrize(
    ("params", "takes"),
    [
        ({}, "32 and 1"),
        ({"PAD": "1"}, "32 and 1"),
        ({"SWIZZLE": "1"}, "32 and 1"),
        ({"WIDTH": "16", "PAD": "4"}, "32 and 4"),
        ({"WIDTH": "16", "MATRICES": "4"}, "32 and 4"),
        ({"stride": "50"}, "2 and 1"),
    ],
)
def test_the_bank_lab_shows_wavefronts_before_and_after_and_cycles_where_they_are_recorded(params, takes):
    made = shown(BANKS, **params)
    assert next(e["values"][0] for e in made["state"] if e["name"].startswith("this access takes")) == takes
    other = "SWIZZLE" not in params and "stride" not in params  # next to padding, the other remedy has its picture
    shown_ids = ["memory", "swizzled", "banks"] if other else ["memory", "banks"]
    shown_ids += [] if "stride" in params else ["buckets"]
    assert [view["id"] for view in made["views"]] == shown_ids and made["late"][0]["name"] == "line"
    cycles = [e["values"][0] for e in made["state"] if e["name"].startswith("cycles an access")]
    for said in cycles:
        first, _, rest = said.partition(" and ")
        assert rest.endswith("(recorded)")
        assert first == "unknown" or abs(float(first) - float(takes.split()[0])) < 4


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"WIDTH": "16", "PAD": "1"}, "132 bytes. An access of 16 bytes must start at a multiple of 16"),
        ({"kernel": "lab_columns", "MATRICES": "4"}, "an ldmatrix reads rows of 16 bytes"),
        ({"stride": "4000"}, "512,000 bytes of shared memory per block"),
        ({"stride": "24", "SWIZZLE": "1"}, "The XOR swizzle needs a power of two"),
    ],
)
def test_what_the_bank_lab_cannot_run_is_refused_with_the_reason(params, says):
    assert says in ask(BANKS, **params).error


@pytest.mark.parametrize(
    ("story", "params", "name", "value", "why"),
    [
        (BANKS, {}, "MATRICES", "4", "an ldmatrix reads rows of 16 bytes"),
        (BANKS, {"stride": "24"}, "SWIZZLE", "1", "needs a power of two"),
        (BANKS, {"stride": "33"}, "WIDTH", "8", "An access of 8 bytes must start at a multiple of 8"),
        (BANKS, {"WIDTH": "16"}, "PAD", "1", "An access of 16 bytes must start at a multiple of 16"),
        (BANKS, {"WIDTH": "16"}, "preset", "Rows of 33 floats", "An access of 16 bytes must start at a multiple of 16"),
        (
            COALESCING,
            {"kernel": "lab_global", "view": "attention"},
            "layout",
            "paged_whole",
            "split in pieces of 16 bytes",
        ),
    ],
)
def test_an_impossible_pair_of_choices_is_disabled_with_the_reason(story, params, name, value, why):
    made = ask(story, **params)
    assert not made.error and why in option(made, name, value)["why"]
    now = next(c["value"] for c in made.choices if c["name"] == name)
    assert "why" not in option(made, name, now)


@pytest.mark.parametrize("kernel", ["02_tiled", "03_flash"])
def test_k_smem_is_compared_with_and_without_padding(kernel):
    made = ask(BANKS, view="attention", kernel=kernel)
    shown = BANKS.make(made.subject)
    assert [side["name"] for side in shown.views[0].meta["sides"]] == ["no padding", "padded by 4"]
    assert shown.frames[0]["sentence"].startswith("Each lane loads 16 bytes of K")
    blocks = BANKS.parts["lines"](made.subject)
    note = next(b for b in blocks if b["kind"] == "note")
    assert "32 wavefronts a request without, 4 with, 4 at best" in note["text"]
    table = next(b for b in blocks if b["kind"] == "table")
    assert table["columns"][-2:] == ["wavefronts, no padding", "wavefronts, padded by 4"]
    assert "executed" in table["caption"]


def test_where_padding_is_the_subject_a_kernel_that_cannot_pad_is_replaced_and_that_is_told():
    made = ask(BANKS, view="attention")
    assert not made.told and "PAD_K" in made.link
    told = ask(BANKS, view="attention", kernel="lab_columns").told
    assert len(told) == 1 and "kernel is 'lab_columns'. In this view it must be one of" in told[0]
    assert "kernel is '03_flash'" in ask(COALESCING, view="layouts", kernel="03_flash").told[0]


@pytest.mark.parametrize("kernel", one_of_each_family(page_of("coalescing").kernels))
def test_the_coalescing_page_shows_every_kernel_that_it_lists(kernel):
    made = ask(COALESCING, kernel=kernel)
    shown = COALESCING.make(made.subject)
    use = next(s.values for s in shown.state if s.name == "use")
    assert shown.frames and all(0 < u <= 100 for u in use) and not shown.told
    table = next(b for b in COALESCING.parts["lines"](made.subject) if b["kind"] == "table")
    assert table["rows"] and table["columns"][-1] == "sectors at best"


@pytest.mark.parametrize("layout", ["row_major", "paged_whole"])
def test_the_layouts_are_shown_side_by_side(layout):
    made = ask(COALESCING, view="layouts", layout=layout)
    shown = COALESCING.make(made.subject)
    sides = shown.views[0].meta["sides"]
    assert len(sides) == 5 and [len(side["requests"]) for side in sides] == [8] * 5
    table = next(b for b in COALESCING.parts["layouts"](made.subject) if b["kind"] == "table")
    assert sum(table["lit"]) == 1


def test_a_line_of_a_link_is_looked_at_also_by_its_number_alone():
    spec = KERNELS["03_flash"]
    sites = sites_of(Request(spec, spec.problem_type()))
    stored = next(site for site in sites if (site.event, site.space) == ("store", "global"))
    for line in (f"{stored.file}:{stored.line}", str(stored.line)):
        made = ask(COALESCING, kernel="03_flash", line=line)
        shown = COALESCING.make(made.subject)
        assert shown.late[0]["value"] == f"{stored.file}:{stored.line}" and not made.told and not shown.told


@pytest.mark.parametrize("story", [BANKS, COALESCING], ids=lambda story: story.path)
def test_a_wrong_line_is_told_and_one_that_comes_from_another_story_is_not(story):
    assert ask(story, line="x.cu:7").told == ["line is 'x.cu:7'. There is no such choice here."]
    carried = asking.ask(story, {"backend": "cpu", "line": "x.cu:7"}, backends.survey(), carried=True)
    assert not carried.told and "line" not in carried.link


def test_another_kernel_or_view_lets_go_of_the_line():
    line = next(
        s for s in sites_of(Request(KERNELS["03_flash"], KERNELS["03_flash"].problem_type())) if s.space == "shared"
    )
    params = {"backend": "cpu", "kernel": "03_flash", "line": f"{line.file}:{line.line}"}
    kept = asking.ask(BANKS, params, backends.survey(), ("PAD_K", "4"))
    assert kept.link["line"] == params["line"]
    for change in (("kernel", "02_tiled"), ("view", "attention")):
        made = asking.ask(BANKS, params, backends.survey(), change)
        assert "line" not in made.link and not made.told


@pytest.mark.parametrize(("story", "params"), [(BANKS, {"view": "attention"}), (COALESCING, {"view": "attention"})])
def test_a_kernels_threads_are_a_picture_beside_its_accesses(story, params):
    made = shown(story, **params)
    view = made["views"][-1]
    assert (view["kind"], view["id"]) == ("threads", "threads") and view["meta"]["clock"]
    assert len(view["meta"]["frames"]) == len(view["meta"]["moments"]) > 3
    assert all(view["meta"]["frames"][-1][name] for name in ("title", "sentence"))
