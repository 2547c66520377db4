"""The picture `pages`: its rule against the loads of a run, and its steps against the block manager."""

import pytest
from hand_rules import applied

from explainers.stories.block_table import place
from explainers.stories.block_table.subjects import Walk
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.families.paged.problem import PagedProblem
from kernels.kv_cache.scenarios import PRESETS
from kernels.run import execute

PHASES = ["reserved", "pages", "free", "later", "table", "path", "hand"]


def made(preset, sequence=1, head=0, seed=0, **shape):
    scenario = PRESETS[preset]
    states = scenario.states(16)
    cache = states[-1][0].shuffled(seed) if seed else states[-1][0]
    problem = PagedProblem.of_cache(cache, **shape)
    request = Request(KERNELS["paged_v1"], problem, (), Scope(sequence * problem.num_heads + head))
    names = tuple(one.name for one in cache.sequences)
    walk = Walk(request, None, names, names[sequence], "#000", seed, scenario, len(states) - 1)
    run = execute.run(request)
    return run, place.view(run, walk).meta, place.questions(run, walk)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(("head", "seed", "shape"), [(0, 0, {}), (3, 4, {"dtype": "float16", "head_dim": 80})])
def test_every_key_is_loaded_from_the_byte_that_the_rule_gives(preset, head, seed, shape):
    run, meta, _ = made(preset, 1, head, seed, **shape)
    own = next(one for one in meta["held"][-1] if one["name"] == meta["name"])
    cases = [[token, own["table"], meta["bases"], meta["size"], meta["piece"]] for token in range(own["tokens"])]
    table = run.request.problem.block_tables[1]
    frame = run.trace.frame("event", "space", "tensor", "token", "offset")
    loads = frame[(frame.event == "load") & (frame.space == "global") & (frame.tensor == "K")]
    first = loads.groupby("token").offset.min()
    for (token, *_), found in zip(cases, applied("placeOf", cases), strict=True):
        assert (found["entry"], found["slot"]) == divmod(token, 16) and found["page"] == table[token // 16]
        assert found["byte"] == first[token]


def test_churn_has_all_steps_and_their_numbers_are_the_block_managers():
    run, meta, asked = made("churn")
    assert meta["phases"] == PHASES and len(meta["frames"]) == len(meta["held"]) == 7
    assert all(len(frame["head"].split()) <= 12 for frame in meta["frames"])
    a, b, c = meta["held"][0]
    assert (a["first"], b["first"], c["first"], c["table"]) == (0, 96, -1, []) and meta["pages"] * 16 < 3 * 96
    assert [one["table"] for one in meta["held"][1]] == [[0, 1], [2, 3], [4, 5, 6]]
    later = {one["name"]: one["table"] for one in meta["held"][2]}
    assert later.keys() == {"A", "D", "E"} and meta["frames"][2]["head"].startswith("B and C end. E moves")
    assert {*later["E"]} & {2, 3, 4, 5, 6} == {2, 3, 4}  # of B and of C
    assert meta["frames"][3]["head"] == "Later A ends, F comes, D and E grow." and meta["held"][3] == meta["held"][4]
    assert [one and one["label"] for one in meta["provenances"]] == ["modelled"] * 4 + [None] * 3
    usage = PRESETS["churn"].states(16)[3][0].usage(96)
    (read,) = {tuple(frame["lines"]) for frame in meta["frames"][5:]}
    file, line = read[0].split(":")
    text = dict(run.request.kernel.files)[file].splitlines()[int(line) - 1]
    assert len(read) == 1 and "table" in text and not any(frame["lines"] for frame in meta["frames"][:5])
    empty, where = asked
    entry, slot = divmod(where.shows["token"], 16)
    assert (meta["held"][-1][1]["table"][entry], slot) == (2, 5) and entry != 2
    assert f"{usage['slack']} of {usage['held']} slots are empty. With reserved slots it was 142 of 192" in empty.why
    assert (empty.step, empty.shows, where.step) == (0, {"to": 1}, 5)
    assert where.options[where.answer] == "In page 2, slot 5"


@pytest.mark.parametrize(("preset", "seed"), [("two_chats", 0), ("shared_prompt", 0), ("churn", 3)])
def test_without_a_request_that_waits_the_picture_begins_with_the_table(preset, seed):
    _, meta, asked = made(preset, seed=seed)
    assert meta["phases"] == PHASES[4:] and [question.id for question in asked] == ["check_block_table"]
    assert asked[0].options[asked[0].answer].startswith("In page ")
