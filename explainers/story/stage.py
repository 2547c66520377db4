"""What one story shows of one request, as data: the frames, the pictures, the code, the strip of state and the tabs;
and its form on the way to the browser.

A Stage is made once (in a worker), encoded once, and the same bytes are kept, served and drawn: `encode` and `decode`.
The form: b"WGST", the JSON's length as 4 bytes (little endian), the JSON, zeros up to a multiple of 4, then every
column as float32. Where the JSON has {"$column": [first, count]}, that column stands there. NaN and infinity, which
JSON has not, are the texts nan, inf and -inf; in columns they are themselves.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypedDict

import altair as alt
import numpy as np
import pandas as pd

from explainers.story.builds import source_link
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import worst
from kernels.run.results import Run
from kernels.trace.probes import is_probe_line

MAGIC = b"WGST"
# What a question can ask to be covered until it is answered. headline: the line under the clock, of the kernel or the
# verdict; side: what stands in place of code.
VEILS = ("sentence", "strip", "headline", "picture", "tabs", "side")
MEASURED = 0.1  # the tolerance of what is measured or follows from it
Block = dict[str, Any]  # a piece of a tab: what `text`, `table`, `chart`, `note`, `heading` and `download` give


class File(TypedDict):
    """A source file: its lines, and the numbers of those that are probes."""

    name: str
    lines: list[str]
    probes: list[int]


@dataclass(frozen=True)
class View:
    """A picture. kind: the module under app/stage/views that draws it. id: what the link calls it. meta, columns: as
    frames.py of its story describes; a meta with `clock` has frames, and the strip's `state`, of its own. side: 0, or
    1 for the right one of two that stand side by side under one id."""

    kind: str
    id: str
    title: str
    meta: Any
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    side: int = 0


@dataclass(frozen=True)
class Code:
    """A code pane. source: the choices with which the Source page shows the build that is shown here. lit: the key of a
    frame that holds its lines (frames.Lines). side: as View.side."""

    kernel: str
    files: list[File]
    source: dict[str, str]
    lit: str = "lines"
    side: int = 0


@dataclass(frozen=True)
class State:
    """An entry of the strip: a name and a value for each frame, as number (drawn as a line over the steps) or as text.
    unit: after the number. of: what it is out of, if there is such a number. colour: a name of the palette, or a
    colour. side: as View.side."""

    name: str
    values: Sequence[Any]
    unit: str = ""
    of: float | None = None
    colour: str = ""
    side: int = 0


@dataclass(frozen=True)
class Tab:
    """A tab under the stage. blocks: its content, or None if it is made when it is opened (Story.parts has `id`)."""

    id: str
    title: str
    blocks: list[Block] | None = None


BUILDS, DATA = Tab("builds", "Builds"), Tab("data", "Data and labels")  # the tabs of every story of one request


@dataclass(frozen=True)
class Provenance:
    """Where the values come from. label: of glossary.PROVENANCE. said: in a sentence, with device and date. warnings:
    what a reader must know before believing them."""

    label: str
    said: str
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Question:
    """Asked before the picture is read. kind: options, number or click. options: texts. answer: the option's place, the
    number, or what `locate` of the view says of the thing to click. step: where the answer can be seen (from 0). why:
    the sentence that shows it, with the run's numbers. unit: of a number. view: which picture shows it. tolerance: the
    share of the number by which a guess may be off; 0 of a count. veils: the parts of the page, of VEILS, that give the
    answer away at that step."""

    id: str
    text: str
    kind: str
    answer: Any
    why: str
    options: list[str] = field(default_factory=list)
    step: int = 0
    unit: str = ""
    view: str = ""
    tolerance: float = 0.0
    veils: Sequence[str] = ()


@dataclass(frozen=True)
class Stage:
    """What a story shows. headline: the kernel and its idea. frames: frames.Frame each; {} in place of steps if there
    are none. summary: what the whole run shows, in a sentence, and its tone (good, bad or info). lead: the part
    (Story.parts) whose blocks stand under the summary, each in a line; made when the picture is there. late: choices
    that only the run tells (choices.described). told: what of the request could not be taken."""

    headline: str
    frames: Sequence[Any]
    views: Sequence[View]
    codes: Sequence[Code] = ()
    state: Sequence[State] = ()
    tabs: Sequence[Tab] = ()
    provenance: Provenance | None = None
    summary: str = ""
    tone: str = "info"
    lead: str = ""
    late: Sequence[Any] = ()
    told: Sequence[str] = ()
    questions: Sequence[Question] = ()
    step: int = 0  # where it begins if the link names no step
    step_choice: str = ""  # the choice that the step is (from 0): it goes along with the clock
    step_values: Sequence[int] = ()  # its value at each step, rising, where it is not the step's number
    side: Sequence[Block] = ()  # what stands in place of code, if there is no code


# ---- pieces ----


def of_request(request: Request, frames: Sequence[Any], views: Sequence[View], **parts: Any) -> Stage:
    """The stage of a request, with its kernel's headline and code. parts: the other fields of Stage."""
    return Stage(headline(request.kernel), frames, views, codes=[code(request, frames)], **parts)


