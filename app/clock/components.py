"""Registers the clock and its views, once, at import. Each function mounts one; data goes to the browser, the step
stays there.

What each view is given is described in explainers/frames.py; arrays go beside it as float32 columns.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from explainers import palette
from kernels.build.disassembly import Listing
from kernels.core.spec import KernelSpec
from kernels.trace.probes import is_probe_line

HERE = Path(__file__).parent
CLOCK_SELECTOR = "#warpglass-step"  # what Altair parameters bind to
_CSS = (HERE / "views.css").read_text()
_SIGN, _MARKS, _WAVES = palette.SIGN, palette.MARKS, palette.WAVEFRONTS

_CANVAS = '<figure class="view"><canvas role="img"></canvas><div class="tip" hidden></div></figure>'
_NUMBERS = '<div class="scroll"><table class="numbers"></table></div>'
_PIN = '<div class="pin"></div>'
_BYTES = '<div class="shared"></div><div class="scroll"><table class="bytes"></table></div>'


def _legend(*entries: tuple[str, str]) -> str:
    """(style of the mark, what it means) pairs as a row below a view."""
    return f'<div class="legend">{"".join(f"<span>{_mark(style)}{text}</span>" for style, text in entries)}</div>'


def _mark(style: str) -> str:
    return f'<i style="{style}"></i>' if style else ""


_MATRICES_LEGEND = _legend(
    (f"border:3px solid {_MARKS['load']}", "read from global memory"),
    (f"border:3px solid {_MARKS['store']}", "written to global memory"),
    ("border:3px solid currentColor", "read from shared memory, or computed"),
    ("border:2px dashed currentColor", "held in shared memory"),
    (f"background:linear-gradient(90deg,{_SIGN['below']},transparent,{_SIGN['above']})", "below zero, above zero"),
)
_TENSORS_LEGEND = _legend(
    (f"border:3px solid {_MARKS['load']}", "read from global memory"),
    (f"border:3px solid {_MARKS['store']}", "written to global memory"),
    (f"background:linear-gradient(90deg,{_SIGN['below']},transparent,{_SIGN['above']})", "below zero, above zero"),
)
_BANKS_LEGEND = _legend(
    (f"background:{_WAVES['now']}", "served in this wavefront"),
    (f"background:color-mix(in srgb, {_WAVES['before']} 35%, transparent)", "served before"),
    ("background:color-mix(in srgb, currentColor 13%, transparent)", "still waiting"),
    ("", "&#9679; a word that several lanes share (broadcast)"),
    (f"background:{_WAVES['conflict']}", "several words of one bank (conflict)"),
)
_SECTORS_LEGEND = _legend(
    (f"border:2px solid {_WAVES['moved']}", "sector that is moved"),
    (f"background:linear-gradient(90deg,{','.join(palette.MAGNITUDE)})", "bytes asked for, by lane 0 to 31"),
)


def _pane(name: str) -> str:
    code = f'<div class="code" tabindex="0" role="region" aria-label="{name}"></div>'
    return f'<div><div class="file">{name}</div>{code}</div>'


def _register(name: str, html: str, isolate: bool = True, needs: Sequence[str] = ()) -> Callable[..., Any]:
    """A component of the script of that name, after the palette, the bus and the scripts that it needs."""
    scripts = [f"const PALETTE = {json.dumps(palette.for_browser())};"]
    scripts += [(HERE / f"{file}.js").read_text() for file in ("bus", *needs, name)]
    return st.components.v2.component(
        f"warpglass.{name}", html=html, css=_CSS, js="\n".join(scripts), isolate_styles=isolate
    )


_clock = _register(
    "clock", (HERE / "clock.html").read_text(), isolate=False
)  # its keys and the page's tests find its slider
_narration = _register(
    "narration",
    '<div class="narration"><div><span class="flag"></span><span class="sentence" role="status"></span></div>'
    '<div class="longest" aria-hidden="true"></div></div>',
)
_code = _register(
    "code", '<div class="file"></div><div class="code" tabindex="0" role="region" aria-label="Kernel source"></div>'
)
_events = _register(
    "events", '<div class="label">Events</div><div class="events" role="group" aria-label="Events"></div>'
)
_source = _register(
    "source",
    f'<div class="label" data-part="state" role="status"></div><div '
    f'class="source">{"".join(map(_pane, ("CUDA", "PTX", "SASS")))}</div>',
)
_VIEWS = {  # the dense views: all draw on the one canvas
    name: _register(name, _CANVAS + below, needs=("canvas", *needs))
    for name, below, *needs in (
        ("matrices", _PIN + _MATRICES_LEGEND + _BYTES),
        ("row", _NUMBERS),
        ("pool", "", "pages"),
        ("walk", _PIN, "pages"),
        ("partitions", _NUMBERS),
        ("banks", _BANKS_LEGEND + _NUMBERS),
        ("sectors", _SECTORS_LEGEND + _NUMBERS),
        ("tensors", _PIN + _TENSORS_LEGEND + _BYTES),
    )
}


def bound_step() -> None:
    """The hidden field that charts bind to. It stands on every page before anything else: a chart that is embedded
    before the clock is there would bind to nothing, and never follow."""
    st.html(
        f"<style>.stElementContainer:has(> .stHtml > {CLOCK_SELECTOR}) {{ display: none; }}</style>"
        f'<input id="{CLOCK_SELECTOR[1:]}" type="hidden" value="0">'
    )


def clock(frames: Sequence[Any], run_id: str, step: int) -> None:
    """The clock over `frames`. A new run_id starts it at `step`."""
    tiles, blocks = [f["tile"] for f in frames], [f.get("block") for f in frames]
    outer = [n for n in range(len(frames)) if n == 0 or (tiles[n], blocks[n]) != (tiles[n - 1], blocks[n - 1])]
    _clock(key="view-clock", data={"titles": [f["title"] for f in frames], "outer": outer, "run": run_id, "step": step})


def narration(frames: Sequence[Any], side: str = "") -> None:
    """Each step's sentence. side: which of two of a page."""
    told = [{"sentence": f["sentence"], "wrong": bool(f.get("wrong"))} for f in frames]
    _narration(key=f"view-narration{side}", data={"frames": told})


