"""The form for a sweep on this machine's GPU."""

from collections.abc import Sequence

from explainers.story import stage
from explainers.story.stage import Block
from kernels.catalog import current
from kernels.core.fields import fields_of, write_value
from kernels.core.spec import KernelSpec

VALUES = {  # the defaults of well-known sizes
    "seq_len": "128, 256, 512, 1024, 2048, 4096",
    "width": "512, 768, 1024, 2048",
    "num_heads": "8, 12, 16, 32",
    "batch": "1, 4, 8, 16, 32",
    "head_dim": "32, 64, 128",
}


def form(gpu: str, gpus: Sequence[tuple[str, str]], chosen: Sequence[str], measured: int) -> Block:
    """The form.

    gpu: the name of the GPU.
    gpus: (id, name) of each GPU, if the machine has several.
    chosen: the kernels that it selects at first.
    measured: the number of points that this machine has measured.
    """
    kernels = [
        {"name": name, "title": spec.title, "fields": sweepable(spec), "on": name in chosen}
        for name, spec in current().kernels.items()
    ]
    about = "A point is timed after its output has passed against float64. Each point shows at once."
    meta = {"what": "sweep", "gpu": gpu, "kernels": kernels, "about": about, "measured": measured}
    return stage.live("measure", meta | {"gpus": gpus})


def sweepable(spec: KernelSpec) -> dict[str, str]:
    """The names over which a kernel can be swept -> default values: sizes, fields of the problem, constants."""
    kind = spec.problem_type
    found = dict.fromkeys(kind.derived_fields, "")
    for name, field in fields_of(kind).items():
        if not isinstance(field.default, tuple):
            found[name] = ", ".join(write_value(value) for value in field.metadata["allowed"] or (field.default,))
    found |= {constant.name: ", ".join(map(str, constant.values)) for constant in spec.constants}
    usual = {name: values for name, values in VALUES.items() if name in found}
    return usual | {name: values for name, values in found.items() if name not in VALUES}
