"""What a user reads when a worker is killed or a run is stopped, and that a second session notices nothing."""

import os
import re
import signal
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("browser")
LONG = "/tiling?kernel=02_tiled&seq_len=2048&head_dim=64&num_heads=2&backend=cpu&seed="


def workers_of(pid):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if (
                int(stat.read_text().rsplit(")", 1)[1].split()[1]) == pid
                and b"spawn_main" in stat.with_name("cmdline").read_bytes()
            ):
                found.append(int(stat.parent.name))
        except (OSError, IndexError):
            continue
    return found


def ticks(pid):
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))


def test_a_killed_worker_is_told_and_a_second_session_notices_nothing(visit, server):
    other = visit("/tiling?backend=cpu&step=3")
    page = visit(LONG + "1", wait="text=is running")
    before = {pid: ticks(pid) for pid in workers_of(server.process.pid)}
    time.sleep(1)
    os.kill(max(before, key=lambda pid: ticks(pid) - before[pid]), signal.SIGKILL)
    page.wait_for_selector("text=The run failed.", timeout=20_000)
    said = page.locator("[data-testid=stAlert]").first.inner_text()
    assert re.search(r"The worker process running 02_tiled \(run\) died \(by signal 9\)", said)
    assert "Traceback" not in page.inner_text("body")

    other.locator("[data-testid=stSidebar]").get_by_role("spinbutton", name="seq_len").fill("40")
    other.keyboard.press("Enter")
    other.wait_for_function("window.__warpglass.step === 0", timeout=20_000)
    assert other.locator("[data-testid=stAlert]").count() == 0

    page.locator("[data-testid=stSidebar]").get_by_role("spinbutton", name="seq_len").fill("64")
    page.keyboard.press("Enter")
    page.wait_for_selector("#warpglass-clock", timeout=30_000)


def test_a_long_run_can_be_stopped_and_run_again(visit):
    page = visit(LONG + "2", wait="text=is running")
    page.get_by_role("button", name="Stop", exact=True).click()
    page.wait_for_selector("text=Stopped.", timeout=20_000)
    page.get_by_role("button", name="Run again").click()
    page.wait_for_selector("text=is running", timeout=20_000)
    page.get_by_role("button", name="Stop", exact=True).click()
    page.wait_for_selector("text=Stopped.", timeout=20_000)


def test_an_impossible_problem_is_refused_at_once(visit):
    page = visit("/tiling?seq_len=16384&backend=cpu", wait="text=This problem cannot run.")
    assert "03_flash at seq_len 16384" in page.locator("[data-testid=stAlert]").first.inner_text()