def code(kernel: KernelSpec, frames: Sequence[Any], lit: str = "lines", side: str = "") -> None:
    """The kernel's .cu and those of its headers that a frame has lines of, with each frame's lines lit; `frames` hold
    {"FILE:LINE": times} under `lit`. side: which of two panes of a page."""
    run = {place.rpartition(":")[0] for f in frames for place in f[lit]}
    files = [_file(name, text) for n, (name, text) in enumerate(kernel.files) if n == 0 or name in run]
    key = f"view-code{side}" if lit == "lines" else f"view-code-{lit}"
    _code(key=key, data={"files": files, "lit": [f[lit] for f in frames], "height": 420 if side else 0})


def _file(name: str, text: str) -> dict[str, Any]:
    """A source file as code.js and source.js take it: its name, its lines, the numbers of those that are probes."""
    lines = text.splitlines()
    return {"name": name, "lines": lines, "probes": [n for n, line in enumerate(lines, 1) if is_probe_line(line)]}


def view(name: str, meta: Mapping[str, Any], columns: Mapping[str, np.ndarray] | None = None, side: str = "") -> Any:
    """A dense view, such as matrices, of the meta and the arrays that its explainer made. side: which of two views of a
    page."""
    tables = {column: _table(array) for column, array in (columns or {}).items()}
    return _VIEWS[name](key=f"view-{name}{side}", data={"meta": plain(_without_lines(meta)), **tables})


def pool(meta: Mapping[str, Any]) -> int:
    """The KV cache after each event. Returns the event at which the user rests: meta's moment until the browser has
    told another."""
    made = _VIEWS["pool"](
        key="view-pool",
        default={"moment": None},
        on_moment_change=lambda: None,
        data={"meta": plain(_without_lines(meta))},
    )
    return int(made.moment["step"]) if made.moment and made.moment["run"] == meta["run"] else meta["moment"]


def events(frames: Sequence[Any]) -> None:
    """The events of a KV cache, as a list that the clock moves through."""
    _events(key="view-events", data={"events": [f["event"] or "empty cache" for f in frames]})


def source(kernel: KernelSpec, listing: Listing, build: str) -> None:
    """A listing beside the kernel's source; `build` names what it was made of."""
    held = {_place(line.source) for line in (*listing.ptx, *listing.sass)} - {""}
    made = {place.rpartition(":")[0] for place in held}
    files = [_file(name, text) for n, (name, text) in enumerate(kernel.files) if n == 0 or name in made]
    panes = {
        name: {
            "text": [line.text for line in part],
            "source": [_place(line.source) for line in part],
            "entry": [line.entry for line in part],
        }
        for name, part in (("ptx", listing.ptx), ("sass", listing.sass))
    }
    _source(key="view-source", data={"build": build, "files": files, "held": sorted(held), **panes})


def _place(source: tuple[str, int] | None) -> str:
    return f"{source[0]}:{source[1]}" if source else ""


def _without_lines(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The meta, its frames without the lit lines, which only the code pane needs."""
    frames = [{k: v for k, v in frame.items() if not k.startswith("lines")} for frame in meta["frames"]]
    return {**meta, "frames": frames}


def plain(value: Any) -> Any:
    """The same structure in JSON's types; NaN and infinity, which JSON has not, as text."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _table(array: np.ndarray) -> pd.DataFrame:
    """An array as a one-column frame of float32: it crosses as Arrow, not as JSON."""
    return pd.DataFrame({"value": np.asarray(array).astype(np.float32).ravel()})
