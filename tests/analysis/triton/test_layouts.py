"""Which thread holds which element, against the definitions by hand."""

from __future__ import annotations

import numpy as np
import pytest

from solkit.adapters.triton_ir import Layout, TensorType
from solkit.analysis.triton.layouts import tensor_spread


def blocked(per_thread, threads, warps, order):
    numbers = {"sizePerThread": per_thread, "threadsPerWarp": threads, "warpsPerCTA": warps}
    return Layout("blocked", tuple((numbers | {"order": order}).items()))


def mma(version, warps, shape):
    numbers = {"versionMajor": (version,), "warpsPerCTA": warps, "instrShape": shape}
    return Layout("nvidia_mma", tuple(numbers.items()))


def elements(layout, shape, distinct=False):
    return tensor_spread(TensorType(shape, "f32", layout)).elements(distinct)


def test_a_blocked_layout_walks_registers_then_lanes_then_warps():
    results = elements(blocked((2,), (32,), (4,), (0,)), (512,))
    warp, register, lane = np.indices((4, 4, 32))
    # a tile of 4 x 32 x 2 = 256 elements, which the registers repeat
    expected = (register // 2) * 256 + warp * 64 + lane * 2 + register % 2
    assert (results == expected).all()


def test_two_dimensions_and_their_order():
    results = elements(blocked((1, 4), (8, 4), (2, 1), (1, 0)), (16, 32))
    warp, register, lane = np.indices((2, 8, 32))
    row = warp * 8 + lane // 4
    column = (register // 4) * 16 + (lane % 4) * 4 + register % 4
    assert (results == row * 32 + column).all()


def test_small_tensors_are_held_several_times():
    layout = blocked((4,), (32,), (4,), (0,))
    results = elements(layout, (64,))
    assert results.shape == (4, 4, 32)
    assert (results[:, :, :16] == results[:1, :, 16:]).all()
    mine = elements(layout, (64,), distinct=True)
    assert sorted(mine[mine >= 0].tolist()) == list(range(64))


@pytest.mark.parametrize(("version", "shape"), [(2, (16, 8)), (3, (16, 32, 16))])
def test_accumulators_of_matrix_instructions(version, shape):
    results = elements(mma(version, (4, 1), shape), (64, 32))
    # PTX ISA, fragment of a 16 x 8 tile: row = lane / 4 (+ 8), column = lane % 4 * 2 (+ 1)
    for lane, register, row, column in ((0, 0, 0, 0), (5, 0, 1, 2), (5, 1, 1, 3), (5, 2, 9, 2)):
        assert results[0, register, lane] == row * 32 + column
        assert results[2, register, lane] == (32 + row) * 32 + column
    assert sorted(results.reshape(-1).tolist()) == list(range(64 * 32))


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
    results = elements(Layout("linear", bases=bases), (32, 4))
    warp, register, lane = np.indices((2, 2, 32))
    assert (results == lane * 4 + register * 2 + warp).all()


def test_an_unknown_layout_is_an_error():
    with pytest.raises(ValueError, match="not known: swizzled"):
        elements(Layout("swizzled"), (32,))
    with pytest.raises(ValueError, match="without a layout"):
        tensor_spread(TensorType((32,), "f32"))


def operand(side, width, parent):
    return Layout("dot_op", (("opIdx", (side,)), ("kWidth", (width,))), parent=parent)


def test_an_operand_of_a_matrix_instruction_is_as_ptx_has_it():
    # PTX ISA, "Matrix Fragments for mma.m16n8k16": two 16-bit values to a register
    first = elements(operand(0, 2, mma(2, (1, 1), (16, 8))), (16, 16))
    second = elements(operand(1, 2, mma(2, (1, 1), (16, 8))), (16, 8))
    for lane in range(32):
        group, within = divmod(lane, 4)
        for number in range(8):
            row = group + 8 * ((number // 2) % 2)
            assert first[0, number, lane] == row * 16 + within * 2 + number % 2 + 8 * (number // 4)
        for number in range(4):
            k = within * 2 + number % 2 + 8 * (number // 2)
            assert second[0, number, lane] == k * 8 + group


CASES = [
    (side, version, warps, width, shape)
    for version, warps in ((2, (4, 1)), (2, (2, 2)), (2, (1, 4)), (3, (4, 1)))
    for side in range(2 if version == 2 else 1)
    for width in (1, 2, 4)
    for shape in ((16, 16), (64, 32), (32, 128))
]


@pytest.mark.parametrize(("side", "version", "warps", "width", "shape"), CASES)
def test_operands_are_as_triton_has_them(side, version, warps, width, shape):
    ir = pytest.importorskip("triton._C.libtriton").ir
    gluon_ir = pytest.importorskip("triton._C.libtriton.gluon_ir")
    gluon = pytest.importorskip("triton.experimental.gluon.language")
    instruction = (16, 8) if version == 2 else (16, 64, 16)
    context = ir.context()
    ir.load_dialects(context)
    builder = gluon_ir.GluonOpBuilder(context)
    parent = gluon.NVMMADistributedLayout([version, 0], list(warps), list(instruction))
    theirs = builder.to_linear_layout(
        gluon.DotOperandLayout(side, parent, width)._to_ir(builder), list(shape)
    )
    ours = tensor_spread(
        TensorType(shape, "f16", operand(side, width, mma(version, warps, instruction)))
    )
    for own, other in ((ours.registers, "reg"), (ours.lanes, "lane"), (ours.warps, "warp")):
        assert [list(item) for item in own] == getattr(theirs, f"{other}_bases")
