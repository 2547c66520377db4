"""Runs as they go: the host's calls and the kernels on one axis of time, from Python and from C++."""

from dataclasses import dataclass

from explainers.stories.launches import bars as drawn
from explainers.stories.launches.bars import inside, us
from explainers.stories.launches.frames import Bar, Gap, LaunchFrame, Panel
from explainers.stories.launches.host_code import host_code
from kernels.measure.launch_times import LaunchTimes, names

HOST, STREAM = 0, 1  # rows


@dataclass(frozen=True)
class FreeRun:
    """The median run as it goes, from one host.

    kernels, calls: in order. A graph has one call.
    """

    made: LaunchTimes
    cpp: bool
    kernels: list[Bar]
    calls: list[Bar]

    @property
    def host(self) -> str:
        """The host's language."""
        return "C++" if self.cpp else "Python"

    @property
    def way(self) -> str:
        """The title of the kernel, inside a sentence."""
        return inside(self.made.request.kernel.title)

    @property
    def total(self) -> float:
        """ns from the start of the first call to the end of the last kernel."""
        return max(bar["end"] for bar in self.kernels)

    @property
    def busy(self) -> float:
        """ns with a kernel."""
        return sum(bar["end"] - bar["start"] for bar in self.kernels)

    @property
    def called(self) -> float:
        """ns from the start of the first call to the end of the last one."""
        return self.calls[-1]["end"]

    def waits_for_call(self, place: int) -> bool:
        """Whether the call of a kernel ends only after the end of the kernel before it."""
        return self.calls[place]["end"] > self.kernels[place - 1]["end"]

    @property
    def stalls(self) -> bool:
        """Whether the GPU waits for a call between two kernels."""
        return any(self.waits_for_call(n) for n in range(1, len(self.calls)))

    @property
    def panel(self) -> Panel:
        """The run in the picture."""
        return {
            "scene": 0,
            "title": f"{self.made.request.kernel.title}, from {self.host}",
            "said": f"{us(self.total)}, the GPU works {us(self.busy)}",
            "rows": ["host", "GPU"],
            "lanes": [1, 1],
            "bars": [*self.kernels, *self.calls],
            "gaps": [self._gap(n) for n in range(1, len(self.kernels))],
        }

    def _gap(self, place: int) -> Gap:
        """The gap before a kernel."""
        before, own, calls = self.kernels[place - 1], self.kernels[place], len(self.calls) > 1
        return {
            "row": STREAM,
            "start": before["end"],
            "end": own["start"],
            "before": place - 1,
            "after": place,
            "since": "end",
            "late": self.calls[place]["end"] if calls and self.waits_for_call(place) else 0.0,
        }


def runs_of(pair: list[LaunchTimes]) -> list[FreeRun]:
    """The runs as they go: both ways from Python, then from C++ if a compiler was there. Else none: a graph changes the
    host's calls, and another way of launching changes the GPU's work."""
    if len(pair) < 2 or not pair[-1].request.plan.graph or any(made.free.empty for made in pair):
        return []
    hosts = [cpp for cpp in (False, True) if all((made.free.cpp == cpp).any() for made in pair)]
    return [_run(made, cpp) for cpp in hosts for made in pair]


def _run(made: LaunchTimes, cpp: bool) -> FreeRun:
    table, named = made.as_it_goes(cpp), [name for name, _ in names(made.request)]
    kernels, calls = table[~table.call], table[table.call]
    called = ["graph"] if made.request.plan.graph else named
    return FreeRun(
        made,
        cpp,
        [
            drawn.bar(name, one.start_ns, one.end_ns, entry=name, row=STREAM)
            for name, one in zip(named, kernels.itertuples())
        ],
        [drawn.bar(name, one.start_ns, one.end_ns, row=HOST) for name, one in zip(called, calls.itertuples())],
    )


def frames_of(runs: list[FreeRun]) -> list[LaunchFrame]:
    """A step for each kernel of the first run, and one for each other run."""
    if not runs:
        return []
    first, places = runs[0], range(len(runs[0].kernels))
    frames = [_frame(runs, 0, place, _kernel(first, place)) for place in places]
    sentences = [_graph(runs[0], runs[1]), *([_cpp(runs[0], runs[2]), _saved(runs[2], runs[3])] if runs[2:] else [])]
    return [*frames, *(_frame(runs, p, -1, said) for p, said in enumerate(sentences, 1))]


