"""Which of a kernel's cases the CPU is asked to run: a build takes a second there, and a check names hundreds."""

from dataclasses import fields
from itertools import combinations

from kernels.core.request import Request

# A problem's fields of which no two cases have the same, or that follow from the others.
OWN = {"seed", "num_blocks", "block_tables", "token_ids", "families", "slots", "copies"}
# Of a batch of contexts of which single values are asked for: nearly each would be a build of its own.
THEIRS = {"context_lens", "num_heads", "num_kv_heads", "-DGROUP", "ranges", "prefix"}
BUILD = 3  # how much more a case costs whose build no other case has needed


MOST_BUILDS = 2  # where single values are asked for: what they leave out, the slow tests and a GPU run


def pairwise(kernel, cases, twos=True):
    """Some of the cases, in their order, that have between them: every value of every field and constant; and every two
    of the compile-time values, flags and seq_len of a problem that stand together in any. If `twos` is false, single
    values alone, those that most cases need first, in MOST_BUILDS builds."""
    builds = [tuple(Request(kernel, case.problem, tuple(case.settings)).defines.items()) for case in cases]
    needs = [_needs(kernel, case, build, twos) for case, build in zip(cases, builds)]
    left, chosen = set().union(*needs), set()
    while left:
        made = {builds[n] for n in chosen}
        full = not twos and len(made) == MOST_BUILDS
        able = [n for n in range(len(cases)) if not full or builds[n] in made]
        best = max(able, key=lambda n: len(needs[n] & left) / (1 if builds[n] in made else BUILD))
        if not needs[best] & left:
            break
        chosen.add(best)
        left -= needs[best]
    return [cases[n] for n in sorted(chosen)]


def _needs(kernel, case, build, twos):
    held = {f.name: getattr(case.problem, f.name) for f in fields(case.problem)}
    given = OWN | THEIRS if "context_lens" in held and not twos else OWN
    values = [(k, v) for k, v in [*((f"-D{name}", value) for name, value in build), *held.items()] if k not in given]
    constants = {f"-D{c.name}" for c in kernel.constants}
    two = [(k, v) for k, v in values if k not in constants and (k[:2] == "-D" or isinstance(v, bool) or k == "seq_len")]
    return {frozenset([value]) for value in values} | {frozenset(pair) for pair in combinations(two, 2) if twos}
