"""The walk of one query head through its block table, page by page, from the logged loads."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np
import pandas as pd

from explainers.models import grid, threads
from explainers.stories.block_table import kv_cache, paging
from explainers.stories.block_table.paging import WORDS, Paged, counted, marked
from explainers.story import axes, probed, scene, stage
from explainers.story.glossary import phase_title
from explainers.story.scene import Cells, Columns, Datum, Entries, Page, Pages, Tables
from explainers.story.words import Names, Row
from kernels.core.spec import KernelSpec
from kernels.run.results import Run
from kernels.trace.memory import model

NEEDS = {"score": ("token",), "p": ("token",), "m": (), "l": (), "o": ("dim",)}
WANTS = ("walk_k", "softmax", "walk_v", "write", "score", "p", "m", "l", "o")
# phase -> the events in its words. Without them, it has the words of any phase.
EVENTS = {"load_q": set(), "softmax": {"m", "l", "p"}, "write_part": set(), "write": {"o"}}
EVENTS["combine"] = {"m_all", "l_all", "weight"}


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel computes attention over pages in marked walks of K and V, and logs scores, weights, m, l and
    output."""
    return not refusal(spec)


def refusal(spec: KernelSpec) -> str:
    """The reason against a kernel in a sentence, or ""."""
    if not paging.accepts(spec):
        return f"{spec.name} does not attend to a cache in pages."
    lacking = sorted({"walk_k", "walk_v"} - set(probed.marks(spec)))
    if lacking:
        return f"{spec.name} does not mark {', '.join(lacking)}. Add a mark for each."
    return probed.without_events(spec, NEEDS)


# ---- data ----


