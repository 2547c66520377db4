"""Each regular expression that reads a stranger's text takes time in proportion to its length."""

import ast
import importlib
import pkgutil
import re
import time
from itertools import pairwise
from pathlib import Path

import pytest

import app.workbench
import kernels.build
import kernels.core
import kernels.exercises
import kernels.opening
import kernels.run
import kernels.trace
import kernels.watching
from kernels.core.sources import is_plain_c, parameters

PACKAGES = (
    kernels.core,
    kernels.opening,
    kernels.build,
    kernels.watching,
    kernels.exercises,
    kernels.run,
    kernels.trace,
)
LENGTHS = (60, 250, 1_000, 4_000)  # characters
LONG = (*LENGTHS, 16_000)  # of long openers without an end, such as PROBE_LOAD(
NOISE_S = 0.008  # a quadratic expression takes much longer for the longest text
MOST = 8.0  # for a text 4 times as long. The square is 16
FEW = (" ", "\n", "a", "1", "(", "a,", "\\")
PLAIN = r"""
/* */ // / " "" ' R"( R"a( \ a 1 a1 1' ( ) () { } [ < > <<< # , ; : :: = * & + - % . a/ a, a; a= a( a< a* assert(a asm(
0x1 1. a[ a\ | ! -a 'a'
"""
SPACED = (
    '/* ~R"( ~\\\n~\n~\t~ ~a ~ a~#\\\n~\n#~a / ~const ~if (~for (a=0;~# define a ~line 1~a: ~a.cu:1:1: ~error: ~\n '
    '~\n\n~a\n~1\n~[1] ~__a__ ~ __a__((~"C" __global__ a '
)
PIECES = (*PLAIN.split(), *SPACED.split("~"))


def modules():
    yield from (importlib.import_module(name) for name in ("kernels.errors", "kernels.catalog", "app.workbench"))
    for package in (*PACKAGES, app.workbench):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if "__main__" not in found.name and ".workers" not in found.name:
                yield importlib.import_module(found.name)


def written(tree):
    """The patterns in calls such as re.sub("x", ...). A name stands for each value in an f-string."""
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args):
            continue
        if not (isinstance(call.func.value, ast.Name) and call.func.value.id == "re") or call.func.attr in (
            "escape",
            "compile",
        ):
            continue
        text = call.args[0]
        flags = {flag.attr for part in call.args[2:] for flag in ast.walk(part) if isinstance(flag, ast.Attribute)}
        mode = "".join(letter.lower() for letter in "MSX" if letter in flags)
        if isinstance(text, ast.Constant):
            yield text.value, mode, call.func.attr, call.lineno
        elif isinstance(text, ast.JoinedStr):
            yield (
                "".join(part.value if isinstance(part, ast.Constant) else "a" for part in text.values),
                mode,
                call.func.attr,
                call.lineno,
            )


def patterns():
    found, listed = {}, list(modules())
    texts = [Path(module.__file__).read_text() for module in listed]
    for module in listed:
        held = [(name, value) for name, value in vars(module).items() if isinstance(value, re.Pattern)]
        for name, value in held:
            where = [Path(module.__file__).read_text()] if name.startswith("_") else texts
            uses = {use for text in where for use in re.findall(rf"\b{name}\.(\w+)\(", text)}
            use = "" if uses - {"match", "fullmatch"} or not uses else "match"
            found.setdefault((value, use), f"{module.__name__}.{name}")
        for text, mode, use, line in written(ast.parse(Path(module.__file__).read_text())):
            pattern = re.compile(f"(?{mode}){text}" if mode else text)
            found.setdefault((pattern, use), f"{module.__name__}:{line}")
    return {name: use for use, name in found.items()}


def seconds(pattern, use, text):
    start = time.process_time()
    if use not in ("match", "fullmatch"):
        list(pattern.finditer(text))
    if use != "search":
        pattern.match(text)
        pattern.fullmatch(text)
    return time.process_time() - start


def slow(pattern, use=""):
    """The text of which a four times longer one takes much more than four times as long, or None."""
    literals = re.findall(r"(?:[\w ]|\\[./*(\[{\"#]){2,}", pattern.pattern)
    own = [re.sub(r"\\([^\w])", r"\1", piece) for piece in literals][:4]
    openers = [f"{piece}(" for piece in own if r"\(" in pattern.pattern]
    for start in ("", *own):
        for piece in (*(FEW if start else PIECES), *own, *openers):
            lengths = LONG if piece in openers else LENGTHS
            text = (start + piece * lengths[-1])[: lengths[-1]]
            for short, long in pairwise(lengths):  # so that a cubic one takes no minutes
                if seconds(pattern, use, text[:long]) > NOISE_S:
                    early = max(1e-6, min(seconds(pattern, use, text[:short]) for _ in range(3)))
                    if min(seconds(pattern, use, text[:long]) for _ in range(2)) > MOST * early:
                        return start, piece
    return None


def test_a_quadratic_expression_is_found_and_a_parameter_without_a_word_has_no_name():
    assert slow(re.compile(r"(?<![\w.])\s*\b(\w+)\s*/"))
    assert slow(re.compile(r"/\*.*?\*/", re.S))
    assert slow(re.compile(r'R"([^()\s]{0,16})\(.*?\)\1"', re.S))
    assert slow(re.compile(r"\b(PROBE_LOAD|PROBE_STORE)\((.*)\);\s*$"))
    assert not slow(re.compile(r"/\*.*?(?:\*/|\Z)", re.S))
    assert parameters("__global__ void a(const, #, float* q) {}", "a") == (("", ""), ("", ""), ("float*", "q"))


def test_each_expression_takes_time_in_proportion_to_its_text():
    found = patterns()
    assert len(found) > 100 and not {name: text for name, how in found.items() if (text := slow(*how))}


@pytest.mark.parametrize(
    "piece", ['extern "C" __global__ a ', "__global__ __a__ ", " __a__", " __a__((", "__", "\t", "a() ", "alignas(()"]
)
@pytest.mark.parametrize("start", ['extern "C" __global__ void ', "__global__ ", ""])
def test_a_signature_is_read_in_a_moment(start, piece):
    text = start + piece * (2**18 // len(piece)) + " a()"  # the longest text that the server takes
    began = time.process_time()
    assert not is_plain_c(text, "a<1>") and not parameters(text, "a<1>")
    assert time.process_time() - began < 0.5
