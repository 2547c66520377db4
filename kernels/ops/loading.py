"""Makes an operator of any kernel: load("my.cu", seq_len=64, head_dim=32)(q, k, v)."""

import torch

from kernels.core.tensors import Initial
from kernels.ops import binding
from kernels.ops.operators import Axes, Operator

Tensor = torch.Tensor
_known: dict[tuple[object, ...], "Loaded"] = {}


class Loaded:
    """An operator of one kernel and one problem.

    inputs: the names of the tensors of a call, in order. outputs: the names of the new tensors.
    name: in torch, such as warpglass::kernel_my_0.
    """

    def __init__(self, operator: Operator, name: str):
        self.inputs, self.outputs, self.name = tuple(operator.inputs), tuple(operator.outputs), name
        self._call = getattr(torch.ops.warpglass, name.split("::")[1]).default

    def __call__(self, *tensors: Tensor, **named: Tensor) -> Tensor | tuple[Tensor, ...]:
        """The output, or a tuple of the outputs. Inputs that the kernel also writes change in place."""
        given = {**dict(zip(self.inputs, tensors)), **named}
        made = self._call(*[given[name] for name in self.inputs])
        return made[0] if len(self.outputs) == 1 else tuple(made)


def load(kernel: str, **fields: object) -> Loaded:
    """The operator of a kernel for a problem.

    kernel: the path of a .cu, or a name in the catalogue.
    fields: the problem's, such as seq_len. Others keep their defaults.

    For a kernel of attention, attention(q, k, v, kernel="my.cu") needs no fields.
    """
    from kernels import catalog
    from kernels.ops.choice import Choice, checked
    from kernels.ops.processors import processor

    spec = catalog.find(kernel)
    problem = spec.problem_type(**fields)
    key = (spec, problem)
    if key in _known:
        return _known[key]
    made, updated = problem.made(), []
    inputs: Axes = {}
    outputs: Axes = {}
    for tensor in problem.tensors():
        if tensor.initial is Initial.GIVEN and tensor.name not in made:
            inputs[tensor.name] = tensor.axes
            if tensor.is_written:
                updated.append(tensor.name)
        elif tensor.is_written:
            outputs[tensor.name] = tensor.axes
    operator = Operator(spec.name, inputs, outputs, tuple(updated))
    name = f"warpglass::kernel_{spec.name}_{len(_known)}"

    def run(*tensors: Tensor) -> list[Tensor]:
        given = dict(zip(inputs, tensors))
        plan = (name, *((x.shape, x.stride(), x.dtype, x.device) for x in tensors))
        found = binding.bound(plan)
        if found is None:
            chosen: Choice = checked(spec, problem, processor(tensors[0].device).device)
            found = binding.keep(plan, binding.Bound(operator, operator.call(given, {}), chosen, (), tensors[0].device))
        return list(found(given))

    def fake(*tensors: Tensor) -> list[Tensor]:
        places = [t for t in problem.tensors() if t.name in outputs]
        return [tensors[0].new_empty(t.shape, dtype=binding.torch_type(t.dtype)) for t in places]

    marks = {given: f"Tensor({chr(97 + n)}!)" for n, given in enumerate(updated)}
    arguments = ", ".join(f"{marks.get(given, 'Tensor')} {given}" for given in inputs)
    torch.library.define(name, f"({arguments}) -> Tensor[]")
    torch.library.register_fake(name, fake)
    for device in ("CPU", "CUDA"):
        torch.library.impl(name, device, run)
    _known[key] = Loaded(operator, name)
    return _known[key]
