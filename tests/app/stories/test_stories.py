"""Every story whole, with every kernel that it accepts: from its link to the bytes that the browser gets."""

import json
import math
import re
from functools import cache
from itertools import combinations

import pytest
from conftest import last_of_each_kind
from pages import asked, flat, open_page, page_of, texts_in, told, words, wrong_plural

from app import course
from app.stories import STORIES, rail, stops
from app.web import asking
from app.web.modules import modules
from explainers.stories.precision.rounding import STAGES
from explainers.story import glossary
from kernels.catalog import KERNELS, current
from kernels.run import workers

MAX_BYTES = 1_000_000  # of a stage, as it is sent
KERNELS_OF = [(path, kernel) for path, story in STORIES.items() for kernel in page_of(story.path).kernels or ("",)]


def in_turn():
    """(story, kernel): of every second family that a story accepts one kernel among the last of each kind, of the other
    families in the next story. Other tests run them too, so their builds are made once."""
    for number, path in enumerate(STORIES):
        families = {}
        for kernel in last_of_each_kind(page_of(path).kernels) or ("",):
            families.setdefault(kernel and KERNELS[kernel].family, []).append(kernel)
        asked = [*families.values()][number % 2 if len(families) > 1 else 0 :: 2]
        yield from ((path, kernels[number % len(kernels)]) for kernels in asked)


IN_TURN = set(in_turn())
TRIED = [pytest.param(*pair, marks=[] if pair in IN_TURN else pytest.mark.slow) for pair in KERNELS_OF]
TONES = {"good", "bad", "info"}
BLOCKS = modules()["core/blocks.js"].partition("const MAKE = {")[2].partition("\n};")[0]
DRAWN = set(re.findall(r"^  (\w+): ", BLOCKS, re.M))


def link(path, kernel="", **more):
    side = page_of(path).sides[0] or "kernel"
    asked = {**({side: kernel} if kernel else {}), **more}
    return f"{path}?" + "&".join(f"{name}={value}" for name, value in asked.items())


@cache
def backend(path):
    """On the CPU, where a story asks where it runs."""
    asked = asking.ask(STORIES[path], {}, workers.survey())
    return {"backend": "cpu"} if "backend" in [choice["name"] for choice in asked.choices] else {}


def check_frames(stage):
    """Every frame has a title and a sentence for each side; a story without steps has a summary."""
    for frame in stage.frames:
        said = frame.get("sentences") or [frame["sentence"]]
        assert frame["title"] and all(isinstance(text, str) and text for text in said), frame
        assert not re.search(r"\bnan\b(?!,| |\.)|None|\{", " ".join(said)), said
    assert stage.frames or stage.summary or stage.side
    assert 0 <= stage.step < max(1, len(stage.frames)) and stage.tone in TONES


SHORT = {"fusion", "launches", "ring", "patterns", "memory_hierarchy"}  # pages whose every sentence is short


def check_texts(path, stage):
    """No text lacks a value. A sentence of a SHORT page has at most 25 words. None can begin an option."""
    said = [text for frame in stage.frames for text in frame.get("sentences") or [frame["sentence"]]]
    asked = [text for one in stage.questions for text in (one["text"], one["why"], *one["options"], *one["reasons"])]
    texts = [*said, stage.summary, *asked, *(frame.get("details") or "" for frame in stage.frames)]
    assert not [text for text in texts if re.search(r"undefined|(?<!^)\bNone\b|\bnan\b", text)]
    if path in SHORT:
        sentences = [part for text in texts for part in re.split(r"(?<=[.!?])\s+", text)]
        assert not [sentence for sentence in sentences if len(sentence.split()) > 25]


def check_code(stage):
    """What a step lights stands in the files that are shown, and is no probe's own line."""
    for code in stage.codes:
        lines = {f"{file['name']}:{n}" for file in code["files"] for n in range(1, len(file["lines"]) + 1)}
        lit = [place for frame in stage.frames for place in frame.get(code["lit"]) or ()]
        assert set(lit) <= lines, set(lit) - lines
        assert all(0 < probe <= len(file["lines"]) for file in code["files"] for probe in file["probes"])
        assert code["kernel"] in stage.headline or len(stage.codes) > 1 or code["files"]
    if stage.codes and len(stage.frames) > 1:
        assert any(frame.get(stage.codes[0]["lit"]) for frame in stage.frames)


def check_state(stage):
    for entry in stage.state:
        assert entry["name"] and len(entry["values"]) == max(1, len(stage.frames)), entry["name"]
        assert {type(value) for value in entry["values"]} <= {int, float, str, bool, type(None)}


