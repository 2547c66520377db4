"""The catalogue of kernels: every .cu under kernels/families/ and in the folders that WARPGLASS_KERNELS names.

A kernel is one .cu. Menus, tests, tables and the command line read its opening comment. A family is a folder with an
__init__.py that holds PROBLEMS: name -> problem class, the default first. WARPGLASS_KERNELS lists folders, as PATH
does. Each folder may hold .cu files and folders of families.

A Catalog is a snapshot. `current` gives the snapshot of this moment: it reads the folders anew after a file was added,
changed or removed. The Python of a family is read once per process.
"""

import hashlib
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module, invalidate_caches
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from kernels import families
from kernels.core.cases import sample
from kernels.core.fields import nearest
from kernels.core.frontmatter import read_kernel
from kernels.core.problem import Problem
from kernels.core.remembered import recordings_changed
from kernels.core.sources import read_files
from kernels.core.spec import KernelSpec
from kernels.errors import BuildError, ProblemError
from kernels.jail import setting
from kernels.trace.probes import sites

if TYPE_CHECKING:
    KERNELS: Mapping[str, KernelSpec]
    FAULTS: tuple[str, ...]

DEVICE = Path(__file__).parent / "device"
SHIM = DEVICE / "simt"
SOURCES = (".cu", ".cuh", ".h", "__init__.py")  # the ends of the names of files that count
LOOK_AGAIN_S = 0.5  # seconds for which `current` trusts its last look at the folders
Stamps = Mapping[str, tuple[int, int]]  # path -> time of its last change in ns, bytes


@dataclass(frozen=True, eq=False, repr=False)
class Catalog:
    """The kernels of the folders at one moment.

    kernels: name -> KernelSpec, in the order of families, folders and rungs.
    faults: a sentence for each file that is no kernel.
    families: the names of the families, ours first.
    stamps: the files of the folders with their times and sizes."""

    kernels: Mapping[str, KernelSpec]
    faults: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    stamps: Stamps = field(default_factory=dict)

    @cached_property
    def constant_names(self) -> frozenset[str]:
        """The names of the constants of all kernels."""
        return frozenset(constant.name for spec in self.kernels.values() for constant in spec.constants)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the texts of all kernels and their headers."""
        texts = hashlib.sha256()
        for spec in self.kernels.values():
            texts.update(repr((str(spec.path), spec.files)).encode())
        return texts.hexdigest()[:16]

    def find(self, name: str) -> KernelSpec:
        """The kernel with this name, or of the .cu at this path. Raises ProblemError with the known names."""
        if name.endswith((".cu", ".cuh")):
            return load_kernel(name)
        if name in self.kernels:
            return self.kernels[name]
        if fault := next((fault for fault in self.faults if fault.startswith(f"{name}.cu:")), ""):
            raise ProblemError(f"{name} has a fault: {fault}")
        raise ProblemError(
            f"There is no kernel {name!r}. There are {', '.join(self.kernels)}. A path of a .cu works too."
            f"{nearest(name, self.kernels)}"
        )

    def of_family(self, *names: str) -> dict[str, KernelSpec]:
        """name -> KernelSpec of the kernels of these families."""
        return {name: spec for name, spec in self.kernels.items() if spec.family in names}

    def of_problem(self, kind: type[Problem]) -> dict[str, KernelSpec]:
        """name -> KernelSpec of the kernels that solve problems of a class."""
        return {name: spec for name, spec in self.kernels.items() if spec.solves_class(kind)}

    def separate_of(self, spec: KernelSpec) -> KernelSpec | None:
        """The kernel that a fused kernel changes: it solves the same problems in more launches. None for a kernel
        without one."""
        before = self.kernels.get(spec.changed_from)
        if before is None or not before.solves_class(spec.problem_type):
            return None
        return before if len(before.launch_texts) > len(spec.launch_texts) else None

    def using_cache(self, does: str, dtype: str = "") -> dict[str, KernelSpec]:
        """name -> KernelSpec of the kernels that attend to a paged cache, write it or copy its pages (CacheUse.does).

        dtype: the type of the cache, or "" for the type of K and V."""
        uses = {name: spec.problem_type.cache_use for name, spec in self.kernels.items()}
        found = [name for name, use in uses.items() if use and (use.does, use.dtype) == (does, dtype)]
        return {name: self.kernels[name] for name in found}


_lock = Lock()
_last: Catalog | None = None
_looked_at = 0.0  # time.monotonic() of the last look at the folders


def current() -> Catalog:
    """The catalogue of this moment: the last snapshot, or a new one if a file of the folders changed."""
    global _last, _looked_at
    with _lock:
        if _last is None or time.monotonic() - _looked_at >= LOOK_AGAIN_S:
            before, _last = _last, refreshed(_last)
            _looked_at = time.monotonic()
            if before is not None and _last is not before:
                recordings_changed()  # their index depends on the kernels
        return _last


def refreshed(before: Catalog | None) -> Catalog:
    """The snapshot `before` if its files are unchanged, else a new one. It keeps the specs of unchanged kernels."""
    stamps = _stamps()
    if before is not None and stamps == before.stamps:
        return before
    invalidate_caches()
    known = {spec.path: spec for spec in before.kernels.values()} if before else {}
    names = _family_names()
    specs, faults = [], []
    for path in (path for root in folders() for path in sorted([*root.glob("*.cu"), *root.glob("*/*.cu")])):
        try:
            specs.append(_checked(path, known.get(path.resolve())))
        except (ProblemError, BuildError) as error:
            faults.append(str(error))
    ours, order = folders()[0], {name: number for number, name in enumerate(names)}
    found: dict[str, KernelSpec] = {}
    for spec in sorted(
        specs, key=lambda s: (*_place(s.family, order), not s.path.is_relative_to(ours), s.rung, s.name)
    ):
        if spec.name in found:
            both = f"{spec.path} and {found[spec.name].path}"
            faults.append(f"{both} have the same name, {spec.name}. The catalogue omits the first. Rename one file.")
        else:
            found[spec.name] = spec
    return Catalog(found, tuple(faults), names, stamps)


def find(name: str) -> KernelSpec:
    """The current catalogue's kernel with this name, or of the .cu at this path (Catalog.find)."""
    return current().find(name)


