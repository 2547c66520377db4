"""What the serving picture says, recomputed from the block manager's own states."""

import json

import pytest

from explainers.stories.block_table import serving
from explainers.stories.block_table.paging import WORDS
from explainers.stories.block_table.subjects import Serving
from explainers.story import encoding
from kernels.families.paged.problem import PagedProblem
from kernels.kv_cache.scenarios import SERVED, Scenario
from kernels.kv_cache.scheduler import alone, read_visits, serve


@pytest.mark.parametrize("block_size", [8, 16, 32])
@pytest.mark.parametrize("scenario", SERVED.values(), ids=SERVED)
def test_every_step_shows_the_cache_as_it_stands_then(scenario, block_size):
    made = serving.stage_of(scenario, block_size, PagedProblem.of_cache(scenario.states(block_size)[-1][0]).layout)
    frames = serving.serving_frames(scenario, block_size, 0)
    steps, played, ends = scenario.steps(block_size), scenario.states(block_size), list(made.step_values)
    assert made.step_choice == "moment" and ends[-1] == len(played) - 1 and len(made.frames) == len(steps) + 1
    for frame, end in zip(frames, ends):
        cache = played[end][0]
        assert {s["name"]: s["table"] for s in frame["sequences"]} == {s.name: s.table for s in cache.sequences}
        assert set(frame["pages"]) | set(frame["free"]) == set(range(cache.num_blocks))
        own = [s for s in cache.sequences if s.name != "R"]  # a server without pages has no prefix
        assert frame["usage"]["reserved"] == scenario.max_len * len(own)
        assert frame["usage"]["empty"] == scenario.max_len * len(own) - sum(len(s.tokens) for s in own)
        assert frame["usage"]["held"] == block_size * len({page for s in cache.sequences for page in s.table})
        slack = sum(block_size - page["fill"] for page in frame["pages"].values())
        assert slack == frame["usage"]["slack"]
    strip = {(state.name, state.unit): list(state.values) for state in made.state}
    token = 2 * 2 * 64 * 4  # K and V of two KV heads in fp32
    assert strip["slack", "B"] == [frame["usage"]["slack"] * token for frame in frames]
    written = [p + d for p, d in zip(strip["tokens prefilled", ""], strip["tokens decoded", ""])]
    assert written == [len(frame["new"]) for frame in frames]
    assert strip["tokens decoded", ""][1:] == [len(step.decoded) for step in steps]
    json.dumps(encoding.decode(encoding.encode(made)))


def test_the_sentences_say_what_happened_and_what_is_wasted_with_its_numbers():
    scenario = SERVED["one_prompt"]
    said = [frame["sentence"] for frame in serving.serving_frames(scenario, 16, 1024)]
    assert said[0].endswith(
        "6 requests will come. R is a prompt that others share. "
        "A server that reserves 96 slots for each request has room for 2."
    )
    assert said[1] == "R is prefilled: 44 tokens at once, in pages 0 to 2."
    assert said[2] == (
        "A is a fork of R and shares its pages 0, 1. Page 2 is not full, so it is copied to page 3. "
        "A is prefilled: 9 tokens at once, in pages 3, 4."
    )
    assert said[9] == (
        "A, B, C and D decode a token each. C2 is a fork of C and shares its pages 0, 1, 7, 8. "
        "They hold 55 tokens, and nothing is copied yet."
    )
    assert said[10] == (
        "A, B, C, D and C2 decode a token each. B takes page 12. C takes page 13 and copies page 8, shared with C2, "
        "into it. E waits. It may need 3 pages. The pool has 3 free pages, and the others may take 3 of them."
    )
    assert said[12] == (
        "B has ended. Pages 5, 6, 12 are free. Pages 0, 1 stay with others. A, C, D and C2 decode a token each. E, "
        "after 2 steps of waiting, is prefilled: 30 tokens at once, in pages 14, 15."
    )
    assert said[7].startswith("Nobody else shares R. Page 2 is free. Pages 0, 1 stay with others.")
    assert "Behind it wait D and E." in serving.serving_frames(SERVED["long_prompt"], 16, 0)[7]["sentence"]
    said = [frame["waste"] for frame in serving.serving_frames(SERVED["one_prompt"], 16, 1024)]
    assert said[:2] == ["Nothing is held.", "Last pages waste 8%, 4,096 bytes of K and V."]  # S, 44 of 48 slots
    assert said[2].endswith(". With 96 slots reserved for the request, 45%, 44,032 bytes are empty.")  # A, 53 of 96
    assert said[-1] == (  # C with 72 tokens in 5 pages, E with 44 in 3
        "Last pages waste 9%, 12,288 bytes of K and V. With 96 slots reserved for each request, 40%, 77,824 bytes are "
        "empty."
    )


def of(text):
    return Scenario("", "", (), 256, 96, read_visits(text))


@pytest.mark.parametrize(
    ("text", "number", "words"),
    [
        ("S 1 40 0, A 5 6 3 S", 2, "S stays, and nothing is written."),
        ("S 1 40 0, R 1 9 0, A 5 6 3 S, B 5 6 3 R", 4, "S and R stay, and nothing is written."),
        ("S 9 5 0, A 1 5 2", 5, "All requests have ended."),
        ("A 3 5 2", 2, "No request is here yet."),
    ],
)
def test_a_step_in_which_nothing_happens_says_who_is_there(text, number, words):
    frame = serving.serving_frames(of(text), 16, 0)[number]
    assert frame["sentence"] == words and bool(frame["sequences"]) == ("nothing is written" in words)
    assert frame["sequences"] or frame["waste"] == "Nothing is held."


