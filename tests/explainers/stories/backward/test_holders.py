"""Who holds what: the elements of the lanes are those of mma.sync, with the numbers of the run."""

import re

import numpy as np
import pytest

from explainers.stories.backward import holders, parts
from explainers.story import probed
from kernels.catalog import current
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.run import execute

KERNELS = {name: k for name, k in current().of_family("backward").items() if holders.accepts(probed.sample(k))}
ELEMENT = re.compile(r"([abc]\d): (.*)")


def request_of(kernel, **fields):
    problem = kernel.problem_type(40, num_heads=1, **fields)
    made = Request(kernel, problem, (("BLOCK_Q", 32), ("BLOCK_KV", 64)), backend="cpu")
    return Request(kernel, problem, made.settings, Scope.everything(made.plan), "cpu")


def read(row):
    """The register, row, column and number of each element of a row of the table."""
    for register, said in (ELEMENT.match(one).groups() for one in row["registers"].split("; ")):
        for x, y, value in re.findall(r"\w+\[(\d+), (\d+)\] = (\S+?)(?:,|$)", said):
            yield register, int(x), int(y), float(value)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_the_lanes_of_all_five_products_are_those_of_the_instruction(kernel):
    run = execute.run(request_of(kernel))
    table = holders.table(run, 0)
    assert list(dict.fromkeys(table["product"])) == [product.said for product in parts.PRODUCTS]
    tile = {}
    for row in table.to_dict("records"):
        letter, part = row["operand"].split(" = ")
        tile[row["product"], letter, row["lane"]] = found = list(read(row)) if row["lane"] != "all" else []
        given = parts.values(run, part, 0) if part in ("Q", "K", "V", "dO") else None
        assert all(given is None or np.isclose(value, given[x, y], rtol=1e-3) for _, x, y, value in found)
    s, dk, dq = (parts.PRODUCTS[n].said for n in (0, 3, 4))
    first = {key: [one[:3] for one in tile[key]][:2] for key in tile}
    assert first[s, "A", "4"] == [("a0", 1, 0), ("a0", 1, 1)]  # keys 1, dims 0 and 1
    assert first[s, "B", "1"] == [("b0", 0, 2), ("b0", 0, 3)]  # query 0, dims 2 and 3
    assert first[s, "C", "4"] == [("c0", 0, 1), ("c1", 1, 1)]  # queries 0 and 1 of key 1
    assert first[dk, "A", "4"] == [("a0", 0, 1), ("a0", 1, 1)]  # dS of key 1: C of dP, where it was
    assert first[dk, "B", "1"] == [("b0", 2, 0), ("b0", 3, 0)]  # Q again, transposed: queries 2 and 3 of dim 0
    assert not tile[dq, "A", "all"] and first[dq, "C", "4"] == [("c0", 1, 0), ("c1", 1, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("fields", [{"causal": True}, {"dtype": "bfloat16", "seq_len_kv": 5}, {"head_dim": 128}])
def test_every_mask_size_and_type_has_a_table(kernel, fields):
    table = holders.table(execute.run(request_of(kernel, **fields)), 0)
    assert {row["product"] for row in table.to_dict("records")} == {product.said for product in parts.PRODUCTS}
    assert (table.registers != "").all()
