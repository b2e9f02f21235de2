from __future__ import annotations

import math

import pytest
import torch

from solkit.core import Tolerance, default_tolerance
from solkit.measure.checking import tolerance as module
from solkit.measure.checking.exact import Exact
from solkit.measure.checking.tolerance import Standard, compare_outputs, is_explained

INF, NAN = math.inf, math.nan


def differs(got, want, tolerance=None):
    return compare_outputs([torch.tensor(got)], [torch.tensor(want)], tolerance).errors


def test_equal_outputs():
    out = torch.randn(7, 5)
    assert compare_outputs([out, out > 0], [out.clone(), out > 0]).errors == ()


@pytest.mark.parametrize(
    ("dtype", "inside", "outside"),
    [
        # want is 1, so the limit is atol + rtol = twice the default
        (torch.float64, 1.9e-7, 2.1e-7),
        (torch.float32, 1.9e-4, 2.1e-4),
        (torch.float16, 1.9e-2, 2.2e-2),
        (torch.bfloat16, 0.0156, 0.0235),
        (torch.float8_e4m3fn, 0.25, 0.375),
    ],
)
def test_default_tolerances(dtype, inside, outside):
    want = torch.ones(3, dtype=dtype)
    near = (torch.ones(3, dtype=torch.float64) + inside).to(dtype)
    far = (torch.ones(3, dtype=torch.float64) + outside).to(dtype)
    assert compare_outputs([near], [want]).errors == ()
    assert compare_outputs([far], [want]).errors


def test_tolerance_is_the_sum_of_both_parts():
    limit = Tolerance(rtol=0.1, atol=1.0)
    assert not differs([101.0 + 9.9], [100.0], limit)  # 10.9 <= 1 + 10
    assert differs([111.1], [100.0], limit)
    assert not differs([0.99], [0.0], limit)
    assert differs([1.01], [0.0], limit)


def test_some_elements_may_be_off_where_the_file_says_so():
    want, got = torch.ones(100), torch.ones(100)
    got[7] = 5.0
    assert not compare_outputs([got], [want], Tolerance(0.0, 0.1, matched=0.99)).errors
    assert compare_outputs([got], [want], Tolerance(0.0, 0.1, matched=0.995)).errors
    for stray in (NAN, INF):
        got[7] = stray
        assert compare_outputs([got], [want], Tolerance(0.0, 0.1, matched=0.5)).errors


def test_an_absolute_tolerance_grows_with_outputs_of_other_inputs():
    want = torch.tensor([30.0, -30.0])  # 10 times what the file's own inputs make
    for error, accepted in [(0.9, True), (1.1, False)]:
        for usual, right in [((3.0,), accepted), (None, False)]:
            judged = Standard([want], Tolerance(0.0, 0.1), usual_levels=usual)
            assert (not judged.compare([want + error]).errors) == right
    # smaller outputs keep it, up to a quarter of their size
    small = Standard([want / 100], Tolerance(0.0, 0.1), usual_levels=(3.0,))
    assert not small.compare([want / 100 + 0.07]).errors
    assert small.compare([want / 100 + 0.08]).errors


def test_a_check_that_rejects_has_the_last_word_on_the_files_own_inputs_alone():
    want = torch.tensor([1.0, INF])

    def check(got, _):
        assert bool(got.isfinite().all())

    for usual, right in [(None, False), ((1.0,), True)]:
        judged = Standard([want], check=check, usual_levels=usual)
        assert (not judged.judge([want.clone()]).errors) == right
        assert judged.judge([want + torch.tensor([1.0, 0.0])]).errors


def test_integers_and_bools_are_exact_whatever_the_tolerance():
    wide = Tolerance(1.0, 100.0)
    assert differs([1, 2, 3], [1, 2, 4], wide)
    assert differs([True, False], [True, True], wide)
    assert not differs([1, 2], [1, 2], wide)


