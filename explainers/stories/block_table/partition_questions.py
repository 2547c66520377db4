"""The questions about V2: the merge of its partitions, and the contexts that it helps."""

from explainers.stories.block_table.walk_types import PartitionsMeta
from explainers.story.glossary import count, short
from explainers.story.questions import idea
from explainers.story.stage import Question, Stage

TOLD = (  # what says how the parts are merged: two sentences, and two lines of the picture
    "scales each part by e^(m_i - m) and adds",
    "scales and adds the outputs",
    "l = \u03a3 l\u1d62 e^(m\u1d62 \u2212 m)",
    "O = \u03a3 O\u1d62 e^(m\u1d62 \u2212 m) / l",
)


def partitions(made: Stage) -> list[Question]:
    """Returns the questions about a stage with both kernels."""
    meta: PartitionsMeta = made.views[0].meta
    return [*_split(made, meta), _helps(made, meta)]


def _split(made: Stage, meta: PartitionsMeta) -> list[Question]:
    parts, frames = meta["parts"], meta["frames"]
    if len(parts) < 2:
        return []
    merged = next((n for n, f in enumerate(frames) if f["reduce"] is not None), len(frames) - 1)
    low = min(parts[:-1], key=lambda part: part["weight"])  # the picture has no room for the last
    return [
        idea(
            "check_split",
            "How does V2 split a long context, and how does it merge the parts?",
            "Each block keeps its own max, sum and output. A second kernel rescales, adds and divides",
            {
                "Each block writes its part of the output. A second kernel adds the parts": (
                    f"Each block counts against its own max. In partition {low['partition']} it is "
                    f"{short(low['m'], 3)}, and in the whole context {short(meta['v2']['m'], 3)}."
                ),
                "The blocks agree on one max first. Then each adds to the output": (
                    f"No block waits for another. The max of all is first known in step {merged + 1}."
                ),
                "Each block takes some dims of all tokens. The parts are put side by side": (
                    f"Each block takes all dims of its own tokens, for example tokens {parts[0]['first']} to "
                    f"{parts[0]['end'] - 1}."
                ),
            },
            f"{len(parts)} blocks leave a max m_i, a sum l_i and an output each. The second kernel scales a part by "
            f"e^(m_i - m), for example partition {low['partition']} by {short(low['weight'], 3)}.",
            step=merged,
            view=made.views[0].id,
            veils=("headline",),
            hides=TOLD,
        )
    ]


def _helps(made: Stage, meta: PartitionsMeta) -> Question:
    parts, length = len(meta["parts"]), meta["length"]
    return idea(
        "helps",
        "When does V2 help?",
        "When a few long contexts leave most SMs without a block",
        {
            "Always: it reads fewer keys": f"Both kernels read the keys of all {length} tokens.",
            "When many short contexts come together": (
                "A short context is one partition. V2 then adds only a second kernel."
            ),
            "When the keys do not fit in the memory of the GPU": (
                f"Both kernels read one cache. V2 adds a workspace: m, l and an output for each of {parts} partitions."
            ),
        },
        f"For {count(length, 'token')} of a query head, V1 has one block and V2 has {parts}. "
        f"So up to {parts} SMs work. "
        "With many sequences the SMs are full without partitions.",
        step=min(1, len(meta["frames"]) - 1),
        view=made.views[0].id,
        covers=[{"part": "sms"}],
        shows={"part": "sms"},
    )
