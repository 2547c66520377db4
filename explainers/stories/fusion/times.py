"""The recorded times of a fused kernel, its separate kernels and torch.compile: tables and bars."""

import json
import math
from functools import lru_cache

import pandas as pd

from explainers.story.glossary import count
from explainers.story.scene import Bar, Bars, Part, view
from explainers.story.stage import View, place, problem_said
from explainers.story.words import Names, Row, Words
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.measure import chains
from kernels.measure.chains import COMPILED

SHOWN = (("separate", "stream"), ("separate", "graph"), ("fused", "graph"), ("compiled", "graph"))
IN = {"stream": "one after another", "graph": "in a graph"}
WORDS = Words.of(str(__package__))


@lru_cache(maxsize=16)
def recorded(spec: KernelSpec) -> tuple[pd.DataFrame, str]:
    """Every recorded time of a fused kernel, and the GPU with the date. An empty table without a recording.

    A row for each problem, L2 and way: a chain's time in us. A graph's time is sustained. Launches one after another
        are rested: the host cannot keep a chip at work with them.
    Columns: problem, who (separate, fused or compiled), mode (stream or graph), l2 (hot or cold), us, launches,
        spans: [start, end] of each launch in us.
    """
    found = chains.recorded(spec)
    if found is None:
        return pd.DataFrame(columns=["problem", "who", "mode", "l2", "us", "launches", "spans"]), ""
    rows, where = found
    problems = {text: spec.problem_type(**json.loads(text)) for text in rows.problem.unique()}
    table = pd.DataFrame(
        {
            "problem": rows.problem.map(problems),
            "who": rows["name"].map({spec.name: "fused", COMPILED: "compiled"}).fillna("separate"),
            "mode": rows["mode"],
            "l2": rows.l2,
            "us": rows.us.where(rows["mode"] == "stream", rows.sustained_us),
            "launches": rows.launches,
            "spans": [json.loads(spans) if isinstance(spans, str) else [] for spans in rows.spans],
        }
    )
    return table, place(where.device, where.date)


def of_problem(table: pd.DataFrame, problem: Problem, l2: str = "hot") -> Row:
    """The times of one problem: stream, separate, fused and compiled in us, NaN without one, and more.

    saved: us that fusion saves of the separate launches in a graph.
    gaps, first_gap: us in which no kernel runs between the separate launches. first: us of the first launch.
    gap_share: gaps over saved. It can exceed 1: the gaps come from the timeline build, the time from the timed one.
    gain: separate over fused.
    name, count: of the problem's first size, such as tokens, 16.
    """
    rows = table[(table.problem == problem) & (table.l2 == l2)].set_index(["who", "mode"])
    us = {key: float(rows.us[key]) if key in rows.index else math.nan for key in SHOWN}
    spans = {who: rows.spans[who, "graph"] if (who, "graph") in rows.index else [] for who, _ in SHOWN}
    gaps = [after[0] - before[1] for before, after in zip(spans["separate"], spans["separate"][1:])]
    before, after = us["separate", "graph"], us["fused", "graph"]
    name, size = next(iter(problem.values().items()))
    return {
        "problem": problem,
        "stream": us["separate", "stream"],
        "separate": before,
        "fused": after,
        "compiled": us["compiled", "graph"],
        "saved": before - after,
        "gain": before / after,
        "gaps": sum(gaps),
        "first_gap": gaps[0] if gaps else 0.0,
        "first": spans["separate"][0][1] - spans["separate"][0][0] if gaps else 0.0,
        "gap_share": sum(gaps) / (before - after) if gaps and before > after else math.nan,
        "launches": len(spans["separate"]),
        "counts": {who: rows.launches[who, "graph"] if (who, "graph") in rows.index else None for who, _ in SHOWN},
        "spans": spans,
        "name": name,
        "count": int(str(size)),
    }


