"""The command line's arguments: one function for each command of `python -m kernels`."""

import argparse
from collections.abc import Callable, Iterable, Mapping

from kernels.build import DEFAULT_ARCH

Command = Callable[[argparse.Namespace], int]
NEED_GPU = ("bench", "timeline", "record", "calibrate", "counters", "measure")


class Arguments:
    """The parser of every command.

    functions: name of a command -> the function that runs it and returns the exit code.
    tables: the names of the tables of `measure`.
    """

    def __init__(self, functions: Mapping[str, Command], tables: Iterable[str]) -> None:
        self.functions, self.tables = functions, ", ".join(tables)
        about = "Warpglass's CUDA kernels, without a browser."
        self.parser = argparse.ArgumentParser(prog="python -m kernels", description=about)
        self._commands = self.parser.add_subparsers(required=True, metavar="COMMAND")
        on_cpu = (_list, _open, _watch, _report, _run, _check, _inspect, _exercise)
        on_gpu = (_bench, _timeline, _record)
        for add in (*on_cpu, *on_gpu, _calibrate, _counters, _measure):
            add(self)

    def add(self, name: str, text: str) -> argparse.ArgumentParser:
        """A new command."""
        sub = self._commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=self.functions[name])
        if name in NEED_GPU:
            sub.set_defaults(backend="gpu")
        return sub


def parser(functions: Mapping[str, Command], tables: Iterable[str]) -> argparse.ArgumentParser:
    """The parser of the command line (see Arguments)."""
    return Arguments(functions, tables).parser


