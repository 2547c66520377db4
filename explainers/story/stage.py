"""The page of a story as data: frames, pictures, code, the strip of state and tabs. encoding.py gives its bytes."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

import altair as alt
import numpy as np
import pandas as pd

from explainers.story.builds import source_link
from explainers.story.glossary import count, short
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import OutputError, worst
from kernels.run.results import Run
from kernels.trace.probes import is_probe_line

# The parts of the page that a question can cover until its answer. headline: the line of the kernel or the
# verdict, under the clock. side: the blocks in place of code.
VEILS = ("sentence", "strip", "headline", "picture", "tabs", "side")
MEASURED = 0.1  # the tolerance of a measured value, and of values that follow from it
Block = dict[str, Any]  # a piece of a tab: the result of `text`, `table`, `chart`, `note`, `heading` or `download`


class File(TypedDict):
    """A source file: its lines, and the numbers of the lines with probes."""

    name: str
    lines: list[str]
    probes: list[int]


@dataclass(frozen=True)
class View:
    """A picture.

    meta, columns: the data of the view, as in frames.py of its story. A meta with `clock` has its own frames, and its
        own strip under `state`.
    """

    kind: str  # its module under app/stage/views
    id: str  # its name in a link
    title: str
    meta: Any
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    side: int = 0  # 0, or 1 for the right one of two pictures with one id


@dataclass(frozen=True)
class Code:
    """A code pane."""

    kernel: str
    files: list[File]
    source: dict[str, str]  # the choices of the Source page for the shown build
    lit: str = "lines"  # the key of a frame's lines (frames.Lines)
    side: int = 0  # see View.side


@dataclass(frozen=True)
class State:
    """An entry of the strip: a name and a value for each frame. A number is also a line over the steps."""

    name: str
    values: Sequence[object]
    unit: str = ""  # after the number
    of: float | None = None  # the whole amount, if there is one
    colour: str = ""  # a name of the palette, or a colour
    side: int = 0  # see View.side
    deep: bool = False  # whether only Everything shows it


@dataclass(frozen=True)
class Tab:
    """A tab under the stage."""

    id: str
    title: str
    blocks: list[Block] | None = None  # its content, or None for a tab made on opening (Story.parts has `id`)


BUILDS, DATA = Tab("builds", "Builds"), Tab("data", "Data and labels")  # the tabs of every story of one request


@dataclass(frozen=True)
class Provenance:
    """The source of the values."""

    label: str  # of glossary.PROVENANCE
    said: str  # in a sentence, with device and date
    warnings: list[str] = field(default_factory=list)  # sentences that a reader needs before believing the values
    place: str = ""  # the GPU and the date of the recorded figures, H200, 2026-11-25. "" if the stage has none.
    problem: str = ""  # of a stage without a request, in words. Else the server knows the problem.


@dataclass(frozen=True)
class Question:
    """A question to the reader before the picture.

    reasons: for each option, why it is wrong, with the run's numbers. An empty text for the right one.
    covers: the things of the view that answer the question. The picture shows ? over each.
    """

    id: str
    text: str
    kind: str  # options, number or click
    answer: object  # the place of the option, the number, or the clicked thing
    why: str  # a sentence with the run's numbers
    options: list[str] = field(default_factory=list)  # texts
    step: int = 0  # the step with the answer, from 0
    unit: str = ""  # of a number
    view: str = ""  # the picture with the answer
    tolerance: float = 0.0  # the allowed relative error of a guess, 0 for a count
    veils: Sequence[str] = ()  # the parts of the page (VEILS) with the answer at that step
    reasons: list[str] = field(default_factory=list)
    hides: Sequence[str] = ()  # the texts that answer the question. The page shows ? in place of each, as a whole word.
    covers: Sequence[Mapping[str, Any]] = ()
    shows: Mapping[str, Any] | None = None  # the thing that Show me points at. to: its step, if not the question's
    hint: str = ""  # to a wrong number


@dataclass(frozen=True)
class Stage:
    """The page of a story.

    summary, tone: the result of the whole run in a sentence, and its tone: good, bad or info.
    """

    headline: str  # the kernel and its idea
    frames: Sequence[Any]  # a frames.Frame each. {} for a step without one.
    views: Sequence[View]
    codes: Sequence[Code] = ()
    state: Sequence[State] = ()
    tabs: Sequence[Tab] = ()
    provenance: Provenance | None = None
    summary: str = ""
    tone: str = "info"
    lead: str = ""  # the part (Story.parts) with the blocks under the summary, made after the picture
    late: Sequence[object] = ()  # choices known only after the run (choices.described)
    told: Sequence[str] = ()  # the choices of the link that the run could not take
    offer: Mapping[str, object] | None = None  # a change that shows more: {text, label, set: choice -> value as text}
    questions: Sequence[Question] = ()
    step: int = 0  # its first step if the link has none
    step_choice: str = ""  # a choice with the step as its value, from 0. It follows the clock
    step_values: Sequence[int] = ()  # the value of that choice at each step, rising, if it is not the step's number
    side: Sequence[Block] = ()  # the blocks in place of code


# ---- pieces ----


def of_request(request: Request, frames: Sequence[Any], views: Sequence[View], **parts: Any) -> Stage:
    """The stage of a request, with its kernel's headline and code. parts: the other fields of Stage."""
    return Stage(headline(request.kernel), frames, views, codes=[code(request, frames)], **parts)


