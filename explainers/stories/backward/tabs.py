"""The tabs of the backward: five answers, stored and recomputed bytes, a check of a gradient, and times."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from explainers.models import gradients
from explainers.stories.backward import products
from explainers.stories.backward.questions import IN_TURN, Seen, changed
from explainers.story import axes, glossary, picture, stage
from explainers.story.glossary import count, listed
from explainers.story.stage import Block
from kernels.core.request import Request
from kernels.run.results import Run

SECOND = {"cpu": "the blocks run in the opposite order", "gpu": "the same launch once more"}
LONG = (4_096, 16_384, 65_536)  # tokens


def answers(seen: Seen) -> list[Block]:
    """The five questions that readers ask about the backward, answered by the run."""
    request = seen.run.request
    n, keys, _ = gradients.sizes(request)
    weights = n * keys * gradients.tensors(request)["Q"].itemsize
    found = changed(seen) if seen.again else {}
    return [
        stage.heading("Which outputs are not deterministic?"),
        *_deterministic(request, found),
        stage.heading("In which order do the loops run?"),
        *[stage.text(said) for said in _loops(seen)],
        stage.heading("Why do the atomics stay?"),
        stage.text(
            "A row of dQ sums over all keys. With keys outside, each block has only some keys, so it has only a part "
            "of this sum. Atomics add all parts to one shared sum."
        ),
        stage.text(
            "A second loop with queries outside needs no atomics, but it computes S and dP again: 7 products instead "
            "of 5. So fast kernels keep the atomics."
        ),
        stage.text(_way_of(request)),
        stage.heading("Why does it take 2.5 times the products of the forward?"),
        stage.text(
            "The forward makes 2 products for a tile: S = Q Kᵀ and O = P V. The backward needs the gradient of both "
            "factors of each product: dQ and dK, dP and dV. These are 4 products. The fifth computes S again, so the "
            "backward takes 2.5 times the products."
        ),
        stage.text(
            f"{listed([product.said for product in gradients.PRODUCTS])}. At the end, scale multiplies dK and dQ."
        ),
        stage.text(_of_kernel(seen), "derived"),
        stage.heading("Which data does it recompute?"),
        stage.text(
            "S and P of each tile, from Q, K and LSE. LSE is the log of the sum of exp(S) of a row, so "
            "P = exp(S - LSE). It recomputes neither O nor the softmax's max and sum."
        ),
        stage.text(f"LSE takes {4 * n:,} bytes for a head. P would take {weights:,}.", "derived"),
    ]


def _loops(seen: Seen) -> list[str]:
    """For each launch with gradients: the tile that stays, and the tiles that its inner loop walks over."""
    said, names = [], gradients.launches(seen.run.request)
    for launch in sorted({f["launch"] for f in seen.frames}):
        own = [f for f in seen.frames if f["launch"] == launch and f["queries"] and f["keys"] and not f["whole"]]
        made = {part for f in own for part in f["made"]} & set(gradients.GRADIENTS)
        if not made:
            continue
        queries, keys = ({tuple(f[axis] or ()) for f in own} for axis in ("queries", "keys"))
        stays = len(queries) < len(keys) or len(queries) == len(keys) and made == {"dQ"}  # one tile of each, too
        outer, inner, walked = ("queries", "keys", keys) if stays else ("keys", "queries", queries)
        held = [
            part for part in gradients.GRADIENTS if part in made and gradients.along_keys(part) == (outer == "keys")
        ]
        rest = [part for part in gradients.GRADIENTS if part in made and part not in held]
        said.append(
            f"{names[launch]}: {outer} outside, {inner} inside. A block keeps one tile of {outer} and walks over "
            f"{count(len(walked), 'tile')} of {inner}, so {listed(held)} can grow in its registers."
            + (f" The rows of {listed(rest)} change with each tile." if rest else "")
        )
    return said


def _way_of(request: Request) -> str:
    """How this kernel adds up dQ."""
    if gradients.any_order(request):
        turns = request.kernel.in_order
        said = (
            f" With {turns}, its blocks add in a fixed order: equal bits, but each waits for its turn." if turns else ""
        )
        return f"This kernel adds dQ by atomics, in any order.{said}"
    if gradients.adds(request):
        return f"This kernel adds dQ by atomics too. {IN_TURN}"
    return "This kernel uses no atomics. It gives dQ a loop in a fixed order."


def _of_kernel(seen: Seen) -> str:
    """The products of a tile in each launch of the kernel."""
    made = products.by_launch(seen.frames)
    each = [f"{len(own)} ({listed(own)})" for own in made]
    loops = "Its loop makes" if len(made) == 1 else "Its loops make"
    return f"{loops} {listed(each)}."


def _deterministic(request: Request, found: Mapping[str, int]) -> list[Block]:
    """The outputs with bits that depend on the order of the blocks."""
    if gradients.any_order(request):
        rule = "Only dQ. Blocks of all keys add to it by atomics, and a sum of floats depends on its order."
    elif gradients.adds(request):
        rule = f"None with these constants. {IN_TURN} Without turns, only dQ would change."
    else:
        rule = "None in this kernel: one block adds each number, in its loop's order. With atomics, dQ would change."
    more = [stage.text(_second_run(request, found))] if found else []
    if found and gradients.any_order(request) and not any(found.values()):
        number = count(gradients.key_tiles(request), "part")
        few = f"because each sum has only {number}" if gradients.few_terms(request) else "by chance. Run again"
        more = [stage.text(f"Here a second run gives equal bits, {few}.")]
    what = "An output is deterministic if each run gives it equal bits."
    return [stage.text(rule + " dK and dV grow in the registers of one block."), stage.text(what), *more]


def _second_run(request: Request, found: Mapping[str, int]) -> str:
    """The gradients with other bits in the second run, and those with equal bits."""
    again = f"The kernel ran a second time: {SECOND[request.backend]}."
    equal = [part for part, number in found.items() if not number]
    same = [f"All bits of {listed(equal)} are equal."] if equal else []
    sizes = {part: tensor.size for part, tensor in gradients.tensors(request).items()}
    differ = [
        f"{number:,} of the {sizes[part]:,} numbers of {part} got other bits."
        for part, number in found.items()
        if number
    ]
    return " ".join([again, *differ, *same])


def stored(request: Request) -> list[Block]:
    """The bytes of LSE and of a stored P, for this problem and for longer ones."""
    n, keys, d = gradients.sizes(request)
    heads = axes.heads(gradients.tensors(request)["Q"])
    item = gradients.tensors(request)["Q"].itemsize
    rows = [
        {
            "tokens": length,
            "LSE, stored": amount(4 * length * heads),
            "P, if stored": amount(length * other * heads * item),
            "times": round(other * item / 4),
        }
        for length, other in [(n, keys), *((long, long) for long in LONG)]
    ]
    said = (
        f"Derived from the sizes, for {count(heads, 'head')}. LSE has 4 bytes for a query. P has {item} for each pair "
        "of a query and a key."
    )
    return [
        stage.heading("Stored between forward and backward"),
        stage.table(pd.DataFrame(rows), said),
        stage.text(
            "Q, K, V and O are stored in both cases. The backward trades P for one more product in each tile, "
            "S = scale · Q Kᵀ."
        ),
    ]


def amount(size: float) -> str:
    """Bytes in a unit that people read."""
    return glossary.amount(size, ((1e12, "TB"), *glossary.BYTES))


def nudge(run: Run, head: int) -> list[Block]:
    """The check of a gradient: the reader changes one input, and the page compares both changes of the loss.

    head: the first query head of the group, counted over the batch.
    """
    request = run.request
    (n, keys, d), group = gradients.sizes(request), gradients.group_of(request)
    heads = range(head, head + group)
    together = {part: np.concatenate([gradients.values(run, part, h) for h in heads]) for part in ("Q", "dO", "dQ")}
    alone = {part: gradients.values(run, part, head) for part in ("K", "V", "dK", "dV")}
    at = np.unravel_index(int(np.abs(together["dQ"]).argmax()), together["dQ"].shape)
    meta = {
        "group": group,
        "n": n,
        "keys": keys,
        "d": d,
        "scale": float(str(request.problem.sizes["scale"])),
        "causal": bool(request.problem.causal),
        "offset": picture.mask_offset(request),
        "q": together["Q"],
        "k": alone["K"],
        "v": alone["V"],
        "do": together["dO"],
        "gradients": {"q": together["dQ"], "k": alone["dK"], "v": alone["dV"]},
        "at": {"name": "q", "row": int(at[0]), "dim": int(at[1])},
    }
    return [
        stage.heading("Is the gradient right? Change one number, and compare"),
        stage.text(
            "A gradient says how much the loss changes if one number changes. Here the loss is sum(O * dO). Choose a "
            "number of Q, K or V and a small change. The kernel's gradient predicts the change of the loss, and two "
            "forward runs in float64 measure it."
        ),
        stage.live("nudge", meta),
    ]
