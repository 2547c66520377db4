"""The command line's arguments: a table of the commands of `python -m kernels`."""

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kernels.build import DEFAULT_ARCH

Command = Callable[[argparse.Namespace], int]
Argument = tuple[str, dict[str, Any]]  # its name, and the keywords of argparse's add_argument
NEED_GPU = ("bench", "timeline", "record", "calibrate", "counters", "measure")


def parser(functions: Mapping[str, Command], tables: Iterable[str]) -> argparse.ArgumentParser:
    """The parser of every command.

    functions: name of a command -> the function that runs it and returns the exit code.
    tables: the names of the tables of `measure`."""
    about = "Warpglass's CUDA kernels, without a browser."
    whole = argparse.ArgumentParser(prog="python -m kernels", description=about)
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    for name, (text, *listed) in _commands(", ".join(tables)).items():
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=functions[name])
        if name in NEED_GPU:
            sub.set_defaults(backend="gpu")
        for argument, keywords in listed:
            sub.add_argument(argument, **keywords)
    return whole


def _value(name: str, metavar: str, text: str, **more: Any) -> Argument:
    return name, {"metavar": metavar, "help": text, **more}


def _many(name: str, metavar: str, text: str) -> Argument:
    return _value(name, metavar, text, action="append", default=[])


def _set(text: str) -> Argument:
    return _many("--set", "FIELD=VALUE", text)


def _flag(name: str, text: str) -> Argument:
    return name, {"action": "store_true", "help": text}


_JSON = _flag("--json", "print JSON")
_RECORDED = _flag("--recorded", "print what was recorded on real GPUs. Needs no GPU")
_ONE = _value("kernel", "NAME", "a kernel of `list`, or the path of a .cu")
_KERNELS = _value(
    "kernels", "NAME", "kernels of `list`, or paths of .cu files. The default is all of `list`", nargs="*"
)
_OF_LIST = _set("a problem field or a compile-time constant of `list`")


def _commands(tables: str) -> dict[str, tuple[str, *tuple[Argument, ...]]]:
    """Command -> its words, and its arguments."""
    return {
        "list": ("The kernels, their problem fields and constants, and the usable backends.", _JSON),
        "open": (
            "Propose the front matter of an untouched .cu from its signature, its launches, and a run of its main().",
            _value("file", "FILE.cu", "a .cu without front matter"),
            _JSON,
            _flag("--write", "write the front matter above the text of FILE.cu"),
            _value("--out", "NEW.cu", "write it into a new file"),
            _many(
                "--say",
                "NAME=EXPRESSION",
                "an answer: grid, block, shared_bytes, or a parameter and its expression over the problem's fields",
            ),
            (
                "--entry",
                {
                    "metavar": "NAME",
                    "default": "",
                    "help": "a kernel of the version to take, or the function that launches it",
                },
            ),
        ),
        "watch": (
            "Show what each save of a .cu changed: verdict, the first different value, registers, wavefronts, bytes.",
            _value("file", "FILE.cu", "a .cu with front matter"),
            _set("a problem field or a compile-time constant"),
        ),
        "report": (
            "Compare two versions of a .cu in Markdown, without a GPU. It ends with 1 if a version does not run.",
            _value("before", "A.cu", "the earlier version"),
            _value("after", "B.cu", "the later version"),
            _set("a problem field or a compile-time constant of both"),
            _value("--out", "FILE.md", "write the report here"),
        ),
        "run": (
            "Run a kernel's probed build once, compare with float64, and keep its trace and arrays.",
            _ONE,
            _JSON,
            ("--backend", {"default": "auto", "help": "auto (default), gpu, cpu or recorded"}),
            _OF_LIST,
            _many(
                "--scope",
                "FIRST[:COUNT]|all|ITEM=FIRST[:COUNT]",
                "which items, such as query tiles, write the trace (default 0, the first)",
            ),
            _value("--trace", "FILE.parquet", "write the trace here"),
            _value("--arrays", "FILE.npz", "write inputs and outputs here, 8-bit and bfloat16 as float32"),
        ),
        "check": (
            "Compare kernels with float64 over a grid of problems, in both builds. Without a NAME, it takes every "
            "kernel, and prints each one's line as it ends. A terminal shows the progress. 63 problems of one kernel "
            "took about a minute on 2 loaded cores.",
            _KERNELS,
            _JSON,
            _flag("--all", "show each wrong problem, not only a kernel's first one"),
            ("--backend", {"default": "auto", "help": "auto (default), gpu or cpu"}),
            _set("every problem takes this field or constant in place of its own"),
            _value(
                "--every", "K", "only every K-th problem of the grid, for slow tools (default 1)", type=int, default=1
            ),
        ),
        "inspect": (
            "Registers, shared bytes and spills of both builds, PTX and SASS sizes. Needs no GPU.",
            _ONE,
            _JSON,
            ("--arch", {"default": DEFAULT_ARCH, "help": f"such as sm_80, sm_90a (default {DEFAULT_ARCH})"}),
            _set("a problem field, such as head_dim, or a compile-time constant"),
        ),
        "exercise": (
            "List the exercises, write the text to begin with, or grade an answer in the jail.",
            _value("name", "NAME", "an exercise. Without a file, write its text to NAME.cu", nargs="?"),
            _value("file", "FILE.cu", "the answer to grade", nargs="?"),
            _JSON,
        ),
        "bench": (
            "Time kernels on this GPU, each after its output passed against float64.",
            _KERNELS,
            _JSON,
            _many(
                "--sweep",
                "FIELD=V1,V2,...",
                "a problem field, a constant, or a size for several fields, such as width. Several sweeps make a "
                "product",
            ),
            _set("holds for every point"),
            _flag("--peers", "also torch's SDPA: math, memory-efficient, flash, cuDNN"),
            _RECORDED,
            _value(
                "--against",
                "FILE",
                "a table that --out wrote: say what became slower or faster than in it, beyond the spread",
            ),
            _value("--out", "FILE.csv|FILE.json", "write the table, with its provenance, here"),
        ),
        "timeline": (
            "When each step of each warp or warpgroup began, on this GPU: a build of its own, beside the timed one.",
            _ONE,
            _JSON,
            _OF_LIST,
            _RECORDED,
            _value("--perfetto", "FILE.pftrace", "write every block here, for https://ui.perfetto.dev"),
        ),
        "record": (
            "Record on this GPU what kernels/recordings/data/ lacks. If no NAME is given, also record the tables of "
            "`measure`.",
            _KERNELS,
            _flag("--missing", "only list cases without a recording of the present code, without a GPU"),
            _flag("--again", "record existing cases again"),
        ),
        "calibrate": (
            "Compare the memory model with Nsight Compute access by access, and write the table. Needs a GPU and ncu.",
            _many("--op", "OP", "only these, such as shared_load. The other rows of the table stay"),
        ),
        "counters": (
            "Wavefronts and sectors, derived from traces and counted by ncu, side by side. Needs a GPU and ncu.",
            _KERNELS,
            _JSON,
            _flag(
                "--occupancy",
                "instead, blocks per multiprocessor, derived and from the driver, into the recorded table",
            ),
        ),
        "measure": (
            f"Measure what the recorded tables of this GPU lack: {tables}. A break loses one case.",
            _value("tables", "TABLE", f"{tables}. The default is all", nargs="*"),
            _flag("--anew", "measure the cases that have a row of the present code, too"),
        ),
    }
