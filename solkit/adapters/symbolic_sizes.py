"""Fake tensors with symbolic sizes, through torch's `ShapeEnv`.

torch decides comparisons by each symbol's *hint*, a value, and records them as guards. `Size`
carries value and formula through code that expects integers.
"""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod


def size_symbol(name: str) -> sympy.Symbol:
    """Return the symbol of a size: a positive integer."""
    return sympy.Symbol(name, integer=True, positive=True)


class Size(int):
    """An integer with its formula in the symbols.

    Comparisons use the value. Operations without a formula (bits, numpy, true division) give plain
    numbers, so a formula must be checked at other sizes.
    """

    formula: sympy.Expr

    def __new__(cls, value: int, formula: sympy.Expr) -> Size:
        """Return an integer with a formula."""
        size = super().__new__(cls, value)
        size.formula = formula
        return size

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy as a plain integer."""
        return int, (int(self),)


def formula_of(number: int) -> sympy.Expr:
    """Return the formula of a `Size`; other integers are their own."""
    return number.formula if isinstance(number, Size) else sympy.Integer(number)


def _lift_operator(name: str, function: Callable[[Any, Any], Any]) -> None:
    """Make an operator of `Size`, and its reflection, work on formulas too."""
    plain: Callable[[int, int], Any] = getattr(int, name)

    def forward(self: Size, other: Any) -> Any:
        number = plain(self, other)
        if type(number) is not int:
            return number  # not an integer operand, or no integer result
        return Size(number, function(self.formula, formula_of(other)))

    def backward(self: Size, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        number = plain(other, self)
        if type(number) is not int:
            return number
        return Size(number, function(formula_of(other), self.formula))

    setattr(Size, name, forward)
    setattr(Size, f"__r{name.strip('_')}__", backward)


for _name, _function in {
    "__add__": lambda a, b: a + b,
    "__sub__": lambda a, b: a - b,
    "__mul__": lambda a, b: a * b,
    "__floordiv__": lambda a, b: sympy.floor(a / b),
    "__mod__": lambda a, b: sympy.Mod(a, b),
    "__pow__": lambda a, b: a**b,
}.items():
    _lift_operator(_name, _function)


@dataclass(frozen=True)
class Symbols:
    """The sizes of one symbolic run.

    Attributes:
        sizes: the program's arguments, by name.
        environment: torch's, with the guards of the run.
    """

    sizes: Mapping[str, torch.SymInt]
    environment: ShapeEnv

    def size(self, number: Any) -> int:
        """Return a tensor's size as a `Size`, or a plain integer."""
        if not isinstance(number, torch.SymInt):
            return int(number)
        node = number.node
        return Size(int(node.hint), self._named(node.expr)) if node.expr.free_symbols else node.hint

    def conditions(self) -> tuple[str, ...]:
        """Divisibilities and equalities of sizes that the run relies on."""
        named = [self._named(guard.expr) for guard in self.environment.guards]
        equalities = [e for e in named if isinstance(e, sympy.Eq) and e.free_symbols]
        return tuple(dict.fromkeys(f"{e.lhs} = {e.rhs}" for e in equalities))

    def specialised(self) -> tuple[str, ...]:
        """Return the sizes that the run fixed to their values."""
        fixed = self.environment.replacements
        return tuple(
            name
            for name, size in self.sizes.items()
            if not fixed.get(size.node._expr, size.node._expr).free_symbols
        )

    def _named(self, expression: Any) -> Any:
        """Return the expression with the names of the sizes, and sympy's functions for torch's."""
        names = {size.node._expr: size_symbol(name) for name, size in self.sizes.items()}
        plain = expression.replace(FloorDiv, lambda a, b: sympy.floor(a / b))
        for modulo in (Mod, PythonMod):
            plain = plain.replace(modulo, lambda a, b: sympy.Mod(a, b))
        return plain.xreplace(names)


@contextlib.contextmanager
def symbolic_sizes(mode: FakeTensorMode, values: Mapping[str, int]) -> Iterator[Symbols]:
    """Give fake tensors of `mode` symbolic shapes; contents are not tracked.

    Args:
        mode: of `solkit.adapters.fake_cuda.fake_tensors`, which must not be active.
        values: the hint of each symbol by name.
    """
    environment = ShapeEnv()
    kept = mode.shape_env, mode.static_shapes
    mode.shape_env, mode.static_shapes = environment, False
    try:
        with mode:
            sizes = {name: _make_symint(environment, name, hint) for name, hint in values.items()}
            yield Symbols(sizes, environment)
    finally:
        mode.shape_env, mode.static_shapes = kept


def _make_symint(environment: ShapeEnv, name: str, hint: int) -> torch.SymInt:
    source = ConstantSource(name)
    symbol = environment.create_symbol(
        hint, source=source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None
    )
    size = environment.create_symintnode(symbol, hint=hint, source=source)
    assert isinstance(size, torch.SymInt)
    return size
