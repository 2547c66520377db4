"""Real CUDA attention kernels, one step at a time: the command warpglass, and operators for PyTorch."""

LAZY = ("attention", "scaled_dot_product_attention", "watch")


def __getattr__(name: str) -> object:
    """The operators of LAZY, which need torch, counts, run, and __version__."""
    if name in LAZY:
        from kernels import ops

        return getattr(ops, name)
    if name == "counts":
        from kernels.run import counting

        return counting.counts
    if name == "run":
        from warpglass import notebook

        return notebook.run
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version(__name__)
        except PackageNotFoundError:
            return "a clone"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
