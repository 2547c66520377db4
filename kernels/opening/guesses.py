"""The proposal for a file without a problem and without a run of main(): its text, a trial run, and the answers.

A size or a number of the kernel is a choice: any value is right. A block, a grid and the values of a template are
questions unless the text gives them. A trial run with ample memory shows the size of each pointer.
"""

import keyword
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernels.build.plain.edits import dynamic_names
from kernels.core.dtypes import DTYPES
from kernels.core.expressions import evaluate
from kernels.core.sources import C_TYPES, function_of, parameters
from kernels.errors import BuildError, ProblemError, WarpglassError
from kernels.families.free.problem import is_free_name
from kernels.opening import host
from kernels.opening.asking import say
from kernels.opening.blocks import block_of, grids_of
from kernels.opening.filled import initial_of
from kernels.opening.free import FAMILY, FIT
from kernels.opening.host import HostLaunch, constants_of, parts
from kernels.opening.launches import host_text
from kernels.opening.names import Names, arguments_of
from kernels.opening.proposal import Proposal, template_parameters, words_of
from kernels.opening.ran import dtype_known, dtype_of
from kernels.opening.sites import values_of
from kernels.opening.trial import AMPLE, Reach, of_blocks, size_of
from kernels.opening.uses import is_flag, is_summed, only_assigned, stores, strides

WHOLE = ("int32", "uint32", "int64", "uint64")
CHOSEN = {1: (1024,), 2: (64, 96), 3: (64, 96, 128)}
"""The number of sizes -> their values in a trial, so that products differ."""
MOST_QUESTIONS = 5
_COUNT = re.compile(r"(?:num|n)?_?(?:tokens?|heads?|batch(?:es|_?size)?|sequences?)|B|NH|nh", re.I)
"""The names of counts, which multiply the size of a row. Their values in a trial are small."""
TEMPLATE = {"TM": 8, "TN": 8, "BK": 8, "BM": 128, "BN": 128}
"""The usual value of a template's number by its name, else 64."""
Trial = Callable[[str], Reach]
"""The reach of a text with front matter, in a trial run (trial.py)."""


