"""The host's calls of a run in CUDA C++, written from its plan: launches, copies, events, and the graph.

The app itself makes these calls from Python, through CuPy.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from explainers.story import stage
from explainers.story.frames import Lines
from explainers.story.stage import File
from kernels.core.launch import Launch, Plan
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.streams import Step, copied_bytes, steps

Argument = tuple[str, str]  # the type of a number, else "", and the text
TYPES = {"int32": "int", "int64": "long long", "float32": "float"}
WIDE = 44  # letters of a line
EARLY = "cudaLaunchAttributeProgrammaticStreamSerialization"
ALLOWED = "programmaticStreamSerializationAllowed"


@dataclass
class HostCode:
    """The calls as lines of a file.

    of_step: the place of a launch or copy (streams.steps) -> the numbers of its lines.
    """

    name: str
    lines: list[str] = field(default_factory=list)
    of_step: dict[int, list[int]] = field(default_factory=dict)

    def add(self, *lines: str, step: int | None = None) -> None:
        """Adds lines, as the lines of a step if it is known."""
        first = len(self.lines) + 1
        self.lines += lines
        if step is not None:
            self.of_step.setdefault(step, []).extend(range(first, len(self.lines) + 1))

    @property
    def file(self) -> File:
        return stage.source_file(self.name, "\n".join(self.lines))

    @property
    def last(self) -> Lines:
        """The last line: the call of a graph."""
        return {f"{self.name}:{len(self.lines)}": 1}

    def lit(self, step: int) -> Lines:
        """The lines of a launch or copy."""
        return {f"{self.name}:{number}": 1 for number in self.of_step.get(step, ())}


def host_code(request: Request) -> HostCode:
    """The host's calls of one run, and before them what the host does once."""
    plan, kernel = request.plan, request.kernel
    listed, texts = list(steps(plan)), _arguments(kernel, plan)
    found = HostCode(f"{kernel.name}, host in C++")
    found.add("// From Python, CuPy makes the same calls")
    structs = {
        ", ".join(_argument(part)[1] for part in one["struct"])
        for text in kernel.launch_texts
        for one in text.args
        if isinstance(one, dict) and "struct" in one
    }
    found.add(*(f"// sizes: {said}" for said in structs))
    _prepare(found, plan, listed)
    others = sorted({step.stream for step in listed} - {0})
    if others:
        found.add("cudaEventRecord(begun, stream0);")
    for other in others:
        found.add(f"cudaStreamWaitEvent(stream{other}, begun);")
    for place, step in enumerate(listed):
        if step.tensor:
            found.add(*_copy(plan, step), step=place)
        elif not plan.launches[step.number].parent:
            found.add(*_waits(plan, listed, step))
            found.add(*_launch(plan.launches[step.number], texts[step.number]), step=place)
            if any(step.number in one.waits for one in listed):
                entry = plan.launches[step.number].entry
                found.add(f"cudaEventRecord(done_{entry}, stream{step.stream});")
    for other in others:
        found.add(f"cudaEventRecord(ended{other}, stream{other});", f"cudaStreamWaitEvent(stream0, ended{other});")
    if plan.graph:
        found.add("cudaStreamEndCapture(stream0, &graph);", "cudaGraphInstantiate(&exec, graph, 0);", "")
        found.add("// Each run: one call starts all kernels")
        found.add("cudaGraphLaunch(exec, stream0);")
        for lines in found.of_step.values():
            lines.append(len(found.lines))
    return found


def purpose(kernel: KernelSpec, entry: str) -> str:
    """The comment above the definition of an entry, without a capital at its start unless a symbol begins it."""
    source = kernel.source.splitlines()
    named = next((n for n, line in enumerate(source) if re.match(rf"(extern.* )?{re.escape(entry)}\(", line)), 0)
    top = next((n for n in range(named, -1, -1) if source[n].startswith('extern "C"')), 0)
    above = list[str]()
    for line in reversed(source[:top]):
        if not line.startswith("//"):
            break
        above.insert(0, line.removeprefix("//").strip())
    said = " ".join(above).rstrip(".")
    return said[:1].lower() + said[1:] if said[1:2].islower() else said