def test_large_integers_are_told_apart_beyond_doubles():
    assert differs([2**53 + 1], [2**53])


@pytest.mark.parametrize(
    ("got", "want", "right"),
    [
        (NAN, NAN, True),
        (NAN, 1.0, False),
        (1.0, NAN, False),
        (INF, INF, True),
        (-INF, INF, False),
        (1.0, INF, False),
        (INF, 1.0, False),
        (NAN, INF, False),
        (3e38, INF, False),
    ],
)
def test_nan_and_infinity(got, want, right):
    errors = differs([0.0, got], [0.0, want], Tolerance(rtol=0.5, atol=0.5))
    assert (not errors) == right


def test_max_error_is_the_largest_finite_one():
    result = compare_outputs([torch.tensor([1.0, NAN, 5.0])], [torch.tensor([1.0, 2.0, 2.0])])
    assert result.max_error == 3.0


def test_message_says_where_and_how_much():
    want = torch.zeros(4, 5)
    got = want.clone()
    got[2, 3], got[1, 1] = 2.5, 0.5
    (error,) = compare_outputs([want, got], [want, want]).errors
    assert error == (
        "output 1: 2 of 20 elements (10 %) differ by over 0.0001 + 0.0001*|want|; the worst at "
        "[2, 3]: got 2.5, expected 0; largest error 2.5"
    )


def test_message_counts_stray_nans():
    (error,) = differs([NAN, NAN, 1.0], [NAN, 1.0, 1.0])
    assert "1 of 3 elements" in error
    assert "1 of them NaN where the reference is not" in error
    assert "the worst at [1]: got nan, expected 1" in error


def test_chunks_change_nothing(monkeypatch):
    want = torch.zeros(1000)
    got = want.clone()
    got[[3, 500, 999]] = torch.tensor([1.0, 4.0, 2.0])
    whole = compare_outputs([got], [want])
    monkeypatch.setattr(module, "_CHUNK", 64)
    assert compare_outputs([got], [want]) == whole
    assert "[500]" in whole.errors[0]


def test_layout_does_not_matter_but_form_does():
    want = torch.randn(6, 4)
    assert compare_outputs([want.t().contiguous().t()], [want]).errors == ()
    assert compare_outputs([want.reshape(4, 6)], [want]).errors == (
        "output 0: shape (4, 6) where the reference has (6, 4)",
    )
    assert compare_outputs([want.double()], [want]).errors == (
        "output 0: dtype torch.float64 where the reference has torch.float32",
    )
    assert compare_outputs([want, want], [want]).errors == ("2 output(s); the reference has 1",)


def test_complex_outputs():
    want = torch.tensor([1 + 2j, 3 - 1j])
    assert compare_outputs([want.clone()], [want]).errors == ()
    (error,) = compare_outputs([torch.tensor([1 + 2j, 3 + 1j])], [want]).errors
    assert "1 of 2 elements" in error
    assert "[1]" in error


def test_empty_and_scalar_outputs():
    assert compare_outputs([torch.empty(0, 3)], [torch.empty(0, 3)]).errors == ()
    assert compare_outputs([], []).errors == ()
    (error,) = differs(2.0, 1.0)
    assert "the worst at []" in error


def test_outputs_that_need_gradients():
    want = torch.ones(2)
    assert compare_outputs([torch.ones(2, requires_grad=True) * 1], [want]).errors == ()


def test_unknown_floats_are_exact():
    assert default_tolerance(torch.int32) == Tolerance(0.0, 0.0)


def reject(*_):
    raise AssertionError("too far")


@pytest.mark.parametrize(
    ("check", "errors"),
    [
        (lambda *_: True, ()),
        (lambda *_: None, ()),
        (lambda *_: False, ("the file's check() returned False",)),
        (lambda *_: torch.tensor(False), ("the file's check() returned tensor(False)",)),
        (reject, ("the file's check() rejects it: too far",)),
    ],
)
def test_own_check_overrides(check, errors):
    got, want = torch.tensor([1.0]), torch.tensor([9.0])
    result = Standard([want], check=check).judge([got])
    assert result.errors == errors
    assert result.max_error == 8.0


