"""Record the Triton launches of a real run, with the driver's figures of each loaded kernel.

The figures (`cuFuncGetAttribute`) check the analysis without a GPU. Call the candidate once before
recording, so that autotuning is over. Timing launches of Triton's autotuner are left out; those of
other tuners are not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from triton.compiler import CompiledKernel
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner

from solkit.adapters.triton_compiler import (
    Specialisation,
    describe_launch,
    uses_tensor_cores,
    warn_if_untested,
)
from solkit.core import Facts, KernelAnalysis

_Seen = list[tuple[Any, tuple[int, int, int]]]


def start_driver() -> None:
    """Build and load what launches kernels, which takes Triton up to a second with an empty cache.

    Raises:
        RuntimeError: there is no GPU.
    """
    driver.active.get_current_device()


@contextlib.contextmanager
def recording() -> Iterator[list[KernelAnalysis]]:
    """Record launches.

    Yields:
        A list that is filled on leaving: each distinct launch once, in order of first appearance,
        without occupancy.
    """
    warn_if_untested()
    seen: _Seen = []
    launches: list[KernelAnalysis] = []
    originals = CompiledKernel.launch_metadata, Autotuner._bench
    CompiledKernel.launch_metadata = _note_launches(seen, originals[0])
    Autotuner._bench = _hide_benchmarks(seen, originals[1])
    try:
        yield launches
    finally:
        CompiledKernel.launch_metadata, Autotuner._bench = originals
    launches += map(KernelAnalysis, _count_distinct(seen))


def _note_launches(seen: _Seen, original: Any) -> Any:
    """`CompiledKernel.launch_metadata`, which every launch calls first, with recording."""

    def launch_metadata(self: Any, grid: Any, stream: Any, *args: Any) -> Any:
        x, y, z = (*grid, 1, 1)[:3]
        if x * y * z:  # Triton launches nothing on an empty grid
            seen.append((self, (int(x), int(y), int(z))))
        return original(self, grid, stream, *args)

    return launch_metadata


def _hide_benchmarks(seen: _Seen, original: Any) -> Any:
    """`Autotuner._bench` without the launches that it makes."""

    def bench(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = len(seen)
        try:
            return original(self, *args, **kwargs)
        finally:
            del seen[before:]

    return bench


def _count_distinct(seen: _Seen) -> list[Facts]:
    facts_by_launch: dict[tuple[int, tuple[int, int, int]], Facts] = {}
    for kernel, grid in seen:
        facts = facts_by_launch.get((id(kernel), grid))
        if facts is None:
            facts_by_launch[id(kernel), grid] = _describe_launch(kernel, grid)
        else:
            again = replace(facts.launch, count=facts.launch.count + 1)
            facts_by_launch[id(kernel), grid] = replace(facts, launch=again)
    return list(facts_by_launch.values())


def _describe_launch(kernel: Any, grid: tuple[int, int, int]) -> Facts:
    """Return a launch as the driver reports it."""
    kernel._init_handles()  # fills n_regs and n_spills; nothing to do after a launch
    source, metadata = kernel.src, kernel.metadata
    options = {name: getattr(metadata, name) for name in ("num_warps", "num_stages", "num_ctas")}
    made_from = Specialisation(source.fn, source.signature, source.constants, source.attrs, options)
    return Facts(
        launch=describe_launch(made_from, grid),
        registers=kernel.n_regs,
        spills=kernel.n_spills,
        shared_bytes=metadata.shared,
        tensor_cores=uses_tensor_cores(kernel.asm["ptx"]),
    )
