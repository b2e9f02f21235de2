"""Configurations that `triton.autotune` passes over, since they cannot run on a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from solkit.adapters.launch_recording import CapturedLaunch, Choice
from solkit.adapters.triton_compiler import Compiled
from solkit.processes.host import is_machine_fault


def passed_over(
    launches: Sequence[CapturedLaunch], compiled: Mapping[int, Compiled]
) -> frozenset[Choice]:
    """Return the choices behind launches of autotuned kernels that do not compile or do not fit.

    Args:
        launches: of one run.
        compiled: the result for each of their kernels, by identity.
    """
    choices = set()
    for launch in launches:
        if launch.choice is not None:
            result = compiled[id(launch.kernel)]
            if result.is_skipped and not is_machine_fault(result.error or ""):
                choices.add(launch.choice)
    return frozenset(choices)
