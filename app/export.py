"""A site without a server: python -m app.export FOLDER [--only STOP ...]

It writes the start page, the course, its shelves and the other pages as files for any web server:

    index.html, PATH/index.html   a page each, with its title and its idea for those who share a link
    site.js                       the loader (app/stage/site/)
    stage.js.gz, vega.js.gz       the stage in one file, the charts: packed, as few servers of files pack
    asked/PATH.gz                 what the app would answer: every exported moment of a page, and the ways between them
    bundles/NAME.gz               the stages and tabs, named by their content
    found.json, sw.js             what the search finds, and the worker that serves a visited site without a network

A page has its stops, its kernels, its what-ifs and up to VALUES values of each other choice, one changed at a time.
Menus offer the exported values, and name the command for the rest.
"""

import argparse
import gzip
import hashlib
import html
import json
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamlit.file_util import get_static_dir

from app import run_here
from app.course import stops as course_stops
from app.store import disk, vega
from app.stories import STORIES, listed, rail, stops
from app.web import asking, bundles, modules, searching
from explainers.story import encoding
from explainers.story.glossary import ELSEWHERE, LABELS
from kernels.catalog import current
from kernels.errors import WarpglassError
from kernels.run import workers

SITE = modules.STAGE / "site"
SHARED = SITE / "shared"  # made by tests/pictures.py
LIVE = ("workbench",)  # pages that only a server can run
VALUES = 3  # of a choice, with its present one
WHOLE = ("what_if", "kernel")  # groups of choices that are exported with all values
GROUPS = (*WHOLE, "own", "problem", "build")
SECONDS = 20.0  # that a moment may take; a slower one is left out
FONTS = {"text.woff2": "SourceSansVF-Upright*.woff2", "code.woff2": "SourceCodeVF-Upright*.woff2"}  # of Streamlit
PAUSE = 0.02  # seconds between two looks at a bundle that is being made


@dataclass
class Moments:
    """The exported moments of a page.

    entries: what the app answers, each with its bundle and the bundles of its tabs (parts).
    moves: number of an entry -> choice -> value -> number of the entry that a change leads to."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    moves: dict[int, dict[str, dict[str, int]]] = field(default_factory=dict)

    def add(self, answer: asking.Asking, bundle: str) -> int:
        """The number of the entry with the answer's link."""
        for number, entry in enumerate(self.entries):
            if entry["link"] == answer.link:
                return number
        sent = ("choices", "link", "told", "headline", "problem")
        self.entries.append({name: getattr(answer, name) for name in sent} | {"bundle": bundle, "parts": {}})
        return len(self.entries) - 1


