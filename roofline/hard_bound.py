"""The hard bound, which no correct implementation can beat, and why the roofline is above it.

Notation::

    t_hard = max(t_dram, t_l2, t_contractions)
    t_dram = (inputs that are surely read + outputs beyond the largest cache) / DRAM rate
    t_l2   = (inputs that are surely read + outputs) / SM-to-L2 rate, where that rate is proven

A kernel is over when its last store is in a cache, not in DRAM, so output up to the size of the
largest cache is granted. Under a warm protocol inputs may lie there at the start, so as much of
them is granted too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from solkit.core import Bound, Device, Needed, OpWork, Resource, Tolerance, Work
from solkit.roofline.names import short_name
from solkit.roofline.precision_routes import contraction_dtype

SHORTCUTS = {
    "": "what becomes of its output may leave less to compute.",
    "attention": "its mask, equal operands, or what becomes of its result may leave less to "
    "compute.",
    "beyond": "what {about} makes of its output is not followed, so none of it is proven to be "
    "needed.",
    "chained": "it is one of two products in a row with {about}, and (A B) C may be A (B C).",
    "operand": "{about} makes an operand that may hold zeros or repeat itself, which leaves less "
    "to multiply.",
    "peaked": "where few of its weights are large, most of its second product may be left out.",
    "saturated": "the function behind it is flat beyond its limits, so where most of the product "
    "lies there, a coarser one tells which part has to be exact.",
    "part": "a product of a matrix with its own transpose is symmetric, so half of it will do.",
    "selected": "{about} may use only some elements of its output, so the others need not be "
    "computed.",
    "summed": "{about} sums its output, and the sum of a product needs a matrix-vector product "
    "alone.",
    "transform": "Winograd and FFT forms of a convolution multiply less.",
    "uncounted": "the hard bound counts no product of this kind.",
    "weights": "its operands are weights alone, so it can be computed before the call.",
}
"""Reasons why a contraction may do with less, by `OpWork.shortcut`."""

_FP8_TOLERANCE = 2.0**-4  # e4m3 keeps 3 mantissa bits: a rounding error of at most 2^-4
_AVERAGED_TOLERANCE = 1e-2
"""The least for which the mean of many roundings to 3 bits of the mantissa is small enough."""
_MATTERS = 0.01  # of the contractions, or of the bytes: a smaller part explains nothing
_SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def hard_ms(work: Work, device: Device, tolerance: Tolerance | None, protocol: str) -> float:
    """Return the time in ms that no correct implementation can beat on this device.

    Compulsory bytes, and contractions that no known algorithm avoids, in one pass at the fastest
    rate that could hold the precision.

    Args:
        work: from `solkit.roofline.work`.
        device: its L2 and its ceilings.
        tolerance: how exact the result must be; ``None`` counts as tight.
        protocol: ``"cold"`` or ``"warm"``.
    """
    return max(hard_times_ms(work, device, tolerance, protocol).values())


def hard_times_ms(
    work: Work, device: Device, tolerance: Tolerance | None, protocol: str
) -> dict[str, float]:
    """Return the time of each part of the hard bound: ``"dram"``, ``"l2"``, ``"contractions"``.

    Arguments as for `hard_ms`.
    """
    dram, l2 = device.ceilings["dram"].value, device.ceilings["l2"].value
    resident = device.cached_bytes if protocol == "warm" else 0
    fetched = max(0, work.hard_read_bytes - resident)
    spilled = max(0, work.hard_write_bytes - device.cached_bytes)
    proven = "l2" not in device.unproven
    moved = work.hard_read_bytes + work.hard_write_bytes
    return {
        "dram": 1e3 * (fetched + spilled) / dram,
        "l2": 1e3 * moved / l2 if proven else 0.0,
        "contractions": 1e3
        * sum(
            n / _fastest_accepted_rate(key, device, tolerance)
            for key, n in work.hard_operations.items()
        ),
    }


def where_needed(work: Work, needed: Needed) -> Work:
    """Return the same work, its hard part no more than what was measured on the inputs at hand.

    A traced contraction has the least share of needed products that any measured contraction with
    as many operations has; of all measured ones where none has as many.

    Args:
        work: from `solkit.roofline.work`.
        needed: from `solkit.measure.sensitivity`.
    """
    ops = tuple(
        replace(op, hard_flops=int(op.hard_flops * _needed_share(op, needed))) for op in work.ops
    )
    hard: Counter[str] = Counter()
    for op in ops:
        hard.update(op.hard_by_kind)
    return replace(
        work,
        ops=ops,
        hard_operations=dict(hard),
        hard_read_bytes=min(work.hard_read_bytes, needed.read_bytes),
        hard_write_bytes=min(work.hard_write_bytes, needed.write_bytes),
    )


def _needed_share(op: OpWork, needed: Needed) -> float:
    if not op.hard_flops:
        return 0.0
    alike = [product for product in needed.products if product.flops == _contracted(op)]
    seen = [product for product in alike or needed.products if product.flops]
    return min((product.needed / product.flops for product in seen), default=0.0)


def _fastest_accepted_rate(key: str, device: Device, tolerance: Tolerance | None) -> float:
    """Return the highest rate of any pipe that could compute a contraction well enough.

    Wide floats can be split into 16-bit parts, so one 16-bit pass is the least for them; 8-bit
    floats alone can hold a result only where the tolerance admits their rounding error, or where
    all terms have one sign and the errors average out.
    """
    eight = ("fp8", "int8", "fp4", "int4")
    coarse = tolerance is not None and max(tolerance.rtol, tolerance.atol) >= _FP8_TOLERANCE
    averaged = key.endswith("+") and tolerance is not None and tolerance.rtol >= _AVERAGED_TOLERANCE
    narrow = contraction_dtype(key).rstrip("+") in eight or coarse or averaged
    return max(
        ceiling.value
        for name, ceiling in device.ceilings.items()
        if name in ("fp32", "fp64")
        or (name.startswith("tensor.") and (narrow or not name[7:].startswith(eight)))
    )


# ---------------------------------------------------------------------------------- reasons


def slack_reasons(
    work: Work, bound: Bound, device: Device, time_ms: float | None = None
) -> tuple[str, ...]:
    """List reasons why a correct implementation may beat the roofline, each a sentence.

    Args:
        work: of `bound`.
        bound: of `solkit.roofline.bound.bound`.
        device: of `bound`.
        time_ms: a measured time; only resources that need more are explained. By default the hard
            bound.
    """
    over_ms = bound.at.hard_ms if time_ms is None else time_ms
    over = [resource for resource in bound.resources if resource.time_ms > over_ms]
    if over and work.guesses:
        return (f"Values were guessed, so nothing is certain: {work.guesses[0]}",)
    return tuple(
        dict.fromkeys(reason for r in over for reason in _resource_reasons(r, work, bound, device))
    )


def _resource_reasons(
    resource: Resource, work: Work, bound: Bound, device: Device
) -> Iterator[str]:
    if resource.name == "dram":
        yield from _about_bytes(work, bound, device)
    elif resource.name == "sfu":
        yield (
            "Special functions can be computed on the FMA pipes as well (an exponential as a "
            "polynomial), so the hard bound counts none of them."
        )
    elif resource.name in ("int32", "fp16", "bf16", "issue"):
        yield _ELEMENTWISE
    elif resource.name.startswith("tensor"):
        yield from _about_contractions(resource, work)
    elif resource.name in ("fp32", "fp64"):
        if any(_contracted(op) for op in work.ops):
            yield from _about_contractions(resource, work)
        yield _ELEMENTWISE


_ELEMENTWISE = (
    "Elementwise arithmetic can be rearranged (folded into a product, packed in 16 bits), so the "
    "hard bound counts none of it."
)


def _about_bytes(work: Work, bound: Bound, device: Device) -> Iterator[str]:
    kept = min(work.hard_write_bytes, device.cached_bytes)
    if kept > _MATTERS * work.dram_bytes:
        cache = "the last-level cache" if device.last_level_bytes else "L2"
        yield (
            f"{_format_size(kept)} of the output may still lie in {cache} "
            f"({_format_size(device.cached_bytes)}) when the "
            "kernel ends: the roofline charges them to DRAM, the hard bound does not."
        )
    if bound.protocol == "warm":
        yield "Under a warm protocol a part of the inputs may lie in L2 from the start."
    unsure = work.dram_bytes - work.hard_read_bytes - work.hard_write_bytes
    if unsure > _MATTERS * work.dram_bytes:
        yield (
            f"{_format_size(unsure)} of the traffic may not be needed: a mask, a selection, a "
            "product with a constant or indices that are not known may leave parts of it out."
        )


def _about_contractions(resource: Resource, work: Work) -> Iterator[str]:
    total = sum(_contracted(op) for op in work.ops)
    soft = [op for op in work.ops if _contracted(op) - op.hard_flops > _MATTERS * total]
    for name, shortcut in dict.fromkeys((op.op, op.shortcut) for op in soft):
        kind, _, about = shortcut.partition(":")
        yield f"{name}: {SHORTCUTS[kind].format(about=short_name(about) or 'an op')}"
    if work.hard_operations:
        yield (
            f"The precision may allow a faster pipe than the {resource.ceiling / 1e12:.4g} "
            f"T{resource.unit}/s of {resource.name}: the hard bound takes one pass on the fastest."
        )


def _contracted(op: OpWork) -> int:
    return sum(n for key, n in op.operations.items() if contraction_dtype(key))


def _format_size(count: int) -> str:
    size, unit = next((s, u) for s, u in _SIZES if count >= s or u == "B")
    return f"{count / size:.3g} {unit}"
