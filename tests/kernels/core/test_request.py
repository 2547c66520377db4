"""A request's constants by their role."""

import pytest

from kernels import catalog
from kernels.core.request import Request
from kernels.errors import ProblemError


def test_a_constant_is_found_by_its_role_or_refused_with_the_kernel_and_the_role():
    kernel = catalog.current().kernels["02_tiled"]
    request = Request(kernel, kernel.problem_type())
    assert request.required_value_of("key_rows") == request.value_of("key_rows") > 0
    assert request.value_of("partition") is None
    with pytest.raises(ProblemError, match=r"02_tiled .* partition"):
        request.required_value_of("partition")
