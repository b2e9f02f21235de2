"""Models in KernelBench's form are rewritten, and hand parameters on."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("libcst")
from rewriting import HEADER

from solkit.tuner.proposers.rewriter._nodes import render_module
from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.tile_constants import lifted_constants

MODEL = """
def shifted(x, by):
    return x + by


class ModelNew(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.linear = torch.nn.Linear(3, 3)

    def helper(self, x):
        return x

    def forward(self, x, bias=1.0):
        y = self.linear(x) * self.scale
        return shifted(y, bias) + self.linear.weight.sum() * self.scale
"""


def names(text):
    namespace = {"torch": torch}
    exec(compile(text.replace(HEADER, ""), "model.py", "exec"), namespace)
    return namespace


def models(text):
    built = []
    for source in (text, canonical_form(HEADER + text)):
        torch.manual_seed(0)
        built.append(names(source)["ModelNew"](2.0))
    return built


def test_what_a_model_does_is_a_function_that_gets_its_attributes():
    source = canonical_form(HEADER + MODEL)
    assert parse_kernel(source) is not None
    before, after = models(MODEL)
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(before(x), after(x))
    assert torch.equal(before(x, bias=4.0), after(x, bias=4.0))


def test_parameters_reach_the_function():
    source = canonical_form(HEADER + MODEL)
    head = next(line for line in source.splitlines() if line.startswith("def kernel("))
    own = names(source.replace(head, head.replace("):", ", *, BLOCK=1):")))
    seen = []
    own["kernel"].__globals__["shifted"] = lambda *_: seen.append(True) or 0.0
    assert own["ModelNew"](2.0)(torch.ones(1, 3), BLOCK=8) is not None
    assert seen == [True]
    with pytest.raises(TypeError, match="WIDTH"):
        own["ModelNew"](2.0)(torch.ones(1, 3), WIDTH=8)


def test_an_attribute_whose_name_is_taken_gets_another():
    clash = MODEL.replace("self.scale", "self.shifted")
    before, after = models(clash)
    x = torch.ones(2, 3)
    assert torch.equal(before(x), after(x))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y = self.linear(x)", "self.seen = x\n        y = self.linear(x)"),
        ("y = self.linear(x)", "self.count += 1\n        y = self.linear(x)"),
        ("self.linear(x)", "shifted(x, by=self)"),
        ("x, bias=1.0", "*x, bias=1.0"),
        ("return x + by", "return F.pad(x, kernel=by)\n\n\ndef kernel(x):\n    return x"),
    ],
)
def test_a_model_that_needs_more_of_itself_stays(old, new):
    source = HEADER + MODEL.replace(old, new)
    assert canonical_form(source) == source


def test_another_function_called_kernel_gets_another_name():
    clash = MODEL.replace("shifted", "kernel")
    before, after = models(clash)
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(before(x, bias=4.0), after(x, bias=4.0))
    assert "**params" in canonical_form(HEADER + clash)


HANDED = """
def kernel(x, *, BLOCK=1):
    return x * BLOCK


class ModelNew(torch.nn.Module):
    def forward(self, x, BLOCK=2):
        return kernel(x, BLOCK=BLOCK)
"""


def test_a_model_that_hands_parameters_on_by_name_stays():
    assert canonical_form(HEADER + HANDED) == HEADER + HANDED


RUN = """
BLOCK = 2


@triton.jit
def kernel(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at))


def launch(x, y):
    kernel[(x.numel() // BLOCK,)](x, y, BLOCK)


@torch.no_grad()
def run(x: torch.Tensor, y: torch.Tensor, scale=1.0) -> None:
    return launch(x, y)
"""


def test_what_a_solution_does_is_a_function_and_run_keeps_its_signature_and_decorators():
    text = parse_kernel(canonical_form(HEADER + RUN))
    (launch,) = text.launches
    assert (launch.launcher.name.value, launch.function.name) == ("kernel", "kernel_2")
    lines = render_module(text.tree).splitlines()
    place = lines.index("def run(x: torch.Tensor, y: torch.Tensor, scale=1.0, **params) -> None:")
    assert lines[place - 1] == "@torch.no_grad()"
    assert lines[place + 1].strip() == "return kernel(x, y, scale, **params)"
    assert not any(line.startswith("def launch") for line in lines)  # nothing calls it any more


def test_a_solution_in_the_form_stays():
    source = canonical_form(HEADER + RUN)
    assert canonical_form(source) == source


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BLOCK = 2", "def reference(x):\n    return x"),  # `run` is a helper of a kernel file
        ("BLOCK = 2", "LAUNCH = {}"),
        ("x: torch.Tensor, y: torch.Tensor", "*tensors"),
    ],
)
def test_other_functions_called_run_stay(old, new):
    assert "**params" not in canonical_form(HEADER + RUN.replace(old, new))


NATIVE = """
@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


class ModelNew(torch.nn.Module):
    def __init__(self, block=64):
        super().__init__()
        if block % 16:
            raise ValueError("a block of whole vectors, please")
        self.block = block
        self.OPTION = 1

    def forward(self, x):
        y = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), self.block),)
        double[grid](x, y, x.numel(), BLOCK=self.block, OPTION=self.OPTION)
        return y


def reference(x):
    return x * 2


def inputs(n=300, device="cuda"):
    return (torch.randn(n, device=device),)


def kernel(x):
    return ModelNew(32)(x)
"""
PROBLEM = NATIVE[NATIVE.index("def reference") : NATIVE.index("def kernel")]


@pytest.mark.parametrize("option", ["num_warps", "num_stages", "num_ctas", "maxnreg"])
def test_a_native_kernel_keeps_its_arguments_though_a_model_launches_for_it(option, is_right):
    source = NATIVE.replace("OPTION", option)
    text = parse_kernel(lifted_constants(parse_kernel(canonical_form(HEADER + source))))
    assert [param.name.value for param in text.launcher.params.params] == ["x"]
    assert text.launcher.params.kwonly_params  # what can be tuned
    assert [launch.launcher.name.value for launch in text.single] == ["kernel"]
    assert is_right(render_module(text.tree), source, n=300)


@pytest.mark.parametrize(
    ("of_problem", "kernel"),
    [
        ("from problem import inputs, reference\n\n\n", "return ModelNew(32)(x)"),
        ("", "return ModelNew(32)(x)"),  # the problem is another file
        ("MODEL = ModelNew(32)\n\n\n", "return MODEL(x)"),
        ("def built():\n    return ModelNew(32)\n\n\n", "return built()(x)"),
    ],
)
def test_a_kernel_that_leads_to_a_model_is_what_is_measured(of_problem, kernel):
    source = NATIVE.replace(PROBLEM, of_problem).replace("return ModelNew(32)(x)", kernel)
    text = canonical_form(HEADER + source.replace("OPTION", "num_warps"))
    assert "def kernel(x):" in text
    assert "**params" not in text
