"""Questions about the lanes of a row: how they find its max, the place of the weights, and the reads of K."""

from explainers.models.tiling import Tiling, bytes_stored, scores_size
from explainers.stories.registers.holders import weight_bytes
from explainers.stories.registers.lanes import Lanes
from explainers.story.glossary import count
from explainers.story.questions import Where, idea
from explainers.story.stage import Question
from kernels.run.results import Run
from kernels.trace.kinds import READS

COST = "It would cost a write, a wait and a read."


def questions(run: Run, tiles: Tiling, lanes: Lanes | None, row: int) -> list[Question]:
    """The questions about a row's lanes. Their answers come from the launch and the trace."""
    return [*_row_max(tiles, lanes, row), *_reads_of_k(run, tiles), _weights(run, tiles)]


def _row_max(tiles: Tiling, lanes: Lanes | None, row: int) -> list[Question]:
    """A question about the max of a row whose scores are in several lanes of one warp."""
    threads = lanes.of_row(row) if lanes else []
    if lanes is None or len(threads) < 2 or len({n // 32 for n in threads}) > 1 or _stores_scores(tiles):
        return []
    wrong = {
        "They write them to shared memory": f"The trace has no store of a score. {COST}",
        "One lane addresses the registers of the others": "A register has no address, so a lane reads only its own.",
        "They write them to global memory": "The trace has no store of S. Global memory is the slowest of all.",
    }
    why = (
        f"These {len(threads)} lanes are neighbours in one warp. In each round, each lane swaps its max with "
        "one partner and keeps the larger one. No memory is needed."
    )
    text = f"{count(len(threads), 'lane')} hold the scores of row {row}. How do they find the max of the row?"
    first, weighed = lanes.scored[row - lanes.row0], lanes.weighed[row - lanes.row0]
    seen = weighed if (weighed >= 0).any() else first  # the step with the shuffles
    where: Where = {
        "step": int(seen[seen >= 0].min()),
        "view": "lanes",
        "veils": ("headline",),
        "hides": ["by shuffles"],
        "shows": {"row": row, "key": lanes.tiles[0][0]},
    }
    return [idea("row_max", text, "They pass values to each other by shuffles", wrong, why, **where)]


def _stores_scores(tiles: Tiling) -> bool:
    """Whether a kernel stores scores in shared or global memory."""
    return "S" in tiles.places.values()


def shared_times(tiles: Tiling) -> tuple[int, int]:
    """The bytes of K read from shared memory, and from global memory."""
    symbol = next(symbol for symbol, place in tiles.places.items() if place == "K")
    table = tiles.traffic[tiles.traffic.tensor == symbol]
    shared = table[(table.space == "shared") & table.kind.isin(READS)].bytes.sum()
    return int(shared), int(table[(table.space == "global") & (table.kind == "load")].bytes.sum())


def _reads_of_k(run: Run, tiles: Tiling) -> list[Question]:
    """A question about the reads of K from shared memory, the cost that registers save."""
    shared, loaded = shared_times(tiles)
    times, rows = shared / loaded if loaded else 0.0, tiles.rows[1] - tiles.rows[0]
    threads = run.request.plan.launches[-1].threads
    if times < 1.5 or abs(times - round(times)) > 0.01:
        return []
    right = f"{round(times)} times" + (": once for each query" if round(times) == rows else "")
    wrong = {
        "Once, as from global memory": "Each query meets each key, and a thread has only its own queries. "
        "So other threads read the key again.",
        f"{rows} times: once for each query": "A thread has several queries in registers. One read serves them all.",
        f"{threads} times: once for each thread": "A thread reads only some of the keys.",
    }
    wrong = {option: reason for option, reason in wrong.items() if option.split()[0] != right.split()[0]}
    why = (
        f"The lanes ask shared memory for {shared:,} bytes of K, and the block copied only {loaded:,} there. "
        "A thread with more queries in registers needs fewer of these reads."
    )
    text = "A block copies each tile of K into shared memory once. How often do its threads ask for each number there?"
    step = max(n for n, frame in enumerate(tiles.frames) if frame["scores"])
    where: Where = {"step": step, "view": "matrices", "veils": ("sentence", "headline", "tabs")}
    return [idea("shared_again", text, right, wrong, why, **where)]


def _weights(run: Run, tiles: Tiling) -> Question:
    """A question about the place of the weights between the two products."""
    held = max(weight_bytes(tiles, frame) for frame in tiles.frames)
    stored, size = bytes_stored(run).get("P", 0), scores_size(run)
    last = len(tiles.frames) - 1
    step = next((n for n, frame in enumerate(tiles.frames) if weight_bytes(tiles, frame)), last)
    shared, own, globally = "In shared memory", "In the registers of their lanes", "In global memory"
    if stored:
        right, why = globally, f"The block writes {stored:,} bytes of P there, and the last product reads them back."
        wrong = {
            own: f"The trace stores P: {stored:,} bytes. Another launch needs them, and it has other registers.",
            shared: "Another launch needs the weights. Shared memory ends with its block.",
        }
    elif held:
        right, why = shared, f"The block keeps {held:,} bytes of P there. The threads need weights of other threads."
        wrong = {
            own: "The threads need weights of other threads, and no thread reads a register of another.",
            globally: f"The trace has no store of P there. It would take {size:,} bytes.",
        }
    else:
        right = own
        why = f"The trace has no store of P. In shared or global memory, these weights would take {size:,} bytes."
        wrong = {
            shared: f"The trace has no store of P. {COST}",
            globally: "The trace has no store of P. Global memory is the slowest of all.",
        }
    text = "The weights P come out of the softmax and go into the product with V. Which memory holds them in between?"
    where: Where = {"step": step, "view": "matrices", "veils": ("sentence", "strip", "headline", "tabs")}
    return idea("weights", text, right, wrong, why, **where)
