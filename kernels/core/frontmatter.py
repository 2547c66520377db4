"""Reads the opening comment of a .cu, which is TOML, into a KernelSpec. An error is one line: file, key, fault, remedy.

The keys and their meanings are in kernels/front-matter.md. The lists KEYS, CONSTANT_KEYS and the lists of the plan's
tables are the same. A test compares them.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernels.core.dtypes import DTYPES
from kernels.core.fields import shortened
from kernels.core.launch import Condition, Constant, ConstantRole, CopyText, LaunchText, Repeat, ScratchText, Tuned
from kernels.core.planning import SCALARS, dtype_names, scalar_kinds
from kernels.core.problem import OF_FREE, Problem
from kernels.core.sources import C_TYPES, OTHER_C_TYPES, is_plain, is_plain_c, kernels_text, parameters
from kernels.core.spec import KernelSpec
from kernels.core.streams import ORDER_KEYS, check_order, order_of
from kernels.core.tensors import SET, Initial
from kernels.core.toml_tables import FLAG, TEXT, Keys, Table, check_keys, completed, parse, tables, typed
from kernels.core.watch import watch_text
from kernels.errors import FrontMatterError

LAUNCH_KEYS: Keys = {
    **{"entry": TEXT, "grid": None, "block": None, "args": (list, "a list, in the order of the signature")},
    **{"shared_bytes": None, "item": TEXT, "blocks_per_item": None, "cluster": None, "cooperative": FLAG},
    **{**dict.fromkeys(ORDER_KEYS), "dependent": FLAG},
    **{"device": None, "repeat": None, "when": (str, "a condition in quotes"), "heads": None},
}
SCRATCH_KEYS: Keys = {
    **dict.fromkeys(("shape", "axes"), (list, "a list")),
    **dict.fromkeys(("dtype", "initial", "device", "repeat")),
}
COPY_KEYS: Keys = {"source": TEXT, "target": TEXT, "repeat": None, "when": TEXT}
INITIAL = tuple(one.value for one in Initial if one is not Initial.GIVEN)
MOST_TABLES = 64  # [[launches]], or [[copies]]. Our kernels have 4
# A build writes the entry into C++. An instance's values hold no bracket, quote, comment or name of the compiler's.
_ENTRY = re.compile(r"[A-Za-z_]\w*(?:<(?!.*\b(?:simt|_))(?:[\w ,:*+%-]|/(?![/*]))*>)?", re.A | re.I)


def scratch(file: str, table: Table) -> tuple[ScratchText, ...]:
    return tuple(_scratch(file, name, entry) for name, entry in tables(file, "scratch", table).items())


def _scratch(file: str, name: str, entry: Table) -> ScratchText:
    where = f"scratch.{name}"
    check_keys(file, where, entry, SCRATCH_KEYS, ("shape", "axes"))
    if entry.get("dtype", "float32") not in (*DTYPES, "dtype"):
        raise FrontMatterError(f"{file}: {where}.dtype is {entry['dtype']!r}. It must be one of {dtype_names()}.")
    if entry.get("initial", "poison") not in INITIAL:
        known = f"{', '.join(INITIAL[:-1])} or {INITIAL[-1]}"
        raise FrontMatterError(f"{file}: {where}.initial is {entry['initial']!r}. It must be {known}.")
    for key, kind in (("shape", (str, int)), ("axes", str)):
        for value in entry[key]:
            typed(file, f"{where}.{key}", value, kind, "a list of sizes" if key == "shape" else "a list of names")
    if len(entry["shape"]) != len(entry["axes"]):
        raise FrontMatterError(
            f"{file}: {where} has {len(entry['shape'])} sizes and {len(entry['axes'])} axes. Give each dimension a "
            f"name."
        )
    return ScratchText(
        name,
        tuple(entry["shape"]),
        tuple(entry["axes"]),
        entry.get("dtype", "float32"),
        entry.get("initial", "poison"),
        _number(file, f"{where}.device", entry.get("device", 0)),
        _repeat(file, where, entry),
    )


def launches(file: str, source: str, plain: bool, table: Table) -> tuple[LaunchText, ...]:
    """The launches of a comment. source: of the .cu, whose signatures must agree. plain: without written probes."""
    entries = typed(file, "launches", table["launches"], list, "tables [[launches]]")
    if not entries:
        raise FrontMatterError(f"{file}: launches is empty. A kernel has at least one table [[launches]].")
    _check_number(file, "launches", entries)
    parents = parents_of(file, source, entries)
    if parents and table.get("copies"):
        raise FrontMatterError(f"{file}: copies and children exclude each other. Remove the copies or the children.")
    made = [_launch(file, source, plain, number, entry, parents) for number, entry in enumerate(entries)]
    check_order(file, entries)
    ordered = [replace(text, **order_of(entry)) for text, entry in zip(made, entries)]
    streams = {text.entry: text.stream for text in ordered}
    return tuple(replace(text, stream=streams[text.parent]) if text.parent else text for text in ordered)


def _check_number(file: str, key: str, entries: list[Table]) -> None:
    if len(entries) > MOST_TABLES:
        raise FrontMatterError(
            f"{file}: {key} has {len(entries):,} tables. Write at most {MOST_TABLES}, and use `repeat` for more."
        )


def _launch(file: str, source: str, plain: bool, number: int, entry: Table, parents: dict[str, str]) -> LaunchText:
    where, parent = f"launches[{number}]", parents.get(str(entry.get("entry")), "")
    needed = ("entry", "grid", "block") if parent else ("entry", "grid", "block", "args")
    check_keys(file, where, entry, LAUNCH_KEYS, needed)
    name, args = entry["entry"], entry.get("args", [])
    _check_entry(file, where, name, source, plain)
    for key in ("grid", "block", "cluster"):
        sizes = entry.get(key, [1])
        if not isinstance(sizes, list) or not 1 <= len(sizes) <= 3 or not all(isinstance(s, (str, int)) for s in sizes):
            raise FrontMatterError(
                f"{file}: {where}.{key} is {sizes!r}. It must be a list of one to three sizes: numbers or "
                f"expressions in quotes."
            )
    for n, arg in enumerate(args):
        _check_argument(file, f"{where}.args[{n}]", arg)
    found = () if parent else parameters(source, name)
    if len(found) != len(args):
        raise FrontMatterError(
            f"{file}: {where}.args has {len(args)} entries, and {name} takes {len(found)} "
            f"({', '.join(symbol for _, symbol in found)}). "
            "List one for each parameter, PROBE_PARAM left out."
        )
    for n, (arg, (c_type, symbol)) in enumerate(zip(args, found)):
        _check_c_type(file, f"{where}.args[{n}]", arg, c_type, symbol)
    return LaunchText(
        name,
        tuple(entry["grid"]),
        tuple(entry["block"]),
        tuple(args),
        entry.get("shared_bytes", 0),
        entry.get("item", "block"),
        entry.get("blocks_per_item", 1),
        tuple(entry["cluster"]) if "cluster" in entry else None,
        entry.get("cooperative", False),
        device=_number(file, f"{where}.device", entry.get("device", 0)),
        repeat=_repeat(file, where, entry),
        when=entry.get("when", ""),
        parent=parent,
        heads=_number(file, f"{where}.heads", entry.get("heads", 0)),
    )


def _check_entry(file: str, where: str, name: str, source: str, plain: bool) -> None:
    """FrontMatterError unless the file has this kernel. A plain kernel may be a template or have C++ linkage."""
    if not _ENTRY.fullmatch(name):
        raise FrontMatterError(
            f"{file}: {where}.entry is {name[:80]!r}. It must be a kernel's name, or an instance such as flash<64, 32>."
        )
    if is_plain_c(source, name) or plain and parameters(source, name):
        return
    linkage = "" if plain else 'extern "C" '
    raise FrontMatterError(
        f"{file}: {where}.entry is {name!r}, and the file has no {linkage}__global__ function of that name."
    )


def _check_c_type(file: str, where: str, arg: object, c_type: str, symbol: str) -> None:
    """FrontMatterError if the signature gives a number another C type than the comment does."""
    kind = arg.partition(" ")[0] if isinstance(arg, str) and " " in arg else ""
    numbers = {spelling for spellings in C_TYPES.values() for spelling in spellings} | {*OTHER_C_TYPES}
    if (
        isinstance(arg, str)
        and (c_type.endswith("*") if kind else c_type in numbers)
        or kind
        and c_type in numbers - {*C_TYPES[kind]}
    ):
        declared = f"the type {kind}" if kind else "a pointer to a tensor"
        raise FrontMatterError(
            f"{file}: {where} is {arg!r}, {declared}, and the signature declares {c_type} {symbol}. "
            "Give both the same type."
        )


def _check_argument(file: str, where: str, arg: object) -> None:
    if isinstance(arg, str):
        kind, _, expression = arg.partition(" ")
        if expression and kind not in SCALARS:
            raise FrontMatterError(
                f"{file}: {where} is {arg!r}. A number is written as its type and an expression, of type "
                f"{scalar_kinds()}."
            )
        return
    keys = set(arg) if isinstance(arg, dict) else set()
    is_map = keys <= {"map", "box", "swizzle"} and {"map", "box"} <= keys
    others = ({"struct"}, {"texture"}, {"texture", "dimensions"}, {"tensor", "offset"}, {"null"}, {"bytes"})
    if not isinstance(arg, dict) or not (is_map or keys in others):
        raise FrontMatterError(
            f'{file}: {where} is {arg!r}. It must be a tensor\'s name, "int32 EXPRESSION", '
            f"{{map = TENSOR, box = [...] or {{AXIS = ...}}, swizzle = BYTES}}, "
            "{texture = TENSOR, dimensions = 1 or 2}, {struct = [...]}, {tensor = TENSOR, offset = BYTES}, "
            '{null = true} or {bytes = "HEX"}.'
        )
    if not re.fullmatch(r"(?:[0-9a-f]{2}){1,4096}", str(arg.get("bytes", "00"))):
        raise FrontMatterError(
            f"{file}: {where}.bytes is {shortened(repr(arg['bytes']))}. Write 1 to 4,096 bytes in hex."
        )
    if arg.get("dimensions", 1) not in (1, 2):
        raise FrontMatterError(f"{file}: {where}.dimensions is {arg['dimensions']!r}. It must be 1 or 2.")
    if arg.get("swizzle", 0) not in (0, 32, 64, 128):
        raise FrontMatterError(f"{file}: {where}.swizzle is {arg['swizzle']!r}. It must be 0, 32, 64 or 128 bytes.")
    for part in arg.get("struct", ()):
        if not isinstance(part, str) or part.partition(" ")[0] not in SCALARS or not part.partition(" ")[2]:
            raise FrontMatterError(
                f"{file}: {where}.struct holds {part!r}. A member is a type ({scalar_kinds()}) and an expression."
            )


def copies(file: str, table: Table) -> tuple[CopyText, ...]:
    entries = table.get("copies", [])
    _check_number(file, "copies", entries)
    made = []
    for number, entry in enumerate(entries):
        where = f"copies[{number}]"
        check_keys(file, where, typed(file, where, entry, dict, "a table [[copies]]"), COPY_KEYS, ("source", "target"))
        made.append(CopyText(entry["source"], entry["target"], _repeat(file, where, entry), entry.get("when", "")))
    return tuple(made)


def _repeat(file: str, where: str, entry: Table) -> Repeat:
    counts = typed(file, f"{where}.repeat", entry.get("repeat", {}), dict, "counters such as {step = 2, gpu = 4}")
    for name, count in counts.items():
        _number(file, f"{where}.repeat.{name}", count)
    return tuple(counts.items())


def _number(file: str, key: str, value: object) -> str | int:
    return value if isinstance(value, str) else typed(file, key, value, int, "a number or an expression in quotes")


CHILD_KEYS = ("entry", "grid", "block", "shared_bytes", "item", "blocks_per_item", "repeat", "when")


def parents_of(file: str, source: str, entries: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Child -> its parent, both by entry. Raises FrontMatterError. entries: the tables [[launches]]."""
    names = [str(entry.get("entry")) for entry in entries]
    found = dict[str, str]()
    for number, entry in enumerate(entries):
        where, listed = f"{file}: launches[{number}].children", entry.get("children", [])
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
            raise FrontMatterError(f"{where} is {listed!r}. It must be a list of entries in quotes.")
        for child in listed:
            if child not in names[number + 1 :]:
                raise FrontMatterError(
                    f"{where} names {child!r}, and no later launch has this entry. List the child after its parent."
                )
            if child in found:
                raise FrontMatterError(f"{where} names {child}, a child of {found[child]}. A child has one parent.")
            found[child] = names[number]
    for number, entry in enumerate(entries):
        if names[number] in found:
            _check_child(file, source, f"launches[{number}]", entry, found)
        elif entry.get("children") and (names.count(entry["entry"]) > 1 or entry.get("repeat")):
            raise FrontMatterError(f"{file}: launches[{number}] has children and is repeated. Launch a parent once.")
    return found


