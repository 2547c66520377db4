"""Which of a kernel's cases the CPU is asked to run: a build takes a second there, and a check names hundreds."""

from collections import Counter
from dataclasses import fields

from kernels.core.request import Request

# A problem's fields of which no two cases have the same, or that follow from the others.
OWN = {"seed", "num_blocks", "block_tables", "token_ids", "families", "slots", "copies"}
OF_CONTEXTS = {"context_lens", "num_heads", "num_kv_heads", "ranges", "prefix"}  # nearly each would need its own case
TURNS = 3  # the builds that most cases need differ in head_dim, in causal or in the type
MOST_STEPS = 3_000_000  # of a case. A longer case takes 0.1 s, and runs on a GPU and in the slow test


def sampled(kernel, cases, turn, most_steps=MOST_STEPS):
    """Some of the cases, in their order: those of one build, with every value of every field between them, but no case
    of more than most_steps. Of equally good cases it takes the shortest.

    turn: the kernel's number in its family. Neighbours of a family take different builds of those that most cases need.
    """
    cases = [case for case in cases if case.problem.cpu_steps <= most_steps]
    builds = [tuple(Request(kernel, case.problem, tuple(case.settings)).defines.items()) for case in cases]
    common = [build for build, _ in Counter(builds).most_common(TURNS)]
    left = {n: _values(case.problem) for n, case in enumerate(cases) if builds[n] == common[turn % len(common)]}
    chosen, seen = [], set()
    while left:
        best = max(left, key=lambda n: (len(left[n] - seen), -cases[n].problem.cpu_steps))
        new = left.pop(best) - seen
        if chosen and not new:
            break
        chosen.append(best)
        seen |= new
    return [cases[n] for n in sorted(chosen)]


def _values(problem):
    held = {f.name: getattr(problem, f.name) for f in fields(problem)}
    if "gpus" in held:  # each length is that of a part times the GPUs, and more than four work alike
        held["seq_len"] //= held["gpus"]
        held["gpus"] = min(held["gpus"], 5)
    left_out = OWN | OF_CONTEXTS if "context_lens" in held else OWN
    return {(name, value) for name, value in held.items() if name not in left_out}
