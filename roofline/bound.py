"""The bound: the least time that a problem's work needs on a device.

Roofline model (Williams, Waterman and Patterson, "Roofline: an insightful visual performance model
for multicore architectures", CACM 52(4), 2009), with one roof per resource: every resource works
at its ceiling and all of them at once, so the time is that of the busiest one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from solkit.core import (
    Bound,
    BoundTimes,
    Ceiling,
    Contributor,
    Device,
    OpWork,
    Resource,
    Tolerance,
    Work,
)
from solkit.errors import InputError
from solkit.roofline.devices import with_clock
from solkit.roofline.hard_bound import hard_ms
from solkit.roofline.latency_floor import chain_floor_ms
from solkit.roofline.precision_routes import Route, Rule, contraction_dtype

PROTOCOLS = ("cold", "warm")
"""Places of the inputs at the start: in DRAM, or in L2 if they fit."""

_MEMORIES = ("dram", "last_level", "l2")
SCALAR_OPS = {"fp32": 2, "fp16": 4, "bf16": 4, "fp64": 2, "int32": 2, "sfu": 1}
"""Operations per instruction and thread: a multiply-add is two, and two halves are packed."""
_PACKED = ("fp16", "bf16")
_TELLING = 1.01  # issue slots are listed if they cost more than the busiest pipe


def bound(
    work: Work,
    device: Device,
    *,
    precision: str = "tolerance",
    tolerance: Tolerance | None = None,
    protocol: str = "cold",
) -> Bound:
    """Return the least time of `work` on `device`.

    Args:
        work: from `solkit.roofline.work`.
        device: from the catalogue or NVML.
        precision: one of `PRECISIONS`; see `solkit.roofline.precision_routes.Rule`.
        tolerance: how exact the result must be; ``None`` counts as tight.
        protocol: one of `PROTOCOLS`. ``warm`` charges all bytes to the first cache that holds
            inputs and results together, and none to DRAM.

    Raises:
        InputError: an unknown precision or protocol.
    """
    if protocol not in PROTOCOLS:
        raise InputError(f"unknown protocol {protocol!r}; choose one of: {', '.join(PROTOCOLS)}")
    rule = Rule(precision, tolerance)
    routes = rule.routes(work.operations, device)
    memory = _memory(work, device) if protocol == "warm" else "dram"
    amounts = amounts_by_ceiling({**work.operations, memory: work.dram_bytes}, routes, device)
    passes = passes_by_pipe(work.operations, routes)
    resources = _resources(amounts, passes, device.ceilings)
    resources = _explained(resources, work, routes, memory, device)
    roofline = _longest(resources)
    return Bound(
        time_ms=roofline,
        limiter=resources[0].name if resources else "none",
        resources=resources,
        flops_by_pipe={name: n for name, n in amounts.items() if name not in _MEMORIES},
        precision=rule.describe(routes),
        assumptions=(
            _start(protocol, memory),
            _AT_ONCE,
            *_too_large(work, device),
            *work.assumptions,
        ),
        at=BoundTimes(
            roofline_ms=roofline,
            hard_ms=min(roofline, hard_ms(work, device, tolerance, protocol)),
            datasheet_ms=_time_ms(amounts, passes, {**device.ceilings, **device.datasheet}),
            calibrated_ms=(
                _time_ms(amounts, passes, {**device.ceilings, **_calibrated(work, device)})
                if device.calibrated
                else None
            ),
            launch_floor_ms=None if device.launch_us is None else device.launch_us / 1e3,
            chain_floor_ms=_chain_ms(work, routes, device),
            strict_ms=_strict_ms(rule, work, memory, device, roofline),
        ),
        protocol=protocol,
        routes=rule.considered(work.operations, device),
    )


_AT_ONCE = "All resources work at once and at their ceilings."


def _too_large(work: Work, device: Device) -> tuple[str, ...]:
    if work.dram_bytes <= device.memory_bytes:
        return ()
    return (
        f"Inputs and results take {work.dram_bytes / 2**30:,.0f} GiB, more than the "
        f"{device.memory_bytes / 2**30:,.0f} GiB of {device.name}: this shape cannot run there.",
    )


_PLACES = {
    "l2": "L2, where results stay",
    "last_level": "the last-level cache, where results stay",
    "dram": "DRAM (no cache holds inputs and results)",
}


def _memory(work: Work, device: Device) -> str:
    """Return the first memory level that holds inputs and results together."""
    if work.dram_bytes <= device.l2_bytes:
        return "l2"
    return "last_level" if work.dram_bytes <= device.last_level_bytes else "dram"


def _start(protocol: str, memory: str) -> str:
    where = _PLACES[memory] if protocol == "warm" else "DRAM"
    return f"All intermediate results stay on the chip (perfect fusion); inputs start in {where}."


def at_observed_clock(at_rated_clock: Bound, device: Device, sm_clock_mhz: float) -> Bound:
    """Return the same bound with `at.observed_clock_ms` for the clock seen while timing."""
    slower = with_clock(device, sm_clock_mhz)
    time_ms = max(
        (_at_clock(r, device.ceilings, slower.ceilings) for r in at_rated_clock.resources),
        default=0.0,
    )
    return replace(at_rated_clock, at=replace(at_rated_clock.at, observed_clock_ms=time_ms))


def _at_clock(
    resource: Resource, before: Mapping[str, Ceiling], after: Mapping[str, Ceiling]
) -> float:
    if resource.name not in before:  # "tensor", the sum over dtypes, runs at the SM clock
        return resource.time_ms * before["fp32"].value / after["fp32"].value
    return resource.time_ms * before[resource.name].value / after[resource.name].value


# -------------------------------------------------------------------------------- resources


def _calibrated(work: Work, device: Device) -> Mapping[str, Ceiling]:
    """Return the calibrated ceilings, with DRAM's for this work's mix of reads and writes.

    The time of a byte is interpolated between reads alone, as many reads as writes (a copy) and
    writes alone: a DRAM loses time where it turns from reading to writing.
    """
    measured = device.calibrated
    if "dram.copy" not in measured or not work.dram_bytes:
        return measured
    writes = work.dram_write_bytes / work.dram_bytes
    times = [1 / measured[f"dram.{mix}"].value for mix in ("read", "copy", "write")]
    at = 2 * writes
    time = times[0] + (times[1] - times[0]) * at
    if at > 1:
        time = times[1] + (times[2] - times[1]) * (at - 1)
    return {**measured, "dram": replace(measured["dram"], value=1 / time)}


def amounts_by_ceiling(
    work: Mapping[str, Any], routes: Mapping[str, Route], device: Device
) -> dict[str, Any]:
    """Return the amount that each resource must process: integers, or sympy's expressions.

    Elementwise operations on halves run on the fp32 pipe if the GPU cannot pack them.
    """
    amounts: dict[str, Any] = Counter()
    for key, count in work.items():
        dtype = contraction_dtype(key)
        pipe = "fp32" if key in _PACKED and key not in device.ceilings else key
        amounts[routes[dtype].pipe if dtype else pipe] += count
    return {name: amount for name, amount in amounts.items() if amount}


def passes_by_pipe(operations: Mapping[str, int], routes: Mapping[str, Route]) -> dict[str, float]:
    """Return how often operations pass through each tensor pipe, on average over its kinds."""
    once: Counter[str] = Counter()
    all_passes: Counter[str] = Counter()
    for key, count in operations.items():
        if kind := contraction_dtype(key):
            once[routes[kind].pipe] += count
            all_passes[routes[kind].pipe] += count * routes[kind].passes
    return {pipe: all_passes[pipe] / count for pipe, count in once.items() if count}


def _resources(
    amounts: Mapping[str, int], passes: Mapping[str, float], ceilings: Mapping[str, Ceiling]
) -> tuple[Resource, ...]:
    resources = [
        _resource(name, amount, passes.get(name, 1), ceilings[name])
        for name, amount in amounts.items()
    ]
    tensor = [r for r in resources if r.name.startswith("tensor.")]
    if len(tensor) > 1:
        resources.append(_shared_tensor_cores(tensor))
    scalar_ms = max((r.time_ms for r in resources if r.name in SCALAR_OPS), default=0.0)
    if "issue" in ceilings:
        issue = _resource("issue", _instructions(amounts), 1, ceilings["issue"])
        if issue.time_ms > _TELLING * scalar_ms:  # else the pipe shows as much
            resources.append(issue)
    return tuple(sorted(resources, key=lambda r: -r.time_ms))


def _resource(name: str, amount: int, passes: float, ceiling: Ceiling) -> Resource:
    rate = ceiling.value / passes
    source = ceiling.source + (f", in {passes:.3g} passes" if passes > 1 else "")
    unit = ceiling.unit.removesuffix("/s")
    return Resource(name, amount, unit, rate, source, 1e3 * amount / rate)


def _instructions(amounts: Mapping[str, int]) -> int:
    """Count instructions of the scalar pipes, which share the schedulers' issue slots."""
    return sum(
        amounts.get(pipe, 0) // per_instruction for pipe, per_instruction in SCALAR_OPS.items()
    )