class Export:
    """Writes the site into a folder.

    only: the names of the stops, or none for all pages.
    url: the site's address, for the pictures of links: others read no relative address. May be empty."""

    def __init__(self, folder: Path, only: tuple[str, ...] = (), url: str = "") -> None:
        self.folder, self.only, self.url = folder, only, url.rstrip("/")
        self.pages: dict[str, Moments] = {}
        self.left_out: list[str] = []
        self.kept: set[str] = set()
        self.here = run_here.Modules()

    def write(self) -> None:
        wanted = [stop for stop in course_stops() if not self.only or stop.name in self.only]
        paths = {stop.story for stop in wanted} if self.only else {path for path in listed(current())} - {*LIVE}
        for path in ("start", *sorted(paths - {"start"})):
            self.pages[path] = self._page(path, [stop.choices for stop in wanted if stop.story == path])
        self._files()

    def _page(self, path: str, chosen: list[Mapping[str, str]]) -> Moments:
        moments, story = Moments(), STORIES[path]
        for params in ({}, *chosen, *linked(path)):
            answer = self._asked(path, params)
            if answer is None:
                continue
            base = moments.add(answer, self._bundle(path, answer))
            if base in moments.moves:  # a stop that begins as its page
                continue
            self._parts(path, answer, moments.entries[base])
            for name, value in values_of(answer.choices):
                if moved := self._asked(path, answer.link, (name, value)):
                    try:
                        number = moments.add(moved, self._bundle(path, moved))
                    except WarpglassError as error:
                        self.left_out.append(f"{path}: {name} = {value}: {error}")
                        continue
                    moments.moves.setdefault(base, {}).setdefault(name, {})[value] = number
        if not moments.entries:
            raise WarpglassError(f"{story.title} has no moment that this machine can make. Leave it out by --only.")
        return moments

    def _asked(
        self, path: str, params: Mapping[str, str], change: tuple[str, str] | None = None
    ) -> asking.Asking | None:
        """The app's answer, or None where it refuses or would take too long."""
        answer = asking.ask(STORIES[path], params, workers.survey(), change)
        why = answer.error or next(iter(answer.refused.values()), "")
        if not why and answer.seconds > SECONDS:
            why = f"it takes about {answer.seconds:.0f} s"
        if why:
            self.left_out.append(f"{path}: {change or dict(params)}: {why}")
        return None if why else answer

    def _bundle(self, path: str, answer: asking.Asking, part: str = "") -> str:
        """Makes a bundle, writes it, and returns its name. Raises the WarpglassError of its run."""
        device = workers.survey().pick(answer.backend)
        while True:
            got = bundles.get(
                STORIES[path],
                answer.subject,
                STORIES[path].made_on or answer.backend,
                f"{device.name} {device.driver}",
                part,
                seconds=answer.seconds,
            )
            if isinstance(got, str):
                break
            time.sleep(PAUSE)
        if got not in self.kept and (data := disk.read(got)):
            if path in run_here.PAGES and not part:
                data = self.here.with_tab(data, got, answer.subject)
            self._place(f"bundles/{got}.gz").write_bytes(data)
            self.kept.add(got)
        return got

    def _parts(self, path: str, answer: asking.Asking, entry: dict[str, Any]) -> None:
        """The tabs that the bundle leaves out, and what the page asks for by itself."""
        content = encoding.decode(gzip.decompress(self._place(f"bundles/{entry['bundle']}.gz").read_bytes()))
        tabs = [tab["id"] for tab in content["tabs"] if not tab.get("blocks")]
        for part in dict.fromkeys([*tabs, content.get("lead"), *(["ladder"] if path == "start" else [])]):
            if not part or part in entry["parts"]:
                continue
            subject = asking.ask(STORIES[path], answer.link, workers.survey(), part=part)
            try:
                entry["parts"][part] = self._bundle(path, subject, part)
            except WarpglassError as error:
                self.left_out.append(f"{path}: tab {part}: {error}")

    # ---- files ----

    def _place(self, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _text(self, name: str, text: str) -> None:
        self._place(name).write_text(text)

    def _files(self) -> None:
        catalog = current()
        given = {
            "rail": [entry for entry in rail(catalog) if entry["path"] in self.pages],
            "stops": [stop for stop in stops(catalog) if stop["story"] in self.pages],
        }
        for path, moments in self.pages.items():
            entries = [entry | {"here": entry["bundle"] in self.here.of} for entry in moments.entries]
            asked = {"entries": entries, "moves": moments.moves}
            self._place(f"asked/{path}.gz").write_bytes(disk.pack(json.dumps(asked).encode()))
        found = [one for one in searching.everything(catalog) if one["link"].partition("?")[0] in self.pages]
        self._text("found.json", json.dumps(found))
        label = f'"executed": {json.dumps(LABELS["executed"])}'
        stage = modules.modules()[modules.ENTRY].replace(label, f'"executed": {json.dumps(ELSEWHERE["executed"])}')
        stage = stage.replace("import(`./${name}`)", "siteModule(name)").partition("\n//# sourceMappingURL")[0]
        self._place("stage.js.gz").write_bytes(disk.pack(stage.encode()))
        self._text("stage.css", modules.style())
        self._place("vega.js.gz").write_bytes(vega.bundle())
        shutil.copy(modules.STAGE.parent / "icon.png", self._place("icon.png"))
        for name in ("site.js", "site.css"):
            shutil.copy(SITE / name, self._place(name))
        for name, pattern in FONTS.items():
            (font,) = (Path(get_static_dir()) / "static" / "media").glob(pattern)
            shutil.copy(font, self._place(name))
        held = sorted([*self.kept, *self.here.packed])
        version = hashlib.sha256(f"{modules.version()} {held}".encode()).hexdigest()[:16]
        shell = ["./", "site.js", "site.css", "stage.js.gz", "stage.css", "icon.png", "found.json", "site.json", *FONTS]
        files = (
            shell + [f"{path}/" for path in self.pages if path != "start"] + [f"asked/{path}.gz" for path in self.pages]
        )
        first = [moments.entries[n]["bundle"] for moments in self.pages.values() for n in {0, *moments.moves}]
        first += [self.here.of[bundle] for bundle in first if bundle in self.here.of]
        first += self.pages["start"].entries[0]["parts"].values()  # which it asks for by itself
        files += [f"bundles/{bundle}.gz" for bundle in first]
        for name, packed in self.here.packed.items():
            self._place(f"bundles/{name}.gz").write_bytes(packed)
        self.left_out += [self.here.refused] if self.here.refused else []
        worker = (SITE / "sw.js").read_text()
        self._text("sw.js", worker.replace("$SITE", json.dumps([version, sorted(set(files))])))
        self._text("site.json", json.dumps(given))
        for picture in SHARED.glob("*.png"):
            shutil.copy(picture, self._place(f"shared/{picture.name}"))
        for path in self.pages:
            self._text("index.html" if path == "start" else f"{path}/index.html", page_of(path, self.url))
        self._text("start/index.html", '<meta http-equiv="refresh" content="0; url=../">')  # an address of the app


def linked(path: str) -> list[dict[str, str]]:
    """The other values of choices that no toolbar offers and a page's own links make: the bugs of the gallery."""
    page = STORIES[path].page(current())
    if page.kernels:
        return []
    shown = {choice["name"] for choice in asking.ask(STORIES[path], {}, workers.survey()).choices}
    own = {name: choice for name, choice in page.own.items() if name not in shown and not choice.late}
    return [{name: str(value)} for name, one in own.items() for value in one.allowed or () if value != one.default]


def values_of(choices: list[Any]) -> Iterator[tuple[str, str]]:
    """(choice, value) of the other values that are exported."""
    for choice in choices:
        if choice["group"] not in GROUPS or choice.get("disabled") or choice["name"] == "preset":
            continue
        options = [str(option["value"]) for option in choice.get("options", ())]
        if choice["kind"] == "toggle":
            options = ["false", "true"]
        elif choice["kind"] == "number":
            options = around(choice)
        elif choice["kind"] != "select":
            continue
        others = [value for value in options if value != str(choice["value"])]
        yield from ((choice["name"], value) for value in (others if choice["group"] in WHOLE else others[: VALUES - 1]))


def around(choice: Mapping[str, Any]) -> list[str]:
    """Half and twice a number, as far as its choice takes them."""
    try:
        value = float(choice["value"])
    except ValueError:
        return []
    whole = choice.get("whole", True)
    near = [value / 2, value * 2] if value else [1.0, 2.0]
    fit = [one for one in near if choice["low"] <= one <= choice["high"] and (not whole or one == int(one))]
    return [str(int(one)) if whole else f"{one:g}" for one in fit]


def page_of(path: str, url: str = "") -> str:
    """The HTML of a page. Others show the title, the sentence and the picture for a link.

    A reader sees the title and the sentence too, until the stage is there."""
    stop = next((stop for stop in course_stops() if stop.story == path), None)
    title = "Warpglass" if path == "start" else f"{STORIES[path].title} - Warpglass"
    idea = stop.idea if stop and path != "start" else "See CUDA attention kernels run, step by step, in the browser."
    up = "./" if path == "start" else "../"
    picture = path if (SHARED / f"{path}.png").exists() else "start"
    shown = f"{url or up.rstrip('/')}/shared/{picture}.png"
    early = "\n".join(
        f'<link rel="preload" as="fetch" crossorigin href="{up}{name}">'
        for name in ("stage.js.gz", "site.json", f"asked/{path}.gz")
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<meta name="description" content="{html.escape(idea)}">
<meta property="og:title" content="{html.escape(title)}"><meta property="og:description" content="{html.escape(idea)}">
<meta property="og:type" content="website"><meta property="og:image" content="{html.escape(shown)}">
<meta name="twitter:card" content="summary_large_image">
<link rel="icon" href="{up}icon.png">
<link rel="stylesheet" href="{up}site.css"><link rel="stylesheet" href="{up}stage.css">
{early}
<script type="module" src="{up}site.js"></script></head>
<body><div id="site">
<div class="wg" data-part="root"><h1>{html.escape(title)}</h1><p>{html.escape(idea)}</p></div></div>
<noscript>Warpglass draws its pictures with JavaScript. Allow it for this page.</noscript></body></html>
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m app.export", description="Writes a site without a server.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", default=(), metavar="STOP", help="these stops and the start page")
    parser.add_argument(
        "--url", default="", help="the address of the site, for the pictures that others show of a link"
    )
    args = parser.parse_args()
    if unknown := sorted(set(args.only) - {stop.name for stop in course_stops()}):
        names = ", ".join(stop.name for stop in course_stops())
        parser.error(f"{unknown[0]} is no stop. The stops are {names}.")
    export = Export(args.folder, tuple(args.only), args.url)
    try:
        export.write()
    except WarpglassError as error:
        print(error, file=sys.stderr)
        return 1
    for said in export.left_out:
        print(f"left out: {said}")
    sizes = [path.stat().st_size for path in args.folder.rglob("*") if path.is_file()]
    print(f"{len(export.pages)} pages, {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB in {args.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