def check_views(stage):
    for view in stage.views:
        assert f"views/{view['kind']}.js" in modules() and view["id"] and view["title"] and view["side"] in (0, 1)
        shown = view["meta"].get("frames") if isinstance(view["meta"], dict) else None
        own = view["meta"].get("clock") if isinstance(view["meta"], dict) else None  # steps of its own
        assert own or shown is None or len(shown) == len(stage.frames), view["kind"]
    assert len({(view["id"], view["side"]) for view in stage.views}) == len(stage.views)


def check_blocks(blocks):
    for block in flat(blocks):
        assert block["kind"] in DRAWN, block["kind"]
        if block["kind"] == "table":
            width = len(block["columns"])
            assert width and all(len(row) == width for row in block["rows"]) and len(block["kinds"]) == width
            assert len(block["lit"]) in (0, len(block["rows"]))
        if block["kind"] == "chart":
            check_chart(block)
        if block["kind"] == "note":
            assert block["tone"] in TONES
        if block["kind"] == "text" and block["label"]:
            assert block["label"] in glossary.PROVENANCE
        if block["kind"] == "link":
            made = asking.ask(STORIES[block["story"]], block["query"], workers.survey(), carried=False)
            assert not made.error and not made.told, (block, made.error, made.told)
    assert blocks


def check_chart(block):
    """A chart has a text alternative; where it follows the clock it has the parameter `step`, and uses it. It
    is 1 until the clock sets it, or the last stage of Precision, which has all roundings."""
    spec = block["spec"]
    assert block["alt"] and "$schema" in spec
    followed = [param for param in spec.get("params", []) if param["name"] == "step"]
    rest = json.dumps({key: value for key, value in spec.items() if key != "params"}, ensure_ascii=False)
    for param in followed:
        first = len(STAGES) if "datum.stage === step" in rest else 1
        assert param["value"] == first and "bind" not in param
        assert re.search(r'"(expr|filter)": "[^"]*\bstep\b', rest)
    assert "warpglass-clock" not in json.dumps(spec) and not US.search(rest)


TIME = re.compile(r"\d ?(?:µs|us|ms|ns|TFLOP/s|GB/s|cycles)\b")
US = re.compile(r"\d ?us\b|[,(] ?us\b|' us'")  # for µs
PLACE = re.compile(r"(?=.*\b[AHLVB]\d{2,3}\b)(?=.*\b20\d\d-\d\d-\d\d\b)", re.S)  # a GPU and a date
WITHOUT_PROBLEM = {
    "memory_hierarchy",
    "workbench",
    "glossary",
    "checks",
}  # loads of one thread, and pages without a run


def check_words(page):
    """One thing is singular. The stage names its problem. A stage with recorded figures names GPU and date."""
    stage, where = page.stage, page.stage.provenance or {}
    texts = [*texts_in(vars(stage))]
    assert not [text for text in texts if wrong_plural(text) or US.search(text)]
    without = page.story.path in WITHOUT_PROBLEM or where.get("label") == "modelled"
    assert where.get("problem") or page.asked.problem or without
    timed = [text for text in texts if TIME.search(text)]
    if timed and where.get("label") != "modelled":
        assert PLACE.search(where.get("place", "")) or any(map(PLACE.search, texts)), timed


@pytest.mark.parametrize("stop", course.stops(), ids=lambda stop: stop.name)
def test_a_stop_opens_with_its_choices_picture_and_questions_and_names_its_problem_and_the_card_and_date(stop):
    choices = {"stop": stop.name, **backend(stop.story), **stop.choices}
    page = open_page(f"{stop.story}?" + "&".join(f"{name}={value}" for name, value in choices.items()))
    assert not page.asked.error and not page.asked.told
    assert {name: page.asked.link[name] for name in stop.choices} == stop.choices
    check_words(page)
    questions = asked(page.made.questions)
    assert not set(stop.questions) - set(questions), f"{stop.story} asks {[*questions]}"
    assert stop.questions and len(questions) >= 2 or stop.story == "checks"
    assert not told([questions[name] for name in stop.questions], page.made)
    assert 8 < len(page.story.look) < 400
    assert not stop.picture or stop.picture in [view["id"] for view in page.stage.views]
    for moment in (stop.deeper, stop.paper):
        assert not moment or moment.link.startswith("https://") or moment.link.partition("?")[0] in STORIES


