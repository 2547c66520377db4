"""Files with the values of a call: written once, found by name, and refused if they are not what a link asks for."""

import io
import pickle

import numpy as np
import pytest

from kernels.build import folders, own_values
from kernels.errors import ProblemError

SHAPE = (1, 2, 3, 4)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "values"


def array(seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(SHAPE).astype(dtype)


def test_equal_values_have_one_name_and_come_back_in_float32(cache):
    name = own_values.save({"q": array(dtype=np.float16)})
    assert own_values.is_name(name) and own_values.save({"q": array(dtype=np.float16)}) == name
    assert own_values.save({"q": array(1)}) != name and len(list(cache.iterdir())) == 2
    made = own_values.load(name, {"q": SHAPE})["q"]
    assert made.dtype == np.float32 and np.array_equal(made, array(dtype=np.float16))


@pytest.mark.parametrize("name", ["values_" + "0" * 16, "../secret", "values_../../x", "random", "values_" + "g" * 16])
def test_only_the_name_of_a_file_of_the_cache_opens_one(name):
    with pytest.raises(ProblemError, match="are not on this machine"):
        own_values.load(name, {"q": SHAPE})


def test_other_shapes_missing_tensors_pickles_and_large_files_are_refused(cache):
    name = own_values.save({"q": array()})
    with pytest.raises(ProblemError, match=r"q is \[1, 2, 3, 4\] .* ask for \[1, 2, 3, 8\]"):
        own_values.load(name, {"q": (1, 2, 3, 8)})
    with pytest.raises(ProblemError, match="cannot be read"):
        own_values.load(name, {"k": SHAPE})
    held = io.BytesIO()
    np.savez(held, q=np.array([print], dtype=object))
    for content in (held.getvalue(), pickle.dumps(array()), b""):
        (cache / f"{name}.npz").write_bytes(content)
        with pytest.raises(ProblemError, match="cannot be read"):
            own_values.load(name, {"q": SHAPE})
    np.savez_compressed(cache / f"{name}.npz", q=np.zeros(own_values.MOST_BYTES, np.float32))
    with pytest.raises(ProblemError, match="it holds"):
        own_values.load(name, {"q": SHAPE})


def test_values_above_the_limit_are_refused_and_old_files_go(cache, monkeypatch):
    monkeypatch.setattr(own_values, "MOST_BYTES", 100)
    with pytest.raises(ProblemError, match="A file takes"):
        own_values.save({"q": np.zeros(26, np.float32)})
    monkeypatch.setattr(own_values, "MOST_FILES", 2)
    for seed in range(4):
        own_values.save({"q": np.full((2, 2), seed, np.float32)})
    assert len(list(cache.iterdir())) == 2 and folders.cache_folder() == cache.parent