def _check_child(file: str, source: str, where: str, entry: dict[str, Any], parents: dict[str, str]) -> None:
    own, parent = entry["entry"], parents[entry["entry"]]
    if entry.get("children") or parent in parents:
        raise FrontMatterError(f"{file}: {where}: {own} is a child and has children. Let {parent} launch these.")
    for key in entry:
        if key not in CHILD_KEYS:
            raise FrontMatterError(
                f"{file}: {where}.{key}: {parent} launches {own}, so it has only {', '.join(CHILD_KEYS)}. Remove {key}."
            )
    given = {name for kind, name in parameters(source, parent) if kind.endswith("*")}
    for kind, name in parameters(source, own):
        if kind.endswith("*") and name not in given:
            raise FrontMatterError(
                f"{file}: {where}: {own} takes {kind} {name}, and {parent} has no pointer of this name. Give both the "
                "same name."
            )


WORDS = ("title", "idea", "changed", "costs", "limits", "source")  # the texts for readers
ProblemOf = Callable[[str, str], type[Problem]]
KEYS: Keys = {
    **dict.fromkeys((*WORDS, "family", "problem", "changed_from", "requires", "in_order", "rounds"), TEXT),
    **dict.fromkeys(("rung", "tensor_products"), (int, "a whole number")),
    **dict.fromkeys(("launches", "constants", "scratch", "tuned")),
    "initial": (dict, "a table [initial] of outputs"),
    **{"graph": FLAG, "watch": (dict, "a table [watch]"), "main": TEXT},
    **dict.fromkeys(OF_FREE[:-1]),
    **{key: (list, f"tables [[{key}]]") for key in ("conditions", "copies")},
    **dict.fromkeys(("why", "waits"), (list, "a list of texts")),
}
CONDITION_KEYS: Keys = {"must": TEXT, "message": TEXT}
CONSTANT_KEYS: Keys = {
    **{"default": None, "values": (list, "a list of whole numbers"), "names": (list, "a list of texts")},
    **{"meaning": TEXT, "what_if": TEXT, "effect": TEXT, "shows_at": ((int, float), "a number")},
}
_OPENING = re.compile(r"\A\s*/\*(.*?)\*/", re.S)
_REQUIRES = re.compile(r"(sm_\d+[af]?)(?: for (\S.*))?")


