"""The story of the backward: the data that it stores and recomputes, its five products, and the gradients as they
grow."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from explainers.models import gradient_errors, gradients
from explainers.stories.backward import picture as pictures
from explainers.stories.backward import records, reverse, times
from explainers.stories.backward.picture import WORDS
from explainers.stories.backward.walk import Walk, walk
from explainers.story import axes, glossary, picture, probed, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.glossary import count, listed
from explainers.story.stage import Block, Stage, State, Tab
from explainers.story.words import Names, Row
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role
from kernels.run.results import Run

FACTS = {"products": ["dP"], "recomputed": ["S", "P"], "loops": ["dV", "dK"], "sums": ["dQ"], "bits": ["dQ"]}
SECOND = {"cpu": "the blocks run in the opposite order", "gpu": "the same launch once more"}
ANSWERS = {
    "rule": ("rule", "deterministic", "again"),
    "loop": ("loop",),
    "atomics": ("atomics", "second_loop", "way"),
    "five_products": ("five_products", "in_order", "of_kernel"),
    "recomputed": ("recomputed", "lse"),
}
LONG = (4_096, 16_384, 65_536)  # tokens
TABS = {
    "answers": "Five questions",
    "nudge": "Check a gradient",
    "stored": "Stored and recomputed",
    "errors": "Errors by step",
    "times": "Time and memory",
}


class Backward(Story[Request]):
    """One block of each launch, tile by tile."""

    WANTS = tuple(gradients.EVENTS)

    def first(self, kernels: Mapping[str, KernelSpec]) -> str:
        """The default kernel: the first with blocks that add up a gradient, or the first of all."""
        own = probed.accepting(self, kernels)
        return next((name for name, spec in own.items() if gradients.adds(probed.sample(spec))), next(iter(own), ""))

    def refusal(self, spec: KernelSpec) -> str:
        request = probed.sample(spec)
        if missing := gradients.lacking(request):
            return f"{spec.name} has no tensor for {listed(missing)}. Declare the parts in the problem's `picture`."
        if not probed.marks(spec):
            return f"{spec.name} marks no step. Add a PROBE_MARK."
        return probed.without_events(spec, gradients.NEEDED)

    def stage(self, subject: Request, runner: Runner) -> Stage:
        run = runner.run(subject)
        made = walk(run)
        again = second_run(run, runner)
        data = data_of(run, made.steps, again)
        backwards = reverse.views(run, made)
        if backwards:
            data |= {"view": backwards[0].id, "at": reverse.steps_of(backwards[0])}
            at = data["at"]
            last = at["gradients"]
            at |= {"products": at["map"], "weights": at["again"], "keys": last, "next": at.get("next", last)}
        frames = WORDS.frames(made.steps, data)
        summary, tone = runner.broken(run)
        return stage.of_request(
            subject,
            frames,
            [*backwards, pictures.tiles(run, made, data), *pictures.sums(run, again, made, data["second"], runner)],
            state=states(made, data),
            tabs=[*(Tab(name, title) for name, title in TABS.items()), stage.BUILDS, stage.DATA],
            provenance=runner.provenance(run),
            questions=WORDS.questions(data, 0),
            summary=summary or WORDS.say("summary", data),
            tone=tone or "info",
        )

    def parts(self) -> dict[str, Part[Request]]:
        return {"answers": answers, "stored": stored, "nudge": nudge, "errors": errors, "times": times_and_memory}


def second_run(run: Run, runner: Runner) -> Mapping[str, np.ndarray]:
    """The outputs of a second run, empty for a recorded run."""
    return runner.outputs_again(run.request) if run.request.backend in SECOND else {}


def data_of(run: Run, steps: Sequence[Row], again: Mapping[str, np.ndarray]) -> Row:
    """Every value of the page's texts. again: the outputs of a second run, if there is one."""
    request = run.request
    n, keys, d = gradients.sizes(request)
    of = gradients.tensors(request)
    item, adds = of["Q"].itemsize, gradients.adds(request)
    own = [row for row in steps if not row["whole"]]
    traced = {key.rpartition(" ")[0]: key for row in steps for key in row["bytes"]}
    parts = [part for part in of if part in traced]
    parts += ["delta"] if "delta" not in parts and any("delta" in row["made"] for row in own) else []
    each: dict[int, list[str]] = {}  # launch -> the products of a tile that it makes
    for row in own:
        mine = each.setdefault(row["launch"], [])
        mine += [p.made for p in gradients.PRODUCTS if p.made in row["made"] and p.made not in mine]
    products = [made for made in each.values() if made]
    moves_weights = "P" in traced
    kinds = {request.plan.launches[row["launch"]].item for row in own if set(row["made"]) & set(gradients.GRADIENTS)}
    first = {
        part: next((n for n, r in enumerate(steps) if part in r["made"] and not r["whole"]), 0)
        for part in gradients.ORDER
    }
    of_values = [row for row in steps if row["launch"] == steps[first["dV"]]["launch"]]
    grows = [
        part
        for part in gradients.GRADIENTS
        if len({id(r["state"].get(part)) for r in of_values if part in r["state"]}) > 1
    ]
    changed = {part: changes(run, again, part) for part in gradients.GRADIENTS} if again else {}
    differ = [part for part, number in changed.items() if number]
    said = pictures.formulas(adds)
    data: Row = {
        **{"n": n, "d": d, "query": n, "key": keys, "adds": adds, "formulas": said, "parts": parts},
        "launches": gradients.launches(request),
        "blocks": [launch.blocks for launch in request.plan.launches],
        "places": records.places(run),
        "any_order": gradients.any_order(request),
        "few_terms": gradients.few_terms(request),
        "key_tiles": gradients.key_tiles(request),
        "turns": request.kernel.in_order,
        "second": SECOND.get(request.backend, ""),
        "idea": request.kernel.idea.partition(". ")[0].rstrip("."),
        **{"products": products, "number": sum(map(len, products)), "each": [len(made) for made in products]},
        "moves_weights": moves_weights,
        "recomputes": not moves_weights and "LSE load" in steps[-1]["bytes"],
        "outer": sorted("keys" if kind == gradients.KEY_ITEM else "queries" for kind in kinds),
        **{"lse_bytes": 4 * n, "p_bytes": n * keys * item, "item": item},
        "long": reverse.SIZES,
        "first": first,
        "view": "tiles",
        "at": _answers_at(first),
        "held": [part for part in grows if part != "dQ"],
        "tiles": len({row["tile"] for row in of_values} - {-1}),
        "key_spans": len({tuple(row["keys"]) for row in of_values if row["keys"] and row["made"]}),
        "all_products": {product.made for product in gradients.PRODUCTS}
        <= {part for row in steps for part in row["made"]},
        "s_launches": len({row["launch"] for row in steps if "S" in row["made"]}),
        "changed": [{"part": part, "number": number, "of": of[part].size} for part, number in changed.items()],
        **{"only_dq": differ == ["dQ"], "differs": bool(differ), "compared": bool(changed)},
        "in_turn": WORDS.say("in_turn", {}),
    }
    data["dq_differs"] = WORDS.say("dq_differs", data) if changed else ""
    data["hidden"] = [said[product.made] for product in gradients.PRODUCTS]
    facts = [(WORDS.say(f"fact_{name}", data), of) for name, of in FACTS.items()]
    return data | {"facts": [(text, of) for text, of in facts if text], "panel": [text for text, _ in facts if text]}


