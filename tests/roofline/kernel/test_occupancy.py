from __future__ import annotations

from dataclasses import replace

import pytest

from solkit.roofline import devices
from solkit.roofline.kernel.occupancy import occupancy

H100 = devices.find("h100")
A100 = devices.find("a100-80gb-sxm")
L4 = devices.find("l4")

# By hand, on an SM of 64 warps, 65,536 registers in 4 quarters of 16,384, 32 blocks, 228 KiB:
#  32 registers: a warp takes 1,024, so 16 fit a quarter, 64 the SM
#  65 registers: 2,080 rounded up to 2,304, 7 a quarter, 28 the SM
# 168 registers: 5,376, 3 a quarter, 12 the SM
# 255 registers: 8,160 rounded up to 8,192, 2 a quarter, 8 the SM
CASES = [
    # registers, shared, warps, blocks, limiter
    (32, 0, 4, 16, "warps"),
    (33, 0, 4, 12, "registers"),  # 1,056 -> 1,280: 12 a quarter, 48 warps
    (65, 0, 4, 7, "registers"),
    (65, 0, 8, 3, "registers"),  # 28 // 8
    (168, 0, 12, 1, "registers"),
    (255, 0, 8, 1, "registers"),
    (32, 0, 1, 32, "blocks"),
    (32, 49152, 4, 4, "shared"),  # 48 + 1 KiB reserved: 228 // 49
    (32, 232448, 4, 1, "shared"),  # 227 KiB, all that one block may have
    (32, 1, 4, 16, "warps"),
    (32, 15 * 1024, 4, 14, "shared"),  # 228 // 16
]


@pytest.mark.parametrize(("registers", "shared", "warps", "blocks", "limiter"), CASES)
def test_hand_worked_cases(registers, shared, warps, blocks, limiter):
    result = occupancy(H100, registers, shared, warps, grid_blocks=1000)
    assert (result.blocks_per_sm, result.limiter) == (blocks, limiter)
    assert result.fraction == blocks * warps / 64


# By hand, on a CU of 32 waves, 512 registers a thread in each of 4 SIMDs, 64 KiB in units of 512:
#  64 registers: 8 waves a SIMD, 32 the CU
#  65 registers: rounded up to 72, 7 a SIMD, 28 the CU
# 206 registers: 208, 2 a SIMD, 8 the CU
@pytest.mark.parametrize(
    ("device", "registers", "shared", "waves", "blocks", "limiter"),
    [
        ("mi300x", 64, 0, 4, 8, "warps"),
        ("mi300x", 65, 0, 4, 7, "registers"),
        ("mi300x", 206, 0, 4, 2, "registers"),
        ("mi300x", 512, 0, 4, 1, "registers"),
        ("mi300x", 32, 16 << 10, 4, 4, "shared"),
        ("mi300x", 32, (16 << 10) + 1, 4, 3, "shared"),  # 16.5 KiB: 64 // 16.5
        ("mi355x", 32, 16 << 10, 4, 8, "warps"),
        ("mi355x", 32, 40 << 10, 4, 4, "shared"),  # 32 units of 1280 B, of 128
        ("mi355x", 32, (40 << 10) + 1, 4, 3, "shared"),  # 33 units
    ],
)
def test_compute_units_of_waves(device, registers, shared, waves, blocks, limiter):
    result = occupancy(devices.find(device), registers, shared, waves, grid_blocks=1000)
    assert (result.blocks_per_sm, result.limiter) == (blocks, limiter)
    assert result.fraction == blocks * waves / 32


def test_a_partition_is_not_filled_by_parts_of_warps():
    # 40 registers: 1,280 a warp; the SM would hold 51 warps, its quarters hold 12 each
    assert occupancy(H100, 40, 0, 2, 1000).blocks_per_sm == 48 // 2
    # 150 registers: 4,800 -> 4,864 a warp; 13 in the whole SM, 3 in each quarter
    assert occupancy(H100, 150, 0, 1, 1000).blocks_per_sm == 12


def test_smaller_sms():
    # the A100's 164 KiB and the L4's 100 KiB, 48 warps and 24 blocks: programming guide
    assert occupancy(A100, 32, 40 * 1024, 4, 1000).blocks_per_sm == 4
    ada = occupancy(L4, 32, 0, 1, 1000)
    assert (ada.blocks_per_sm, ada.fraction, ada.limiter) == (24, 0.5, "blocks")


@pytest.mark.parametrize(
    ("grid", "waves", "tail"),
    [(132, 1 / 16, 1 / 16), (132 * 16, 1.0, 1.0), (132 * 40, 2.5, 2.5 / 3), (132 * 32, 2, 1)],
)
def test_waves(grid, waves, tail):
    result = occupancy(H100, 32, 0, 4, grid)  # 16 blocks an SM
    assert result.waves == pytest.approx(waves)
    assert result.tail_efficiency == pytest.approx(tail)


def test_a_cluster_is_several_blocks():
    assert occupancy(H100, 32, 0, 4, 132, num_ctas=4).waves == pytest.approx(4 / 16)


def test_fewer_sms_make_more_waves():
    slice_ = replace(H100, sm_count=16)
    assert occupancy(slice_, 32, 0, 4, 132).waves == pytest.approx(132 / 16 / 16)


def test_what_fits_nowhere_is_an_error():
    with pytest.raises(ValueError, match="registers"):
        occupancy(H100, 255, 0, 32, 1)
    with pytest.raises(ValueError, match="shared"):
        occupancy(A100, 32, 200 * 1024, 4, 1)
