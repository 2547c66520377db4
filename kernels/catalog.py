"""Every kernel found under kernels/families/ and in the folders that WARPGLASS_KERNELS names; and load_kernel for a .cu
anywhere.

A kernel is one .cu and nothing else: menus, tests, the README's table and the command line are derived from what
stands in its opening comment. A family is a folder with an __init__.py that holds PROBLEMS, name -> problem class,
the first of them the default. WARPGLASS_KERNELS is a list of folders, as PATH is: each may hold .cu files and
folders of families.
"""

import hashlib
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any

from kernels import families
from kernels.core.cases import sample
from kernels.core.fields import nearest
from kernels.core.frontmatter import read_kernel
from kernels.core.problem import Problem
from kernels.core.remembered import recordings_changed
from kernels.core.sources import read_files
from kernels.core.spec import KernelSpec
from kernels.errors import BuildError, ProblemError
from kernels.trace.probes import sites

DEVICE = Path(__file__).parent / "device"
SHIM = DEVICE / "simt"


def find(name: str) -> KernelSpec:
    """The KernelSpec of that name, or of the .cu at that path; ProblemError with the names there are."""
    if name.endswith(".cu"):
        return load_kernel(name)
    name = present_name(name)
    if name not in KERNELS:
        if fault := next((fault for fault in FAULTS if fault.startswith(f"{name}.cu:")), ""):
            raise ProblemError(f"{name} was left out: {fault}")
        raise ProblemError(
            f"There is no kernel {name!r}; there are {', '.join(KERNELS)}. A path that ends in .cu is taken too."
            f"{nearest(name, KERNELS)}"
        )
    return KERNELS[name]


def present_name(name: str) -> str:
    """The present name of a kernel with this former name; any other name unchanged."""
    return Catalog(KERNELS).present_name(name)


def load_kernel(path: str | Path) -> KernelSpec:
    """The KernelSpec of a .cu, in the catalogue or not, read now. Raises FrontMatterError, or ProblemError where it
    cannot be read."""
    path = Path(path).resolve()
    return read_kernel(path, read_files(path, DEVICE, SHIM), problem_of)


def problem_of(family: str, problem: str) -> Any:
    """The problem class of that name of a family, or the family's first; KeyError, with a sentence, if there is
    none."""
    there = family_names()
    if family not in there:
        raise KeyError(
            f"family is {family!r}; there are {', '.join(there)}.{nearest(family, there)} Put a family of your own "
            "into a folder of WARPGLASS_KERNELS."
        )
    try:
        problems = import_module(f"kernels.families.{family}").PROBLEMS
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # any error of a user's own module, sys.exit too
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        raise KeyError(f"family {family} cannot be imported ({said}). Mend its __init__.py.") from None
    name = problem or next(iter(problems))
    if name not in problems:
        raise KeyError(f"problem is {name!r}; family {family} has {', '.join(problems)}.{nearest(name, problems)}")
    return problems[name]


@cache
def family_names() -> tuple[str, ...]:
    """The names of the families, ours first."""
    folders = (folder for root in families.__path__ for folder in sorted(Path(root).glob("*/__init__.py")))
    return tuple(dict.fromkeys(folder.parent.name for folder in folders))


_forget_families = family_names.cache_clear


def _discover() -> tuple[dict[str, KernelSpec], list[str]]:
    """Every kernel there is, in order; and a sentence for each file that is none."""
    roots = [Path(root) for root in families.__path__]
    specs, faults = [], []
    for path in (path for root in roots for path in sorted([*root.glob("*.cu"), *root.glob("*/*.cu")])):
        try:
            spec = load_kernel(path)
            shown = sample(spec)
            spec.plan(shown.problem, shown.settings)
            sites(spec, {**shown.problem.defines, **spec.settings(shown.settings)})
            specs.append(spec)
        except (ProblemError, BuildError) as error:
            faults.append(str(error))
    order = {name: number for number, name in enumerate(family_names())}
    found: dict[str, KernelSpec] = {}
    for spec in sorted(specs, key=lambda s: (order[s.family], not s.path.is_relative_to(roots[0]), s.rung, s.name)):
        if spec.name in found:
            both = f"{spec.path} and {found[spec.name].path}"
            faults.append(f"{both} are both called {spec.name}; the first is left out. Rename one of them.")
        else:
            found[spec.name] = spec
    return found, faults


