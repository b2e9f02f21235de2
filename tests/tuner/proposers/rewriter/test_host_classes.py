"""Classes that only launch are read as functions."""

import pytest
import torch
from rewriting import HEADER

from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.entry_points import entry_point

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


def test_attributes_may_be_set_together():
    together = "def __init__(self, block=64, n=2):\n        self.block, self.n = block, n"
    alone = "def __init__(self, block=64):\n        self.block = block"
    assert launches(CALLED.replace(alone, together)) == [("double", "kernel")]
    crossed = together.replace("= block, n", "= n, self.block")
    assert launches(CALLED.replace(alone, crossed)) != [("double", "kernel")]


@pytest.mark.parametrize(
    "kernel",
    [
        "kernel = lambda x: Doubling(block=32)(x)",
        "def run_it(x, n=1):\n    return Doubling(block=32)(x)\n\n\nkernel = run_it",
        "kernel = (lambda x: Doubling(block=32).\n    forward(x))",
    ],
)
def test_a_kernel_that_is_a_lambda_or_another_functions_name_is_read(kernel, is_right):
    source = CALLED[: CALLED.index("def kernel")] + kernel + "\n"
    source = source.replace("__call__", "forward") if "forward" in kernel else source
    assert launches(source) == [("double", "kernel")]
    assert is_right(canonical_form(HEADER + source), source, n=300)
    assert entry_point(source, "k.py", {}) is not None


@pytest.mark.parametrize(
    "checks",
    [
        "if block < least:\n            raise ValueError(f'{block} is too small')",
        "assert block >= least, str(block)",
    ],
)
def test_checks_of_an_objects_arguments_are_made_where_it_is_called(checks, is_right):
    checked = f"{checks}\n        self.block = block"
    source = CALLED.replace("block=64)", "block, least=16)").replace("self.block = block", checked)
    assert launches(source) == [("double", "kernel")]
    assert is_right(canonical_form(HEADER + source), source, n=300)
    of_size = canonical_form(HEADER + source.replace("block=32", "x.numel()"))
    names = {}
    exec(of_size.replace("@triton.jit\n", ""), names)
    with pytest.raises((ValueError, AssertionError), match="15"):
        names["kernel"](torch.ones(15))


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        (CALLED, "self.block = block", "assert permitted(block)\n        self.block = block"),
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


OF_A_TENSOR = (
    KERNEL
    + """
class Doubling:
    block = 64

    def __init__(self, values, parts=None):
        self.values = values

    def __call__(self, rows):
        y = torch.empty_like(self.values)
        n = rows * self.values.numel()
        double[(triton.cdiv(n, self.block),)](self.values, y, n, B=self.block)
        return y


def kernel(x):
    return Doubling(x)(1)
"""
)


@pytest.mark.parametrize(
    "call",
    [
        "return Doubling(x)(1)",
        "return Doubling(x, 3)(rows=1)",
        "return Doubling(parts=3, values=x)(1)",
        "double_it = Doubling(x)\n    return double_it(1)",
        "double_it = Doubling(x)\n    double_it(1)\n    return double_it(1)",
    ],
)
def test_arguments_by_place_constants_of_the_class_and_names_of_objects(call, is_right):
    source = OF_A_TENSOR.replace("return Doubling(x)(1)", call)
    read = canonical_form(HEADER + source)
    assert {name.partition("_")[0] for name, _ in launches(source)} == {"double"}
    assert {launcher for _, launcher in launches(source)} == {"kernel"}
    assert "Doubling(" not in read
    assert "double_it" not in read
    assert is_right(read, source, n=300)


def test_an_object_of_the_module_is_called():
    source = CALLED.replace("def kernel", "doubling = Doubling(32)\n\n\ndef kernel")
    source = source.replace("Doubling(block=32)(x)", "doubling(x)")
    assert launches(source) == [("double", "kernel")]


@pytest.mark.parametrize(
    "call",
    [
        "op = Doubling(x)\n    x = x + 1\n    return op(1)",  # of another tensor
        "op = Doubling(x)\n    op.values = x + 1\n    return op(1)",
        "op = Doubling(x)\n    if x.numel() > 5:\n        op = max\n    return op(1)",
        "op = Doubling(x.clone())\n    return op(1) + op(1)",
        "return Doubling(*[x])(1)",
        "return Doubling(x, 1, 2)(1)",
    ],
)
def test_an_object_that_may_be_another_one_stays(call):
    source = OF_A_TENSOR.replace("return Doubling(x)(1)", call)
    assert "Doubling(x" in canonical_form(HEADER + source) or "Doubling(*" in source
    assert launches(source) == []
