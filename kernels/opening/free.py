"""The proposal for a file without a problem: the launches, memories and contents of its main() as it ran."""

import keyword
import re
from collections.abc import Iterator
from pathlib import Path

from kernels.core.dtypes import element_type
from kernels.core.fields import shortened
from kernels.core.planning import SCALARS
from kernels.core.sources import C_TYPES, function_of, parameters
from kernels.errors import ProblemError
from kernels.families.free.problem import FreeProblem
from kernels.opening import host
from kernels.opening.describing import initial_of
from kernels.opening.matching import Fit
from kernels.opening.proposal import Proposal, words_of
from kernels.opening.ran import Argument, Memory, Ran, RanLaunch
from kernels.opening.uses import stores, strides

MOST_LAUNCHES = 16
FAMILY = "free"
FIT = Fit(FAMILY, FAMILY, FreeProblem(), {}, {}, 0.0)
_ENTRY = re.compile(r"[A-Za-z_]\w*(?:<[\w ,:*+%-]*>)?")


def of_run(path: Path, text: str, ran: Ran) -> Proposal:
    """The proposal with the launches of a program's run. Raises ProblemError without a launch."""
    once = {_identity(one): one for one in reversed(ran.launches)}
    every = sorted(once.values(), key=ran.launches.index)
    launches = tuple(every[:MOST_LAUNCHES])
    if not launches:
        raise ProblemError(f"main() of {path.name} launched no kernel (exit code {ran.code}). {_last(ran)}")
    made = Proposal(FIT, table=words_of(path, FAMILY))
    made.lines.append(("family", FAMILY, "main() gives its launches, sizes and contents. No truth is needed"))
    symbols = {one: _symbols(text, one) for one in launches}
    names = _names(launches, symbols)
    made.table["main"] = own_word(ran)
    made.table["tensors"] = {
        name: _tensor(made, text, name, ran.memories[number], number, launches, symbols)
        for number, name in names.items()
    }
    made.table["launches"] = [_launch(made, text, one, symbols[one], names) for one in launches]
    if len(every) > len(launches):
        made.lines.append(("note", f"{len(every) - len(launches)} more launches", "left out"))
    return made


def _identity(launch: RanLaunch) -> tuple[object, ...]:
    args = tuple((one.memory, one.offset, one.null, one.raw if one.memory < 0 else "") for one in launch.args)
    return (launch.function, launch.grid, launch.block, launch.shared, args)


def own_word(ran: Ran) -> str:
    """The verdict of main() on its own result: exit code and last lines. An empty text if a launch did not end."""
    said = [line.strip() for line in ran.printed.splitlines() if line.strip()]
    printed = f", and printed {shortened(' / '.join(said[-3:]))!r}" if said else ""
    if not ran.whole:
        return f"main() did not run whole: its launches take too long on this CPU. It ended with exit code {ran.code}."
    return f"main() itself ended with exit code {ran.code}{printed}."


def _last(ran: Ran) -> str:
    said = [line for line in ran.printed.splitlines() if line.strip()]
    return f"It printed {shortened(said[-1])!r}." if said else "It printed nothing."


def entry_of(launch: RanLaunch) -> str:
    """The kernel of a launch as the front matter names it: an instance with the values of its template."""
    return launch.function if _ENTRY.fullmatch(launch.function) else launch.entry


def _symbols(text: str, launch: RanLaunch) -> tuple[tuple[str, str], ...]:
    found = parameters(text, entry_of(launch))
    if len(found) != len(launch.args):
        raise ProblemError(
            f"Line {launch.line} launches {launch.entry} with {len(launch.args)} arguments, and the file shows "
            f"{len(found)} parameters. Write the kernel's parameters in this file, without a macro."
        )
    return found


Symbols = dict[RanLaunch, tuple[tuple[str, str], ...]]


def _uses(launches: tuple[RanLaunch, ...], symbols: Symbols) -> Iterator[tuple[RanLaunch, str, str, Argument]]:
    for one in launches:
        for (c_type, symbol), argument in zip(symbols[one], one.args):
            yield one, c_type, symbol, argument