def _answers_at(first: Mapping[str, int]) -> dict[str, int]:
    """The steps of the questions, and of their answers, in the chain."""
    at = {"kept": max(0, first["P"] - 1), "weights": first["P"], "products": max(0, first["dV"] - 1)}
    return at | {"keys": first["dK"], "next": first["dK"]}


def changes(run: Run, again: Mapping[str, np.ndarray], part: str) -> int:
    """How many numbers of a gradient have other bits in the second run."""
    name = gradients.tensors(run.request)[part].name
    once, twice = (np.ascontiguousarray(arrays[name]) for arrays in (run.arrays, again))
    return int((once.view(f"u{once.itemsize}") != twice.view(f"u{once.itemsize}")).sum())


def states(made: Walk, data: Names) -> list[State]:
    """The strip: the products of the traced block, its recomputed P, and the bytes that it writes to dQ."""
    steps = made.steps
    adding = [touch for row in steps if "dQ" in row["made"] for touch in row["touched"]]
    logs = not data["adds"] or any((one["part"], one["kind"]) == ("dQ", "store") for one in adding)
    return [
        State("products, this block", [row["products"] for row in steps], of=steps[-1]["products"]),
        State("P, bytes made", [row["weights_made"] for row in steps], "B"),
        *([State("dQ, bytes written", [row["bytes"].get("dQ store", 0) for row in steps], "B")] if logs else []),
    ]


# ---- tabs ----


def answers(subject: Request, runner: Runner) -> list[Block]:
    """The five questions that readers ask about the backward, answered by the run."""
    run = runner.run(subject)
    steps = walk(run).steps
    data = data_of(run, steps, second_run(run, runner))
    data["each_made"] = [f"{len(made)} ({listed(made)})" for made in data["products"]]
    data["in_formulas"] = [product.said for product in gradients.PRODUCTS]
    blocks = []
    for first, title in WORDS.table("answers").items():
        rows = loops(steps, data) if first == "loop" else [data]
        texts = [
            (WORDS.say(name, row), "derived" if name in ("of_kernel", "lse") else "")
            for name in ANSWERS[first]
            for row in rows
        ]
        blocks += [stage.heading(title), *(stage.text(text, label) for text, label in texts if text)]
    return blocks


