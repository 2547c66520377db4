"""A page opened without a server or a browser: what it asks, and the stage or the tab that it then shows. This process
makes them once a test looks at them, and passes them through their bytes.

Also a script: python tests/pages.py STORY?NAME=VALUE ... prints, as JSON, what each page shows; it is run in a process
of its own where WARPGLASS_KERNELS names folders with kernels.
"""

import json
import math
import re
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

import pytest

ROOT = Path(__file__).parents[1]


@dataclass
class Page:
    """asked: app.web.asking.Asking. stage: its Stage out of its bytes; None where `asked.error` says why. size: the
    number of these bytes."""

    story: Any
    asked: Any
    size: int = 0

    @cached_property
    def made(self):
        """The Stage as Python makes it."""
        return None if self.asked.error else self.story.make(self.asked.subject)

    @cached_property
    def stage(self):
        if self.asked.error:
            return None
        made, self.size = decoded(self.made)
        return SimpleNamespace(**made)

    @property
    def choices(self):
        """name -> description of each choice, those that only the run tells among them."""
        late = self.stage.late if self.stage else []
        return {entry["name"]: entry for entry in [*self.asked.choices, *late]}

    def options(self, name):
        return [option["label"] for option in self.choices[name]["options"]]

    def tab(self, name):
        """The blocks of a tab, as they come out of their bytes; rows are opened up."""
        tab = next(tab for tab in self.stage.tabs if tab["id"] == name)
        return list(
            flat(tab["blocks"] if tab["blocks"] is not None else decoded(self.story.parts[name](self.asked.subject))[0])
        )


def open_page(link, survey=None, change=None, carried=False):
    """The Page of a link such as tiling?kernel=01_naive&seq_len=40."""
    from app.stories import STORIES
    from app.web import asking
    from kernels.run import workers

    path, _, query = link.partition("?")
    story = STORIES[path]
    asked = asking.ask(
        story, dict(parse_qsl(query, keep_blank_values=True)), survey or workers.survey(), change, carried
    )
    return Page(story, asked)


def page_of(path):
    """The choices of a story (app.choices.page.Page) for the kernels of this moment."""
    from app.stories import STORIES
    from kernels.catalog import current

    return STORIES[path].page(current())


def decoded(made):
    """What the browser gets of a Stage, or of a tab's blocks, and in how many compressed bytes."""
    from app.store import disk
    from explainers.story import encoding

    data = encoding.encode(made)
    return encoding.decode(data), len(disk.pack(data))


def flat(blocks):
    """The blocks, those in columns too."""
    for block in blocks:
        if block["kind"] == "row":
            for column in block["columns"]:
                yield from flat(column)
        else:
            yield block


def words(blocks):
    """All that blocks say."""
    blocks, keys = list(blocks), ("text", "caption", "title", "label")
    cells = [str(cell) for block in blocks if block["kind"] == "table" for row in block["rows"] for cell in row]
    return " ".join([*(str(block[key]) for block in blocks for key in keys if block.get(key)), *cells])


UNPRINTED = {"lines", "files", "spec", "url", "query", "id", "kind", "datasets"}  # keys without texts of ours


