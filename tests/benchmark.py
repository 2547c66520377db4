"""Prints the figures of DESIGN.md's budgets on this machine: python tests/benchmark.py [--no-browser] [--stories a,b]

With a browser it starts the app as the README does and drives a real Chromium. Without one it times decoding and runs
through the worker processes alone, on every backend there is. Nothing here asserts: budgets are read, tests never time.
"""

import argparse
import gzip
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from browser.conftest import FLAGS, SIZE, Server, shown  # noqa: E402
from browser.reading import link_of  # noqa: E402
from browser.stepping import choose  # noqa: E402

from app.course import stops  # noqa: E402
from app.stories import STORIES as STORIES_OF_THE_APP  # noqa: E402
from kernels.catalog import KERNELS  # noqa: E402
from kernels.core.request import Request  # noqa: E402
from kernels.core.scope import Scope  # noqa: E402
from kernels.families.dense.problem import DenseProblem  # noqa: E402
from kernels.run import execute, workers  # noqa: E402
from kernels.trace.probes import sites_of  # noqa: E402
from kernels.trace.trace import decode  # noqa: E402

STORIES = {
    "tiling": "seed",
    "online_softmax": "seed",
    "registers": "seed",
    "block_table?scenario=one_long": "seed",
    "bank_conflicts": "stride",
    "tensor_cores": "seed",
    "precision": "seed",
    "coalescing": "seq_len",
    "compare": "seed",
    "any_kernel?kernel=03_flash": "seed",
}  # and the field that is changed to time a new trace
FIRST = {"seed": 0, "seq_len": 64, "stride": 32}  # the values are those that follow
PRESS_AND_PAINT = """async () => {
  const times = [];
  for (let i = 0; i < 60; i++) {  // pauses of every length: a key comes at any point between two frames
    await new Promise(done => setTimeout(done, 40 + (i * 7) % 17));
    const start = performance.now();
    const key = i < 10 || i % 2 ? 'ArrowRight' : 'ArrowLeft';
    document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, composed: true }));
    const worked = performance.now() - start;
    await new Promise(done => requestAnimationFrame(() => {
      const c = new MessageChannel();
      c.port1.onmessage = done;
      c.port2.postMessage(0);
    }));
    times.push([worked, performance.now() - start]);
  }
  return times;
}"""


MOTION = (ROOT / "tests" / "browser" / "motion.js").read_text()
MOVING = {
    "Tiles": "tiling?kernel=03_flash&backend=cpu&depth=everything",
    "Online softmax": "online_softmax?backend=cpu&depth=everything",
    "Paging": "block_table?view=walk&scenario=churn&backend=cpu&sequence=1&head=3&depth=everything",
}


HAND, STEPS = ".hands input[type=range]", ".clock input[type=range]"
HANDS = {  # stop -> its step from 1, and what is dragged: its hand, or the steps where a hand only points or clicks
    "as_written": (1, HAND),
    "levels": (7, HAND),
    "tiles": (1, STEPS),
    "one_pass": (7, ".bars > [role=slider]:last-of-type"),
    "banks": (5, HAND),
    "in_registers": (1, STEPS),
    "pages": (7, HAND),
    "partitions": (7, HAND),
    "grouped_heads": (5, HAND),
    "tensor_cores": (7, HAND),
    "backward": (1, STEPS),
    "how_fast": (1, STEPS),
}
BEATS = """() => {
  window.gaps = [];
  let last = 0;
  const beat = now => { if (last) window.gaps.push(now - last); last = now; requestAnimationFrame(beat); };
  requestAnimationFrame(beat); }"""


def report(what, figure, budget=""):
    print(f"{what:66s} {figure:>28s}   {budget}", flush=True)


def decoding():
    problem = DenseProblem(seq_len=512, head_dim=64, num_heads=1)
    request = Request(KERNELS["03_flash"], problem, (), Scope(0, 4))
    _, _, _, raw = execute._launch_probed(request)
    rates = []
    for _ in range(5):
        start = time.perf_counter()
        rows = decode(raw, sites_of(request)).table.num_rows
        rates.append(rows / (time.perf_counter() - start))
    report(
        f"decoding a trace of {rows:,} records",
        f"{statistics.median(rates) / 1e6:.1f} million records/s",
        "budget >= 20",
    )


