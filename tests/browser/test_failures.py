"""What a user reads when a worker is killed, a run is stopped, a kernel never ends, or the server is gone; and that a
second session notices nothing."""

import os
import re
import signal
import time
from pathlib import Path

import pytest
from browser.conftest import Server, shown
from browser.stepping import choose, rail, read

LONG = "/tiling?kernel=02_tiled&seq_len=2048&head_dim=64&num_heads=2&backend=cpu&seed="
RUNNING = "text=is running"
FAULTY = Path(__file__).parents[1] / "faulty"
SEED = time.time_ns() % 2**31  # no run of an earlier test session is found


def workers_of(pid):
    """The processes that were forked by the one that holds the workers' imports, a child of the server."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if b"forkserver" in stat.with_name("cmdline").read_bytes():
                parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            continue
    return [child for child, parent in parents.items() if parents.get(parent) == pid]


def ticks(pid):
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))


def said(page):
    return page.locator(".wg :is(.messages, .vacant) [role=alert]").first.inner_text()


def test_a_killed_worker_is_told_and_a_second_session_notices_nothing(visit, server):
    other = visit("/tiling?kernel=03_flash&backend=cpu&step=3")
    page = visit(LONG + str(SEED), wait=RUNNING)
    before = {pid: ticks(pid) for pid in workers_of(server.process.pid)}
    time.sleep(1)
    os.kill(max(before, key=lambda pid: ticks(pid) - before[pid]), signal.SIGKILL)
    page.wait_for_selector("text=The run failed.", timeout=20_000)
    assert re.search(r"The worker process running Tiles died \(by signal 9\)", said(page))
    assert "Traceback" not in page.inner_text("body")
    choose(other, "seq_len", "40")
    assert not other.locator(".wg .messages [role=alert]").count()
    page.locator(".wg .toolbar").get_by_role("button", name="More", exact=True).click()
    page.locator('.wg [data-name="seq_len"]').fill("64")
    page.keyboard.press("Enter")
    shown(page)
    assert not page.locator(".wg .messages [role=alert]").count() and read(page)["sentences"]


def test_a_long_run_can_be_stopped_run_again_and_left(visit):
    page = visit(LONG + str(SEED + 1), wait=RUNNING)
    page.get_by_role("button", name="Stop", exact=True).click()
    page.wait_for_selector("text=Stopped.", timeout=20_000)
    page.get_by_role("button", name="Run again").click()
    page.wait_for_selector(RUNNING, timeout=20_000)
    page.get_by_role("button", name="Stop", exact=True).click()
    page.wait_for_selector("text=Stopped.", timeout=20_000)
    rail(page, "start")


def test_an_impossible_problem_is_refused_at_once(visit):
    page = visit("/tiling?kernel=03_flash&seq_len=16384&backend=cpu", wait="text=This cannot run.")
    assert "03_flash at seq_len 16384" in said(page)
    page.locator(".wg .toolbar").get_by_role("button", name="More", exact=True).click()
    page.locator('.wg [data-name="seq_len"]').fill("64")
    page.keyboard.press("Enter")
    shown(page)
    assert not page.locator(".wg .messages [role=alert]").count()


def test_what_cannot_run_has_a_button_to_the_nearest_choice_that_can(visit):
    page = visit("/tiling?kernel=03_flash&seq_len=16384&backend=cpu", wait="text=This cannot run.", depth="guided")
    page.get_by_role("button", name="Use seq_len").click()
    shown(page)
    assert not page.locator(".wg [role=alert]").filter(visible=True).count()


@pytest.mark.slow
def test_a_server_with_little_patience_and_one_that_is_gone_are_told(visit, tmp_path):
    """An endless run is ended at its limit; a stopped server is named, and what is shown can still be stepped."""
    (tmp_path / "endless.cu").write_text((FAULTY / "endless.cu").read_text())
    own = Server(WARPGLASS_TIME_LIMIT="8", WARPGLASS_KERNELS=str(tmp_path))
    try:
        page = visit("/tiling?kernel=03_flash&backend=cpu", at=own)
        late = visit("/any_kernel?kernel=endless&backend=cpu", at=own, wait=RUNNING)
        late.wait_for_selector("text=the time limit is over", timeout=40_000)
        assert "raise WARPGLASS_TIME_LIMIT" in said(late)
        own.process.terminate()
        own.process.wait(20)
        first = read(page)
        page.keyboard.press("ArrowRight")
        assert read(page)["step"] == first["step"] + 1
        page.locator(".wg .toolbar").get_by_role("button", name="More", exact=True).click()
        page.locator('.wg [data-name="seq_len"]').fill("48")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=The app does not answer.", timeout=20_000)
        assert "Start it again, then reload this page." in said(page)
    finally:
        own.stop()
