"""Questions about a work list: its equal ranges, and the merge of a sequence."""

from explainers.story.glossary import count, short
from explainers.story.questions import Where, amounts
from explainers.story.stage import MEASURED, Question, Stage


def ranges(made: Stage) -> list[Question]:
    """Questions about a work list: its equal ranges, and the merge of a sequence."""
    meta, view = made.views[0].meta, made.views[0].id
    own, units, name = meta["lists"][-1], meta["units"], meta["names"][meta["sequence"]]
    pages, cut = len(own["cells"]), own["ranges"]
    longest = max(sum(u[3] for u in own["units"] if u[1] == r) for r in range(cut))
    text = (
        f"A list of {count(pages, 'page')} is cut into {count(cut, 'range')}, equal to within a page. "
        "How many pages has the longest?"
    )
    why = (
        f"{pages} / {cut} = {short(pages / cut)}, so no range has more than {longest}. No block waits long for another."
    )
    most = max(sum(1 for c in own["cells"] if c[0] == s) for s in {c[0] for c in own["cells"]})
    wrong = [most, pages, longest + 1, cut]
    said = [count(longest, "page"), f"at most {longest}"]  # a reader can count the pages of a range in the picture
    where: Where = {"step": 0, "view": view, "hides": said, "veils": ("tabs",)}
    found = amounts("longest", text, longest, wrong, why, "pages", **where)
    if len(units) > 1 and "weight" in units[0]:
        low = min(units, key=lambda u: u["weight"])
        step = next(n for n, f in enumerate(made.frames) if f.get("merged"))
        text = (
            f"{name} is in {len(units)} pieces. Partition {low['partition']} has m = {short(low['m'])}, and the "
            f"largest m of all is {short(meta['merged']['m'])}. Which factor does its l get in the merge?"
        )
        power = f"e^({short(low['m'])} - {short(meta['merged']['m'])}) = {short(low['weight'])}".replace("- -", "+ ")
        why = f"{power}. The trace has it as the weight of the partition."
        key = float(short(low["weight"], 3))
        found.append(
            Question(
                "weight",
                text,
                "number",
                key,
                why,
                step=step,
                view=view,
                tolerance=MEASURED,
                veils=("tabs",),
                hides=sorted({f"{low['weight']:.{digits}g}" for digits in (3, 4, 5)}),
                covers=[{"part": units.index(low)}],
                shows={"part": units.index(low)},
            )
        )
    return found
