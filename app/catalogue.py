"""The kernels of this moment. The app asks for them at each request, so that its pages follow the folders."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from kernels import catalog
from kernels.core.spec import KernelSpec


@dataclass(frozen=True, eq=False)
class Catalog:
    """The kernels that the folders hold.

    kernels: name -> KernelSpec, in order.
    faults: a sentence for each file that is no kernel.
    """

    kernels: Mapping[str, KernelSpec]
    faults: tuple[str, ...] = ()

    @cached_property
    def constant_names(self) -> frozenset[str]:
        """The names of the constants of all kernels."""
        return frozenset(constant.name for spec in self.kernels.values() for constant in spec.constants)

    def using_cache(self, does: str, dtype: str = "") -> Mapping[str, KernelSpec]:
        """name -> KernelSpec of the kernels that attend to a paged cache of a type, write it or copy its pages."""
        return catalog.using_cache(does, dtype)

    def present_name(self, name: str) -> str:
        """The present name of a kernel with this former name; any other name unchanged."""
        return catalog.present_name(name)


@lru_cache(maxsize=1)
def current() -> Catalog:
    """The catalogue of this moment."""
    return Catalog(catalog.KERNELS, tuple(catalog.FAULTS))
