"""What records say of elementwise operators, held against torch on special values.

Each record whose `zeros` is the rule of functions of one operand is evaluated in torch at zeros,
infinities, NaN, and large and small numbers; arithmetic of two operands at some of them.
"""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from solkit.ops import OPERATORS, Monotone

INF = math.inf
STAND_IN = -1e4  # what masks use for minus infinity: solkit.roofline.work.products.HIDDEN
FINITE = sorted(
    [
        *(sign * size for sign in (-1, 1) for size in (1e30, 1e6, 1e4, 80, 20, 7.5, 4.2, 3.1, 2.5)),
        *(sign * (math.pi / 2) for sign in (-1, 1)),
        *(sign * size for sign in (-1, 1) for size in (2.0, 1.7, 1.3, 1.0, 0.9, 0.75, 0.3, 0.01)),
        *(sign * size / 16 for sign in (-1, 1) for size in range(1, 32, 2)),
        *(0.0, 1e-6, -1e-6),
    ]
)
ORDINARY = [n / 16 for n in range(-95, 96, 2)]
"""Numbers of no distinction: a function of them is zero only where it is flat."""

MORE = {
    "threshold": (0.1, 20.0),
    "prelu": (0.25,),
    "_prelu_kernel": (0.25,),
    "nan_to_num": (0.0,),
}
"""Arguments after the first; what `PRELU` names takes them as tensors."""
PRELU = ("prelu", "_prelu_kernel")
NOISY = {"native_dropout", "rrelu_with_noise", "rrelu_with_noise_functional"}
COMPLEX = {"real", "imag", "conj_physical", "_conj_physical", "angle"}

UNARY = sorted(
    record.name.removeprefix("aten.")
    for record in OPERATORS.values()
    if record.zeros == "elementwise" and record.family.value == "pointwise"
)
REAL = [name for name in UNARY if name not in NOISY | COMPLEX]


def record(name):
    return OPERATORS[f"aten.{name}"]


def at(name, values, dtype=torch.float32):
    """The function at some values, as float64."""
    input_tensor = torch.tensor(values, dtype=dtype)
    packet = getattr(torch.ops.aten, name)
    more = MORE.get(name, ())
    result = packet(
        input_tensor, *(torch.tensor(n, dtype=dtype) if name in PRELU else n for n in more)
    )
    result = result[0] if isinstance(result, tuple) else result
    return result.to(torch.float64).tolist()


@pytest.mark.parametrize("name", REAL)
def test_zero_at_zero(name):
    said = record(name).zero_at_zero
    if said is not None:
        assert [value == 0 for value in at(name, [0.0, -0.0])] == [said, said]


@pytest.mark.parametrize("name", REAL)
def test_zero_at_zero_of_other_dtypes(name):
    for dtype in (torch.int64, torch.int8, torch.bool, torch.float64):
        try:
            (value,) = at(name, [0], dtype)
        except (RuntimeError, NotImplementedError):
            continue  # torch has no such function of integers
        if record(name).zero_at_zero is not None:
            assert (value == 0) == record(name).zero_at_zero, dtype


@pytest.mark.parametrize("name", REAL)
def test_zero_at_minus_infinity_and_its_stand_in(name):
    said = record(name).zero_at_minus_inf
    if said is not None:
        assert [value == 0 for value in at(name, [-INF, STAND_IN])] == [said, said]


@pytest.mark.parametrize("name", REAL)
def test_minus_infinity_at_zero(name):
    said = record(name).minus_inf_at_zero
    if said is not None:
        assert (at(name, [0.0])[0] == -INF) == said


@pytest.mark.parametrize("name", REAL)
def test_infinite_at_minus_infinity(name):
    said = record(name).keeps_minus_inf
    if said is not None:
        assert (abs(at(name, [-INF])[0]) > 1e30) == said


@pytest.mark.parametrize("name", REAL)
def test_limits(name):
    values = [v for v in at(name, [*FINITE, 0.5, INF, -INF]) if not math.isnan(v)]
    least, most = record(name).least, record(name).most
    if least is not None:
        assert min(values) < -4 if least == -INF else min(values) >= least
    if most is not None:
        assert max(values) > 4 if most == INF else max(values) <= most