def test_own_check_sees_tensors_or_lists_of_them():
    seen = []
    one, two = torch.ones(1), torch.zeros(1)
    for outputs in ([one], [one, two]):
        Standard(outputs, check=lambda got, want: seen.append((got, want))).judge(outputs)
    assert seen == [(one, one), ([one, two], [one, two])]


# ------------------------------------------------------------- where the exact outputs are known


def exact_of(values, sensitivity=0.0, others=()):
    values = torch.as_tensor(values)
    inexact = values.is_floating_point() or values.is_complex()
    wide = values.to(torch.complex128 if values.is_complex() else torch.float64)
    sizes = torch.full(values.shape, sensitivity, dtype=torch.float32)
    return [Exact(wide if inexact else values, sizes, others)]


def passes(got, want, exact, tolerance=None):
    return not compare_outputs([got], [want], tolerance, exact).errors


@pytest.mark.parametrize(
    ("dtype", "share"),
    [
        # 2 u |y| + c (|y| + sigma), by hand
        (torch.float32, 2 * 2**-24 + 2**-15),
        (torch.float16, 2 * 2**-11 + 2 * 2**-11),
        (torch.bfloat16, 2 * 2**-8 + 2 * 2**-8),
        (torch.complex64, 2 * 2**-24 + 2**-15),
    ],
)
@pytest.mark.parametrize("scale", [2.0**-10, 1.0, 2.0**13])
def test_relative_errors_are_granted_at_any_scale(dtype, share, scale):
    want = torch.full((4,), scale).to(dtype)
    wide = want.to(torch.complex128 if dtype.is_complex else torch.float64)
    assert passes((wide * (1 + 0.9 * share)).to(dtype), want, exact_of(want))
    assert not passes((wide * (1 + 1.6 * share)).to(dtype), want, exact_of(want))


def test_sensitivity_widens_what_is_granted():
    want = torch.tensor([1e-6, 1.0, -2.0])
    got = want + 2e-5
    assert not passes(got, want, exact_of(want))
    assert passes(got, want, exact_of(want, sensitivity=1.0))  # 2^-15 = 3.1e-5


def test_the_reference_s_own_error_widens_what_is_granted():
    true = torch.linspace(1, 2, 1000, dtype=torch.float64)
    exact = [Exact(true, torch.zeros(1000))]
    noisy = (true * (1 + 1e-3)).float()
    assert not passes((true * (1 - 2e-3)).float(), true.float(), exact)
    assert passes((true * (1 - 2e-3)).float(), noisy, exact)
    assert not passes((true * (1 - 5e-3)).float(), noisy, exact)


def test_a_single_output_is_judged_by_the_reference_s_errors_on_nearby_inputs():
    true, zero = torch.ones(1, dtype=torch.float64), torch.zeros(1)
    want = true.float()  # without an error, by chance
    pairs = tuple((torch.tensor([3 + error]), 3 * true) for error in (-6e-3, 3e-3))
    alone, among = [Exact(true, zero)], [Exact(true, zero, nearby=pairs)]
    assert not passes(want + 7e-3, want, alone)
    assert passes(want + 7e-3, want, among)  # 4 times 2e-3
    assert not passes(want + 9e-3, want, among)


def test_one_outlier_of_the_reference_widens_nothing():
    true = torch.linspace(1, 2, 1000, dtype=torch.float64)
    exact = [Exact(true, torch.zeros(1000))]
    noisy = true.float()
    noisy[7] = 1.5
    got = true.float()
    assert passes(got, noisy, exact)  # nearer to the truth than the reference
    got[500] += 0.01
    assert not passes(got, noisy, exact)