def source_file(name: str, text: str) -> File:
    lines = text.splitlines()
    return {"name": name, "lines": lines, "probes": [n for n, line in enumerate(lines, 1) if is_probe_line(line)]}


def code(request: Request, frames: Sequence[Any], lit: str = "lines", side: int = 0) -> Code:
    """The .cu of the request's kernel, and those of its headers that a frame has lines of."""
    kernel, run = request.kernel, {place.rpartition(":")[0] for f in frames for place in f.get(lit) or ()}
    files = [source_file(name, text) for n, (name, text) in enumerate(kernel.files) if n == 0 or name in run]
    return Code(kernel.name, files, source_link(request), lit, side)


def headline(kernel: KernelSpec) -> str:
    """A kernel's name, title and idea, in a line."""
    return f"{kernel.name} {kernel.title}. {kernel.idea[0].upper()}{kernel.idea[1:]}"


def warned(made: Stage, sentences: Sequence[str]) -> Stage:
    """The stage, with more that a reader must know before believing it."""
    if not made.provenance or not sentences:
        return made
    warnings = [*made.provenance.warnings, *sentences]
    return replace(made, provenance=replace(made.provenance, warnings=warnings))


def provenance(run: Run, errors: Sequence[Any] = ()) -> Provenance:
    """Of a run's values and addresses. errors: the outputs' errors (execute.judge), if they are known."""
    compiler = f", {run.compiler}" if run.compiler else ""
    said = f"Values and addresses {run.provenance} on {run.device}, {run.date}{compiler}. "
    said += f"{run.trace.table.num_rows:,} records"
    warnings = []
    if errors:
        error = worst(tuple(errors))
        said += (
            f"; largest error against float64 {error.largest:.2g} ({error.output}), torch's own {error.yardstick:.2g}"
        )
        said += f", allowed {error.allowed:.2g}"
        if not error.ok and not run.request.broken:
            warnings.append(
                f"The output {error.output} misses float64 by more than is allowed: twice torch's own error and a "
                "rounding. Do not trust this run."
            )
    if run.trace.lost:
        warnings.append(
            f"The trace was cut: {run.trace.lost:,} records did not fit, so later steps are incomplete. Choose a "
            "smaller problem."
        )
    return Provenance(run.provenance, said + ".", warnings)


def text(said: str, label: str = "", links: Sequence[Block] = ()) -> Block:
    """A paragraph. label: a provenance label that stands before it. links: as `link` gives them, at its end."""
    return {"kind": "text", "text": said, "label": label, **({"links": list(links)} if links else {})}


def heading(said: str) -> Block:
    return {"kind": "heading", "text": said}


def note(said: str, tone: str = "info") -> Block:
    """A sentence that is set off. tone: good, bad or info: a colour says what the words say."""
    return {"kind": "note", "text": said, "tone": tone}


def table(frame: pd.DataFrame, caption: str = "", lit: str = "") -> Block:
    """A table, each number as it is to be read: round before. None and pd.NA are empty cells; among numbers NaN is a
    value with a name, so a table in which it means that nothing is known comes here by convert_dtypes(). lit: a column
    of booleans, not shown, whose rows stand out."""
    shown = frame.drop(columns=[lit]) if lit else frame
    kinds = ["number" if _is_number(column) else "text" for _, column in shown.items()]
    rows = [[_cell(value, kind) for value, kind in zip(row, kinds)] for row in shown.itertuples(index=False)]
    found: Block = {"kind": "table", "columns": [str(c) for c in shown.columns], "kinds": kinds, "rows": rows}
    return found | {"caption": caption, "lit": [bool(v) for v in frame[lit]] if lit else []}


