"""Methods and layers that a model's `forward` calls are read as functions."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("libcst")
from rewriting import HEADER

from solkit.tuner.proposers.rewriter._nodes import render_code, render_module
from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form

MODEL = """
class Scale(torch.nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x, shift=0.0):
        return launch(x) * self.by + shift


class Block(torch.nn.Module):
    def __init__(self, by):
        super().__init__()
        self.scale = Scale(by)
        self.weight = torch.nn.Parameter(torch.arange(3.0))

    def forward(self, x):
        x = x + self.weight
        return self.scale(x, shift=1.0)


class ModelNew(torch.nn.Module):
    def __init__(self, by):
        super(ModelNew, self).__init__()
        self.block = Block(by)
        self.model = 5.0

    @staticmethod
    def halved(x):
        return x / 2

    def joined(self, x, y):
        return self.halved(x) + y * self.model

    def forward(self, x):
        y = self.block(x)
        return self.joined(x, y) + self.model


def launch(x):
    return x * x
"""


def run(source, by=2.0):
    own = {"torch": torch}
    exec(compile(source.replace(HEADER, ""), "model.py", "exec"), own)
    return own["ModelNew"](by)(torch.arange(6.0).reshape(2, 3))


def test_methods_and_layers_become_functions_that_compute_the_same():
    source = canonical_form(HEADER + MODEL)
    assert "self.block(x)" not in source
    assert "self.joined(" not in source
    assert torch.equal(run(source), run(MODEL))


LAUNCHING = (
    """
@triton.jit
def square(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

"""
    + MODEL.split("def launch")[0]
    + """
def launch(x):
    out = torch.empty_like(x)
    square[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), B=64)
    return out
"""
)


def test_the_launch_of_a_layer_within_a_layer_is_one_of_kernel():
    text = parse_kernel(canonical_form(HEADER + LAUNCHING))
    (launch,) = text.single
    assert launch.launcher.name.value == "kernel"
    assert [render_code(axis) for axis in launch.axes] == ["triton.cdiv(x_3.numel(), 64)"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    return launch(x) * self", "    self.seen = 1\n        return launch(x) * self"),
        ("    return launch(x) * self", "    return len(super().__repr__()) * self"),
        ("    def forward(self, x, shift", "    @torch.no_grad()\n    def forward(self, x, shift"),
        ("self.scale = Scale(by)", "self.scale = Scale(by)\n        self.scale = Scale(1)"),
        ("self.scale = Scale(by)", "self.scale = Scale(by) if by else Scale(1)"),
        ("class Scale(torch.nn.Module)", "class Scale(torch.nn.Linear)"),
    ],
    ids=["sets", "super", "decorated", "bound twice", "chosen", "another base"],
)  # fmt: skip
def test_a_layer_that_needs_more_of_itself_stays_a_layer(old, new):
    assert MODEL.count(old) == 1
    source = canonical_form(HEADER + MODEL.replace(old, new))
    assert "Scale_forward" not in source
    assert "self.scale(x, shift" in source


ARGUMENT = """
@triton.jit
def square(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


def started(fn, x, block):
    out = torch.empty_like(x)
    fn[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), B=block)
    return out, x


def kernel(x):
    return started(square, x, 64)[0]


def test_run(x):
    square[(1,)](x, x, x.numel(), B=128)
"""


def test_a_launcher_that_is_given_the_function_is_inlined_with_its_tuple():
    text = parse_kernel(canonical_form(HEADER + ARGUMENT))
    (launch,) = text.single
    assert launch.launcher.name.value == "kernel"
    assert "return (out, x)[0]" in render_code(text.launcher)


def test_a_function_that_a_test_launches_too_has_a_copy_for_the_test():
    source = ARGUMENT + "\n\nTESTS = [test_run]\n"
    text = parse_kernel(canonical_form(HEADER + source))
    assert sorted(launch.function.name for launch in text.launches) == ["square", "square_2"]
    assert [launch.function.name for launch in text.single] == ["square"]
    assert "square_2[(1,)](x, x" in render_module(text.tree)


TUNED_LAYER = (
    LAUNCHING.replace(
        "@triton.jit", "@triton.autotune([triton.Config({'B': 64})], [])\n@triton.jit"
    )
    .replace(", B=64)", ")")
    .replace("(triton.cdiv(x.numel(), 64),)", "lambda meta: (triton.cdiv(x.numel(), meta['B']),)")
)


def test_a_method_whose_launch_is_also_in_kernel_keeps_its_function_and_configurations():
    method = TUNED_LAYER.split("def launch(x):")[1].replace("\n    ", "\n        ")
    own = TUNED_LAYER.split("\ndef launch")[0].replace(
        "        return launch(x) * self.by + shift",
        f"{method.rstrip().rsplit('return', 1)[0][1:]}return out * self.by + shift",
    )
    source = canonical_form(HEADER + own)
    text = parse_kernel(source)
    (launch,) = text.single
    assert launch.function.name == "square"
    assert render_code(launch.arguments["B"]) == "64"
    assert source.count("@triton.autotune(") == 1  # of the copy that the method launches
    assert "square_2[lambda meta:" in source


EARLY = """
@triton.jit
def square(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


def started(x):
    if x.numel() == 0:
        return x
    out = torch.empty_like(x)
    square[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), B=64)
    if x.dim() > 5:
        return out.reshape(-1)
    return out


def kernel(x):
    return started(x)
"""


def test_a_launcher_that_returns_early_is_inlined_where_its_value_is_returned():
    text = parse_kernel(canonical_form(HEADER + EARLY))
    (launch,) = text.single
    assert launch.launcher.name.value == "kernel"
    code = render_code(text.launcher)
    assert code.count("return") == 3
    assert "None" not in code


@pytest.mark.parametrize("use", ["y = started(x)\n    return y", "return started(x) + 1"])
def test_a_launcher_that_returns_early_stays_where_more_is_done(use):
    text = parse_kernel(canonical_form(HEADER + EARLY.replace("return started(x)", use)))
    assert "started(x)" in render_code(text.launcher)