@pytest.mark.parametrize("name", REAL)
def test_limits_are_close(name):
    values = [v for v in at(name, [*FINITE, 0.5, INF, -INF]) if not math.isnan(v)]
    for limit, reached in ((record(name).least, min(values)), (record(name).most, max(values))):
        if limit is not None and math.isfinite(limit):
            assert reached == pytest.approx(limit, abs=0.1 * max(1.0, abs(limit)))


@pytest.mark.parametrize("name", REAL)
def test_order(name):
    values = [v for v in at(name, FINITE, torch.float64) if not math.isnan(v)]
    steps = [b - a for a, b in itertools.pairwise(values) if not math.isnan(b - a)]
    said = record(name).monotone
    assert said in (Monotone.NO, Monotone.RISING, Monotone.FALLING)
    rises, falls = (all(sign * step >= -1e-12 for step in steps) for sign in (1, -1))
    assert (rises, falls) == (said is Monotone.RISING, said is Monotone.FALLING)


@pytest.mark.parametrize("name", REAL)
def test_flat_parts_at_zero(name):
    said = record(name).flattens_to_zero
    zeros = sum(value == 0 for value in at(name, ORDINARY, torch.float64))
    if said is not None:
        assert (zeros > 2) == said
    if record(name).makes_zeros:
        assert zeros


@pytest.mark.parametrize("name", REAL)
def test_a_nonlinear_function_is_no_line(name):
    values = at(name, [-5.0, -3.0, -1.0, 1.0, 3.0, 5.0], torch.float64)
    bends = [a - 2 * b + c for a, b, c in zip(values, values[1:], values[2:])]
    is_line = all(abs(bend) < 1e-12 for bend in bends)
    if record(name).nonlinear:
        assert not is_line
    if record(name).linear:
        assert is_line


@pytest.mark.parametrize("name", ["real", "imag", "conj_physical", "_conj_physical", "angle"])
def test_functions_of_complex_numbers_are_zero_at_zero(name):
    result = getattr(torch.ops.aten, name)(torch.tensor([0j, 0j]))
    assert not result.any()


# ------------------------------------------------------------------------ of two operands

ARITHMETIC = {
    "add": lambda x, y: torch.ops.aten.add(x, y),
    "sub": lambda x, y: torch.ops.aten.sub(x, y),
    "rsub": lambda x, y: torch.ops.aten.rsub(x, y),
    "mul": lambda x, y: torch.ops.aten.mul(x, y),
    "div": lambda x, y: torch.ops.aten.div(x, y),
    "floor_divide": lambda x, y: torch.ops.aten.floor_divide(x, y),
    "remainder": lambda x, y: torch.ops.aten.remainder(x, y),
    "fmod": lambda x, y: torch.ops.aten.fmod(x, y),
    "hypot": lambda x, y: torch.ops.aten.hypot(x, y),
    "logaddexp": lambda x, y: torch.ops.aten.logaddexp(x, y),
    "maximum": lambda x, y: torch.ops.aten.maximum(x, y),
    "minimum": lambda x, y: torch.ops.aten.minimum(x, y),
    "_add_relu": lambda x, y: torch.ops.aten.relu(x + y),  # torch's own is one of quantised tensors
    "addcmul": lambda x, y: torch.ops.aten.addcmul(torch.full_like(x, 0.7), x, y),
    "addcdiv": lambda x, y: torch.ops.aten.addcdiv(torch.full_like(x, 0.7), x, y),
    "lerp": lambda x, y: torch.ops.aten.lerp(torch.full_like(x, 0.7), x, y),
}
OTHERS = (2.0, -3.0, 0.4)


def along_the_first(name, values, other):
    input_tensor = torch.tensor(values, dtype=torch.float64)
    return ARITHMETIC[name](input_tensor, torch.full_like(input_tensor, other)).tolist()