@pytest.mark.parametrize(
    ("count", "times", "right"),
    [(4, 1.8, True), (4, 2.3, False), (5, 1.8, False)],  # 2^-14 of the elements are 4
)
def test_few_of_many_elements_may_be_off_by_up_to_twice_as_much(count, times, right):
    want = torch.ones(1 << 16)
    got = want.clone()
    got[:count] += times * (2 * 2**-24 + 2**-15)
    assert passes(got, want, exact_of(want)) is right
    exact = [Exact(want.double(), torch.zeros(len(want)))]
    assert is_explained([got], exact) is right  # of a reference that is off like that


def test_zeros_do_not_pass_for_small_outputs():
    want = torch.randn(100) * 1e-4
    wide_open = Tolerance(1e-2, 1e-2)
    for tolerance in (None, wide_open):
        for exact in (None, exact_of(want)):
            assert not passes(torch.zeros(100), want, exact, tolerance)
            assert not passes(torch.full((100,), float(want.mean())), want, exact, tolerance)


def test_the_file_s_tolerance_permits():
    want = torch.randn(100)
    assert passes(want + 5e-3, want, exact_of(want), Tolerance(0, 1e-2))
    assert not passes(want + 5e-3, want, exact_of(want), Tolerance(0, 1e-3))
    assert not passes(want + 5e-3, want, exact_of(want))


@pytest.mark.parametrize(("rtol", "unit"), [(1e-3, 2**-11), (1e-2, 2**-8)])
def test_a_loose_tolerance_allows_cheaper_operands(rtol, unit):
    want = torch.tensor([1e-3, 1.0])  # the first has cancelled: sigma is 1
    exact = exact_of(want, sensitivity=1.0)
    assert passes(want + torch.tensor([3.5 * unit, 0]), want, exact, Tolerance(rtol, 0))
    assert not passes(want + torch.tensor([5 * unit, 0]), want, exact, Tolerance(rtol, 0))
    assert not passes(want + torch.tensor([3.5 * unit, 0]), want, exact, Tolerance(rtol / 2, 0))


@pytest.mark.parametrize(
    ("off", "dtype", "tolerance", "named"),
    [
        (3.5 * 2**-11, torch.float32, None, "tf32 explain it, which an rtol of 0.001 admits"),
        (3.5 * 2**-8, torch.float32, None, "bf16 explain it, which an rtol of 0.01 admits"),
        (3.5 * 2**-8, torch.float32, Tolerance(1e-3, 0), "bf16"),
        (5 * 2**-8, torch.float32, None, ""),  # of no such factors
        (0.5, torch.float16, None, ""),
    ],
)
def test_an_error_of_coarser_factors_names_the_tolerance_that_admits_it(
    off, dtype, tolerance, named
):
    want = torch.tensor([1e-3, 1.0], dtype=dtype)
    exact = exact_of(want, sensitivity=1.0)
    got = want + torch.tensor([off, 0], dtype=dtype)
    (error,) = compare_outputs([got], [want], tolerance, exact).errors
    assert ("factors rounded to" in error) == bool(named)
    assert named in error
    if dtype is torch.float32 and named:
        rtol = 1e-2 if "bf16" in error else 1e-3
        assert passes(got, want, exact, Tolerance(rtol, 0))


@pytest.mark.parametrize(
    ("got", "want", "exact", "right"),
    [
        (NAN, 1.0, 1.0, False),
        (NAN, NAN, 1.0, True),
        (1.0, NAN, 1.0, True),  # the reference overflowed on its way, the kernel does not
        (2.0, NAN, 1.0, False),
        (1.0, NAN, NAN, False),
        (INF, 1e38, 1e38, False),
        (INF, 3.4028e38, 3.4028e38, True),  # rounds to an infinity within what is granted
        (INF, INF, 1e39, True),
        (-INF, INF, 1e39, False),
        (3e38, INF, 1e39, False),
        (1.0, 1.0, NAN, True),
        (1.1, 1.0, NAN, False),
        (0.0, 1e-40, 1e-40, True),  # flushed
        (0.0, 1e-37, 1e-37, False),
    ],
)
def test_nan_infinity_and_underflow(got, want, exact, right):
    true = torch.tensor([1.0] * 200 + [exact], dtype=torch.float64)
    outputs = [Exact(true, torch.zeros(201))]
    mine, theirs = torch.ones(201), torch.ones(201)
    mine[-1], theirs[-1] = got, want
    assert passes(mine, theirs, outputs) == right


