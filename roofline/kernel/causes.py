"""Causes of large factors of the gap, named only if the evidence shows them.

A cause is a name with figures; `solkit.report.advice` says what to do about each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from solkit.core import Cause
from solkit.roofline.kernel import library_causes, traffic_causes
from solkit.roofline.kernel.launch_view import LaunchView
from solkit.roofline.kernel.model import prefetched_steps, resident, spills_share
from solkit.roofline.kernel.naming import ProblemNeeds, describe_cause, format_count
from solkit.roofline.kernel.traffic_causes import (
    between_launches,
    contended,
    explain_spills,
    in_a_launch,
    narrowest,
)

CAUSES = (
    *traffic_causes.CAUSES,
    *library_causes.CAUSES,
    *("arithmetic instructions", "branches", "conversions", "dispatch", "doubles", "few blocks"),
    *("index arithmetic", "launch", "launches", "little under way", "one trip at a time"),
    *("part-filled wave", "products alone", "products beside L2", "scalar product"),
    *("uneven blocks", "unneeded work", "waits for loads", "warp products", "wide product"),
)
"""The names of causes."""

MATTERS = 1.05
"""No cause is sought for smaller factors."""

_WORK_MATTERS = 1.2  # below, partial tiles and online rescaling
_TWICE = 2.0  # what the problem needs
_TAKES_TIME = 0.1  # of the time of the longest resource, from which operations are a burden: a box
# filter that adds each sum anew takes 0.12 of its own loads (tests/roofline/defects)
_REUSE_MATTERS = 1.15  # below, no kernel reuses more
_FEW_BLOCKS = 0.75  # of the SMs
_OCCUPANCY_MATTERS = 1.15  # below, any occupancy may be as good as possible
_PRODUCTS_MATTER = 1.3  # the same beside matrix products
_WORD = 4  # bytes of a lane's register
_MANY_REQUESTS = 8  # of a warp at one load
_FULL = 0.9  # of an SM's warps
_LEADS = 0.7  # of the time of the longest resource
_MOST = 0.4  # of a warp's instructions
_SPILLS_TELL = 0.02  # of a warp's time alone; below, some words that it spills once


def cause_of(
    name: str,
    factor: float,
    kernels: Sequence[LaunchView],
    needs: ProblemNeeds | None = None,
    grown: Sequence[LaunchView] | None = None,
) -> Cause | None:
    """Return the cause of a large factor, in the first launch that grows by it and shows one.

    Args:
        name: of the factor.
        factor: by how much.
        kernels: all launches, those first to which the factor adds most.
        needs: of the problem; unknown if not given.
        grown: the launches to which the factor adds much; all if not given.
    """
    if factor < MATTERS:
        return None
    needs = needs or ProblemNeeds()
    grown = kernels if grown is None else grown
    if name == "extra traffic":
        library = library_causes.in_traffic(kernels, factor)
        return library or _on_traffic(kernels, factor, needs, grown)
    if name == "extra work":
        return _explain_extra_work(kernels, factor, needs)
    operators = library_causes.on_launches(kernels) if name == "launch" else None
    rule = _RULES.get(name)
    if rule is None or operators is not None:
        return operators
    seen = [kernel for kernel in grown if name in _OF_OPERATORS or not kernel.library]
    return next((cause for kernel in seen if (cause := rule(kernel, factor, needs))), None)


_OF_OPERATORS = ("wrong pipe", "launch")
"""Factors with causes in PyTorch's operators too; of the others nothing is known there."""


# ------------------------------------------------------------------------------- work and pipes


def _explain_extra_work(
    kernels: Sequence[LaunchView], factor: float, needs: ProblemNeeds
) -> Cause | None:
    """Return operations beyond those of the problem; with no more, launches just do not overlap."""
    first = kernels[0]
    if factor < _WORK_MATTERS:
        return None
    if first.pipe == "int32":
        return _explain_wide_indices(first)
    if needs.operations and _times_needed(kernels, needs) <= MATTERS:
        return None  # of the kinds that take time
    return describe_cause("unneeded work", first, times=factor)


def _times_needed(kernels: Sequence[LaunchView], needs: ProblemNeeds) -> float:
    """Return the most that the launches do of any kind of operation, over what the problem needs.

    Kinds that take little of the launches' time are left out: more or less of them changes nothing.
    So are those of which the problem needs none: how many times that is cannot be said.
    """
    performed: dict[str, float] = {}
    taken: dict[str, float] = {}
    for kernel in kernels:
        for pipe, done in kernel.demand.operations.items():
            kind, taken_ms = _pipe_kind(pipe), kernel.pipes.get(pipe, 0.0) * kernel.count
            performed[kind] = performed.get(kind, 0.0) + done * kernel.count
            taken[kind] = taken.get(kind, 0.0) + taken_ms
    least_ms = _TAKES_TIME * sum(kernel.longest(even=True) * kernel.count for kernel in kernels)
    needed: dict[str, float] = {}
    for pipe, least in needs.operations.items():
        needed[_pipe_kind(pipe)] = needed.get(_pipe_kind(pipe), 0.0) + least
    if not performed.get("tensor"):  # the products are among the scalar operations
        needed["scalar"] = needed.get("scalar", 0.0) + needed.pop("tensor", 0.0)
    times = (
        done / needed[kind]
        for kind, done in performed.items()
        if taken[kind] >= least_ms and needed.get(kind)
    )
    return max(times, default=0.0)