@pytest.mark.parametrize("name", ARITHMETIC)
def test_zero_in_the_first_operand(name):
    zeros = [along_the_first(name, [0.0], other)[0] == 0 for other in OTHERS]
    said = record(name).zero_at_zero
    if said:
        assert all(zeros)
    elif said is False:
        assert not all(zeros)


@pytest.mark.parametrize("name", ARITHMETIC)
def test_lines_in_the_first_operand(name):
    for other in OTHERS:
        values = along_the_first(name, [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], other)
        bends = [a - 2 * b + c for a, b, c in zip(values, values[1:], values[2:])]
        if record(name).linear:
            assert all(abs(bend) < 1e-12 for bend in bends)


@pytest.mark.parametrize("name", ARITHMETIC)
def test_order_in_the_first_operand(name):
    said = record(name).monotone
    for other in OTHERS if said is not Monotone.NO and said is not None else ():
        values = along_the_first(name, [x for x in FINITE if abs(x) < 1e7], other)
        steps = [b - a for a, b in itertools.pairwise(values)]
        rises, falls = (all(sign * step >= -1e-9 for step in steps) for sign in (1, -1))
        assert rises or (falls and said is Monotone.EITHER)


@pytest.mark.parametrize("name", ARITHMETIC)
def test_an_infinite_first_operand(name):
    infinite = [abs(along_the_first(name, [-INF], other)[0]) == INF for other in OTHERS]
    said = record(name).keeps_minus_inf
    if said is False:
        assert not any(infinite)
    elif said:
        assert all(infinite)


@pytest.mark.parametrize("name", ["sub", "rsub"])
def test_equal_operands_cancel(name):
    x = torch.tensor([2.0, -3.5])
    assert record(name).cancels_equal
    assert not ARITHMETIC[name](x, x).any()


def needless(name, *arguments):
    """Operands that change nothing where another one is zero, of those at ordinary values."""
    packet = getattr(torch.ops.aten, name)
    results = set()
    for place in range(len(arguments)):
        at_zero = [torch.zeros(1) if i == place else x for i, x in enumerate(arguments)]
        for other in range(len(arguments)):
            if other != place:
                changed = [x + 1.5 if i == other else x for i, x in enumerate(at_zero)]
                same = torch.equal(packet(*at_zero), packet(*changed))
                results |= {other} if same else set()
    return results


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        *(("mul", 2), ("div", 2), ("addcmul", 3), ("addcdiv", 3), ("lerp", 3), ("polar", 2)),
        *(("xlogy", 2), ("special_xlog1py", 2), ("ldexp", 2), ("sigmoid_backward", 2)),
        *(("tanh_backward", 2), ("silu_backward", 2), ("gelu_backward", 2), ("add", 2)),
        *(("sub", 2), ("maximum", 2), ("hypot", 2), ("atan2", 2), ("logaddexp", 2)),
    ],
)
def test_a_zero_in_one_operand_makes_another_one_needless(name, operands):
    tensors = [torch.tensor([0.8]), torch.tensor([0.6]), torch.tensor([0.3])][:operands]
    assert bool(needless(name, *tensors)) == bool(record(name).multiplies)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        *(("threshold_backward", (0.0,)), ("hardtanh_backward", (-1.0, 1.0))),
        *(("hardsigmoid_backward", ()), ("hardswish_backward", ()), ("hardshrink_backward", (1,))),
        *(("softshrink_backward", (1.0,)), ("leaky_relu_backward", (0.1, False))),
        *(("silu_backward", ()), ("mish_backward", ())),
    ],
)
def test_gradients_that_flat_parts_do_not_need(name, more):
    """Where the function is flat, or cut, its result does not depend on the gradient."""
    packet = getattr(torch.ops.aten, name)
    x = torch.tensor([-5.5, -0.5, 0.5, 5.5])
    depends = packet(torch.full((4,), 2.0), x, *more) != packet(torch.full((4,), 3.0), x, *more)
    selects = not bool(depends.all())
    said = record(name)
    assert selects == (said.selects is not None and said.selects.value == "some")
    assert said.decides == (("self",) if selects else ())
