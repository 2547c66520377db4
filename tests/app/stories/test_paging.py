"""The choices of Paging: the step of the cache is a choice that goes along, what is recorded."""

from dataclasses import replace

import pytest

from app.stories import STORIES
from app.web import asking
from kernels.kv_cache.scenarios import SERVED
from kernels.run import workers

STORY = STORIES["block_table"]


def ask(change=None, **link):
    return asking.ask(STORY, {"backend": "cpu"} | link, workers.survey(), change)


def test_paging_opens_at_a_walk_through_pages_in_no_order():
    asked = ask()
    sequence = asked.subject.request.scope.first // asked.subject.request.problem.num_heads
    table = asked.subject.request.problem.block_tables[sequence]
    assert asked.link["view"] == "walk" and asked.subject.name == "E" and table == (13, 2, 3, 4, 1)


def test_the_cache_opens_at_its_first_event():
    assert ask(view="cache").subject.moment == 0
    assert ask(view="cache", moment="5").subject.moment == 5


def test_the_event_goes_along_to_the_walk_and_a_sequence_that_is_not_there_yet_is_replaced_without_a_word():
    asked = ask(("view", "walk"), view="cache", moment="1", sequence="1")
    assert not asked.told and asked.link["moment"] == "1" and asked.subject.name == "A"


def test_a_moment_after_the_last_event_is_refused_in_words():
    asked = ask(("moment", "500"), scenario="churn")
    assert asked.refused["moment"] == "moment is 500. Here it can be 0 to 12." and asked.link["moment"] == "12"


def test_where_there_are_recordings_alone_what_they_are_not_of_is_told(monkeypatch):
    found = workers.survey()
    alone = replace(found, devices={"recorded": found.devices["recorded"]}, reasons={"cpu": "none", "gpu": "none"})
    monkeypatch.setattr(workers, "survey", lambda: alone)
    asked = asking.ask(STORY, {"scenario": "churn", "moment": "3"}, alone, None)
    assert asked.link["moment"] == "12" and "moment is 3. Recorded is 12." in asked.told


def test_what_is_not_recorded_is_told_or_refused():
    told = ask(backend="recorded", moment="5", num_heads="8", num_kv_heads="8").told
    assert told == [
        "moment is 5. Recorded is 12.",
        "num_heads is 8. Recorded is 4.",
        "num_kv_heads is 8. Recorded is 2.",
    ]


def test_a_walk_of_an_empty_cache_says_why_there_is_none():
    assert "After event 0 the cache holds no sequence" in ask(moment="0").error


def test_what_the_kernels_write_is_that_of_the_event():
    writes = STORY.parts["writes"]
    assert "writes no key and no value" in writes(ask(view="cache", moment="9").subject)[0]["text"]
    copied = writes(ask(view="cache", scenario="shared_prompt", moment="5").subject)
    assert [block["kind"] for block in copied] == ["heading", "text", "text", "table"]
    assert "Page 2 to page 3: 16,384 bytes stored" in copied[1]["text"] and len(copied[3]["rows"]) == 6


@pytest.mark.parametrize(
    ("view", "pictures"),
    [
        ("walk", ["walk", "pages", "threads", "grid"]),
        ("partitions", ["partitions", "split", "threads_v1", "threads_v2"]),
        ("heads", ["heads", "sharing", "threads"]),
    ],
)
def test_every_view_that_runs_a_kernel_has_its_threads(view, pictures):
    made = STORY.make(ask(view=view).subject)
    assert [v.id for v in made.views] == pictures
    lit = {code.lit for code in made.codes}
    for own in (v.meta for v in made.views if v.kind == "threads" and v.meta.get("clock")):
        assert len(own["frames"]) == len(own["moments"])
        assert not lit or all(lit & set(frame) for frame in own["frames"])


def test_serving_opens_before_its_first_step_and_takes_its_moment_to_the_walk():
    asked = ask(view="serving")
    assert (asked.link["scenario"], asked.link["moment"]) == ("one_prompt", "0") and not asked.told
    made = STORY.make(asked.subject)
    assert [v.id for v in made.views] == ["serving"] and len(made.questions) >= 2
    moment = made.step_values[12]
    walked = ask(view="walk", scenario="one_prompt", moment=str(moment))
    cache = SERVED["one_prompt"].states(16)[moment][0]
    names = {sequence.name for sequence in cache.sequences}
    assert set(walked.subject.names) == names and walked.link["moment"] == str(moment)


