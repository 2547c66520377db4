"""A class in two browsers: one leads, one follows, strays, catches up, answers; and the door with its password."""

import csv
from pathlib import Path

import pytest
from browser.conftest import Server, shown
from browser.stepping import Requests, address, asked, choose, point_at, press, rail, step_of
from playwright.sync_api import expect

SMALL = "kernel=03_flash&seq_len=32&head_dim=32&backend=cpu"


def at_step(page, step):
    page.wait_for_function("step => window.clock.step === step", arg=step)


def by_menu(page):
    page.get_by_role("button", name="Menu", exact=True).click()
    page.locator(".menu").get_by_role("button", name="Class", exact=True).click()


@pytest.fixture
def led(visit):
    """(leader's page, follower's page, code): in one class, at the same step."""
    leader = visit(f"/tiling?{SMALL}&step=3")
    by_menu(leader)
    leader.get_by_role("button", name="Lead a class", exact=True).click()
    code = leader.locator(".room-code").inner_text()
    leader.keyboard.press("Escape")
    follower = visit(f"/source?class={code}")
    shown(follower, "tiling")
    at_step(follower, 2)
    expect(leader.locator(".class-button")).to_have_text(f"Class {code}: 1")
    return leader, follower, code


def test_a_follower_is_where_the_leader_is(led):
    leader, follower, code = led
    requests = Requests(follower)
    requests.rest()
    press(leader, "ArrowRight", "ArrowRight")
    at_step(follower, 4)
    leader.mouse.click(*point_at(leader, "Matrices", tensor="Q", query=3, dim=5))
    expect(follower.locator(".pin").first).to_contain_text("Pinned: Q[3, 5]")
    # steps and pins ask nothing of the server; an icon may be
    assert not [url for url in requests.asked if "/media/" not in str(url)]
    before = follower.evaluate("document.querySelector('.wg').dataset.shown").split(" ")[1]
    choose(leader, "what_if", "RESCALE")
    shown(follower, "tiling", before)
    at_step(follower, step_of(leader))
    assert asked(follower) == asked(leader) and "class" not in address(follower)
    press(leader, "End")
    at_step(follower, step_of(leader))
    rail(leader, "online_softmax")
    shown(follower, "online_softmax")
    expect(follower.locator(".wg .messages [role=alert]")).to_have_count(
        0
    )  # the step of the page before is not asked for
    follower.reload()
    shown(follower, "online_softmax")
    expect(follower.locator(".class-button")).to_have_text(f"Class {code}")
    press(leader, "End")
    at_step(follower, step_of(leader))


def test_who_strays_is_left_alone_and_catches_up_and_a_class_ends_for_all(led):
    leader, follower, _ = led
    line = follower.locator(".class-line")
    press(follower, "ArrowRight")
    expect(line).to_contain_text("You are on your own. The class is at Tiles, step 3.")
    press(leader, "Home")
    expect(line).to_contain_text("step 1.")
    assert step_of(follower) == 3 and step_of(leader) == 0
    rail(follower, "source")
    press(leader, "ArrowRight")
    expect(line).to_contain_text("step 2.")
    follower.get_by_role("button", name="Catch up").click()
    shown(follower, "tiling")
    at_step(follower, 1)
    expect(line).to_be_hidden()
    leader, follower, code = led
    leader.locator(".class-button").click()
    leader.locator("[data-end]").click()
    leader.locator("[data-end]").click()
    expect(follower.locator(".class-line")).to_contain_text("The class has ended.")
    expect(follower.locator(".class-button")).to_have_text("Class")
    by_menu(follower)
    follower.get_by_role("textbox", name="Code").fill(code)
    follower.get_by_role("button", name="Follow", exact=True).click()
    expect(follower.locator(".class-panel")).to_contain_text(f"There is no class {code}")


def ask_the_class(leader):
    """Asks a question with options; its text."""
    leader.get_by_role("button", name="Guide", exact=True).click()
    while not leader.locator(".guide .option").count():
        leader.get_by_role("button", name="Next question").click()
    leader.get_by_role("button", name="Ask the class").click()
    return leader.locator(".guide .question").inner_text()