@dataclass
class Guess:
    """A proposal in the making.

    fields: the sizes of the problem. floats: its other numbers.
    tensors: a launch's number and a parameter -> its tensor.
    names: a number among the parameters -> its field; LAUNCH:POINTER -> the host's name of the memory.
    grids: the number of a launch whose text gives no grid -> the possible ones."""

    made: Proposal
    text: str
    launches: list[HostLaunch]
    said: Mapping[str, str]
    own: str
    fields: dict[str, int] = field(default_factory=dict)
    floats: dict[str, float] = field(default_factory=dict)
    tensors: dict[tuple[int, str], str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    grids: dict[int, list[list[str]]] = field(default_factory=dict)

    def ask(self, what: str, option: str, guess: str) -> None:
        self.made.questions.append(f"{what}. {say(option, guess)}")


def of_text(
    path: Path, text: str, own: str, launches: list[HostLaunch], said: Mapping[str, str], trial: Trial
) -> Proposal:
    """The proposal for a text. own: the text of the file, without its headers. said: the answers.

    Raises ProblemError for a kernel without pointers."""
    guess = Guess(Proposal(FIT, table=words_of(path, FAMILY)), host_text(text), launches, said, own)
    guess.made.lines.append(("family", FAMILY, "no problem fits its names. No truth is needed"))
    _fields(guess)
    entries = [_launch(guess, number, one) for number, one in enumerate(launches)]
    if not guess.tensors:
        raise ProblemError(f"{', '.join(one.entry for one in launches)} takes no pointer, so a run shows nothing.")
    tables = _tensors(guess)
    guess.made.table |= {"sizes": {**guess.fields, **guess.floats}, "tensors": tables, "launches": entries}
    if not guess.fields and not guess.floats:
        del guess.made.table["sizes"]
    if not guess.made.questions:
        _try(guess, tables, entries, trial)
    for name, table in tables.items():
        shown = "?" if table["shape"] == [AMPLE] else " x ".join(map(str, table["shape"]))  # type: ignore[call-overload]
        guess.made.lines.append((f"{table['role']} {name}", f"{shown} of {table['dtype']}", _words(table["initial"])))
    del guess.made.questions[MOST_QUESTIONS:]
    return guess.made


def _kind(c_type: str) -> str:
    return next((kind for kind, spelled in C_TYPES.items() if c_type in spelled), "")


def _fields(guess: Guess) -> None:
    """The numbers among the parameters as fields: from the answers, from the host's text, else chosen."""
    listed = {name: _kind(kind) for one in guess.launches for kind, name in parameters(guess.text, one.entry)}
    for name in listed:
        guess.names[name] = name if is_free_name(name) else f"{name}_"
    open_fields = [name for name, kind in listed.items() if kind in WHOLE and name not in guess.said]
    sized = [name for name in open_fields if not _is_flag(guess, name)]
    tiles = [value for value in _numbers(guess).values() if 8 <= value <= 128 and value & (value - 1) == 0]
    unit = max(tiles, default=1)
    values = CHOSEN.get(len(sized), tuple(16 * (n + 2) for n in range(len(sized))))
    values = tuple(unit * (n + 1) for n in range(len(sized))) if unit > 32 and len(sized) > 1 else values
    counts = [name for name in sized if len(sized) > 2 and _COUNT.fullmatch(name)]
    values = tuple(6 + 4 * counts.index(name) if name in counts else one for name, one in zip(sized, values))
    for name, kind in listed.items():
        field_name, answer = guess.names[name], guess.said.get(name, "")
        if kind in WHOLE and re.fullmatch(r"-?\d+", answer or "0"):
            chosen = values[sized.index(name)] if name in sized else 0
            guess.fields[field_name] = int(answer) if answer else chosen
            guess.made.lines.append(
                (f"size {field_name}", str(guess.fields[field_name]), "--say" if answer else "chosen")
            )
        elif kind in ("float32", "float64") and re.fullmatch(r"-?[\d.]+(?:e-?\d+)?", answer or "1"):
            guess.floats[field_name] = float(answer) if answer else 1e-5 if "eps" in name.lower() else 1.0
        elif kind == "bool":
            guess.fields[field_name] = int(answer in ("1", "true"))


def _is_flag(guess: Guess, name: str) -> bool:
    used = [one for one in guess.launches if any(name == own for _, own in parameters(guess.text, one.entry))]
    return all(is_flag(guess.text, one.entry, name) for one in used)


def _numbers(guess: Guess) -> dict[str, int]:
    """The constants of the text, and the numbers of the templates."""
    found = dict(constants_of(guess.text))
    for one in guess.launches:
        given = values_of(one.entry)
        for name, value in zip(template_parameters(guess.text, function_of(one.entry)), given):
            if value.isdigit():
                found[name] = int(value)
    return found | {
        name: int(value) for name, value in guess.said.items() if value.isdigit() and name not in guess.names
    }


def _launch(guess: Guess, number: int, launch: HostLaunch) -> dict[str, object]:
    listed = parameters(guess.text, launch.entry)
    instance = _instance(guess, launch)
    values = ", ".join(instance.values())
    called = f"{function_of(launch.entry)}<{values}>" if instance else launch.entry
    origin = f"line {launch.line}" if launch.line else "in the text, without a launch"
    guess.made.lines.append(("kernel", called, origin))

    def meaning(name: str) -> str:
        own = guess.names.get(name, "")
        return own if own in guess.fields or own in guess.floats else ""

    known = {**dict(launch.values), **arguments_of(launch, [name for _, name in listed], meaning)}
    names = Names(guess.text, meaning, {**known, **instance}, {})
    entry: dict[str, object] = {"entry": called, **_sizes(guess, launch, names, instance)}
    args = list[object]()
    for place, (c_type, name) in enumerate(listed):
        args.append(_argument(guess, number, launch, names, place, c_type, name))
        guess.made.lines.append((f"  {c_type} {name}", str(args[-1]), ""))
    if launch.cooperative:
        entry["cooperative"] = True
    return {**entry, "args": args}


def _instance(guess: Guess, launch: HostLaunch) -> dict[str, str]:
    """A template's parameters -> their values: the launch's, the answers, or a guess that is a question."""
    names = template_parameters(guess.text, function_of(launch.entry))
    given = values_of(launch.entry)
    values, unknown, constants = dict[str, str](), list[str](), constants_of(guess.text)
    body = host.body_of(guess.text, function_of(launch.entry))
    for number, name in enumerate(names):
        value = guess.said.get(name) or (given[number] if number < len(given) else "")
        value = str(constants.get(value, value))
        if not value and re.search(rf"\b(?:typename|class)\s+{name}\b", body):
            value = "float"
        if not value and (default := re.search(rf"\b{name}\s*=\s*(\w+)\s*[,>]", body.partition("(")[0])):
            value = str(constants.get(default[1], default[1]))
        if not value:
            unknown.append(name)
            value = str(TEMPLATE.get(name.strip("_"), 64))
        values[name] = value
    if unknown:
        said = " ".join(f"--say {name}={values[name]}" for name in unknown)
        guess.made.questions.append(
            f"{', '.join(unknown)} of the template {function_of(launch.entry)}. A guess: {said}"
        )
    return values


def _sizes(guess: Guess, launch: HostLaunch, names: Names, instance: Mapping[str, str]) -> dict[str, object]:
    """grid, block and shared_bytes of a launch. One question for grid and block without a source."""
    body, said = host.body_of(guess.text, function_of(launch.entry)), guess.said

    def number(one: str) -> str | None:
        return instance.get(one) or names.expression(one, launch.line or 10**6)

    block = (
        parts(said["block"]) if "block" in said else names.sizes(launch.block, launch.line) if launch.block else None
    )
    source = "--say" if "block" in said else f"line {launch.line}"
    sure = block is not None
    if block is None:
        block, source, sure = block_of(body, number)
    threads = re.fullmatch(r"(?:dim3\()?([A-Za-z_]\w*)(?:, *1)*\)?", launch.block)  # grid and shared memory may take it
    if threads and names.expression(threads[1], launch.line) is None:
        names = replace(names, arguments={**names.arguments, threads[1]: block[0]})
    grid = parts(said["grid"]) if "grid" in said else names.sizes(launch.grid, launch.line) if launch.grid else None
    guessed = grid or host.grid_of(body, block, number)
    if not sure:
        guess.ask(f"the block of {launch.entry} ({source})", "block", ", ".join(block))
    if guessed is None:
        pointers = [name for c_type, name in parameters(guess.text, launch.entry) if c_type.endswith("*")]
        written = (name for name in pointers if stores(guess.text, launch.entry, name))
        columns = {
            guess.names.get(name, "") for pointer in written for name in strides(guess.text, launch.entry, pointer)
        }
        sized = [name for name in guess.fields if not _is_flag(guess, name)]
        sized.sort(key=lambda name: name not in columns)  # blocks along x mostly take the columns of an output
        guess.grids[guess.launches.index(launch)] = grids_of(body, sized, number)
    sizes: dict[str, object] = {"grid": _whole(guessed or ["1"]), "block": _whole(block)}
    shared = said.get("shared_bytes") or (names.expression(launch.shared, launch.line) if launch.shared else "0")
    if shared and shared != "0":
        sizes["shared_bytes"] = int(shared) if shared.isdigit() else shared
    elif shared is None or "extern __shared__" in body:
        sizes["shared_bytes"] = TRIED_SHARED
    for key, value in sizes.items():
        if key == "grid" and guessed is None or value == TRIED_SHARED:
            continue
        guess.made.lines.append((f"  {key}", str(value).strip("[]").replace("'", ""), source if key == "block" else ""))
    return sizes


_CASTS = ("const", "void", "reinterpret_cast", "static_cast", "thrust", "raw_pointer_cast", "std", "unsigned", "char")
TRIED_SHARED = 48 * 1024  # bytes of dynamic shared memory in a trial


def _whole(sizes: list[str]) -> list[object]:
    return [int(size) if size.isdigit() else size for size in sizes]


def _argument(
    guess: Guess, number: int, launch: HostLaunch, names: Names, place: int, c_type: str, name: str
) -> object:
    given = launch.args[place] if place < len(launch.args) else ""
    if c_type.endswith("*"):
        plain = re.sub(r"<[^<>]*>|\(\s*(?:const\s+)?\w+\s*\*+\s*\)", " ", given)  # without casts
        words = [word for word in re.findall(r"[A-Za-z_]\w*", plain) if word not in _CASTS and not dtype_known(word)]
        memory = words[0] if words else ""
        shared = next(
            (t for (n, p), t in guess.tensors.items() if memory and guess.names.get(f"{n}:{p}") == memory), ""
        )
        same = next((t for (_, p), t in guess.tensors.items() if not memory and p == name), "")
        own = f"{name}_" if keyword.iskeyword(name) else name
        own = own if is_free_name(own) and own not in guess.tensors.values() else f"{name}_{number}"
        guess.tensors[number, name] = shared or same or own
        guess.names[f"{number}:{name}"] = memory
        return guess.tensors[number, name]
    kind, own = _kind(c_type), guess.names[name]
    if kind and (own in guess.fields or own in guess.floats):
        return f"{kind} {own}"
    if kind and name in guess.said:
        return f"{kind} {guess.said[name]}"
    expression = names.expression(given, launch.line) if given else None
    if kind and expression is not None:
        return f"{kind} {expression}"
    guess.ask(f"{c_type} {name} of {launch.entry}", name, "")
    return {"bytes": "00"}


def _tensors(guess: Guess) -> dict[str, dict[str, object]]:
    """The tables of the tensors with ample memory, or with the sizes of the answers."""
    found = dict[str, dict[str, object]]()
    for (number, name), tensor in guess.tensors.items():
        launch = guess.launches[number]
        c_type = next(kind for kind, own in parameters(guess.text, launch.entry) if own == name)
        base = c_type.rstrip("* ")
        instance = dict(zip(template_parameters(guess.text, function_of(launch.entry)), _given(guess, launch)))
        dtype = dtype_of(instance.get(base, base))
        written = stores(guess.text, launch.entry, name)
        before = found.get(tensor)
        if before:
            before["role"] = "output" if written else before["role"]
            continue
        found[tensor] = {
            "shape": [guess.said.get(name) or AMPLE],
            "dtype": dtype,
            "role": "output" if written else "input",
            "initial": _initial(guess, launch, name, dtype),
        }
    return found


def _given(guess: Guess, launch: HostLaunch) -> list[str]:
    listed = template_parameters(guess.text, function_of(launch.entry))
    given = values_of(launch.entry)
    return [guess.said.get(name) or (given[n] if n < len(given) else "float") for n, name in enumerate(listed)]


def _initial(guess: Guess, launch: HostLaunch, name: str, dtype: str) -> object:
    """zero for a sum of atomics or a cudaMemset, poison for a pointer that is only assigned, else numbers."""
    memory = guess.names.get(f"{guess.launches.index(launch)}:{name}") or name
    if filled := initial_of(guess.text, memory)[0]:
        return filled if filled == "zero" else {"values": [-math.inf]}
    if is_summed(guess.text, launch.entry, name):
        return "zero"
    if only_assigned(guess.text, launch.entry, name):
        return "poison"
    return {"normal": [0.0, 1.0]} if DTYPES[dtype].is_float else {"random": [0, 9]}


def _words(initial: object) -> str:
    if isinstance(initial, str):
        return {"zero": "zeros: the text adds to it, or sets it", "poison": "not written: the text only assigns it"}[
            initial
        ]
    return "random numbers"


def _try(guess: Guess, tables: dict[str, dict[str, object]], entries: list[dict[str, object]], trial: Trial) -> None:
    """Sets the open sizes and grids by trial runs. A size that nothing explains is a question."""
    reached = _reached(guess, tables, entries, trial)
    if reached is None:
        return
    for name in [name for name, table in tables.items() if table["shape"] == [AMPLE]]:
        count = _count(tables[name], reached.get(name, 0))
        said, _ = size_of(count, guess.fields, _numbers(guess))
        of_grid = "" if said else of_blocks(entries, guess.fields, _numbers(guess), count)
        if not said and not of_grid:
            guess.ask(f"the elements of {name} (the trial reaches {count:,})", name, str(count))
        tables[name]["shape"] = [of_grid] if of_grid else _shape(guess, name, said or "1")
    arrays = (*dynamic_names((("kernel.cu", guess.text),)), "shared memory")
    for entry in entries:
        if entry.get("shared_bytes") == TRIED_SHARED:
            count = max((reached.get(name, 0) for name in arrays), default=0)
            block = [str(size) for size in entry["block"]]  # type: ignore[attr-defined]
            threads = {" * ".join(block): math.prod(int(evaluate(size, guess.fields, "")) for size in block)}
            said, _ = size_of(-(-count // 4), {**guess.fields, **threads}, _numbers(guess))
            if not said:
                guess.ask(f"the dynamic shared memory of {entry['entry']} ({count:,} bytes)", "shared_bytes", "")
            entry["shared_bytes"] = f"4 * {said or 1}"
            guess.made.lines.append((f"shared_bytes of {entry['entry']}", f"4 * {said}", "a trial run"))


def _count(table: Mapping[str, object], reached: int) -> int:
    return -(-reached // DTYPES[str(table["dtype"])].bytes)


def _reached(
    guess: Guess, tables: dict[str, dict[str, object]], entries: list[dict[str, object]], trial: Trial
) -> dict[str, int] | None:
    """The reach of a trial run, with the first grid whose outputs have a plain size, or None after a question."""
    grids = next(iter(guess.grids.values()), []) if guess.grids else [[]]
    error: WarpglassError | None = None
    for grid in grids:
        for number in guess.grids:
            entries[number]["grid"] = _whole(grid)
        try:
            reached, stored, faults = trial(guess.made.text_of(guess.own))
        except BuildError:
            raise
        except WarpglassError as stopped:
            error = stopped
            continue
        for name, table in tables.items():
            table["role"] = "output" if name in stored else "input" if name in reached else table["role"]
        counts = [_count(table, reached.get(name, 0)) for name, table in tables.items()]
        sizes = [size_of(count, guess.fields, _numbers(guess)) for count in counts]
        plain = all(exact and (said[0] not in "234" or said.isdigit()) for said, exact in sizes)
        if not guess.grids or plain and not faults:
            if guess.grids:
                guess.made.lines.append(("  grid", ", ".join(grid), "a trial run: each tensor has a plain size"))
            return reached
    if error and not guess.grids:
        guess.ask(f"the sizes. A trial run fails: {str(error).splitlines()[0][:200].rstrip('.')}", "block", "")
        return None
    for number in guess.grids:
        guess.ask(f"the grid of {guess.launches[number].entry}", "grid", ", ".join(grids[0]) if grids else "")
    return None


def _shape(guess: Guess, tensor: str, said: str) -> list[object]:
    """The size as [rows, columns] if the text steps by one of its fields."""
    factors = said.split(" * ")
    for (number, name), own in guess.tensors.items():
        if own != tensor or len(factors) < 2:
            continue
        for stride in strides(guess.text, guess.launches[number].entry, name):
            column = guess.names.get(stride, "")
            if column in factors:
                rest = [factor for factor in factors if factor != column]
                return [" * ".join(rest), column]
    return [int(said) if said.isdigit() else said]