def test_the_phases_of_a_request_are_those_of_the_scheduler():
    scenario = SERVED["one_prompt"]
    steps, played = scenario.steps(16), scenario.states(16)
    by_name = {visit["name"]: visit for visit in serving.visits_of(scenario, steps, played)}
    for step in steps:
        for name, visit in by_name.items():
            assert (visit["start"] == step.number) == (name in step.admitted)
            assert (visit["start"] < step.number <= visit["end"]) == (name in step.decoded)
            assert (visit["arrives"] <= step.number < visit["start"]) == (name in step.waiting)
            assert (visit["gone"] == step.number) == (name in step.freed)
    assert [by_name[name]["shared"] for name in ("A", "C2", "E")] == [44, 55, 0]
    assert len({visit["colour"] for visit in by_name.values()}) == 7


def test_pages_are_compared_with_a_server_that_has_none():
    scenario = SERVED["one_prompt"]
    table = serving.requests_table(scenario, 16).set_index("request")
    other = serve(alone(scenario.visits, scenario.steps(16)), scenario.slots // scenario.max_len, scenario.max_len)
    for visit in scenario.visits[1:]:
        start = next(step.number for step in other if visit.name in step.admitted)
        assert table.loc[visit.name, "waits without pages"] == start - visit.arrives
        assert table.loc[visit.name, "waits"] == table.loc[visit.name, "admitted at step"] - visit.arrives
    said = WORDS.say("compared", serving.compared(scenario, 16))
    assert "up to 1 sequence is in the cache at once." in WORDS.say("compared", serving.compared(of("A 1 20 4"), 16))
    assert f"answer ends in step {len(scenario.steps(16))}," in said
    assert f"last answer ends in step {len(other)}." in said
    made = serving.stage_of(scenario, 16, None)
    assert made.summary == f"With pages, all answers end by step 26. With reserved slots they need {len(other)} steps."


@pytest.mark.parametrize("scenario", SERVED.values(), ids=SERVED)
def test_the_questions_are_of_the_caches_numbers(scenario):
    frames = serving.serving_frames(scenario, 16, 0)
    asked = {q.id: q for q in WORDS.questions(serving.asked(scenario, 16), 0)}
    assert set(asked) <= {"at_once", "fork", "waits"}
    reserved = scenario.slots // scenario.max_len
    assert f"holds {reserved} request" in asked["at_once"].text
    served = {visit.name for visit in scenario.visits if visit.answer}
    visits = serving.visits_of(scenario, scenario.steps(16), scenario.states(16))
    forks = [visit["start"] for visit in visits if not visit["prompt"] and visit["parent"]]
    before = frames[: min(forks, default=len(frames))]  # the next question is about the fork
    most = max(sum(s["name"] in served for s in frame["sequences"]) for frame in before)
    assert most > reserved and f"the pool holds {most} requests" in asked["at_once"].why


def test_a_fork_copies_only_the_block_table_and_a_request_waits_for_pages_that_others_may_take():
    scenario = SERVED["one_prompt"]
    frames = serving.serving_frames(scenario, 16, 0)
    fork = next(q for q in WORDS.questions(serving.asked(scenario, 16), 0) if q.id == "fork")
    before, after = frames[fork.step - 1], frames[fork.step]
    tables = {s["name"]: s["table"] for s in after["sequences"]}
    assert tables["C2"] == tables["C"] and len(before["free"]) == len(after["free"])  # no page is taken
    assert fork.options[fork.answer] == f"Only the block table, {len(tables['C'])} page numbers"
    last = fork.reasons[fork.options.index("Only the last page, which is not full")]
    copied = next(n for n in range(fork.step + 1, len(frames)) if frames[n]["copies"])
    assert f"In step {copied} somebody writes into it" in last
    assert frames[copied]["copies"][0][0] == tables["C"][-1]
    waits = next(q for q in WORDS.questions(serving.asked(scenario, 16), 0) if q.id == "waits")
    frame = frames[waits.step]
    assert (
        waits.text == f"In step {waits.step}, {len(frame['free'])} pages are free. Why does {frame['waiting'][0]} wait?"
    )
    visits = serving.visits_of(scenario, scenario.steps(16), scenario.states(16))
    start = next(v["start"] for v in visits if v["name"] == frame["waiting"][0])
    assert f"starts in step {start}" in waits.why and frame["waiting"][0] not in frames[start]["waiting"]


# ---- the text of a model over a served cache ----

SCENARIO = SERVED["generation"]


def made(backend):
    result = serving.stage_of(SCENARIO, 16, None)
    return serving.with_text(result, Serving(SCENARIO, 16, None, backend))


def test_each_step_names_its_characters_and_both_backends_have_the_same():
    ran, without = made("cpu"), made("recorded")
    said = [frame["sentence"] for frame in ran.frames]
    assert said == [frame["sentence"] for frame in without.frames]
    chosen = "".join(s.split('" for A')[0][-1] for s in said if '" for A' in s)
    (tab,) = (tab for tab in ran.tabs if tab.id == "text")
    about, table, checked = tab.blocks
    assert "random weights, so its text is noise" in about["text"]
    assert [row[0] for row in table["rows"]] == ["A", "B", "C"] and table["rows"][0][2] == chosen
    assert [row[3:] for row in table["rows"]] == [[53, 38, 15], [48, 38, 10], [47, 38, 9]]
    assert "generates the same text" in checked["text"] and checked["label"] == "executed"
    assert ran.summary.endswith("A, B and C reuse 114 tokens of their 148 prompt tokens.")
    (tab,) = (tab for tab in without.tabs if tab.id == "text")
    assert tab.blocks[-1]["text"].startswith("No kernel can run here")
