"""Arguments that `triton.autotune` and `triton.heuristics` give stand where the launch is."""

from __future__ import annotations

import pytest

pytest.importorskip("libcst")
from rewriting import HEADER

from solkit.tuner.proposers.rewriter._nodes import render_code
from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form

SOURCE = """
def reference(x):
    return x * 2


def inputs(n=300, device="cuda"):
    return (torch.randn(n, device=device),)


def configs():
    \"\"\"Return what is tried.\"\"\"
    return [triton.Config({"B": 64}, num_warps=2), triton.Config({"B": 128})]


def is_even(args):
    return args["n"] % args["B"] == 0


@triton.autotune(configs=configs(), key=["n"], reset_to_zero=["out"])
@triton.heuristics({"EVEN": is_even, "HALF": lambda args: args["B"] // 2})
@triton.jit
def double(x, out, n, B: tl.constexpr, EVEN: tl.constexpr, HALF: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    if EVEN:
        tl.store(out + at, tl.load(x + at) * 2)
    else:
        tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


def kernel(x):
    out = torch.empty_like(x)
    n = x.numel()
    grid = lambda meta: (triton.cdiv(n, meta["B"]),)
    double[grid](x, out, n)
    return out
"""


def arguments(source):
    """Return the arguments of the only launch, and those that are options, as code."""
    text = parse_kernel(canonical_form(HEADER + source))
    (launch,) = text.launches
    assert launch.function.tuned is False
    return {n: render_code(v) for n, v in {**launch.arguments, **launch.options}.items()}


def test_the_first_configuration_and_what_heuristics_compute_are_arguments():
    assert arguments(SOURCE) == {
        **{"x": "x", "out": "out", "n": "n", "B": "64", "num_warps": "2"},
        **{"EVEN": "n % 64 == 0", "HALF": "64 // 2"},
    }


@pytest.mark.parametrize(
    "configs",
    [
        "[triton.Config({'B': b}, num_warps=w) for b in [64, 128] for w in (2, 4)]",
        "CONFIGS",
    ],
)
def test_configurations_stand_in_comprehensions_and_constants(configs):
    listed = 'CONFIGS = [triton.Config({"B": 64}, num_warps=2)]\n\n\n@triton.autotune'
    source = SOURCE.replace("@triton.autotune", listed).replace("=configs()", f"={configs}")
    assert arguments(source)["B"] == "64"


MADE = SOURCE.replace("=configs()", "=[triton.Config({'B': b}) for b in SIZES.values()]")
GOT = {"B": "32", "EVEN": "True", "HALF": "9", "num_warps": "1", "num_stages": "3"}


def as_launched(source):
    return canonical_form(HEADER + source, (), (("double", tuple(GOT.items())),))


def test_a_configuration_that_the_file_makes_otherwise_is_as_a_launch_got_it():
    (launch,) = parse_kernel(as_launched(MADE)).launches
    passed = {n: render_code(v) for n, v in {**launch.arguments, **launch.options}.items()}
    taken = {"B": "32", "num_warps": "1", "num_stages": "3"}
    assert passed.items() >= {**taken, "EVEN": "n % 32 == 0", "HALF": "32 // 2"}.items()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("key=[", "prune_configs_by={'early_config_prune': own}, key=["),  # not any at any size
        ("HALF: tl.constexpr)", "HALF: tl.constexpr, M: tl.constexpr)"),  # no launch got it
        ("@triton.autotune", "@mine.autotune"),
    ],
)
def test_configurations_that_a_launch_may_not_take_stay(old, new):
    assert old in MADE
    assert "autotune(" in as_launched(MADE.replace(old, new))


def test_a_launch_in_each_branch_gets_them():
    two = "if n > 9:\n        double[grid](x, out, n)\n    else:\n        double[grid](x, out, n)\n"
    source = SOURCE.replace("double[grid](x, out, n)\n", two)
    text = parse_kernel(canonical_form(HEADER + source))
    assert [render_code(launch.arguments["B"]) for launch in text.launches] == ["64", "64"]
    assert not text.single


def test_a_flag_of_the_launcher_decides_a_branch():
    one = "double[grid](x, out, n)\n"
    two = f"if debug:\n        print({one.strip()}.asm)\n    else:\n        {one}"
    source = SOURCE.replace(one, f"debug = False\n    {two}")
    assert "@triton.autotune(" in canonical_form(HEADER + source)  # one launch is in a call
    source = source.replace("print(double[grid](x, out, n).asm)", "pgm = double[grid](x, out, n)")
    assert arguments(source)["B"] == "64"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("double[grid](x, out, n)", "double[grid](x, out, n)\n    again = double"),
        ("key=[", "prune_configs_by={}, key=["),  # chooses among them
        ("configs=configs()", "configs=configs(64)"),
        ('"B": 64}', '"B": SIZE}'),
        ('args["B"] // 2', 'args["M"] // 2'),  # no argument
        ('args["B"] // 2', "max(args.values())"),
        ('args["B"] // 2', 'out(args["B"])'),  # the launcher has another meaning for it
        ("double[grid](x, out, n)", "double[grid](x, out, n, HALF=2)"),
        ("    return args", "    args = dict(args)\n    return args"),
        ("@triton.jit", "@traced\n@triton.jit"),
    ],
)
def test_what_decorators_decide_otherwise_stays(old, new):
    source = SOURCE.replace(old, new)
    assert source != SOURCE
    assert "@triton.autotune(" in canonical_form(HEADER + source)


def test_defaults_that_a_launch_leaves_out_are_arguments():
    source = """
@triton.jit
def add(x, y, n, by=1.5, other=None, B: tl.constexpr = 64):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < n) + by, mask=at < n)


def kernel(x):
    y, z = torch.empty_like(x), torch.empty_like(x)
    add[(9,)](x, y, x.numel())
    add[(9,)](y, z, x.numel(), B=32, num_warps=2)
    return z
"""
    text = parse_kernel(canonical_form(HEADER + source))
    one, two = (
        {n: render_code(v) for n, v in launch.arguments.items()} for launch in text.launches
    )
    assert {"by": "1.5", "B": "64"}.items() <= one.items()
    assert {"by": "1.5", "B": "32"}.items() <= two.items()
    assert "other" not in one
