"""The tabs of the backward: five answers, stored and recomputed bytes, a check of a gradient, and times."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from explainers.models import gradients
from explainers.stories.backward import products
from explainers.stories.backward.products import WORDS
from explainers.stories.backward.questions import IN_TURN, Seen, changed
from explainers.story import axes, glossary, picture, stage
from explainers.story.glossary import listed
from explainers.story.stage import Block
from kernels.core.request import Request
from kernels.run.results import Run

SECOND = {"cpu": "the blocks run in the opposite order", "gpu": "the same launch once more"}
ANSWERS = ("atomics", "second_loop", "way", "five_products", "formulas", "of_kernel", "recomputed", "lse")
LONG = (4_096, 16_384, 65_536)  # tokens


def answers(seen: Seen) -> list[Block]:
    """The five questions that readers ask about the backward, answered by the run."""
    request = seen.run.request
    n, keys, _ = gradients.sizes(request)
    made = products.by_launch(seen.frames)
    names = {
        "lse_bytes": 4 * n,
        "p_bytes": n * keys * gradients.tensors(request)["Q"].itemsize,
        "adds": gradients.adds(request),
        "any_order": gradients.any_order(request),
        "turns": request.kernel.in_order,
        "in_turn": IN_TURN,
        "formulas": [product.said for product in gradients.PRODUCTS],
        "loops": len(made),
        "made": [f"{len(own)} ({listed(own)})" for own in made],
    }
    say = {name: WORDS.say(name, names) for name in ANSWERS}
    return [
        stage.heading("Which outputs are not deterministic?"),
        *_deterministic(request, changed(seen) if seen.again else {}),
        stage.heading("In which order do the loops run?"),
        *[stage.text(said) for said in _loops(seen)],
        stage.heading("Why do the atomics stay?"),
        *[stage.text(say[name]) for name in ("atomics", "second_loop", "way")],
        stage.heading("Why does it take 2.5 times the products of the forward?"),
        *[stage.text(say[name]) for name in ("five_products", "formulas")],
        stage.text(say["of_kernel"], "derived"),
        stage.heading("Which data does it recompute?"),
        stage.text(say["recomputed"]),
        stage.text(say["lse"], "derived"),
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
        row = {
            "launch": names[launch],
            "outer": outer,
            "inner": inner,
            "tiles": len(walked),
            "held": held,
            "rest": rest,
        }
        said.append(WORDS.say("loop", row))
    return said


def _deterministic(request: Request, found: Mapping[str, int]) -> list[Block]:
    """The outputs with bits that depend on the order of the blocks. found: what differs in a second run."""
    sizes = {part: tensor.size for part, tensor in gradients.tensors(request).items()}
    names = {
        "adds": gradients.adds(request),
        "any_order": gradients.any_order(request),
        "in_turn": IN_TURN,
        "second": SECOND.get(request.backend, ""),
        "equal": [part for part, number in found.items() if not number],
        "differ": [{"part": part, "number": n, "of": sizes[part]} for part, n in found.items() if n],
        "few": gradients.few_terms(request),
        "key_tiles": gradients.key_tiles(request),
    }
    again = ["equal_bits"] if gradients.any_order(request) and not any(found.values()) else ["second_run"]
    return [stage.text(WORDS.say(name, names)) for name in ("rule", "deterministic", *(again if found else ()))]


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
    return [
        stage.heading("Stored between forward and backward"),
        stage.table(pd.DataFrame(rows), WORDS.say("stored_sizes", {"heads": heads, "item": item})),
        stage.text(WORDS.say("stored", {})),
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
        stage.text(WORDS.say("nudge", {})),
        stage.live("nudge", meta),
    ]
