"""What the Sparsity page offers of its mask."""

from app.stories.sparsity import STORY
from app.web import asking
from kernels.run import workers


def ask(change=None, **link):
    return asking.ask(STORY, {"backend": "cpu"} | link, workers.survey(), change)


def test_that_a_mask_is_not_causal_stands_in_front_after_one_was_drawn_by_hand():
    begun = ask(mask="window")
    drawn = ask(("mask", "drawn"), **begun.link)
    back = ask(("mask", "window"), **drawn.link)
    groups = [next(c for c in asked.choices if c["name"] == "causal").get("group") for asked in (begun, drawn, back)]
    assert [asked.link["causal"] for asked in (begun, drawn, back)] == ["true", "false", "false"]
    assert groups[0] != "own" and groups[1:] == ["own", "own"]
