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
    sizes = [_tile_rows(story) for story in reversed(stories)]
    of = [f", {size} {stories[0].words.rows} a tile" if len({*sizes}) > 1 else "" for size in sizes]
    shown = [{**rows[n], "label": f"{title}: {rows[n]['kernel']}{tile}"} for title, n, tile in zip(titles, leaders, of)]
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
    keys = _tile_rows(now)
    each = [_copying(story) * keys / (_tile_rows(story) or 1) for story in (then, now)]
    return (
        f"For {keys} {now.words.rows}, a {then.made.noun} of {then.name} spends {figure(each[0], 3)} ns on copies and "
        f"their waits. "
        f"A {now.made.noun} of {now.name} spends {figure(each[1], 3)} ns."
    )


def _tile_rows(story: BlockStory) -> int:
    """The rows of a tile that a writer walks over, 0 if the kernel names no constant for them."""
    role: ConstantRole = "key_rows" if story.made.walked == "key" else "query_rows"
    return int(story.made.request.value_of(role) or 0)


def _copying(story: BlockStory) -> float:
    """The median ns of a tile's copy in the leader."""
    own = story.bars[(story.bars.writer == story.leader) & story.bars.event.isin(COPIES)]
    return float((own.end_ns - own.start_ns).median())
