"""The picture `buckets`: the reader moves the width of a row, and the tower of words topples."""

from browser.test_covering import DRAWN, opened, turn_to, words
from playwright.sync_api import expect

PICTURE = "/bank_conflicts?kernel=lab_columns&picture=buckets&step=5&backend=cpu"


def headline(page):
    return page.locator(".wg .narration .sentence")


def test_the_width_of_a_row_says_its_turns_and_their_reason(visit):
    page = visit(PICTURE)
    width = page.locator(".hands input.wide")
    expect(headline(page)).to_have_text("Move the slider: which rows still make lanes wait?")
    for asked, said in (
        ("48", "48 and 32 share the factor 16: 16 words in a bank, 16 turns."),
        ("33", "33 and 32 share only 1: each word has its own bank. 1 turn."),
        ("40", "40 and 32 share the factor 8: 8 words in a bank, 8 turns."),
    ):
        width.fill(asked)
        expect(headline(page)).to_have_text(said)
    width.focus()
    page.keyboard.press("ArrowLeft")  # the key belongs to the slider
    expect(headline(page)).to_contain_text("39 and 32 share only 1")
    page.keyboard.press("ArrowLeft")  # and stays its own
    expect(headline(page)).to_contain_text("38 and 32 share the factor 2")
    assert page.evaluate("window.clock.step") == 4
    expect(page.locator(".of-hand")).to_contain_text("times as fast (H200")
    expect(page.locator(".wg .provenance")).to_have_text("modelled")


def test_each_row_gets_its_unused_word_by_itself(visit):
    page = visit(PICTURE.replace("step=5", "step=3"), script=DRAWN)
    assert "of 32" in words(page)  # the turn
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(1800)
    expect(headline(page)).to_have_text("Row r begins at word 33 r now, in bank r.")
    assert "1 turn" in words(page) and "unused words (padding)" in words(page)


def test_the_switch_says_that_it_changes_the_width(visit):
    page = visit(PICTURE.replace("step=5", "step=7"))
    expect(headline(page)).to_have_text("Switch XOR on: the rows keep 32 words. Then try one word.")
    page.locator(".hands input.wide").fill("33")
    page.locator(".hands input[type=checkbox]").check()
    expect(headline(page)).to_have_text("XOR needs no padding: the rows have 32 words now. 1 turn.")
    expect(page.locator(".hands input.wide")).to_be_disabled()
    page.locator(".hands [data-read=same]").click()
    expect(headline(page)).to_have_text("All lanes want one word. It is read once for all: 1 turn.")


def test_the_xor_is_explained_before_its_switch(visit):
    page = visit(PICTURE.replace("step=5", "step=6"))
    expect(headline(page)).to_contain_text("a column has another bank in each")
    assert not page.locator(".hands input").count()


def test_a_right_answer_moves_the_width_of_the_question(visit):
    page, questions = opened(visit, "banks")
    turn_to(page, questions, "wider")
    page.locator(".wg .guide .option", has_text="1 turn: each word").click()
    expect(headline(page)).to_contain_text("33 and 32 share only 1")
    page.locator('.wg .guide [data-turn="Next question"]').click()
    page.locator(".wg .guide input[type=number]").fill("32")
    page.keyboard.press("Enter")
    expect(page.locator(".wg .guide .answer")).to_contain_text("Not 32. Row r begins at word 48 r.")
    page.locator(".wg .guide input[type=number]").fill("16")
    page.keyboard.press("Enter")
    expect(headline(page)).to_contain_text("48 and 32 share the factor 16")


def test_show_me_moves_the_width_of_the_question(visit):
    page, questions = opened(visit, "banks")
    turn_to(page, questions, "rows_of_48")
    page.locator(".wg .guide [data-show]").click()
    expect(headline(page)).to_contain_text("48 and 32 share the factor 16")
    assert page.locator(".hands input.wide").input_value() == "48"
