"""Reasons for a difference in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from explainers.stories.compare.build_needs import Figures, Rates
from explainers.story.glossary import microseconds, short

SIDES = "AB"


@dataclass(frozen=True)
class ReasonWords:
    """Each reason in words."""

    figures: Sequence[Figures]
    rates: Rates
    times_us: Sequence[float]

    def brief(self, kind: str, least: tuple[float, float] | None) -> str:
        """Returns a reason in one line. least: microseconds of each side for this need only."""
        names = {
            "wavefronts": ("Shared memory", [f"{_count(f.wavefronts)} wavefronts" for f in self.figures]),
            "bytes": ("Global memory", [_bytes(f.global_bytes) for f in self.figures]),
            "arithmetic": ("Arithmetic", [name for name, _ in self.rates.arithmetic]),
            "multiprocessors": ("SMs at work", [f"{100 * f.busy(self.rates):.0f} %" for f in self.figures]),
            "warps": ("Warps on the GPU at once", [_count(f.warps(self.rates)) for f in self.figures]),
            "launches": ("Launches", [str(f.launches) for f in self.figures]),
        }
        title, (a, b) = names[kind]
        alone = f": at least {microseconds(least[0])} and {microseconds(least[1])} (modelled)" if least else ""
        return f"{title}: A {a}, B {b}{alone}."

    def full(self, kind: str, least: tuple[float, float] | None) -> str:
        """Returns a reason in full. least: microseconds of each side for this need only."""
        timed = {"wavefronts": self._wavefronts, "bytes": self._bytes, "arithmetic": self._arithmetic}
        others = {"multiprocessors": self._multiprocessors, "warps": self._warps, "launches": self._launches}
        return timed[kind](*least) if least else others[kind]()

    def _at_least(self, a: float, b: float, where: str) -> str:
        each = [f"{microseconds(us)} of {s}'s {microseconds(t)}" for us, t, s in zip((a, b), self.times_us, SIDES)]
        return f"{where} it takes at least {each[0]} and {each[1]} (modelled)."

    def _multiprocessors(self) -> str:
        of = self.rates.multiprocessors
        each = [f"{s}'s {f.blocks:,} blocks keep {100 * f.busy(self.rates):.0f} %" for s, f in zip(SIDES, self.figures)]
        longer = [short(1 / f.busy(self.rates), 3) for f in self.figures]
        return (
            f"SMs: {each[0]} of {of} at work, {each[1]}, over all waves of the grid. So the work of an SM "
            f"takes {longer[0]} and {longer[1]} times the least times above."
        )

    def _wavefronts(self, a: float, b: float) -> str:
        each = [f"{side} needs {_wavefronts_text(figures)}" for side, figures in zip(SIDES, self.figures)]
        rate = f"At {short(self.rates.shared / 1e12, 3)} TB/s"
        return f"Shared memory: {each[0]}, {each[1]}. {self._at_least(a, b, rate)}"

    def _bytes(self, a: float, b: float) -> str:
        each = [
            f"{s} moves {_bytes(f.global_bytes)} ({_each(f.multiply_adds, f.fetched, 'element fetched')})"
            for s, f in zip(SIDES, self.figures)
        ]
        rate = f"At {short(self.rates.l2 / 1e12, 3)} TB/s from L2"
        return f"Global memory: {each[0]}, {each[1]}. {self._at_least(a, b, rate)}"

    def _arithmetic(self, a: float, b: float) -> str:
        each = [
            f"{s} multiplies with {name} (roof {short(rate / 1e12, 3)} TFLOP/s)"
            for s, (name, rate) in zip(SIDES, self.rates.arithmetic)
        ]
        return f"Arithmetic: {each[0]}, {each[1]}. {self._at_least(a, b, 'At its roof')}"

    def _warps(self) -> str:
        full = [100 * f.held * f.threads / 32 / self.rates.warps for f in self.figures]
        each = [
            f"{s} has {_count(f.warps(self.rates))} warps on the GPU at once ({f.blocks:,} blocks of {f.threads} "
            f"threads, an SM holds {f.held}, {percent:.0f} % of its warps, limited by "
            f"{f.limited_by})"
            for s, f, percent in zip(SIDES, self.figures, full)
        ]
        return f"Warps at work: {each[0]}, {each[1]}. While one waits for memory another can compute."

    def _launches(self) -> str:
        each = [f"{s} makes {f.launches}" for s, f in zip(SIDES, self.figures)]
        return f"Launches: {each[0]}, {each[1]}. Each begins when the one before has ended."


def _wavefronts_text(figures: Figures) -> str:
    if not figures.wavefronts:
        return "no wavefront"
    each = _each(figures.multiply_adds, figures.wavefronts)
    if figures.conflicts:
        each += f", {100 * figures.conflicts / figures.wavefronts:.0f} % bank conflicts"
    return f"{_count(figures.wavefronts)} wavefronts ({each})"


def _count(n: float) -> str:
    if n < 1e7:
        return f"{n:,.0f}"
    return f"{n / 1e6:,.0f} million" if n < 1e10 else f"{n / 1e9:,.1f} billion"


def _bytes(n: float) -> str:
    if n < 1e7:
        return f"{n:,.0f} bytes"
    return f"{n / 1e6:,.0f} MB" if n < 1e10 else f"{n / 1e9:,.1f} GB"


def _each(products: float, n: float, noun: str = "wavefront") -> str:
    return f"{_plain(products / n)} multiply-adds for each {noun}" if n else f"no {noun}"


def _plain(n: float) -> str:
    return f"{n:,.0f}" if n >= 100 else short(n, 3)