def source_file(name: str, text: str) -> File:
    lines = text.splitlines()
    return {"name": name, "lines": lines, "probes": [n for n, line in enumerate(lines, 1) if is_probe_line(line)]}


def code(request: Request, frames: Sequence[Any], lit: str = "lines", side: int = 0) -> Code:
    """The .cu of the request's kernel, and its headers with lines in a frame."""
    kernel, run = request.kernel, {place.rpartition(":")[0] for f in frames for place in f.get(lit) or ()}
    files = [source_file(name, text) for n, (name, text) in enumerate(kernel.files) if n == 0 or name in run]
    return Code(kernel.name, files, source_link(request), lit, side)


def headline(kernel: KernelSpec) -> str:
    """A kernel's name, title and idea, in a line."""
    return f"{kernel.name} {kernel.title}. {kernel.idea[0].upper()}{kernel.idea[1:]}"


def sizes_said(sizes: Mapping[str, object]) -> str:
    """Some columns of a timed problem in words: 8,192 tokens, batch 4, 32 heads of 64, float16, causal."""
    known = ("seq_len", "batch", "num_heads", "head_dim")
    number = {name: int(float(str(sizes[name]))) for name in known if name in sizes}
    said = [count(number["seq_len"], "token")] if "seq_len" in sizes else []
    said += [f"batch {number['batch']}"] if number.get("batch", 1) > 1 else []
    of = f" of {number['head_dim']}" if "head_dim" in sizes else ""
    said += [f"{count(number['num_heads'], 'head')}{of}"] if "num_heads" in sizes else [of[1:]] if of else []
    said += [str(sizes["dtype"])] if "dtype" in sizes else []
    said += ["causal" if sizes["causal"] else "not causal"] if "causal" in sizes else []
    return ", ".join(said)


NOUNS = {"seq_len": "token", "tokens": "token", "num_heads": "head", "sequences": "sequence"}


def problem_said(problem: Problem) -> str:
    """A problem's sizes, type and mask: 8,192 tokens, 16 heads of 128, float16, causal."""
    fields, said = problem.values(), list[str]()
    for part in problem.size.split(", "):
        name, _, value = part.partition(" ")
        if name in NOUNS and value.isdigit():
            said.append(count(int(value), NOUNS[name]))
        elif part != "batch 1" and name != "head_dim":
            said.append(part)
    if "head_dim" in fields:
        said = [re.sub(r"^[\d,]+ heads?$", rf"\g<0> of {fields['head_dim']}", part) for part in said]
    if fields.get("num_kv_heads") not in (None, 0, fields.get("num_heads")) and "KV" not in problem.size:
        said.append(count(int(str(fields["num_kv_heads"])), "KV head"))
    attention = "head_dim" in fields
    said += [problem.dtype] if attention or "dtype" in fields else []
    said += [f"{problem.cache_dtype} cache"] if problem.cache_dtype not in ("", problem.dtype) else []
    said += [f"{fields['mask']} mask"] if "mask" in fields else []
    said += ["causal" if problem.causal else "not causal"] if "causal" in fields else []
    return ", ".join(said)


MOST_FAULTS = 3  # of a run, in the warnings of its stage


def warned(made: Stage, sentences: Sequence[str]) -> Stage:
    """The stage with more warnings."""
    if not made.provenance or not sentences:
        return made
    warnings = [*made.provenance.warnings, *sentences]
    return replace(made, provenance=replace(made.provenance, warnings=warnings))


def provenance(run: Run, errors: Sequence[OutputError] = ()) -> Provenance:
    """The Provenance of a run's values and addresses.

    errors: the outputs' errors (execute.judge), if known.
    """
    compiler = f", {run.compiler}" if run.compiler else ""
    said = f"Values and addresses {run.provenance} on {run.device}, {run.date}{compiler}. "
    said += f"{run.trace.table.num_rows:,} records"
    warnings = []
    if errors:
        error = worst(tuple(errors))
        said += f". The largest error against float64 is {short(error.largest, 2)} ({error.output}), "
        said += f"torch's own {short(error.yardstick, 2)}, allowed {short(error.allowed, 2)}"
        if not error.ok and not run.request.broken:
            warnings.append(
                f"The output {error.output} misses float64 by more than is allowed: twice torch's own error and a "
                "rounding. Do not trust this run."
            )
    elif not run.request.problem.compared:
        said += ". No truth is known for this run"
    told = [fault for fault in run.faults if fault.level == "error"]
    warnings += [f"{fault.kind.capitalize()}: {fault.text}" for fault in told[:MOST_FAULTS]]
    if len(told) > MOST_FAULTS:
        warnings.append(f"{len(told) - MOST_FAULTS} more faults: run check for all.")
    if run.trace.lost:
        warnings.append(
            f"The trace was cut: {run.trace.lost:,} records did not fit, so later steps are incomplete. Choose a "
            "smaller problem."
        )
    where = place(run.device, run.date) if run.provenance == "recorded" else ""
    return Provenance(run.provenance, said + ".", warnings, where)


