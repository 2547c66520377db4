"""Reads the opening comment of a .cu, which is TOML, into a KernelSpec. An error is one line: file, key, fault, remedy.

The keys and their meanings are in kernels/front-matter.md. KEYS, LAUNCH_KEYS and so on are the same lists. A test
compares them.
"""

import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernels.core.copies import CopyText, Repeat
from kernels.core.dtypes import DTYPES
from kernels.core.fields import nearest, shortened
from kernels.core.launch import Condition, Constant, ConstantRole, LaunchText, ScratchText, Tuned
from kernels.core.planning import SCALARS, dtype_names, scalar_kinds
from kernels.core.problem import Problem
from kernels.core.signatures import C_TYPES, OTHER_C_TYPES, is_plain_c, parameters
from kernels.core.sources import includes, is_plain
from kernels.core.spec import KernelSpec
from kernels.core.streams import ORDER_KEYS, check_order, order_of
from kernels.core.watch import WatchText, watch_text
from kernels.errors import FrontMatterError

WORDS = ("title", "idea", "changed", "costs", "limits", "source")  # the texts for readers
ProblemOf = Callable[[str, str], type[Problem]]
KEYS = (
    *WORDS,
    "family",
    "launches",
    "problem",
    "rung",
    "formerly",
    "changed_from",
    "requires",
    "tensor_products",
    "in_order",
    "constants",
    "conditions",
    "tuned",
    "scratch",
    "copies",
    "watch",
    "graph",
)
CONDITION_KEYS = ("must", "message")
CONSTANT_KEYS = ("default", "values", "names", "meaning", "what_if", "effect", "shows_at")
LAUNCH_KEYS = (
    *("entry", "grid", "block", "args", "shared_bytes", "item", "blocks_per_item", "cluster", "cooperative"),
    *ORDER_KEYS,
    *("device", "repeat", "when"),
)
SCRATCH_KEYS = ("shape", "axes", "dtype", "initial", "device", "repeat")
COPY_KEYS = ("source", "target", "repeat", "when")
_OPENING = re.compile(r"\A\s*/\*(.*?)\*/", re.S)
_SHARED = re.compile(r"\A\s*/\*(\s*\[constants\b.*?)\*/", re.S)  # of a header
_ARCHITECTURE = re.compile(r"sm_\d+[af]?")

Table = dict[str, Any]  # of TOML


def read_kernel(path: Path, files: tuple[tuple[str, str], ...], problem_of: ProblemOf) -> KernelSpec:
    """The KernelSpec of a .cu. Raises FrontMatterError.

    files: (name, text) of the .cu and its headers.
    problem_of: (family, problem) -> the problem class, or KeyError with the known names.
    """
    try:
        return _read(path, files, problem_of)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:  # a value of an odd kind
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        raise FrontMatterError(
            f"{path.name}: a value of the opening comment has the wrong kind ({shortened(said)}). Compare its keys "
            "with kernels/front-matter.md."
        ) from None


def _toml(name: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FrontMatterError(f"{name}: the opening comment is not TOML: {error}. Put texts in quotes.") from None
    except (ValueError, RecursionError) as error:
        raise FrontMatterError(
            f"{name}: the opening comment cannot be read ({shortened(str(error))}). Nest fewer tables, and write "
            "shorter numbers."
        ) from None


def _read(path: Path, files: tuple[tuple[str, str], ...], problem_of: ProblemOf) -> KernelSpec:
    name, source = path.name, files[0][1]
    found = _OPENING.match(source)
    if not found:
        raise FrontMatterError(
            f"{name}: it does not begin with a comment /* ... */. Open the file with its front matter "
            f"(kernels/front-matter.md)."
        )
    table = _toml(name, found[1])
    _check_keys(name, "", table, KEYS, (*WORDS, "family", "launches"))
    for key in (*WORDS, "family", "problem", "formerly", "changed_from", "requires", "in_order"):
        _typed(name, key, table.get(key, ""), str, "a text in quotes")
    for key in ("rung", "tensor_products"):
        _typed(name, key, table.get(key, 0), int, "a whole number")
    try:
        problem_type = problem_of(table["family"], table.get("problem", ""))
    except KeyError as error:
        raise FrontMatterError(f"{name}: {error.args[0]}") from None
    constants = _constants(name, table, _shared_constants(files), problem_type)
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
        scratch=tuple(_scratch(name, key, entry) for key, entry in _tables(name, "scratch", table).items()),
        launch_texts=_launches(name, source, is_plain(files), table["launches"]),
        requires=_requires(name, table.get("requires", "")),
        tensor_products=table.get("tensor_products", 0),
        formerly=table.get("formerly", ""),
        in_order=table.get("in_order", ""),
        graph=_typed(name, "graph", table.get("graph", False), bool, "true or false"),
        watch=_watch(name, is_plain(files), table),
        copy_texts=_copies(name, table),
        conditions=_conditions(
            name, _typed(name, "conditions", table.get("conditions", []), list, "tables [[conditions]]")
        ),
    )


