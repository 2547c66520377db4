"""One writer of a kernel below one of another kernel, on one scale: the gap that copies in flight remove."""

from dataclasses import replace

from explainers.stories.pipeline.key_tile_frames import COPIES, BlockStory
from explainers.story.glossary import figure
from explainers.story.stage import Question, View
from kernels.core.launch import ConstantRole

ID = "before"


def views(stories: list[BlockStory], drawn: View) -> list[View]:
    """The rows of both leaders from the picture of all rows, the other kernel first. None for one kernel or for roles.

    drawn: the picture `pipeline` of both stories.
    """
    if len(stories) != 2 or any((story.bars.role == "producer").any() for story in stories):
        return []
    rows = drawn.meta["rows"]
    leaders = [
        next(n for n, row in enumerate(rows) if row["kernel"] == story.name and row["writer"] == story.leader)
        for story in reversed(stories)
    ]
    row = drawn.columns["row"]
    order = [n for leader in leaders for n in range(len(row)) if row[n] == leader]
    columns = {name: values[order] for name, values in drawn.columns.items()}
    columns["row"] = (columns["row"] == leaders[1]).astype(float)
    titles = ("Before", "Now")
    shown = [{**rows[n], "label": f"{title}: {rows[n]['kernel']}"} for title, n in zip(titles, leaders)]
    meta = {**drawn.meta, "rows": shown, "row_of": {stories[0].leader: 1}}
    return [View(drawn.kind, ID, f"One {stories[0].made.noun}, before and now", meta, columns)]


def asked(questions: list[Question], views: list[View]) -> list[Question]:
    """The questions, on the picture of one writer if it is there."""
    if not any(view.id == ID for view in views):
        return questions
    return [replace(q, view=ID) if q.view == "pipeline" else q for q in questions]


def sentence(stories: list[BlockStory]) -> str:
    """The time of a leader in its copies, for as many rows in both kernels."""
    now, then = stories
    role: ConstantRole = "key_rows" if now.made.walked == "key" else "query_rows"
    keys = now.made.request.value_of(role) or 0
    each = [_copying(story) * keys / (story.made.request.value_of(role) or 1) for story in (then, now)]
    return (
        f"For {keys} {now.words.rows}, a {then.made.noun} of {then.name} spends {figure(each[0], 3)} ns on copies and "
        f"their waits. "
        f"A {now.made.noun} of {now.name} spends {figure(each[1], 3)} ns."
    )


def _copying(story: BlockStory) -> float:
    """The median ns of a tile's copy in the leader."""
    own = story.bars[(story.bars.writer == story.leader) & story.bars.event.isin(COPIES)]
    return float((own.end_ns - own.start_ns).median())
