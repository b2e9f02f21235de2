"""Features of one candidate's analysed launches: what takes a compiler to know.

The rest of the features, which need none, are in `solkit.surrogate.features`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from solkit.core import Access, Device, KernelAnalysis

if TYPE_CHECKING:
    from solkit.surrogate.features import Problem

Features = dict[str, float]
"""Values of one candidate by name; what is unknown is missing."""

SMALL = 2.0**-20
"""Stands for 0 under a logarithm."""

_KINDS = (
    *("fp32", "fp16", "int32", "sfu", "convert", "move", "tensor", "warp", "branch", "barrier"),
    *("global_load", "global_store", "global_atomic", "async_copy", "tma", "shared_load"),
    *("shared_store", "shared_atomic", "local_load", "local_store"),
)
"""Kinds among `solkit.analysis.common.instructions.KINDS`."""
_TERMS = (
    *("dram", "l2", "l1", "shared", "tensor", "fp32", "fp64", "sfu", "int32", "issue"),
    *("latency", "dispatch", "launch", "atomics"),
)


def bounded_log2(value: float) -> float:
    """Return the base-2 logarithm, bounded below."""
    return math.log2(max(value, SMALL))


def compiled_features(
    problem: Problem, device: Device, kernels: Sequence[KernelAnalysis], main: KernelAnalysis | None
) -> Features:
    """Return features of the groups model, machine and requests.

    Args:
        problem: that the candidate solves.
        device: its specification.
        kernels: the candidate's launches, analysed.
        main: the one that takes longest; ``None`` if all are a library's.
    """
    features = _model_features(problem, kernels)
    if main is not None:
        features |= _machine_features(device, main) | _request_features(problem, kernels, main)
    return features


def _model_features(problem: Problem, kernels: Sequence[KernelAnalysis]) -> Features:
    total_ms = modelled_ms(kernels)
    if total_ms is None:
        return {}
    terms: defaultdict[str, float] = defaultdict(float)
    for kernel in kernels:
        assert kernel.model is not None
        for term in kernel.model.terms:
            terms[term.name.partition(".")[0]] += term.time_ms * kernel.launch.count
    shares = {
        f"model.{name}": bounded_log2(terms[name] / total_ms) for name in _TERMS if name in terms
    }
    ranked = sorted(terms.values(), reverse=True)
    return shares | {
        "model.gap": bounded_log2(total_ms / problem.sol_ms),
        "model.time_us": bounded_log2(total_ms * 1e3),
        "model.second": bounded_log2(ranked[1] / ranked[0]) if len(ranked) > 1 else bounded_log2(0),
        "model.sum": bounded_log2(sum(ranked) / total_ms),
    }


def modelled_ms(kernels: Sequence[KernelAnalysis]) -> float | None:
    """Return the modelled time of a call; ``None`` if a launch has none."""
    if not kernels or any(kernel.model is None for kernel in kernels):
        return None
    return sum(k.model.time_ms * k.launch.count for k in kernels if k.model is not None)


# ----------------------------------------------------------------------------- facts of a launch


def _machine_features(device: Device, main: KernelAnalysis) -> Features:
    facts = main.facts
    features: Features = {}
    if facts.registers is not None:
        features["machine.registers"] = float(facts.registers)
        features["machine.spills"] = bounded_log2(facts.spills or 0)
    if facts.shared_bytes is not None:
        features["machine.shared"] = facts.shared_bytes / device.limits.shared_bytes
    if main.occupancy is not None:
        features["machine.occupancy"] = main.occupancy.fraction
        features["machine.blocks_per_sm"] = float(main.occupancy.blocks_per_sm)
        features["machine.waves"] = bounded_log2(main.occupancy.waves)
        features["machine.tail"] = main.occupancy.tail_efficiency
    mix = facts.instructions
    if mix is not None and mix.total:
        in_loops = sum(count.count for count in mix.counts if count.depth)
        features["machine.instructions"] = bounded_log2(mix.total)
        features["machine.in_loops"] = in_loops / mix.total
        features["machine.loops"] = float(mix.loops)
        for kind in _KINDS:
            features[f"machine.{kind}"] = mix.of(kind) / mix.total
        predicated = sum(count.predicated for count in mix.counts)
        features["machine.predicated"] = predicated / mix.total
    return features


def _request_features(
    problem: Problem, kernels: Sequence[KernelAnalysis], main: KernelAnalysis
) -> Features:
    requests = main.facts.requests
    if requests is None:
        return {}
    launch = main.launch
    blocks = math.prod(launch.grid)
    features = {
        "requests.steps": bounded_log2(requests.steps),
        "requests.imbalance": bounded_log2(requests.imbalance),
        "requests.unevenness": bounded_log2(requests.unevenness),
        "requests.iterations": bounded_log2(requests.iterations),
        "requests.chain_cycles": bounded_log2(requests.chain_cycles),
        "requests.barriers": bounded_log2(requests.barriers),
        "requests.instructions": bounded_log2(requests.instructions),
        "requests.guesses": float(len(requests.guesses)),
    }
    shared = sum(access.wavefronts for access in requests.shared)
    least = sum(access.least_wavefronts for access in requests.shared)
    if least:
        features["requests.bank_conflicts"] = bounded_log2(shared / least)
        features["requests.shared_per_block"] = bounded_log2(shared / blocks)
    for kind in ("load", "store", "atomic"):
        features |= _access_features(
            kind, [a for a in requests.accesses if a.kind == kind], launch.num_warps * blocks
        )
    compulsory = problem.read_bytes + problem.write_bytes
    l2_bytes = sum(_l2_bytes_of_call(kernel) for kernel in kernels)
    dram_bytes = sum(_dram_bytes_of_call(kernel) for kernel in kernels)
    if compulsory:
        features["requests.l2_traffic"] = bounded_log2(l2_bytes / compulsory)
        features["requests.dram_traffic"] = bounded_log2(dram_bytes / compulsory)
    for pipe, amount in requests.operations.items():
        needed = problem.operations.get(pipe, 0)
        if needed:
            kind = pipe.partition(".")[0]
            features[f"requests.{kind}_work"] = bounded_log2(amount / needed)
    return features


def _access_features(kind: str, accesses: Sequence[Access], warps: int) -> Features:
    moved = sum(access.sector_bytes for access in accesses)
    if not moved:
        return {}
    requested = sum(access.requested_bytes for access in accesses)
    requests = sum(access.requests for access in accesses)
    unique = sum(access.unique_bytes for access in accesses)
    wide = sum(access.vector_bytes * access.sectors for access in accesses)
    paths = {
        path: sum(a.sector_bytes for a in accesses if a.path == path) for path in ("async", "tma")
    }
    return {
        f"requests.{kind}_count": float(len(accesses)),
        f"requests.{kind}_efficiency": bounded_log2(requested / moved),
        f"requests.{kind}_reuse": bounded_log2(moved / unique) if unique else 0.0,
        f"requests.{kind}_per_warp": bounded_log2(requests / warps),
        f"requests.{kind}_width_bytes": wide * 32 / moved,
        f"requests.{kind}_async": paths["async"] / moved,
        f"requests.{kind}_tma": paths["tma"] / moved,
    }


def _l2_bytes_of_call(kernel: KernelAnalysis) -> float:
    requests = kernel.facts.requests
    call_bytes = requests.l2_read_bytes + requests.l2_write_bytes if requests else 0
    return float(call_bytes * kernel.launch.count)


def _dram_bytes_of_call(kernel: KernelAnalysis) -> float:
    demand = kernel.demand
    call_bytes = demand.dram_read_bytes + demand.dram_write_bytes if demand else 0
    return float(call_bytes * kernel.launch.count)