def read_kernel(path: Path, files: tuple[tuple[str, str], ...], problem_of: ProblemOf) -> KernelSpec:
    """The KernelSpec of a .cu. Raises FrontMatterError.

    files: (name, text) of the .cu and its headers.
    problem_of: (family, problem) -> the problem class, or KeyError with the known names."""
    try:
        return _read(path, files, problem_of)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:  # a value of an odd kind
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        raise FrontMatterError(
            f"{path.name}: a value of the opening comment has the wrong kind ({shortened(said)}). Compare its keys "
            "with kernels/front-matter.md."
        ) from None


def _read(path: Path, files: tuple[tuple[str, str], ...], problem_of: ProblemOf) -> KernelSpec:
    name, source = path.name, files[0][1]
    found = _OPENING.match(source)
    if not found:
        raise FrontMatterError(
            f"{name}: it does not begin with a comment /* ... */. Open the file with its front matter "
            f"(kernels/front-matter.md)."
        )
    table = parse(name, found[1])
    check_keys(name, "", table, KEYS, (*WORDS, "family", "launches"))
    try:
        problem_type = problem_of(table["family"], table.get("problem", ""))
    except KeyError as error:
        raise FrontMatterError(f"{name}: {error.args[0]}") from None
    problem_type = problem_type.declared(name, table)
    table = completed(name, table, files)
    constants = tuple(
        _constant(name, key, entry, problem_type.role_of(key))
        for key, entry in tables(name, "constants", table).items()
    )
    needs = table.get("requires", "")
    needed = _REQUIRES.fullmatch(needs)
    if needs and not needed:
        raise FrontMatterError(
            f"{name}: requires is {needs!r}. It must be an architecture such as sm_80 or sm_90a, or sm_80 for cp.async."
        )
    entries = table.get("watch", {})
    if entries and not is_plain(files):
        raise FrontMatterError(f"{name}: a kernel with written probes has no table watch. Write a PROBE_VALUE.")
    return KernelSpec(
        name=path.stem,
        path=path,
        files=files,
        family=table["family"],
        problem_type=problem_type,
        title=table["title"],
        idea=table["idea"],
        changed_from=table.get("changed_from", ""),
        changed=table["changed"],
        costs=table["costs"],
        limits=table["limits"],
        literature=table["source"],
        rung=table.get("rung", 0),
        constants=constants,
        tuned=tuple(_tuned(name, number, entry, constants) for number, entry in enumerate(table.get("tuned", []))),
        scratch=scratch(name, table),
        launch_texts=launches(name, kernels_text(files), is_plain(files), table),
        requires=needed[1] if needed else "",
        instructions=(needed[2] or "") if needed else "",
        tensor_products=table.get("tensor_products", 0),
        in_order=table.get("in_order", ""),
        rounds=table.get("rounds", ""),
        graph=table.get("graph", False),
        watch=tuple(watch_text(name, line, said) for line, said in entries.items()),
        copy_texts=copies(name, table),
        why=_of_values(name, "why", table, constants),
        waits=_of_values(name, "waits", table, constants),
        conditions=_conditions(name, table),
        initial=_initial(name, table),
    )


