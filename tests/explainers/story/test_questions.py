from explainers.story.questions import idea, options


def test_a_question_of_an_idea_has_a_reason_against_each_wrong_option_and_none_against_the_right_one():
    found = idea("why", "Why?", "Each byte is read once", {"It is small": "It has 64 rows.", "By luck": "No."}, "So.")
    assert found.options[found.answer] == "Each byte is read once" and found.kind == "options"
    assert dict(zip(found.options, found.reasons)) == {
        "Each byte is read once": "",
        "It is small": "It has 64 rows.",
        "By luck": "No.",
    }


def test_options_keep_their_natural_order_and_else_an_order_of_their_texts():
    assert options("n", "?", "2", ["4", "1"], "So.", ["1", "2", "4"])[0].options == ["1", "2", "4"]
    shuffled = options("n", "?", "b", ["a", "c"], "So.")[0]
    assert shuffled.options == options("n", "?", "b", ["c", "a"], "So.")[0].options
    assert not options("n", "?", "b", ["b"], "So.")
