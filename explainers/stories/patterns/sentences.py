"""The sentences of Patterns: of each step, of the whole page, and on the source of the figures."""

import re
from collections.abc import Sequence

from explainers.stories.patterns.frames import COMING, READ, Move
from explainers.stories.patterns.moves import shuffles
from explainers.stories.patterns.shown import Shown
from explainers.story.glossary import count, figure, logged


def summary(shown: Sequence[Shown]) -> str:
    """The task, and the wait of the slowest and of the fastest way."""
    walks = [way.walk for way in shown]
    numbers = len(walks[0].moves[0]["places"])
    task = f"add {numbers} numbers"
    if walks[0].stages:
        several = max(walk.stages for walk in walks) > 1
        task = "copy tiles to shared memory and add them" if several else "copy a tile to shared memory"
    why = "A kernel computes on tiles in shared memory" if walks[0].stages else "Softmax needs the sum of each row"
    said = f"{why}: here are {count(len(shown), 'way')} for one block to {task}"
    known = sorted((way for way in shown if way.cycles), key=lambda way: way.cycles.cycles if way.cycles else 0)
    if len(known) < 2:
        return f"{said}."
    first, last = known[0], known[-1]
    assert first.cycles and last.cycles
    least, most = figure(first.cycles.cycles), figure(last.cycles.cycles)
    slow, fast = (way.waits.replace(", ", " and ") for way in (last, first))
    if not (slow and fast):
        return f"{said}, in {least} to {most} cycles."
    if slow == fast:
        return f"{said}. All wait mainly for {slow}: {least} to {most} cycles."
    said = f"{said}. The wait decides: “{first.name}” takes {least} cycles, “{last.name}” {most}."
    rates = {way.name: way.cycles.per_us for way in known if way.cycles and way.cycles.per_us}
    return f"{said} On a full GPU, “{max(rates, key=lambda name: rates[name])}” wins." if rates else said


def note(shown: Sequence[Shown]) -> str:
    """The source of the figures."""
    known = next((way.cycles for way in shown if way.cycles), None)
    kept = {_gpu(way.traced): None for way in shown if way.traced}
    here = [way.name for way in shown if not way.traced]
    traces = " and ".join(f"on {gpu}" for gpu in kept)
    counts = "Counts: from traces" + (f" {traces}" if traces else "")
    counts += f", of “{here[0]}” from a run on this machine." if traces and len(here) == 1 else "."
    if known is None:
        return f"{counts} No cycles are recorded for this problem."
    full = " Full GPU: on SMs full of blocks, waits overlap and the work counts." if known.per_us else ""
    return f"Cycles: {known.label} on {_gpu(known.device)}, with one block on the whole GPU.{full} {counts}"


def _gpu(device: str) -> str:
    """The short name of a GPU: H100."""
    return re.sub(r" \d+GB.*|,.*", "", device.removeprefix("NVIDIA "))


def place(device: str, date: str) -> str:
    return f"{device.removeprefix('NVIDIA ')}, {date}"


def sentence(way: Shown, n: int) -> str:
    """A step of a way, and its cost in shared memory."""
    moves = way.walk.moves
    move, last = moves[n], n == len(moves) - 1
    said = f"{way.name}, step {n + 1} of {len(moves)}: {move['title']}."
    if way.walk.stages:
        return f"{said} {_during(move)}"
    said += f" {_cost(move)}"
    total = "" if way.walk.total is None else f": {logged(way.walk.total)}"
    return f"{said} The sum is complete{total}." if last else said


def _cost(move: Move) -> str:
    """The reason for the wavefronts of an addition."""
    waves, accesses = move["wavefronts"], move["accesses"]
    if not move["pairs"]:
        return "The sums go to one word of global memory, in the L2 cache."
    if shuffles(move):
        return "A shuffle brings each lane another lane's register."
    if waves > move["ideal"]:
        turns = waves / accesses
        about = "" if turns == int(turns) else "on average "
        return f"Words of an access share a bank, so it takes {about}{figure(turns, 2)} wavefronts, one after another."
    if waves > accesses:
        return "Each lane reads several words at once, so an access takes several wavefronts."
    if move["working"] == 1:
        return "No two words share a bank, so an access takes one wavefront."
    return "The words of an access lie in different banks, so it takes one wavefront."


def _during(move: Move) -> str:
    """The work of copies during a step of a tile."""
    if READ in move["places"]:
        busy = COMING in move["places"]
        return "Copies of later tiles run meanwhile." if busy else "No copy runs meanwhile."
    if COMING in move["places"]:
        return "The bytes arrive later, while the threads go on."
    return f"Their stores take {count(move['wavefronts'], 'wavefront')} of shared memory."
