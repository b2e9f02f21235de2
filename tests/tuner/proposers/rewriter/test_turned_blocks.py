"""Blocks that are accessed transposed, as those of convolutions whose rows are pixels."""

from __future__ import annotations

import pytest

pytest.importorskip("libcst")
from rewriting import HEADER, variants

from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.turned_blocks import TurnedBlocks

PIXELS = """
def reference(x, weight):
    return torch.nn.functional.conv2d(x, weight)


def inputs(device="cuda"):
    return torch.randn(2, 3, 9, 40, device=device), torch.randn(5, 3, 3, 3, device=device)


@triton.jit
def conv(x_ptr, w_ptr, y_ptr, C, O, H, W, HO, WO, P, BP: tl.constexpr, BK: tl.constexpr):
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    o = tl.arange(0, 16)
    image, pixel = p // (HO * WO), p % (HO * WO)
    row, column = pixel // WO, pixel % WO
    x_base = x_ptr + (image * C * H * W + row * W + column)[:, None]
    acc = tl.zeros((BP, 16), dtype=tl.float32)
    for k0 in range(0, C * 9, BK):
        k = k0 + tl.arange(0, BK)
        places = (k // 9 * H * W + k % 9 // 3 * W + k % 3)[None, :]
        mask = (p < P)[:, None] & (k < C * 9)[None, :]
        x = tl.load(x_base + places, mask=mask, other=0.0)
        w_mask = (o < O)[None, :] & (k < C * 9)[:, None]
        w = tl.load(w_ptr + o[None, :] * (C * 9) + k[:, None], mask=w_mask, other=0.0)
        acc += tl.dot(x, w, input_precision="ieee")
    place = (image * O * HO * WO + pixel)[:, None] + (o * HO * WO)[None, :]
    tl.store(y_ptr + place, acc, mask=(p < P)[:, None] & (o < O)[None, :])


def kernel(x, weight):
    y = torch.empty(2, 5, 7, 38, device=x.device)
    conv[(17,)](x, weight, y, 3, 5, 9, 40, 7, 38, 532, BP=32, BK=16)
    return y
"""


def turned(source):
    plain = canonical_form(HEADER + source).removeprefix(HEADER)
    return variants(TurnedBlocks(), plain)


def test_blocks_of_pixels_behind_quotients_are_accessed_turned(is_right):
    (variant,) = turned(PIXELS)
    assert variant.count("tl.trans(") == 2  # images and the result: taps show that they are next
    assert "tl.trans(acc)" in variant
    assert is_right(variant, PIXELS)


OTHERS = {
    "pixels apart": {"+ row * W + column": "+ (row * W + column) * 2"},
    "contiguity is seen": {
        "p // (HO * WO), p % (HO * WO)": "0, p",
        "pixel // WO, pixel % WO": "0, pixel",
    },
    "mask of one axis": {"(k < C * 9)[None, :]\n        x": "(k < C * 9)\n        x"},
    "number that becomes a block": {
        "    acc = tl.zeros": "    far = 0\n    acc = tl.zeros",
        "x = tl.load(x_base +": "far = tl.arange(0, BK) * 0\n        x = tl.load(x_base + far +",
    },
    "moved pointer": {"        x = tl": "        x_base += 0\n        x = tl"},
    "unknown size": {"3, 5, 9, 40, 7": "3, 5, weight.numel(), 40, 7"},
}


@pytest.mark.parametrize("name", OTHERS)
def test_loads_that_gain_nothing_or_are_not_understood_stay(name):
    source = PIXELS
    for old, new in OTHERS[name].items():
        assert old in source
        source = source.replace(old, new)
    assert not any("tl.trans(tl.load" in variant for variant in turned(source))


def test_a_name_that_stands_for_blocks_of_two_lengths_is_not_known():
    other = """
    for i in range(0, 2):
        k = i + tl.arange(0, 64)
        tl.store(y_ptr + k + tl.arange(0, 64), 0.0)
"""
    source = PIXELS.replace("    place = (image", f"{other}    place = (image")
    (variant,) = turned(source)
    assert variant.count("tl.trans(") == 1
    assert "tl.trans(acc)" in variant