def _shared_tensor_cores(parts: list[Resource]) -> Resource:
    """Contractions of several dtypes take turns on the same tensor cores."""
    amount, time_ms = sum(r.amount for r in parts), sum(r.time_ms for r in parts)
    source = "all dtypes share the tensor cores: " + ", ".join(r.name for r in parts)
    return Resource("tensor", amount, "FLOP", 1e3 * amount / time_ms, source, time_ms)


def _longest(resources: tuple[Resource, ...]) -> float:
    return max((r.time_ms for r in resources), default=0.0)


def _time_ms(
    amounts: Mapping[str, int], passes: Mapping[str, float], ceilings: Mapping[str, Ceiling]
) -> float:
    return _longest(_resources(amounts, passes, ceilings))


def _strict_ms(
    rule: Rule, work: Work, memory: str, device: Device, roofline_ms: float
) -> float | None:
    """Return the roofline if every fp32 product took three tf32 passes; ``None`` if it is no other.

    It shows what a cheaper precision saves.
    """
    if rule.precision != "tolerance":
        return None
    routes = replace(rule, strict=True).routes(work.operations, device)
    amounts = amounts_by_ceiling({**work.operations, memory: work.dram_bytes}, routes, device)
    time_ms = _time_ms(amounts, passes_by_pipe(work.operations, routes), device.ceilings)
    return time_ms if time_ms > roofline_ms else None


