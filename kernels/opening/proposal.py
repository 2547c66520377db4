"""The proposal of a front matter for an untouched .cu, each part with its source."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard

from kernels.build.plain.tokens import bare, line_of
from kernels.core.sources import C_TYPES, function_of, parameters
from kernels.core.tensors import Role
from kernels.errors import ProblemError
from kernels.opening import host
from kernels.opening.asking import LAST_LINE, say, size_guess, tiles_guess
from kernels.opening.blocks import ANY_SIZE, GUESS, NO_SIZE, block_of
from kernels.opening.filled import initial_of
from kernels.opening.host import HostLaunch, host_words
from kernels.opening.launches import OPEN, host_text
from kernels.opening.matching import LANES, Fit, Meaning, Parameter, plain, tensor_of, with_dtype
from kernels.opening.names import Names, arguments_of, conditions_of, divisors_of
from kernels.opening.sites import folded, values_of
from kernels.opening.versions import versions_of

_MALLOC = re.compile(r"\bcudaMalloc(?:Managed|Async)?\s*\(\s*(?:\(void\s*\*\*\)\s*)?&\s*(\w+)\s*,\s*([^;]*?)\)\s*[;)]")
_ELEMENT = re.compile(r"(?:\*\s*+)?\bsizeof\s*+\(\s*+(\w++)\s*+\)(?:\s*+\*)?")


@dataclass
class Scratch:
    """The scratch memory of a file.

    names: a parameter's name -> the name of its memory.
    tables: [scratch.NAME] of the front matter."""

    names: dict[str, str] = field(default_factory=dict)
    tables: dict[str, dict[str, object]] = field(default_factory=dict)
    lines: list[tuple[str, str, str]] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)


def scratch_of(
    text: str, fit: Fit, listed: list[Parameter], launches: list[HostLaunch], meaning: Meaning, said: Mapping[str, str]
) -> Scratch:
    found, memories = Scratch(), dict[str, str]()  # the host's name of a memory -> its name
    for one in listed:
        if not one.is_pointer or one.name in fit.tensors or one.name in found.names:
            continue
        buffer = _buffer(one, launches, listed)
        taken = {tensor.name for tensor in fit.shown.tensors()}
        name = next(n for n in (plain(one.name), f"{plain(one.name)}_scratch") if n not in taken)
        name = memories.setdefault(buffer, name)
        found.names[one.name] = name
        if name in found.tables:
            continue
        size, source = _size(text, one, buffer, launches, meaning, fit, said)
        known = fit.intermediate(one.name) if not size else ()
        axes = [axis for axis, _ in known] or ["element"]
        shape: list[str | int] = [part for _, part in known] or [size or "1"]
        if not size and not known:
            rows = any(fit.intermediate(part) for part in one.name.split("_"))  # out_l is a number of each row
            found.questions.append(f"the elements of {one.name}. {say(one.name, 'seq_len' if rows else '')}")
        if (lanes := LANES.get(one.c_type.rstrip("* "), 1)) > 1:
            axes, shape = [*axes, "lane"], [*shape, lanes]
        table: dict[str, object] = {"shape": shape, "axes": axes, "dtype": one.dtype or "float32"}
        initial, filled = initial_of(text, buffer)
        if initial:
            table["initial"] = initial
            found.lines.append((f"initial {name}", initial, filled))
        found.tables[name] = table
        shown = " x ".join(map(str, shape)) if size or known else "?"
        found.lines.append((f"scratch {name}", f"{shown} of {table['dtype']}", source or "its name" * bool(known)))
    return found


def _buffer(one: Parameter, launches: list[HostLaunch], listed: list[Parameter]) -> str:
    """The host's name of the memory behind a pointer, or the pointer's own name."""
    for launch in launches:
        symbols = [p.name for p in listed if p.entry == launch.entry]
        if one.entry == launch.entry and one.name in symbols and symbols.index(one.name) < len(launch.args):
            return launch.args[symbols.index(one.name)]
    return one.name


def _size(
    text: str,
    one: Parameter,
    buffer: str,
    launches: list[HostLaunch],
    meaning: Meaning,
    fit: Fit,
    said: Mapping[str, str],
) -> tuple[str, str]:
    if one.name in said:
        return said[one.name], "--say"
    launch = next((launch for launch in launches if launch.entry == one.entry), launches[0])
    for found in _MALLOC.finditer(bare(text)):
        if plain(found[1]) != plain(buffer):
            continue
        line = line_of(text, found.start())
        elements = _ELEMENT.sub("", found[2]) if _ELEMENT.search(found[2]) else ""
        names = Names(text, meaning, arguments_of(launch, [one.name], meaning), fit.allowed)
        return names.expression(elements, line) or "" if elements else "", f"line {line}: cudaMalloc"
    return "", ""


_TEMPLATE = re.compile(r"\A\s*template\s*<([^<>]*)>")
_TYPEDEF = re.compile(r"\btypedef\s+([\w ]+?)\s+(\w+)\s*;|\busing\s+(\w+)\s*=\s*([\w ]+?)\s*;")

QUERY_TILE = "query tile"  # the item of the stories of attention


@dataclass
class Proposal:
    """A front matter with its sources.

    lines: (part, value, source), for the reader.
    questions: parts without a source, each with the option that answers it.
    given: a field -> its only value, from an instance of a template.
    numbers: a name of the host by which it divides a size -> its number."""

    fit: Fit
    table: dict[str, object] = field(default_factory=dict)
    lines: list[tuple[str, str, str]] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    given: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def text_of(self, source: str) -> str:
        return written(self.table) + source

    def report(self) -> list[str]:
        widths = [max(len(line[n]) for line in self.lines) for n in (0, 1)]
        shown = [f"{part:{widths[0]}}  {value:{widths[1]}}  {source}".rstrip() for part, value, source in self.lines]
        return [*shown, *(f"unknown: {question}" for question in self.questions)]


def launches_of(text: str, entry: str = "") -> list[HostLaunch]:
    """The launches of a version of a file, each once (versions.py). entry: a kernel of the version, or ""."""
    return list(versions_of(text, entry).launches)


def parameters_of(text: str, launches: list[HostLaunch]) -> list[Parameter]:
    """The parameters of the launched kernels. Raises ProblemError without one."""
    found = []
    for entry in dict.fromkeys(launch.entry for launch in launches):
        known = {
            **{found[2] or found[3]: found[1] or found[4] for found in _TYPEDEF.finditer(bare(text))},
            **dict(zip(template_parameters(text, function_of(entry)), values_of(entry))),
        }
        found += [with_dtype(Parameter(entry, *pair), known) for pair in parameters(text, entry)]
    if not found:
        names = ", ".join(dict.fromkeys(launch.entry for launch in launches))
        if not names:
            raise ProblemError("The file has no __global__ function, so it proposes nothing.")
        raise ProblemError(
            f"The file launches {names}, and it shows no parameters of {'it' if len(launches) == 1 else 'them'}. Put "
            "the header with the kernel next to the file."
        )
    return found


def propose(path: Path, text: str, fit: Fit, launches: list[HostLaunch], said: Mapping[str, str]) -> Proposal:
    """The proposal for a file. said: answers of the user: grid, block, shared_bytes or a parameter's name -> value."""
    made, text = Proposal(fit), host_text(text)
    listed = parameters_of(text, launches)
    meaning = _folding(fit, text, listed)
    scratch = scratch_of(text, fit, listed, launches, meaning, said)
    made.table = {**words_of(path, fit.family), "problem": fit.problem}
    tensors = ", ".join(dict.fromkeys(fit.tensors.values()))
    made.lines.append(("family", f"{fit.family}, problem {fit.problem}", f"its tensors {tensors}"))
    entries = [_launch(made, text, launch, meaning, scratch.names, said) for launch in launches]
    if len(entries) == 1 and _by_queries(fit, entries[0]["grid"]):
        entries[0]["item"] = QUERY_TILE
        made.lines.append(("  item", QUERY_TILE, "its grid"))
    conditions = conditions_of(fit, text, entries, made.given, made.numbers)
    if conditions:
        made.table["conditions"] = conditions
        made.lines += [("condition", entry["must"], entry["message"]) for entry in conditions]
    for one in listed:
        role = tensor_of(fit.shown, fit.tensors[one.name]).role if one.name in fit.tensors else None
        initial, filled = initial_of(text, _buffer(one, launches, listed)) if role is Role.OUTPUT else ("", "")
        if initial:
            made.table.setdefault("initial", {})[fit.tensors[one.name]] = initial  # type: ignore[index]
            made.lines.append((f"initial {fit.tensors[one.name]}", initial, filled))
    if scratch.tables:
        made.table["scratch"] = scratch.tables
        made.lines += scratch.lines
    made.questions += scratch.questions
    made.table["launches"] = entries
    return made