def _one_kernel(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("kernel", metavar="NAME", help="a kernel of `list`, or the path of a .cu")


def _kernels(sub: argparse.ArgumentParser) -> None:
    about = "kernels of `list`, or paths of .cu files. The default is all of `list`"
    sub.add_argument("kernels", metavar="NAME", nargs="*", help=about)


def _json(sub: argparse.ArgumentParser) -> None:
    _flag(sub, "--json", "print JSON")


def _many(sub: argparse.ArgumentParser, name: str, metavar: str, text: str) -> None:
    sub.add_argument(name, action="append", default=[], metavar=metavar, help=text)


def _flag(sub: argparse.ArgumentParser, name: str, text: str) -> None:
    sub.add_argument(name, action="store_true", help=text)


def _list(arguments: Arguments) -> None:
    _json(arguments.add("list", "The kernels, their problem fields and constants, and the usable backends."))


def _open(arguments: Arguments) -> None:
    about = "Propose the front matter of an untouched .cu from its signature, its launches, and a run of its main()."
    sub = arguments.add("open", about)
    sub.add_argument("file", metavar="FILE.cu", help="a .cu without front matter")
    _json(sub)
    _flag(sub, "--write", "write the front matter above the text of FILE.cu")
    sub.add_argument("--out", metavar="NEW.cu", help="write it into a new file")
    sub.add_argument("--family", default="", metavar="FAMILY[/PROBLEM]", help="instead of the best fit")
    said = "an answer: grid, block, shared_bytes, or a parameter and its expression over the problem's fields"
    _many(sub, "--say", "NAME=EXPRESSION", said)
    _flag(sub, "--no-run", "do not run main()")


def _watch(arguments: Arguments) -> None:
    about = "Show what each save of a .cu changed: the first differing value, registers, spills, wavefronts, bytes."
    sub = arguments.add("watch", about)
    sub.add_argument("file", metavar="FILE.cu", help="a .cu with front matter")
    _many(sub, "--set", "FIELD=VALUE", "a problem field or a compile-time constant")
    _flag(sub, "--once", "show the present version and end")


def _report(arguments: Arguments) -> None:
    sub = arguments.add("report", "Compare two versions of a .cu in Markdown. Its counts need no GPU.")
    sub.add_argument("before", metavar="A.cu", help="the earlier version")
    sub.add_argument("after", metavar="B.cu", help="the later version")
    _many(sub, "--set", "FIELD=VALUE", "a problem field or a compile-time constant of both")
    sub.add_argument("--out", metavar="FILE.md", help="write the report here")


def _run(arguments: Arguments) -> None:
    sub = arguments.add("run", "Run a kernel's probed build once, compare with float64, and keep its trace and arrays.")
    _one_kernel(sub)
    _json(sub)
    sub.add_argument("--backend", default="auto", help="auto (default), gpu, cpu or recorded")
    _many(sub, "--set", "FIELD=VALUE", "a problem field or a compile-time constant of `list`")
    which = "which items, such as query tiles, write the trace (default 0, the first)"
    _many(sub, "--scope", "FIRST[:COUNT]|all|ITEM=FIRST[:COUNT]", which)
    sub.add_argument("--trace", metavar="FILE.parquet", help="write the trace here")
    sub.add_argument(
        "--arrays", metavar="FILE.npz", help="write inputs and outputs here, 8-bit and bfloat16 as float32"
    )


def _check(arguments: Arguments) -> None:
    about = (
        "Compare kernels with float64 over a grid of problems, in both builds. Without a NAME, it takes every kernel, "
        "and prints each one's line as it ends. 63 problems of one kernel took about a minute on 2 loaded cores."
    )
    sub = arguments.add("check", about)
    _kernels(sub)
    _json(sub)
    sub.add_argument("--all", action="store_true", help="show each wrong problem, not only a kernel's first one")
    sub.add_argument("--backend", default="auto", help="auto (default), gpu or cpu")
    _many(sub, "--set", "FIELD=VALUE", "every problem takes this field or constant in place of its own")
    every = "only every K-th problem of the grid, for slow tools (default 1)"
    sub.add_argument("--every", type=int, default=1, metavar="K", help=every)


def _inspect(arguments: Arguments) -> None:
    about = "Registers, shared bytes and spills of both builds, PTX and SASS sizes. Needs no GPU."
    sub = arguments.add("inspect", about)
    _one_kernel(sub)
    _json(sub)
    sub.add_argument("--arch", default=DEFAULT_ARCH, help=f"such as sm_80, sm_90a (default {DEFAULT_ARCH})")
    _many(sub, "--set", "FIELD=VALUE", "a problem field, such as head_dim, or a compile-time constant")


def _exercise(arguments: Arguments) -> None:
    sub = arguments.add("exercise", "List the exercises, write the text to begin with, or grade an answer in the jail.")
    sub.add_argument("name", metavar="NAME", nargs="?", help="an exercise. Without a file, write its text to NAME.cu")
    sub.add_argument("file", metavar="FILE.cu", nargs="?", help="the answer to grade")
    _json(sub)


def _bench(arguments: Arguments) -> None:
    sub = arguments.add("bench", "Time kernels on this GPU, each after its output passed against float64.")
    _kernels(sub)
    _json(sub)
    swept = "a problem field, a constant, or a size for several fields, such as width. Several sweeps make a product"
    _many(sub, "--sweep", "FIELD=V1,V2,...", swept)
    _many(sub, "--set", "FIELD=VALUE", "holds for every point")
    _flag(sub, "--peers", "also torch's SDPA: math, memory-efficient, flash, cuDNN")
    sub.add_argument("--baseline", metavar="NAME", help="what speed-ups are against (default the first in the table)")
    kept = "a table that --out wrote: say what became slower or faster than in it, beyond the spread"
    sub.add_argument("--against", metavar="FILE", help=kept)
    _flag(sub, "--recorded", "the points that `record` times of these kernels, instead of --sweep and --set")
    _flag(sub, "--warm", "the same arrays in every run, instead of a cold L2")
    out = "write the table, with its provenance, here"
    sub.add_argument("--out", metavar="FILE.csv|FILE.json", help=out)


def _timeline(arguments: Arguments) -> None:
    about = "When each step of each warp or warpgroup began, on this GPU: a build of its own, beside the timed one."
    sub = arguments.add("timeline", about)
    _one_kernel(sub)
    _json(sub)
    _many(sub, "--set", "FIELD=VALUE", "a problem field or a compile-time constant of `list`")
    sub.add_argument("--block", type=int, default=0, metavar="N", help="of which block (default 0)")
    sub.add_argument("--perfetto", metavar="FILE.pftrace", help="write every block here, for https://ui.perfetto.dev")


def _record(arguments: Arguments) -> None:
    about = (
        "Record on this GPU what kernels/recordings/data/ lacks. If "
        "no NAME is given, also record the tables of `measure`."
    )
    sub = arguments.add("record", about)
    _kernels(sub)
    _flag(sub, "--missing", "only list cases without a recording of the present code, without a GPU")
    _flag(sub, "--again", "record existing cases again")


def _calibrate(arguments: Arguments) -> None:
    about = "Compare the memory model with Nsight Compute access by access, and write the table. Needs a GPU and ncu."
    sub = arguments.add("calibrate", about)
    _many(sub, "--op", "OP", "only these, such as shared_load. The other rows of the table stay")


def _counters(arguments: Arguments) -> None:
    about = "Wavefronts and sectors, derived from traces and counted by ncu, side by side. Needs a GPU and ncu."
    sub = arguments.add("counters", about)
    _kernels(sub)
    _json(sub)
    about = "instead, blocks per multiprocessor, derived and from the driver, into the recorded table"
    _flag(sub, "--occupancy", about)


def _measure(arguments: Arguments) -> None:
    about = f"Measure what the recorded tables of this GPU lack: {arguments.tables}. A break loses one case."
    sub = arguments.add("measure", about)
    sub.add_argument("tables", nargs="*", metavar="TABLE", help=f"{arguments.tables}. The default is all")
    _flag(sub, "--anew", "measure the cases that have a row of the present code, too")