def test_integers_may_break_a_tie_otherwise():
    want = torch.tensor([3, 5, 8])
    exact = exact_of(torch.tensor([3, 6, 8]), others=(torch.tensor([2, 5, 8]),))
    assert passes(torch.tensor([2, 6, 8]), want, exact)
    assert not passes(torch.tensor([2, 6, 9]), want, exact)


def test_wide_outputs_of_something_else_are_not_relied_upon():
    want = torch.randn(1000)
    other = exact_of(torch.randn(1000))
    assert not is_explained([want], other)
    assert is_explained([want], exact_of(want))
    assert passes(want, want, other)
    assert not passes(torch.zeros(1000), want, other)
    assert not is_explained([want], [Exact(want, torch.zeros(1000))])  # no wider than it
    assert not is_explained([want], exact_of(want[:10]))
    assert not is_explained([want, want], exact_of(want))
    stray = want.clone()
    stray[3] += 1
    assert not is_explained([stray], exact_of(want))


def test_default_tolerances_scale_with_the_outputs():
    want = torch.randn(100) * 1e6
    assert passes(want + 50, want, None)  # 1e-4 of a million, at the elements near zero
    assert not passes(want + 300, want, None)


def test_message_says_what_was_granted():
    want = torch.ones(4)
    got = torch.tensor([1.0, 1.0, 1.0, 1.5])
    (error,) = compare_outputs([got], [want], Tolerance(1e-2, 1e-2), exact_of(want)).errors
    assert error == (
        "output 0: 1 of 4 elements (25 %) differ by over what rounding explains (0.016 relative) "
        "and over 0.01 + 0.01*|want|; the worst at [3]: got 1.5, expected 1; largest error 0.5"
    )


def test_chunks_change_nothing_of_the_rule(monkeypatch):
    want = torch.rand(1000) + 1
    got = want.clone()
    got[[3, 500, 999]] += torch.tensor([1.0, 4.0, 2.0])
    whole = compare_outputs([got], [want], None, exact_of(want, 0.5))
    monkeypatch.setattr(module, "_CHUNK", 64)
    assert compare_outputs([got], [want], None, exact_of(want, 0.5)) == whole
    assert "3 of 1000" in whole.errors[0]


# ------------------------------------------------------------------------- pure rounding


def judged(got, reference, x):
    """Errors of an output beside a reference in fp32 and in fp64."""
    wide = reference(x.double())
    exact = [Exact(wide, torch.zeros_like(wide))]
    scale = float(x.abs().max())
    return module.Standard([reference(x)], None, exact, scale=scale).compare([got]).errors


def test_an_exact_zero_where_the_reference_has_rounding_noise():
    x = torch.randn(64, 512)

    def reference(x):
        return torch.softmax(x, -1).sum(-1) - 1

    assert reference(x).abs().max() > 0
    assert judged(torch.zeros(64), reference, x) == ()
    assert judged(torch.full((64,), 1e-3), reference, x)


def test_zeros_are_wrong_where_a_rounding_is_what_was_asked_for():
    x = torch.randn(64, 512)

    def reference(x):
        return x - x.half().to(x.dtype) if x.dtype is torch.float32 else x - x

    assert judged(torch.zeros(64, 512), reference, x)
    assert judged(reference(x), reference, x) == ()