def texts_in(value):
    """Every text of a stage, a meta or blocks, at any depth. Code, links and specs of charts are left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in UNPRINTED:
                yield from texts_in(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from texts_in(inner)


def asked(found):
    """id -> question; every one well formed."""
    from explainers.story.stage import MEASURED, VEILS

    for question in found:
        assert question.text.endswith((".", "?", "...")) and question.why.endswith((".", "]")), question
        assert set(question.veils) <= set(VEILS) and question.tolerance in (0, MEASURED)
        if question.kind == "options":
            assert 2 <= len(question.options) <= 4 and len(set(question.options)) == len(question.options), question
            assert 0 <= question.answer < len(question.options)
            reasons = question.reasons or [""] * len(question.options)
            assert len(reasons) == len(question.options) and not reasons[question.answer]
        elif question.kind == "number":
            assert not question.options and math.isfinite(question.answer)
            assert question.tolerance or question.answer == int(question.answer)  # what is counted is exact
        else:
            assert question.kind == "click" and isinstance(question.answer, dict)
    by_id = {question.id: question for question in found}
    assert len(by_id) == len(found)
    return by_id


def right(question):
    return question.options[question.answer]


def told(questions, made):
    """[(question, part, text)] of each text in sight that says a number of 13 or more that one of these questions of a
    Stage asks for. A smaller number can be anywhere."""
    found = []
    for question in questions:
        key = right(question) if question.options else str(question.answer)
        number = re.match(r"\d[\d.]*", key.replace(",", ""))
        if not number or float(number[0]) < 13:
            continue
        metas = (view.meta for view in made.views if view.id == question.view and isinstance(view.meta, dict))
        own = next((meta for meta in metas if meta.get("clock")), None)
        frame = (own["frames"] if own else made.frames)[question.step]
        strip = [entry["values"] for entry in own["state"]] if own else [state.values for state in made.state]
        said = {
            "sentence": " ".join([frame["sentence"], *frame.get("sentences", [])]),
            "strip": " ".join(str(values[question.step]) for values in strip),
            "headline": made.summary or made.headline,
        }
        for part, text in said.items():
            for word in question.hides:
                text = re.sub(rf"(?<![\w.]){re.escape(word)}(?![\w]|[.,]\d)", "?", text)
            there = re.search(rf"(?<![\w.]){re.escape(number[0])}(?!\w|\.\d)", text.replace(",", ""))
            if there and part not in question.veils:
                found.append((question.id, part, text))
    return found


COUNTED = (
    "blocks|warps|threads|tokens|launches|steps|pages|bytes|sectors|wavefronts|queries|keys|heads|registers|tiles|rows|"
    "problems|kernels|sequences|lanes|accesses|times|records|builds|runs|SMs|GPUs|pairs|ranges|units|partitions|slots|"
    "elements|cycles|requests|chains|copies|groups|values|numbers|banks|words|rounds|points|questions|minutes"
)
PLURAL = re.compile(rf"(?<![\w.,/-])(?<!to )1 (?:{COUNTED})\b")


def wrong_plural(text):
    """The first "1 blocks" of a text, or None."""
    found = PLURAL.search(text)
    return found and found[0]


def shown(link):
    """What the page of a link shows, as JSON's types."""
    page = open_page(link)
    stage = page.stage
    return {
        "link": link,
        "kernels": [
            option["value"] for name in ("kernel", "a") for option in page.choices.get(name, {}).get("options", [])
        ],
        "choices": {name: entry["value"] for name, entry in page.choices.items()},
        "error": page.asked.error,
        "told": [*page.asked.told, *(stage.told if stage else [])],
        "headline": stage.headline if stage else "",
        "steps": len(stage.frames) if stage else 0,
        "views": [view["kind"] for view in stage.views] if stage else [],
        "warnings": stage.provenance["warnings"] if stage and stage.provenance else [],
        "provenance": stage.provenance["said"] if stage and stage.provenance else "",
        "summary": stage.summary if stage else "",
        "tabs": {tab["id"]: words(page.tab(tab["id"])) for tab in stage.tabs} if stage else {},
    }


def shown_with(folder, *links):
    """What the pages of these links show while the catalogue has the kernels of this folder, too."""
    from kernels import catalog, families
    from kernels.core.remembered import recordings_changed

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(families, "__path__", [*families.__path__, str(folder)])
        patched.setattr(catalog, "_last", catalog.refreshed(catalog.current()))
        recordings_changed()
        found = [json.loads(json.dumps(shown(link))) for link in links]
    recordings_changed()
    return found


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    print(json.dumps([shown(link) for link in sys.argv[1:]]))
