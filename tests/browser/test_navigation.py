"""From every page to every other by the menu: nobody's choices change on the way, and the charts follow the clock
wherever one arrives."""

import re
from urllib.parse import parse_qsl, urlsplit

import pytest
from browser.conftest import ready
from playwright.sync_api import expect

from app.stories import PAGES

pytestmark = pytest.mark.xdist_group("browser")
TITLES = [title for _, title, _ in PAGES]
BOUND = {"Tiling": 1, "Online softmax": 2, "Block table": 1}  # how many of the page's charts follow the clock
CHANGES = {
    "Tiling": ("seq_len", "40"),
    "Online softmax": ("Row of the tile", "3"),
    "Block table": ("seed", "3"),
    "Bank conflicts": ("stride", "7"),
    "Coalescing": ("seq_len", "48"),
    "Memory hierarchy": ("Run on", "Recorded: "),
    "Occupancy": ("num_heads", "4"),
    "Timing": ("Baseline of the speed-ups", "03_flash"),
    "Compare": ("seq_len", "40"),
    "Source": ("Build", "probed"),
    "Any kernel": ("seq_len", "40"),
}
SHARED = ("Tiling", "Online softmax")
WIDGETS = """() => { const bar = document.querySelector('[data-testid=stSidebar]');
  return bar && [...bar.querySelectorAll('input')].map(e => e.type === 'checkbox' ? e.checked : e.value) }"""
RULES = "[data-testid=stVegaLiteChart] .mark-rule.role-mark line"
FOLLOWED = """wanted => {
  const B = window.__warpglass, rules = [...document.querySelectorAll('RULES')];
  return rules.length === wanted && rules.every(rule => {
    const width = rule.closest('svg').querySelector('.role-frame .background').getBBox().width;
    const x = +/translate\\(([-\\d.e]+)/.exec(rule.getAttribute('transform'))[1];
    return Math.abs(x / width - B.step / (B.count - 1)) < 0.02; }) }""".replace("RULES", RULES)


def tour(places):
    """A closed walk that takes the way from each place to each other once."""
    left, ahead, walk = {place: [other for other in places if other != place] for place in places}, places[:1], []
    while ahead:
        if left[ahead[-1]]:
            ahead.append(left[ahead[-1]].pop())
        else:
            walk.append(ahead.pop())
    return walk[::-1]


def go(page, title, whole=True):
    """By the menu; whole: waits until the page is drawn to its end."""
    page.get_by_test_id("stTopNavLink").filter(has_text=re.compile(f"^{title}$")).dispatch_event("click")
    own = (
        page.locator("h1", has_text="Warpglass")
        if title == "Start"
        else page.locator("h2", has_text=re.compile(f"^{title}$"))
    )  # Start's cards are h3
    own.wait_for(timeout=30_000)
    if whole:
        ready(page, "[data-testid=stApp]")


def change(page, label, value):
    """Another value in the widget of that label, and the page drawn with it."""
    bar, before = page.get_by_test_id("stSidebar"), page.url
    if bar.get_by_role("spinbutton", name=label).count():
        bar.get_by_role("spinbutton", name=label).fill(value)
        page.keyboard.press("Enter")
    else:
        bar.get_by_role("combobox", name=label).click()
        page.get_by_role("option", name=value).first.click()
    expect(page).not_to_have_url(before, timeout=20_000)
    page.get_by_test_id("stHeading").first.click()  # the focus leaves the widget
    ready(page, "[data-testid=stApp]")


def asked(page):
    return {name: value for name, value in parse_qsl(urlsplit(page.url).query) if name != "step"}


def same(page, title, choices, widgets):
    """Waits for the choices and the widgets that are wanted; says where they differ."""
    for _ in range(100):
        if asked(page) == choices and page.evaluate(WIDGETS) == widgets:
            return
        page.wait_for_timeout(50)
    assert (title, asked(page), page.evaluate(WIDGETS)) == (title, choices, widgets)


def follows(page, title):
    """The charts' rules stand where the clock stands, on arrival and after it has moved."""
    for key in (None, "Home", "End"):
        if key:
            page.keyboard.press(key)
        page.wait_for_function(FOLLOWED, arg=BOUND[title], timeout=15_000)


def test_on_every_way_by_the_menu_choices_stay_and_charts_follow(visit):
    page = visit(wait="[data-testid=stHeading]", viewport={"width": 1800, "height": 1000})  # the whole menu is in sight
    unbound, wanted, changed, before = [], {}, set(), "Start"
    page.on(
        "console",
        lambda message: unbound.append(message.text) if "Signal bind element not found" in message.text else None,
    )
    # Start has no widgets that could spoil another page's
    for title in [*(place for one in TITLES for place in (one, "Start")), *tour(TITLES)]:
        go(
            page, title, whole=title not in changed
        )  # later each is left as soon as its choices stand and its charts follow
        if title not in wanted and title != "Start":
            page.wait_for_function("location.search.includes('=')", timeout=20_000)
            wanted[title] = asked(page), page.evaluate(WIDGETS)
        elif title != "Start":
            same(page, f"{before} to {title}", *wanted[title])
            if title not in changed:  # from here on each page is found as it was left
                change(page, *CHANGES[title])
                changed.add(title)
                wanted[title] = asked(page), page.evaluate(WIDGETS)
                # the same choices; one of the two pages draws a widget more
                for other in {*SHARED} - {title} if title in SHARED else ():
                    drawn = min(len(wanted[title][1]), len(wanted[other][1]))
                    wanted[other] = wanted[title][0], wanted[title][1][:drawn] + wanted[other][1][drawn:]
        if title in BOUND:
            follows(page, title)
        assert not unbound and not page.get_by_test_id("stException").count(), (f"{before} to {title}", unbound)
        before = title


@pytest.mark.parametrize(
    ("start", "story"), [("memory_hierarchy", "Tiling"), ("occupancy", "Online softmax"), ("timing", "Block table")]
)
def test_a_chart_that_is_there_before_the_clock_follows_it(visit, start, story):
    page = visit(
        f"/{start}",
        wait="[data-testid=stVegaLiteChart] canvas, [data-testid=stVegaLiteChart] svg",
        viewport={"width": 1800, "height": 1000},
    )
    held, unbound = [], []
    page.on(
        "console",
        lambda message: unbound.append(message.text) if "Signal bind element not found" in message.text else None,
    )
    # the clock's code has not been asked for yet, Vega's has
    page.route("**/BidiComponent*.js", lambda route: held.append(route))
    go(page, story, whole=False)
    expect(page.locator(RULES)).to_have_count(BOUND[story], timeout=20_000)
    assert held and not page.locator("#warpglass-clock").count()
    for route in held:
        route.continue_()
    page.wait_for_selector("#warpglass-clock", timeout=20_000)
    follows(page, story)
    assert not unbound