def _requires(file: str, said: str) -> str:
    if said and not _ARCHITECTURE.fullmatch(said):
        raise FrontMatterError(f"{file}: requires is {said!r}. It must be an architecture such as sm_80 or sm_90a.")
    return said


def _watch(file: str, plain: bool, table: Table) -> tuple[WatchText, ...]:
    entries = _typed(file, "watch", table.get("watch", {}), dict, "a table [watch]")
    if entries and not plain:
        raise FrontMatterError(f"{file}: a kernel with written probes has no table watch. Write a PROBE_VALUE.")
    return tuple(watch_text(file, line, said) for line, said in entries.items())


def _constants(name: str, table: Table, shared: dict[str, Table], problem_type: type[Problem]) -> tuple[Constant, ...]:
    return tuple(
        _constant(name, key, _completed(entry, shared.get(key, {})), problem_type.role_of(key))
        for key, entry in _tables(name, "constants", table).items()
    )


def _shared_constants(files: tuple[tuple[str, str], ...]) -> dict[str, Table]:
    """The constants in the opening comments of headers: name -> keys. A header overrides its own includes."""
    texts, shared, seen = dict(files), dict[str, Table](), set[str]()

    def read(name: str) -> None:
        seen.add(name)
        for _, header in includes(name, texts[name]):
            if header in texts and header not in seen:
                read(header)
        if found := _SHARED.match(texts[name]):
            shared.update(_tables(name, "constants", _toml(name, found[1])))

    read(files[0][0])
    return shared


def _completed(entry: Table, shared: Table) -> Table:
    """A kernel's constant. If it has no `meaning`, it takes its missing keys from the header's."""
    return entry if "meaning" in entry else {**shared, **entry}


def _check_keys(file: str, where: str, table: Table, known: tuple[str, ...], needed: tuple[str, ...]) -> None:
    prefix = f"{where}." if where else ""
    for key in table:
        if key not in known:
            names = f"There are {', '.join(known)}.{nearest(key, known)}"
            raise FrontMatterError(f"{file}: there is no key {prefix}{key}. {names}")
    for key in needed:
        if key not in table:
            raise FrontMatterError(
                f"{file}: the key {prefix}{key} is missing. Add it (kernels/front-matter.md has its meaning)."
            )


def _typed(file: str, key: str, value: Any, kind: type | tuple[type, ...], said: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool) and kind is int:
        raise FrontMatterError(f"{file}: {key} is {value!r}. It must be {said}.")
    return value


def _tables(file: str, key: str, table: Table) -> dict[str, Table]:
    """name -> table. A key in quotes may name several: each of "A, B" has the same table."""
    found: dict[str, Table] = {}
    for names, entry in _typed(file, key, table.get(key, {}), dict, f"tables such as [{key}.NAME]").items():
        for name in (part.strip() for part in names.split(",")):
            if name in found:
                raise FrontMatterError(f"{file}: {key}.{name} is there twice. Keep one of them.")
            found[name] = _typed(file, f"{key}.{name}", entry, dict, f"a table [{key}.{name}]")
    return found


def _constant(file: str, name: str, entry: Table, role: ConstantRole | None) -> Constant:
    where = f"constants.{name}"
    _check_keys(file, where, entry, CONSTANT_KEYS, ("default", "values", "meaning"))
    values = _typed(file, f"{where}.values", entry["values"], list, "a list of whole numbers")
    for value in (*values, entry["default"]):
        _typed(file, where, value, int, "whole numbers")
    names = _typed(file, f"{where}.names", entry.get("names", []), list, "a list of texts")
    for name_of_value in names:
        _typed(file, f"{where}.names", name_of_value, str, "texts in quotes")
    if names and len(names) != len(values):
        raise FrontMatterError(
            f"{file}: {where} has {len(names)} names for {len(values)} values. Give each value one name."
        )
    for key in ("meaning", "what_if", "effect"):
        _typed(file, f"{where}.{key}", entry.get(key, ""), str, "a text in quotes")
    _typed(file, f"{where}.shows_at", entry.get("shows_at", 1.0), (int, float), "a number")
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


def _conditions(file: str, entries: list[Table]) -> tuple[Condition, ...]:
    for number, entry in enumerate(entries):
        where = f"conditions[{number}]"
        _check_keys(
            file, where, _typed(file, where, entry, dict, "a table [[conditions]]"), CONDITION_KEYS, CONDITION_KEYS
        )
        for key in CONDITION_KEYS:
            _typed(file, f"{where}.{key}", entry[key], str, "a text in quotes")
    return tuple(Condition(entry["must"], entry["message"]) for entry in entries)


def _tuned(file: str, number: int, entry: Table, constants: tuple[Constant, ...]) -> Tuned:
    where = f"tuned[{number}]"
    if "when" not in _typed(file, where, entry, dict, "a table [[tuned]]"):
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


