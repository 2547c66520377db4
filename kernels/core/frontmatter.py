"""Reads the opening comment of a .cu, which is TOML, into a KernelSpec. An error is one line: file, key, fault, remedy.

The keys and their meanings are in kernels/front-matter.md. KEYS and CONSTANT_KEYS are the same lists, and so are those
in plan_tables.py. A test compares them.
"""

import re
from collections.abc import Callable
from pathlib import Path

from kernels.core import plan_tables
from kernels.core.fields import shortened
from kernels.core.launch import Condition, Constant, ConstantRole, Tuned
from kernels.core.problem import Problem
from kernels.core.sources import is_plain
from kernels.core.spec import KernelSpec
from kernels.core.toml_tables import FLAG, TEXT, Keys, Table, check_keys, completed, parse, tables, typed
from kernels.core.watch import watch_text
from kernels.errors import FrontMatterError

WORDS = ("title", "idea", "changed", "costs", "limits", "source")  # the texts for readers
ProblemOf = Callable[[str, str], type[Problem]]
KEYS: Keys = {
    **dict.fromkeys((*WORDS, "family", "problem", "formerly", "changed_from", "requires", "in_order", "rounds"), TEXT),
    **dict.fromkeys(("rung", "tensor_products"), (int, "a whole number")),
    **dict.fromkeys(("launches", "constants", "scratch", "tuned")),
    **{"graph": FLAG, "watch": (dict, "a table [watch]")},
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
        scratch=plan_tables.scratch(name, table),
        launch_texts=plan_tables.launches(name, source, is_plain(files), table),
        requires=needed[1] if needed else "",
        instructions=(needed[2] or "") if needed else "",
        tensor_products=table.get("tensor_products", 0),
        formerly=table.get("formerly", ""),
        in_order=table.get("in_order", ""),
        rounds=table.get("rounds", ""),
        graph=table.get("graph", False),
        watch=tuple(watch_text(name, line, said) for line, said in entries.items()),
        copy_texts=plan_tables.copies(name, table),
        why=_of_values(name, "why", table, constants),
        waits=_of_values(name, "waits", table, constants),
        conditions=_conditions(name, table),
    )


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