def _frame(runs: list[FreeRun], panel: int, kernel: int, sentence: str) -> LaunchFrame:
    """The step of a kernel, or of the first call."""
    run = runs[panel]
    place = kernel if kernel >= 0 else len(run.kernels)
    shown = run.kernels[kernel] if kernel >= 0 else run.calls[0]
    calls = host_code(run.made.request)
    steps = [kernel] if kernel >= 0 else range(len(run.kernels))
    lines = calls.last if run.made.request.plan.graph else {at: 1 for step in steps for at in calls.lit(step)}
    return {
        "tile": -1,
        "title": f"{shown['name']}, from {run.host}" if kernel >= 0 else run.panel["title"],
        "sentence": sentence,
        "lines": lines,
        "scene": 0,
        "panel": panel,
        "bar": place,
        "at": shown["start"],
    }


def _kernel(run: FreeRun, place: int) -> str:
    """The start of a kernel of a stream, and the reason for its wait."""
    name, call, start = run.kernels[place]["name"], run.calls[place], run.kernels[place]["start"]
    if not place:
        took, later = us(call["end"]), us(abs(start - call["end"]))
        when = "after" if start >= call["end"] else "before"
        later += f" (±{us(run.made.clocks_apart_ns)})" if run.made.clocks_apart_ns else ""
        return f"{run.host}'s call of {name} takes {took}. The GPU starts {name} {later} {when} the end of this call."
    before, ended = run.kernels[place - 1]["name"], us(run.kernels[place - 1]["end"])
    if not run.waits_for_call(place):
        return f"The call of {name} ends before {before} does. So the host is no reason for the gap before {name}."
    early = f"{before[0].upper()}{before[1:]} ends at {ended}"
    return f"{early}, but {run.host}'s call of {name} ends at {us(call['end'])}. So the GPU waits."


def _graph(stream: FreeRun, graph: FreeRun) -> str:
    said = f"One call of {us(graph.called)} launches all {len(graph.kernels)} kernels, in their recorded order."
    return f"{said} Between them, the GPU {'no longer' if stream.stalls else 'never'} waits for {graph.host}."


def _cpp(python: FreeRun, cpp: FreeRun) -> str:
    each, other = (us(run.called / len(run.calls)) for run in (cpp, python))
    so = "The GPU still waits for some." if cpp.stalls else "So the GPU waits for no call." if python.stalls else ""
    return f"From C++, a call takes {each} on average, and from Python through CuPy {other}. {so}".rstrip()


def _saved(stream: FreeRun, graph: FreeRun) -> str:
    """The gain of a graph from C++, and the number of runs that pay for its making."""
    saved, costs = stream.total - graph.total, graph.made.graph
    if saved <= 0 or not costs:
        return f"From C++, the graph takes {us(graph.total)} and one stream {us(stream.total)}."
    once = costs["capture_ns"] + costs["instantiate_ns"]
    return (
        f"From C++, the graph saves {us(saved)} of {us(stream.total)}. "
        f"Capture and instantiation take {us(once)} once, so it pays after {-int(-once // saved)} runs."
    )


def summary(runs: list[FreeRun]) -> str:
    """What the graph changes, and why: it saves calls, and C++ makes faster ones."""
    stream, graph, *cpp = runs
    if not stream.stalls:
        return (
            "These kernels hide Python's calls, so the GPU waits for no call between them. "
            f"{stream.made.request.kernel.title} takes {us(stream.total)}, and {graph.way} {us(graph.total)}."
        )
    said = (
        f"From Python, {len(stream.calls)} launches take {us(stream.total)}, because the GPU waits for slow calls. "
        f"{graph.made.request.kernel.title} is a single call: {us(graph.total)}. "
    )
    if cpp:
        other = f"{us(cpp[1].total)} in place of {us(cpp[0].total)}"
        less = cpp[0].total - cpp[1].total < stream.total - graph.total
        said += f"C++ calls {'are faster, so the graph saves less' if less else 'take'}: {other}. "
    return f"{said}A graph helps most where calls outlast kernels."


def costs(made: LaunchTimes) -> list[str]:
    """The making of a graph, and the precision of the two clocks, for a tab."""
    said = []
    if made.graph:
        once, then = (us(made.graph[name]) for name in ("capture_ns", "instantiate_ns"))
        said.append(
            f"{made.request.kernel.title}, from C++: the capture takes {once} and the instantiation {then}. "
            f"An update to another capture takes {us(made.graph['update_ns'])} more than that capture."
        )
    if made.clocks_ns:
        said.append(
            f"{made.request.kernel.name}: the host's times are within {us(made.clocks_apart_ns)} of the GPU's clock. "
            "A kernel answers the host through pinned memory, and the shortest round trip counts. The C++ host calls "
            f"the driver's cuLaunchKernel and cuGraphLaunch. The host's processor: {made.processor or 'unknown'}."
        )
    elif not made.free.empty:
        said.append("A host with a C++ compiler also measures the calls from C++.")
    return said
