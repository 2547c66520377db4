"""Reads of pages, counted in traces, against what the block tables imply, byte for byte."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from explainers.stories.block_table import page_reads
from explainers.stories.block_table.story import WORDS
from explainers.story import probed
from kernels.catalog import KERNELS
from kernels.core.fields import fields_of
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import ProblemError
from kernels.families.paged.problem import PagedProblem
from kernels.kv_cache.scenarios import PRESETS
from kernels.run import execute

READERS = {
    name: spec
    for name, spec in probed.accepting(page_reads).items()
    if issubclass(spec.problem_type, KERNELS["paged_v1"].problem_type)
}
PER_HEAD = [name for name, spec in READERS.items() if probed.sample(spec).plan.item == "query head"]
IN_RANGES = [name for name in READERS if name not in PER_HEAD]


def run_of(name, preset, block_size=16, **shape):
    spec, cache = READERS[name], PRESETS[preset].states(block_size)[-1][0]
    more = {"ranges": 3} if "ranges" in fields_of(spec.problem_type) else {}
    problem = spec.problem_type.of_cache(cache, **more, **shape)
    settings = (("PARTITION", 32),) if any(c.name == "PARTITION" for c in spec.constants) else ()
    request = Request(spec, problem, settings)
    return execute.run(replace(request, scope=Scope.everything(request.plan)))


def names_of(run):
    return [f"S{n}" for n in range(run.request.problem.num_seqs)]


def tokens_in_pages(problem):
    found = {}
    for sequence, (table, length) in enumerate(zip(problem.block_tables, problem.context_lens)):
        for entry, page in enumerate(table):
            if (tokens := min(problem.block_size, length - entry * problem.block_size)) > 0:
                found[sequence, page] = tokens
    return found


def test_every_paged_kernel_that_attends_is_counted():
    assert {"paged_v1", "paged_v2"} <= set(PER_HEAD) and set(PER_HEAD) | set(IN_RANGES) == set(READERS)
    attends = {name for name, spec in KERNELS.items() if issubclass(spec.problem_type, PagedProblem)}
    assert attends == set(READERS)


@pytest.mark.parametrize("preset", ["churn", "shared_prompt", "one_long"])
@pytest.mark.parametrize("name", PER_HEAD)
@pytest.mark.parametrize(
    "shape", [{"num_kv_heads": 4}, {"num_kv_heads": 2, "dtype": "float16"}, {"num_kv_heads": 1, "block_size": 8}]
)
def test_a_block_for_each_query_head_asks_for_what_the_tables_imply_byte_for_byte(name, preset, shape):
    run = run_of(name, preset, **shape)
    problem, found = run.request.problem, page_reads.count_reads(run, names_of(run))
    token = 2 * problem.head_dim * problem.layout.itemsize  # K and V of one KV head
    asked = np.zeros_like(found.asked)
    filled = np.zeros(problem.num_blocks, int)
    for (sequence, page), tokens in tokens_in_pages(problem).items():
        for head in range(problem.num_heads):
            asked[found.readers.index(f"S{sequence} query head {head}"), page] = tokens * token
        filled[page] = max(filled[page], tokens * token * problem.num_kv_heads)
    assert (found.asked == asked).all() and (found.distinct == asked).all()
    assert (found.page_distinct == filled).all() and (found.filled == filled).all() and found.empty == 0
    holders = Counter(page for _, page in tokens_in_pages(problem))
    often = [problem.group * holders[page] for page in range(problem.num_blocks)]
    assert found.most.tolist() == often and found.times.tolist() == often
    assert int(found.page_asked.sum()) == sum(problem.context_lens) * problem.num_heads * token
    assert ((found.blocks > 0) == (found.asked > 0)).all()


@pytest.mark.parametrize("preset", ["churn", "shared_prompt"])
@pytest.mark.parametrize("name", IN_RANGES)
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_ranges_bring_whole_pages_once_for_a_group_and_a_prefix_once_for_all(name, preset, kv_heads):
    try:
        run = run_of(name, preset, num_kv_heads=kv_heads, dtype="float16")
    except ProblemError as error:  # a kernel for shared prefixes, where none is shared
        assert preset == "churn" and "share a page" in str(error)
        return
    problem, found = run.request.problem, page_reads.count_reads(run, names_of(run))
    whole = 2 * problem.layout.page_bytes * kv_heads
    holders = Counter(page for _, page in tokens_in_pages(problem))
    prefix = getattr(problem, "prefix_pages", np.zeros(problem.num_seqs, int))
    once = {page for n, table in enumerate(problem.block_tables) for page in table[: prefix[n]]}
    brought = [whole * (1 if page in once else holders[page]) for page in range(problem.num_blocks)]
    assert found.page_asked.tolist() == brought
    assert found.page_distinct.tolist() == [whole * (page in holders) for page in range(problem.num_blocks)]
    tokens = {page: max(t for (_, p), t in tokens_in_pages(problem).items() if p == page) for page in holders}
    empty = sum(problem.block_size - filled for filled in tokens.values())
    assert found.empty == empty * whole // problem.block_size
    assert found.least[found.most > 0].tolist() == found.most[found.most > 0].tolist()


def made_of(preset, names=READERS):
    runs = []
    for name in names:
        for kv_heads in (4, 2, 1):
            try:
                runs.append(run_of(name, preset, num_kv_heads=kv_heads, dtype="float16"))
            except ProblemError:
                continue
    found = [page_reads.count_reads(run, names_of(run)) for run in runs]
    tables = runs[0].request.problem.block_tables
    holders = [[f"S{n}" for n, t in enumerate(tables) if page in t] for page in range(len(found[0].filled))]
    return found, page_reads.stage_of(found, holders, [["#000000"] * len(h) for h in holders], None)


def test_the_stage_has_a_step_for_each_kernel_and_ratio_and_says_its_numbers():
    found, made = made_of("shared_prompt")
    assert len(made.frames) == len(found) == 3 * len(READERS)
    strip = {state.name: list(state.values) for state in made.state}
    meta, columns = made.views[0].meta, made.views[0].columns
    at, pages = 0, len(meta["holders"])
    for number, (one, frame, row) in enumerate(zip(found, made.frames, meta["rows"])):
        assert (
            f"asks for {one.page_asked.sum():,} bytes of K and V. {one.page_distinct.sum():,} are" in frame["sentence"]
        )
        assert strip["bytes asked for"][number] == sum(row["asked"]) and frame["row"] == number
        assert strip["distinct bytes"][number] == sum(row["distinct"]) and frame["title"].endswith(one.heads)
        size = len(row["readers"]) * pages
        part = columns["asked"][at : at + size].reshape(-1, pages)
        assert part.sum(0).tolist() == row["asked"]
        at += size
    assert at == len(columns["asked"]) == len(columns["distinct"]) == len(columns["blocks"])
    first = made.frames[0]["sentence"]
    assert first.endswith(
        "The most read page is page 0, each byte 3 times, by 12 readers: S0 query head 0 to 3, S1 query head 0 to 3 "
        "and S2 query head 0 to 3. S0, S1 and S2 hold it."
    )
    assert made.headline.startswith("A cache of 3 sequences, S0 (59), S1 (68) and S2 (47) tokens long.")
    assert [frame["tile"] for frame in made.frames] == [n // 3 for n in range(len(found))]


def test_unshared_pages_are_read_alike_and_the_questions_keys_are_the_counts():
    found, made = made_of("churn", PER_HEAD[:1])
    assert "2 times. All pages are read alike, each byte 2 times. Page 0 has 4 readers" in made.frames[1]["sentence"]
    assert page_reads.sentence(found).startswith("With MHA 4:4, each kernel asks for 166,912 bytes")
    table = page_reads.reads_table(found)
    assert table["bytes asked for"].tolist() == [166912] * 3
    assert (table["distinct bytes"] * table["asked for / distinct"]).tolist() == [166912] * 3
    found, _ = made_of("shared_prompt")
    asked = {q.id: q for q in WORDS.questions(page_reads.asked(found), 0)}
    assert set(asked) == {"page_times", "fewest", "busiest"}
    one = found[asked["page_times"].step]
    assert asked["page_times"].options[asked["page_times"].answer] == f"{one.most.max()} times" == "12 times"
    fewest = asked["fewest"].options[asked["fewest"].answer]
    totals = {other.kernel: int(other.page_asked.sum()) for other in found if other.heads == one.heads}
    assert totals[fewest] == min(totals.values())
    row, pages = asked["busiest"].answer["row"], asked["busiest"].answer["page"]
    assert np.flatnonzero(found[row].times == found[row].times.max()).tolist() == list(range(pages[0], pages[1] + 1))


def test_one_is_told_as_one():
    assert [page_reads.often(times) for times in (1, 2.5, 12)] == ["once", "2.5 times", "12 times"]
    assert page_reads._held({"A": 1}) == "A cache of 1 sequence, A, 1 token long"
    found, _ = made_of("shared_prompt")
    one = found[-1]  # its busiest page becomes one that a reader reads once
    pages = np.arange(len(one.filled)) == 0
    half = replace(
        one,
        kernel="half",
        readers=one.readers[:1],
        asked=np.where(pages, one.page_distinct, 0)[None],
        page_distinct=np.where(pages, one.page_distinct, 0),
    )
    whole = replace(half, kernel="whole", asked=2 * half.asked)
    why = {q.id: q for q in WORDS.questions(page_reads.asked([whole, half]), 0)}
    assert why["fewest"].why.endswith("It reads its busiest page once, and whole reads one 2 times.")
    assert ": 1 reader reads page 0. How many times" in why["page_times"].text
    why = {q.id: q.why for q in WORDS.questions(page_reads.asked([half]), 0)}
    assert why["page_times"].endswith("so once each.")
