"""Expressions of the front matter: each ends at once, in little memory; a refusal says what is allowed."""

import subprocess
import sys

import pytest

from kernels.core.expressions import MOST_CHARACTERS, evaluate, whole
from kernels.errors import FrontMatterError

NAMES = {"n": 64, "scale": 0.5, "causal": True, "dtype": "float16", "lens": (3, 4)}
ENDLESS = [
    "9**9**9",
    "n**n**n**n",
    "2 ** 100",
    "len([0] * 10**10)",
    "len([0] * 10000000000)",
    "len('x' * 10000000000)",
    "len('%99999999999d' % 1)",
    "len('x'.ljust(99999999999))",
    "len('{:>99999999999}'.format(1))",
    "len(lens * 99999999999)",
    "'x' + 'y'",
    "".join(["(" * 400, "n", ")" * 400]),
    "-" * 900 + "n",
    "+".join(["n"] * 5000),
    "9223372036854775807 * 2",
    "(n * 4000000000) * (n * 4000000000)",
    "().__class__",
    "lens.count(3)",
    "[n for n in lens]",
]


def test_an_expression_without_bound_is_refused_at_once():
    """In a process of its own: before the fix some of these took all memory, or did not end."""
    script = f"""
import resource
from kernels.core.expressions import evaluate
from kernels.errors import FrontMatterError

resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
for text in {ENDLESS!r}:
    try:
        print(text[:30], evaluate(text, {NAMES!r}, "k.cu: grid"), flush=True)
    except FrontMatterError as refused:
        assert str(refused).startswith("k.cu: grid"), refused
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=20)
    assert not done.returncode and not done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ceil_div(n + 1, 32) * 2 - 1", 5),
        ("n // 3 % 4", 1),
        ("-n / 128", -0.5),
        ("n * scale", 32.0),
        ("n % 16 == 0 and not causal or dtype == 'float16'", True),
        ("max(lens) + min(1, 2) + len(lens)", 7),
        ("dtype in ('float16', 'bfloat16')", True),
        ("lens[0] if causal else 0", 3),
        ("1 + causal", 2),
    ],
)
def test_arithmetic_of_sizes_is_computed(text, value):
    assert evaluate(text, NAMES, "k.cu: grid") == value


def test_a_number_past_64_bits_and_a_long_expression_are_refused():
    for number in (10**30, "9223372036854775808", "n * 9223372036854775807"):
        with pytest.raises(FrontMatterError, match="k.cu: grid"):
            whole(number, NAMES, "k.cu: grid")
    with pytest.raises(FrontMatterError, match=f"at most {MOST_CHARACTERS:,}"):
        evaluate("n + " * 5000 + "n", NAMES, "k.cu: grid")