def words_of(path: Path, family: str) -> dict[str, object]:
    """The words of a proposal's front matter, and its family."""
    return {
        "title": path.stem.replace("_", " ").capitalize(),
        "idea": f"a kernel of {path.name}, as it is.",
        "changed": "nothing.",
        "costs": "not described.",
        "limits": "see conditions.",
        "source": path.name,
        "family": family,
    }


_WARPS = re.compile(r"threadIdx\.x\s*(?:[/%&]|>>)\s*\w+")  # a block of any number of warps


def _by_queries(fit: Fit, grid: object) -> bool:
    """Whether the blocks of a grid divide the queries in x, and nothing but heads elsewhere."""
    queries = dict(fit.shown.intermediates.get("m", ())).get("query", "")
    first, *rest = map(str, grid) if isinstance(grid, list) else [""]
    divided = first == queries or first.startswith(f"ceil_div({queries},")
    return bool(queries) and divided and not any(queries in size or size.isdigit() and size != "1" for size in rest)


def _launch(
    made: Proposal, text: str, launch: HostLaunch, meaning: Meaning, scratch: Mapping[str, str], said: Mapping[str, str]
) -> dict[str, object]:
    listed = [Parameter(launch.entry, *pair) for pair in parameters(text, launch.entry)]
    origin = f"line {launch.line}" if launch.line else "a guess from the kernel's indices"
    instance = _instance(made, text, launch, meaning, said)
    known = {**dict(launch.values), **arguments_of(launch, [p.name for p in listed], meaning), **instance}
    names = Names(text, meaning, known, made.fit.allowed)
    divisors = {name: folded(names.expression(name, launch.line) or "") for name in divisors_of(text)}
    made.numbers |= {name: int(size) for name, size in divisors.items() if size.isdigit()}
    values = ", ".join(instance.values())
    called = f"{function_of(launch.entry)}<{values}>" if instance else launch.entry
    entry: dict[str, object] = {"entry": called}
    made.lines.append(("kernel", called, origin))
    for key, sizes in _sizes(text, launch, names, said).items():
        if sizes is None:
            made.questions.append(f"the {key} of {launch.entry}. {say(key, size_guess(key, listed, names))}")
        sizes = sizes or ["1"]
        entry[key] = [int(size) if size.isdigit() else size for size in sizes]
        made.lines.append((f"  {key}", ", ".join(sizes), "--say" if key in said else origin))
    shared = said.get("shared_bytes") or (names.expression(launch.shared, launch.line) if launch.shared else "0")
    if shared is None or not launch.line and "extern __shared__" in bare(text) and "shared_bytes" not in said:
        made.questions.append(f"the dynamic shared memory of {launch.entry}. Say it with --say shared_bytes=EXPRESSION")
    elif shared != "0":
        entry["shared_bytes"] = shared
        made.lines.append(("  shared_bytes", shared, "--say" if "shared_bytes" in said else origin))
    args = entry["args"] = list[str]()
    for number, one in enumerate(listed):
        value, source = _argument(one, number, launch, names, made.fit, scratch, said)
        if not value:
            value = "int32 0"
            guess = tiles_guess(one.name, names)
            made.questions.append(f"{one.c_type} {one.name} of {launch.entry}. {say(one.name, guess)}")
        args.append(value)
        made.lines.append((f"  {one.c_type} {one.name}", value, source))
    if launch.cooperative:
        entry["cooperative"] = True
        made.lines.append(("  cooperative", "true", origin))
    return entry


