"""Reads the products from a run's records and addresses."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from explainers.stories.tensor_cores.reader import Reader
from explainers.stories.tensor_cores.tensor_products import (
    FORWARD,
    GROUP,
    LANES,
    MOST,
    K,
    Matrix,
    Product,
    Products,
    of_whole_tiles,
)
from explainers.story import axes, picture
from explainers.story.glossary import count
from kernels.core.dtypes import element_type
from kernels.errors import ProblemError
from kernels.run.results import Run


class FragmentReader(Reader):
    """Reads a run's trace."""

    FETCHED = ("Q", "K", "V")

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.records = self.frame[self.frame.block == self.frame.block.min()]
        symbols = {place: symbol for symbol, place in self.places.items()}
        known = axes.tensors(self.request)
        self.tensors = {place: known[symbols[place]] for place in "QKV"}

    def read(self, unit: int, key_tile: int) -> Products:
        self.choose(unit)
        head, _, _ = picture.query_rows(self.request)
        self.matrices = self._matrices(self.own, head)
        self._owners(self.own)
        every = [*(self._by_group(self.own) if self.by_group else self._by_warp())]
        tiles = sorted({p.tile for p in every})
        if key_tile and key_tile not in tiles:
            raise ProblemError(
                f"key_tile is {key_tile}. This query tile has {count(len(tiles), 'key tile')}, counted from 0."
            )
        shown = of_whole_tiles(every, [tile for tile in tiles if tile >= key_tile])[:MOST]
        walk = sorted({p.tile for p in shown})
        before, after = self._outputs(self.own, walk)
        self._window(shown)
        return Products(
            products=shown,
            fetches=self.fetches,
            kinds=FORWARD,
            matrices=self.matrices,
            before={"O": before},
            after={"O": after},
            walks="key",
            tiles=walk or [0],
            scale=self.scale,
            sum_bits=self.request.value_of("sum_bits") or 32,
            instruction="wgmma" if self.by_group else "mma.sync",
            unit=unit,
            left_out=len(every) - len(shown),
            queries=axes.length(self.tensors["Q"], "query"),
            keys=axes.length(self.tensors["K"], "key"),
            head=head,
        )

    # ---- the matrices ----

    def _matrices(self, own: pd.DataFrame, head: int) -> dict[str, Matrix]:
        """Q, K, V, P, S and O of the rows of this warp or warpgroup."""
        scores = own[own.event == "score"]
        if scores.empty:
            raise ProblemError(
                "This warp computes no score, because its rows are beyond the last query. Choose another warp."
            )
        rows = 64 if self.by_group else 16
        row0 = int(scores.row.min())
        row0 -= (row0 - picture.query_rows(self.request)[1]) % rows
        end = int(scores.row.max()) + 1
        q, k, v = (picture.matrix(self.run, place, head) for place in "QKV")
        found = {
            "Q": Matrix.of(row0, 0, q[row0:end]),
            "K": Matrix.of(0, 0, k),
            "V": Matrix.of(0, 0, v),
        }
        nothing = np.full((end - row0, len(k)), np.nan, np.float32)
        for name, event in (("S", "score"), ("P", "p")):
            part = own[own.event == event]
            values = nothing.copy()
            values[part.row.astype(int) - row0, part.col.astype(int)] = part.value
            found[name] = Matrix.of(row0, 0, values)
        kind = element_type(picture.tensor_at(self.request, "Q").dtype)
        with np.errstate(over="ignore"):
            found["P"].value = found["P"].value.astype(kind.numpy).astype(np.float32)
        found["O"] = Matrix.of(row0, 0, np.full((end - row0, v.shape[1]), np.nan))
        return found

    def _owners(self, own: pd.DataFrame) -> None:
        """The owner of each element of S, P and O: the lane of its record.

        Rule for the register: a lane has two rows of each sixteen, and the lower row comes first. Of two neighbouring
            columns the left one comes first. After that, A's words go by eights of columns. A warpgroup's C goes by
            eights of columns before that.
        """
        for name, event, col in (("S", "score", "col"), ("P", "p", "col"), ("O", "o", "dim")):
            part = own[own.event == event].drop_duplicates(["row", col])
            matrix = self.matrices[name]
            row, column = part.row.to_numpy(int), part[col].to_numpy(int)
            lane = part.thread.to_numpy() % (GROUP if self.by_group else LANES)
            lower = (row - matrix.row0) % 16 // 8
            if name == "P":
                matrix.set(row, column, lane=lane, register=lower + 2 * (column % 16 // 8), half=column % 2)
                continue
            eights = (column - self._tile_begin(column)) // 8 if self.by_group and name == "S" else column // 8
            register = 2 * lower + column % 2 + (4 * eights if self.by_group else 0)
            matrix.set(row, column, lane=lane, register=register)

    def _tile_begin(self, column: np.ndarray) -> np.ndarray:
        size = picture.block_kv(self.request, len(self.matrices["K"].value))
        return column // size * size

    def _outputs(self, own: pd.DataFrame, tiles: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """O of these key tiles before the first product and after the last: [tiles, rows, dims] each. Before the first
        product, O is the O of the last tile times the rescale factor."""
        o = self.matrices["O"]
        after = np.full((len(tiles) + 1, *o.value.shape), np.nan, np.float32)  # of the tile before the first one, too
        factor = np.ones((len(tiles), o.value.shape[0], 1), np.float32)
        outputs = own[own.event == "o"]
        place = {tile: n for n, tile in enumerate([(tiles or [0])[0] - 1, *tiles])}
        outputs = outputs[outputs.tile.isin(list(place))]
        at = outputs.tile.map(place).to_numpy(int)
        after[at, outputs.row.to_numpy(int) - o.row0, outputs.dim.to_numpy(int)] = outputs.value
        scaled = own[(own.event == "rescale") & own.tile.isin(tiles)]
        factor[scaled.tile.map(place).to_numpy(int) - 1, scaled.row.to_numpy(int) - o.row0, 0] = scaled.value
        before = after[:-1].copy()
        if tiles and tiles[0] == 0:
            before[0] = 0
        with np.errstate(invalid="ignore", over="ignore"):
            before = np.where(np.isnan(before) & (factor == 0), 0, before) * factor
        return before.astype(np.float32), after[1:]

    def _window(self, shown: Sequence[Product]) -> None:
        """Cuts K, V, S and P to the shown keys."""
        keys = [p.cols if p.c == "S" else p.k for p in shown]
        low, high = min((k[0] for k in keys), default=0), max((k[1] for k in keys), default=0)
        for name in "KVSP":
            m, along = self.matrices[name], (slice(low, high), slice(None))
            part = along if name in "KV" else along[::-1]
            kept = {key: a[part] for key, a in m.attributes.items()}
            start = (low, 0) if name in "KV" else (m.row0, low)
            self.matrices[name] = Matrix(*start, m.value[part], kept)

    # ---- mma.sync ----

    def _by_warp(self) -> Iterator[Product]:
        """The products of a warp, with operands by ldmatrix. One with K or V needs two of the matrices of 8 x 8."""
        tile_of, step = self.steps.table.tile.to_numpy(), -1
        a: dict[tuple[int, int], tuple[int, str]] = {}  # first row and first k of a fetch of Q -> its number and line
        for fetch in self.fetched():
            if fetch.step != step:
                a, step = {}, fetch.step
            place, site, tile = fetch.part, fetch.site, int(tile_of[step])
            if place not in self.tensors:
                continue
            corners = self.note(place, fetch, "A" if place == "Q" else "B")
            placed = [corner for corner in corners if corner]
            if placed and place == "Q":
                top = min(row for row, _ in placed)
                top -= (top - self.matrices["Q"].row0) % 16
                a[top, min(dim for _, dim in placed)] = fetch.number, site.place
                continue
            for pair in range(0, len(corners), 2):
                pieces = [corner for corner in corners[pair : pair + 2] if corner]
                if not pieces:
                    continue
                row, dim = min(r for r, _ in pieces), min(d for _, d in pieces)
                lines = tuple(dict.fromkeys([site.place, *self.multiplied(site, r"mma[<(]", pair // 2)]))
                if place == "K":
                    for (top, k), (number, where) in a.items():
                        if k == dim:
                            span = (top, top + 16), (row, row + 8), (k, k + K)
                            yield Product("S", tile, *span, (where, *lines), number, fetch.number)
                    continue
                p = self.matrices["P"]
                for top in range(p.row0, p.row0 + len(p.value), 16):
                    span = (top, top + 16), (dim, dim + 8), (row, row + K)
                    yield Product("O", tile, *span, lines, b=fetch.number)

    # ---- wgmma ----

    def _by_group(self, own: pd.DataFrame) -> Iterator[Product]:
        """The products of a warpgroup. The tensor cores fetch their operands from shared memory."""
        asked = own[own.event == "product"].sort_values(["step", "seq"])
        steps = {int(step): part for step, part in asked.groupby("step")}
        row0, seen = self.matrices["S"].row0, set()
        for step, now in self.moments():
            for record in steps[step].itertuples() if step in steps else ():
                site = self.sites[int(record.site)]
                place = self.places.get(site.tensor or "", "")
                if place not in ("K", "V"):
                    continue
                item = self.tensors[place].itemsize
                first, n = int(record.offset) // item, int(record.bytes) // item
                region = np.arange(first, min(first + n, len(now[place])))
                lies = now[place][region]
                known = lies[:, 0] >= 0
                if (place, record.tile) in seen or not known.any():
                    continue  # a copy for a query tile after the last one: no product reads it
                seen.add((place, record.tile))
                self.matrices[place].set(lies[known, 0], lies[known, 1], byte=region[known] * item)
                start, dims = int(lies[known, 0].min()), self.matrices[place].value.shape[1]
                keys, tile = n // dims, int(record.tile)
                if place == "K":
                    at = np.arange(len(now["Q"]))
                    mapped = now["Q"][:, 0] >= 0
                    self.matrices["Q"].set(now["Q"][mapped, 0], now["Q"][mapped, 1], byte=at[mapped] * item)
                    for k in range(0, dims, K):
                        yield Product("S", tile, (row0, row0 + 64), (start, start + keys), (k, k + K), (site.place,))
                else:
                    for k in range(start, start + keys, K):
                        yield Product("O", tile, (row0, row0 + 64), (0, dims), (k, k + K), (site.place,))
