"""First values of names that a loop carries."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from solkit.tuner.proposers.rewriter._carried import LOWEST, Carried
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    compact_code,
    parse_statement,
    render_code,
    single_assignment,
)


@dataclass(frozen=True)
class Start:
    """First value of a name that a loop carries.

    Attributes:
        shape: its sizes as code; empty for a scalar.
        dtype: of Triton: ``"float32"``, ``"int32"`` or ``"int64"``.
        value: of each element, as code.
    """

    shape: tuple[str, ...]
    dtype: str
    value: str

    @property
    def is_integer(self) -> bool:
        """True for an integer; else it is fp32."""
        return self.dtype.startswith("int")

    @property
    def is_zero(self) -> bool:
        """True if it is 0."""
        return self.value in ("0", "0.0", "0.", "-0.0")

    def full(self, shape: Sequence[str], value: str) -> str:
        """Return the code of a block of this type, or of a plain number if it has no axes."""
        sizes = "".join(f"{size}, " for size in shape).rstrip(" ")
        sizes = sizes if len(shape) == 1 else sizes.rstrip(",")
        return f"tl.full(({sizes}), {value}, tl.{self.dtype})" if shape else value


_DTYPES = ("tl.float32", "tl.int32", "tl.int64")


def start_of_name(name: str, before: Body) -> Start | None:
    """Return the first value of a name by its last assignment; ``None`` if it is of another form.

    It is fp32 or an integer. What a loop or a branch left in the name is of another form.
    """
    assigning = [statement for statement in before if name in assigned_names(statement)]
    binding = single_assignment(assigning[-1]) if assigning else None
    return None if binding is None else _start_of_value(binding.value)


def _start_of_value(value: cst.BaseExpression) -> Start | None:
    if called_name(value) in ("tl.zeros", "tl.full"):
        return _start_of_block(value)
    if isinstance(value, cst.BinaryOperation) and called_name(value.left) == "tl.zeros":
        block, number = _start_of_value(value.left), _start_of_value(value.right)
        is_sum = isinstance(value.operator, (cst.Add, cst.Subtract)) and number is not None
        if block is None or not is_sum or number is None or number.shape or block.is_integer:
            return None
        sign = "-" if isinstance(value.operator, cst.Subtract) else ""
        return replace(block, value=f"{sign}{number.value}")
    text = compact_code(value)
    plain = text.lstrip("-+")
    if plain.startswith("float("):
        return Start((), "float32", text)
    try:
        float(plain)
    except ValueError:
        return None
    return Start((), "int32" if plain.isdigit() else "float32", text)


def _start_of_block(call: cst.BaseExpression) -> Start | None:
    is_zeros = called_name(call) == "tl.zeros"
    shape, dtype = argument_of(call, 0, "shape"), argument_of(call, 1 if is_zeros else 2, "dtype")
    value = cst.Integer("0") if is_zeros else argument_of(call, 1, "value")
    kind = "" if dtype is None else render_code(dtype)
    if kind not in _DTYPES or value is None or not isinstance(shape, (cst.Tuple, cst.List)):
        return None
    sizes = tuple(render_code(element.value) for element in shape.elements)
    return Start(sizes, kind.removeprefix("tl."), render_code(value))


def with_finite_starts(before: Body, updates: Iterable[Carried]) -> list[cst.BaseStatement]:
    """Return statements with starts of maxima that a part which sees nothing may keep.

    A sum that is rescaled without a look whether there is a maximum would be no number there.
    """
    leaders = {
        update.leader
        for update in updates
        if update.scale is not None and not calls_within(update.scale, "tl.where")
    }
    return [_with_finite_start(statement, leaders) for statement in before]


def _with_finite_start(statement: cst.BaseStatement, leaders: Container[str]) -> cst.BaseStatement:
    binding = single_assignment(statement)
    start = None if binding is None else _start_of_value(binding.value)
    if binding is None or start is None or binding.target not in leaders:
        return statement
    if "inf" not in start.value:
        return statement
    changed = parse_statement(f"{binding.target} = {start.full(start.shape, LOWEST)}")
    return changed.with_changes(leading_lines=getattr(statement, "leading_lines", ()))
