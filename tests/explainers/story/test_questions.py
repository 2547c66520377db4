from explainers.story.questions import idea, options


def test_a_question_has_a_reason_against_each_wrong_option_and_its_options_a_fixed_order():
    found = idea("why", "Why?", "Each byte is read once", {"It is small": "It has 64 rows.", "By luck": "No."}, "So.")
    assert found.options[found.answer] == "Each byte is read once" and found.kind == "options"
    assert dict(zip(found.options, found.reasons)) == {
        "Each byte is read once": "",
        "It is small": "It has 64 rows.",
        "By luck": "No.",
    }
    assert options("n", "?", "2", ["4", "1"], "So.", ["1", "2", "4"])[0].options == ["1", "2", "4"]
    shuffled = options("n", "?", "b", ["a", "c"], "So.")[0]
    assert shuffled.options == options("n", "?", "b", ["c", "a"], "So.")[0].options
    assert not options("n", "?", "b", ["b"], "So.")
