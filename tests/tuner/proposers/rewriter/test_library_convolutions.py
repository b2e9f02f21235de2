"""Convolutions, and products of tensors of more axes, that a launcher leaves to PyTorch."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("libcst")
from rewriting import HEADER, brief, variants

from solkit.tuner.proposers.rewriter._mutation import Facts
from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.library_products import LibraryProducts
from solkit.tuner.proposers.rewriter.product_fusion import FuseProducts

RELU = """
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


@triton.jit
def relu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, tl.maximum(x, 0.0), mask=at < n)
"""
ENDS = """
    y = torch.empty_like(h)
    relu[(triton.cdiv(h.numel(), 256),)](h, y, h.numel(), BLOCK=256)
    return y
"""
CONVOLUTION = (
    RELU
    + """

def reference(x, w, b):
    return torch.relu(torch.nn.functional.conv2d(x, w, b, (2, 1), padding=1, dilation=(1, 2)))


def inputs(N=2, C=3, K=5, H=9, W=12, device="cuda"):
    shapes = (N, C, H, W), (K, C, 3, 2), (K,)
    return tuple(torch.randn(*shape, device=device) for shape in shapes)


def kernel(x, w, b):
    h = torch.nn.functional.conv2d(x, w, b, (2, 1), padding=1, dilation=(1, 2))
"""
    + ENDS
)
ROWS = (
    RELU
    + """

def reference(x, w):
    return torch.relu(torch.nn.functional.linear(x, w))


def inputs(N=2, T=9, C=20, K=12, device="cuda"):
    return torch.randn(N, T, C, device=device), torch.randn(K, C, device=device)


def kernel(x, w):
    N, T, C = x.shape
    h = torch.nn.functional.linear(x, w)
"""
    + ENDS
)


def own_launches(source):
    plain = canonical_form(HEADER + source).removeprefix(HEADER)
    return variants(LibraryProducts(), plain)


def test_a_convolution_is_a_launch_that_takes_what_follows(is_right):
    (variant,) = own_launches(CONVOLUTION)
    text = parse_kernel(variant)
    fused = next(FuseProducts().variants(text, Facts(brief(CONVOLUTION))))
    assert len(parse_kernel(fused.source).single) == 1
    assert is_right(fused.source, CONVOLUTION)


@pytest.mark.parametrize(
    "new",
    [
        "x, w, b, (2, 1), padding='valid', dilation=(1, 2)",
        "x, w, b, (2, 1), padding=1, dilation=(1, 2), groups=3",
        "x, w, b, (2,), padding=1, dilation=(1, 2)",
        "x[0], w, b, (2, 1), padding=1, dilation=(1, 2)",
        "x, w * 2, b, (2, 1), padding=1, dilation=(1, 2)",
        "x.permute(0, 3, 1, 2), w, b, (2, 1), padding=1, dilation=(1, 2)",
    ],
)
def test_convolutions_of_which_too_little_is_known_stay(new):
    old = "x, w, b, (2, 1), padding=1, dilation=(1, 2)"
    assert not own_launches(CONVOLUTION.replace(old, new))


def test_images_whose_channels_come_last_keep_the_librarys_layout():
    (variant,) = own_launches(CONVOLUTION)
    guard = variant[variant.rindex("def kernel(") :].partition("kernel_otherwise(")[0]
    assert "x.is_contiguous()" in guard


@pytest.mark.parametrize(("pipe", "count"), [("fp32", 1), ("tensor.tf32", 0)])
def test_convolutions_on_tensor_cores_stay(pipe, count):
    requests = SimpleNamespace(operations={pipe: 1.0})
    launch = SimpleNamespace(library=True, name="aten.convolution")
    kernel = SimpleNamespace(launch=launch, facts=SimpleNamespace(requests=requests))
    route = SimpleNamespace(kind="fp32", route="tf32", is_accepted=True, rate=1.0)
    bound = SimpleNamespace(routes=[route], flops_by_pipe={})
    analysis = SimpleNamespace(kernels=(kernel,), own=())
    result = SimpleNamespace(gap=None, analysis=analysis, bound=bound)
    source = canonical_form(HEADER + CONVOLUTION)
    facts = Facts(replace(brief(CONVOLUTION), result=result))  # type: ignore[arg-type]
    assert len(list(LibraryProducts().variants(parse_kernel(source), facts))) == count


LAYER = (
    RELU
    + """

class ModelNew(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = torch.nn.Conv1d(channels, 7, 3, padding=1)

    def forward(self, x):
        h = self.conv(x)
"""
    + ENDS.replace("\n    ", "\n        ")
)


def test_a_layers_settings_are_asked_for_at_each_call():
    (variant,) = own_launches(LAYER)
    guard = variant[variant.index("if not (") : variant.index("return call_kernel_otherwise")]
    assert "conv.groups == 1" in guard
    assert "isinstance(conv.padding, tuple)" in guard
    assert not own_launches(LAYER.replace("padding=1", "padding=1, padding_mode='reflect'"))


def test_a_product_of_more_axes_is_that_of_all_rows(is_right):
    (variant,) = own_launches(ROWS)
    assert is_right(variant, ROWS)
