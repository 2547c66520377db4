"""Motion between two steps, in a real Chromium with a time that passes only when the test says so. It ends in the
step's own picture, and the next press cuts it. A jump and a fast clock have none, nor does who prefers
reduced motion."""

import pytest
from browser.stepping import point_at, press, read, tip

LINKS = {
    "Tiles": "/tiling?kernel=03_flash&backend=cpu&step=1",
    "Tiles of S in global memory": "/tiling?kernel=02_tiled&backend=cpu&step=1",
    "Online softmax": "/online_softmax?backend=cpu&step=1",
    "Paging": "/block_table?view=walk&scenario=churn&backend=cpu&sequence=1&head=3&step=1",
}
# The two sheets with most kinds of marks. The slow tests look at all.
OFTEN = [
    pytest.param(link, id=name, marks=[] if name in ("Tiles", "Paging") else pytest.mark.slow)
    for name, link in LINKS.items()
]
SIZES = {"desk": {"width": 1280, "height": 720}, "phone": {"width": 390, "height": 844}}
HAND = """() => {
  let time = 1e6, waiting = null;
  window.clock.time = { now: () => time, request(tick) { waiting = tick; return 1; }, cancel() { waiting = null; } };
  window.pass = ms => { time += ms; const tick = waiting; waiting = null; tick?.(); };
  window.waits = () => waiting !== null;
  window.pixels = () => document.querySelector('.wg .picture .view canvas').toDataURL();
  window.jump = step => { window.pass(1000); window.clock.set(step, 'jump'); };
  window.walk = step => { window.pass(1000); window.clock.set(step, 'user'); };
}"""


@pytest.fixture
def stepped(visit):
    """stepped(link, **options) -> a page whose motions wait for `pass(ms)`."""

    def make(link, **options):
        page = visit(link, **{"viewport": SIZES["desk"], **options})
        page.evaluate(HAND)
        return page

    return make


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
@pytest.mark.parametrize("size", ["desk", pytest.param("phone", marks=pytest.mark.slow)])
@pytest.mark.parametrize("link", OFTEN)
def test_a_motion_ends_in_the_picture_that_a_jump_gives(stepped, link, size, theme):
    """At every step, onward and back."""
    page = stepped(link, viewport=SIZES[size], color_scheme=theme)
    other, moved = page.evaluate("""async () => {
      const other = [], moved = [], last = clock.count - 1, frame = () => new Promise(requestAnimationFrame);
      const height = () => document.querySelector('.wg .picture .sheet').clientHeight;
      const settled = async () => {  // the strip may grow and leave the picture less room
        for (let before = -1; before !== height(); ) { before = height(); await frame(); await frame(); await frame(); }
        pass(1000);
        return pixels();
      };
      const due = [];
      for (let step = 0; step <= last; step++) { jump(step); due.push(await settled()); }
      for (let step = 0; step <= last; step++) { jump(step); due[step] = await settled(); }
      for (const [from, by] of [[0, 1], [last, -1]]) {
        jump(from);
        for (let step = from + by; step >= 0 && step <= last; step += by) {
          walk(step);
          pass(75);
          if (waits()) moved.push(step);
          if (await settled() !== due[step]) other.push(step);
        }
      }
      return [other, moved];
    }""")
    assert other == []
    assert len(moved) >= page.evaluate("clock.count") - 1


def test_the_next_press_cuts_a_motion_a_printed_page_shows_its_end_and_a_fast_clock_has_none(stepped):
    page = stepped(LINKS["Paging"])
    first, cut, settled = page.evaluate("""() => {
      jump(3); const due = pixels(); jump(2); jump(1);
      walk(2); pass(130); const half = waits();
      clock.set(3, 'user'); const first = waits();
      pass(239); const late = waits(); pass(1);
      return [[half, first, late], waits(), pixels() === due];
    }""")
    assert first == [True, True, True]
    assert (cut, settled) == (False, True)
    same = page.evaluate("""() => {
      jump(3); const due = pixels(); jump(2);
      walk(3); pass(60); const moving = pixels() !== due;
      dispatchEvent(new Event('beforeprint'));
      return [moving, pixels() === due];
    }""")
    assert same == [True, True]
    page.evaluate("jump(0)")
    moving = """([pace, ms]) => {
      clock.pace = pace; jump(0); pass(1000);
      return [1, 2, 3, 4].map(step => { clock.set(step, 'play'); const on = waits(); pass(ms); return on; });
    }"""
    assert page.evaluate(moving, [30, 34]) == [False] * 4
    assert page.evaluate(moving, [10, 100]) == [False] * 4
    assert page.evaluate(moving, [4, 250]) == [True] * 4
    assert page.evaluate(moving, [0, 34]) == [True, False, False, False]  # a key that is held down


def test_the_sentence_the_label_and_the_tip_do_not_wait(stepped):
    page = stepped(LINKS["Tiles"])
    page.evaluate("jump(2)")
    due = read(page)
    page.evaluate("jump(1)")
    page.evaluate("walk(2)")
    assert page.evaluate("waits()")
    assert (read(page)["sentences"], read(page)["labels"]) == (due["sentences"], due["labels"])
    page.mouse.move(*point_at(page, "Matrices", tensor="Q", query=3, dim=5))
    assert tip(page).startswith("Q[3, 5] = ")
    assert page.evaluate("waits()")  # and the pointer ends no motion


def test_a_step_back_takes_half_as_long_and_a_jump_none(stepped):
    page = stepped(LINKS["Online softmax"])
    back, jump = page.evaluate("""() => {
      jump(5); walk(4); pass(149); const before = waits(); pass(1);
      const back = [before, waits()];
      walk(8); return [back, waits()];
    }""")
    assert (back, jump) == ([True, False], False)


def test_who_prefers_reduced_motion_gets_none(stepped):
    page = stepped(LINKS["Tiles"], reduced_motion="reduce")
    press(page, "ArrowRight")
    assert page.evaluate("[waits(), clock.step]") == [False, 1]
    page.emulate_media(reduced_motion="no-preference")  # read at each step: no reload
    page.evaluate("pass(1000)")
    press(page, "ArrowRight")
    assert page.evaluate("waits()")