@dataclass(frozen=True, eq=False)
class Catalog:
    """The kernels that the folders hold at one moment.

    kernels: name -> KernelSpec, in order.
    faults: a sentence for each file that is no kernel.
    """

    kernels: Mapping[str, KernelSpec]
    faults: tuple[str, ...] = ()

    @cached_property
    def constant_names(self) -> frozenset[str]:
        """The names of the constants of all kernels."""
        return frozenset(constant.name for spec in self.kernels.values() for constant in spec.constants)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the text of every kernel and of the headers that it includes."""
        texts = hashlib.sha256()
        for spec in self.kernels.values():
            texts.update(repr((str(spec.path), spec.files)).encode())
        return texts.hexdigest()[:16]

    def present_name(self, name: str) -> str:
        """The present name of a kernel with this former name; any other name unchanged."""
        return next((spec.name for spec in self.kernels.values() if spec.formerly == name != ""), name)

    def using_cache(self, does: str, dtype: str = "") -> dict[str, KernelSpec]:
        """name -> KernelSpec of the kernels that attend to a paged cache, write it or copy its pages (CacheUse.does).

        dtype: the type of the cache; empty for the type of K and V.
        """
        uses = {name: spec.problem_type.cache_use for name, spec in self.kernels.items()}
        return {
            name: self.kernels[name] for name, use in uses.items() if use and (use.does, use.dtype) == (does, dtype)
        }


def _stamp() -> tuple[tuple[str, int, int], ...]:
    """(path, time, size) of every .cu and every header. It changes with each file that is added, changed or removed."""
    roots = [Path(root) for root in families.__path__]
    folders = [*roots, *(folder for root in roots for folder in root.iterdir() if folder.is_dir()), DEVICE, SHIM]
    found = []
    for folder in folders:
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith((".cu", ".cuh", ".h")):
                    found.append((entry.path, entry.stat().st_mtime_ns, entry.stat().st_size))
    return tuple(sorted(found))


_seen = _stamp()
_lock = threading.Lock()
KERNELS, FAULTS = _discover()  # of the current catalogue, changed in place
_current = Catalog(dict(KERNELS), tuple(FAULTS))


def current() -> Catalog:
    """The catalogue of this moment. A new one is made after a file was added, changed or removed. KERNELS and FAULTS
    follow."""
    global _seen, _current
    with _lock:
        stamp = _stamp()
        if stamp != _seen:
            invalidate_caches()  # of imports: a new family is a new package
            _forget_families()
            found, FAULTS[:] = _discover()
            kernels = {name: KERNELS[name] if KERNELS.get(name) == spec else spec for name, spec in found.items()}
            if list(kernels) != list(KERNELS):
                KERNELS.clear()
            KERNELS.update(kernels)
            _seen, _current = stamp, Catalog(kernels, tuple(FAULTS))
            recordings_changed()
        return _current


def of_family(*names: str) -> dict[str, KernelSpec]:
    """name -> KernelSpec of the kernels of these families, in the catalogue's order."""
    return {spec.name: spec for spec in KERNELS.values() if spec.family in names}


def of_problem(kind: type[Problem]) -> dict[str, KernelSpec]:
    """name -> KernelSpec of the kernels that solve problems of that class, in the catalogue's order."""
    return {spec.name: spec for spec in KERNELS.values() if kind is spec.problem_type}


def using_cache(does: str, dtype: str = "") -> dict[str, KernelSpec]:
    """Catalog.using_cache of the current catalogue."""
    return Catalog(KERNELS).using_cache(does, dtype)
