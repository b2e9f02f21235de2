"""Analysis of a launch's facts on one device: from a stored fact to a time."""

from __future__ import annotations

import math
from dataclasses import fields, replace

from solkit.core import Demand, Device, Facts, KernelAnalysis, Occupancy, Requests
from solkit.roofline.kernel.dram_traffic import dram_traffic
from solkit.roofline.kernel.model import model_launch_time
from solkit.roofline.kernel.occupancy import occupancy


def described(facts: Facts, device: Device, compile_s: float = 0.0) -> KernelAnalysis:
    """Return a launch with its occupancy, its demand of the device, and the modelled time.

    Args:
        facts: of the launch, for the device's compute capability and SM count.
        device: the target.
        compile_s: seconds to compile it.
    """
    analysis = KernelAnalysis(facts, error=facts.error, compile_s=compile_s)
    try:
        resident = occupancy_of(facts, device)
    except ValueError as error:
        return replace(analysis, error=str(error))
    analysis = replace(analysis, occupancy=resident)
    if facts.requests is None or (resident is None and not facts.launch.library):
        return analysis
    analysis = replace(analysis, demand=_launch_demand(facts.requests, device))
    return replace(analysis, model=model_launch_time(analysis, device))


def occupancy_of(facts: Facts, device: Device) -> Occupancy | None:
    """Theoretical occupancy; ``None`` if the launch did not compile.

    Raises:
        ValueError: not even one block fits on an SM.
    """
    if facts.error is not None or facts.registers is None or facts.shared_bytes is None:
        return None
    launch = facts.launch
    return occupancy(
        device,
        facts.registers,
        facts.shared_bytes,
        launch.num_warps,
        math.prod(launch.grid),
        launch.num_ctas,
    )


def _launch_demand(requests: Requests, device: Device) -> Demand:
    dram = dram_traffic(requests.reuse, device.cached_bytes)
    return Demand(
        **{field.name: getattr(requests, field.name) for field in fields(Requests)},
        dram_read_bytes=round(dram.read),
        dram_write_bytes=round(dram.written),
    )