def gpu_name(device: str) -> str:
    """The name of a GPU without its maker and the size of its memory: H100."""
    return re.sub(r"^NVIDIA | \d+GB.*", "", device)


def place(device: str, date: str) -> str:
    """The GPU and the date of recorded figures, for Provenance.place."""
    return f"{gpu_name(device)}, {date}"


def text(said: str, label: str = "", links: Sequence[Block] = ()) -> Block:
    """A paragraph.

    label: a provenance label in front of it.
    links: results of `link`, at its end.
    """
    return {"kind": "text", "text": said, "label": label, **({"links": list(links)} if links else {})}


def heading(said: str) -> Block:
    return {"kind": "heading", "text": said}


def note(said: str, tone: str = "info") -> Block:
    """A sentence with a frame.

    tone: good, bad or info. It gives the colour.
    """
    return {"kind": "note", "text": said, "tone": tone}


def table(frame: pd.DataFrame, caption: str = "", lit: str = "") -> Block:
    """A table with its numbers as they are. Round them first.

    None and pd.NA are empty cells. NaN in a column of numbers is the value NaN. Use convert_dtypes() if NaN means no
    value.
    lit: a column of booleans. It is not shown, and its rows get a background.
    """
    shown = frame.drop(columns=[lit]) if lit else frame
    numbers = ("floating", "integer", "mixed-integer-float")  # of columns of objects
    kinds = [
        "number"
        if pd.api.types.is_numeric_dtype(column) or pd.api.types.infer_dtype(column, skipna=True) in numbers
        else "text"
        for _, column in shown.items()
    ]
    rows = [[_cell(value, kind) for value, kind in zip(row, kinds)] for row in shown.itertuples(index=False)]
    found: Block = {"kind": "table", "columns": [str(c) for c in shown.columns], "kinds": kinds, "rows": rows}
    return found | {"caption": caption, "lit": [bool(v) for v in frame[lit]] if lit else []}


def chart(made: alt.TopLevelMixin, alt_text: str, caption: str = "", title: str = "") -> Block:
    """An Altair chart. A parameter called `step` follows the clock: its value is the step, from 1."""
    return {"kind": "chart", "spec": made.to_dict(), "alt": alt_text, "caption": caption, "title": title}


def download(label: str, url: str, file: str) -> Block:
    return {"kind": "download", "label": label, "url": url, "file": file}


def link(said: str, story: str, query: Mapping[str, str]) -> Block:
    """A link to another story, with choices, a step and a tab."""
    return {"kind": "link", "text": said, "story": story, "query": dict(query)}


def card(text: str, to: Block, now: bool, note: str, links: Sequence[Block], sources: Sequence[Sequence[str]]) -> Block:
    """An entry of `cards`.

    to: the link of the card.
    now: whether it is the present page. It then shows `links`, and `note` before the sources.
    sources: name and address of each.
    """
    where = {"story": to["story"], "query": to["query"]}
    return {"text": text, **where, "now": now, "note": note, "links": [*links], "sources": [[*one] for one in sources]}


def cards(title: str, entries: Sequence[Block]) -> Block:
    """A list of pages. entries: results of `card`."""
    return {"kind": "cards", "title": title, "entries": list(entries)}


def live(view: str, meta: object) -> Block:
    """A view of app/stage/views inside a tab or next to a picture.

    meta: its data.
    """
    return {"kind": "live", "view": view, "meta": meta}


def row(*columns: Sequence[Block]) -> Block:
    """Columns of blocks, side by side if the page is wide enough."""
    return {"kind": "row", "columns": [list(column) for column in columns]}


def _cell(value: object, kind: str) -> object:
    if value is None or value is pd.NA:
        return ""
    if isinstance(value, (float, np.floating)) and math.isnan(value):
        return "NaN" if kind == "number" else ""
    return plain(value)


# ---- on the way to the browser ----


def plain(value: object, columns: dict[bytes, int] | None = None) -> object:
    """The value in JSON's types. An array becomes a column. NaN and infinity become text.

    columns: float32 numbers as bytes -> their first place among all numbers. New columns are added, equal ones share
        a place.
    """
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
