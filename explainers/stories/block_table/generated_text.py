"""The text of a model over a served cache: the characters of each step, and a tab with the answers.

The model runs the operators of kernels/ops on this cache's pages. Without a compiler and a GPU, torch's attention over
contiguous keys makes the text, and the tab reports it.
"""

from dataclasses import replace

import pandas as pd

from explainers.stories.block_table.paging import WORDS
from explainers.stories.block_table.subjects import Serving
from explainers.story import stage
from explainers.story.glossary import listed

SPACE = "\u00b7"
DEVICES = {"cpu": "cpu", "gpu": "cuda"}  # backend -> torch's device


def added(result: stage.Stage, subject: Serving) -> stage.Stage:
    """The stage of a served cache with the model's text."""
    from kernels.ops.generation import generate  # it imports torch, and the web process runs no model

    scenario, size = subject.scenario, subject.block_size
    texts, device = dict(scenario.texts), DEVICES.get(subject.backend, "")
    made = generate(scenario.visits, texts, scenario.slots // size, size, device)
    for frame, chosen in zip(result.frames[1:], made.chosen):
        if chosen:
            said = [f'"{_seen(character)}" for {name}' for name, character in chosen]
            frame["sentence"] += f" The model chooses {listed(said)}."
    table = pd.DataFrame(
        [
            {
                "request": name,
                "prompt": made.prompts[name],
                "generated text": _seen(text),
                "tokens of the prompt": len(made.prompts[name]),
                "reused": made.reused.get(name, 0),
                "computed": len(texts[name]),
            }
            for name, text in made.texts.items()
        ]
    )
    names = {"space": SPACE, "equal": made.equal, "reused": [*made.reused], "tokens": sum(made.reused.values())}
    names["total"] = int(table["tokens of the prompt"].sum())
    checked = WORDS.say("checked", names)
    if made.equal is False:
        verdict = stage.note(checked, "bad")
    else:
        label = "executed" if subject.backend == "cpu" else "measured"
        verdict = stage.text(checked, label) if made.equal else stage.text(checked)
    blocks = [stage.text(WORDS.say("model", names)), stage.table(table, WORDS.say("reused_tokens", names)), verdict]
    summary = f"{result.summary} {WORDS.say('reused', names)}"
    return replace(result, tabs=[stage.Tab("text", "Generated text", blocks), *result.tabs], summary=summary)


def _seen(text: str) -> str:
    return text.replace(" ", SPACE)