def frames_of(run: Run, name: str) -> list[Row]:
    """The steps of a Run over one query head of one sequence, with their words. name: the sequence.

    A step of K or V is one page by one warp. Further columns:
    about: the words that it has: load_q, page, softmax, write_part, combine, write, other.
    moment: the step of the trace. read: its bytes from global memory.
    logical, page: the entry of the block table and its page. entry_offset: the byte of the entry in the block tables.
    base: the first byte of the page's part of the KV head.
    warp, tokens: the warp, and the first and last token. tensor, role: the cache, and k or v.
    request, low, bytes: byte offset of each lane's first load (None for an idle lane), the lowest byte, and all bytes.
    m, l: of a softmax or a combination. written: whether the step writes O.
    """
    paged, (cut, records) = Paged(run.request), marked(run)
    sequence, head = paged.place
    length, partitions = int(paging.lengths(run)[sequence]), run.request.plan.launches[0].blocks_per_item
    pages = -(-length // paged.block_size)
    rows: list[Row] = []
    for number, part in records[records.step >= 0].groupby("step"):
        step = cut.table.loc[number]
        in_partition = int(step.block) % partitions if partitions > 1 else None
        common = {"phase": step.phase, "block": int(step.block), "moment": int(step.name), "partition": in_partition}
        common |= {"titled": partitions > 1 and step.launch == 0}
        if step.phase in ("walk_k", "walk_v"):
            for _, own in part.groupby("warp"):
                if (own.tensor == paged.tables[0]).any():
                    rows.append({**common, **counted(own), **_page(run, paged, step.phase, own, length)})
        elif step.phase != "load_q" or (part.tensor == paged.q[0]).any():  # a block without tokens exits at once
            told = EVENTS.get(step.phase, {"none"}) <= set(part.event)
            more = _phase(paged, step.phase if told else "other", part)
            rows.append({**common, **counted(part), **more})
    group = -1
    for before, row in zip([{}, *rows], rows):
        group += (before.get("phase"), before.get("block")) != (row["phase"], row["block"])
        row["tile"] = group
    names = {"view": "walk", "name": name, "head": head, "length": length, "pages": pages, "dims": paged.head_dim}
    frames = WORDS.frames(rows, {**names, "O": paged.o[0], "phase_title": phase_title})
    for frame in frames:
        frame["sentence"] = frame["sentence"][0].upper() + frame["sentence"][1:]
    return [{**row, **frame} for row, frame in zip(rows, frames)]


def _page(run: Run, paged: Paged, phase: str, part: pd.DataFrame, length: int) -> Row:
    """A warp's walk over a page: its entry, its bytes, and the best score of K."""
    entry = part[part.tensor == paged.tables[0]].iloc[0]
    tensor, cache = paged.k if phase == "walk_k" else paged.v
    tables, size = run.arrays[paged.tables[1].name], paged.block_size
    loads = part[(part.tensor == tensor) & (part.event == "load") & (part.space == "global")]
    logical, page = int(entry.logical), int(tables.flat[int(entry.offset) // tables.itemsize])
    row: Row = {
        **{"about": "page", "logical": logical, "page": page, "entry_offset": int(entry.offset)},
        "base": axes.byte_of(cache, page=page, kv_head=paged.kv_head_of(paged.place[1])),
        **{"warp": int(part.warp.iloc[0]), "tokens": [logical * size, min(logical * size + size, length) - 1]},
        **{"tensor": tensor, "role": phase[-1], "request": _first_request(loads)},
        **{"low": int(loads.offset.min()), "bytes": int(loads.bytes.sum())},
    }
    scores = part[part.event == "score"]
    if phase == "walk_v":
        return row
    best = scores.loc[scores.value.idxmax()]
    return row | {"best": float(best.value), "best_token": int(best.token)}


def _phase(paged: Paged, about: str, part: pd.DataFrame) -> Row:
    """What a step of another phase does."""
    values, stores = part[part.value.notna()], part[part.event == "store"]
    last = values.drop_duplicates("event", keep="last").set_index("event").value
    if about == "load_q":
        numbers = part[(part.tensor == paged.q[0]) & (part.space == "global")]
        return {"about": about, "numbers": len(numbers), "copied": bool((stores.space == "shared").any())}
    if about == "softmax":
        tokens = part[part.event == "p"].token
        span = [int(tokens.min()), int(tokens.max())]
        return {"about": about, "m": float(last["m"]), "l": float(last["l"]), "scores": len(tokens), "tokens": span}
    if about == "write_part":
        return {"about": about, "stored": int(stores[stores.space == "global"].bytes.sum())}
    if about == "combine":
        m, l = (float(values[values.event == name].value.iloc[0]) for name in ("m_all", "l_all"))
        return {"about": about, "m": m, "l": l, "parts": int((values.event == "weight").sum())}
    if about == "write":
        numbers = stores[(stores.tensor == paged.o[0]) & (stores.space == "global")]
        first = float(part[part.event == "o"].sort_values("dim").value.iloc[0])
        return {"about": about, "written": True, "numbers": len(numbers), "first": first}
    accesses = part[part.space.isin(["global", "shared"])]
    counts = {"accesses": len(accesses), "moved": int(accesses.bytes.sum()), "logged": len(values)}
    return {"about": about, **counts}


def _first_request(loads: pd.DataFrame) -> list[int | None]:
    """The byte offset of each lane in the warp's first load, None for an idle lane."""
    first = loads.sort_values("seq").groupby("lane").first()
    if first.empty:
        return [None] * 32
    site = first[["file", "line"]].astype({"file": str}).apply(tuple, axis=1)
    offsets = first[site == site.mode().iloc[0]].offset.astype(int)
    return [int(offsets[lane]) if lane in offsets.index else None for lane in range(32)]


# ---- page ----


def picture(run: Run, frames: list[Row], name: str, colour: str) -> stage.View:
    """The block table, the pool, the page that an entry leads to, the scores and weights, and the output.

    name, colour: the sequence.
    """
    paged, records = Paged(run.request), run.trace.frame("event", "token", "value")
    (sequence, head), length = paged.place, int(paging.lengths(run)[paged.place[0]])
    columns = {"o": np.asarray(run.arrays[paged.o[1].name][sequence, head], np.float32)}
    for event, column, phase in (("score", "scores", "walk_k"), ("p", "weights", "softmax")):
        own = records[records.value.notna() & (records.event == event)]
        columns[column] = np.full(length, np.nan, np.float32)
        columns[column][own.token.astype(int)] = own.value
        columns[f"since_{column}"] = np.full(length, len(frames), np.float32)
        for n, frame in enumerate(frames):
            if frame["phase"] == phase and "tokens" in frame:
                columns[f"since_{column}"][frame["tokens"][0] : frame["tokens"][1] + 1] = n
    phases = [frame["phase"] for frame in frames]
    soft = phases.index("softmax") if "softmax" in phases else len(frames)
    mixed = "walk_k" in phases[soft:]  # V2: scores of a later partition
    steps = {"scores": range(len(frames) if mixed else soft), "weights": range(0 if mixed else soft, len(frames))}
    tables, pools, ways, pages = _memory(run, frames, name, colour)
    tips = _tips(run, name)
    bars = [_bars(column, columns, frames, [*own], tips) for column, own in steps.items()]
    o, span = columns["o"], float(np.abs(columns["o"]).max())
    output = Columns(
        part="O",
        title=[[f"O, head {head}: {len(o)} dims"]],
        notes=[],
        column="o",
        ranges=[(0, len(o))],
        scale=(min(0.0, float(o.min())), max(span / 1e6, float(o.max()))),
        name="dim",
        noun=": O =",
        colour="O",
        shown=[n for n, frame in enumerate(frames) if frame.get("written")],
    )
    legend = [(colour, f"pages of {name}"), ("dim", "another sequence"), ("K", "K"), ("V", "V")]
    return scene.view(
        "walk",
        "Walk",
        [[tables], [pools], [*pages, output], bars],
        columns,
        legend=[*legend, ("now", "the first load of a warp"), ("S", "score"), ("P", "weight")],
        ways=ways,
    )


def _bars(
    column: str,
    columns: Mapping[str, np.ndarray],
    frames: Sequence[Names],
    shown: list[int],
    tips: list[str],
) -> Columns:
    """The scores or the weights, a bar for each token from its step on."""
    finite, titles = columns[column][np.isfinite(columns[column])], []
    m_l: Names = {}
    for frame in frames:
        m_l = frame if frame.get("m") is not None else m_l
        known = {**m_l, "known": bool(m_l), "partitioned": frame["partition"] is not None}
        titles.append([WORDS.say(f"{key}{column}", known) for key in ("", "short_")])
    return Columns(
        part=column,
        title=titles,
        notes=[],
        column=column,
        since=f"since_{column}",
        ranges=[(0, len(tips))],
        scale=(min(0.0, float(finite.min())), max(1e-30, float(finite.max()))),
        framed=[(f["tokens"][0], f["tokens"][1] + 1) if "tokens" in f else () for f in frames],
        name="token",
        noun=f"\n{column[:-1]}",
        tips=tips,
        blanks=[f"\n{column[:-1]} not computed yet"] * len(tips),
        colour="S" if column == "scores" else "P",
        shown=shown,
        roomy=len(shown) == len(frames) and column == "scores",
    )


def _memory(
    run: Run, frames: Sequence[Names], name: str, colour: str
) -> tuple[Tables, Pages, list[list[tuple[Datum, Datum]]], list[Cells]]:
    """The block table, the pool, the arrows from an entry to its page and on, and the page in K and in V."""
    paged, lengths = Paged(run.request), paging.lengths(run)
    (sequence, head), size, count_of = paged.place, paged.block_size, axes.length(paged.k[1], "page")
    table, length, chunks = paging.pages_of(run, sequence), int(lengths[sequence]), paged.head_dim // paged.x
    fills = {page: min(size, length - entry * size) for entry, page in enumerate(table)}
    others: dict[int, int] = {}
    for n, tokens in enumerate(lengths):
        for entry, page in enumerate(paging.pages_of(run, n) if n != sequence else ()):
            others[page] = max(others.get(page, 0), min(size, int(tokens) - entry * size))
    tips = [f"entry {n} of {name}: page {page}" for n, page in enumerate(table)]
    seen, shown = set[int](), 0
    rows, pools, states, titles, steps = [], [], [], [], dict[str, list[int]](K=[], V=[])
    ways: list[list[tuple[Datum, Datum]]] = []
    last = "K"
    for n, frame in enumerate(frames):
        reads = "logical" in frame
        shown = frame["logical"] if reads else shown
        last = frame["role"].upper() if reads else last
        page, now = table[shown], [shown] if reads else []
        seen |= {shown}
        steps[last] += [] if frame.get("written") else [n]
        rows.append([Entries(name=name, colour=colour, pages=table, tips=tips, now=now, texts=[f"{length} tokens"])])
        pool = []
        for one in range(count_of):
            if one in fills:
                entry = table.index(one)
                own = colour if entry in seen else f"pale {colour}"
                fresh = (0, fills[one]) if reads and one == page else ()
                texts = ["shared"] if one in others else []
                made = Page(names=name, colours=[own], fill=fills[one], first=entry * size, fresh=fresh, texts=texts)
            else:
                tip = f"page {one} is not of {name}"
                made = Page(colours=["dim"], fill=others[one], tip=tip) if one in others else Page(tip=tip)
            pool.append(made)
        pools.append(pool)
        way: list[Datum] = [{"sequence": 0, "entry": shown, "page": page}, {"page": page}, {"part": last}]
        ways.append([(way[0], way[1]), (way[1], way[2])] if now else [])
        base = axes.byte_of(paged.k[1], page=page, kv_head=paged.kv_head_of(head))
        first = {(o - base) // 16 for o in frame.get("request", ()) if o is not None} if last == "K" else set[int]()
        there = "r" if reads else "p"
        states.append(
            "".join("l" if c in first else there if c % size < fills[page] else "." for c in range(chunks * size))
        )
        place = {"page": page, "base": base, "chunks": chunks, "size": size, "dims": paged.head_dim, "name": last}
        place["item"] = paged.k[1].itemsize
        titles.append([WORDS.say(key, place) for key in ("page_of", "short_page_of")])
    pages = [
        Cells(
            part=part,
            title=titles,
            columns=size,
            states=states,
            colours={".": "panel", "p": f"pale {part}", "r": part, "l": "now"},
            words={
                ".": "no token",
                "p": "not read now",
                "r": "read in this step",
                "l": "the first load of a warp",
            },
            axes=("piece of 16 bytes" if part == "K" else f"group of {paged.head_dim // chunks} dims", "slot"),
            shown=steps[part],
        )
        for part in ("K", "V")
    ]
    titles_of = [f"Block table of {name}: entry above, page below", f"Block table of {name}"]
    pool_title = [f"Pool: {count_of} pages of {size} slots", "Pool"]
    none: list[tuple[int, int]] = []
    panel = Pages(title=pool_title, size=size, steps=pools, copies=[none for _ in frames])
    return Tables(title=titles_of, steps=rows), panel, ways, pages


def _tips(run: Run, name: str) -> list[str]:
    """The addresses of each token of the sequence, in words."""
    paged, size = Paged(run.request), Paged(run.request).block_size
    sequence, head = paged.place
    table, kv_head = paging.pages_of(run, sequence), paged.kv_head_of(head)
    bases = [axes.byte_of(paged.k[1], page=page, kv_head=kv_head) for page in table]
    names = {"name": name, "size": size, "item": paged.k[1].itemsize, "dims": paged.head_dim, "kv_head": kv_head}
    names["chunks"] = paged.head_dim // paged.x
    tokens = range(int(paging.lengths(run)[sequence]))
    return ["\n".join(WORDS.parts("token", _address(names, bases, table, token))) for token in tokens]


def _address(names: Names, bases: Sequence[int], table: Sequence[int], token: int) -> Row:
    """The place of a token: its entry, slot and page, and its first two bytes of K and of V, a step apart."""
    entry, slot = divmod(token, names["size"])
    k, v = 16 * names["size"], names["item"] * names["size"]
    first, value = bases[entry] + 16 * slot, bases[entry] + names["item"] * slot
    place = {"token": token, "entry": entry, "slot": slot, "page": table[entry]}
    return {**names, **place, "k": [first, first + k], "v": [value, value + v]}


def stage_of(
    run: Run,
    name: str,
    colour: str,
    provenance: stage.Provenance,
    tabs: Sequence[stage.Tab] = (),
    live: tuple[int, str] | None = None,
    names: Sequence[str] = (),
) -> stage.Stage:
    """The whole stage of a run over one query head of one sequence.

    name, colour: the sequence.
    tabs: the tabs after the walk's.
    live: as in grid.view.
    names: of all sequences of the run.
    """
    steps = frames_of(run, name)
    frames = kv_cache.stage_frames(steps)
    whole = grid.view(run.request, live, names=names)
    whole.meta["shown"] = f"sequence {name}"
    return stage.of_request(
        run.request,
        frames,
        [
            picture(run, steps, name, colour),
            threads.view(run, [frame["moment"] for frame in steps]),
            whole,
        ],
        state=states(steps),
        tabs=[stage.Tab("layouts", "Why K is split by x", layouts_blocks(steps, run)), *tabs],
        provenance=provenance,
    )


def states(frames: Sequence[Names]) -> list[stage.State]:
    """The strip: entry, page and first byte of the step, the current m and l, and the bytes read so far."""
    table = [f"entry {f['logical']}" if "logical" in f else None for f in frames]
    base = [f"{f['base']:,} of {f['tensor']}" if "base" in f else None for f in frames]
    course: dict[str, list[float | None]] = {
        key: [*accumulate((f.get(key) for f in frames), lambda a, b: a if b is None else b)] for key in ("m", "l")
    }
    return [
        stage.State("block table", table),
        stage.State("names", [f"page {f['page']}" if "page" in f else None for f in frames]),
        stage.State("first byte", base),
        stage.State("max m", course["m"], colour="S"),
        stage.State("sum l", course["l"], colour="P"),
        stage.State("read so far", np.cumsum([f["read"] for f in frames]).tolist(), "B", colour="load"),
    ]


# ---- tabs ----


def layouts_blocks(frames: Sequence[Names], run: Run) -> list[stage.Block]:
    """The reason for the split of K by x: a table and its sentence."""
    table = layouts_table(frames, run)
    keys = {"lanes": "lanes", "lines": "128-byte lines", "bytes": "bytes per lane", "loads": "loads per 16 bytes"}
    here, by_token, whole = [{key: int(row[name]) for key, name in keys.items()} for _, row in table.iterrows()]
    text = WORDS.say("layouts", {"here": here, "by_token": by_token, "whole": whole})
    return [stage.text(text), stage.table(table, WORDS.say("layouts_rule", {}))]


def shuffle_blocks(plain: Run, shuffled: Run, names: Sequence[str], seed: int) -> list[stage.Block]:
    """The comparison of outputs, bit for bit, of the same tokens at other addresses."""
    table = shuffle_table(plain, shuffled, names)
    same = bool((table["equal bit for bit"] == "yes").all())
    return [
        stage.note(WORDS.say("shuffled", {"seed": seed, "same": same}), "good" if same else "bad"),
        stage.table(table),
    ]


def layouts_table(frames: Sequence[Names], run: Run) -> pd.DataFrame:
    """The cost of the walk's first K request, as logged and in other layouts of K.

    Columns: layout, loads per thread and 16 bytes, bytes per load, 128-byte lines, 32-byte sectors.
    Rule: a line is a byte offset / 128, a sector / 32. Each lane's token and piece give the offsets in other layouts.
    """
    frame = next(f for f in frames if f["phase"] == "walk_k")
    paged = Paged(run.request)
    size, x, item = paged.block_size, paged.x, paged.k[1].itemsize
    here = [offset - frame["base"] for offset in frame["request"] if offset is not None]
    pieces = [(offset // (x * item) // size, offset // (x * item) % size) for offset in here]  # (chunk, slot)
    as_rows = [(slot * paged.head_dim + chunk * x) * item for chunk, slot in pieces]
    as_columns = [((chunk * x) * size + slot) * item for chunk, slot in pieces]
    layouts = [
        ("[head_dim / x, block_size, x], as it is", 1, 16, here),
        ("[block_size, head_dim], token by token", 1, 16, as_rows),
        ("[head_dim, block_size], without the split by x", x, item, as_columns),
    ]
    return pd.DataFrame(
        [
            {
                "K page laid out as": name,
                "loads per 16 bytes": loads,
                "bytes per lane": width,
                "lanes": len(here),
                "128-byte lines": len({(frame["base"] + o) // model.LINE for o in offsets}),
                "32-byte sectors": len({(frame["base"] + o) // model.SECTOR for o in offsets}),
            }
            for name, loads, width, offsets in layouts
        ]
    )


def shuffle_table(plain: Run, shuffled: Run, names: Sequence[str]) -> pd.DataFrame:
    """For each sequence its pages in both runs, and whether the outputs are equal bit for bit."""
    output = Paged(plain.request).o[1].name
    rows: list[dict[str, object]] = []
    for n, name in enumerate(names):
        a, b = plain.arrays[output][n], shuffled.arrays[output][n]
        rows.append(
            {
                "sequence": name,
                "pages as allocated": " ".join(map(str, paging.pages_of(plain, n))),
                "pages shuffled": " ".join(map(str, paging.pages_of(shuffled, n))),
                "first numbers of O, head 0": ", ".join(f"{float(v):.5f}" for v in b[0, :3]),
                "largest difference of O": float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max()),
                "equal bit for bit": "yes" if np.array_equal(a, b) else "no",
            }
        )
    return pd.DataFrame(rows)