def runs(backend):
    """From a changed parameter to a decoded trace, through the worker: warm build, then a new compile."""

    def timed(request):
        start = time.perf_counter()
        workers.submit(execute.run, request, backend=backend, title="benchmark").result()
        return time.perf_counter() - start

    base = Request(KERNELS["03_flash"], DenseProblem(), (), Scope(), backend)
    for _ in range(3):
        timed(base)
    warm = [timed(replace(base, problem=DenseProblem(seed=s))) for s in range(1, 16)]
    report(
        f"{backend}: changed seed to new trace, worker only, warm build",
        f"median {1e3 * statistics.median(warm):.0f} ms, max {1e3 * max(warm):.0f} ms",
        "page budget <= 1 s cpu, <= 300 ms gpu",
    )
    with tempfile.TemporaryDirectory() as cache:
        os.environ["WARPGLASS_CACHE"] = cache
        workers.stop()
        timed(replace(base, problem=DenseProblem(head_dim=128)))
        fresh = timed(replace(base, settings=(("BLOCK_KV", 32),)))
        del os.environ["WARPGLASS_CACHE"]
        workers.stop()
    report(
        f"{backend}: changed tile size to new trace, worker only, new compile",
        f"{1e3 * fresh:.0f} ms",
        "page budget <= 1.5 s gpu",
    )


# ---- the web process ----


def ask(server, query):
    """What the app answers to a question once it is made, asked as the browser asks."""
    key = ""
    while True:
        with urllib.request.urlopen(f"{server.url}/wg/ask/{query}{key}") as answer:
            said = json.loads(answer.read())
        if "waiting" not in said:
            return said
        key = f"{'&' if '?' in query else '?'}_key={said['waiting']['key']}"
        time.sleep(0.02)


def cpu_seconds(pid):
    """What a process itself has used, without its workers."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def web_process(server):
    """CPU of the web process for each change: of what is known, and of what is not."""
    links = [f"tiling?kernel=03_flash&backend=cpu&seed={seed}" for seed in range(100)]
    for what, budget in (("not known", 20), ("known", 10)):
        before, asked = cpu_seconds(server.process.pid), 0
        for link in links:
            said = ask(server, link)
            with urllib.request.urlopen(f"{server.url}/wg/bundle/{said['bundle']}") as answer:
                answer.read()
            asked += 1
        used = (cpu_seconds(server.process.pid) - before) / asked
        report(f"web process, CPU for a change that is {what}", f"{1e3 * used:.1f} ms", f"budget <= {budget} ms")


def sizes(server):
    """Bytes of every default stage, as sent."""
    from app.stories import STORIES as ALL

    for path in ALL:
        with urllib.request.urlopen(f"{server.url}/wg/bundle/{ask(server, path)['bundle']}") as answer:
            sent = answer.read()
        report(
            f"{path}: bytes of the default stage",
            f"{len(sent):,} sent, {len(gzip.decompress(sent)):,} held",
            "budget <= 1 MB",
        )


# ---- the browser ----


def pages(wanted):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        if wanted != ["questions"]:
            starts(browser)
        server = Server()
        time.sleep(8)  # what the start has prepared is made
        web_process(server)
        if wanted != ["questions"]:
            motions(browser, server)
            hands(browser, server)
        if wanted != ["motion"]:
            covered_steps(browser, server)
        if wanted in (["motion"], ["questions"]):
            server.stop()
            return
        sizes(server)
        for story, field in STORIES.items():
            if not wanted or story.split("?")[0] in wanted:
                story_figures(browser, server, story, field)
        server.stop()
        browser.close()


def motions(browser, server):
    """The motion between two steps: our work in a frame, the frames' distances while steps play, and a key press."""
    for size in (SIZE, {"width": 1280, "height": 720}, {"width": 390, "height": 844}):
        for name, link in MOVING.items():
            page = browser.new_page(viewport=size)
            page.goto(f"{server.url}/{link}", wait_until="commit")
            shown(page)
            page.wait_for_timeout(1000)
            for speed in (4, 30):
                found = page.evaluate(MOTION, speed)
                for what, budget in {"step": 16, "work": 16, "first": 16, "settled": 300, "gaps": 16.7}.items():
                    if speed == 4 or what == "gaps":
                        report(
                            f"motion, {name}, {size['width']}x{size['height']}, {speed} steps/s: {what}",
                            spread(found[what]),
                            f"budget {budget} ms",
                        )
            page.close()


def hands(browser, server):
    """The distances of frames while the mouse drags for two seconds, in the picture of each stop."""
    for stop in (stop for stop in stops() if stop.name in HANDS):
        step, handle = HANDS[stop.name]
        upright = "slider" in handle
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.goto(f"{server.url}/{link_of(stop)}&step={step}", wait_until="commit")
        shown(page)
        page.wait_for_timeout(1000)
        box = page.locator(f".wg {handle}").first.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        far = 60 if upright else box["width"] / 2 - 4
        page.mouse.move(x, y)
        page.mouse.down()
        page.evaluate(BEATS)
        end, n = time.perf_counter() + 2, 0
        while time.perf_counter() < end:
            away = far * np.sin(n / 20)
            page.mouse.move(x, y + away) if upright else page.mouse.move(x + away, y)
            n += 1
        gaps = page.evaluate("window.gaps")
        page.mouse.up()
        rate = 1e3 * len(gaps) / sum(gaps)
        report(f"drag, {stop.title}, 1280x720: {rate:.0f} frames a second", spread(gaps), "budget 16.7 ms")
        page.close()