def test_the_class_is_asked_and_shown(led):
    leader, follower, _ = led
    question = ask_the_class(leader)
    expect(follower.locator(".guide .question")).to_have_text(question)
    for page in (leader, follower):  # the answer is nobody's yet
        expect(page.locator(".guide [data-show]")).to_have_count(0)
    step = step_of(follower)
    expect(leader.locator(".guide .option:not([aria-disabled])")).to_have_count(0)
    options = follower.locator(".guide .option")
    options.nth(0).click()
    options.nth(1).click()  # who answers again changes the answer
    expect(leader.locator(".votes")).to_contain_text("1 of 1 answered.")
    expect(leader.locator('.vote[data-value="1"] b')).to_have_text("1")
    expect(leader.locator('.vote[data-value="0"] b')).to_have_text("0")
    expect(follower.locator(".guide .answer")).to_contain_text("Your answer is sent")
    assert not follower.locator(".vote").count() and not follower.locator(".option.true").count()
    assert not leader.locator(".vote.true").count() and step_of(follower) == step
    leader.get_by_role("button", name="Show the answer").click()
    expect(follower.locator(".guide .option.true")).to_have_count(1)
    expect(leader.locator(".vote.true")).to_have_count(1)
    expect(follower.locator(".class-line")).to_be_hidden()  # to be led to the answer is not to stray


def test_a_vote_is_locked_and_timed(led):
    leader, follower, _ = led
    ask_the_class(leader)
    expect(follower.locator(".guide .option:not([aria-disabled])").first).to_be_visible()
    leader.locator("[data-lock]").click()
    for page in (leader, follower):
        expect(page.locator(".guide .time")).to_have_text("The vote is locked.")
    expect(follower.locator(".guide .option:not([aria-disabled])")).to_have_count(0)
    leader.locator("[data-timer='60']").click()
    for page in (leader, follower):
        expect(page.locator(".guide .time")).to_contain_text("s left to vote.")
    follower.locator(".guide .option").first.click()
    expect(leader.locator(".votes")).to_contain_text("1 of 1 answered.")


def test_the_leader_takes_the_answers_along(led):
    leader, follower, code = led
    question = ask_the_class(leader)
    follower.locator(".guide .option").nth(1).click()
    expect(leader.locator(".votes")).to_contain_text("1 of 1 answered.")
    leader.locator(".class-button").click()
    with leader.expect_download() as saved:
        leader.get_by_role("button", name="Answers as CSV").click()
    assert saved.value.suggested_filename == f"class_{code}.csv"
    rows = list(csv.DictReader(Path(saved.value.path()).read_text().splitlines()))
    assert {row["text"] for row in rows} == {question} and [row["count"] for row in rows][:2] == ["0", "1"]
    assert rows[1]["answer"] == follower.locator(".guide .option").nth(1).inner_text()


@pytest.mark.slow
def test_everyone_is_back_at_the_same_moment_after_the_server_was_away_and_the_door_has_a_password(visit, tmp_path):
    """Under a path of its own, with a class password and a room secret, as app.serve starts it."""
    given = ["--base-path", "warpglass", "--password", "slate", "--room-secret", "chalk"]
    server = Server(given, WARPGLASS_CACHE=str(tmp_path))
    leader = visit(f"/warpglass/tiling?{SMALL}", at=server, wait="#password")
    leader.fill("#password", "cheese")
    leader.keyboard.press("Enter")
    expect(leader.locator("[role=alert]")).to_contain_text("not the password")
    leader.fill("#password", "slate")
    leader.keyboard.press("Enter")
    shown(leader, "tiling")
    by_menu(leader)
    leader.get_by_role("button", name="Lead a class", exact=True).click()
    leader.get_by_label("Room secret of this server").fill("chalk")
    leader.keyboard.press("Enter")
    code = leader.locator(".room-code").inner_text()
    leader.keyboard.press("Escape")
    follower = leader.context.new_page()  # the browser that was let in
    follower.goto(f"{server.url}/warpglass/?class={code}")
    shown(follower, "tiling")
    press(leader, "End")
    at_step(follower, step_of(leader))
    leader.wait_for_timeout(1500)  # rooms are written once a second
    server.stop()
    expect(follower.locator(".class-line")).to_contain_text("The connection to the class is lost")
    press(leader, "Home", "ArrowRight")
    server = Server(given, port=server.port, WARPGLASS_CACHE=str(tmp_path))
    at_step(follower, 1)
    expect(follower.locator(".class-line")).to_be_hidden()
    server.stop()
