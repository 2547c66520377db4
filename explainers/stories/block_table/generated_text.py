"""The text of a model over a served cache: the characters of each step, and a tab with the answers.

The model runs the operators of kernels/ops on this cache's pages. Without a compiler and a GPU, torch's attention over
contiguous keys makes the text, and the tab reports it.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from explainers.stories.block_table.subjects import Serving
from explainers.story import stage
from explainers.story.glossary import count, listed
from kernels.kv_cache.scenarios import Scenario

if TYPE_CHECKING:
    from kernels.ops.generation import Chosen, Generation

SPACE = "\u00b7"
DEVICES = {"cpu": "cpu", "gpu": "cuda"}  # backend -> torch's device


def added(result: stage.Stage, subject: Serving) -> stage.Stage:
    """Returns the stage of a served cache with the model's text."""
    from kernels.ops.generation import generate  # it imports torch, and the web process runs no model

    scenario, size = subject.scenario, subject.block_size
    device = DEVICES.get(subject.backend, "")
    made = generate(scenario.visits, dict(scenario.texts), scenario.slots // size, size, device)
    for frame, chosen in zip(result.frames[1:], made.chosen):
        frame["sentence"] += step_sentence(chosen)
    tab = stage.Tab("text", "Generated text", blocks(scenario, made, subject.backend))
    return replace(result, tabs=[tab, *result.tabs], summary=f"{result.summary} {_reused(made)}")


def step_sentence(chosen: "Chosen") -> str:
    """Returns the characters of a step in a sentence, with a space in front. Empty without one."""
    if not chosen:
        return ""
    said = [f'"{_seen(character)}" for {name}' for name, character in chosen]
    return f" The model chooses {listed(said)}."


def blocks(scenario: Scenario, made: "Generation", backend: str) -> list[stage.Block]:
    """Returns the tab: the answers, the reused tokens, and the same model with contiguous keys."""
    said = (
        "The model is a small decoder like Llama with random weights, so its text is noise. A token is a character, "
        f"and {SPACE} is a space."
    )
    caption = "The keys of the reused tokens come from the pages of another request. They are not computed again."
    return [stage.text(said), stage.table(table(scenario, made), caption), _checked(made, backend)]


def table(scenario: Scenario, made: "Generation") -> pd.DataFrame:
    """Returns a row for each request with an answer."""
    own = dict(scenario.texts)
    return pd.DataFrame(
        [
            {
                "request": name,
                "prompt": made.prompts[name],
                "generated text": _seen(text),
                "tokens of the prompt": len(made.prompts[name]),
                "reused": made.reused.get(name, 0),
                "computed": len(own[name]),
            }
            for name, text in made.texts.items()
        ]
    )


def _seen(text: str) -> str:
    return text.replace(" ", SPACE)


def _checked(made: "Generation", backend: str) -> stage.Block:
    if made.equal is None:
        return stage.text(
            "No kernel can run here, so torch's attention over contiguous keys made this text. Choose another backend "
            "to run the kernels over the pages."
        )
    if made.equal:
        said = "torch's attention over contiguous keys generates the same text, character by character."
        return stage.text(said, "executed" if backend == "cpu" else "measured")
    return stage.note("torch's attention over contiguous keys generates another text. Do not trust this run.", "bad")


def _reused(made: "Generation") -> str:
    """Returns the prefix hits in a sentence."""
    tokens, total = sum(made.reused.values()), sum(map(len, (made.prompts[name] for name in made.texts)))
    return f"{listed(list(made.reused))} reuse {count(tokens, 'token')} of their {total} prompt tokens."