COVERED = """() => {
  const { clock, content } = document.querySelector(".wg").stage, times = [];
  for (const { covers } of (content?.questions ?? []).filter(one => one.covers.length)) {
    clock.cover({ covers });
    for (let step = 0; step < Math.min(clock.count, 40); step++) {
      const start = performance.now();
      clock.set(step, "user");
      times.push(performance.now() - start);
    }
    clock.cover({ covers: [] });
  }
  return times;
}"""


def covered_steps(browser, server):
    """The work of a step while a question covers things of the picture, for each page with such a question."""
    for path in STORIES_OF_THE_APP:
        page = browser.new_page(viewport=SIZE)
        page.goto(f"{server.url}/{path}", wait_until="commit")
        shown(page)
        page.wait_for_timeout(1000)
        times = page.evaluate(COVERED)
        if times:
            report(f"{path}: a step with an open question, work", spread(times), "budget 16 ms")
        page.close()


def spread(times):
    p50, p95, most = np.percentile(times, [50, 95, 100])
    return f"p50 {p50:.1f}, p95 {p95:.1f}, max {most:.1f} ms of {len(times)}"


def starts(browser):
    """From the command to the first stop usable, and to the start page alive; with an empty cache, and a warm one."""
    with tempfile.TemporaryDirectory() as cache:
        for label in ("empty cache", "warm cache"):
            for path, wait, budget in (("/tiling", "first stop usable", 6), ("/", "start page alive", 8)):
                if label == "empty cache":
                    shutil.rmtree(cache)
                start = time.perf_counter()
                server = Server(WARPGLASS_CACHE=cache)
                answered = time.perf_counter() - start
                page = browser.new_page(viewport=SIZE)
                page.goto(server.url + path, wait_until="commit")
                if path == "/":
                    page.wait_for_selector(".wg .start [data-alive]", timeout=60_000)
                else:
                    shown(page, "tiling")
                usable = time.perf_counter() - start
                report(
                    f"command to {wait}, {label}",
                    f"{usable:.2f} s (answers at {answered:.2f})",
                    f"budget <= {budget} s",
                )
                page.close()
                server.stop()


def story_figures(browser, server, story, name):
    page = browser.new_page(viewport=SIZE)
    sent = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda payload: sent.append(len(payload))))
    page.on("request", lambda request: sent.append(request.url))
    page.goto(f"{server.url}/{story}{'&' if '?' in story else '?'}depth=everything", wait_until="commit")
    shown(page)
    page.wait_for_timeout(2000)
    before = len(sent)
    times = np.array(page.evaluate(PRESS_AND_PAINT))
    page.wait_for_timeout(800)
    work, paint = np.median(times, axis=0)
    report(
        f"{story}: key press to repainted step, the whole stage",
        f"median {paint:.1f} ms ({work:.1f} ms of it work)",
        "budget <= 16 ms",
    )
    report(f"{story}: requests and messages for {len(times)} steps", f"{len(sent) - before}", "budget 0")

    page.keyboard.press("Home")
    page.evaluate(
        "window.seen = []; document.querySelector('.wg').stage.clock.addEventListener('step', "
        "e => window.seen.push([e.detail.step, performance.now()]))"
    )
    page.get_by_label("Speed").select_option("30")
    page.locator(".wg .clock [data-action=play]").click()
    page.wait_for_function("(({ step, count }) => step === count - 1)(document.querySelector('.wg').stage.clock)")
    seen = page.evaluate("window.seen")
    skipped = sum(b - a != 1 for (a, _), (b, _) in zip(seen, seen[1:]))
    rate = (len(seen) - 1) / (seen[-1][1] - seen[0][1]) * 1e3
    report(f"{story}: playing at 30 steps/s", f"{skipped} skipped, {rate:.1f} steps/s", "budget 0 skipped")

    changes = []
    for value in range(1, 8):
        start = time.perf_counter()
        choose(page, name, str(FIRST[name] + value + 1000 * (name == "seed")))
        changes.append(time.perf_counter() - start)
    report(
        f"{story}: changed parameter to new stage on the page, warm build",
        f"median {1e3 * statistics.median(changes):.0f} ms",
        "budget <= 1 s on the CPU",
    )
    page.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-browser", action="store_true")
    parser.add_argument("--stories", default="", help="only these, and only what a browser shows")
    arguments = parser.parse_args()
    if not arguments.stories:
        decoding()
        for name in workers.survey().devices:
            if name != "recorded":
                runs(name)
    if not arguments.no_browser:
        pages(arguments.stories.split(",") if arguments.stories else [])
    workers.stop()
