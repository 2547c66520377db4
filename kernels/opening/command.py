"""python -m kernels open FILE.cu: a proposal for an untouched .cu, and the front matter above its text."""

import argparse
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import cast

from kernels import catalog, families
from kernels.build.plain.includes import left_out
from kernels.build.plain.tokens import bare
from kernels.core.cases import sample
from kernels.core.fields import field_values, fields_of, write_value
from kernels.core.frontmatter import read_kernel
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.sources import function_of, read_files, read_text
from kernels.core.spec import KernelSpec
from kernels.errors import BackendUnavailable, FrontMatterError, ProblemError, RunError
from kernels.jail import why_none
from kernels.opening import free, guesses, host, matching, proposal, smaller
from kernels.opening.host import has_main
from kernels.opening.matching import Fit, Parameter, changed, shaping, tensor_of, trusted
from kernels.opening.proposal import Proposal
from kernels.opening.ran import Ran, RanLaunch
from kernels.opening.sites import values_of
from kernels.opening.trial import Reach, reach, request_of
from kernels.opening.versions import Versions, arguments_of, versions_of
from kernels.run import options, workers

TRIAL_SECONDS = 60.0
MOST_TRIED = 129  # values of a field that no number of the launches gives


def problem_of(
    fit: Fit, listed: list[Parameter], launches: tuple[RanLaunch, ...], entries: Iterable[str] = ()
) -> Problem | None:
    """The problem with the numbers and sizes of the launches, or None. entries: as the proposal names them."""
    given, sizes = _given(fit, listed, launches)
    given |= _of_instances(fit, launches, entries)
    problem = changed(fit.shown, **given) if given else fit.shown
    if problem is None:
        return None
    missing = [name for name in shaping(problem) if name not in given and name not in problem.follows]
    ones = {name: 1 for name in missing if fields_of(problem.problem_type)[name].metadata["low"] == 1}
    problem = changed(problem, **ones) or problem
    if _fits(problem, sizes):
        return problem
    for name in reversed(missing):
        allowed = fields_of(problem.problem_type)[name].metadata["allowed"] or range(1, MOST_TRIED)
        for value in allowed:
            made = changed(problem, **{name: value})
            if made is not None and _fits(made, sizes):
                return made
    return None


def _given(
    fit: Fit, listed: list[Parameter], launches: tuple[RanLaunch, ...]
) -> tuple[dict[str, object], dict[str, int]]:
    known = field_values(fit.shown)
    given, sizes = dict[str, object](), dict[str, int]()
    for launch in launches:
        ran = {function_of(launch.entry), function_of(launch.function)}  # its text may name an instance otherwise
        for one, argument in zip((p for p in listed if function_of(p.entry) in ran), launch.args):
            if one.is_pointer and one.name in fit.tensors and argument.memory >= 0:
                sizes[fit.tensors[one.name]] = argument.bytes
            meant = "" if one.is_pointer else fit.meaning(one.name)
            if meant in known and argument.value is not None:
                default = known[meant]
                value = argument.value or 0.0
                given[meant] = (
                    bool(value) if isinstance(default, bool) else int(value) if isinstance(default, int) else value
                )
    return given, sizes


def _of_instances(fit: Fit, launches: tuple[RanLaunch, ...], entries: Iterable[str]) -> dict[str, int]:
    """The fields with a macro in an entry, such as HEAD_DIM in flash<HEAD_DIM, 16>, by the instance that ran."""
    values = {function_of(one.function): values_of(one.function) for one in launches}
    pairs = [
        (macro, value)
        for entry in entries
        for macro, value in zip(values_of(entry), values.get(function_of(entry), ()))
    ]
    return {macro.lower(): int(value) for macro, value in pairs if macro in fit.shown.defines and value.isdigit()}


def _fits(problem: Problem, sizes: Mapping[str, int]) -> bool:
    return all(tensor_of(problem, name).nbytes == size for name, size in sizes.items())


OK, FAILED = 0, 1


