"""A latency floor for chains of dependent steps, told beside the roofline.

It is no part of any bound: another algorithm may have a shorter chain (a linear recurrence is a
scan). With the latency x of the least exchange between SMs, r the rate of one SM, s steps, and N
columns of a factorisation::

    spread   s x + N max(c, min over b of (x / b + b² / (3 r)))
    alone    operations of one independent part / r + N c
    floor    the lesser of the two

Alone, one SM does all steps of an independent part and exchanges nothing. Spread over SMs, each
step waits for an exchange; but b columns of a factorisation, whose diagonal block takes b³/3
operations on one SM, share one. c is the time of a column's own dependent operations.
"""

from __future__ import annotations

from solkit.core import Chain, Device

EXCHANGE_CYCLES = 180
"""A load from the shared memory of another SM, on an H100 PCIe: Luo et al., "Benchmarking and
Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking" (2024), section on distributed
shared memory. GPUs without clusters exchange through L2, which takes longer."""

_COLUMN_CYCLES = 8
"""A multiply-add and a division, each at least as long as a multiply-add: 4 cycles (Jia et al.,
"Dissecting the NVIDIA Volta GPU architecture via microbenchmarking", 2018, table 4.1)."""


def chain_floor_ms(chain: Chain, device: Device, all_sms_ms: float) -> float:
    """Return the latency floor of a chain.

    Args:
        chain: of the problem.
        device: the target; its highest clock counts.
        all_sms_ms: the roofline of the chain's `alone`, on all SMs together.
    """
    cycle_s = 1e-6 / device.clock_mhz
    exchange_s, column_s = EXCHANGE_CYCLES * cycle_s, _COLUMN_CYCLES * cycle_s
    alone_s = 1e-3 * all_sms_ms * device.sm_count
    rate = sum(chain.alone.values()) / alone_s if alone_s else 0.0
    best = (1.5 * exchange_s * rate) ** (1 / 3)  # columns of a block: where the derivative is 0
    shared_s = exchange_s / best + best**2 / (3 * rate) if rate else 0.0
    spread_s = chain.steps * exchange_s + chain.columns * max(column_s, shared_s)
    return 1e3 * min(spread_s, alone_s + chain.columns * column_s)
