"""Elementwise ops: what `solkit.ops.pointwise` says of an element, as far as arguments allow."""

from __future__ import annotations

from solkit.ops import operator
from solkit.roofline.work.costs._base import Cost, compute_like, rule, scalar
from solkit.roofline.work.program import TensorUse, TracedOp

_ERF = (operator("aten.erf").operations or (0, 0))[0]


@rule("elementwise")
def _pointwise(op: TracedOp) -> Cost:
    """Count the operator's operations for each distinct element of the result."""
    return _per_element(op, *op.operator.operations or (1, 0))


def _per_element(op: TracedOp, operations: int, sfu: int) -> Cost:
    """Count `operations` for each element, unless its dtype says otherwise."""
    count, like = op.result.distinct, compute_like(op)
    if any(use.dtype.is_complex for use in op.inputs):
        operations, sfu = _of_complex(op, sfu)
    elif not (like.dtype.is_floating_point or like.dtype.is_complex):
        return _of_integers(op, like, min(operations, 1) * count)
    return scalar(like, operations * count, sfu * count)


def _of_complex(op: TracedOp, sfu: int) -> tuple[int, int]:
    """Return operations of a complex element; where its record has none, at least two."""
    record = op.operator
    factors = [op.arguments.get(part) for part in ("self", "other")]
    if record.linear and record.multiplies and not all(map(_is_complex, factors)):
        return 2, int(record.divides)
    return record.complex_operations or (2, sfu)


def _is_complex(factor: object) -> bool:
    return factor.dtype.is_complex if isinstance(factor, TensorUse) else isinstance(factor, complex)


def _of_integers(op: TracedOp, like: TensorUse, operations: int) -> Cost:
    """Logic works on 32-bit words, so on four one-byte elements at once."""
    if op.operator.bitwise and like.dtype.itemsize == 1:
        operations = -(-operations // 4)
    return scalar(like, operations)


@rule("sum")
def _add(op: TracedOp) -> Cost:
    """Return an addition, or a multiply-add where a factor is given."""
    return _per_element(op, 1 if op.arguments.get("alpha", 1) in (1, -1) else 2, 0)


@rule("sum of products")
def _addcmul(op: TracedOp) -> Cost:
    """Return a multiply-add, and a product where a factor is given."""
    return _per_element(op, 2 if op.arguments.get("value", 1) in (1, -1) else 3, 0)


@rule("sum of quotients")
def _addcdiv(op: TracedOp) -> Cost:
    """Return a reciprocal per distinct divisor, a product and a multiply-add."""
    return scalar(op.result, 3 * op.result.distinct, sfu=op.inputs[-1].distinct)


@rule("quotient")
def _div(op: TracedOp) -> Cost:
    """Count one reciprocal per distinct divisor, one multiplication per element."""
    if any(use.dtype.is_complex for use in op.inputs) or not op.result.dtype.is_floating_point:
        return _per_element(op, 1, 0)
    divisor = op.arguments.get("other")
    reciprocals = divisor.distinct if isinstance(divisor, TensorUse) else 0
    rounded = 1 if op.arguments.get("rounding_mode") else 0
    count = op.result.distinct
    return scalar(op.result, (1 + rounded) * count, sfu=min(reciprocals, count))


@rule("power")
def _pow(op: TracedOp) -> Cost:
    """Whole powers by multiplication, halves by a root as well, others through log and exp."""
    base, exponent = op.arguments["self"], op.arguments["exponent"]
    if not isinstance(base, TensorUse):
        return _per_element(op, 1, 1)  # the base's logarithm is known
    if isinstance(exponent, TensorUse) and (number := _whole_numbers(exponent)):
        powers = base.distinct * number  # of each base: the next one is a product
        if number <= _MOST_POWERS or powers <= op.result.distinct:
            return scalar(op.result, min(op.result.distinct, powers))
    if isinstance(exponent, TensorUse) or not float(2 * exponent).is_integer():
        return _per_element(op, 1, 2)
    whole = int(abs(exponent))
    half = float(abs(exponent)) != whole
    products = max(whole - 1, 0).bit_length() + int(half and whole > 0)
    roots = int(half or exponent < 0)  # x^-0.5 is one function
    return _per_element(op, products, roots)


def _whole_numbers(exponent: TensorUse) -> int:
    """Return from how many whole numbers, beginning at 0, exponents are; 0 of other exponents."""
    value = exponent.value
    if value is None or not value.size or value.min() < 0 or value.max() >= _MOST_NUMBERS:
        return 0
    return int(value.max()) + 1 if bool((value == value.round()).all()) else 0


_MOST_NUMBERS = 1 << 16
_MOST_POWERS = 64


@rule("gelu")
def _gelu(op: TracedOp) -> Cost:
    """Count h f(x) + h with h = x/2; f is erf(x/√2), or tanh of x (c + d x x)."""
    if op.arguments.get("approximate", "none") == "tanh":
        return _per_element(op, 7, 1)
    return _per_element(op, 3 + _ERF, 0)


@rule("gelu backward")
def _gelu_backward(op: TracedOp) -> Cost:
    """G (Φ(x) + x φ(x)): erf, an exponential, two multiply-adds, two products."""
    tanh = op.arguments.get("approximate", "none") == "tanh"
    return _per_element(op, 12 if tanh else 6 + _ERF, 1)


@rule("glu backward")
def _glu_backward(op: TracedOp) -> Cost:
    """Count for a and b at once: sigmoid(b) (3), g s (1), g a s (1 - s) (3)."""
    pairs = op.result.distinct // 2
    return scalar(op.result, 7 * pairs, sfu=pairs)


@rule("cross")
def _cross(op: TracedOp) -> Cost:
    """Count a product and a multiply-add for each component."""
    return _per_element(op, 3, 0)


@rule("rank one")
def _addr(op: TracedOp) -> Cost:
    """Return a multiply-add per element: beta M + alpha a bᵀ."""
    return _per_element(op, 2, 0)