def test_the_scenario_of_serving_does_not_stay_when_the_reader_goes_back_to_the_walk():
    there = ask(("view", "serving"), view="walk")
    assert there.link["scenario"] == "one_prompt" and not there.told
    back = ask(("view", "walk"), **there.link | {"moment": "3"})
    assert (back.link["scenario"], back.link["moment"], back.subject.name) == ("churn", "12", "E") and not back.told
    chosen = ask(("view", "heads"), view="walk", scenario="two_chats")
    assert chosen.link["scenario"] == "two_chats"
    first = ask(("view", "walk"), view="serving", scenario="long_prompt", moment="0")  # its cache is empty
    assert first.link["scenario"] == "long_prompt" and not first.error


def test_v1_and_v2_open_on_the_longest_sequence_and_say_the_gain():
    asked = ask(view="partitions", scenario="one_long")
    made = STORY.make(asked.subject)
    assert (
        asked.subject.name == "D"
        and asked.link["sequence"] == "0"
        and ask(("view", "partitions")).subject == asked.subject
    )
    assert made.summary == "V2 shares the 233 tokens of D among 8 blocks. Drawn in steps, it needs 7 in place of 11."
    short = STORY.make(ask(view="partitions", scenario="one_long", sequence="1").subject)
    assert short.summary.startswith("The 12 tokens of A are too few for V2.") and "7 steps against 5" in short.summary


def test_serving_by_the_menu_takes_a_scenario_that_is_served_and_a_link_is_told_why():
    assert ask(("view", "serving"), view="walk", scenario="churn").link["scenario"] == "one_prompt"
    (told,) = ask(view="serving", scenario="churn").told
    assert told == "scenario is churn. Serving has one_prompt, nothing_shared, long_prompt, generation, requests."


def test_requests_of_ones_own_are_served_and_refused_in_words():
    asked = ask(("scenario", "requests"), view="cache")
    assert asked.link["view"] == "serving" and asked.subject.scenario.max_len == 40 + 10 + 6
    link = {"view": "serving", "scenario": "requests"}
    grown = ask(("requests", "A 1 20 4, B 2 40 9"), **link)
    assert not grown.refused and [v.name for v in grown.subject.scenario.visits] == ["A", "B"]
    for text, words in (("A 1 20", "Write NAME ARRIVES PROMPT ANSWER"), ("A 1 900 4", "A needs 57 pages")):
        refused = ask(("requests", text), **link)
        assert words in refused.refused["requests"] and refused.subject == ask(**link).subject


def test_a_smaller_pool_that_the_requests_do_not_fit_is_refused():
    refused = ask(("num_blocks", "2"), view="serving", scenario="requests", num_blocks="16")
    assert "needs" in refused.refused["num_blocks"] and refused.link["num_blocks"] == "16"


def test_an_old_link_to_the_readers_of_a_page_opens_the_grouped_heads_and_says_so():
    asked = ask(view="reads", scenario="two_chats", dtype="float16")
    assert asked.told == ["view is reads. Now heads counts the reads of K and V."] and not asked.error
    assert asked.link["view"] == "heads" and STORY.make(asked.subject).views[0].id == "heads"
    (chip,) = (choice for choice in asked.choices if choice["name"] == "view")
    assert "reads" not in {option["value"] for option in chip["options"]}


def test_the_heads_show_what_is_recorded_and_what_is_served_is_not(recordings):
    cpu = ask(view="heads", scenario="two_chats").subject.requests
    for request in cpu:
        recordings(request.kernel.name, request.problem, request.settings)
    asked = ask(view="heads", scenario="two_chats", backend="recorded")
    made = STORY.make(asked.subject)
    assert made.provenance.label == "recorded"
    said = "Serving is not recorded. Choose another scenario, or another backend."
    assert ask(view="walk", scenario="one_prompt", backend="recorded").error == said
    assert not ask(view="serving", scenario="one_prompt", backend="recorded").error
    offered = {}
    for backend in ("recorded", "cpu"):
        scenario = next(choice for choice in ask(view="walk", backend=backend).choices if choice["name"] == "scenario")
        offered[backend] = {option["value"] for option in scenario["options"]}
    assert offered["cpu"] - offered["recorded"] == {*SERVED, "requests"}
