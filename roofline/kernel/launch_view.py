"""A launch with known demand, and its times for the gap's steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property

from solkit.core import Demand, Device, KernelAnalysis, Term
from solkit.roofline.kernel.dram_traffic import crossing_bytes
from solkit.roofline.kernel.model import (
    dram_rate,
    executed,
    operator_share,
    overlaps_products,
    resident,
    sustained_rate,
    together,
)

_NO_RESOURCES = ("latency", "dispatch", "fetch", "launch")
_DOUBLES_TELL = 0.2  # of a warp's instructions
_SHARED_BY_ALL = ("dram", "last_level", "atomics")  # SMs, so that the busiest has no longer
_SCALAR_PIPES = ("fp16", "bf16", "fp32", "fp64", "int32", "sfu")


@dataclass(frozen=True)
class LaunchView:
    """A launch with known demand.

    Attributes:
        kernel: the launch.
        device: the target.
        position: its place among the launches of a call.
    """

    kernel: KernelAnalysis
    device: Device
    position: int = 0

    @property
    def demand(self) -> Demand:
        """Demand of the launch; it must have one."""
        assert self.kernel.demand is not None
        return self.kernel.demand

    @property
    def terms(self) -> Sequence[Term]:
        """Terms of the modelled time."""
        assert self.kernel.model is not None
        return self.kernel.model.terms

    @property
    def name(self) -> str:
        """Name of the kernel's function."""
        return self.kernel.launch.name

    @property
    def count(self) -> int:
        """Number of times that a call launches it."""
        return self.kernel.launch.count

    @property
    def library(self) -> bool:
        """True if it is a PyTorch operator, whose code is not seen."""
        return self.kernel.launch.library

    @property
    def blocks(self) -> int:
        """Number of blocks of the grid."""
        return math.prod(self.kernel.launch.grid)

    @property
    def busiest_sm_ratio(self) -> float:
        """The busiest SM's work over the mean."""
        return self.demand.unevenness

    @property
    def dram_bytes(self) -> float:
        """Bytes from and to DRAM."""
        return self.demand.dram_read_bytes + self.demand.dram_write_bytes

    def distinct_bytes(self, argument: str, kind: str) -> float:
        """Count bytes of an argument that a launch reads or writes, each once; 0 if unknown.

        Several lines may touch parts of it, or the same. A library's operator touches it in one.

        Args:
            argument: as in `solkit.core.Access`.
            kind: ``"load"`` or ``"store"``.
        """
        reuse = self.demand.reuse
        streams = reuse.reads if kind == "load" else reuse.writes
        first = [s for s in streams if argument and s.argument == argument]
        if first:
            return sum(min(s.cold_bytes, s.most_bytes or s.cold_bytes) for s in first)
        sizes = (a.unique_bytes for a in self.demand.accesses
                 if (a.argument, a.kind) == (argument, kind))  # fmt: skip
        return max(sizes, default=0)

    def read_again_bytes(self) -> Mapping[str, float]:
        """Return bytes read from DRAM after their first time, by argument."""
        again_bytes: dict[str, float] = {}
        for stream in self.demand.reuse.reads:
            read = crossing_bytes(stream, self.device.cached_bytes)
            first = min(stream.cold_bytes, stream.most_bytes or stream.cold_bytes)
            again_bytes[stream.argument] = again_bytes.get(stream.argument, 0.0) + max(
                read - first, 0.0
            )
        return again_bytes

    @property
    def is_cuda(self) -> bool:
        """True if it is CUDA C++, not Triton."""
        return not self.kernel.launch.signature and not self.library

    @property
    def products(self) -> bool:
        """True if it uses tensor cores."""
        return any(pipe.startswith("tensor.") for pipe in self.demand.operations)

    def longest(self, even: bool) -> float:
        """Return the longest of the resources' terms, in ms; `even`: as if all SMs had the mean."""
        own = (term.time_ms for term in self.terms if term.name not in _NO_RESOURCES)
        return max(self.balanced_times_ms.values() if even else own, default=0.0)

    def term(self, name: str) -> Term:
        """Return the term of that name."""
        return next(term for term in self.terms if term.name == name)

    def running(self, *without: str) -> float:
        """Return all terms except the launch and those named, in ms."""
        if self.library:
            return self.longest(even=False)
        terms = [term for term in self.terms if term.name not in ("launch", *without)]
        blocks, warps = resident(self.kernel, self.device), self.kernel.launch.num_warps
        return together(terms, blocks, warps, overlaps_products(self.kernel))

    @property
    def time_ms(self) -> float:
        """The modelled time of one launch."""
        assert self.kernel.model is not None
        return self.kernel.model.time_ms

    def without(self, factors: Set[str]) -> float:
        """Return `running`, in ms, if the causes of some of the gap's factors took no time."""
        if self.library:
            return 0.0 if "extra traffic" in factors else self.running()
        even = self.busiest_sm_ratio if "tail" in factors else 1.0
        terms = [
            replace(term, time_ms=term.time_ms / (1.0 if term.name in _SHARED_BY_ALL else even))
            for term in self.terms
            if term.name != "launch" and not factors & _factors_of(term.name)
        ]
        blocks, warps = resident(self.kernel, self.device), self.kernel.launch.num_warps
        return together(terms, blocks, warps, overlaps_products(self.kernel))

    @cached_property
    def balanced_times_ms(self) -> Mapping[str, float]:
        """Time of each resource, in ms, as if all SMs had the mean."""
        return {
            term.name: term.time_ms
            / (1.0 if term.name in _SHARED_BY_ALL else self.busiest_sm_ratio)
            for term in self.terms
            if term.name not in _NO_RESOURCES
        }

    @property
    def pipes(self) -> Mapping[str, float]:
        """`balanced_times_ms` of the arithmetic pipes."""
        return {
            name: ms for name, ms in self.balanced_times_ms.items() if _is_arithmetic_pipe(name)
        }

    @property
    def memories(self) -> Mapping[str, float]:
        """`balanced_times_ms` of DRAM, the caches, shared memory, and what else is not a pipe."""
        names = (
            name
            for name in self.balanced_times_ms
            if name != "issue" and not _is_arithmetic_pipe(name)
        )
        return {name: self.balanced_times_ms[name] for name in names}

    @property
    def pipe(self) -> str:
        """The busiest of the pipes; empty without arithmetic."""
        return max(self.pipes, key=self.pipes.__getitem__, default="")

    @property
    def memory(self) -> str:
        """The busiest of the memories."""
        return max(self.memories, key=self.memories.__getitem__, default="")

    @property
    def pipes_ms(self) -> float:
        """The busiest pipe."""
        return max(self.pipes.values(), default=0.0)

    @property
    def own_dram_ms(self) -> float:
        """Time of `dram_bytes` at DRAM, in ms: spilled registers are none of them."""
        return 1e3 * self.dram_bytes / self._dram_rate

    @property
    def _dram_rate(self) -> float:
        demand = self.demand
        return dram_rate(demand.dram_read_bytes, demand.dram_write_bytes, self.device)

    @property
    def ceiling_ms(self) -> float:
        """The busiest pipe, at the ceilings instead of the sustained rates."""
        return max((ms * self.sustained(name) for name, ms in self.pipes.items()), default=0.0)

    def needed_ceiling_ms(self, needed: Mapping[str, float]) -> float:
        """`ceiling_ms`; with needless doubles all instructions, as they multiply most of them.

        Args:
            needed: the problem's operations by pipe.
        """
        doubled = self.issue_ms if self.has_needless_doubles(needed) else 0.0
        return max(self.ceiling_ms, doubled)

    def has_needless_doubles(self, needed: Mapping[str, float]) -> bool:
        """Tell whether much of it is fp64 and its conversions, which the problem has no need of."""
        if "fp64" in needed or not self.demand.operations.get("fp64"):
            return False
        executed = self.instructions
        doubles = executed.get("fp64", 0.0) + executed.get("convert", 0.0)
        return self.pipe == "fp64" or doubles > _DOUBLES_TELL * sum(executed.values())

    @property
    def traffic_ms(self) -> float:
        """The busiest memory."""
        return max(self.memories.values(), default=0.0)

    @property
    def issue_ms(self) -> float:
        """Instructions, at one a clock and scheduler; 0 if they are not known."""
        return self.balanced_times_ms.get("issue", 0.0)

    def without_conflicts_ms(self) -> float:
        """`traffic_ms` without bank conflicts."""
        wavefronts = sum(access.wavefronts for access in self.demand.shared)
        least = sum(access.least_wavefronts for access in self.demand.shared)
        memories = dict(self.memories)
        if wavefronts:
            memories["shared"] = memories.get("shared", 0.0) * least / wavefronts
        return max(memories.values(), default=0.0)

    @cached_property
    def instructions(self) -> Mapping[str, float]:
        """Machine instructions that a warp executes, by kind; empty if they were not read."""
        return executed(self.kernel)

    def sustained(self, name: str) -> float:
        """Return the share of its ceiling that a resource sustains."""
        if name not in self.device.ceilings:
            return 1.0
        if name == "dram" and self.dram_bytes:  # reads and writes have rates of their own
            return self._dram_rate / self.device.ceilings["dram"].value
        share = operator_share(self.kernel.launch.name, name) if self.library else 1.0
        return share * min(sustained_rate(name, self.device) / self.device.ceilings[name].value, 1)


def _is_arithmetic_pipe(name: str) -> bool:
    return name.startswith("tensor.") or name in _SCALAR_PIPES


def _factors_of(term: str) -> frozenset[str]:
    """Return the factors of the gap that a term of the model belongs to."""
    if term == "issue":
        return frozenset({"instructions"})
    if term in _NO_RESOURCES:
        return frozenset({term})
    return frozenset(
        {"extra work", "wrong pipe"} if _is_arithmetic_pipe(term) else {"extra traffic"}
    )
