"""The launches of a file that belong together. A file may hold several versions, and the reader chooses one."""

import re
from dataclasses import dataclass

from kernels.build.plain.tokens import bare, functions, tokens
from kernels.core.sources import function_of
from kernels.errors import ProblemError
from kernels.opening.launches import host_launches
from kernels.opening.sites import HostLaunch

MOST_SHOWN = 12  # names in a question
USUAL = "64"  # head_dim that all problems of attention have


@dataclass(frozen=True)
class Versions:
    """The launches of one version of a file.

    launches: in order, each once.
    others: the kernels of the other versions, each a value of --entry.
    is_open: whether no word of the text or the user chose this version."""

    launches: tuple[HostLaunch, ...]
    others: tuple[str, ...] = ()
    is_open: bool = False

    @property
    def question(self) -> str:
        """The question for the version, or ""."""
        if not self.is_open:
            return ""
        own = dict.fromkeys(function_of(one.entry) for one in self.launches)
        names = list(dict.fromkeys([*own, *self.others]))
        rest = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
        return f"the version. Choose one with --entry NAME: {', '.join(names[:MOST_SHOWN])}{rest}"


def versions_of(text: str, entry: str = "") -> Versions:
    """The version of a file with a kernel or a function of the host. entry: its name, or "" for the first one.

    A file without a launch has each of its kernels as a launch without grid and block.
    Raises ProblemError for an unknown name."""
    listed = _once(host_launches(text)) or _without_launch(text)
    wanted = re.sub(r"\s+", "", entry)
    seeds = [one for one in listed if not wanted or wanted in _names(one)]
    if not seeds and wanted:
        known = ", ".join(dict.fromkeys(function_of(one.entry) for one in listed)) or "none"
        raise ProblemError(f"--entry is {entry!r}, and the file launches no kernel of this name. Its kernels: {known}.")
    if not listed:
        return Versions(())
    chosen = list[HostLaunch]()
    first = min(seeds, key=lambda one: (_rank(one), listed.index(one))) if not wanted else seeds[0]
    for one in [first, *seeds, *listed]:
        if one not in chosen and not any(_excludes(one, other) for other in chosen):
            chosen.append(one)
    chosen.sort(key=listed.index)
    kept = {function_of(one.entry) for one in chosen}
    others = dict.fromkeys(function_of(one.entry) for one in listed if function_of(one.entry) not in kept)
    return Versions(tuple(chosen), tuple(others), bool(others) and not wanted)


def arguments_of(text: str, version: Versions) -> list[str]:
    """The words of the command line for a version. For kind = atoi(argv[1]), the value of kind at its launches. For
    kind = getCmdLineArgumentInt(argc, argv, "kernel"), -kernel=VALUE."""
    numbers = _enumerators(text)
    values = {name: str(numbers.get(value, value)) for launch in version.launches for name, value in launch.values}
    read = {int(one[2]): one[1] for one in _READ.finditer(bare(text))}
    words = list[str]()
    while re.fullmatch(r"-?\d+", value := values.get(read.get(len(words) + 1, ""), "")):
        words.append(value)
    options = {one[2]: one[1] for one in _OPTION.finditer(text)}
    given = {option: values[name] for option, name in options.items() if name in values}
    return words + [f"-{option}={value}" for option, value in given.items() if re.fullmatch(r"-?\d+", value)]


_READ = re.compile(r"(?<!\w)(\w++)\s*+=\s*+(?:std::)?(?:atoi|atol|stoi)\s*+\(\s*+argv\s*+\[\s*+(\d)\s*+\]")
_OPTION = re.compile(r'(?<!\w)(\w++)\s*+=\s*+getCmdLineArgumentInt\s*+\([^;"]*+"(\w++)"\s*+\)')
_ENUM = re.compile(r"\benum\b[\w\s:]*+\{([^{}]*+)\}")


def _enumerators(text: str) -> dict[str, int]:
    """The values of the enums of a text, as far as numbers give them."""
    found = dict[str, int]()
    for one in _ENUM.finditer(bare(text)):
        number: int | None = 0
        for name, sign, said in (part.partition("=") for part in one[1].split(",") if part.strip()):
            number = (int(said) if re.fullmatch(r"\s*-?\d+\s*", said) else None) if sign else number
            if number is not None:
                found[name.strip()], number = number, number + 1
    return found


def _once(listed: list[HostLaunch]) -> list[HostLaunch]:
    """Each launch once: a second one in a loop for times, or for a warmup, is no other launch."""
    found = {(one.entry, one.args, one.grid, one.block, one.arms): one for one in reversed(listed)}
    kept = {id(one) for one in found.values()}
    return [one for one in listed if id(one) in kept]


def _names(launch: HostLaunch) -> set[str]:
    functions = {arm for branch, arm in launch.arms if branch == "function"}
    return {re.sub(r"\s+", "", launch.entry), function_of(launch.entry), launch.function, *functions} - {"main"}


def _rank(launch: HostLaunch) -> int:
    """main()'s launches come first, an instance for float before one for another type, and one for heads of 64 before
    one for heads of another width."""
    rank = (launch.arms[:1] != (("function", "main"),)) * 4 + 2 * ("float" not in launch.entry and "<" in launch.entry)
    return rank + (launch.derived and USUAL not in dict(launch.values).values())


def _excludes(one: HostLaunch, other: HostLaunch) -> bool:
    """Whether no run has both launches: they are in two arms of a branch, or two instances in one place."""
    arms = dict(one.arms)
    if any(arms.get(branch, arm) != arm for branch, arm in other.arms):
        return True
    same = function_of(one.entry) == function_of(other.entry) and one.args == other.args
    return same and (one.entry != other.entry or (one.grid, one.block) == (other.grid, other.block))


def _without_launch(text: str) -> list[HostLaunch]:
    """A launch of each kernel. Kernels that hand no memory on to each other are versions."""
    found = tokens(text)
    kernels = [one for one in functions(text, found) if one.is_kernel]
    of_grid = re.compile(r"\b(?:this_grid|grid_group)\b")
    groups = _groups(text, [one.name for one in kernels])
    return [
        HostLaunch(
            *(one.name, "", "", "", (), 0),
            cooperative=bool(of_grid.search(text[found[one.first].start : found[one.last].end])),
            arms=(("function", f"version {groups[one.name]}"),),
        )
        for one in kernels
    ]


def _groups(text: str, names: list[str]) -> dict[str, int]:
    """A kernel -> the number of its version. Two kernels are in one version if one reads what the other writes."""
    reads, writes = dict[str, set[str]](), dict[str, set[str]]()
    for name in names:
        pointers = _pointers(text, name)
        reads[name] = {pointer for pointer, is_const in pointers if is_const}
        writes[name] = {pointer for pointer, is_const in pointers if not is_const}
    numbers = {name: number for number, name in enumerate(names)}
    for one in names:
        for other in names:
            if one != other and writes[one] & reads[other] and writes[one] != writes[other]:
                low, high = sorted((numbers[one], numbers[other]))
                numbers = {name: low if number == high else number for name, number in numbers.items()}
    return numbers


def _pointers(text: str, name: str) -> list[tuple[str, bool]]:
    head = re.search(rf"\b{re.escape(name)}\s*\(([^()]*)\)\s*\{{", text)
    listed = [one for one in head[1].split(",") if "*" in one] if head else []
    return [(re.findall(r"\w+", one)[-1], "const" in one.partition("*")[0]) for one in listed]
