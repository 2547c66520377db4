"""The tab "Run it here" of the site without a server: kernels that the reader's browser executes on inputs of its own.

The module of a kernel is WebAssembly (kernels/build/wasm.py). app/stage/views/run_here.js makes the inputs, launches
the kernel, and compares its output with float64.
"""

import gzip
import hashlib
from dataclasses import replace

from app.choices.estimates import requests_in
from app.store import disk
from explainers.story import encoding
from kernels.build import wasm
from kernels.core.request import Request
from kernels.core.tensors import Role
from kernels.errors import BackendUnavailable, WarpglassError
from kernels.jail import setting
from kernels.trace.probes import sites_of

NUMBERS = ("int32 seq_len", "int32 causal", "float32 scale")  # that the tab gives a kernel
INPUTS = {"q", "k", "v"}
PAGES = ("online_softmax", "registers", "tiling")
SHOWN = (("row",), ("row", "col"), ("row", "tile"))  # the keys of the logged values that the tab shows
TOKENS = 64  # at most, of one head


class Modules:
    """The modules of a site.

    packed: name -> packed bytes.
    of: bundle -> name of its module.
    refused: why the site has none, or ""."""

    def __init__(self) -> None:
        self.packed: dict[str, bytes] = {}
        self.of: dict[str, str] = {}
        self.refused = ""

    def with_tab(self, data: bytes, bundle: str, subject: object) -> bytes:
        """A packed bundle with the tab, if its page has one request, whose kernel can run. Else the same bytes.

        bundle: its name.
        subject: of the page."""
        requests = requests_in(subject)
        if len(requests) != 1 or not can_run(requests[0]) or self.refused:
            return data
        try:
            module = wasm.build(requests[0].kernel, requests[0].defines)
        except BackendUnavailable as error:
            self.refused = f"tab Run it here: {error}"
            return data
        self.of[bundle] = name = f"module-{hashlib.sha256(module).hexdigest()[:16]}"
        self.packed[name] = disk.pack(module)
        view = {"kind": "live", "view": "run_here", "meta": meta(requests[0], name)}
        tab = {"id": "here", "title": "Run it here", "blocks": [view]}
        return disk.pack(encoding.with_tab(gzip.decompress(data), tab))


def can_run(request: Request) -> bool:
    """Whether the tab can launch its kernel: one of ours in float32, without a tensor core, with known arguments.

    These are the first five kernels of the course."""
    kernel = request.kernel
    if kernel.plain or kernel.requires or kernel.tensor_products or not kernel.path.is_relative_to(setting.OURS):
        return False
    tensors = request.plan.tensors
    known = [*NUMBERS, *(tensor.name for tensor in tensors)]
    given = {tensor.name for tensor in tensors if tensor.role is Role.INPUT}
    knows_all = all(one in known for text in kernel.launch_texts for one in text.args)
    return knows_all and given == INPUTS and {tensor.dtype for tensor in tensors} == {"float32"}


def meta(request: Request, module: str) -> dict[str, object]:
    """What the view needs to launch the kernel with its constants on 1 to TOKENS tokens of one head.

    module: the name of its bytes. A grid is that of `tokens` - 1, for each launch. An argument is a tensor, or the type
    and name of a number. values: the site of a probe -> the names of its value and of its keys, one of SHOWN."""
    problem = replace(request.problem, seq_len=1, batch=1, num_heads=1)
    plans = [
        request.kernel.plan(replace(problem, seq_len=tokens), request.constants) for tokens in range(1, TOKENS + 1)
    ]
    if len({tuple((one.block, one.shared_bytes) for one in plan.launches) for plan in plans}) != 1:
        raise WarpglassError(f"{request.kernel.name} has another block for another number of tokens.")
    launches = [
        {
            "entry": text.entry,
            "grids": [plan.launches[number].grid for plan in plans],
            "block": plans[0].launches[number].block,
            "shared": plans[0].launches[number].shared_bytes,
            "arguments": [one.split() if " " in one else one for one in text.args],
        }
        for number, text in enumerate(request.kernel.launch_texts)
    ]
    return {
        "module": module,
        "kernel": request.kernel.name,
        "dim": problem.head_dim,
        "scale": problem.scale,
        "causal": problem.causal,
        "tensors": {tensor.name: tensor.axes for tensor in plans[0].tensors},
        "launches": launches,
        "values": {
            str(site.word): (site.event, *site.keys)
            for site in sites_of(request).listed
            if site.kind == "value" and site.keys in SHOWN
        },
    }
