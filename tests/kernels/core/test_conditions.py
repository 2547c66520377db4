"""Conditions in the front matter: what a problem and a kernel's constants may not be together, refused in the kernel's
own words."""

import pytest
from front import of_dense

from kernels import catalog
from kernels.catalog import load_kernel
from kernels.core.request import Request
from kernels.errors import FrontMatterError, ProblemError

CONDITION = '''
[[conditions]]
must = "seq_len % (4 * WIDTH) == 0"
message = """\\
  seq_len {seq_len} is no multiple of {4 * WIDTH}; causal is {causal}. \\
  Choose {4 * WIDTH * ceil_div(seq_len, 4 * WIDTH)}."""
'''
KERNEL = of_dense("""
[constants.WIDTH]
default = 1
values = [1, 2]
meaning = "elements per thread"
CONDITION
[[launches]]
entry = "one"
grid = [1]
block = [32]
args = ["q", "o"]
*/
extern "C" __global__ void one(const float* Q_gmem, float* O_gmem PROBE_PARAM) {}
""")


@pytest.fixture
def made(tmp_path):
    def make(condition):
        path = tmp_path / "one.cu"
        path.write_text(KERNEL.replace("CONDITION", condition))
        return load_kernel(path)

    return make


def test_a_condition_refuses_in_its_own_words_and_another_message_leaves_the_code_hash(made):
    kernel = made(CONDITION)
    problem = kernel.problem_type(seq_len=68)
    assert kernel.plan(problem, {"WIDTH": 1}).launches
    with pytest.raises(ProblemError) as refused:
        kernel.plan(problem, {"WIDTH": 2})
    assert str(refused.value) == "seq_len 68 is no multiple of 8; causal is false. Choose 72."
    assert not isinstance(refused.value, FrontMatterError)
    assert made(CONDITION).code_hash == made("").code_hash


@pytest.mark.parametrize(
    "wrong, says",
    [
        (("must", "mist"), "one.cu: there is no key conditions[0].mist. There are must, message."),
        ((CONDITION[CONDITION.index("message") :], ""), "one.cu: the key conditions[0].message is missing."),
        (('"seq_len % (4 * WIDTH) == 0"', "1"), "one.cu: conditions[0].must is 1. It must be a text in quotes."),
        (("[[conditions]]", "[conditions]"), "one.cu: conditions is {"),
    ],
)
def test_a_mistake_in_a_condition_is_one_line_with_file_key_and_remedy(made, wrong, says):
    with pytest.raises(FrontMatterError) as error:
        made(CONDITION.replace(*wrong))
    assert str(error.value).startswith(says) and "\n" not in str(error.value)


@pytest.mark.parametrize("wrong, key", [(("seq_len %", "seqlen %"), "must"), (("{seq_len}", "{seqlen}"), "message")])
def test_a_name_that_is_none_is_told_with_those_there_are(made, wrong, key):
    kernel = made(CONDITION.replace(*wrong))
    with pytest.raises(FrontMatterError, match=rf"one.cu: conditions.0..{key}: cannot evaluate .*seq_len"):
        kernel.plan(kernel.problem_type(seq_len=67), {})


# ---- constants by their role ----


def test_a_constant_is_found_by_its_role_or_refused_with_the_kernel_and_the_role():
    kernel = catalog.current().kernels["02_tiled"]
    request = Request(kernel, kernel.problem_type())
    assert request.required_value_of("key_rows") == request.value_of("key_rows") > 0
    assert request.value_of("partition") is None
    with pytest.raises(ProblemError, match=r"02_tiled .* partition"):
        request.required_value_of("partition")
