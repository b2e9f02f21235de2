"""Arguments of a launch that Python unpacks."""

from __future__ import annotations

import pytest
from rewriting import HEADER

from solkit.tuner.proposers.rewriter._nodes import render_code
from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form

FILE = """
@triton.jit
def copy(x_ptr, y_ptr, sxm, sxn, sym, syn, M, N: tl.constexpr):
    at = tl.program_id(0) * sxm + tl.arange(0, N) * sxn
    tl.store(y_ptr + tl.program_id(0) * sym + tl.arange(0, N) * syn, tl.load(x_ptr + at))


def kernel(x):
    M, N = x.shape
    y = torch.empty((M, N), device=x.device)
    copy[(M,)](x, y, *x.stride(), *y.stride(), M, N=N)
    return y
"""


def arguments(source):
    (launch,) = parse_kernel(canonical_form(HEADER + source)).launches
    codes = [render_code(value) for value in launch.arguments.values()]
    return [code.replace("x_2", "x") for code in codes]  # a name that is bound again is another


PLAIN = ["x", "y", *(f"{t}.stride({i})" for t in "xy" for i in (0, 1)), "M", "N"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("torch.empty((M, N), device=x.device)", "torch.empty_like(x)"),
        ("torch.empty((M, N), device=x.device)", "torch.empty(M, N, device=x.device)"),
        ("torch.empty((M, N), device=x.device)", "x.clone()"),  # the parameters that are left
    ],
)
def test_strides_are_written_out(old, new):
    assert arguments(FILE.replace(old, new) if old else FILE) == PLAIN


def test_sizes_are_written_out():
    source = FILE.replace("*y.stride(), M, N=N", "*y.shape, M, N=N")
    assert arguments(source) == [*PLAIN[:4], "y.shape[0]", "y.shape[1]", "M", "N"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("*x.stride()", "*strides"),
        ("*x.stride(), *y.stride(), M, N=N", "*x.stride(), *y.stride(), **sizes"),
    ],
)
def test_what_is_not_known_stays(old, new):
    assert FILE.count(old) == 1
    assert not parse_kernel(canonical_form(HEADER + FILE.replace(old, new))).launches


UNKNOWN = FILE.replace("M, N = x.shape", "M, N = len(x), 4").replace("*y.stride()", "N, 1")
assert UNKNOWN != FILE


def test_a_tensor_that_gets_another_number_of_axes_stays():
    source = FILE.replace("M, N = x.shape", "B, M, N = x.shape\n    x = x.reshape(-1, N)")
    assert arguments(source) == PLAIN  # not three: as many as there are parameters


def test_a_tensor_that_is_only_copied_has_its_axes():
    source = FILE.replace("M, N = x.shape", "M, N = x.shape\n    x = x.contiguous()")
    assert arguments(source) == PLAIN


def test_parameters_that_are_tuned_take_no_axis():
    tuned = "@triton.autotune([triton.Config({'N': 32})], key=['m'])\n@triton.jit\ndef copy"
    source = UNKNOWN.replace("@triton.jit\ndef copy", tuned).replace(", M, N=N", ", M")
    assert arguments(source)[:3] == ["x", "y", "x.stride(0)"]
    assert "x.stride(2)" not in arguments(source)
    hidden = source.replace("[triton.Config({'N': 32})]", "configs()")
    assert not parse_kernel(canonical_form(HEADER + hidden)).launches


def test_parameters_that_may_be_left_out_leave_the_number_open():
    source = UNKNOWN.replace("N: tl.constexpr", "N: tl.constexpr, EVEN: tl.constexpr = False")
    assert source != UNKNOWN
    assert not parse_kernel(canonical_form(HEADER + source)).launches


THREE = FILE.replace("x_ptr, y_ptr, sxm, sxn,", "x_ptr, b_ptr, y_ptr, sxm, sxn, sbm, sbn,")
THREE = THREE.replace("def kernel(x):", "def kernel(x, b):").replace("(x, y, *x", "(x, b, y, *x")
THREE = THREE.replace("*x.stride(), *y", "*x.stride(), *b.stride(), *y")


def test_tensors_that_say_nothing_share_the_parameters_that_are_left():
    """Were they unlike, one would not have the axis that it is asked for."""
    unsaid = THREE.replace("torch.empty((M, N), device=x.device)", "x.clone()")
    strides = [f"{t}.stride({i})" for t in "xby" for i in (0, 1)]
    assert arguments(unsaid) == ["x", "b", "y", *strides, "M", "N"]


def test_parameters_that_do_not_divide_say_nothing():
    unsaid = THREE.replace("torch.empty((M, N), device=x.device)", "torch.relu(x)")
    unsaid = unsaid.replace("sbm, sbn,", "sbm, sbn, sbk,")
    assert not parse_kernel(canonical_form(HEADER + unsaid)).single


def test_recorded_launches_tell_axes_that_the_launcher_does_not():
    unlike = FILE.replace("sym, syn, M", "syb, sym, syn, M").replace(
        "M, N = x.shape\n    y = torch.empty((M, N), device=x.device)", "M, N, y = made(x)"
    )
    recorded = (("copy", "x_ptr"), 2), (("copy", "y_ptr"), 3)
    text = canonical_form(HEADER + unlike, recorded)
    assert "x.stride(0), x.stride(1), y.stride(0), y.stride(1), y.stride(2), M" in text