def _names(launches: tuple[RanLaunch, ...], symbols: Symbols) -> dict[int, str]:
    """The number of a memory -> a name: its parameter's, if no other memory has it, else with a number."""
    of_symbol, first = dict[str, set[int]](), dict[int, str]()
    for _, _, symbol, argument in _uses(launches, symbols):
        if argument.memory >= 0:
            of_symbol.setdefault(symbol, set()).add(argument.memory)
            first.setdefault(argument.memory, symbol)
    found = dict[int, str]()
    for number, symbol in first.items():
        name = f"{symbol}_" if keyword.iskeyword(symbol) else symbol
        count = 1
        while (
            name in found.values() or name in of_symbol and name != symbol or len(of_symbol[symbol]) > 1 and count == 1
        ):
            name, count = f"{symbol}_{count}", count + 1
        found[number] = name
    return found


def _tensor(
    made: Proposal,
    text: str,
    name: str,
    memory: Memory,
    number: int,
    launches: tuple[RanLaunch, ...],
    symbols: Symbols,
) -> dict[str, object]:
    uses = [use for use in _uses(launches, symbols) if use[3].memory == number]
    size = memory.bytes // element_type(memory.dtype).bytes
    initial, words = initial_of(memory)
    written = any(
        number in one.wrote or stores(text, entry_of(one), symbol, sure=one.whole) for one, _, symbol, _ in uses
    )
    table: dict[str, object] = {
        "shape": _shape(text, uses, size),
        "dtype": memory.dtype,
        "role": "output" if written else "input",
        "initial": initial,
    }
    shown = " x ".join(map(str, table["shape"]))  # type: ignore[call-overload]
    made.lines.append((f"{table['role']} {name}", f"{shown} of {memory.dtype}", words))
    return table


def _shape(text: str, uses: list[tuple[RanLaunch, str, str, Argument]], size: int) -> list[int]:
    """[rows, columns] if the text multiplies a row by a known number of columns, else [elements]. Only for pictures."""
    for one, _, symbol, _ in uses:
        known = {name: arg.value for (_, name), arg in zip(parameters(text, entry_of(one)), one.args)}
        for name in strides(text, entry_of(one), symbol):
            columns = int(known.get(name) or 0)
            if columns > 1 and size % columns == 0 and size > columns:
                return [size // columns, columns]
    return [size]


def _launch(
    made: Proposal, text: str, launch: RanLaunch, symbols: tuple[tuple[str, str], ...], names: dict[int, str]
) -> dict[str, object]:
    entry = entry_of(launch)
    origin = f"line {launch.line}, as main() ran"
    made.lines.append(("kernel", entry, origin))
    table: dict[str, object] = {"entry": entry, "grid": _sizes(launch.grid), "block": _sizes(launch.block)}
    if launch.shared:
        table["shared_bytes"] = launch.shared
    for key in ("grid", "block", "shared_bytes"):
        if key in table:
            made.lines.append((f"  {key}", str(table[key]).strip("[]"), ""))
    table["args"] = [_argument(launch, c_type, name, arg, names) for (c_type, name), arg in zip(symbols, launch.args)]
    for (c_type, name), argument in zip(symbols, table["args"]):  # type: ignore[call-overload]
        made.lines.append((f"  {c_type} {name}", shortened(str(argument)), ""))
    if re.search(r"\b(?:this_grid|grid_group)\b", host.body_of(text, function_of(entry))):
        table["cooperative"] = True
    return table


def _sizes(sizes: tuple[int, ...]) -> list[int]:
    found = list(sizes)
    while len(found) > 1 and found[-1] == 1:
        found.pop()
    return found


def _argument(launch: RanLaunch, c_type: str, name: str, argument: Argument, names: dict[int, str]) -> object:
    if argument.null:
        return {"null": True}
    if argument.memory >= 0:
        tensor = names[argument.memory]
        return {"tensor": tensor, "offset": argument.offset} if argument.offset else tensor
    if not argument.raw:
        raise ProblemError(
            f"Line {launch.line} passes {c_type} {name} to {launch.entry}, and no cudaMalloc of main() gave this "
            "pointer. Allocate it with cudaMalloc."
        )
    kind, number = next((kind for kind, spelled in C_TYPES.items() if c_type in spelled), ""), argument.value
    if not kind or number is None or not abs(number) < 2**53 or len(argument.raw) != 2 * SCALARS[kind](0).itemsize:
        return {"bytes": argument.raw}
    return f"{kind} {number!r}" if kind.startswith("float") else f"{kind} {int(number)}"