def chart(made: alt.TopLevelMixin, alt_text: str, caption: str = "", title: str = "") -> Block:
    """An Altair chart. A parameter called `step` follows the clock: its value is the step, from 1."""
    return {"kind": "chart", "spec": made.to_dict(), "alt": alt_text, "caption": caption, "title": title}


def download(label: str, url: str, file: str) -> Block:
    return {"kind": "download", "label": label, "url": url, "file": file}


def link(said: str, story: str, query: Mapping[str, str]) -> Block:
    """A way to another story, with choices, a step and a tab of it."""
    return {"kind": "link", "text": said, "story": story, "query": dict(query)}


def live(view: str, meta: Any) -> Block:
    """A view of app/stage/views inside a tab or beside a picture. meta: what it gets."""
    return {"kind": "live", "view": view, "meta": meta}


def row(*columns: Sequence[Block]) -> Block:
    """Columns of blocks, side by side where there is room."""
    return {"kind": "row", "columns": [list(column) for column in columns]}


def _is_number(column: pd.Series) -> bool:
    inferred = pd.api.types.infer_dtype(column, skipna=True)
    return pd.api.types.is_numeric_dtype(column) or inferred in ("floating", "integer", "mixed-integer-float")


def _cell(value: Any, kind: str) -> Any:
    if value is None or value is pd.NA:
        return ""
    if isinstance(value, (float, np.floating)) and math.isnan(value):
        return "NaN" if kind == "number" else ""
    return plain(value)


# ---- on the way to the browser ----


def plain(value: Any, columns: dict[bytes, int] | None = None) -> Any:
    """The same structure in JSON's types; an array becomes a column, NaN and infinity become text. columns: float32
    numbers as bytes -> the place of the first among all, added to; equal ones are there once."""
    if isinstance(value, Mapping):
        return {str(k): plain(v, columns) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v, columns) for v in value]
    if isinstance(value, np.ndarray):
        if columns is None:
            return plain(value.tolist())
        first = columns.setdefault(np.asarray(value, "<f4").tobytes(), sum(map(len, columns)) // 4)
        return {"$column": [first, int(value.size)]}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def encode(stage: Any) -> bytes:
    """A Stage, or the blocks of a tab, as bytes."""
    columns: dict[bytes, int] = {}
    text = json.dumps(plain(_as_dict(stage), columns), separators=(",", ":")).encode()
    padding = b" " * (-(len(text) + 8) % 4)
    text += padding
    return MAGIC + len(text).to_bytes(4, "little") + text + b"".join(columns)


def decode(data: bytes) -> Any:
    """What `encode` was given, in JSON's types; columns as float32 arrays."""
    if data[:4] != MAGIC:
        raise ValueError("these bytes are no stage")
    end = 8 + int.from_bytes(data[4:8], "little")
    numbers = np.frombuffer(data, "<f4", offset=end)

    def restore(value: Any) -> Any:
        if isinstance(value, dict):
            if "$column" in value:
                first, count = value["$column"]
                return numbers[first : first + count]
            return {k: restore(v) for k, v in value.items()}
        return [restore(v) for v in value] if isinstance(value, list) else value

    return restore(json.loads(data[8:end]))


def _as_dict(value: Any) -> Any:
    """Dataclasses as dictionaries, all the way down; the frames' lines go once, in the frames, and to no view."""
    if isinstance(value, View):
        return {
            f.name: _without_lines(getattr(value, f.name)) if f.name == "meta" else getattr(value, f.name)
            for f in fields(value)
        }
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: _as_dict(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, (list, tuple)):
        return [_as_dict(v) for v in value]
    return value


def _without_lines(meta: Any) -> Any:
    """A view's meta; its frames without what stands in the stage's own. A picture with a clock of its own keeps all."""
    if not isinstance(meta, Mapping) or "frames" not in meta or meta.get("clock"):
        return meta
    told = ("lines", "lines_v1", "lines_v2")
    return {**meta, "frames": [{k: v for k, v in frame.items() if k not in told} for frame in meta["frames"]]}