def loops(steps: Sequence[Row], data: Names) -> list[Row]:
    """For each launch with gradients: the tile that stays, and the tiles that its inner loop walks over."""
    found = []
    for launch in sorted({row["launch"] for row in steps}):
        own = [row for row in steps if row["launch"] == launch and row["queries"] and row["keys"] and not row["whole"]]
        made = {part for row in own for part in row["made"]} & set(gradients.GRADIENTS)
        if not made:
            continue
        queries, keys = ({tuple(row[axis]) for row in own} for axis in ("queries", "keys"))
        stays = len(queries) < len(keys) or len(queries) == len(keys) and made == {"dQ"}  # one tile of each, too
        outer, inner, walked = ("queries", "keys", keys) if stays else ("keys", "queries", queries)
        held = [p for p in gradients.GRADIENTS if p in made and gradients.along_keys(p) == (outer == "keys")]
        rest = [part for part in gradients.GRADIENTS if part in made and part not in held]
        row = {"launch": data["launches"][launch], "outer": outer, "inner": inner, "tiles": len(walked)}
        found.append({**row, "held": held, "rest": rest})
    return found


def stored(subject: Request, runner: Runner) -> list[Block]:
    """The bytes of LSE and of a stored P, for this problem and for longer ones."""
    n, keys, _ = gradients.sizes(subject)
    q = gradients.tensors(subject)["Q"]
    heads, item = axes.heads(q), q.itemsize
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
    return glossary.amount(size, ((1e12, "TB"), *glossary.BYTES))


def nudge(subject: Request, runner: Runner) -> list[Block]:
    """The check of a gradient: the reader changes one input, and the page compares both changes of the loss."""
    run = runner.run(subject)
    head = walk(run).head
    (n, keys, d), group = gradients.sizes(subject), gradients.group_of(subject)
    heads = range(head, head + group)
    together = {part: np.concatenate([gradients.values(run, part, h) for h in heads]) for part in ("Q", "dO", "dQ")}
    alone = {part: gradients.values(run, part, head) for part in ("K", "V", "dK", "dV")}
    at = np.unravel_index(int(np.abs(together["dQ"]).argmax()), together["dQ"].shape)
    meta = {
        **{"group": group, "n": n, "keys": keys, "d": d},
        "scale": float(str(subject.problem.sizes["scale"])),
        "causal": bool(subject.problem.causal),
        "offset": picture.mask_offset(subject),
        **{"q": together["Q"], "k": alone["K"], "v": alone["V"], "do": together["dO"]},
        "gradients": {"q": together["dQ"], "k": alone["dK"], "v": alone["dV"]},
        "at": {"name": "q", "row": int(at[0]), "dim": int(at[1])},
    }
    return [
        stage.heading("Is the gradient right? Change one number, and compare"),
        stage.text(WORDS.say("nudge", {})),
        stage.live("nudge", meta),
    ]


def errors(subject: Request, runner: Runner) -> list[Block]:
    run = runner.run(subject)
    return gradient_errors.blocks(run, walk(run).head)


def times_and_memory(subject: Request, runner: Runner) -> list[Block]:
    return [*times.blocks(subject.kernel), *memory(subject)]


def memory(request: Request) -> list[Block]:
    """The bytes of the tensors of both passes, for this problem and for longer ones."""
    own = set(request.problem.values())
    sizes = [{"seq_len": n, "seq_len_kv": 0} for n in LONG]
    problems = [replace(request.problem, **{k: v for k, v in one.items() if k in own}) for one in sizes]
    rows = [_bytes(one) for one in (request, *(replace(request, problem=problem) for problem in problems))]
    heads = count(axes.heads(gradients.tensors(request)["Q"]), "head")
    return [
        stage.heading("Memory, next to the forward"),
        stage.table(pd.DataFrame(rows), WORDS.say("memory", {"heads": heads})),
    ]


def _bytes(request: Request) -> Row:
    of = gradients.tensors(request)
    size = {part: tensor.size * tensor.itemsize for part, tensor in of.items()}
    queries, keys, _ = gradients.sizes(request)
    return {
        "tokens": queries,
        "forward": amount(sum(size.get(part, 0) for part in ("Q", "K", "V", "O", "LSE"))),
        "backward adds": amount(sum(size[part] for part in ("dO", "dQ", "dK", "dV"))),
        "scratch": amount(sum(t.size * t.itemsize for t in request.plan.tensors if t.role is Role.SCRATCH)),
        "P, if stored": amount(queries * keys * axes.heads(of["Q"]) * of["Q"].itemsize),
    }


STORY = Backward()