@pytest.mark.parametrize(("path", "kernel"), TRIED)  # the other pairs when there is time
def test_every_story_shows_every_kernel_that_it_accepts(path, kernel):
    page = open_page(link(path, kernel, **backend(path)))
    assert not page.asked.error and not page.asked.told, (page.asked.error, page.asked.told)
    stage = page.stage
    check_frames(stage)
    check_texts(path, stage)
    check_code(stage)
    check_state(stage)
    check_views(stage)
    check_words(page)
    assert page.size <= MAX_BYTES
    assert stage.views or stage.codes or stage.side or stage.summary
    if stage.provenance:
        assert stage.provenance["label"] in glossary.PROVENANCE and not stage.provenance["warnings"]
    assert not stage.told and kernel in (stage.headline or page.asked.headline)
    assert len({tab["id"] for tab in stage.tabs}) == len(stage.tabs)
    unmade = {tab["id"] for tab in stage.tabs if tab["blocks"] is None}
    assert unmade <= set(page.story.parts), "a tab that is made when it is opened has no part"
    for entry in stage.late:
        assert entry["name"] in page_of(page.story.path).own and entry["value"] in [
            o["value"] for o in entry.get("options", [entry])
        ]
    for question in stage.questions:
        check_question(question, stage)


def check_question(question, stage):
    assert (
        question["text"].strip().endswith(("?", "."))
        and question["why"]
        and question["kind"] in ("options", "number", "click")
    )
    own = next((view["meta"] for view in stage.views if view["id"] == question["view"]), {})
    frames = own["frames"] if own.get("clock") else stage.frames
    assert 0 <= question["step"] < max(1, len(frames))
    if question["kind"] == "options":
        assert 2 <= len(question["options"]) <= 4 and 0 <= question["answer"] < len(question["options"])
        assert len(set(question["options"])) == len(question["options"])
    elif question["kind"] == "number":
        assert isinstance(question["answer"], (int, float)) and math.isfinite(question["answer"])
    else:
        assert isinstance(question["answer"], dict) and question["view"] in {view["id"] for view in stage.views} | {""}


@pytest.mark.slow  # tests/browser/test_stage.py opens them all
@pytest.mark.parametrize("path", STORIES)
def test_every_tab_of_every_story_is_made(path):
    page = open_page(link(path, **backend(path)))
    for tab in page.stage.tabs:
        blocks = page.tab(tab["id"])
        check_blocks(blocks)
        assert words(blocks).strip() or any(block["kind"] not in ("text", "table", "note") for block in blocks)
    if page.stage.side:
        check_blocks(page.stage.side)


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("path", STORIES)
def test_every_choice_of_a_story_can_be_made(path, every):
    """Options of each choice that has some, and the ends of each number: taken, or refused with a reason. It tries each
    fourth option, and all when there is time."""
    first = asking.ask(STORIES[path], backend(path), workers.survey())
    for entry in first.choices:
        if entry.get("disabled"):
            continue
        values = [o["value"] for o in entry.get("options", []) if not o.get("why")][::every]
        values += [str(entry[end]) for end in ("low", "high") if entry.get(end) is not None]
        for value in values:
            made = asking.ask(STORIES[path], first.link, workers.survey(), (entry["name"], value))
            assert made.subject is not None or made.error, (entry["name"], value)
            assert not made.refused or made.refused[entry["name"]], (entry["name"], value)


# ---- the rail ----


def test_the_browser_knows_every_page_and_the_stops_of_the_course():
    assert [page["path"] for page in rail(current())] == list(STORIES) and next(iter(STORIES)) == "start"
    for page in rail(current())[1:]:
        assert 1 <= len(page["title"].split()) <= 3, page["title"]
        assert 1 <= len(re.findall(r"[.?](?= |$)", page["look"])) <= 4, page["look"]
    found = stops(current())
    assert [stop["name"] for stop in found] == [stop.name for stop in course.stops()]
    assert json.loads(json.dumps(found))[0]["number"] == 1


def test_every_kernel_can_be_looked_at_somewhere():
    assert {kernel for _, kernel in KERNELS_OF} >= set(KERNELS)


def test_a_choice_with_other_values_in_another_story_stays_in_its_own():
    stays = {stop["path"]: stop["own"] for stop in rail(current())}
    own = {path: page_of(path).own for path in STORIES}
    for one, other in combinations(STORIES, 2):
        for name in own[one].keys() & own[other].keys():
            if own[one][name].allowed != own[other][name].allowed:
                assert name in stays[one] and name in stays[other], (name, one, other)
    assert "layout" in stays["tensor_cores"]  # a field that two families have
    assert "line" in stays["coalescing"]  # of a kernel
    assert not any("kernel" in names or "backend" in names for names in stays.values())