def folders() -> tuple[Path, ...]:
    """The folders of the catalogue, ours first. A server without a place for users' kernels has no others."""
    ours, *others = map(Path, families.__path__)
    return (ours,) if setting.in_force() is setting.Setting.OFF else (ours, *others)


def load_kernel(path: str | Path) -> KernelSpec:
    """The KernelSpec of a .cu inside or outside the folders, read now. Raises FrontMatterError, or ProblemError if the
    file cannot be read."""
    path = Path(path).resolve()
    return read_kernel(path, read_files(path, DEVICE, SHIM), problem_of)


def problem_of(family: str, problem: str) -> type[Problem]:
    """The problem class with this name of a family, or the family's first. Raises KeyError with a sentence."""
    names = _family_names()
    if family not in names:
        raise KeyError(
            f"family is {family!r}. There are {', '.join(names)}.{nearest(family, names)} Put a family of your own "
            "into a folder of WARPGLASS_KERNELS."
        )
    try:
        problems: dict[str, type[Problem]] = import_module(f"{families.__name__}.{family}").PROBLEMS
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # any error of a user's own module, sys.exit too
        cause = f"{type(error).__name__}: {error}".splitlines()[0]
        raise KeyError(f"family {family} cannot be imported ({cause}). Mend its __init__.py.") from None
    name = problem or next(iter(problems))
    if name not in problems:
        raise KeyError(f"problem is {name!r}. Family {family} has {', '.join(problems)}.{nearest(name, problems)}")
    return problems[name]


def _checked(path: Path, known: KernelSpec | None) -> KernelSpec:
    """The kernel of a .cu after a plan of a sample and a look at its probes, or the known spec if no text changed."""
    if known is not None and read_files(known.path, DEVICE, SHIM) == known.files:
        return known
    spec = load_kernel(path)
    shown = sample(spec)
    spec.plan(shown.problem, shown.settings)
    sites(spec, {**shown.problem.defines, **spec.settings(shown.settings)})
    return spec


def _family_names() -> tuple[str, ...]:
    ours, *others = folders()
    roots = (ours, *others) if setting.in_force() is setting.Setting.LOCAL else (ours,)  # a family is Python: no jail
    packages = (file for root in roots for file in sorted(root.glob("*/__init__.py")))
    return tuple(dict.fromkeys(file.parent.name for file in packages))


def _place(family: str, order: dict[str, int]) -> tuple[int, bool]:
    """The place of a family in lists: that of its name, or right after the family that its package names (AFTER)."""
    after = getattr(sys.modules.get(f"{families.__name__}.{family}"), "AFTER", "")
    return order.get(after, order[family]), bool(after)


def _stamps() -> Stamps:
    """The stamp of each file that the catalogue depends on."""
    roots = folders()
    looked_at = [*roots, *(folder for root in roots for folder in root.glob("*/")), DEVICE, SHIM]
    found: dict[str, tuple[int, int]] = {}
    for folder in looked_at:
        with suppress(OSError), os.scandir(folder) as entries:  # a folder or file may be removed at this moment
            for entry in entries:
                if entry.name.endswith(SOURCES):
                    stat = entry.stat()
                    found[entry.path] = (stat.st_mtime_ns, stat.st_size)
    return found


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """KERNELS and FAULTS of the current catalogue, for scripts and tests."""
        if name == "KERNELS":
            return current().kernels
        if name == "FAULTS":
            return current().faults
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
