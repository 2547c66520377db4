"""The right values of outputs, by one NumPy expression of the opening comment, such as "x @ y".

Python's parser reads the expression, and this module computes its tree. It runs no text of a stranger: it knows the
operators + - * / // % ** @, comparisons, indices and slices, and the functions of FUNCTIONS, as functions or methods.
"""

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.core.expressions import MOST_CHARACTERS
from kernels.core.fields import nearest, shortened
from kernels.errors import FrontMatterError, ProblemError

MOST_ELEMENTS = 2**26  # of an intermediate
MOST_TERMS = 2**33  # of a product of matrices
Values = Mapping[str, Any]


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    weights = np.exp(x - x.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "log", "log2", "sqrt", "abs", "sin", "cos", "tanh", "sign")},
    **{name: getattr(np, name) for name in ("sum", "mean", "max", "min", "prod", "cumsum", "var", "std", "argmax")},
    **{name: getattr(np, name) for name in ("maximum", "minimum", "where", "sort", "flip", "roll", "diff", "floor")},
    **{name: getattr(np, name) for name in ("reshape", "transpose", "swapaxes", "ravel", "repeat", "clip", "outer")},
    **{name: getattr(np, name) for name in ("tril", "triu", "dot", "matmul", "zeros_like", "ones_like", "argmin")},
    "softmax": softmax,
    "relu": _relu,
}
METHODS = (
    "sum",
    "mean",
    "max",
    "min",
    "prod",
    "cumsum",
    "var",
    "std",
    "reshape",
    "transpose",
    "swapaxes",
    "ravel",
    "clip",
)
SUMS = ("sum", "mean", "cumsum", "dot", "matmul")
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv},
    **{ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.MatMult: operator.matmul},
    **{ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge},
    **{ast.Eq: operator.eq, ast.NotEq: operator.ne},
}
_FAULTS = (TypeError, ValueError, LookupError, ArithmeticError, MemoryError, RecursionError, np.exceptions.AxisError)


@dataclass(frozen=True)
class Truth:
    """The expressions of outputs.

    file: of the opening comment, for messages.
    said: (output, expression) pairs.
    shapes: of all tensors."""

    file: str
    said: tuple[tuple[str, str], ...]
    shapes: Mapping[str, tuple[int, ...]]

    @staticmethod
    def check(file: str, said: Iterable[tuple[str, str]], tensors: set[str], sizes: Mapping[str, object]) -> None:
        """Raises FrontMatterError for an expression with an unknown name or operation."""
        for output, text in said:
            known = {*tensors, *sizes}
            for node in ast.walk(_tree(file, output, text)):
                if isinstance(node, ast.Name) and node.id not in known | {*FUNCTIONS, "inf"}:
                    near = nearest(node.id, (*known, *FUNCTIONS))
                    raise FrontMatterError(
                        f"{file}: truth.{output} names {node.id!r}.{near} It may name {_names(known)}."
                    )

    def values(self, tensors: Mapping[str, np.ndarray], sizes: Values, dtype: type) -> dict[str, np.ndarray]:
        """output -> array, computed in a type. Raises ProblemError if a shape does not fit."""
        return {name: found for name, (found, *_) in self._computed(tensors, sizes, dtype).items()}

    def largest_terms(self, tensors: Mapping[str, np.ndarray], sizes: Values) -> dict[str, float]:
        """output -> the largest term of its last sum, or its largest value."""
        return {name: term for name, (_, term, _) in self._computed(tensors, sizes, np.float64).items()}

    def terms(self, tensors: Mapping[str, np.ndarray], sizes: Values) -> int:
        """The terms of the longest sum of all outputs."""
        return max((count for _, _, count in self._computed(tensors, sizes, np.float64).values()), default=1)

    def _computed(
        self, tensors: Mapping[str, np.ndarray], sizes: Values, dtype: type
    ) -> dict[str, tuple[np.ndarray, float, int]]:
        given = {
            name: array.astype(dtype) if array.dtype.kind not in "iu" else array for name, array in tensors.items()
        }
        found = {}
        for output, text in self.said:
            work = _Work({**sizes, **given, "inf": np.inf}, dtype)
            try:
                with np.errstate(all="ignore"):
                    found_value: np.ndarray = np.asarray(work.value(_tree(self.file, output, text).body), dtype)
                    shape = self.shapes[output]
                    shaped = found_value.reshape(shape) if found_value.size > 1 else np.full(shape, found_value)
            except _FAULTS as error:
                raise ProblemError(
                    f"{self.file}: truth.{output} = {shortened(repr(text))} cannot be computed: {error}. It must have "
                    f"the shape of {output}, {list(self.shapes[output])}."
                ) from None
            largest = np.abs(shaped[np.isfinite(shaped)]).max(initial=0.0)
            found[output] = shaped, max(work.largest, float(largest)), work.terms
        return found


