"""Distinct numbers are those of np.unique."""

import numpy as np
import pytest

from kernels.core.distinct import distinct


@pytest.mark.parametrize("numbers", [[], [3], [2, 2, 2], [[5, -1], [5, 0]], [2**62, -(2**62), 2**62]])
def test_distinct_numbers_ascend_and_each_is_there_once(numbers):
    array = np.array(numbers, np.int64)
    assert distinct(array).tolist() == sorted({int(number) for number in array.ravel()})
