"""Who holds what: the lanes and registers of A, B and C in each of the five products on mma.sync, with their numbers.

Rule for C and for an A from registers: the lane of the record. A lane has rows n / 4 and n / 4 + 8 of A and C, and a
    pair of neighbours in each.
Rule for an operand by ldmatrix: the content of the logged address. Lane n gets pair n % 4 of row n / 4. A transposed
    ldmatrix gives it rows 2 (n % 4) and the next, of column n / 4.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from explainers.stories.backward import parts
from explainers.stories.backward.parts import Product
from explainers.stories.tensor_cores import operand_memory
from explainers.story import axes, stage
from explainers.story.stage import Block
from kernels.core.dtypes import element_type
from kernels.core.request import Request
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.probes import sites_of

LANES = 32
SHOWN = (0, 1, 4)  # lanes: the first, its neighbour, and the first of the next row
TALL, WIDE = 16, 8  # rows and columns of C
FROM_MEMORY = "in shared memory, where the lanes of the earlier product stored it"
NOTHING = "nothing logged: hidden by the mask, or beyond the end"
Element = tuple[int, int, float]  # row, col, number
Held = dict[int, dict[int, list[Element]]]  # lane -> register -> its elements


def accepts(request: Request) -> bool:
    """Whether the kernel fetches operands by ldmatrix."""
    return any(site.event == "ldmatrix" for site in sites_of(request))


def blocks(run: Run, head: int) -> list[Block]:
    """The table of the first warp of the traced block. head: the query head, counted over the batch."""
    if not accepts(run.request):
        return [stage.note("This kernel has no ldmatrix, so its trace does not tell the holder of an operand.")]
    said = (
        "The first product of each kind, of the first warp, in lanes 0, 1 and 4. The operands are those of one "
        "instruction. C is logged after the whole sum. S is logged times the scale."
    )
    return [
        stage.heading("Who holds which element"),
        stage.text(
            "Q, K, dO and dS have two roles. As B of S, Q gives a lane neighbouring dims. As B of dK, it gives a lane "
            "neighbouring queries, so ldmatrix transposes it."
        ),
        stage.table(table(run, head), said),
    ]


def table(run: Run, head: int) -> pd.DataFrame:
    """A row for each product, operand and shown lane."""
    found, rows = _Warp(run, head), []
    for product in parts.PRODUCTS:
        a, b = found.sides(product)
        sides = {"A": (a, found.operand(product, a, 4)), "B": (b, found.operand(product, b, 2))}
        for letter, (part, held) in {**sides, "C": (product.made, found.sums(product.made))}.items():
            rows += [{"product": product.said, **row} for row in _rows(letter, part, held)]
    return pd.DataFrame(rows)


def _rows(letter: str, part: str, held: Held) -> list[dict[str, str]]:
    first = {"operand": f"{letter} = {part}"}
    if not held:
        return [{**first, "lane": "all", "registers": FROM_MEMORY}]
    told = {
        lane: "; ".join(f"{letter.lower()}{n}: {_told(part, of)}" for n, of in sorted(held.get(lane, {}).items()) if of)
        for lane in SHOWN
    }
    return [{**first, "lane": str(lane), "registers": text or NOTHING} for lane, text in told.items()]


def _told(part: str, elements: list[Element]) -> str:
    return ", ".join(f"{part}[{row}, {col}] = {value:.4g}" for row, col, value in sorted(elements))


class _Warp:
    """The records of the first warp with an ldmatrix."""

    def __init__(self, run: Run, head: int) -> None:
        self.run, self.head = run, head
        steps = cutting.cut(run.trace, run.sites)
        frame = run.trace.table.to_pandas(split_blocks=True)
        frame = frame.assign(step=steps.of_record, site=run.sites.index(run.trace.table), lane=frame.thread % LANES)
        frame = frame[frame.step >= 0]
        first = frame[frame.event == "ldmatrix"].iloc[0]
        of_block = frame[(frame.launch == first.launch) & (frame.block == first.block)]
        self.own = of_block[of_block.thread // LANES == first.thread // LANES]
        self.fetches = self._fetches(of_block, len(steps.table))

    def _fetches(self, of_block: pd.DataFrame, steps: int) -> dict[tuple[str, bool], np.ndarray]:
        """(part, transposed) -> its first ldmatrix: row and dim of each element, [matrices, 8, 8, 2]."""
        run, known = self.run, axes.tensors(self.run.request)
        symbols = {symbol: part for symbol, part in parts.symbols(run.request).items() if part in ("Q", "K", "V", "dO")}
        operands = {part: (symbol, known[symbol]) for symbol, part in symbols.items()}
        texts = {name: text.splitlines() for name, text in run.request.kernel.files}
        loads = {int(step): part for step, part in self.own[self.own.event == "ldmatrix"].groupby("step")}
        found: dict[tuple[str, bool], np.ndarray] = {}
        for step, now in operand_memory.contents(of_block, steps, operands):
            for number, records in loads[step].groupby("site") if step in loads else ():
                site = run.sites[int(number)]
                part, turned = symbols.get(site.tensor or "", ""), "trans" in texts[site.file][site.code_line - 1]
                if not part or (part, turned) in found:
                    continue
                first = records.sort_values("seq").groupby("lane").offset.first().to_numpy(np.int64)
                at = first[:, None] // operands[part][1].itemsize + np.arange(8)
                found[part, turned] = now[part][at].reshape(-1, 8, 8, 2)
        return found

    def sums(self, part: str) -> Held:
        """The elements of the first part of C."""
        return self._logged(part, WIDE, lambda x, y: 2 * (x // 8) + y % 2)

    def _logged(self, part: str, wide: int, register: Callable[[int, int], int]) -> Held:
        """The records of the first TALL rows and `wide` columns. register: of a row and column of the product."""
        row, col, value, lane = self._numbers(part)
        x, y = (col, row) if self._keys_down(part) else (row, col)
        made: Held = {}
        for n in np.flatnonzero((x - x.min() < TALL) & (y - y.min() < wide)):
            number = register(int(x[n] - x.min()), int(y[n] - y.min()))
            made.setdefault(int(lane[n]), {}).setdefault(number, []).append((int(row[n]), int(col[n]), float(value[n])))
        return made

    def _numbers(self, part: str) -> tuple[np.ndarray, ...]:
        """Row, column, number and lane of the part's records in its first step."""
        own = next(o for e, p in parts.EVENTS.items() if p == part and len(o := self.own[self.own.event == e]))
        own = own[own.step == own.step.min()]
        names = ("row", "col") if part in parts.SQUARES else ("col" if parts.along_keys(part) else "row", "dim")
        return (*(own[name].to_numpy(int) for name in names), own.value.to_numpy(), own.lane.to_numpy(int))

    def _keys_down(self, part: str) -> bool:
        """Whether a square's rows are keys in its product. Four neighbouring lanes have few rows and many columns."""
        if part not in parts.SQUARES:
            return False
        row, col, _, lane = self._numbers(part)
        rows, cols = (len(set(zip(lane // 4, axis))) for axis in (row, col))
        return cols < rows

    def sides(self, product: Product) -> tuple[str, str]:
        """A and B. A has the rows of C."""
        one, two = product.reads
        return (two, one) if self._keys_down(product.made) else (one, two)

    def operand(self, product: Product, part: str, matrices: int) -> Held:
        """The elements of an operand. It comes by ldmatrix, transposed unless the sum runs over dims. Or it stays in
        the registers of an earlier product. Empty for another operand from shared memory."""
        turned = product.made in parts.GRADIENTS
        if (part, turned) in self.fetches:
            return self._by_ldmatrix(part, turned, matrices)
        if not self._keys_down(part) or not parts.along_keys(product.made):
            return {}
        kind = element_type(parts.tensors(self.run.request)["Q"].dtype).numpy
        held = self._logged(part, TALL, lambda x, y: x // 8 + 2 * (y // 8))
        return {
            lane: {n: [(r, c, float(np.float32(v).astype(kind))) for r, c, v in of] for n, of in registers.items()}
            for lane, registers in held.items()
        }

    def _by_ldmatrix(self, part: str, turned: bool, matrices: int) -> Held:
        values, made = parts.values(self.run, part, self.head), Held()
        for lane in SHOWN:
            pairs = [(lane // 4, 2 * (lane % 4) + half) for half in (0, 1)]
            for i, matrix in enumerate(self.fetches[part, turned][:matrices]):
                at = [matrix[c, r] if turned else matrix[r, c] for r, c in pairs]
                made.setdefault(lane, {})[i] = [(int(r), int(d), float(values[r, d])) for r, d in at if r >= 0]
        return made