def _pipe_kind(pipe: str) -> str:
    if pipe.startswith("tensor."):
        return "tensor"
    return pipe if pipe in ("sfu", "int32") else "scalar"


def _explain_slower_pipe(kernel: LaunchView, factor: float, needs: ProblemNeeds) -> Cause | None:  # noqa: ARG001
    used = kernel.pipe
    if kernel.library:
        return library_causes.explain_scalar_product(kernel)
    if kernel.has_needless_doubles(needs.operations):
        return _explain_doubles(kernel)
    if used == "fp32" and kernel.kernel.facts.tensor_cores is False:
        how = f", with input_precision '{needs.precision}' for fp32" if needs.precision else ""
        return describe_cause("scalar product", kernel, precision=how)
    if used.startswith("tensor."):
        if "mma.sync" in kernel.term(used).evidence:
            return describe_cause("warp products", kernel, warps=kernel.kernel.launch.num_warps)
        return describe_cause("wide product", kernel, dtype=used.removeprefix("tensor."))
    return None


def _explain_doubles(kernel: LaunchView) -> Cause:
    operations = kernel.demand.operations.get("fp64", 0)
    return describe_cause("doubles", kernel, millions=operations / 1e6)


# --------------------------------------------------------------------- traffic and instructions


def _on_traffic(
    kernels: Sequence[LaunchView], factor: float, needs: ProblemNeeds, grown: Sequence[LaunchView]
) -> Cause | None:
    """Between launches where DRAM limits; else what fills the memory that limits a launch."""
    if kernels[0].memory == "atomics":
        return contended(kernels[0])
    own = next((cause for kernel in grown if (cause := in_a_launch(kernel))), None)
    if own is not None and own.name in _OF_REUSE and factor < _REUSE_MATTERS:
        own = None
    if own is not None and own.name == "busy shared memory":
        times = _times_needed(kernels, needs)
        if times > _TWICE:
            return describe_cause("unneeded work", kernels[0], times=times)
    if kernels[0].memory != "dram" or (own is not None and own.name == "uncoalesced"):
        return own
    return between_launches(kernels, needs) or own


_OF_REUSE = ("busy shared memory", "order of blocks", "repeated reads")


def _on_instructions(kernel: LaunchView, factor: float, needs: ProblemNeeds) -> Cause | None:  # noqa: ARG001
    """Name the cause if most of a warp's instructions are of one sort."""
    executed = kernel.instructions
    total = sum(executed.values())
    if not total:
        return None

    def share(*kinds: str) -> float:
        return sum(executed.get(kind, 0.0) for kind in kinds) / total

    branches = sum("branch that depends on data" in guess for guess in kernel.demand.guesses)
    if branches > 1:
        return describe_cause("branches", kernel, branches=branches)
    if share("local_load", "local_store") > _MOST:
        return explain_spills(kernel)
    if share("int32", "uniform") > _MOST:
        return _explain_wide_indices(kernel)
    if share("convert") > _MOST:
        return describe_cause("conversions", kernel)
    if share("fp32", "sfu", "fp16") > _MOST:
        return describe_cause("arithmetic instructions", kernel, each=total)
    return None


def _explain_wide_indices(kernel: LaunchView) -> Cause:
    executed = kernel.instructions
    total = sum(executed.values())
    integer = executed.get("int32", 0.0) + executed.get("uniform", 0.0)
    return describe_cause(
        "index arithmetic", kernel, percent=100 * integer / total if total else 0.0
    )


# ------------------------------------------------------------------------------ filling the GPU


def _explain_tail_wave(kernel: LaunchView, factor: float, needs: ProblemNeeds) -> Cause | None:  # noqa: ARG001
    if _has_few_blocks(kernel):
        return _few_blocks(kernel)
    return describe_cause(
        "uneven blocks" if kernel.demand.imbalance > 1.2 else "part-filled wave", kernel
    )


def _has_few_blocks(kernel: LaunchView) -> bool:
    return kernel.blocks < _FEW_BLOCKS * kernel.device.sm_count


def _few_blocks(kernel: LaunchView) -> Cause:
    how = "split along the reduction"
    if not _l2_leads(kernel):
        how = f"smaller tiles, or {how}"
    blocks = format_count(kernel.blocks, "block")
    return describe_cause("few blocks", kernel, blocks=blocks, sms=kernel.device.sm_count, how=how)


def _l2_leads(kernel: LaunchView) -> bool:
    """Tell whether L2 is as good as the limit, so that smaller tiles would cost time."""
    return kernel.memories.get("l2", 0.0) >= _LEADS * kernel.longest(even=True)


