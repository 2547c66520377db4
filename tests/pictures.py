"""The pictures that a link to the site shows, and README's film: python tests/pictures.py [pictures] [film]

pictures: app/stage/site/shared/PATH.png, 1200 x 630, one for each page of the course and one for the start page.
film: app/race.gif, the race of the start page. It must stay under 4 MB.
"""

import io
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from browser.conftest import Server, shown  # noqa: E402
from PIL import Image  # noqa: E402
from playwright.sync_api import Page, sync_playwright  # noqa: E402

from app.course import stops  # noqa: E402

SHARED, FILM = ROOT / "app" / "stage" / "site" / "shared", ROOT / "app" / "race.gif"
SIZE, FILM_SIZE = {"width": 1200, "height": 630}, {"width": 960, "height": 540}
STEPS = {"levels": 7, "tiles": 4, "one_pass": 5, "backward": 9, "as_written": 5, "how_fast": 8}  # else the second one
FRAMES, PAUSE = 80, 250  # of the film, and ms between two
MOST = 4_000_000  # bytes of the film
CLOSED = "sessionStorage.setItem('warpglass-guide', 'closed')"


def still(page: Page, colours: int) -> Image.Image:
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(colours)


def pictures(page: Page, url: str) -> None:
    SHARED.mkdir(exist_ok=True)
    page.set_viewport_size(SIZE)  # type: ignore[arg-type]
    seen = set[str]()
    for stop in stops():
        if not stop.number or stop.story in seen:
            continue
        seen.add(stop.story)
        page.goto(f"{url}/{stop.story}?stop={stop.name}&step={STEPS.get(stop.name, 2)}")
        shown(page, stop.story)
        page.wait_for_timeout(2500)
        still(page, 128).save(SHARED / f"{stop.story}.png", optimize=True)
    page.goto(url)
    page.wait_for_selector(".wg .start [data-alive]")
    page.wait_for_timeout(9000)
    still(page, 128).save(SHARED / "start.png", optimize=True)


def film(page: Page, url: str) -> None:
    page.set_viewport_size(FILM_SIZE)  # type: ignore[arg-type]
    page.goto(url)
    page.wait_for_selector(".wg .start [data-alive]")
    frames = []
    for _ in range(FRAMES):
        frames.append(still(page, 64))
        page.wait_for_timeout(PAUSE)
    frames[0].save(FILM, save_all=True, append_images=frames[1:], duration=PAUSE, loop=0, optimize=True)
    if FILM.stat().st_size > MOST:
        sys.exit(f"{FILM} has {FILM.stat().st_size:,} bytes, and {MOST:,} are allowed. Take fewer frames.")


def main() -> None:
    wanted = sys.argv[1:] or ["pictures", "film"]
    server = Server()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path="/usr/bin/chromium-headless-shell", args=["--no-sandbox"]
            )
            page = browser.new_page()
            page.add_init_script(CLOSED)
            for name, make in {"pictures": pictures, "film": film}.items():
                if name in wanted:
                    make(page, server.url)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
