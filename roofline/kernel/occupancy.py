"""Theoretical occupancy: how many blocks fit on an SM, and how a grid fills the GPU.

The rules are those of NVIDIA's occupancy calculator, as in ``cuda_occupancy.h`` of the CUDA
toolkit (`cudaOccMaxActiveBlocksPerMultiprocessor`), and AMD's are alike (LLVM,
AMDGPUBaseInfo.cpp). Units and maxima are the device's (`SMLimits`). Per SM, or compute unit:

==========  ====================================================================================
warps       threads / threads of a warp, over warps per block
blocks      a hardware maximum
registers   a warp takes registers x its threads, rounded up to a unit; each of the SM's 4
            partitions holds as many whole warps as fit in a quarter of the registers
shared      a block takes its own plus the system's reserve, rounded up to a unit
==========  ====================================================================================

Assumptions: the driver gives shared memory as much of the L1 as it can use, and clusters pack
without loss (a cluster must fit in one GPC, which may cost a few SMs).
"""

from __future__ import annotations

import math

from solkit.core import Device, Occupancy

_PARTITIONS = 4
"""cudaOccSubPartitionsPerMultiprocessor, but for compute capability 6.0 (2); SIMDs of AMD's CUs."""


def occupancy(
    device: Device,
    registers: int,
    shared_bytes: int,
    num_warps: int,
    grid_blocks: int,
    num_ctas: int = 1,
) -> Occupancy:
    """Theoretical occupancy of one launch.

    Args:
        device: the GPU: of compute capability 8.0 or newer, or of AMD's CDNA 3 or 4.
        registers: per thread.
        shared_bytes: shared memory per block, static and dynamic together.
        num_warps: warps per block.
        grid_blocks: programs in the whole grid; each is a cluster of `num_ctas` blocks.
        num_ctas: blocks per cluster.

    Raises:
        ValueError: not even one block fits on an SM.
    """
    limits = device.limits
    warps_per_sm = limits.threads // limits.warp_threads
    # on a tie the first wins: hardware maxima, which no kernel can raise
    blocks = {
        "warps": warps_per_sm // num_warps,
        "blocks": limits.blocks,
        "registers": _warps_by_registers(device, registers) // num_warps,
        "shared": limits.shared_bytes // _shared_share(device, shared_bytes),
    }
    limiter = min(blocks, key=blocks.__getitem__)
    if blocks[limiter] == 0:
        raise ValueError(f"not one block fits on an SM of {device.name}: too much of {limiter}")
    waves = grid_blocks * num_ctas / (blocks[limiter] * device.sm_count)
    return Occupancy(
        fraction=blocks[limiter] * num_warps / warps_per_sm,
        limiter=limiter,
        blocks_per_sm=blocks[limiter],
        waves=waves,
        tail_efficiency=waves / math.ceil(waves),
    )


def _warps_by_registers(device: Device, registers: int) -> int:
    """Count warps per SM that the register file holds."""
    limits = device.limits
    per_warp = _round_up(max(registers, 1) * limits.warp_threads, limits.registers_unit)
    return limits.registers // _PARTITIONS // per_warp * _PARTITIONS


def _shared_share(device: Device, shared_bytes: int) -> int:
    """Count bytes of the SM's shared memory that one block takes."""
    limits = device.limits
    own = shared_bytes + limits.reserved_shared_per_block_bytes
    return _round_up(max(own, 1), limits.shared_unit_bytes)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
