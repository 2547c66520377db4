"""The block table story: a KV cache after each event, and one query head's walk through its block table, page by page, from the loads
that the kernel's probes logged."""

from dataclasses import dataclass

import altair as alt
import numpy as np
import pandas as pd

from explainers import steps as cutting
from explainers.glossary import PHASES, count
from explainers.palette import AXIS, OKABE_ITO
from kernels.scenarios import write_event

SEQUENCE_COLOURS = tuple(OKABE_ITO[name] for name in ("orange", "sky", "green", "purple", "vermillion", "blue", "yellow"))
LINE_BYTES, SECTOR_BYTES = 128, 32


# ---- the cache, event by event ----


def cache_frames(states, max_len):
    """One dict per state of `scenarios.Scenario.states`, for the browser: the pool, the tables, what the event did, in a sentence."""
    colours = sequence_colours(states)
    return [_cache_frame(number, cache, change, states[number - 1][0] if number else cache, max_len, colours) for number, (cache, change) in enumerate(states)]


def identity(sequence):
    """What tells a sequence from a later one of the same name."""
    return sequence.name, sequence.tokens[0], sequence.family


def sequence_colours(states):
    """identity -> colour, for every sequence of these states, in the order in which they come."""
    seen = dict.fromkeys(identity(sequence) for cache, _ in states for sequence in cache.sequences)
    return {key: SEQUENCE_COLOURS[number % len(SEQUENCE_COLOURS)] for number, key in enumerate(seen)}


def _cache_frame(number, cache, change, before, max_len, colours):
    size, counts = cache.block_size, cache.ref_counts
    sequences = [{"name": s.name, "length": len(s.tokens), "table": s.table, "colour": colours[identity(s)]} for s in cache.sequences]
    pages = {}
    for n, s in enumerate(cache.sequences):
        for entry, page in enumerate(s.table):
            held = pages.setdefault(page, {"fill": 0, "owners": [], "entry": entry})
            held["owners"].append(n)
            held["fill"] = max(held["fill"], min(size, len(s.tokens) - entry * size))
    return {"tile": number, "title": "Empty cache" if change is None else f"Event {number}: {write_event(change.event)}"[:34],
            "event": "" if change is None else write_event(change.event), "sentence": cache_sentence(cache, change, before), "sequences": sequences,
            "pages": pages, "free": cache.free, "counts": counts, "new": [slot for _, slot in change.written] if change else [],
            "copied": change.copied if change else None, "released": change.released if change else (), "usage": cache.usage(max_len)}


