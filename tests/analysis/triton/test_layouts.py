"""Which thread holds which element, against the definitions by hand."""

from __future__ import annotations

import numpy as np
import pytest

from solkit.adapters.triton_ir import Layout, TensorType
from solkit.analysis.triton.layouts import spread


def blocked(per_thread, threads, warps, order):
    numbers = {"sizePerThread": per_thread, "threadsPerWarp": threads, "warpsPerCTA": warps}
    return Layout("blocked", tuple((numbers | {"order": order}).items()))


def mma(version, warps, shape):
    numbers = {"versionMajor": (version,), "warpsPerCTA": warps, "instrShape": shape}
    return Layout("nvidia_mma", tuple(numbers.items()))


def elements(layout, shape, distinct=False):
    return spread(TensorType(shape, "f32", layout)).elements(distinct)


def test_a_blocked_layout_walks_registers_then_lanes_then_warps():
    found = elements(blocked((2,), (32,), (4,), (0,)), (512,))
    warp, register, lane = np.indices((4, 4, 32))
    # a tile of 4 x 32 x 2 = 256 elements, which the registers repeat
    wanted = (register // 2) * 256 + warp * 64 + lane * 2 + register % 2
    assert (found == wanted).all()


def test_two_dimensions_and_their_order():
    found = elements(blocked((1, 4), (8, 4), (2, 1), (1, 0)), (16, 32))
    warp, register, lane = np.indices((2, 8, 32))
    row = warp * 8 + lane // 4
    column = (register // 4) * 16 + (lane % 4) * 4 + register % 4
    assert (found == row * 32 + column).all()


def test_small_tensors_are_held_several_times():
    layout = blocked((4,), (32,), (4,), (0,))
    found = elements(layout, (64,))
    assert found.shape == (4, 4, 32)
    assert (found[:, :, :16] == found[:1, :, 16:]).all()
    mine = elements(layout, (64,), distinct=True)
    assert sorted(mine[mine >= 0].tolist()) == list(range(64))


@pytest.mark.parametrize(("version", "shape"), [(2, (16, 8)), (3, (16, 32, 16))])
def test_accumulators_of_matrix_instructions(version, shape):
    found = elements(mma(version, (4, 1), shape), (64, 32))
    # PTX ISA, fragment of a 16 x 8 tile: row = lane / 4 (+ 8), column = lane % 4 * 2 (+ 1)
    for lane, register, row, column in ((0, 0, 0, 0), (5, 0, 1, 2), (5, 1, 1, 3), (5, 2, 9, 2)):
        assert found[0, register, lane] == row * 32 + column
        assert found[2, register, lane] == (32 + row) * 32 + column
    assert sorted(found.reshape(-1).tolist()) == list(range(64 * 32))


def test_a_slice_drops_a_dimension():
    parent = blocked((1, 4), (8, 4), (2, 1), (1, 0))
    rows = elements(Layout("slice", (("dim", (1,)),), parent=parent), (16,))
    warp, _, lane = np.indices(rows.shape)
    assert (rows == warp * 8 + lane // 4).all()
    assert rows.shape == (2, 1, 32)  # registers that held the same element are one
    columns = elements(Layout("slice", (("dim", (0,)),), parent=parent), (16,))
    _, register, lane = np.indices(columns.shape)
    assert (columns == (lane % 4) * 4 + register).all()


def test_a_linear_layout_is_its_bases():
    bases = (
        ("register", ((0, 2),)),
        ("lane", ((1, 0), (2, 0), (4, 0), (8, 0), (16, 0))),
        ("warp", ((0, 1),)),
    )
    found = elements(Layout("linear", bases=bases), (32, 4))
    warp, register, lane = np.indices((2, 2, 32))
    assert (found == lane * 4 + register * 2 + warp).all()


def test_an_unknown_layout_is_an_error():
    with pytest.raises(ValueError, match="not known: swizzled"):
        elements(Layout("swizzled"), (32,))
    with pytest.raises(ValueError, match="without a layout"):
        spread(TensorType((32,), "f32"))
