"""A kernel's text without a problem: built for the CPU and launched on arrays of a test."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from kernels.build import Mode, build
from kernels.core.dtypes import element_type
from kernels.core.launch import Launch, LaunchText, Plan
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Initial, Role, Tensor
from kernels.run.backends import cpu
from kernels.run.plain import launches

NAME = "mine.cu"


def kernel(text, entry, headers=()):
    """The KernelSpec of a text, whose build has all its kernels. headers: (name, text) of its own headers."""
    plain = re.findall(r"__global__ void (?:__\w+\([^)]*\) )?(\w+)\(", re.sub(r"template[^;{]*?\{", "", text))
    entries = dict.fromkeys([*plain, entry])
    listed = tuple(LaunchText(each, (1,), (1,), ()) for each in entries)
    files = ((NAME, f"{text}\n// {entry}\n" if "<" in entry else text), *headers)  # a build is known by its files
    return KernelSpec("mine", Path("/texts/alone") / NAME, files, "lab", None, *[""] * 7, 0, (), (), (), listed)


class Alone:
    """A text's kernel with its launch.

    inputs: name -> array. outputs: name -> (shape, dtype). scalars: behind the pointers, as NumPy numbers."""

    def __init__(self, text, entry, inputs, outputs, scalars=(), grid=(1,), block=(32,), shared=0, headers=()):
        self.spec = kernel(text, entry, headers)
        self.inputs, self.outputs = inputs, outputs
        tensors = [_tensor(name, array.shape, array.dtype, Role.INPUT) for name, array in inputs.items()]
        tensors += [_tensor(name, shape, dtype, Role.OUTPUT) for name, (shape, dtype) in outputs.items()]
        three = [(*sizes, *[1] * (3 - len(sizes))) for sizes in (grid, block)]
        step = Launch(entry, *three, shared, (*inputs, *outputs, *scalars), "block")
        self.plan = Plan((step,), tuple(tensors))

    def arrays(self):
        made = {name: np.array(array, order="C") for name, array in self.inputs.items()}
        return made | {t.name: t.fresh() for t in self.plan.tensors if t.role is Role.OUTPUT}

    def run(self, reversed_order=False):
        """The outputs of the timed build."""
        arrays, built = self.arrays(), build(self.spec, {}, Mode.TIMED, "cpu")
        cpu.launch(built, self.plan, arrays, Scope(), reversed_order=reversed_order)
        return {name: arrays[name] for name in self.outputs}

    def probe(self, reversed_order=False):
        """The outputs of the instrumented build, and its faults."""
        arrays, built = self.arrays(), build(self.spec, {}, Mode.PROBED, "cpu")
        found = launches.launch(built, self.plan, arrays, Scope(), [1 << 18], reversed_order)
        return {name: arrays[name] for name in self.outputs}, [f for f in found.faults if f.level == "error"]

    def agrees(self, expected, rtol=0.0, atol=0.0):
        """Asserts that both builds give these outputs in both thread orders, without a fault."""
        for reversed_order in (False, True):
            found, faults = self.probe(reversed_order)
            assert not faults, faults
            for outputs in (self.run(reversed_order), found):
                for name, values in expected.items():
                    got = np.asarray(outputs[name], np.float64)
                    np.testing.assert_allclose(got, np.asarray(values, np.float64), rtol=rtol, atol=atol, err_msg=name)


def _tensor(name, shape, dtype, role):
    axes = tuple(f"axis{n}" for n in range(len(shape)))
    return Tensor(name, tuple(shape), element_type(dtype).name, axes, role)


def with_initial(alone, name, initial=Initial.ZERO):
    """The Alone with another start of an output."""
    tensors = tuple(replace(t, initial=initial) if t.name == name else t for t in alone.plan.tensors)
    alone.plan = replace(alone.plan, tensors=tensors)
    return alone


def nvidia_takes(text, entry):
    """Whether NVIDIA's own compiler makes code of a text: no test then shows what a GPU would refuse."""
    return bool(build(kernel(text, entry), {}, Mode.TIMED, "sm_90a").facts)
