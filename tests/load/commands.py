"""Command lines that nobody should type, made from a seed, and what came of them in this process."""

import contextlib
import io
import random
import traceback
from collections.abc import Iterator

from kernels.__main__ import main as kernels_main
from kernels.catalog import KERNELS
from kernels.core.fields import fields_of
from kernels.run import workers
from tests.load import links

NUMBERS = links.NUMBERS
TEXTS = tuple(text for text in links.TEXTS if "\0" not in text)  # no argument can hold it
NAMES = (*KERNELS, "", "-", "--", "nothing", "/dev/null", "/etc", ".", "../x.cu", "x" * 5000, "\u202e.cu")
SCOPES = ("0", "all", "0:1", "-1", "1:0", "0:", ":", "9" * 5000, "1" + "0" * 300, "x=1", "=", "block=0:1", "tile=all",
          "1:2:3", "\u0663", "\u00b2")  # fmt: skip
ARCHES = ("sm_80", "sm_90a", "sm_1", "sm_", "", "gfx90a", "sm_80;rm -rf /", "-x", "\u202e", "sm_" + "9" * 400)
PLACES = ("/nowhere/x", "/", "", "/dev/full", "/proc/x", "x" * 5000)
ODD = ("--help", "--nothing", "-h", "--json=1", "--set", "--", "\u2014json")
WITHOUT_GPU = ("bench", "record", "calibrate", "counters", "measure")


def hostile(seed: int, count: int) -> Iterator[list[str]]:
    """Arguments of `python -m kernels`, the same for the same seed. None does more work than a small run."""
    chance = random.Random(seed)
    for _ in range(count):
        command = chance.choices(
            ("list", "run", "check", "inspect", *WITHOUT_GPU, "nothing", ""), (1, 14, 2, 4, 3, 2, 1, 1, 2, 1, 1)
        )[0]
        made = [command, *_MORE.get(command, _nothing)(chance)]
        if chance.random() < 0.1:
            made.insert(chance.randint(0, len(made)), chance.choice(ODD))
        yield made


def _nothing(chance: random.Random) -> list[str]:
    return chance.choices(TEXTS, k=chance.randint(0, 2))


def _sets(chance: random.Random, kernel: str, option: str = "--set") -> list[str]:
    spec = KERNELS.get(kernel, next(iter(KERNELS.values())))
    names = [*fields_of(spec.problem_type), *(c.name for c in spec.constants), "", "nothing", "x=y", "__class__"]
    made = []
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        text = f"{chance.choice(names)}={chance.choice(NUMBERS + TEXTS)}"
        made += [option, text.replace("=", "", 1) if chance.random() < 0.1 else text]
    return made


def _run(chance: random.Random) -> list[str]:
    kernel = chance.choice(NAMES)
    made = [kernel, *_sets(chance, kernel)]
    if chance.random() < 0.3:
        made += ["--scope", chance.choice(SCOPES)]
    if chance.random() < 0.2:
        made += ["--backend", chance.choice(("cpu", "gpu", "recorded", "auto", "", "CPU", "\u202e"))]
    if chance.random() < 0.1:
        made += [chance.choice(("--trace", "--arrays")), chance.choice(PLACES)]
    return made


def _check(chance: random.Random) -> list[str]:
    return [chance.choice(NAMES), "--every", chance.choice(("99999999", *NUMBERS[:8], "0", "9" * 4000))]


def _inspect(chance: random.Random) -> list[str]:
    kernel = chance.choice(NAMES)
    return [kernel, *_sets(chance, kernel), *(["--arch", chance.choice(ARCHES)] if chance.random() < 0.7 else [])]


def _bench(chance: random.Random) -> list[str]:
    kernel = chance.choice(NAMES)
    made = [kernel, *_sets(chance, kernel), *_sets(chance, kernel, "--sweep")]
    if chance.random() < 0.3:
        made += [chance.choice(("--out", "--against")), chance.choice(PLACES)]
    return made


def _names(chance: random.Random) -> list[str]:
    return ["--missing"] if chance.random() < 0.3 else chance.choices(NAMES, k=chance.randint(1, 3))


_MORE = {"run": _run, "check": _check, "inspect": _inspect, "bench": _bench, "record": _names, "counters": _names,
         "measure": _names, "calibrate": lambda chance: ["--op", chance.choice(TEXTS)]}  # fmt: skip


def outcome(argv: list[str]) -> tuple[int, str]:
    """The exit code, -1 where it raised, and what was said. `workers.stop` is left to the caller."""
    said = io.StringIO()
    stop, workers.stop = workers.stop, lambda: None
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            return kernels_main(argv), said.getvalue()
    except SystemExit as left:  # argparse
        return int(left.code or 0), said.getvalue()
    except BaseException:
        return -1, traceback.format_exc()
    finally:
        workers.stop = stop
