"""Registers the clock and its views, once, at import. Each function mounts one; data goes to the browser, the step stays there."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import streamlit as st

from explainers import online_softmax
from kernels.probes import is_probe_line

HERE = Path(__file__).parent
CLOCK_SELECTOR = "#warpglass-step"  # what Altair parameters bind to
_CSS = (HERE / "views.css").read_text()
_BUS = (HERE / "bus.js").read_text()

_LEGEND = """<div class="legend"><span><i style="border:3px solid #56B4E9"></i>read from global memory</span>
<span><i style="border:3px solid #D55E00"></i>written to global memory</span>
<span><i style="border:3px solid currentColor"></i>read from shared memory, or computed</span>
<span><i style="border:2px dashed currentColor"></i>held in shared memory</span>
<span><i style="background:linear-gradient(90deg,#0072B2,transparent,#E69F00)"></i>below zero, above zero</span></div>"""

_CANVAS = '<figure class="view"><canvas role="img"></canvas><div class="tip" hidden></div></figure>'
_NUMBERS = '<div class="scroll"><table class="numbers"></table></div>'


def _register(name, html, isolate=True, needs=()):
    scripts = [(HERE / f"{file}.js").read_text() for file in (*needs, name)]
    return st.components.v2.component(f"warpglass.{name}", html=html, css=_CSS, js="\n".join([_BUS, *scripts]), isolate_styles=isolate)


_clock = _register("clock", (HERE / "clock.html").read_text(), isolate=False)  # its keys and the page's tests find its slider
_narration = _register("narration", '<div class="narration"><div><span class="flag"></span><span class="sentence" role="status"></span></div>'
                       '<div class="longest" aria-hidden="true"></div></div>')
_code = _register("code", '<div class="file"></div><div class="code" tabindex="0" role="region" aria-label="Kernel source"></div>')
_matrices = _register("matrices", _CANVAS + '<div class="pin"></div>' + _LEGEND
                      + '<div class="shared"></div><div class="scroll"><table class="bytes"></table></div>')
_row = _register("row", _CANVAS + _NUMBERS)
_pool = _register("pool", _CANVAS, needs=("pages",))
_events = _register("events", '<div class="label">Events</div><div class="events" role="group" aria-label="Events"></div>')
_walk = _register("walk", _CANVAS + '<div class="pin"></div>', needs=("pages",))
_partitions = _register("partitions", _CANVAS + _NUMBERS)
_banks = _register("banks", _CANVAS + """<div class="legend"><span><i style="background:#E69F00"></i>served in this wavefront</span>
<span><i style="background:color-mix(in srgb, #0072B2 35%, transparent)"></i>served before</span>
<span><i style="background:color-mix(in srgb, currentColor 13%, transparent)"></i>still waiting</span>
<span>&#9679; a word that several lanes share (broadcast)</span>
<span><i style="background:#D55E00"></i>several words of one bank (conflict)</span></div>""" + _NUMBERS)
_sectors = _register("sectors", _CANVAS + """<div class="legend"><span><i style="border:2px solid #D55E00"></i>sector that is moved</span>
<span><i style="background:linear-gradient(90deg,#00224e,#575c6d,#a69d75,#fee838)"></i>bytes asked for, by lane 0 to 31</span></div>""" + _NUMBERS)
_source = _register("source", """<div class="label" data-part="state" role="status"></div><div class="source">
<div><div class="file">CUDA</div><div class="code" tabindex="0" role="region" aria-label="CUDA"></div></div>
<div><div class="file">PTX</div><div class="code" tabindex="0" role="region" aria-label="PTX"></div></div>
<div><div class="file">SASS</div><div class="code" tabindex="0" role="region" aria-label="SASS"></div></div></div>""")


def bound_step():
    """The hidden field that charts bind to. It stands on every page before anything else: a chart that is embedded before the clock is there would
    bind to nothing, and never follow."""
    st.html(f'<style>.stElementContainer:has(> .stHtml > {CLOCK_SELECTOR}) {{ display: none; }}</style>'
            f'<input id="{CLOCK_SELECTOR[1:]}" type="hidden" value="0">')


def clock(frames, run_id, step):
    """The clock over `frames`. A new run_id starts it at `step`."""
    tiles = [f["tile"] for f in frames]
    outer = [n for n in range(len(frames)) if n == 0 or tiles[n] != tiles[n - 1] or frames[n].get("block") != frames[n - 1].get("block")]
    _clock(key="view-clock", data={"titles": [f["title"] for f in frames], "outer": outer, "run": run_id, "step": step})


def narration(frames, side=""):
    _narration(key=f"view-narration{side}", data={"frames": [{"sentence": f["sentence"], "wrong": bool(f.get("wrong"))} for f in frames]})


def code(kernel, frames, lit="lines", side=""):
    """The kernel's source with each frame's lines lit; `frames` hold {line: times} under `lit`. side: which of two panes of a page."""
    lines = kernel.source.splitlines()
    probes = [n for n, text in enumerate(lines, 1) if is_probe_line(text)]
    _code(key=f"view-code{side}" if lit == "lines" else f"view-code-{lit}",
          data={"file": kernel.path.name, "lines": lines, "probes": probes, "lit": [f[lit] for f in frames], "height": 420 if side else 0})


def matrices(run, story, side=""):
    """The tiling view of a Run and its tiling.Tiling. side: which of two views of a page."""
    problem = run.request.problem
    batch, head = divmod(story.head, problem.heads)
    rows = slice(*story.rows)
    traced = [t for t in "QKVSPO" if any(name.startswith(f"{t} ") for name in story.frames[-1]["bytes"])]
    meta = {"n": problem.seq_len, "d": problem.head_dim, "row0": story.rows[0], "rows": story.rows[1] - story.rows[0], "head": story.head,
            "traced": traced, "blocks": story.output_blocks, "frames": _told(story.frames)}
    _matrices(key=f"view-matrices{side}", data={
        "meta": plain(meta), **{name: _table(run.arrays[name][batch, head]) for name in "qkv"}, "s": _table(story.scores), "o": _table(story.o_values),
        "o_final": _table(run.arrays["o"][batch, head, rows])})


def row(run, story, number):
    """The online softmax view of a Run, its online_softmax.RowStory and the row's number."""
    settings = run.request.kernel.settings(run.request.settings)
    ordinary = online_softmax.is_ordinary(run.request.kernel)
    meta = {"frames": _told(story.frames), "row": number, "ordinary": ordinary,
            "tile_of": (np.arange(len(story.keys)) // settings["BLOCK_KV"]).tolist(), "block_kv": settings["BLOCK_KV"], "error": story.error,
            "total": {"m": story.ordinary_m, "l": story.ordinary_l}}
    _row(key="view-row", data={"meta": plain(meta), "scores": _table(story.keys.score), "weights": _table(story.keys.p),
                          "weights_true": _table(story.keys.weight_true), "o": _table(story.o_values), "o_true": _table(story.o_true)})


def pool(frames, cache, max_len, run_id, moment, layout=None):
    """The KV cache after each event. Returns the event at which the user rests: `moment` until the browser has told another."""
    told = _pool(key="view-pool", default={"moment": None}, on_moment_change=lambda: None, data=plain({
        "frames": frames, "size": cache.block_size, "run": run_id, "moment": moment, "max_len": max_len,
        "page_bytes": layout.page_bytes if layout else 0, "kv_heads": layout.num_kv_heads if layout else 0})).moment
    return int(told["step"]) if told and told["run"] == run_id else moment


def events(frames):
    _events(key="view-events", data={"events": [f["event"] or "empty cache" for f in frames]})


def walk(run, story, name, colour):
    """The walk view of a Run and its block_table.Walk."""
    problem, layout = run.request.problem, run.request.problem.layout
    others = {}
    for n, (row, length) in enumerate(zip(problem.block_tables, problem.context_lens)):
        for entry, page in enumerate(row):
            if n != story.sequence:
                others[page] = max(others.get(page, 0), min(problem.block_size, length - entry * problem.block_size))
    meta = {"frames": _told(story.frames), "name": name, "colour": colour,
            "table": problem.block_tables[story.sequence], "length": problem.context_lens[story.sequence], "size": problem.block_size,
            "pages": problem.num_blocks, "others": others, "kv_head": story.kv_head, "kv_heads": problem.num_kv_heads, "page_bytes": layout.page_bytes,
            "item": 16 // layout.x, "head_size": problem.head_size, "x": layout.x, "head": story.head, "partitioned": len(run.request.plan.launches) > 1}
    _walk(key="view-walk", data={"meta": plain(meta), "scores": _table(story.scores), "weights": _table(story.weights), "o": _table(story.o)})


def partitions(comparison, length, name, head):
    """V1 beside V2: a partitions.Comparison."""
    _partitions(key="view-partitions", data=plain({"frames": _told(comparison.frames), "length": length, "parts": comparison.table.to_dict("records"),
                                                   "v1": comparison.v1, "v2": comparison.v2, "name": name, "head": head}))


def banks(story):
    """32 lanes by 32 banks: a bank_conflicts.Story."""
    _banks(key="view-banks", data=plain({"frames": _told(story.frames), "accesses": story.accesses}))


def sectors(story):
    """The sectors of each request: a coalescing.Story."""
    _sectors(key="view-sectors", data=plain({"frames": _told(story.frames), "requests": story.requests}))


def source(kernel, listing, build):
    """A disassembly.Listing beside the kernel's source; `build` names what it was made of."""
    lines = kernel.source.splitlines()
    held = {line.source for line in (*listing.ptx, *listing.sass) if line.source}
    _source(key="view-source", data={
        "build": build, "cuda": {"text": lines, "source": [n if n in held else 0 for n in range(1, len(lines) + 1)],
                                 "dim": [is_probe_line(text) for text in lines]},
        **{name: {"text": [line.text for line in part], "source": [line.source or 0 for line in part], "entry": [line.entry for line in part]}
           for name, part in (("ptx", listing.ptx), ("sass", listing.sass))}})


def _told(frames):
    """The frames without the lit lines, which only the code pane needs."""
    return [{k: v for k, v in frame.items() if not k.startswith("lines")} for frame in frames]


def plain(value):
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


def _table(array):
    """A float32 array as a one-column frame: it crosses as Arrow, not as JSON."""
    return pd.DataFrame({"value": np.asarray(array, np.float32).ravel()})
