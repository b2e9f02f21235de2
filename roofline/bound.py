"""The bound: the least time that a problem's work needs on a device.

Roofline model (Williams, Waterman and Patterson, "Roofline: an insightful visual performance model
for multicore architectures", CACM 52(4), 2009), with one roof per resource: every resource works
at its ceiling and all of them at once, so the time is that of the busiest one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from solkit.core import Bound, BoundTimes, Ceiling, Device, Resource, Tolerance, Work
from solkit.errors import InputError
from solkit.roofline.devices import with_clock

__all__ = ["PRECISIONS", "at_observed_clock", "bound"]

PRECISIONS = ("tolerance", "declared", "tf32", "bf16", "fp8")
"""How contractions may be computed: as the tolerance allows, as declared, or in that dtype."""

_TF32_TOLERANCE = 1e-3  # tf32 keeps 10 mantissa bits: a product is off by at most 2^-10, about 1e-3
_FP8_TOLERANCE = 2.0**-4  # e4m3 keeps 3 mantissa bits: a rounding error of at most 2^-4

# What holds the values of a dtype exactly (fp8 in fp16, int4 in int8), where its own pipe lacks.
_WIDER = {"fp4": "fp8", "fp8": "fp16", "int4": "int8", "int8": "fp16"}
_FORCED = {"tf32": ("fp32",), "bf16": ("fp32",), "fp8": ("fp32", "bf16", "fp16")}


def bound(
    work: Work,
    device: Device,
    *,
    precision: str = "tolerance",
    tolerance: Tolerance | None = None,
) -> Bound:
    """The least time of `work` on `device`.

    Args:
        work: from `solkit.roofline.work`.
        device: from the catalogue or NVML.
        precision: one of `PRECISIONS`. ``tolerance`` lets an fp32 contraction count as tf32 where
            the tolerance is 1e-3 or looser, else as three tf32 passes or fp32, whichever is
            faster (Ootomo and Yokota, IJHPCA 36(4), 2022, recover fp32 accuracy so).
        tolerance: how exact the result must be; ``None`` counts as tight.

    Raises:
        InputError: an unknown precision.
    """
    if precision not in PRECISIONS:
        raise InputError(f"unknown precision {precision!r}; choose one of: {', '.join(PRECISIONS)}")
    rule = _Rule(precision, tolerance)
    routes = _routes(work, device, rule)
    amounts = _amounts(work, routes)
    resources = _resources(amounts, routes, device.ceilings)
    roofline = _longest(resources)
    passes = _passes(routes)
    return Bound(
        time_ms=roofline,
        limiter=resources[0].name if resources else "none",
        resources=resources,
        flops_by_pipe={name: n for name, n in amounts.items() if name != "dram"},
        precision=rule.describe(routes),
        assumptions=(*_ASSUMPTIONS, *work.assumptions),
        at=BoundTimes(
            roofline_ms=roofline,
            hard_ms=min(roofline, _hard_ms(work, device, tolerance)),
            datasheet_ms=_time_ms(amounts, passes, {**device.ceilings, **device.datasheet}),
            calibrated_ms=(
                _time_ms(amounts, passes, {**device.ceilings, **device.calibrated})
                if device.calibrated
                else None
            ),
        ),
    )


_ASSUMPTIONS = (
    "All intermediate results stay on the chip (perfect fusion); inputs start in DRAM.",
    "All resources work at once and at their ceilings.",
)


def at_observed_clock(found: Bound, device: Device, sm_clock_mhz: float) -> Bound:
    """The same bound with `at.observed_clock_ms` filled in for the clock seen while timing."""
    slower = with_clock(device, sm_clock_mhz)
    time_ms = max(
        (_at_clock(r, device.ceilings, slower.ceilings) for r in found.resources), default=0.0
    )
    return replace(found, at=replace(found.at, observed_clock_ms=time_ms))


def _at_clock(
    resource: Resource, before: Mapping[str, Ceiling], after: Mapping[str, Ceiling]
) -> float:
    if resource.name not in before:  # "tensor", the sum over dtypes: all of it runs at the SM clock
        return resource.time_ms * before["fp32"].value / after["fp32"].value
    return resource.time_ms * before[resource.name].value / after[resource.name].value


# -------------------------------------------------------------------------------- precision


@dataclass(frozen=True)
class _Route:
    """Where the contractions of one dtype run: a pipe, and how many passes they take."""

    pipe: str
    passes: int


@dataclass(frozen=True)
class _Rule:
    """A precision rule."""

    precision: str
    tolerance: Tolerance | None

    def route(self, dtype: str, device: Device) -> _Route:
        """The fastest way that the rule allows for contractions of `dtype`."""
        if dtype in _FORCED.get(self.precision, ()):
            return _fallback(self.precision, device)
        if dtype != "fp32" or self.precision != "tolerance":
            return _native(dtype, device)
        loose = self.tolerance is not None and self.tolerance.rtol >= _TF32_TOLERANCE
        passes = 1 if loose else 3
        tf32, fp32 = device.ceilings.get("tensor.tf32"), device.ceilings["fp32"]
        if tf32 is None or tf32.value / passes < fp32.value:
            return _Route("fp32", 1)
        return _Route("tensor.tf32", passes)

    def describe(self, routes: Mapping[str, _Route]) -> str:
        """The rule and what it chose, in words."""
        chosen = [
            f"{dtype} as {route.pipe.removeprefix('tensor.')}"
            + (f" in {route.passes} passes" if route.passes > 1 else "")
            for dtype, route in routes.items()
            if route.pipe.removeprefix("tensor.") != dtype or route.passes > 1
        ]
        return f"{self.precision}: {', '.join(chosen)}" if chosen else self.precision


def _native(dtype: str, device: Device) -> _Route:
    """A dtype's own tensor pipe, else a wider one, else the scalar pipe."""
    if dtype == "fp32":
        return _Route("fp32", 1)
    return _fallback(dtype, device)


