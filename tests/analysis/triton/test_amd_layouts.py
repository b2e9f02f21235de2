"""Layouts of AMD's matrix cores against the linear layouts that Triton's own compiler makes."""

import itertools

import pytest

from solkit.adapters.triton_ir import Layout, TensorType
from solkit.analysis.triton.layouts import tensor_spread

gluon = pytest.importorskip("triton.experimental.gluon.language")
amd = pytest.importorskip("triton.experimental.gluon.language.amd")


@pytest.fixture(scope="module")
def builder():
    from triton._C.libtriton import amd as amd_library
    from triton._C.libtriton import gluon_ir, ir

    context = ir.context()
    ir.load_dialects(context)
    amd_library.load_dialects(context)
    built = gluon_ir.GluonOpBuilder(context)
    module = built.create_module()
    built.set_loc("a.py", 1, 1)
    yield built
    del module


def bases(layout, shape, builder):
    linear = builder.to_linear_layout(layout._to_ir(builder), list(shape))
    kinds = linear.reg_bases, linear.lane_bases, linear.warp_bases
    return tuple(tuple(map(tuple, kind)) for kind in kinds)


def ours(layout, shape):
    spread = tensor_spread(TensorType(tuple(shape), "f16", layout))
    return spread.registers, spread.lanes, spread.warps


def mfma(instruction, transposed, warps, tiles):
    numbers = {"version": (3,), "warpsPerCTA": warps, "instrShape": instruction}
    numbers |= {"isTransposed": (int(transposed),), "tilesPerWarp": tiles}
    return (
        Layout("amd_mfma", tuple(numbers.items())),
        amd.AMDMFMALayout(
            3, list(instruction), transposed, list(warps), tiles_per_warp=list(tiles)
        ),
    )


CASES = [
    *itertools.product(
        [(32, 32, 8), (16, 16, 16)],
        [False, True],
        [(2, 2), (1, 4), (8, 1)],
        [(1, 1), (2, 2)],
        [(128, 128), (64, 256), (32, 64)],
    )
]


@pytest.mark.parametrize(("instruction", "transposed", "warps", "tiles", "shape"), CASES)
def test_accumulators_lie_where_triton_puts_them(
    instruction, transposed, warps, tiles, shape, builder
):
    own, theirs = mfma(instruction, transposed, warps, tiles)
    (registers, *own_rest), (expected, *rest) = ours(own, shape), bases(theirs, shape, builder)
    assert own_rest == rest
    if tiles == (1, 1):  # else Triton's order depends on the shape
        assert registers == expected
    assert sorted(registers) == sorted(expected)


@pytest.mark.parametrize(("instruction", "transposed", "warps", "tiles", "shape"), CASES[::3])
@pytest.mark.parametrize(("side", "width"), [(0, 4), (1, 8)])
def test_operands_lie_where_triton_puts_them(
    instruction, transposed, warps, tiles, shape, side, width, builder
):
    parent, theirs = mfma(instruction, transposed, warps, tiles)
    numbers = (("opIdx", (side,)), ("kWidth", (width,)))
    own = Layout("dot_op", numbers, parent=parent)
    assert ours(own, shape) == bases(gluon.DotOperandLayout(side, theirs, width), shape, builder)
