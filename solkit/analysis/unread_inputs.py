"""Inputs that nothing which a candidate launches reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from solkit.adapters.launch_recording import CapturedLaunch, TensorArgument, tensors_of
from solkit.adapters.triton_compiler import Compiled
from solkit.adapters.triton_ir import parse_module
from solkit.analysis import cuda
from solkit.analysis.triton.arguments import parameters_in_order
from solkit.analysis.triton.relevance import may_read
from solkit.core import Facts


def unread_inputs(
    inputs: Mapping[int, int],
    launches: Sequence[tuple[CapturedLaunch, Facts, Compiled]],
    extensions: Sequence[tuple[cuda.CudaLaunch, Compiled]],
) -> tuple[int, ...]:
    """Return places of inputs that no launch reads, as its code says.

    Args:
        inputs: storages of inputs by place, without those that operators or the host read.
        launches: all of Triton, with their facts and code.
        extensions: all of CUDA C++, likewise.
    """
    unread = set(inputs.values())
    for launch, facts, compiled in launches:
        unread -= {
            storage for storage in unread if _may_read_argument(launch, facts, compiled, storage)
        }
    for other, binary in extensions:
        unread -= {storage for storage in unread if _extension_reads(other, binary, storage)}
    return tuple(position for position, storage in inputs.items() if storage in unread)


def _may_read_argument(
    launch: CapturedLaunch, facts: Facts, compiled: Compiled, storage: int
) -> bool:
    """Tell if a launch, or one that is counted with it, may read a storage."""
    names = [name for name, storages in launch.by_parameter.items() if storage in storages]
    if not names:
        return False
    if facts.requests is None or not compiled.ttgir:
        return True
    if facts.requests.is_complete and launch.launch.count == 1:
        loads = (access for access in facts.requests.accesses if access.kind != "store")
        arguments = [launch.arguments.get(load.argument) for load in loads]
        if all(isinstance(argument, TensorArgument) for argument in arguments):
            return any(getattr(argument, "storage", 0) == storage for argument in arguments)
    function = parse_module(compiled.ttgir)
    order = parameters_in_order(function, launch.passed)
    if order is None or not set(names) <= set(order):  # parts of a tuple, say
        return True
    pointers = [ir for name, (ir, _) in zip(order, function.arguments) if name in names]
    return any(may_read(function, pointer) for pointer in pointers)


def _extension_reads(launch: cuda.CudaLaunch, compiled: Compiled, storage: int) -> bool:
    arguments = launch.host.arguments
    if any(argument is None for argument in arguments):  # it may hold any pointer
        return True
    places = [
        n
        for n, argument in enumerate(arguments)
        if any(tensor.storage == storage for tensor in tensors_of(argument))
    ]
    return bool(places) and not cuda.read_parameters(compiled).isdisjoint(places)
