"""Questions about one product of tensor cores."""

from typing import Any

import numpy as np

from explainers.stories.tensor_cores.product_frames import ProductStory
from explainers.stories.tensor_cores.tensor_products import LANES, Fetch
from explainers.story import stage
from explainers.story.glossary import count
from explainers.story.questions import Where


def fetch_cost(fetch: Fetch) -> str:
    return f"{count(fetch.wavefronts, 'wavefront')}, {fetch.ideal} at best"


def questions(story: ProductStory) -> list[stage.Question]:
    """The questions of the story. Their answers come from the trace."""
    if not story.products:
        return []
    first = story.products[0]
    s = story.matrices["S"]
    left = first.cols[0]
    made: list[stage.Question] = []
    col = left + 5
    rows = s.lane[first.rows[0] - s.row0 : first.rows[1] - s.row0]
    seen = np.flatnonzero(rows[:, col - s.col0 : col - s.col0 + 1] >= 0)  # none with fewer keys
    if len(seen):
        row = first.rows[0] + int(seen[0])  # the first query with this key, and the ones before it
        lane, register = (int(m[row - s.row0, col - s.col0]) for m in (s.lane, s.register))
        begin = [int(s.lane[row - s.row0, left - s.col0 + n]) % LANES for n in (0, 2)]
        text = (
            f"C ends in the registers of lanes. Lane {begin[0]} has S[{row}, {left}] and the one beside it, lane "
            f"{begin[1]} the next two of the row. Which lane has S[{row}, {col}]?"
        )
        why = f"S[{row}, {col}] was logged by lane {lane % LANES}, whose register c{register} it is."
        four = list(range(begin[0], begin[0] + 4))  # lanes of a row are neighbours
        options = [f"lane {n}" for n in four]
        more: Where = {"view": "fragments", "veils": ("picture", "tabs")}
        made.append(stage.Question("owner", text, "options", four.index(lane % LANES), why, options, **more))
    if first.b >= 0:
        fetch = story.fetches[first.b]
        text = (
            f"B came by one ldmatrix: 32 lanes address 32 rows of 16 bytes, eight for each matrix. In how many "
            f"wavefronts does shared memory serve it here? At best it takes {fetch.ideal}."
        )
        why = f"{fetch.tensor} came in {fetch_cost(fetch)}: " + (
            "the rows of a matrix begin in the same banks."
            if fetch.wavefronts > fetch.ideal
            else "each matrix's eight rows lie in all 32 banks."
        )
        found: dict[str, Any] = {
            "unit": "wavefronts",
            "view": "fragments",
            "veils": ("sentence", "strip", "picture", "tabs"),
        }
        made.append(stage.Question("fetch", text, "number", fetch.wavefronts, why, **found))
    return made
