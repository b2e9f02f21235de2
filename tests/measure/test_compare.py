from __future__ import annotations

import math

import pytest
import torch

from solkit.core import Tolerance
from solkit.measure import compare as module
from solkit.measure.compare import compare, default_tolerance, judge

INF, NAN = math.inf, math.nan


def differs(got, want, tolerance=None):
    return compare([torch.tensor(got)], [torch.tensor(want)], tolerance).errors


def test_equal_outputs():
    out = torch.randn(7, 5)
    assert compare([out, out > 0], [out.clone(), out > 0]).errors == ()


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
    assert compare([near], [want]).errors == ()
    assert compare([far], [want]).errors


def test_tolerance_is_the_sum_of_both_parts():
    limit = Tolerance(rtol=0.1, atol=1.0)
    assert not differs([101.0 + 9.9], [100.0], limit)  # 10.9 <= 1 + 10
    assert differs([111.1], [100.0], limit)
    assert not differs([0.99], [0.0], limit)
    assert differs([1.01], [0.0], limit)


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
    result = compare([torch.tensor([1.0, NAN, 5.0])], [torch.tensor([1.0, 2.0, 2.0])])
    assert result.max_error == 3.0


def test_message_says_where_and_how_much():
    want = torch.zeros(4, 5)
    got = want.clone()
    got[2, 3], got[1, 1] = 2.5, 0.5
    (error,) = compare([want, got], [want, want]).errors
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
    whole = compare([got], [want])
    monkeypatch.setattr(module, "_CHUNK", 64)
    assert compare([got], [want]) == whole
    assert "[500]" in whole.errors[0]


def test_layout_does_not_matter_but_form_does():
    want = torch.randn(6, 4)
    assert compare([want.t().contiguous().t()], [want]).errors == ()
    assert compare([want.reshape(4, 6)], [want]).errors == (
        "output 0: shape (4, 6) where the reference has (6, 4)",
    )
    assert compare([want.double()], [want]).errors == (
        "output 0: dtype torch.float64 where the reference has torch.float32",
    )
    assert compare([want, want], [want]).errors == ("2 output(s) where the reference has 1",)


def test_complex_outputs():
    want = torch.tensor([1 + 2j, 3 - 1j])
    assert compare([want.clone()], [want]).errors == ()
    (error,) = compare([torch.tensor([1 + 2j, 3 + 1j])], [want]).errors
    assert "1 of 2 elements" in error
    assert "[1]" in error


def test_empty_and_scalar_outputs():
    assert compare([torch.empty(0, 3)], [torch.empty(0, 3)]).errors == ()
    assert compare([], []).errors == ()
    (error,) = differs(2.0, 1.0)
    assert "the worst at []" in error


def test_outputs_that_need_gradients():
    want = torch.ones(2)
    assert compare([torch.ones(2, requires_grad=True) * 1], [want]).errors == ()


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
    result = judge([got], [want], None, check)
    assert result.errors == errors
    assert result.max_error == 8.0


def test_own_check_sees_tensors_or_lists_of_them():
    seen = []
    one, two = torch.ones(1), torch.zeros(1)
    judge([one], [one], None, lambda got, want: seen.append((got, want)))
    judge([one, two], [one, two], None, lambda got, want: seen.append((got, want)))
    assert seen == [(one, one), ([one, two], [one, two])]