def open_file(args: argparse.Namespace) -> int:
    """The command. Prints the proposal, and writes it if asked. Returns the exit code."""
    path = Path(args.file)
    text = read_text(path)
    if re.match(r"\s*/\*[^*]*?\bfamily\s*=", text):
        raise ProblemError(f"{path} has its front matter already. Run python -m kernels check {path}.")
    pairs = [text.partition("=") for text in args.say]
    if bad := next((text for text, (_, sign, _) in zip(args.say, pairs) if not sign), ""):
        raise ProblemError(f"--say is {bad!r}. It must be NAME=EXPRESSION.")
    said = {name.strip(): value.strip() for name, _, value in pairs}
    files = read_files(path.resolve(), catalog.DEVICE, catalog.SHIM)
    host.check_headers(files)
    seen = "\n".join(one for _, one in files)  # a header below the text moves no line
    version = versions_of(seen, args.entry)
    launches = list(version.launches)
    listed = proposal.parameters_of(seen, launches)
    if not (fit := _fit(seen, listed, said)):
        return _end_free(args, path, files, free_proposal(path, files, version, said, _tried))
    made = proposal.propose(path, seen, fit, launches, said)
    if made.questions and (has_main(text) or len(made.questions) > guesses.MOST_QUESTIONS):
        other = free_proposal(path, files, version, said, _tried)
        if "main" in other.table or len(made.questions) > guesses.MOST_QUESTIONS:
            return _end_free(args, path, files, other)
    made.questions[:0] = [version.question] if version.question else []
    made.lines += [("left out", one, "no build reads it") for one in left_out(files)]
    ran = _ran(made, path, files) if has_main(text) else None
    kernel = None if made.questions else _kernel(made, path, text)
    commands = _problems(made, kernel, str(_target(args) or path), listed, len(launches), ran) if ran else []
    return _end(args, path, text, made, commands)


def _end_free(args: argparse.Namespace, path: Path, files: tuple[tuple[str, str], ...], made: Proposal) -> int:
    """The end of the command for a file without a problem."""
    text = files[0][1]
    made.lines += [("left out", one, "no build reads it") for one in left_out(files)]
    if not made.questions:
        _kernel(made, path, text)
    return _end(args, path, text, made, [])


def free_proposal(
    path: Path,
    files: tuple[tuple[str, str], ...],
    version: Versions,
    said: Mapping[str, str],
    tried: Callable[[Request], Reach],
    place: Path | None = None,
) -> Proposal:
    """The proposal of a file's own run: of its main() in the jail, else of its text and the answers.

    tried: makes a trial run (trial.py). place: the file of the text, which decides about its jail, if not `path`."""
    (_, text), *headers = files
    seen = "\n".join(one for _, one in files)
    try:
        words = arguments_of(text, version) if version.others and not version.is_open else []
        ran, changed = _smaller(path, text, headers, words, said) if has_main(text) else (None, "")
        if ran:
            made = free.of_run(path, seen, _of_version(ran, version))
            _say_run(made, ran)
            if changed:
                made.table["main"] = f"{made.table['main']} It ran with {changed}."
                made.lines.append(("  with", changed, "its own sizes take long here. --say NAME=NUMBER keeps one"))
            return made
    except (RunError, ProblemError, BackendUnavailable) as error:
        reason = str(error)

    def trial(whole: str) -> Reach:
        return tried(request_of(_read(place or path, text, whole)))

    made = guesses.of_text(path, seen, text, list(version.launches), said, trial)
    made.questions[:0] = [version.question] if version.question else []
    if has_main(text):
        made.lines.append(("main()", "not run", reason))
    return made


def _smaller(
    path: Path, text: str, headers: list[tuple[str, str]], words: list[str], said: Mapping[str, str]
) -> tuple[Ran, str]:
    """A run of main(), and the numbers of the host that it had in place of its own, in words.

    words: of its command line."""
    if reason := why_none():
        raise RunError(reason)
    numbers = {name: int(value) for name, value in said.items() if re.fullmatch(r"\d{1,12}", value)}
    ran, changed = smaller.runs(text, numbers, lambda own, limit: host.run(path.name, own, headers, words, limit))
    own = {number.name: number.value for number in smaller.numbers_of(text)}
    return ran, ", ".join(f"{name} = {value:,} for {own[name]:,}" for name, value in changed.items())


def _of_version(ran: Ran, version: Versions) -> Ran:
    """The launches of the version that --entry chose."""
    if version.is_open or not version.others:
        return ran
    kept = {function_of(one.entry) for one in version.launches}
    return replace(ran, launches=tuple(one for one in ran.launches if function_of(one.function) in kept))


def _tried(request: Request) -> Reach:
    return workers.submit(reach, request, backend="cpu", title="trial", time_limit=TRIAL_SECONDS).result()


def _target(args: argparse.Namespace) -> Path | None:
    return Path(args.file) if args.write else Path(args.out) if args.out else None


def _end(args: argparse.Namespace, path: Path, text: str, made: Proposal, commands: list[str]) -> int:
    """Prints the proposal, and writes it if asked. Returns the exit code."""
    target = None if made.questions else _target(args)
    if target:
        options.write(str(target), lambda: target.write_text(made.text_of(text)))
    if args.json:
        print(json.dumps({"front_matter": made.table, "unknown": made.questions, "commands": commands}, indent=1))
    else:
        print("\n".join(made.report()))
        for command in commands:
            print(f"run: python -m kernels {command}")
        if target:
            print(f"Written: {target}. Next: python -m kernels check {target}")
    return FAILED if made.questions else OK