def _fallback(dtype: str, device: Device) -> _Route:
    wanted: str | None = dtype
    while wanted is not None:
        if f"tensor.{wanted}" in device.ceilings:
            return _Route(f"tensor.{wanted}", 1)
        wanted = _WIDER.get(wanted)
    return _Route("fp64" if dtype == "fp64" else "fp32", 1)


def _routes(work: Work, device: Device, rule: _Rule) -> dict[str, _Route]:
    dtypes = [k.removeprefix("contraction.") for k in work.operations if k.startswith("contr")]
    return {dtype: rule.route(dtype, device) for dtype in dtypes}


# -------------------------------------------------------------------------------- resources


def _amounts(work: Work, routes: Mapping[str, _Route]) -> dict[str, int]:
    """What each resource must take, by ceiling."""
    amounts: Counter[str] = Counter({"dram": work.dram_bytes})
    for key, count in work.operations.items():
        dtype = key.removeprefix("contraction.")
        amounts[key if dtype == key else routes[dtype].pipe] += count
    return {name: amount for name, amount in amounts.items() if amount}


def _passes(routes: Mapping[str, _Route]) -> dict[str, int]:
    return {route.pipe: route.passes for route in routes.values()}


def _resources(
    amounts: Mapping[str, int], routes: Mapping[str, _Route], ceilings: Mapping[str, Ceiling]
) -> tuple[Resource, ...]:
    passes = _passes(routes)
    found = [
        _resource(name, amount, passes.get(name, 1), ceilings[name])
        for name, amount in amounts.items()
    ]
    tensor = [r for r in found if r.name.startswith("tensor.")]
    if len(tensor) > 1:
        found.append(_shared_tensor_cores(tensor))
    return tuple(sorted(found, key=lambda r: -r.time_ms))


def _resource(name: str, amount: int, passes: int, ceiling: Ceiling) -> Resource:
    rate = ceiling.value / passes
    source = ceiling.source + (f"; {passes} passes" if passes > 1 else "")
    unit = ceiling.unit.removesuffix("/s")
    return Resource(name, amount, unit, rate, source, 1e3 * amount / rate)


def _shared_tensor_cores(parts: list[Resource]) -> Resource:
    """Contractions of several dtypes take turns on the same tensor cores."""
    amount, time_ms = sum(r.amount for r in parts), sum(r.time_ms for r in parts)
    source = "all dtypes share the tensor cores: " + ", ".join(r.name for r in parts)
    return Resource("tensor", amount, "FLOP", 1e3 * amount / time_ms, source, time_ms)


def _longest(resources: tuple[Resource, ...]) -> float:
    return max((r.time_ms for r in resources), default=0.0)


def _time_ms(
    amounts: Mapping[str, int], passes: Mapping[str, int], ceilings: Mapping[str, Ceiling]
) -> float:
    routes = {name: _Route(name, count) for name, count in passes.items()}
    return _longest(_resources(amounts, routes, ceilings))


# ------------------------------------------------------------------------------- hard bound


def _hard_ms(work: Work, device: Device, tolerance: Tolerance | None) -> float:
    """What no correct implementation can beat on this device.

    Compulsory bytes, with output up to the size of L2 granted (a kernel is over when its last
    store is in L2, not in DRAM), the path from the SMs to L2, and contractions that no known
    algorithm avoids, in one pass at the fastest rate that could hold the precision.
    """
    dram, l2 = device.ceilings["dram"].value, device.ceilings["l2"].value
    spilled = max(0, work.hard_write_bytes - device.l2_bytes)
    times = [
        (work.hard_read_bytes + spilled) / dram,
        (work.hard_read_bytes + work.hard_write_bytes) / l2,
        sum(n / _fastest(key, device, tolerance) for key, n in work.hard_operations.items()),
    ]
    return 1e3 * max(times)


def _fastest(key: str, device: Device, tolerance: Tolerance | None) -> float:
    """The highest rate of any pipe that could compute a contraction well enough.

    Wide floats can be split into 16-bit parts, so one 16-bit pass is the least for them; 8-bit
    floats alone can hold a result only where the tolerance admits their rounding error.
    """
    dtype = key.removeprefix("contraction.")
    eight = ("fp8", "int8", "fp4", "int4")
    coarse = tolerance is not None and max(tolerance.rtol, tolerance.atol) >= _FP8_TOLERANCE
    narrow = dtype in eight or coarse
    return max(
        ceiling.value
        for name, ceiling in device.ceilings.items()
        if name in ("fp32", "fp64")
        or (name.startswith("tensor.") and (narrow or not name[7:].startswith(eight)))
    )
