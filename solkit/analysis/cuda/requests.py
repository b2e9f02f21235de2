"""Requests of a CUDA C++ launch's own code to a GPU, from its PTX."""

from __future__ import annotations

from collections.abc import Sequence

from solkit.adapters.launch_recording import Argument
from solkit.adapters.triton_compiler import Compiled
from solkit.analysis.cuda.ptx_front_end import PTXFrontEnd
from solkit.analysis.cuda.ptx_kernel import read_kernel, stored_registers
from solkit.analysis.interpreter.access_sinks import pointers_behind, sites_of
from solkit.analysis.interpreter.launch_requests import launch_requests
from solkit.analysis.interpreter.thread_groups import Grid
from solkit.core import Device, Occupancy, Requests

_HIDING = frozenset({"call", "tex", "tld4", "suld"})
"""Statements that may read global memory in ways that are not followed."""


def cuda_requests(
    compiled: Compiled,
    arguments: Sequence[Argument],
    names: Sequence[str],
    grid: Grid,
    device: Device,
    occupancy: Occupancy,
) -> Requests:
    """Follow a compiled kernel.

    Args:
        compiled: its PTX, what it is called there, and its shared memory.
        arguments: of the launch, in the order of the parameters; ``None`` if unknown.
        names: of the parameters in C++; empty if unknown.
        grid: the launch's blocks and threads.
        device: a target; only its compute capability and SM count matter.
        occupancy: of the launch.

    Raises:
        ValueError: the PTX is not understood.
    """
    front_end = PTXFrontEnd(read_kernel(compiled.ptx, compiled.entry), arguments, names)
    return launch_requests(front_end, compiled.shared_bytes or 0, grid, device, occupancy)


def read_parameters(compiled: Compiled) -> frozenset[int]:
    """Return parameters of a kernel, by their place, through which it may read memory.

    All of them, if it does what is not followed.

    Args:
        compiled: as for `cuda_requests`.

    Raises:
        ValueError: likewise.
    """
    kernel = read_kernel(compiled.ptx, compiled.entry)
    if any(
        statement.name in _HIDING or "bulk" in statement.modifiers
        for statement in kernel.statements
    ):
        return frozenset(range(len(kernel.parameters)))
    sites = sites_of(kernel.flow).values()
    names = {name for site in sites if site.kind != "store" for name in site.parameters}
    names.update(pointers_behind(kernel.flow, stored_registers(kernel)))  # others may take them
    return frozenset(n for n, parameter in enumerate(kernel.parameters) if parameter.name in names)