def _argument(
    one: Parameter,
    number: int,
    launch: HostLaunch,
    names: Names,
    fit: Fit,
    scratch: Mapping[str, str],
    said: Mapping[str, str],
) -> tuple[str, str]:
    """(value, source) of an argument, or ("", "") without a source."""
    if one.is_pointer:
        if one.name in fit.tensors:
            return fit.tensors[one.name], "its name and type"
        return scratch.get(one.name, ""), "no tensor of the problem: scratch memory"
    kind = next((kind for kind, spellings in C_TYPES.items() if one.c_type in spellings), "int32")
    if one.name in said:
        return f"{kind} {said[one.name]}", "--say"
    if meant := names.meaning(one.name):
        return f"{kind} {meant}", "its name"
    given = launch.args[number] if number < len(launch.args) else ""
    expression = names.expression(given, launch.line) if given else None
    if expression is None and given in ("true", "false"):
        expression = str(int(given == "true"))
    return (f"{kind} {expression}", f"line {launch.line}") if expression is not None else ("", "")


def _sizes(text: str, launch: HostLaunch, names: Names, said: Mapping[str, str]) -> dict[str, list[str] | None]:
    found: dict[str, list[str] | None] = {}
    if launch.line:
        found = {"grid": names.sizes(launch.grid, launch.line), "block": names.sizes(launch.block, launch.line)}
    else:
        body = host.body_of(text, launch.entry)

        def number(one: str) -> str | None:
            return names.expression(one, LAST_LINE)

        block, source, _ = block_of(body, number)
        block = GUESS if source == ANY_SIZE and len(block) == 1 else block
        is_open = source == NO_SIZE and not _WARPS.search(body)
        found = {"grid": host.grid_of(body, block, number), "block": None if is_open else block}
    return {key: host.parts(said[key]) if key in said else found[key] for key in found}