def cache_sentence(cache, change, before):
    """What the event did, with its numbers."""
    if change is None:
        return f"The pool has {cache.num_blocks} pages of {cache.block_size} slots, all free. A slot holds the key and value of one token."
    event, size = change.event, cache.block_size
    if event.action == "fork":
        last = before.find(event.parent)
        counts = cache.ref_counts
        return (f"{event.name} is forked from {event.parent}: its block table is a copy, {count(len(last.table), 'entry', 'entries')}, and no key or value is "
                f"copied. The reference count of {_pages(last.table)} is now {_range([counts[page] for page in last.table])}.")
    if event.action == "free":
        kept = [page for page in before.find(event.name).table if page not in change.released]
        said = [f"{event.name} is freed."]
        if change.released:
            said.append(f"{_pages(change.released).capitalize()} {'goes' if len(change.released) == 1 else 'go'} to the end of the free list.")
        if kept:
            said.append(f"{_pages(kept).capitalize()} {'stays: other sequences hold it' if len(kept) == 1 else 'stay: other sequences hold them'}.")
        return " ".join(said)
    length = len(cache.find(event.name).tokens)
    said = [f"{event.name} {'starts with' if event.action == 'add' else 'grows by'} {count(event.tokens, 'token')}"
            + ("" if event.action == "add" else f" to {length}") + "."]
    if change.copied:
        source, target = change.copied
        said.append(f"Page {source} is shared by {before.ref_counts[source]} sequences, so it is first copied to page {target}, and {event.name}'s entry "
                    f"{change.allocated[0][0]} becomes {target}: copy on write.")
    fresh = change.allocated[1 if change.copied else 0:]
    taken = sum(slot // size in {page for _, page in fresh} for _, slot in change.written)
    if event.tokens - taken and not change.copied:
        fits = "fits" if event.tokens - taken == 1 else "fit"
        said.append(f"{count(event.tokens - taken, 'token')} {fits} in the slots left of page {change.written[0][1] // size}.")
    if fresh:
        one = len(fresh) == 1
        entries = f"entry {fresh[0][0]}" if one else f"entries {fresh[0][0]} to {fresh[-1][0]}"
        said.append(f"{_pages([page for _, page in fresh]).capitalize()} {'is' if one else 'are'} taken from the free list and "
                    f"{'becomes' if one else 'become'} {entries} of {event.name}'s block table.")
    return " ".join(said)


def usage_table(states, max_len):
    """event, kind, slots, after each event: what tokens use, what paging holds, what max_len contiguous slots per sequence would hold."""
    rows = []
    for number, (cache, _) in enumerate(states):
        usage = cache.usage(max_len)
        rows += [(number, "used", usage["used"]), (number, "in pages", usage["held"]), (number, "contiguous", usage["reserved"])]
    return pd.DataFrame(rows, columns=["event", "kind", "slots"])


def usage_chart(table, clock_selector):
    """Slots after each event; the rule follows the clock."""
    kinds = ["used", "in pages", "contiguous"]
    step = alt.param(name="step", value=0, bind=alt.BindDirect(element=clock_selector, event="input"))
    line = alt.Chart(table).mark_line(interpolate="step-after", strokeWidth=2.5).encode(
        x=alt.X("event:Q", title="event", axis=alt.Axis(tickMinStep=1, format="d", grid=False),
                scale=alt.Scale(domain=[0, max(1, int(table.event.max()))], nice=False)),
        y=alt.Y("slots:Q", title="slots"), tooltip=["kind:N", "event:Q", "slots:Q"],
        color=alt.Color("kind:N", title=None, sort=kinds, legend=alt.Legend(orient="top", columns=3),
                        scale=alt.Scale(domain=kinds, range=[OKABE_ITO[c] for c in ("green", "blue", "vermillion")])),
        strokeDash=alt.StrokeDash("kind:N", title=None, sort=kinds, scale=alt.Scale(domain=kinds, range=[[1, 0], [6, 3], [2, 2]])))
    now = alt.Chart(pd.DataFrame({"rule": [0]})).mark_rule(color=AXIS, strokeWidth=1.5).encode(x=alt.XDatum(alt.ExprRef("toNumber(step)"), type="quantitative"))
    return (line + now).add_params(step).properties(height=230)


def usage_sentence(cache, max_len):
    """The waste of both ways, in a sentence with its numbers."""
    usage = cache.usage(max_len)
    if not usage["held"]:
        return "Nothing is held yet."
    share, other = usage["slack"] / usage["held"], usage["empty"] / usage["reserved"]
    copies = f" It would also store {count(usage['copies'], 'token')} again that pages share." if usage["copies"] > 0 else ""
    return (f"Pages hold {usage['held']} slots for {usage['used']} tokens: {usage['slack']} slots of slack in last pages, {share:.0%}. Reserving "
            f"{max_len} contiguous slots for each of {count(len(cache.sequences), 'sequence')} would hold {usage['reserved']}, {usage['empty']} of them "
            f"empty, {other:.0%}.{copies}")


# ---- the walk ----


@dataclass(frozen=True)
class Walk:
    """frames: one dict per step, for the browser; a walk step is one page by one warp. scores, weights: float32 [context length] as
    logged (weights before the division by l). o: [head_size] of the output. head: the query head; kv_head: the one that it reads."""

    frames: list[dict]
    scores: np.ndarray
    weights: np.ndarray
    o: np.ndarray
    sequence: int
    head: int
    kv_head: int


def walk(run, name):
    """The Walk of a Run whose scope is one query head of one sequence; `name` is what the sequence is called."""
    request = run.request
    problem, launches = request.problem, request.plan.launches
    sequence, head = divmod(request.scope.first, problem.num_heads)
    cut = cutting.cut(run.trace, request.sites)
    frame = run.trace.frame()
    frame = frame.assign(step=cut.of_record, event=frame.event.astype(str), tensor=frame.tensor.astype(str), space=frame.space.astype(str))
    code_line = {line: site.code_line for line, site in request.sites.items() if site.kind != "mark"}
    frame = frame.assign(code=frame.line.map(code_line))
    story = _WalkFrames(problem, run.arrays["block_tables"], sequence, head, name, launches[0].blocks_per_item)
    for number, part in frame[frame.step >= 0].groupby("step"):
        story.add(cut.table.loc[number], part)
    values = frame[frame.value.notna()]
    length = problem.context_lens[sequence]
    scores, weights = (np.full(length, np.nan, np.float32) for _ in range(2))
    for event, array in (("score", scores), ("p", weights)):
        logged = values[values.event == event]
        array[logged.token.astype(int)] = logged.value
    return Walk(story.frames, scores, weights, np.asarray(run.arrays["o"][sequence, head], np.float32), sequence, head, head // problem.group)


class _WalkFrames:
    """Builds the frames of a walk, step by step."""

    def __init__(self, problem, tables, sequence, head, name, partitions):
        self.problem, self.tables, self.sequence, self.head, self.name, self.partitions = problem, tables, sequence, head, name, partitions
        self.length, self.frames, self.group = problem.context_lens[sequence], [], -1
        self.pages = -(-self.length // problem.block_size)

    def add(self, step, part):
        phase = step.phase
        if phase in ("walk_k", "walk_v"):
            for warp, mine in part.groupby("warp"):
                if (mine.tensor == "block_tables").any():
                    self._page(step, mine, int(warp))
        elif not (phase == "load_q" and not (part.tensor == "Q").any()):  # a block whose partition has no tokens leaves at once
            getattr(self, f"_{phase}")(step, part)

    def _frame(self, step, part, sentence, **more):
        self.frames.append({
            "tile": self._group(step), "title": self._title(step, more), "block": int(step.block), "phase": step.phase,
            "sentence": sentence[0].upper() + sentence[1:],
            "lines": {int(line): int(count) for line, count in part.code.dropna().value_counts().items()}, **more})

    def _group(self, step):
        """The number of this run of equal phases: what Shift+Left and Shift+Right go by."""
        last = self.frames[-1] if self.frames else None
        return 0 if last is None else last["tile"] + ((last["phase"], last["block"]) != (step.phase, int(step.block)))

    def _title(self, step, more):
        where = f"Partition {step.block % self.partitions} · " if self.partitions > 1 and step.launch == 0 else ""
        return where + PHASES[step.phase] + (f" · page {more['logical'] + 1} of {self.pages}" if "logical" in more else "")

    def _in_partition(self, step):
        return f"Partition {step.block % self.partitions}: " if self.partitions > 1 else ""

    def _load_q(self, step, part):
        q = part[(part.tensor == "Q") & (part.space == "global")]
        self._frame(step, part, f"{self._in_partition(step)}the block of query head {self.head} of {self.name} reads the context length, {self.length}, and "
                    f"its query: {count(len(q), 'number')}, {q.bytes.sum():,.0f} bytes. {self.name}'s tokens lie in {count(self.pages, 'page')}.")

    def _page(self, step, part, warp):
        entry = part[part.tensor == "block_tables"].iloc[0]
        tensor = "K" if step.phase == "walk_k" else "V"
        loads = part[(part.tensor == tensor) & (part.event == "load") & (part.space == "global")]
        logical, page = int(entry.logical), int(self.tables.flat[int(entry.offset) // 4])
        base = self.problem.layout.page_offset(page, self.head // self.problem.group)
        scores = part[part.event == "score"]
        first = logical * self.problem.block_size
        tokens = [first, min(first + self.problem.block_size, self.length) - 1]
        where = (f"{self._in_partition(step)}warp {warp} reads entry {logical} of {self.name}'s block table (byte {int(entry.offset):,}): {page}. So tokens "
                 f"{tokens[0]} to {tokens[1]} lie in page {page}; KV head {self.head // self.problem.group} of it begins at byte {base:,} of {tensor}. ")
        size = f"{loads.bytes.sum():,.0f} bytes of {tensor} from byte {int(loads.offset.min()):,} on"
        if step.phase == "walk_k":
            best = scores.loc[scores.value.idxmax()]
            did = f"It reads {size}, and the largest of {count(len(scores), 'score')} is {best.value:.4g}, at token {int(best.token)}."
        else:
            did = f"It reads {size}, and adds each value times its weight to the output."
        self._frame(step, part, where + did, logical=logical, page=page, entry_offset=int(entry.offset), base=base, warp=warp, tokens=tokens, tensor=tensor,
                    request=_first_request(loads), low=int(loads.offset.min()), bytes=int(loads.bytes.sum()))

    def _softmax(self, step, part):
        values = part[part.value.notna()].set_index("event").value
        m, l, tokens = float(values["m"]), float(values["l"]), part[part.event == "p"].token
        self._frame(step, part, f"{self._in_partition(step)}the largest of {count(len(tokens), 'score')} is m = {m:.4g}; their weights e^(score - m) "
                    f"add up to l = {l:.4g}.", tokens=[int(tokens.min()), int(tokens.max())], m=m, l=l)

    def _write_part(self, step, part):
        stores = part[(part.event == "store") & (part.space == "global")]
        self._frame(step, part, f"{self._in_partition(step)}its m, its l and {count(self.problem.head_size, 'sum')}, not yet divided by l, go to global "
                    f"memory: {stores.bytes.sum():,.0f} bytes.")

    def _combine(self, step, part):
        values = part[part.value.notna()]
        m, l = (values[values.event == name].value.iloc[0] for name in ("m_all", "l_all"))
        weights = values[values.event == "weight"].sort_values("partition").value
        factors = ", ".join(f"{w:.3g}" for w in weights[:6]) + (" ..." if len(weights) > 6 else "")
        self._frame(step, part, f"The second kernel combines {count(len(weights), 'partition')}: m = max m_i = {m:.4g}; each is rescaled by e^(m_i - m): "
                    f"{factors}; l = sum l_i e^(m_i - m) = {l:.4g}.", m=float(m), l=float(l))

    def _write(self, step, part):
        stores = part[(part.tensor == "O") & (part.event == "store") & (part.space == "global")]
        first = part[part.event == "o"].sort_values("dim").value.iloc[0]
        self._frame(step, part, f"The sums over l are the output: {count(len(stores), 'number')} go to O, bytes {int(stores.offset.min()):,} to "
                    f"{int((stores.offset + stores.bytes).max()) - 1:,}; the first is {first:.4g}.", written=True)


def _first_request(loads):
    """Byte offset by lane (None: idle) of the warp's first load instruction."""
    first = loads.sort_values("seq").groupby("lane").first()
    line = first.line.mode().iloc[0] if len(first) else -1
    offsets = first[first.line == line].offset.astype(int)
    return [int(offsets[lane]) if lane in offsets.index else None for lane in range(32)]


def layouts_table(walk_story, problem):
    """layout, loads per thread and 16 bytes, bytes per load, 128-byte lines, 32-byte sectors: the walk's first K request as it was made, and
    what the same lanes would touch were K laid out otherwise.

    Rule: a line is a byte offset / 128, a sector / 32; the other layouts' offsets follow from each lane's token and piece.
    """
    frame = next(f for f in walk_story.frames if f["phase"] == "walk_k")
    size, x = problem.block_size, problem.layout.x
    item, here = 16 // x, [offset - frame["base"] for offset in frame["request"] if offset is not None]
    pieces = [(offset // 16 // size, offset // 16 % size) for offset in here]  # (chunk, slot)
    as_rows = [(slot * problem.head_size + chunk * x) * item for chunk, slot in pieces]
    as_columns = [((chunk * x) * size + slot) * item for chunk, slot in pieces]
    rows = [("[head_size / x, block_size, x], as it is", 1, 16, here), ("[block_size, head_size], token by token", 1, 16, as_rows),
            ("[head_size, block_size], without the split by x", x, item, as_columns)]
    return pd.DataFrame([{"K page laid out as": name, "loads per 16 bytes": loads, "bytes per lane": width, "lanes": len(here),
                          "128-byte lines": len({(frame["base"] + o) // LINE_BYTES for o in offsets}),
                          "32-byte sectors": len({(frame["base"] + o) // SECTOR_BYTES for o in offsets})} for name, loads, width, offsets in rows])


def layouts_sentence(table):
    """What the table says, in a sentence with its numbers."""
    here, rows, columns = (table.iloc[n] for n in range(3))
    return (f"One load instruction of the first warp: {here['lanes']} lanes, 16 bytes each, {16 * here['lanes']} bytes. Split by x, neighbouring lanes "
            f"(neighbouring tokens) read neighbouring 16 bytes: {here['128-byte lines']} lines of 128 bytes. Token by token the same bytes would lie in "
            f"{rows['128-byte lines']} lines. Without the split a lane would read {columns['bytes per lane']} bytes at a time and need "
            f"{columns['loads per 16 bytes']} loads for what it now gets in one.")


def shuffle_table(plain, shuffled, names):
    """sequence, entries as allocated and shuffled, and whether the outputs are equal bit for bit: from two Runs over the same tokens."""
    rows = []
    for n, name in enumerate(names):
        a, b = plain.arrays["o"][n], shuffled.arrays["o"][n]
        rows.append({"sequence": name, "pages as allocated": _list(plain.request.problem.block_tables[n]),
                     "pages shuffled": _list(shuffled.request.problem.block_tables[n]),
                     "first numbers of O, head 0": ", ".join(f"{v:.5f}" for v in b[0, :3]),
                     "largest difference of O": float(np.abs(a.astype(np.float64) - b).max()),
                     "equal bit for bit": "yes" if np.array_equal(a, b) else "no"})
    return pd.DataFrame(rows)


def addresses_table(run, limit=64):
    """token, slot, page, first K byte, K pieces, first V byte, V numbers: what reshape_and_cache stored, from its logged stores."""
    frame = run.trace.frame("event", "tensor", "space", "token", "offset")
    stores = frame[(frame.event == "store") & (frame.space == "global")]
    slots, size, rows = run.request.problem.slots, run.request.problem.block_size, []
    for token, part in stores.groupby("token"):
        if len(rows) == limit:
            break
        k, v = (part[part.tensor == name].offset for name in "KV")
        slot = slots[int(token)]
        rows.append({"token": int(token), "slot": slot, "page": slot // size, "slot in page": slot % size, "first K byte": int(k.min()),
                     "K stores of 16 bytes": len(k), "first V byte": int(v.min()), "V stores of one number": len(v)})
    return pd.DataFrame(rows)


def _list(numbers):
    return " ".join(map(str, numbers))


def _pages(pages):
    """"page 3", "pages 4, 7 to 9": runs of neighbours are drawn together."""
    runs = []
    for page in pages:
        if runs and runs[-1][1] + 1 == page:
            runs[-1][1] = page
        else:
            runs.append([page, page])
    said = [str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a} to {b}" for a, b in runs]
    return f"page{'' if len(pages) == 1 else 's'} {', '.join(said)}"


def _range(numbers):
    return str(min(numbers)) if min(numbers) == max(numbers) else f"{min(numbers)} to {max(numbers)}"