def nearest(request: Request) -> tuple[Row, list[Row]] | None:
    """The times of the recorded problem nearest to a request in work, in its type if there are some. And those of all
    problems in its type with both times, the smallest first. None without a recording."""
    table, where = recorded(request.kernel)
    kind = request.problem.values().get("dtype")

    def gap(problem: Problem) -> tuple[bool, float]:
        return problem.values().get("dtype") != kind, abs(
            math.log(problem.cpu_steps / max(1, request.problem.cpu_steps))
        )

    if table.empty:
        return None
    problems = list(table.problem.unique())
    near = of_problem(table, min(problems, key=gap))
    kind = near["problem"].values().get("dtype")
    alike = [of_problem(table, problem) for problem in problems if problem.values().get("dtype") == kind]
    near |= {"where": where, "source": f"recorded on {where}, with {problem_said(near['problem'])}"}
    return near, sorted((t for t in alike if t["saved"] == t["saved"]), key=lambda t: t["problem"].cpu_steps)


def bars(times: Names, alike: list[Row], now: list[int]) -> Bars:
    """The times in a graph. now: the steps about them. alike: see `nearest`."""
    gains = {one["count"]: one["gain"] for one in alike}
    shown = [n for n in gains if n in (min(gains), times["count"], max(gains))]
    names = {**times, "size": problem_said(times["problem"]).split(",")[0], "gains": {n: gains[n] for n in shown}}
    names |= {
        "gpu": times["where"].split(", ")[0],
        "one": times["name"].removesuffix("s"),
        "first": min(gains, default=0),
    }
    ways = [who for who in ("separate", "compiled", "fused") if times[who] == times[who]]
    names_of = {
        who: way(who) if pd.isna(n) else f"{way(who)}, {count(int(n), 'launch', 'launches')}"
        for who, n in times["counts"].items()
    }
    return Bars(
        title=[WORDS.say(name, names) for name in ("time_title", "short_time_title", "least_time_title")],
        bars=[_bar(times, who, "graph", names_of[who]) for who in ways],
        note=WORDS.say("gains", names) if len(gains) > 1 else "",
        datum={"note": "time"},
        now=now,
    )


def clock(times: Names) -> View:
    """The times of all ways, launches one after another among them."""
    ways = [(who, mode) for who, mode in SHOWN if (us := _us(times, who, mode)) == us]
    drawn = [_bar(times, who, mode, way(who, mode)) for who, mode in ways]
    note, parts, title = (WORDS.say(name, times) for name in ("modes", "parts", "clock"))
    panel = Bars(
        title=[title, problem_said(times["problem"])],
        bars=drawn,
        key="us",
        head="µs of one chain",
        note=note,
        tall=True,
    )
    return view("clock", "Time", [[panel]], legend=[("", parts)])


def _us(times: Names, who: str, mode: str) -> float:
    return float(times["stream" if mode == "stream" else who])


def _bar(times: Names, who: str, mode: str, name: str) -> Bar:
    """A bar with a part for each launch, and the gap after it."""
    end, spans = _us(times, who, mode), times["spans"][who] if mode == "graph" else []
    after = [*(start for start, _ in spans[1:]), end]
    return Bar(
        name=name,
        value=end,
        text=f"{end:.2f} µs",
        parts=[
            Part(start=start, end=stop, text=f"{stop - start:.2f}", gap=f"{then - stop:.2f}")
            for (start, stop), then in zip(spans, after)
        ],
        strong=who == "fused",
        datum={"time": who, "mode": mode},
        tip=f"{way(who, mode)}: {end:.2f} µs\n{'sustained' if mode == 'graph' else 'rested'}, {times['source']}",
    )


def way(who: str, mode: str = "") -> str:
    return ", ".join([COMPILED if who == "compiled" else who, *([IN[mode]] if mode else [])])


def table(spec: KernelSpec) -> pd.DataFrame:
    """us of each way at every recorded problem, with a hot and a cold L2."""
    times, rows = recorded(spec)[0], []
    for problem in times.problem.unique():
        for l2 in chains.L2:
            one = of_problem(times, problem, l2)
            us = {way(who, mode): _us(one, who, mode) for who, mode in SHOWN}
            us |= {"separate / fused": one["gain"], f"{COMPILED} / fused": one["compiled"] / one["fused"]}
            texts = {name: "none" if math.isnan(value) else f"{value:.2f}" for name, value in us.items()}
            rows.append({"problem": problem.size, "type": problem.values().get("dtype", ""), "L2": l2, **texts})
    return pd.DataFrame(rows)