def _prepare(found: HostCode, plan: Plan, listed: list[Step]) -> None:
    fetches = [launch.fetch for launch in plan.launches if launch.fetch]
    memory = {tensor: fetch.memory for fetch in fetches for tensor in fetch.tensors}
    for tensor, kind in memory.items():
        size = plan.tensor(tensor).nbytes
        pinned, pageable = f"cudaMallocHost(&host_{tensor}, {size});", f"host_{tensor} = malloc({size});"
        found.add(f"{pinned if kind == 'pinned' else pageable}  // once")
    if any(launch.dependent for launch in plan.launches):
        found.add("cudaLaunchAttribute early;", f"early.id = {EARLY};", f"early.val.{ALLOWED} = 1;")
    if plan.graph:
        found.add("// The default stream has no capture", "cudaStream_t stream0;", "cudaStreamCreate(&stream0);")
        found.add("// Once: record the calls, without a run", "cudaGraph_t graph; cudaGraphExec_t exec;")
        found.add("cudaStreamBeginCapture(stream0,")
        found.add("    cudaStreamCaptureModeRelaxed);")


def _waits(plan: Plan, listed: list[Step], step: Step) -> Iterator[str]:
    own = f"stream{step.stream}"
    for number in step.waits:
        yield f"cudaStreamWaitEvent({own}, done_{plan.launches[number].entry});"
    for copy in listed:
        if copy.tensor and copy.number == step.number and copy.stream != step.stream:
            yield f"cudaStreamWaitEvent({own}, copied_{copy.tensor}{copy.number});"


def _copy(plan: Plan, step: Step) -> list[str]:
    """A copy from host memory, and its event if a launch on another stream waits for it."""
    tensor, moved = plan.tensor(step.tensor), copied_bytes(plan, step)
    first = moved.start // (tensor.nbytes // int(np.prod(tensor.shape)))
    target, source = (f"{name} + {first}" if first else name for name in (step.tensor, f"host_{step.tensor}"))
    lines = _wrapped(
        "cudaMemcpyAsync", [target, source, str(len(moved)), "cudaMemcpyHostToDevice", f"stream{step.stream}"]
    )
    other = plan.launches[step.number].stream != step.stream
    return [*lines, *([f"cudaEventRecord(copied_{step.tensor}{step.number}, stream{step.stream});"] if other else [])]


def _launch(launch: Launch, arguments: list[Argument]) -> list[str]:
    names = [text for _, text in arguments]
    grid, block = _size(launch.grid), _size(launch.block)
    shared, stream = str(launch.shared_bytes), f"stream{launch.stream}"
    if launch.cooperative:
        named = {one: f"value{n}" for n, one in enumerate(names) if not one.isidentifier()}
        said = [f"{TYPES.get(kind, kind)} {named[one]} = {one};" for kind, one in arguments if one in named]
        said += _wrapped("void* args[] = ", [f"&{named.get(one, one)}" for one in names], "{", "};")
        return [*said, *_wrapped("cudaLaunchCooperativeKernel", [launch.entry, grid, block, "args", shared, stream])]
    if launch.dependent:
        at = f"{launch.entry}_at"
        said = _wrapped(f"cudaLaunchConfig_t {at} = ", [grid, block, shared, stream, "&early", "1"], "{", "};")
        return [*said, *_wrapped("cudaLaunchKernelEx", [f"&{at}", launch.entry, *names])]
    return _wrapped(f"{launch.entry}<<<{grid}, {block}, {shared}, {stream}>>>", names)


def _size(size: tuple[int, int, int]) -> str:
    """A grid or a block, without the dimensions of 1 at its end."""
    used = max((n + 1 for n, one in enumerate(size) if one > 1), default=1)
    return str(size[0]) if used == 1 else f"dim3({', '.join(map(str, size[:used]))})"


def _arguments(kernel: KernelSpec, plan: Plan) -> list[list[Argument]]:
    """The arguments of each launch of a plan as in the opening comment. A struct is named sizes."""
    found, left = list[list[Argument]](), {text.entry: 0 for text in kernel.launch_texts}
    for launch in plan.launches:
        texts = [text for text in kernel.launch_texts if text.entry == launch.entry]
        text = texts[min(left[launch.entry], len(texts) - 1)]
        left[launch.entry] += 1
        found.append([_argument(one) for one in text.args])
    return found


def _argument(said: object) -> Argument:
    kind, _, text = said.partition(" ") if isinstance(said, str) else ("sizes", "", "")
    return (kind, text) if text else ("", kind)


def _wrapped(head: str, parts: list[str], opens: str = "(", closes: str = ");") -> list[str]:
    """A call over lines of at most WIDE letters, if its parts fit."""
    lines = [f"{head}{opens}"]
    for n, part in enumerate(parts):
        piece = part + (closes if n == len(parts) - 1 else ",")
        apart = "" if lines[-1].endswith(opens) else " "
        if len(lines[-1]) + len(apart) + len(piece) <= WIDE:
            lines[-1] += apart + piece
        else:
            lines.append(f"    {piece}")
    return lines