def _scratch(file: str, name: str, entry: Table) -> ScratchText:
    where = f"scratch.{name}"
    _check_keys(file, where, entry, SCRATCH_KEYS, ("shape", "axes"))
    if entry.get("dtype", "float32") not in (*DTYPES, "dtype"):
        raise FrontMatterError(f"{file}: {where}.dtype is {entry['dtype']!r}. It must be one of {dtype_names()}.")
    if entry.get("initial", "poison") not in ("poison", "zero", "restored"):
        raise FrontMatterError(f"{file}: {where}.initial is {entry['initial']!r}. It must be poison, zero or restored.")
    for key, kind in (("shape", (str, int)), ("axes", str)):
        for value in _typed(file, f"{where}.{key}", entry[key], list, "a list"):
            _typed(file, f"{where}.{key}", value, kind, "a list of sizes" if key == "shape" else "a list of names")
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
        _typed(file, f"{where}.device", entry.get("device", 0), (str, int), "a number or an expression in quotes"),
        _repeat(file, where, entry),
    )


def _copies(file: str, table: Table) -> tuple[CopyText, ...]:
    entries = _typed(file, "copies", table.get("copies", []), list, "tables [[copies]]")
    made = []
    for number, entry in enumerate(entries):
        where = f"copies[{number}]"
        _check_keys(file, where, _typed(file, where, entry, dict, "a table [[copies]]"), COPY_KEYS, COPY_KEYS[:2])
        for key in ("source", "target", "when"):
            _typed(file, f"{where}.{key}", entry.get(key, ""), str, "a text in quotes")
        made.append(CopyText(entry["source"], entry["target"], _repeat(file, where, entry), entry.get("when", "")))
    return tuple(made)


def _repeat(file: str, where: str, entry: Table) -> Repeat:
    counts = _typed(file, f"{where}.repeat", entry.get("repeat", {}), dict, "counters such as {step = 2, gpu = 4}")
    for name, count in counts.items():
        _typed(file, f"{where}.repeat.{name}", count, (str, int), "a number or an expression in quotes")
    return tuple(counts.items())


def _launches(file: str, source: str, plain: bool, entries: Any) -> tuple[LaunchText, ...]:
    _typed(file, "launches", entries, list, "tables [[launches]]")
    if not entries:
        raise FrontMatterError(f"{file}: launches is empty. A kernel has at least one table [[launches]].")
    made = [_launch(file, source, plain, number, entry) for number, entry in enumerate(entries)]
    check_order(file, entries)
    return tuple(replace(text, **order_of(entry)) for text, entry in zip(made, entries))


def _launch(file: str, source: str, plain: bool, number: int, entry: Table) -> LaunchText:
    where = f"launches[{number}]"
    _check_keys(file, where, entry, LAUNCH_KEYS, ("entry", "grid", "block", "args"))
    name = _typed(file, f"{where}.entry", entry["entry"], str, "a text in quotes")
    _typed(file, f"{where}.item", entry.get("item", ""), str, "a text in quotes")
    _check_entry(file, where, name, source, plain)
    for key in ("grid", "block", "cluster"):
        sizes = entry.get(key, [1])
        if not isinstance(sizes, list) or not 1 <= len(sizes) <= 3 or not all(isinstance(s, (str, int)) for s in sizes):
            raise FrontMatterError(
                f"{file}: {where}.{key} is {sizes!r}. It must be a list of one to three sizes: numbers or "
                f"expressions in quotes."
            )
    args = _typed(file, f"{where}.args", entry["args"], list, "a list, in the order of the signature")
    for n, arg in enumerate(args):
        _check_argument(file, f"{where}.args[{n}]", arg)
    found = parameters(source, name)
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
        _typed(file, f"{where}.cooperative", entry.get("cooperative", False), bool, "true or false"),
        device=_typed(
            file, f"{where}.device", entry.get("device", 0), (str, int), "a number or an expression in quotes"
        ),
        repeat=_repeat(file, where, entry),
        when=_typed(file, f"{where}.when", entry.get("when", ""), str, "a condition in quotes"),
    )


def _check_entry(file: str, where: str, name: str, source: str, plain: bool) -> None:
    """FrontMatterError unless the file has this kernel. A plain kernel may be a template or have C++ linkage."""
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
    if not isinstance(arg, dict) or not (is_map or keys in ({"struct"}, {"texture"})):
        raise FrontMatterError(
            f'{file}: {where} is {arg!r}. It must be a tensor\'s name, "int32 EXPRESSION", '
            f"{{map = TENSOR, box = [...] or {{AXIS = ...}}, swizzle = BYTES}}, "
            "{texture = TENSOR} or {struct = [...]}."
        )
    if arg.get("swizzle", 0) not in (0, 32, 64, 128):
        raise FrontMatterError(f"{file}: {where}.swizzle is {arg['swizzle']!r}. It must be 0, 32, 64 or 128 bytes.")
    for part in arg.get("struct", ()):
        if not isinstance(part, str) or part.partition(" ")[0] not in SCALARS or not part.partition(" ")[2]:
            raise FrontMatterError(
                f"{file}: {where}.struct holds {part!r}. A member is a type ({scalar_kinds()}) and an expression."
            )