def _chain_ms(work: Work, routes: Mapping[str, Route], device: Device) -> float | None:
    """Return the latency floor of the chain of steps; exchanges are known for NVIDIA's GPUs."""
    if work.chain is None or device.vendor != "NVIDIA":
        return None
    amounts = amounts_by_ceiling(work.chain.alone, routes, device)
    passes = passes_by_pipe(work.chain.alone, routes)
    return chain_floor_ms(work.chain, device, _time_ms(amounts, passes, device.ceilings))


# ----------------------------------------------------------------------------- contributors


def _explained(
    resources: tuple[Resource, ...],
    work: Work,
    routes: Mapping[str, Route],
    memory: str,
    device: Device,
) -> tuple[Resource, ...]:
    """Return the resources with the ops that cause each amount."""
    taken = [(op, _taken(op, routes, memory, device)) for op in work.ops]
    return tuple(replace(r, contributors=_contributors(r, taken)) for r in resources)


def _taken(op: OpWork, routes: Mapping[str, Route], memory: str, device: Device) -> dict[str, int]:
    """Return one op's amount of each resource."""
    moved = {memory: op.read_bytes + op.write_bytes}
    amounts = amounts_by_ceiling({**op.operations, **moved}, routes, device)
    tensor = sum(n for name, n in amounts.items() if name.startswith("tensor."))
    return {**amounts, "tensor": tensor, "issue": _instructions(amounts)}


def _contributors(
    resource: Resource, taken: list[tuple[OpWork, dict[str, int]]]
) -> tuple[Contributor, ...]:
    """Return the ops behind a resource; those of one name on one line are summed."""
    totals: Counter[tuple[str, str]] = Counter()
    counts: Counter[tuple[str, str]] = Counter()
    for op, amounts in taken:
        if amounts.get(resource.name):
            totals[op.op, op.line] += amounts[resource.name]
            counts[op.op, op.line] += 1
    return tuple(
        Contributor(name, amount, amount / resource.amount, line, counts[name, line])
        for (name, line), amount in totals.most_common()
    )
