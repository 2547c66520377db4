"""run: a kernel in a notebook or a script, with its outputs, its trace, its counts and its pictures."""

import html
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from kernels import catalog
from kernels.core.fields import write_value
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.tensors import Role
from kernels.errors import CannotRun
from kernels.run import counting, execute, options, results, workers
from kernels.run.plain import launches
from warpglass import difference

if TYPE_CHECKING:
    from warpglass.live import Live


def run(kernel: str, backend: str = "auto", **fields: object) -> "Run":
    """Runs a kernel once. Its trace covers the first item, such as the first tile of queries.

    kernel: a name of the catalogue, or the path of a .cu.
    backend: gpu, cpu, or auto for the GPU if this machine has one that can trace the kernel.
    fields: a field of the problem or a constant of the kernel -> its value.

    Raises ProblemError for an unknown name or value, CannotRun for a kernel that cannot run here, BackendUnavailable
    for a missing GPU or compiler, and RunError for a run that stopped.

    >>> import warpglass as wg
    >>> run = wg.run("03_flash", backend="cpu", seq_len=64)
    >>> run.outputs["o"].shape
    (1, 2, 64, 32)
    """
    spec, texts = catalog.find(kernel), [f"{name}={_text(value)}" for name, value in fields.items()]
    device = workers.survey().pick(backend, spec.plain)
    problem, settings = options.assignments(spec, texts, device.shared_bytes_per_block)
    request = Request(spec, problem, settings, Scope(), device.backend)
    execute.check_possible(request, device)
    job = workers.submit(execute.run, request, backend=device.backend, title=spec.name, time_limit=counting.TIME_LIMIT)
    return Run(job.result())


@dataclass(frozen=True, repr=False)
class Run:
    """What a run found. result: the run with its request, device, compiler, date, inputs and errors."""

    result: results.Run

    @property
    def outputs(self) -> dict[str, np.ndarray]:
        """The name of each output -> its array, in its own type.

        >>> import warpglass as wg
        >>> sorted(wg.run("03_flash", backend="cpu", seq_len=64).outputs)
        ['o']
        """
        tensors = self.result.request.plan.tensors
        return {one.name: self.result.arrays[one.name] for one in tensors if one.role is Role.OUTPUT}

    def frame(self) -> pd.DataFrame:
        """The trace: a row for each record, thread by thread, with the columns of kernels.trace.trace.Trace.

        >>> import warpglass as wg
        >>> trace = wg.run("03_flash", backend="cpu", seq_len=64).frame()
        >>> float(trace[trace.event == "m"].value.max()) > 0
        True
        """
        return self.result.trace.frame()

    @cached_property
    def _lines(self) -> pd.DataFrame:
        return counting.by_line(self.result.trace)

    def by_line(self) -> pd.DataFrame:
        """A row for each line with an access, with the columns of warpglass.counts.

        >>> import warpglass as wg
        >>> lines = wg.run("lab_columns", backend="cpu").by_line()
        >>> lines[lines.space == "shared"].conflicts.tolist()
        [0, 992]
        """
        return self._lines.copy()

    @property
    def counts(self) -> dict[str, int]:
        """The totals of by_line.

        requests: of warps.
        wavefronts, conflicts: of shared memory.
        sectors, bytes: of global memory. Only used bytes count.

        >>> import warpglass as wg
        >>> wg.run("lab_columns", backend="cpu").counts["conflicts"]
        992
        """
        named = self._lines.rename(columns={"bytes_used": "bytes"})
        return {name: int(named[name].sum()) for name in difference.COUNTS}

    def diff(self, other: "Run") -> pd.DataFrame:
        """The counts of two runs, next to each other, and their outputs.

        Columns:
            file, line: of an access in this run. line is missing for a line that only the other kernel has.
            other_line: its line in the other kernel. Lines of two versions of a file pair by their text.
            kind, space, tensor: of the access.
            count: a key of counts. Counts of 0 in both runs are left out.
            this, other, difference: both values, and other - this.
        A row of kind output has the largest absolute value of each run, and the largest absolute difference of two
        elements. It is NaN for a missing output, and for two shapes.

        >>> import warpglass as wg
        >>> one, two = (wg.run("lab_columns", backend="cpu", PAD=pad) for pad in (0, 1))
        >>> rows = one.diff(two)
        >>> rows[(rows["count"] == "conflicts") & (rows.difference != 0)].difference.tolist()
        [-992.0]
        """
        places = difference.in_this(self.result.request.kernel, other.result.request.kernel)
        counted = difference.of_lines(self._lines, other._lines, places)
        return pd.concat([counted, difference.of_outputs(self.outputs, other.outputs)], ignore_index=True)

    def story(self, path: str, step: int = 1, picture: str = "", **choices: object) -> "Story":
        """A page of the app that shows this run, step by step. Runs the kernel again, as the page does.

        path: of the page, such as online_softmax, tiling, bank_conflicts or any_kernel.
        step: from 1.
        picture: the name of one of the page's pictures, or "" for its first.
        choices: further choices of the page, such as at_query=5.

        Raises ProblemError for a page that cannot show this run, and for a wrong choice.

        >>> import warpglass as wg
        >>> wg.run("03_flash", backend="cpu", seq_len=64).story("online_softmax", step=3)
        One pass - Warpglass, step 3. Save it: .save("online_softmax.html")
        """
        if not find_spec("altair"):
            raise CannotRun("Pictures need the packages of the pages. Run: pip install 'warpglass[pages]'")
        from app import one_page

        words = {name: _text(value) for name, value in choices.items()} | {"step": str(step)}
        if picture:
            words["picture"] = picture
        return Story(one_page.of_request(path, self.result.request, words), path, step)

    def __repr__(self) -> str:
        request, found = self.result.request, self.result.max_abs_errors
        errors = [f"{name} is off by {error:.3g}" for name, error in found.items()]
        counted = [f"{value:,} {name}" for name, value in self.counts.items()]
        label = f"{self.result.provenance} on {self.result.device}"
        said = f"{request.kernel.name} at {request.problem.size}, {label}: {', '.join(errors) or 'no truth'}"
        return "\n".join([said, f"{request.plan.item} 1: {', '.join(counted)}", *launches.errors(self.result.faults)])