def _instance(
    made: Proposal, text: str, launch: HostLaunch, meaning: Meaning, said: Mapping[str, str]
) -> dict[str, str]:
    """A template's parameters -> their values: a problem's macro if both mean one field, else the text's own.

    If other numbers of the instance follow from a field, this field has the instance's value, and a condition."""
    entry = launch.entry
    names = template_parameters(text, function_of(entry))
    given = values_of(entry)
    problem = made.fit.shown
    values = dict[str, str]()
    for number, name in enumerate(names):
        meant = meaning(name)
        macro = next((macro for macro in problem.defines if macro.lower() == meant.lower()), "") if meant else ""
        own = given[number] if number < len(given) and given[number] != OPEN else ""
        if launch.derived and own.isdigit() and macro:
            made.given[macro.lower()], macro = int(own), ""
        value = said.get(name) or macro or own
        if not value and re.search(rf"\b(?:typename|class)\s+{name}\b", host.body_of(text, function_of(entry))):
            value = "float"
        if not value:
            made.questions.append(f"{name} of the template {function_of(entry)}. Say it with --say {name}=NUMBER")
        values[name] = value or "1"
    return values


def template_parameters(text: str, kernel: str) -> list[str]:
    found = _TEMPLATE.search(bare(host.body_of(text, kernel)))
    listed = found[1].split(",") if found else []
    return [re.findall(r"\w+", part.partition("=")[0])[-1] for part in listed if part.strip()]


def _folding(fit: Fit, text: str, listed: list[Parameter]) -> Meaning:
    """Fit.meaning, with a field's whole expression if the file names no other field of it."""
    words = set(re.findall(r"[A-Za-z_]\w*", bare(text)))
    words = {word for word in words if len(word) > 1} | host_words(text) | {one.name for one in listed}
    named = {fit.meaning(word) for word in words}
    if host.TWO.search(bare(text)):  # a grid of batch by heads
        return fit.meaning
    folded = dict[str, str]()
    for name, expression in fit.shown.folded.items():
        others = set(re.findall(r"[A-Za-z_]\w*", expression)) - {name}
        if not others & named:
            folded[name] = expression

    def meaning(name: str) -> str:
        meant = fit.meaning(name)
        return folded.get(meant, meant)

    return meaning


def written(table: dict[str, object]) -> str:
    """The comment of a table: texts first, then lists of tables and tables."""
    lines = ["/*"]
    simple = {key: value for key, value in table.items() if not isinstance(value, dict) and not _is_tables(value)}
    lines += [f"{key} = {_value(value)}" for key, value in simple.items()]
    for key, value in table.items():
        if isinstance(value, dict) and not all(isinstance(entry, dict) for entry in value.values()):
            lines += ["", f"[{key}]", *(f"{name} = {_value(held)}" for name, held in value.items())]
            continue
        for entry in value if _is_tables(value) else ():
            lines += ["", f"[[{key}]]", *(f"{name} = {_value(held)}" for name, held in entry.items())]
        for name, entry in value.items() if isinstance(value, dict) else ():
            lines += ["", f"[{key}.{name}]", *(f"{word} = {_value(held)}" for word, held in entry.items())]
    return "\n".join([*lines, "*/", ""])


def _is_tables(value: object) -> TypeGuard[list[dict[str, object]]]:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, dict) for entry in value)


def _value(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name} = {_value(held)}' for name, held in value.items())}}}"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # nan, inf and -inf are TOML too
    text = json.dumps(value, ensure_ascii=False)  # a text of JSON is one of TOML
    return text.replace("*/", "* /")
