"""A kernel with one block for a whole context (V1), next to one that cuts it into partitions (V2)."""

from collections.abc import Sequence
from dataclasses import replace

import altair as alt
import numpy as np
import pandas as pd

from explainers.charts.palette import AXIS, OKABE_ITO
from explainers.stories.block_table import paging, split, walk
from explainers.stories.block_table.paging import WORDS, Paged, exact, marked, span
from explainers.story import probed, scene, stage
from explainers.story.glossary import phase_title, short
from explainers.story.scene import Cells, Group, Lane, Lanes, Link, Span, Texts
from explainers.story.words import Names, Row
from kernels.build.occupancy import MACHINES
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run.results import Run
from kernels.trace import steps as cutting

NEEDS = {"weight": ("partition",), "m": ("partition",), "l": ("partition",), "m_all": (), "l_all": ()}
SMS = MACHINES["sm_90"].multiprocessors  # where no GPU is known
HEADS, PARTITION = 32, 512  # heads of a well-known model, and vLLM's partition
LENGTHS = tuple(2**n for n in range(7, 18))
BATCHES = (1, 4, 16, 64)
SUMS = 8  # numbers of a partition's output in the picture
CACHES = {"K": "walk_k", "V": "walk_v"}  # cache -> the phase that reads it


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel (V2) walks pages in partitions, and logs their m, l and weights."""
    return walk.accepts(spec) and probed.logs(spec, NEEDS) and spec.constant_of("partition") is not None


def accepts_whole(spec: KernelSpec) -> bool:
    """Whether the kernel (V1) walks pages with one block for each query head."""
    return walk.accepts(spec) and not accepts(spec) and probed.sample(spec).plan.launches[0].blocks_per_item == 1


def partition_of(request: Request) -> int:
    """The tokens of a partition, 0 for a kernel without partitions."""
    return request.value_of("partition") or 0


# ---- data ----


def data_of(run_v1: Run, run_v2: Run, name: str, multiprocessors: int = SMS) -> Row:
    """Every table and number of the page: both kernels over one query head of one sequence.

    name: the sequence. multiprocessors: of the GPU.
    whole, cut, second: the steps of V1's block, of each partition's block, and of the second kernel (`_blocks`).
    parts: a row for each partition with a token: partition, first, end, m, l, weight e^(m_i - m), output (`_sums`).
    v1, v2: {"m", "l"} of the whole context by each kernel. difference: the largest one between the outputs.
    """
    (sequence, head), size = Paged(run_v1.request).place, partition_of(run_v2.request)
    length = int(paging.lengths(run_v1)[sequence])
    (one, logged_v1), (cut, logged_v2) = (_blocks(run) for run in (run_v1, run_v2))
    second = cut.pop(-1)

    def value(logged: pd.DataFrame, event: str) -> float:
        return float(logged[logged.event == event].value.iloc[0])

    parts = []
    for _, weight in logged_v2[logged_v2.event == "weight"].drop_duplicates("partition").iterrows():
        number = int(weight.partition)
        own = logged_v2[logged_v2.partition == number]
        tokens = {"first": number * size, "end": min(length, (number + 1) * size)}
        known = {key: value(own, key) for key in ("m", "l")}
        sums = _sums(run_v2, tokens["first"], tokens["end"], known["m"])
        parts.append({"partition": number, **tokens, **known, "weight": float(weight.value), "output": sums})
    outputs = [run.arrays[Paged(run.request).o[1].name][sequence, head].astype(np.float64) for run in (run_v1, run_v2)]
    return {
        **{"view": "partitions", "name": name, "head": head, "length": length, "multiprocessors": multiprocessors},
        "whole": one[0],
        "cut": {number: lane for number, lane in cut.items() if len(lane) > 1},  # without tokens a block exits at once
        "second": second,
        "parts": sorted(parts, key=lambda part: part["partition"]),
        "v1": {key: value(logged_v1, key) for key in ("m", "l")},
        "v2": {key: value(logged_v2, f"{key}_all") for key in ("m", "l")},
        "difference": float(np.abs(outputs[0] - outputs[1]).max()),
        "size": size,
        "default": partition_of(replace(run_v2.request, settings=())),
    }


def _blocks(run: Run) -> tuple[dict[int, list[Row]], pd.DataFrame]:
    """The steps of each block, and the records with values.

    The key of a block is its number within the item, or -1 in the second launch.
    Keys of a step: phase, end (of the tokens that it loads, or 0), lines.
    """
    (cut, frame), paged, blocks = marked(run), Paged(run.request), run.request.plan.launches[0].blocks_per_item
    loads = frame[(frame.space == "global") & frame.tensor.isin([paged.k[0], paged.v[0]]) & (frame.step >= 0)]
    # A load of V names its first token. A load of K has one token.
    brings = np.where(loads.tensor == paged.v[0], 16 // paged.v[1].itemsize, 1)
    ends = loads.assign(end=loads.token + brings).groupby("step").end.max()
    lit = cutting.lit_lines(run.trace, cut, run.sites)
    lanes: dict[int, list[Row]] = {}
    for number, step in cut.table.iterrows():
        lane = lanes.setdefault(-1 if step.launch else int(step.block) % blocks, [])
        lane.append({"phase": step.phase, "end": int(ends.get(number, 0)), "lines": lit[number]})
    return lanes, frame[frame.value.notna()]


def _sums(run: Run, first: int, end: int, m: float) -> list[float]:
    """The first numbers of a partition's output before the division by l: Σ e^(score - m) v over its tokens. They
    follow from the run's tensors. Empty where m is not the largest product: with ALiBi, a soft cap or scales."""
    paged, arrays = Paged(run.request), run.arrays
    sequence, head = paged.place
    kv_head, tokens = paged.kv_head_of(head), np.arange(first, end)
    q, k, v, table = (arrays[one[1].name] for one in (paged.q, paged.k, paged.v, paged.tables))
    pages, slots = table[sequence][tokens // paged.block_size], tokens % paged.block_size
    keys = k[pages, kv_head, :, slots].reshape(len(tokens), -1).astype(np.float64)
    scores = keys @ q[sequence, head].astype(np.float64) * paged.head_dim**-0.5
    if abs(scores.max() - m) > 0.01 * max(1.0, abs(m)):
        return []
    values = v[pages, kv_head, :SUMS, slots].astype(np.float64)
    return [float(one) for one in np.exp(scores - m) @ values]


def read_so_far(lane: Sequence[Names], phase: str, first: int, end: int) -> list[int]:
    """The end of the tokens whose K or V a block has read after each of its steps. first, end: its tokens."""
    ends = [step["end"] if step["phase"] == phase else first for step in lane]
    return np.clip(np.maximum.accumulate([first, *ends]), first, end)[1:].tolist()


def steps_of(data: Names) -> list[Row]:
    """A row for each step of the clock. Step n is every block's n-th step. The second kernel starts after all blocks.

    phase, k, v: of V1's block: its phase or done, and the tokens of K and V that it has read.
    phases: of the partitions' blocks. reduce: the phase of the second kernel, "" before it, done after it.
    """
    whole, second, lanes = data["whole"], data["second"], [*data["cut"].values()]
    before = max(map(len, lanes))
    read = {cache: read_so_far(whole, phase, 0, data["length"]) for cache, phase in CACHES.items()}
    rows = []
    for n in range(max(len(whole), before + len(second))):
        phases = [_at(lane, n).get("phase", "done") for lane in lanes]
        reduce = _at(second, n - before).get("phase", "done") if n >= before else ""
        v2_lines: dict[str, int] = {}
        for lane in lanes if not reduce else [second]:
            for line, times in _at(lane, n - (before if reduce else 0)).get("lines", {}).items():
                v2_lines[line] = v2_lines.get(line, 0) + times
        v1 = {cache.lower(): ends[min(n, len(ends) - 1)] for cache, ends in read.items()}
        v1 |= {"phase": _at(whole, n).get("phase", "done"), "v1_lines": _at(whole, n).get("lines", {})}
        rows.append({"tile": n, **v1, "phases": phases, "reduce": reduce, "v2_lines": v2_lines})
    return rows


def _at(lane: Sequence[Names], number: int) -> Names:
    return lane[number] if number < len(lane) else {}


# ---- page ----


def stage_of(
    run_v1: Run,
    run_v2: Run,
    name: str,
    provenance: stage.Provenance | None,
    tabs: Sequence[stage.Tab] = (),
    multiprocessors: int = SMS,
) -> stage.Stage:
    """The whole stage of both kernels on one clock, over one query head of one sequence. name: the sequence."""
    data = data_of(run_v1, run_v2, name, multiprocessors)
    steps = steps_of(data)
    doing = WORDS.table("doing")
    frames = []
    for row in steps:
        does = {phase: doing.get(phase, phase_title(phase).lower()) for phase in [*row["phases"], row["phase"]]}
        names = {**data, **row, "does": does[row["phase"]], "do": sorted({does[phase] for phase in row["phases"]})}
        sentences = [WORDS.say(f"{side}_step", {**names, "phase_title": phase_title}) for side in ("v1", "v2")]
        lines = {key: row[key] for key in ("tile", "v1_lines", "v2_lines")}
        frame = {"title": f"Step {row['tile'] + 1}", "sentences": sentences, "sentence": " ".join(sentences)}
        frames.append({**lines, **frame})
    ends = [next((n for n, row in enumerate(steps) if row[key] == "done"), len(steps)) for key in ("phase", "reduce")]
    names = {**data, "ends": ends}
    requests = [run.request for run in (run_v1, run_v2)]
    kernels = run_v1.request.kernel.name, run_v2.request.kernel.name
    return stage.Stage(
        headline=WORDS.say("partitions", names),
        frames=frames,
        views=[picture(data, steps), split.view(data, kernels)],
        codes=[stage.code(request, frames, f"v{n + 1}_lines", side=n) for n, request in enumerate(requests)],
        state=states(data, steps),
        tabs=[stage.Tab("parts", "Partitions", parts_blocks(data)), *tabs],
        provenance=provenance,
        summary=WORDS.say("gain_of_partitions", names),
        questions=split.questions(data, kernels),
    )


def picture(data: Names, steps: Sequence[Names]) -> stage.View:
    """Both kernels on one axis of tokens, what the second kernel merges, and the SMs with work."""
    length, parts, name, head = data["length"], data["parts"], data["name"], data["head"]
    before = max(map(len, data["cut"].values()))
    combined, written = (
        next((before + n for n, step in enumerate(data["second"]) if step["phase"] == phase), len(steps))
        for phase in ("combine", "write")
    )
    spans: list[Span] = []

    def add(row: int, first: int, end: int, since: int, colour: str, part: str, tip: str, *texts: Texts) -> None:
        """texts: after the step since, and before it."""
        early = texts[1] if texts[1:] else None
        spans.append(span(row, first, end, colour, {"part": part, "token": first}, tip, texts[0], since, early))

    def block(kernel: str, top: int, lane: Sequence[Names], first: int, end: int, result: Names, *texts: Texts) -> None:
        """What a block reads in each step, and its m and l."""
        for row, (cache, phase) in enumerate(CACHES.items(), top):
            ends = read_so_far(lane, phase, first, end)
            for n, (old, new) in enumerate(zip([first, *ends], ends)):
                if new > old:
                    tip = f"{kernel}: {cache} of tokens {old} to {new - 1}, read in step {n + 1}"
                    add(row, old, new, n, cache, f"{kernel} {cache}", tip, [])
        since = next((n for n, step in enumerate(lane) if step["phase"] == "softmax"), len(steps))
        tip = f"{kernel}, tokens {first} to {end - 1}: {exact(result)}"
        add(top + 2, first, end, since, "P", f"{kernel} m and l", tip, *texts)

    v1, v2 = data["v1"], data["v2"]
    all_l = f"l = {short(v1['l'])}"
    block("V1", 0, data["whole"], 0, length, v1, [f"m = {short(v1['m'])}, {all_l}", all_l], [])
    for part in parts:
        first, end, number = part["first"], part["end"], part["partition"]
        tokens, own_l = f"{first} to {end - 1}", f"l {short(part['l'], 3)}"
        texts = [f"m {short(part['m'], 3)}, {own_l}", own_l], [f"tokens {tokens}", tokens, str(first)]
        block("V2", 3, data["cut"][number], first, end, part, *texts)
        tip = f"Partition {number}: weight e^(mᵢ − m) = {short(part['weight'], 9)}"
        add(6, first, end, combined, "dim", "weight", tip, [f"× {short(part['weight'], 3)}"], [])
    sums = [f"l = Σ lᵢ e^(mᵢ − m) = {short(v2['l'], 5)}, m = {short(v2['m'])}", "l and m of all"]
    add(7, 0, length, combined, "P", "sum", sums[0], sums, ["waits for all partitions", "waits"])
    add(8, 0, length, written, "O", "O", "O is written", ["O = Σ Oᵢ e^(mᵢ − m) / l", "O"], [])
    merging = [n for n, row in enumerate(steps) if row["reduce"] not in ("", "done")]
    middles = [(part["first"] + part["end"]) / 2 for part in parts]
    blocks = f"{len(parts)} block{'s' * (len(parts) > 1)} for query head {head} of {name}: one for each partition"
    titles = {
        "V1": f"one block for query head {head} of {name}: tokens 0 to {length - 1}",
        "V2": blocks,
        "Second kernel": "",
    }
    rows = {"V1": ("K", "V", "m, l"), "V2": ("K", "V", "m, l", "weight"), "Second kernel": ("l", "O")}
    lanes = Lanes(
        groups=[Group(title=title, note=note) for title, note in titles.items()],
        rows=[Lane(name=row, group=n) for n, own in enumerate(rows.values()) for row in own],
        spans=spans,
        links=[Link(start=(6, middle), end=(7, middle), now=merging) for middle in middles],
        length=length,
    )
    legend = [("K", "K read"), ("V", "V read"), ("P", "max m and sum l"), ("O", "output"), ("ring", "in this step")]
    return scene.view("partitions", "V1 and V2", [[lanes], [_sms(data, steps)]], legend=legend)


def _sms(data: Names, steps: Sequence[Names]) -> Cells:
    """The SMs of the GPU with a block of this query head, at each step."""
    count = data["multiprocessors"]
    states, titles = [], []
    for row in steps:
        second = row["reduce"] not in ("", "done")
        busy = [int(row["phase"] != "done"), 1 if second else sum(phase != "done" for phase in row["phases"])]
        states.append("".join("1" * min(n, count) + "0" * (count - min(n, count)) for n in busy))
        titles.append([WORDS.say("sms", {"busy": busy, "count": count})])
    return Cells(
        part="sms",
        title=titles,
        columns=count,
        states=states,
        colours={"0": "panel", "1": "text"},
        words={"0": "", "1": ""},
        axes=("kernel", "SM"),
        tips=[f"{kernel}: SM {n} of {count}" for kernel in ("V1", "V2") for n in range(1, count + 1)],
    )


def states(data: Names, steps: Sequence[Names]) -> list[stage.State]:
    """The strip: m and l of both kernels, each from its step on."""
    softmax = next((n for n, step in enumerate(data["whole"]) if step["phase"] == "softmax"), len(steps))
    known = [n >= softmax for n in range(len(steps))], [bool(row["reduce"]) for row in steps]
    return [
        stage.State(
            f"V{side + 1} {key}", [short(data[f"v{side + 1}"][key]) if yes else None for yes in since], side=side
        )
        for side, since in enumerate(known)
        for key in ("m", "l")
    ]


def parts_blocks(data: Names) -> list[stage.Block]:
    """Every partition with its numbers, and their sum."""
    v1, v2 = data["v1"], data["v2"]
    rows = [
        {
            "partition": str(part["partition"]),
            "tokens": f"{part['first']} to {part['end'] - 1}",
            **{"m_i": part["m"], "l_i": part["l"], "e^(m_i - m)": part["weight"]},
            "l_i e^(m_i - m)": part["l"] * part["weight"],
        }
        for part in data["parts"]
    ]
    whole = {"tokens": "all", "e^(m_i - m)": None}
    rows.append({"partition": "V2 in all", "m_i": v2["m"], "l_i": v2["l"], "l_i e^(m_i - m)": v2["l"], **whole})
    rows.append({"partition": "V1", "m_i": v1["m"], "l_i": v1["l"], "l_i e^(m_i - m)": None, **whole})
    table = pd.DataFrame(rows, dtype=object)
    return [stage.table(table, WORDS.say("merge", data)), stage.text(WORDS.say("of_partitions", data))]


# ---- the tab with the sizes that fill a GPU ----


def enough_blocks(run_v1: Run, run_v2: Run, multiprocessors: int, device: str) -> list[stage.Block]:
    """The grids of this cache, and the sizes at which each kernel fills a GPU.

    multiprocessors, device: the number of SMs, and the GPU's name.
    """
    names = {"heads": HEADS, "partition": PARTITION, "count": multiprocessors, "device": device}
    first = fill_table(HEADS, PARTITION, multiprocessors).iloc[0]
    names |= {"v1": int(first["V1 blocks"]), "v2_from": int(first["V2 fills it from"])}
    names["enough"] = -(-multiprocessors // HEADS)
    chart = stage.chart(
        blocks_chart(blocks_table(HEADS, PARTITION), multiprocessors),
        "Thread blocks of V1 and V2 against context length, for 1 to 64 sequences, and the number of SMs",
        "V1 has heads x sequences blocks, V2 as many for each partition.",
        f"Thread blocks with {HEADS} query heads, partitions of {PARTITION} tokens",
    )
    filling = "Fills it: at least one block per SM. From: the shortest context length."
    launched = "Grids as launched. A block of V2 without a token of its sequence leaves at once."
    return [
        stage.heading("Thread blocks of this cache"),
        stage.table(grids(run_v1, run_v2), launched),
        stage.heading("Enough blocks to fill the GPU"),
        stage.text(WORDS.say("fill", names), "modelled"),
        stage.row([chart], [stage.table(fill_table(HEADS, PARTITION, multiprocessors), filling)]),
    ]


def grids(run_v1: Run, run_v2: Run) -> pd.DataFrame:
    """Kernel, grid, blocks, blocks with tokens, threads and shared bytes of each launch, from the plans."""
    rows = []
    for run in (run_v1, run_v2):
        request, size = run.request, partition_of(run.request)
        for number, launch in enumerate(request.plan.launches):
            blocks = busy = int(np.prod(launch.grid))
            if size and number == 0:  # a block past the end of its context exits at once
                busy = Paged(request).num_heads * sum(-(-int(length) // size) for length in paging.lengths(run))
            rows.append(
                {
                    "kernel": launch.entry,
                    "grid": " x ".join(map(str, launch.grid)),
                    "blocks": blocks,
                    "with tokens": busy,
                    "threads each": launch.threads,
                    "shared bytes each": launch.shared_bytes,
                }
            )
    return pd.DataFrame(rows)


def blocks_table(heads: int, partition: int) -> pd.DataFrame:
    """Context length, batch, kernel and blocks, by formula."""
    rows = [
        (length, batch, kernel, heads * batch * (1 if kernel == "V1" else -(-length // partition)))
        for length in LENGTHS
        for batch in BATCHES
        for kernel in ("V1", "V2")
    ]
    return pd.DataFrame(rows, columns=["context length", "batch", "kernel", "blocks"])


def blocks_chart(table: pd.DataFrame, multiprocessors: int) -> alt.LayerChart:
    """The thread blocks against context length. The rule is one block per SM."""
    colours = [OKABE_ITO[c] for c in ("vermillion", "orange", "green", "blue")]
    ticks = alt.Axis(values=list(LENGTHS[::2]), format="d", grid=False)
    x = alt.X("context length:Q", scale=alt.Scale(type="log", base=2), axis=ticks)
    powers = alt.Axis(format="~s", grid=False, values=[10**n for n in range(1, 7)])
    y = alt.Y("blocks:Q", title="thread blocks", scale=alt.Scale(type="log"), axis=powers)
    scale = alt.Scale(domain=list(BATCHES), range=colours)
    colour = alt.Color("batch:O", title="sequences", scale=scale, legend=alt.Legend(symbolType="stroke"))
    tip = ["kernel:N", "batch:O", alt.Tooltip("context length:Q", format=","), alt.Tooltip("blocks:Q", format=",")]
    dash = alt.StrokeDash("kernel:N", title="kernel", scale=alt.Scale(domain=["V2", "V1"], range=[[1, 0], [5, 3]]))
    line = alt.Chart(table).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash, tooltip=tip)
    points = alt.Chart(table).mark_circle(size=28, opacity=1).encode(x=x, y=y, color=colour, tooltip=tip)
    said = f"{multiprocessors} SMs"
    full = pd.DataFrame({"blocks": [multiprocessors], "context length": [LENGTHS[-1]], "said": [said]})
    rule = alt.Chart(full).mark_rule(color=AXIS, strokeWidth=2).encode(y="blocks:Q")
    label = alt.Chart(full).mark_text(color=AXIS, align="right", baseline="top", dy=4)
    text = label.encode(x=x, y="blocks:Q", text="said:N")
    return (rule + line + points + text).properties(height=300)


def fill_table(heads: int, partition: int, multiprocessors: int) -> pd.DataFrame:
    """Sequences, V1 blocks, whether V1 fills the GPU, and the shortest context for V2 to fill it."""
    rows = []
    for batch in (1, 2, 4, 8, 16, 32, 64):
        blocks = heads * batch
        needed = max(1, -(-multiprocessors // blocks))  # partitions per query head
        rows.append(
            {
                "sequences": batch,
                "V1 blocks": blocks,
                "V1 fills it": "yes" if blocks >= multiprocessors else "no",
                "V2 fills it from": 1 if needed == 1 else (needed - 1) * partition + 1,
                "partitions then": needed,
            }
        )
    return pd.DataFrame(rows)