def proposed(path: Path, text: str, place: Path) -> Proposal:
    """The proposal for a text. Its main() runs only if it has no problem. Raises ProblemError.

    path: for its name. place: its file, which decides about its jail."""
    version = versions_of(text)
    launches = list(version.launches)
    fit = _fit(text, proposal.parameters_of(text, launches), {})
    if fit:
        return proposal.propose(path, text, fit, launches, {})
    return free_proposal(path, ((path.name, text),), version, {}, reach, place)


def problems() -> Iterator[tuple[str, str, type[Problem]]]:
    for family in catalog.current().families:
        for name, kind in import_module(f"{families.__name__}.{family}").PROBLEMS.items():
            yield family, name, kind


def _fit(text: str, listed: list[Parameter], said: Mapping[str, str]) -> Fit | None:
    """The problem of a file, or None for a file without one. said: `family` chooses a family, or one of its problems.
    Raises ProblemError for an unknown one."""
    wanted = said.get("family", "").rpartition("/")
    if not wanted[2]:
        fits = (one for one in matching.best(problems(), listed) if trusted(one, bare(text)))
        return next(fits, None)
    if wanted[2] == free.FAMILY:
        return None
    known = [one for one in problems() if wanted[2] in one[:2] and wanted[0] in ("", one[0])]
    fit = next(iter(matching.best(known, listed)), None)
    if fit is None:
        pointers = ", ".join(f"{one.c_type} {one.name}" for one in listed if one.is_pointer)
        raise ProblemError(
            f"--say family={said['family']} does not fit the pointers {pointers}. Say family=free, or leave it out."
        )
    return fit


def _ran(made: Proposal, path: Path, files: tuple[tuple[str, str], ...]) -> Ran | None:
    if reason := why_none():
        made.lines.append(("main()", "not run", reason))
        return None
    try:
        ran = host.run(path.name, files[0][1], files[1:])
    except (RunError, ProblemError) as error:
        made.lines.append(("main()", "not run", str(error)))
        return None
    _say_run(made, ran)
    return ran


def _say_run(made: Proposal, ran: Ran) -> None:
    said = [line for line in ran.printed.splitlines() if line.strip()]
    made.lines.append(("main()", f"{len(ran.launches)} launches, exit code {ran.code}", "run in the jail"))
    made.lines += [("  printed", line[:80], "") for line in said[:5]]


def _read(path: Path, text: str, whole: str) -> KernelSpec:
    """The kernel of a text with its front matter, at the place of the file."""
    files = read_files(path.resolve(), catalog.DEVICE, catalog.SHIM) if path.exists() else ((path.name, text),)
    return read_kernel(path.resolve(), ((files[0][0], whole), *files[1:]), catalog.problem_of)


def _kernel(made: Proposal, path: Path, text: str) -> KernelSpec:
    try:
        kernel = _read(path, text, made.text_of(text))
        shown = sample(kernel)
        kernel.plan(shown.problem, shown.settings)
    except FrontMatterError as error:
        raise ProblemError(f"The proposal does not fit together: {error}") from None
    return kernel


def _problems(
    made: Proposal, kernel: KernelSpec | None, file: str, listed: list[Parameter], count: int, ran: Ran
) -> list[str]:
    """The commands that run the problems of a program's launches. A line names each grid unlike the program's."""
    parts = [ran.launches[at : at + count] for at in range(0, len(ran.launches), count)]
    proposed = cast(list[dict[str, object]], made.table["launches"])
    entries = [str(launch["entry"]) for launch in proposed]
    found = dict.fromkeys(problem_of(made.fit, listed, part, entries) for part in parts)
    commands = []
    for problem in found:
        if problem is None:
            made.lines.append(("problem", "unknown", "no problem has these numbers and sizes of memory"))
            continue
        default = field_values(problem.problem_type())
        shown = {name: value for name, value in field_values(problem).items() if value != default[name]}
        fields = [f"{name}={write_value(value)}" for name, value in shown.items()]
        made.lines.append(("problem", " ".join(fields), "main() as it ran"))
        commands.append(" ".join(["run", file, *(f"--set {one}" for one in fields)]))
        if kernel:
            made.lines += _compared(kernel, problem, ran)
    return commands


def _compared(kernel: KernelSpec, problem: Problem, ran: Ran) -> list[tuple[str, str, str]]:
    try:
        plan = kernel.plan(problem)
    except (ProblemError, FrontMatterError) as error:
        return [("  note", str(error), "")]
    lines = []
    for step, launch in zip(plan.launches, ran.launches):
        for key, own, theirs in (("grid", step.grid, launch.grid), ("block", step.block, launch.block)):
            if own != theirs:
                lines.append(("  note", f"{key} {own}", f"main() launched {theirs} for {launch.entry}"))
    return lines