class _Work:
    """The computation of one expression.

    largest: the largest term of its sums and products. terms: of its longest sum."""

    def __init__(self, names: Mapping[str, Any], dtype: type):
        self.names, self.dtype, self.largest, self.terms = names, dtype, 0.0, 1

    def value(self, node: ast.AST) -> Any:
        made = self._value(node)
        if isinstance(made, np.ndarray) and made.size > MOST_ELEMENTS:
            raise ValueError(f"a part has {made.size:,} elements, and at most {MOST_ELEMENTS:,} are allowed")
        return made

    def _value(self, node: ast.AST) -> Any:
        match node:
            case ast.Constant(value=held) if isinstance(held, (int, float)):
                return held
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -self.value(inner)
            case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._binary(op, self.value(left), self.value(right))
            case ast.Attribute(value=inner, attr="T"):
                return np.asarray(self.value(inner)).T
            case ast.Subscript(value=inner, slice=place):
                return np.asarray(self.value(inner))[self._place(place)]
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return tuple(self.value(part) for part in parts)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in FUNCTIONS:
                return self._called(name, [self.value(arg) for arg in args], keywords)
            case ast.Call(func=ast.Attribute(value=inner, attr=name), args=args, keywords=keywords) if name in METHODS:
                return self._called(name, [self.value(inner), *(self.value(arg) for arg in args)], keywords)
        raise ValueError(f"{ast.unparse(node)[:60]!r} is not among its operations")

    def _binary(self, op: ast.AST, left: Any, right: Any) -> Any:
        if isinstance(op, ast.MatMult):
            self._products(left, right)
        else:
            _check_size(left, right)
        if isinstance(op, ast.Pow) and not (np.ndim(right) == 0 and abs(right) <= 64):
            raise ValueError("a power has a number up to 64 as its exponent")
        return OPERATORS[type(op)](left, right)

    def _products(self, left: Any, right: Any) -> None:
        terms = np.asarray(left).size * (np.shape(right)[-1] if np.ndim(right) > 1 else np.size(right))
        if terms > MOST_TERMS:
            raise ValueError(f"a product has {terms:,} terms, and at most {MOST_TERMS:,} are allowed")
        self.largest = max(self.largest, float(np.abs(left).max(initial=0) * np.abs(right).max(initial=0)))
        self.terms = max(self.terms, np.shape(left)[-1] if np.ndim(left) else 1)

    def _called(self, name: str, args: list[Any], keywords: list[ast.keyword]) -> Any:
        if name in ("dot", "matmul", "outer"):
            self._products(args[0], args[1])
        elif name in ("where", "maximum", "minimum", "clip"):
            _check_size(*args)
        elif name in SUMS:
            self.largest = max(self.largest, float(np.abs(args[0]).max(initial=0)))
            self.terms = max(self.terms, np.size(args[0]))
        if name == "reshape" and len(args) > 2:
            args = [args[0], tuple(args[1:])]
        if name == "transpose" and len(args) > 2:
            args = [args[0], tuple(args[1:])]
        if name == "repeat" and np.size(args[0]) * np.max(args[1]) > MOST_ELEMENTS:
            raise ValueError(f"a part has more than {MOST_ELEMENTS:,} elements")
        return FUNCTIONS[name](*args, **{str(one.arg): self.value(one.value) for one in keywords})

    def _place(self, node: ast.AST) -> Any:
        match node:
            case ast.Tuple(elts=parts):
                return tuple(self._place(part) for part in parts)
            case ast.Slice(lower=low, upper=high, step=step):
                return slice(*(None if part is None else int(self.value(part)) for part in (low, high, step)))
            case ast.Constant(value=None):
                return None
        return self.value(node)


def _check_size(*parts: Any) -> None:
    """Raises ValueError before an operation whose result is too large."""
    count = math.prod(np.broadcast_shapes(*(np.shape(part) for part in parts)))
    if count > MOST_ELEMENTS:
        raise ValueError(f"a part has {count:,} elements, and at most {MOST_ELEMENTS:,} are allowed")


def _tree(file: str, output: str, text: str) -> ast.Expression:
    if len(text) > MOST_CHARACTERS:
        raise FrontMatterError(
            f"{file}: truth.{output} has {len(text):,} characters. Write at most {MOST_CHARACTERS:,}."
        )
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FrontMatterError(
            f"{file}: truth.{output} = {shortened(repr(text))} is no expression ({error})."
        ) from None
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise FrontMatterError(
                f"{file}: truth.{output} has {type(node).__name__}. It may have operators, indices and the functions "
                f"{', '.join(FUNCTIONS)}."
            )
    return tree


_ALLOWED = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.Name, ast.Constant, ast.Attribute),
    *(ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.keyword, ast.Load, ast.USub, ast.operator, ast.cmpop),
)


def _names(known: Iterable[str]) -> str:
    return f"{', '.join(sorted(known))}, and the functions {', '.join(FUNCTIONS)}"
