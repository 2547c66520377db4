"""A request for a run: kernel, problem, constants, traced items and backend."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernels.core.fields import key_fields
from kernels.core.launch import Constant, ConstantRole, Plan
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError


@dataclass(frozen=True)
class Request:
    """A request for a run.

    settings: compile-time constants as pairs, at least those without their default.
    backend: gpu, cpu or recorded."""

    kernel: KernelSpec
    problem: Any
    settings: tuple[tuple[str, int], ...] = ()
    scope: Scope = field(default_factory=Scope)
    backend: str = "cpu"

    @property
    def constants(self) -> dict[str, int]:
        return self.kernel.settings(self.settings)

    def value_of(self, role: ConstantRole) -> int | None:
        constant = self.kernel.constant_of(role)
        return None if constant is None else self.constants[constant.name]

    def required_value_of(self, role: ConstantRole) -> int:
        """The value of the kernel's constant with that role. ProblemError for a kernel without it."""
        value = self.value_of(role)
        if value is None:
            raise ProblemError(f"{self.kernel.name} has no constant for {role}.")
        return value

    @property
    def defines(self) -> dict[str, int]:
        return {**self.problem.defines, **self.constants}

    @property
    def plan(self) -> Plan:
        return self.kernel.plan(self.problem, self.constants)

    @property
    def identity(self) -> tuple[dict[str, object], dict[str, int]]:
        """The problem's fields and the constants in JSON's types, as the key of a recording."""
        return json.loads(json.dumps(key_fields(self.problem))), self.constants

    @property
    def broken(self) -> tuple[Constant, ...]:
        """The what-if constants with another value than the default."""
        chosen = self.constants
        return tuple(c for c in self.kernel.constants if c.what_if and chosen[c.name] != c.default)


def identity_key(problem: Mapping[str, object], settings: Mapping[str, int]) -> str:
    """Eight hex digits of a Request.identity, for the names of files."""
    return hashlib.sha256(json.dumps([problem, settings], sort_keys=True).encode()).hexdigest()[:8]
