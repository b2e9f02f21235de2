"""Bytes of its outputs that a candidate writes, at the most."""

from __future__ import annotations

from collections.abc import Sequence

from solkit.adapters.launch_recording import CapturedLaunch, TensorArgument
from solkit.analysis.triton.capture import Output
from solkit.core import Facts, OutputBytes


def outputs_written(
    outputs: Sequence[Output], launches: Sequence[tuple[CapturedLaunch, Facts]]
) -> tuple[OutputBytes, ...]:
    """Return each output's bytes, and how many are written at the most.

    Args:
        outputs: that the candidate made.
        launches: all of its own, with their facts.

    Returns:
        Nothing if a launch was not followed to its end, or it is not known where its stores go:
        what was not seen may have written the rest.
    """
    writes = []
    for output in outputs:
        written = output.by_operators
        for launch, facts in launches:
            by_launch = _most_stored_bytes(output.storage, launch, facts)
            if by_launch is None:
                return ()
            written += by_launch
        writes.append(OutputBytes(output.bytes, min(written, output.bytes)))
    return tuple(writes)


def _most_stored_bytes(storage: int, launch: CapturedLaunch, facts: Facts) -> int | None:
    """Return the most bytes that a launch, and those equal to it, store into a storage."""
    if facts.requests is None or not facts.requests.is_complete:
        return None
    total = 0
    for access in facts.requests.accesses:
        if access.kind == "load":
            continue
        argument = launch.arguments.get(access.argument)
        if not isinstance(argument, TensorArgument):
            return None
        again = launch.launch.count > 1 and storage in launch.storages
        if argument.storage == storage or again:
            total += access.unique_bytes * launch.launch.count
    return total