def _on_latency(kernel: LaunchView, factor: float, needs: ProblemNeeds) -> Cause | None:
    occupancy = kernel.kernel.occupancy
    assert occupancy is not None
    if kernel.count > 1:
        return _on_launch(kernel, factor, needs)
    if (atomics := contended(kernel)) is not None:
        return atomics
    if _has_few_blocks(kernel):
        return _few_blocks(kernel)
    if spills_share(kernel.kernel, kernel.device) >= _SPILLS_TELL:
        return explain_spills(kernel)
    stepwise = kernel.products or (kernel.is_cuda and kernel.demand.barriers > kernel.demand.steps)
    mix = kernel.kernel.facts.instructions
    copies_bulks = kernel.is_cuda and mix is not None and mix.of("tma") > 0  # how far is not known
    waits = kernel.demand.steps > 2 and prefetched_steps(kernel.kernel) == 1 and stepwise
    if waits and not copies_bulks:
        return describe_cause("waits for loads", kernel)
    if factor < (_PRODUCTS_MATTER if kernel.products else _OCCUPANCY_MATTERS):
        return None
    if kernel.products:
        return _products_wait(kernel)
    if kernel.has_needless_doubles(needs.operations):
        return _explain_doubles(kernel)  # each takes two registers, and longer chains
    return _has_little_work(kernel, needs)


def _products_wait(kernel: LaunchView) -> Cause | None:
    """Matrix products wait for other work; smaller tiles would make more of L2's."""
    occupancy = kernel.kernel.occupancy
    assert occupancy is not None
    there, limiter = occupancy.blocks_per_sm, occupancy.limiter
    if _l2_leads(kernel):
        return describe_cause("products beside L2", kernel, blocks=there, limiter=limiter)
    if there >= 3:
        return None
    return describe_cause("products alone", kernel, blocks=there, limiter=limiter)


def _has_little_work(kernel: LaunchView, needs: ProblemNeeds) -> Cause:
    occupancy = kernel.kernel.occupancy
    assert occupancy is not None
    blocks, warps = resident(kernel.kernel, kernel.device), kernel.kernel.launch.num_warps
    if occupancy.fraction >= _FULL and blocks == occupancy.blocks_per_sm:
        busy = kernel.issue_ms >= kernel.longest(even=True)  # and the chain is as long as it is
        by_instructions = _on_instructions(kernel, 1.0, needs) if busy else None
        narrow = narrowest(kernel, [a for a in kernel.demand.accesses if a.vector_bytes < _WORD])
        return (
            by_instructions
            or narrow
            or describe_cause("one trip at a time", kernel, warps=blocks * warps)
        )
    limiter = occupancy.limiter if blocks == occupancy.blocks_per_sm else "the grid"
    narrow = _narrow_in_many(kernel)
    if limiter == "registers" and narrow is not None:  # each request has its own address
        return narrow
    remedy = _REMEDIES.get(limiter, "Use more warps")
    if limiter == "registers" and _l2_leads(kernel):
        remedy = "Use more warps to share the registers"
    shown_warps = format_count(warps, "warp")
    return describe_cause(
        "little under way", kernel, blocks=blocks, warps=shown_warps, limiter=limiter, remedy=remedy
    )


def _narrow_in_many(kernel: LaunchView) -> Cause | None:
    """Explain accesses that a warp makes in many narrow requests at once."""
    cause = narrowest(kernel, kernel.demand.accesses)
    if cause is None:
        return None
    warps = kernel.blocks * kernel.kernel.launch.num_warps
    rounds = max(kernel.demand.steps, 1.0)
    requests = cause.figures["requests"]
    assert isinstance(requests, int)
    return cause if requests > _MANY_REQUESTS * warps * rounds else None


_REMEDIES = {
    "the grid": "Use more warps a block, or more blocks",
    "blocks": "Use more warps a block",
    "registers": "Use fewer registers a thread (smaller tiles, or more warps to share them)",
    "shared": "Use less shared memory a block, or more warps in it",
}
"""Remedies by the limit on an SM's warps."""


def _on_dispatch(kernel: LaunchView, factor: float, needs: ProblemNeeds) -> Cause | None:  # noqa: ARG001
    if kernel.running() < MATTERS * kernel.running("dispatch"):
        return None
    if (atomics := contended(kernel)) is not None:
        return atomics  # fewer blocks make fewer of both
    return describe_cause("dispatch", kernel, evidence=kernel.term("dispatch").evidence)


def _on_launch(kernel: LaunchView, factor: float, needs: ProblemNeeds) -> Cause:  # noqa: ARG001
    if kernel.count > 1:
        return describe_cause("launches", kernel, count=kernel.count)
    return describe_cause("launch", kernel)


_RULES: Mapping[str, Callable[[LaunchView, float, ProblemNeeds], Cause | None]] = {
    "wrong pipe": _explain_slower_pipe,
    "instructions": _on_instructions,
    "tail": _explain_tail_wave,
    "latency": _on_latency,
    "dispatch": _on_dispatch,
    "launch": _on_launch,
}
