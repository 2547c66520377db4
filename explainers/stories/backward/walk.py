"""The steps of a block of the backward as rows: its tiles, their products, and the gradients after each step.

Everything comes from the trace. The tile in work is the rectangle of the logged scores, or the rows that the block
read last.
"""

from typing import Any, NamedTuple

from explainers.models import gradients
from explainers.stories.backward import records
from explainers.stories.backward.records import Lines, Logged, Moved, Tile
from explainers.story.glossary import phase_title
from explainers.story.words import Row
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.steps import StepRow, Steps


class Launch(NamedTuple):
    """A launch as its sentences need it.

    stays, moves: "keys" and "queries" if each block keeps its keys, else the other way round.
    sums: its gradients that grow on the chip. Empty if it computes none.
    earlier: the number of an earlier launch that computed P, or 0.
    ended: the phases whose products end in a later step.
    weights: the place of P and dS.
    """

    stays: str
    moves: str
    sums: list[str]
    earlier: int
    ended: frozenset[str]
    weights: str


class Walk(NamedTuple):
    """The steps of the traced blocks: a row for the opening, and rows of Walker.

    head: the first query head of the group, counted over the batch.
    """

    steps: list[Row]
    head: int


def walk(run: Run) -> Walk:
    """The Walk of the run's traced blocks."""
    steps = cutting.cut(run.trace, run.sites)
    logged, touched = records.values(run, steps), records.touched(run, steps)
    lit = cutting.lit_lines(run.trace, steps, run.sites)
    walker = Walker(run, steps, logged)
    for number, step in _in_order(list(steps.table.itertuples()), touched):
        walker.add(step, logged.get(number, {}), touched.get(number, {}), lit[number])
    _note_ends(walker.rows)
    _count(walker.rows, gradients.tensors(run.request)["Q"].itemsize)
    heads = (touch.head for moved in touched.values() for (part, _), touch in moved.items() if part == "Q")
    group = gradients.group_of(run.request)
    rows = [*_opening(walker.rows), *joined(walker.rows)]
    for row in rows:
        row["moved"] = [f"{t['kind']} {t['part']} {t['rows'][0]} to {t['rows'][1]}{t['label']}" for t in row["touched"]]
    return Walk(rows, min(heads, default=0) // group * group)


def _launches(run: Run, steps: Steps, logged: dict[int, Logged]) -> list[Launch]:
    places = records.places(run)
    found, weights = list[Launch](), 0  # the last launch that computed P
    for number, launch in enumerate(run.request.plan.launches):
        own = [(n, str(step.phase)) for n, step in enumerate(steps.table.itertuples()) if step.launch == number]
        made = {part for n, _ in own for part in logged.get(n, {})}
        made |= {gradients.MARKS[phase] for _, phase in own if phase in gradients.MARKS}
        stays, moves = ("keys", "queries") if gradients.is_of_keys(launch.item) else ("queries", "keys")
        grown = made if made & {"P", "dS"} else set()  # else they are finished sums
        sums = [
            part for part in gradients.GRADIENTS if part in grown and gradients.along_keys(part) == (stays == "keys")
        ]
        ended = frozenset(phase for _, phase in own if phase.endswith("_done"))
        found.append(Launch(stays, moves, sums, weights, ended, places[number][2]))
        if "P" in made:
            weights = number + 1
    return found


def _in_order(table: list[StepRow], touched: dict[int, Moved]) -> list[tuple[int, StepRow]]:
    """The steps with their numbers. A product S before any read of Q comes after the first one of its block."""
    found, early = list[tuple[int, StepRow]](), list[tuple[int, StepRow]]()
    loaded = set[tuple[int, int]]()
    for number, step in enumerate(table):
        where = step.launch, step.block
        loads = ("Q", "load") in touched.get(number, {})
        if gradients.MARKS.get(step.phase) == "S" and where not in loaded and not loads:
            early.append((number, step))
            continue
        found.append((number, step))
        if loads:
            loaded.add(where)
            found, early = [*found, *early], []
    return [*found, *early]


def _note_ends(rows: list[Row]) -> None:
    """Notes of a product S before the first tile of a block that it is the first, and after the last one that nothing
    reads it."""
    for number, row in enumerate(rows):
        if row["made"] == ["S"] and row["tile"] < 0:
            own = [n for n, r in enumerate(rows) if (r["launch"], r["block"]) == (row["launch"], row["block"])]
            weights = [n for n in own if "P" in rows[n]["made"]]
            row["unread"] = not any(n > number for n in weights)
            row["first"] = not row["unread"] and not any(n < number for n in weights)


def _count(rows: list[Row], item: int) -> None:
    """Notes the products and the bytes of P that the traced blocks have made so far. item: bytes of a number."""
    products = weights = 0
    for row in rows:
        fresh = set() if row["unread"] else set(row["made"])
        products += len({product.made for product in gradients.PRODUCTS} & fresh)
        weights += row["state"]["P"].numbers.size * item if "P" in fresh else 0
        row |= {"products": products, "weights_made": weights}


def _opening(rows: list[Row]) -> list[Row]:
    """A row with the numbers of the first tile. An empty list for a kernel that computes no P or dS."""
    first = next((row for row in rows if "P" in row["made"] and row["queries"] and row["keys"]), None)
    if first is None or not any("dS" in row["made"] for row in rows):
        return []
    tiles: dict[str, Tile] = {}  # the first of each part
    for row in rows:
        tiles = {**row["state"], **tiles}
    spans = {True: first["keys"], False: first["queries"]}
    whole = {
        "tile": -1,
        "phase": "",
        "made": [part for part in gradients.ORDER if part != "delta"],
        "done": list(gradients.SQUARES),
        "holds": [*gradients.WHOLE[:5], "LSE", "delta"],
        "state": {part: tile for part, tile in tiles.items() if tile.rows == spans[gradients.along_keys(part)]},
        "whole": True,
    }
    nothing = {"touched": [], "bytes": {}, "lines": {}, "ready": "", "flying": [], "products": 0, "weights_made": 0}
    return [first | whole | nothing]


def joined(rows: list[Row]) -> list[Row]:
    """The rows, with one row in place of all of a later tile of a launch, as its rows repeat the first tile."""
    found, first = list[Row](), dict[tuple[int, int], object]()
    for row in rows:
        block = row["launch"], row["block"]
        work = row["head"], row["queries"], row["keys"]
        if "P" in row["made"]:
            first.setdefault(block, work)
        repeats = (row["made"] or row["tile"] >= 0) and not row["unread"] and block in first
        if not repeats or work == first[block]:
            found.append(row)
        elif found[-1]["again"] == (*block, *work):
            found[-1] = _both(found[-1], row)
        else:
            found.append(_both(row, row) | {"again": (*block, *work), "tile": max(row["tile"], 0)})
    return found


def _both(before: Row, row: Row) -> Row:
    """Two rows as one. A tensor's touched rows come once."""
    same = before is row
    made = sorted({*before["made"], *row["made"]}, key=gradients.ORDER.index)
    touched = [*before["touched"], *(t for t in row["touched"] if t not in before["touched"])]
    lines = {at: before["lines"].get(at, 0) + row["lines"].get(at, 0) for at in {**before["lines"], **row["lines"]}}
    kept = {"tile": row["tile"] if row["made"] and row["tile"] >= 0 else before["tile"], "again": before["again"]}
    more = {"made": made, "touched": touched, "lines": row["lines"] if same else lines, "ready": "", "together": []}
    return row | kept | more


class Walker:
    """Makes the rows of one step of the kernel after another.

    A step that makes several parts has a row for each, in the order of the formula. P has the row of S.

    rows: in order. Each has
        launch, block, role, phase, tile, lines: of the kernel's step.
        head: the query head in work, from 0 among the heads that share K and V.
        made: the parts that the step computes, in the order of the formula. done: those of the tile in work so far.
        holds: the tensors that the block has read so far.
        queries, keys: first and last of the tile in work, or None.
        touched: part, kind, rows and label of each read (load) and write (store) of global memory.
        state: part -> its Tile. A gradient grows from row to row.
        ready: the part that the step waits for. flying: the parts whose products have started, and no step has waited
            for them yet.
        bytes: "Q load" -> bytes of global memory so far.
        whole: whether it is the opening. again: the tile in work of a joined row, else ().
        unread, first, and what only the words need.
    """

    def __init__(self, run: Run, steps: Steps, logged: dict[int, Logged]) -> None:
        request = run.request
        self.run, self.code, self.launches = run, Lines(run), _launches(run, steps, logged)
        self.names, self.group = gradients.launches(request), gradients.group_of(request)
        self.adds, self.any_order = gradients.adds(request), gradients.any_order(request)
        self.logged = {part for tiles in logged.values() for part in tiles}
        self.shown = set[str]()  # the parts with a tile so far
        self.rows = list[Row]()
        self.bytes = dict[str, int]()
        self.where, self.tile, self.head = (-1, -1), (-1, -1), 0
        self._reset()

    def _reset(self) -> None:
        """Forgets the block before."""
        self.queries: list[int] | None = None
        self.keys: list[int] | None = None
        self.holds, self.done, self.early = list[str](), list[str](), list[str]()  # early: of the next tile
        self.loaded: dict[int, list[tuple[int, list[int]]]] = {}  # tile -> its heads and queries, in order
        self.state: Logged = {}
        self.flying = list[str]()  # in the order of their products' starts

    def add(self, step: StepRow, logged: Logged, moved: Moved, lines: dict[str, int]) -> None:
        """Adds the rows of a step. Neighbouring steps of delta share a row."""
        here = step.launch, step.block
        if list(logged) == ["delta"] and self.rows and self.rows[-1]["made"] == ["delta"] and self.where == here:
            self._widen(moved, lines)
            return
        made = self._made(step, logged)
        self._advance(step, made, logged, moved)
        self._start_or_end(step)
        groups = [["S", "P"], *([part] for part in made[2:])] if made[:2] == ["S", "P"] else [[part] for part in made]
        groups = groups or [[]]
        for number, made in enumerate(groups):
            own = {key: touch for key, touch in moved.items() if _group_of(key, groups) == number}
            for (part, kind), touch in own.items():
                self.bytes = {**self.bytes, f"{part} {kind}": self.bytes.get(f"{part} {kind}", 0) + touch.bytes}
            self._show({part: logged[part] for part in made if part in logged and part != "delta"})
            self._finish(own)
            if made != self.early:
                self.done = [*self.done, *(part for part in made if part not in self.done)]
            shown = lines if len(groups) < 2 else self.code.of_frame(made, lines, groups)
            together = [part for group in groups for part in group] if len(groups) > 1 else []
            self.rows.append(self._row(step, made, own, shown, together))

    def _show(self, tiles: Logged) -> None:
        self.state, self.shown = {**self.state, **tiles}, {*self.shown, *tiles}

    def _made(self, step: StepRow, logged: Logged) -> list[str]:
        """The parts made in a step: those it logs, and the part of its mark, if the kernel never logs that part. A
        gradient counts only with its tile of P or dS. Else it is a finished sum."""
        marked = gradients.MARKS.get(step.phase, "")
        found = [*logged, *([marked] if marked and marked not in self.logged else [])]
        known = {*self.done, *found}
        needs = {product.made: set(product.reads) & {"P", "dS"} for product in gradients.PRODUCTS}
        return sorted((part for part in found if needs.get(part, set()) <= known), key=gradients.ORDER.index)

    def _advance(self, step: StepRow, made: list[str], logged: Logged, moved: Moved) -> None:
        """Moves the block on by a step. A role that only loads, or a prefetch, is ahead of the tile in work, so its
        loads change nothing but `holds`."""
        if self.where != (step.launch, step.block):
            self.where, self.tile = (step.launch, step.block), (-1, -1)
            self._reset()
        loads = {part: touch for (part, kind), touch in moved.items() if kind == "load"}
        ahead = (bool(step.role) or step.phase.startswith("prefetch")) and not made
        tile = int(step.tile)
        for part in ("Q", "dO"):
            if part in loads and (rows := loads[part].rows) and (one := (loads[part].head % self.group, rows)):
                waiting = self.loaded.setdefault(tile, [])
                waiting += [one] if one not in waiting[-1:] else []
            if part in loads and not (ahead and self.queries):
                self.head, self.queries = loads[part].head % self.group, loads[part].rows
        for part in ("K", "V"):
            if part in loads and not (ahead and self.keys):
                self.keys = loads[part].rows
        self.holds = [*self.holds, *(part for part in loads if part not in self.holds)]
        again = tile == self.tile[0] and bool(set(made) & set(self.done))  # the same tile of another head
        if step.role and made and tile < 0:  # a product of the next tile, before this one is done
            self.early = made
        else:
            if not ahead and (tile != self.tile[0] or again) and self.loaded.get(tile):
                self.head, self.queries = self.loaded[tile].pop(0)
            if not ahead and (tile, self.head) != self.tile:
                self.tile, self.done, self.early = (tile, self.head), self.early, []
                kept = [part for part in gradients.GRADIENTS if not (self.adds and part == "dQ")]
                self.state = {part: at for part, at in self.state.items() if part in kept}
        for part in gradients.SQUARES:
            if part in logged:
                self.queries, self.keys = logged[part].rows, logged[part].cols

    def _start_or_end(self, step: StepRow) -> None:
        """Adds the part of a started product, or removes an ended one. Products end in their order, so all that started
        before it have ended too."""
        ended, phase = self.launches[step.launch].ended, step.phase
        part = gradients.MARKS.get(phase.removesuffix("_done"), "")
        if phase in ended and part in self.flying:
            self.flying = self.flying[self.flying.index(part) + 1 :]
        elif f"{phase}_done" in ended and part:
            self.flying = [*self.flying, part]

    def _finish(self, moved: Moved) -> None:
        """Shows the rows that a launch writes of sums of other blocks."""
        touch = moved.get(("dQ", "store"))
        if touch and touch.rows and self.adds and not self.launches[self.where[0]].sums and "dQ" in self.shown:
            first, last = self.queries = touch.rows
            numbers = gradients.values(self.run, "dQ", touch.head)[first : last + 1]
            self._show({"dQ": Tile(first, 0, numbers)})

    def _widen(self, moved: Moved, lines: dict[str, int]) -> None:
        """Adds the rows of a step to the row before, and their bytes and lines."""
        row = self.rows[-1]
        row["lines"] = {at: row["lines"].get(at, 0) + lines.get(at, 0) for at in {**row["lines"], **lines}}
        for (part, kind), touch in moved.items():
            key = f"{part} {kind}"
            self.bytes = {**self.bytes, key: self.bytes.get(key, 0) + touch.bytes}
            for one in row["touched"]:
                if touch.rows and (one["part"], one["kind"]) == (part, kind):
                    one["rows"] = [min(one["rows"][0], touch.rows[0]), max(one["rows"][1], touch.rows[1])]
        row["bytes"] = self.bytes
        self.queries = row["queries"] = next((one["rows"] for one in row["touched"]), None)

    def _row(self, step: StepRow, made: list[str], moved: Moved, lines: dict[str, int], together: list[str]) -> Row:
        """together: all parts of the kernel's step, if it has several rows."""
        launch, touched = self.launches[step.launch], list[dict[str, Any]]()
        for (part, kind), touch in moved.items():
            if rows := touch.rows or (self.keys if gradients.along_keys(part) else self.queries):
                touched.append({"part": part, "kind": kind, "rows": rows, "label": ""})
        if step.phase == "add" and self.adds and self.queries and ("dQ", "store") not in moved:
            label = " (derived: no probe logs this add)"
            touched.append({"part": "dQ", "kind": "store", "rows": self.queries, "label": label})
        reads, writes = ([part for part, own in moved if own == kind] for kind in ("load", "store"))
        along = "keys" if reads and gradients.along_keys(reads[0]) else "queries"
        return launch._asdict() | {
            **{"tile": int(step.tile), "phase": step.phase, "launch": int(step.launch), "block": int(step.block)},
            **{"role": step.role, "lines": lines or self.code.of_wait(step)},
            **{"head": self.head, "made": made, "done": self.done, "holds": self.holds, "state": self.state},
            **{"queries": self.queries, "keys": self.keys, "touched": touched, "bytes": self.bytes},
            "ready": gradients.MARKS.get(step.phase[: -len("_done")], "") if step.phase.endswith("_done") else "",
            **{"flying": self.flying, "whole": False, "again": (), "unread": False, "first": False},
            "part": "S and P" if made[:2] == ["S", "P"] else made[-1] if made else "",
            "begins": gradients.MARKS.get(step.phase, ""),
            "starts": bool(made) and f"{step.phase}_done" in launch.ended,
            "phase_title": phase_title(step.phase),
            **{"reads": reads, "writes": writes, "together": together},
            "scaled": [part for part in writes if part not in ("dK", "dQ")]
            + [f"{part} times scale" for part in writes if part in ("dK", "dQ")],
            "results": set(writes) <= set(gradients.GRADIENTS),
            "kept": along == launch.stays,
            "early": bool(step.role) or step.phase.startswith("prefetch"),
            **{"adds": self.adds, "any_order": self.any_order, "launch_name": self.names[step.launch]},
            "one": {"queries": "query", "keys": "key"}[launch.moves],
        }


def _group_of(key: tuple[str, str], groups: list[list[str]]) -> int:
    """The row of a step with a read or write: a gradient is written in its own, delta is read in that of dS, all else
    in the first."""
    part, kind = key
    if kind == "load":
        return next((number for number, made in enumerate(groups) if part == "delta" and "dS" in made), 0)
    return next((number for number, made in enumerate(groups) if part in made), len(groups) - 1)
