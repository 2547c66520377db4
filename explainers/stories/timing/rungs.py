"""The picture `rungs`: our kernels from the first to the last and their rivals, with recorded times of a problem.

Each problem is a state of its own. No bar mixes two of them.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypedDict

import pandas as pd

from explainers.models.race import raced
from explainers.models.recorded_times import LENGTH, MAIN, of_problem
from explainers.story import questions, stage
from explainers.story.frames import Frame
from explainers.story.glossary import MICROSECONDS, amount
from explainers.story.words import Row, Words
from kernels import catalog
from kernels.core.remembered import of_recordings
from kernels.measure import bench, duels
from kernels.recordings import tables
from kernels.recordings.tables import Provenance

WORDS = Words.of(str(__package__), "rungs.toml")
RUNGS, RIVALS, NEXT_TO = (WORDS.table(name) for name in ("rungs", "rivals", "next_to"))
STOP_OF, SAVES, WHERE = (WORDS.table(name) for name in ("stop_of", "saves", "where"))
TOGETHER = WORDS.table("special")["together"].split()  # the last kernels: one step
TILES, ONE_PASS, FOR_SHORT, EXACT = (WORDS.table("special")[name] for name in ("tiles", "one_pass", "short", "exact"))
MISSING = WORDS.table("special")["missing"]
ASIDE = (FOR_SHORT, EXACT)  # no rungs of the ladder: each is in sight where it is our fastest
UNFUSED, FLASH = "sdpa_math float32", "sdpa_flash float16"
UNFUSED_16 = "unfused float16"
CUDNN, NEWEST, LIMIT = "sdpa_cudnn float16", "flash_attn_4 float16", "limit"
RACE = 8192  # of the stop The race
LONG = {"seq_len": 16384, "batch": 1, "num_heads": 8, "head_dim": 64}  # 32 bits only
SHORT = {"seq_len": 512, "batch": 32, "num_heads": 16, "head_dim": 128, "dtype": "float16"}
PADDING = {"seq_len": 4096, "batch": 1, "num_heads": 8, "head_dim": 64, "causal": False}  # with and without it
BLOCKS = "BLOCK_Q=16 BLOCK_KV=16 "  # the tiles of our first kernels
SHARES = (25, 50, 75, 95)  # percent of a roof


class Rung(TypedDict):
    """A row: a kernel of ours, or a rival.

    said: its idea, or the rival's name. ways: the stops with its idea: number and title, and a link.
    change: what the kernel before does, and what this one does. Empty for a rival. group: the row's group. short: its
    idea in a word, or the rival's short name. saves: what its change saves, or "".
    where: the memory of its trips, or "".
    """

    id: str
    said: str
    short: str
    saves: str
    where: str
    ways: list[tuple[str, str]]
    change: list[str]
    group: str


class TimedProblem(TypedDict):
    """A problem with its times.

    said: its sizes, the state of the chip and the recording. tokens: in short. other: whether more than its tokens
    differs from the main problem.
    us: row -> µs.
    """

    id: str
    said: str
    tokens: str
    other: bool
    us: dict[str, float]


class Shown(TypedDict):
    """What a step shows: its phase, problem, row and rival, and the rows in sight.

    adds: the kernels that are new in the step. news: the rivals that are new, or passed in the step.
    """

    phase: str
    problem: str
    rung: str
    rival: str
    seen: list[str]
    adds: list[str]
    news: list[str]


class RungsMeta(TypedDict):
    """The fields of the view `rungs`.

    saves: what a change can save, in words. race: what fewer trips gain elsewhere, for the last step. others: its
    order, and the stops without a riser. missing: a rival without a time, said next to the line
    of the rival `beside`. best: the change with the largest gain.
    """

    frames: list[Frame]
    rungs: list[Rung]
    saves: dict[str, str]
    race: str
    others: str
    missing: str
    beside: str
    best: str
    problems: list[TimedProblem]
    shown: list[Shown]
    words: dict[str, str]


def time(us: float) -> str:
    """A time in at most three digits: 825 µs, 1.03 ms."""
    return amount(us, MICROSECONDS)


def views(taught: Mapping[str, tuple[str, str]]) -> tuple[list[stage.View], list[stage.Question]]:
    """The picture in a list, and its questions. Empty lists without a recording of all rows of the first problem.

    taught: the name of a stop -> its number and title, and its link.
    """
    problems = {one["id"]: one for one in recorded()}
    main = problems.get(f"main {LENGTH}")
    if main is None or not {*NEXT_TO, UNFUSED, FLASH, CUDNN} <= main["us"].keys():
        return [], []
    steps = _steps(problems)
    names = _names(steps, main["us"]) | _more(problems, taught)
    meta: RungsMeta = {
        "frames": WORDS.frames(steps, names),
        "rungs": _rows(taught),
        "saves": WORDS.table("kinds"),
        "race": WORDS.say("in_race", names),
        "others": f"{WORDS.say('order', names)} {WORDS.say('no_riser', {'stops': _without(taught)})}",
        "missing": WORDS.say("missing", {"missing": _is_missing()}),
        "beside": FLASH,
        "best": names["largest"]["kernel"],
        "problems": [*problems.values()],
        "shown": [row["shown"] for row in steps],
        "words": WORDS.table("hand"),
    }
    view = stage.View("rungs", "rungs", "The staircase", {**meta, "clock": True, "state": []})
    return [view], WORDS.questions(names, 0)


def _rows(taught: Mapping[str, tuple[str, str]]) -> list[Rung]:
    specs = catalog.current().kernels
    before, now, short = (WORDS.table(name) for name in ("before", "now", "short"))
    ours: list[Rung] = [
        {
            "id": name,
            "said": RUNGS[name],
            "short": short.get(name, ""),
            "saves": SAVES.get(name, ""),
            "where": WHERE.get(name, ""),
            "ways": [taught[stop] for stop in STOP_OF.get(name, "").split() if stop in taught],
            "change": [of[name] for of in (before, now) if name in of],
            "group": specs[name].problem_type().dtype,
        }
        for name in RUNGS
    ]
    none: Rung = {
        "id": "",
        "said": "",
        "short": "",
        "saves": "",
        "where": "",
        "ways": [],
        "change": [],
        "group": "rivals",
    }
    rate = f"{_limit_tflops():.0f}"
    rivals: list[Rung] = [
        {**none, "id": id, "said": said.replace("{tflops}", rate), "short": short[id]} for id, said in RIVALS.items()
    ]
    return [*sorted(ours, key=lambda one: one["group"], reverse=True), *rivals]  # 32 bits first


def _without(taught: Mapping[str, tuple[str, str]]) -> list[str]:
    """The numbers of the stops without a change of the ladder."""
    taken = {"how_fast", *(stop for rung in NEXT_TO for stop in STOP_OF[rung].split())}
    return [said.split()[0] for name, (said, _) in taught.items() if name not in taken]


def _more(problems: Mapping[str, TimedProblem], taught: Mapping[str, tuple[str, str]]) -> Row:
    """Values of the last steps: times at work, and what a kernel without S and P gains with a queue in the banks,
    without it, and in the race."""
    at_work = problems["work"]["us"] if "work" in problems else {}
    ours = [at_work[name] for name in at_work if name in RUNGS]
    work: Row = {"ours": time(min(ours)), "newest": time(at_work[NEWEST])} if ours and NEWEST in at_work else {}
    us = _of_padding()
    queued, padded = (us.get((TILES, pad), 0.0) / us.get((ONE_PASS, pad), 1.0) for pad in (0, 4))
    race = problems[f"main {RACE}"]["us"] if f"main {RACE}" in problems else {}
    held = next((one["held"] for one in raced()[0] if one["tokens"] == RACE and not one["causal"]), None)
    less = held[0] / held[1] if held else 0.0
    torch = race[UNFUSED_16] / race[FLASH] if {UNFUSED_16, FLASH} <= race.keys() else 0.0
    sizes = stage.sizes_said({name: PADDING[name] for name in ("num_heads", "head_dim")})
    stop = taught.get("as_written", ("",))[0].partition(" ")[0]
    more: Row = {"race": torch, "held": less, "sizes": sizes, "stop": stop}
    return {"at_work": work, "queued": queued, "no_queue": padded, **more}


def _steps(problems: Mapping[str, TimedProblem]) -> list[Row]:
    """A row for each step."""
    main, us = f"main {LENGTH}", problems[f"main {LENGTH}"]["us"]
    ladder = _ladder(us)
    rivals = [name for name in RIVALS if name in us and name != LIMIT]

    def step(phase: str, rung: str, rival: str, seen: Sequence[str], **more: object) -> Row:
        found: Row = {"phase": phase, "tile": -1, "rung": rung, "us": us[rung], "time": time(us[rung])}
        found |= {"rival_us": us[rival], "rival_time": time(us[rival])}
        found |= {"times": us[rival] / us[rung], "whole": us[ladder[0]] / us[ladder[-1]], "share": 0.0, **more}
        shown: Shown = {
            "phase": phase,
            "problem": main,
            "rung": rung,
            "rival": rival,
            "seen": [*seen],
            "adds": [rung] if phase == "begin" else [],
            "news": [],
        }
        return found | {"shown": shown, "limit_tflops": _limit_tflops()}

    steps = [step("begin", ladder[0], ladder[-1], [ladder[0]])]
    before, known = ladder[0], list[str]()
    for name in NEXT_TO:
        if name in TOGETHER and name != TOGETHER[-1]:
            continue
        passed = [one for one in rivals if us[name] < us[one] < us[before]]
        ahead = [UNFUSED] if name == ONE_PASS and us[name] > us[UNFUSED] else []  # it stores S and P, and still wins
        known += [one for one in [*passed, *ahead] if one not in known]
        row = step(
            "rung", name, NEXT_TO[name], [*ladder[: ladder.index(name) + 1], *known], times=us[before] / us[name]
        )
        row["shown"]["news"] = [*passed, *ahead]
        row["shown"]["adds"] = ladder[ladder.index(before) + 1 : ladder.index(name) + 1]
        steps.append(row)
        before = name
    last, all_of = ladder[-1], [*us]
    share = 100 * us[LIMIT] / us[last] if LIMIT in us else 0.0
    steps.append(step("hand", last, LIMIT if LIMIT in us else CUDNN, all_of, share=share))
    return [*steps, step("end", last, ladder[0], all_of)]


def _ladder(us: Mapping[str, float]) -> list[str]:
    """Our kernels in their order, each with its change to the one before."""
    return [name for name in RUNGS if name in us and name not in ASIDE]


def _names(steps: Sequence[Row], us: Mapping[str, float]) -> Row:
    """The values of the questions."""
    ladder = _ladder(us)
    gains = {name: us[before] / us[name] for before, name in zip(ladder, ladder[1:])}
    best = max(gains, key=lambda name: gains[name])
    at = {row["rung"]: n for n, row in enumerate(steps) if row["phase"] == "rung"}
    at |= {row["phase"]: n for n, row in enumerate(steps) if row["phase"] != "rung"}
    names: Row = {"gains": gains, "largest": {"kernel": best}, "whole": us[ladder[0]] / us[ladder[-1]], "at": at}
    names |= {"share": 0, "limit": {}, "padded": _padded()}
    if LIMIT in us:
        share, ours = 100 * us[LIMIT] / us[ladder[-1]], us[ladder[-1]]
        nearest = questions.nearest(SHARES, share)
        wrong = {f"About {one}%": time(us[LIMIT] * 100 / one) for one in SHARES if one != nearest}
        limit = {"right": f"About {nearest}%", "wrong": wrong, "time": time(us[LIMIT])}
        names |= {"share": share, "limit": limit | {"ours": time(ours), "tflops": f"{_limit_tflops():.0f}"}}
    return names


def _padded() -> float:
    """How many times faster padded rows alone make one pass, in the problem of the stop Banks. 0 without recordings."""
    us = _of_padding()
    return us[ONE_PASS, 0] / us[ONE_PASS, 4] if {(ONE_PASS, 0), (ONE_PASS, 4)} <= us.keys() else 0.0


def _of_padding() -> dict[tuple[str, int], float]:
    """Kernel, and words after a row -> µs, in the problem of the stop Banks. Empty without recordings of all."""
    for table, _ in tables.recorded(bench.KIND).values():
        part = of_problem(table.assign(own_settings=True), PADDING)
        part = part[part.settings.str.startswith(BLOCKS, na=False)]
        found = {
            (name, pad): part.median_us[(part["name"] == name) & part.settings.str.contains(f"PAD_K={pad} ")]
            for name in (TILES, ONE_PASS)
            for pad in (0, 4)
        }
        if all(len(us) == 1 for us in found.values()):
            return {of: float(us.iloc[0]) for of, us in found.items()}
    return {}


def _is_missing() -> bool:
    """Whether the recordings have no time of a rival that readers will look for."""
    made = [table for table, _ in tables.recorded(bench.KIND).values()]
    return not any((table.status.isin(tables.TIMED) & (table.name == MISSING)).any() for table in made)


def _limit_tflops() -> float:
    """The largest measured rate of 16-bit products, of the recording of the ladder. 0 without it."""
    return next((where.roofs.get("fp16_tflops", 0.0) for _, where in tables.recorded(bench.KIND).values()), 0.0)


# ---- recorded ----


@of_recordings(cache)
def recorded() -> list[TimedProblem]:
    """The problems of the picture with a recording: the main one at each length, a long one with 32 bits, a short one
    whose kernels took turns, and the main one at work."""
    found = list[TimedProblem]()
    for table, where in tables.recorded(bench.KIND).values():
        own = of_problem(table, MAIN | {"causal": False})
        for tokens, part in own.groupby("seq_len"):
            times = _times(part) | _limit(part, where)
            found.append(_problem(f"main {int(tokens)}", MAIN | {"seq_len": int(tokens)}, where, times))
        found.append(_problem("long", LONG, where, _times(of_problem(table, LONG | {"causal": False}))))
        break
    if met := duels.recorded():
        table, where = met
        table = table[duels.as_tuned(table) & (table.scores == "random")]
        wanted = {"causal": False, "dtype": "float16"}
        short = of_problem(table[table.peer == CUDNN.split()[0]], SHORT | wanted)
        if FOR_SHORT in set(short["name"]):
            times = dict(zip(short.name, short.us)) | {CUDNN: float(short.peer_us.iloc[0])}
            found.append(_problem("turns", SHORT, where, times, turns=True))
        work = of_problem(table[table.peer == NEWEST.split()[0]], MAIN | {"seq_len": LENGTH} | wanted)
        if len(work):
            times = dict(zip(work.name, work.sustained_us)) | {NEWEST: float(work.sustained_peer_us.iloc[0])}
            found.append(_problem("work", MAIN | {"seq_len": LENGTH}, where, times, peer=True))
    return [one for one in found if len(one["us"]) > 1]


def _times(part: pd.DataFrame) -> dict[str, float]:
    part = part.drop_duplicates("key")  # a rival of several sweeps: next to our first kernels
    return dict(zip(part.key, part.median_us))


def _limit(part: pd.DataFrame, where: Provenance) -> dict[str, float]:
    """The time of the products at the largest measured rate of 16-bit numbers."""
    known = part[part.tflops.notna() & (part["dtype"] == "float16")]
    if known.empty or "fp16_tflops" not in where.roofs:
        return {}
    row = known.iloc[0]
    return {LIMIT: float(row.median_us * row.tflops / where.roofs["fp16_tflops"])}


def _problem(
    id: str, sizes: Mapping[str, object], where: Provenance, times: Mapping[str, float], **more: object
) -> TimedProblem:
    said = stage.sizes_said(sizes)
    names: Row = {"sizes": said, "device": stage.gpu_name(where.device), "date": where.date}
    names |= {"peer": False, "turns": False, **more}
    us = {name: float(value) for name, value in times.items() if name in RUNGS or name in RIVALS}
    fastest = min((value for name, value in us.items() if name in RUNGS), default=0.0)
    us = {name: value for name, value in us.items() if name not in ASIDE or value == fastest}
    is_main = id.startswith("main ")
    tokens = WORDS.say("tokens", names | {"id": id, "tokens": sizes["seq_len"], "of": sizes})
    return {"id": id, "said": WORDS.say("problem", names), "tokens": tokens, "other": not is_main, "us": us}
