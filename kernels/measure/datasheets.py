"""Peaks of GPUs from their datasheets. A chart shows them next to the roofs measured on this GPU."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Peaks:
    """The peaks of the GPU with this name. None for a GPU without an entry."""

    half_tflops: float
    fp8_tflops: float
    tb_per_s: float
    memory: str

    @property
    def said(self) -> str:
        return (
            f"{self.half_tflops:,.0f} TFLOP/s of dense fp16 or bf16, {self.fp8_tflops:,.0f} TFLOP/s of dense fp8, "
            f"{self.tb_per_s:g} TB/s of {self.memory}"
        )


# Source: NVIDIA's datasheets "H200 Tensor Core GPU" and "H100 Tensor Core GPU", columns SXM. They state 1,979 TFLOP/s
# (fp16, bf16) and 3,958 TFLOP/s (fp8) with sparsity. A dense product has half of both.
PEAKS = {
    "NVIDIA H200": Peaks(989, 1979, 4.8, "HBM3e"),
    "NVIDIA H100 80GB HBM3": Peaks(989, 1979, 3.35, "HBM3"),
}


def peaks(device: str) -> Peaks | None:
    return PEAKS.get(device)
