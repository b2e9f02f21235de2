"""Floats that integers are computed from, such as the root that finds a triangle's row.

A float is known if it is computed from integers and constants. It has the precision of its type, so
a root is rounded as on the GPU. Loaded floats are unknown.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from solkit.adapters.triton_ir import Operation

Array = np.ndarray[Any, np.dtype[Any]]

_TYPES: Mapping[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def _to_integer(value: Array) -> Array:
    return np.nan_to_num(np.trunc(value), posinf=2.0**62, neginf=-(2.0**62)).astype(np.int64)


FROM_FLOATS = ("arith.fptosi", "arith.fptoui")
"""Operations that make integers of floats."""

FLOATS: Mapping[str, Callable[..., Array]] = {
    "arith.sitofp": lambda a: a,
    "arith.uitofp": lambda a: a,
    **dict.fromkeys(FROM_FLOATS, _to_integer),
    "arith.extf": lambda a: a,
    "arith.truncf": lambda a: a,
    "tt.fp_to_fp": lambda a: a,
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.negf": np.negative,
    "arith.remf": np.fmod,
    "arith.maximumf": np.maximum,
    "arith.maxnumf": np.fmax,
    "arith.minimumf": np.minimum,
    "arith.minnumf": np.fmin,
    "tt.precise_sqrt": np.sqrt,
    "tt.precise_divf": np.divide,
    "tt.approx_divf": np.divide,  # Triton 3.9
    "tt.clampf": np.clip,
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda a: 1 / np.sqrt(a),
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.absf": np.abs,
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.log": np.log,
    "math.log2": np.log2,
    "math.fma": lambda a, b, c: a * b + c,
}
"""By operation, on arrays of the operands' types."""

_COMPARISONS: Mapping[str, Callable[[Array, Array], Array]] = {
    **{"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal},
    **{"gt": np.greater, "ge": np.greater_equal},
}


def on_floats(operation: Operation) -> Callable[..., Array] | None:
    """Return a function that computes an operation on floats; ``None`` for others."""
    if operation.name == "arith.cmpf":
        predicate = operation.text.split(",")[0].strip()
        return _COMPARISONS.get(predicate[-2:])
    compute = FLOATS.get(operation.name)
    if compute is None:
        return None
    kind = _TYPES.get(operation.result_type.element)
    if operation.name in FROM_FLOATS:
        return compute
    return None if kind is None else lambda *values: compute(*values).astype(kind)


def float_constant(operation: Operation) -> Array | None:
    """``arith.constant`` of floats that are all equal; ``None`` for others."""
    kind = operation.result_type
    dtype = _TYPES.get(kind.element)
    match = re.match(r"(?:dense<)?([-+]?\d+\.\d+(?:[eE][-+]?\d+)?|0x[0-9A-Fa-f]+)", operation.text)
    if dtype is None or match is None:
        return None
    text = match.group(1)
    value = _float_of_bits(text, kind.element) if text.startswith("0x") else float(text)
    return np.full((1,) * (len(kind.shape) + 1), value, dtype)


def _float_of_bits(text: str, element: str) -> float:
    """Infinities and the like, which the IR writes as their bits."""
    form = {"f16": "<e", "f32": "<f", "f64": "<d"}[element]
    raw = int(text, 16).to_bytes(struct.calcsize(form), "little")
    return float(struct.unpack(form, raw)[0])
