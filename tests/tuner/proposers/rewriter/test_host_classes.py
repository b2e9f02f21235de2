"""Classes that only launch are read as functions."""

import pytest
from rewriting import HEADER

from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form

KERNEL = """
def reference(x):
    return x * 2


def inputs(n=300, device="cuda"):
    return (torch.randn(n, device=device),)


@triton.jit
def double(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

"""
AUTOGRAD = (
    KERNEL
    + """
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        double[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), B=64)
        ctx.save_for_backward(x, y)
        ctx.n = x.numel
        return y

    @staticmethod
    def backward(ctx, dy):
        return dy * 2


def kernel(x):
    return Double.apply(x)
"""
)
CALLED = (
    KERNEL
    + """
class Doubling:
    def __init__(self, block=64):
        self.block = block

    def __call__(self, x):
        y = torch.empty_like(x)
        double[(triton.cdiv(x.numel(), self.block),)](x, y, x.numel(), B=self.block)
        return y


def kernel(x):
    return Doubling(block=32)(x)
"""
)


def launches(source):
    text = parse_kernel(canonical_form(HEADER + source))
    return [(launch.function.name, launch.launcher.name.value) for launch in text.launches]


@pytest.mark.parametrize("source", [AUTOGRAD, CALLED])
def test_a_class_that_launches_becomes_a_function(source, is_right):
    assert launches(source) == [("double", "kernel")]
    assert is_right(canonical_form(HEADER + source), source, n=300)


def test_arguments_of_the_object_are_kept():
    assert "own_at_block = 32" in canonical_form(HEADER + CALLED)


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        (AUTOGRAD, "return Double.apply(x)", "y = Double.apply(x)\n    y.backward()\n    return y"),
        (AUTOGRAD, "ctx.n = x.numel", "ctx.n = x.numel\n        y += ctx.n"),
        (CALLED, "self.block = block", "self.block = block\n        self.calls = count()"),
        (CALLED, "return y\n", "self.block = 1\n        return y\n"),
        (CALLED, "        return y\n", "        return self.scaled(y)\n"),
    ],
)
def test_a_class_that_does_more_stays(source, old, new):
    changed = source.replace(old, new)
    assert changed != source
    assert canonical_form(HEADER + changed) == HEADER + changed