@dataclass(frozen=True, repr=False)
class Story:
    """A page that shows itself in Jupyter, marimo and VS Code. It steps without a server and asks for nothing.

    A viewer that removes frames, such as GitHub or a notebook that is not trusted, shows the step in words.
    html: the page, as one file."""

    html: str
    path: str
    step: int

    def save(self, path: str | Path) -> Path:
        """Writes the page as one HTML file. Raises OSError."""
        file = Path(path)
        file.write_text(self.html)
        return file

    def live(self) -> "Live":
        """The page as a widget: Python sets its step, and reads what the reader pins. See warpglass.live.Live.

        Raises CannotRun without anywidget."""
        if not find_spec("anywidget"):
            raise CannotRun("A live story needs anywidget. Run: pip install anywidget")
        from warpglass.live import Live

        return Live(html=self.html, step=self.step)

    def _repr_html_(self) -> str:
        from app.web.one_file import ROOT

        words = self.html.partition(ROOT)[2].partition("</main>")[0]
        # In one cell of a grid: the frame covers the words, and a viewer that removes it leaves no gap.
        place = "grid-area: 1 / 1; height: 720px; min-width: 0"
        return (
            f'<div style="display: grid"><div style="{place.replace("height", "max-height")}; overflow: hidden">{words}'
            "<p>This viewer shows no pictures that step. Run this cell, or trust the notebook, to see it.</p></div>"
            f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts" title="{self.path}"'
            f' style="{place}; width: 100%; border: 1px solid #8886"></iframe></div>'
        )

    def __repr__(self) -> str:
        title = self.html.partition("<title>")[2].partition("</title>")[0]
        return f'{html.unescape(title)}, step {self.step}. Save it: .save("{self.path}.html")'


def _text(value: object) -> str:
    """A value as --set and links take it."""
    if isinstance(value, list):
        value = tuple(tuple(row) if isinstance(row, list) else row for row in value)
    return write_value(value) if isinstance(value, (bool, tuple)) else str(value)
