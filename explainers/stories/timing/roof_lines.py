"""The roofs of the roofline: measured ones, and the peaks of datasheets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from explainers.stories.timing.chart_layers import Roofs
from explainers.story.glossary import short
from kernels.measure.bench_rows import arithmetic_roofs
from kernels.measure.datasheets import Peaks

Sheets = Mapping[str, Peaks]  # a GPU's name -> its datasheet
COLUMNS = ("intensity", "tflops", "roof", "said", "named", "datasheet")


@dataclass(frozen=True)
class Roof:
    """A roof: the slope of the memory, then a flat line.

    name: the key of its line.
    flat_text, slope_text: the text of its flat part and of its slope.
    gb_per_s, tflops: the rates of both parts.
    datasheet: whether a datasheet states it.
    """

    name: str
    flat_text: str
    slope_text: str
    gb_per_s: float
    tflops: float
    datasheet: bool

    def corners(self, low: float, high: float) -> pd.DataFrame:
        """Returns its corners between two intensities, by COLUMNS. The last one has the name of its part."""
        knee = min(max(1000 * self.tflops / self.gb_per_s, low), high)
        intensities = sorted({low, knee, high})
        rates = [min(intensity * self.gb_per_s / 1000, self.tflops) for intensity in intensities]
        corners = pd.DataFrame({"intensity": intensities, "tflops": rates})
        name = self.flat_text if rates[-1] == self.tflops else self.slope_text
        names = [None] * (len(rates) - 1) + [name]
        return corners.assign(roof=self.name, said=self.flat_text, named=names, datasheet=self.datasheet)


def roof_corners(low: float, high: float, roofs: Roofs, sheets: Sheets, used: Mapping[str, int]) -> pd.DataFrame:
    """Returns the corners of each measured roof and of each datasheet between two intensities, by COLUMNS.

    used: the arithmetic with a drawn roof, title -> 16-bit products for a multiply-add.
    """
    found = [*_measured(roofs, used), *_stated(sheets, used)]
    if not found:
        return pd.DataFrame(columns=list(COLUMNS))
    return pd.concat([roof.corners(low, high) for roof in found], ignore_index=True)[list(COLUMNS)]


def _measured(roofs: Roofs, used: Mapping[str, int]) -> Iterator[Roof]:
    for source, rates in roofs.items():
        where = f", {source}" if len(roofs) > 1 else ""
        copy = rates["copy_gb_per_s"]
        for title, tflops in arithmetic_roofs(rates).items():
            if title in used or not used:
                flat = f"{title}: {short(tflops)} TFLOP/s{where}"
                slope = f"copy: {copy:,.0f} GB/s{where}"
                yield Roof(f"{title}, {source}", flat, slope, copy, tflops, datasheet=False)


def _stated(sheets: Sheets, used: Mapping[str, int]) -> Iterator[Roof]:
    for device, peaks in sheets.items():
        where = f", {device}" if len(sheets) > 1 else ""
        slope = f"datasheet, {peaks.memory}: {peaks.tb_per_s:g} TB/s{where}"
        for products in used.values():
            if products:
                arithmetic = "fp16 or bf16" if products == 1 else f"fp16 / {products}"
                tflops = peaks.half_tflops / products
                flat = f"datasheet, {arithmetic}: {tflops:,.0f} TFLOP/s{where}"
                yield Roof(flat, flat, slope, 1000 * peaks.tb_per_s, tflops, datasheet=True)
