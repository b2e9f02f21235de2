"""Triton's types and layouts for the tiles of cuTile's IR."""

from __future__ import annotations

import math
import re
from typing import Any

_VECTOR_BYTES = 16
"""Most that one instruction of a thread moves (PTX ISA, ld: .v4.b32)."""
_ELEMENTS = {
    **{"float16": "f16", "bfloat16": "bf16", "float32": "f32", "tfloat32": "f32"},
    **{"float64": "f64", "bool_": "i1", "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2"},
    **{"float8_e8m0fnu": "f8E8M0FNU", "float4_e2m1fn": "f4E2M1FN"},
    **{f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "i1": 8, "f4E2M1FN": 4}


def tile_bytes(kind: Any) -> int:
    """Return the bytes of a tile."""
    elements: int = math.prod(kind.shape)
    return elements * element_bits(element_of(kind)) // 8


def element_of(kind: Any) -> str:
    """Return Triton's name of a tile's element."""
    text = str(kind.dtype)
    pointer = re.match(r"pointer\[(\w+)", text)
    if pointer:
        return f"!tt.ptr<{_ELEMENTS.get(pointer[1], 'i8')}>"
    return _ELEMENTS.get(text, "f8E4M3FN" if text.startswith("float8") else "i32")


def element_bits(element: str) -> int:
    """Return the bits of an element, by Triton's name; of a pointer, those of the address."""
    if element.startswith("!tt.ptr"):
        return 64
    return _BITS.get(element) or (int(element[1:]) if element[0] == "i" else 8)


def pointee_bits(element: str) -> int:
    """Return the bits of what a pointer points to, by the name of its type."""
    return element_bits(element.removeprefix("!tt.ptr<").removesuffix(">"))


def is_float(kind: Any) -> bool:
    """Tell whether a tile's elements are floats."""
    return str(kind.dtype).startswith(("float", "bfloat", "tfloat"))


def is_unsigned(kind: Any) -> bool:
    """Tell whether a tile's elements are unsigned integers."""
    return str(kind.dtype).startswith("uint")


def conversion_between(old: Any, new: Any) -> str:
    """Return the operation that converts a tile's elements to those of another."""
    bits = element_bits(element_of(old)), element_bits(element_of(new))
    if is_float(old) and is_float(new):
        return "arith.truncf" if bits[1] < bits[0] else "arith.extf"
    if is_float(old):
        return "arith.fptosi"
    if is_float(new):
        return "arith.sitofp"
    if bits[1] < bits[0] or element_of(new) == "i1":
        return "arith.trunci"
    is_plain = is_unsigned(old) or element_of(old) == "i1"
    return "arith.extui" if is_plain else "arith.extsi"


def scaled_format(kind: Any) -> str:
    """Return Triton's name of a scaled product's operand."""
    text = str(kind.dtype)
    return "e2m1" if "e2m1" in text else "e5m2" if "e5m2" in text else "e4m3"


def shared_type(kind: Any) -> str:
    """Return the type of a tile in shared memory, as operands of warp groups are."""
    sizes = "x".join(map(str, kind.shape))
    return (
        f"!ttg.memdesc<{sizes}x{element_of(kind)}, #ttg.nvmma_shared<{{swizzlingByteWidth = 128}}>>"
    )


def blocked_layout(shape: tuple[int, ...], bits: int, warps: int, fast: int) -> str:
    """Return a layout: threads side by side along memory, each with up to 16 bytes."""
    order = [fast, *(d for d in reversed(range(len(shape))) if d != fast)]
    vector = max(min(_VECTOR_BYTES * 8 // bits, shape[fast], math.prod(shape) // (32 * warps)), 1)
    sizes = [vector if d == fast else 1 for d in range(len(shape))]
    lanes, groups = [1] * len(shape), [1] * len(shape)
    for threads, count in ((lanes, 32), (groups, warps)):
        for d in order:
            taken = max(min(count, shape[d] // (sizes[d] * lanes[d] * groups[d])), 1)
            threads[d] *= taken
            count //= taken
        threads[order[-1]] *= count
    listed = ", ".join(
        f"{name} = [{', '.join(map(str, values))}]"
        for name, values in (
            ("sizePerThread", sizes),
            ("threadsPerWarp", lanes),
            ("warpsPerCTA", groups),
            ("order", order),
        )
    )
    return f"#ttg.blocked<{{{listed}}}>"
