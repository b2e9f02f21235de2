"""Convolutions: those that a launcher leaves to PyTorch, and those whose blocks are turned."""

from __future__ import annotations

import pytest

pytest.importorskip("libcst")
from rewriting import HEADER, brief, variants

from solkit.tuner.proposers.rewriter._mutation import Facts
from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.library_products import LibraryProducts
from solkit.tuner.proposers.rewriter.product_fusion import FuseProducts
from solkit.tuner.proposers.rewriter.turned_blocks import TurnedBlocks

LAYER = """
class Model(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = torch.nn.CONV

    def forward(self, x):
        return torch.relu(self.conv(x))


def get_inputs():
    return [torch.randn(SIZES)]


def get_init_inputs():
    return [3]


@triton.jit
def relu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, tl.maximum(x, 0.0), mask=at < n)


class ModelNew(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = torch.nn.CONV

    def forward(self, x):
        h = self.conv(x)
        y = torch.empty_like(h)
        relu[(triton.cdiv(h.numel(), 256),)](h, y, h.numel(), BLOCK=256)
        return y
"""
LAYERS = {
    "one axis, dilated": ("Conv1d(channels, 5, 3, dilation=2)", "2, 3, 19"),
    "padded, in steps": ("Conv2d(channels, 4, (3, 2), stride=2, padding=1)", "2, 3, 9, 8"),
    "three axes": ("Conv3d(channels, 4, 2, 1, bias=False)", "2, 3, 4, 5, 3"),
}


def own_convolutions(source):
    plain = canonical_form(HEADER + source).removeprefix(HEADER)
    return variants(LibraryProducts(), plain)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.quick(n)) for n in LAYERS])
def test_a_convolution_of_the_launcher_is_a_launch_that_takes_what_follows(name, is_right):
    layer, sizes = LAYERS[name]
    source = LAYER.replace("CONV", layer).replace("SIZES", sizes)
    (variant,) = own_convolutions(source)
    fused = next(FuseProducts().variants(parse_kernel(variant), Facts(brief(source))))
    assert len(parse_kernel(fused.source).single) == 1
    assert is_right(fused.source, source)


def test_a_wrong_launch_of_a_convolution_is_noticed(checker):
    layer, sizes = LAYERS["padded, in steps"]
    source = LAYER.replace("CONV", layer).replace("SIZES", sizes)
    (variant,) = own_convolutions(source)
    wrong = variant.replace("dilation_1)[:, None]) < size_1", "dilation_1)[:, None]) <= size_1")
    wrong = wrong.replace("row_1 < size_1", "row_1 <= size_1")
    assert wrong != variant
    assert checker.check(wrong, brief(source))[0].value == "wrong"


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