def _initial(file: str, table: Table) -> tuple[tuple[str, str], ...]:
    """The values of a problem's outputs before a run, where the problem leaves them open."""
    for name, value in table.get("initial", {}).items():
        if value not in [one.value for one in SET]:
            raise FrontMatterError(f"{file}: initial.{name} is {value!r}. It must be zero or lowest.")
    return tuple(table.get("initial", {}).items())


def _of_values(file: str, key: str, table: Table, constants: tuple[Constant, ...]) -> tuple[str, ...]:
    """A text for each named value of the constants, or one for a kernel without named values."""
    texts = table.get(key, [])
    for text in texts:
        typed(file, key, text, str, "texts in quotes")
    named = sum(len(constant.names) for constant in constants) or 1
    if texts and len(texts) != named:
        raise FrontMatterError(f"{file}: {key} has {len(texts)} texts for {named} named values. Write one for each.")
    return tuple(texts)


def _constant(file: str, name: str, entry: Table, role: ConstantRole | None) -> Constant:
    where = f"constants.{name}"
    check_keys(file, where, entry, CONSTANT_KEYS, ("default", "values", "meaning"))
    values, names = entry["values"], entry.get("names", [])
    for value in (*values, entry["default"]):
        typed(file, where, value, int, "whole numbers")
    for name_of_value in names:
        typed(file, f"{where}.names", name_of_value, str, "texts in quotes")
    if names and len(names) != len(values):
        raise FrontMatterError(
            f"{file}: {where} has {len(names)} names for {len(values)} values. Give each value one name."
        )
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.A):  # it becomes -DNAME=value
        raise FrontMatterError(f"{file}: {where} is not a name in C. Use letters, digits and _.")
    if entry["default"] not in values:
        raise FrontMatterError(
            f"{file}: {where}.default is {entry['default']}, which is not among its values {values}. Add it to them."
        )
    if ("what_if" in entry) != ("effect" in entry):
        raise FrontMatterError(
            f"{file}: {where} has only one of what_if and effect. A what-if build needs both: its name, and what "
            f"goes wrong."
        )
    return Constant(
        name,
        entry["default"],
        tuple(values),
        entry["meaning"],
        entry.get("what_if", ""),
        entry.get("effect", ""),
        float(entry.get("shows_at", 1.0)),
        role,
        tuple(names),
    )


def _conditions(file: str, table: Table) -> tuple[Condition, ...]:
    entries = table.get("conditions", [])
    for number, entry in enumerate(entries):
        where = f"conditions[{number}]"
        typed(file, where, entry, dict, "a table [[conditions]]")
        check_keys(file, where, entry, CONDITION_KEYS, ("must", "message"))
    return tuple(Condition(entry["must"], entry["message"]) for entry in entries)


def _tuned(file: str, number: int, entry: Table, constants: tuple[Constant, ...]) -> Tuned:
    where = f"tuned[{number}]"
    if "when" not in typed(file, where, entry, dict, "a table [[tuned]]"):
        raise FrontMatterError(
            f"{file}: the key {where}.when is missing. Say for which problems the constants hold, or true."
        )
    known = {c.name: c for c in constants}
    chosen = {key: value for key, value in entry.items() if key != "when"}
    for key, value in chosen.items():
        if key not in known or value not in known[key].values:
            raise FrontMatterError(
                f"{file}: {where}.{key} is {value!r}. It must be a value of one of the constants "
                f"{', '.join(known) or 'none'}."
            )
    return Tuned(str(entry["when"]), tuple(chosen.items()))
