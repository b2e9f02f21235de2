from __future__ import annotations

import time

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from solkit.errors import UnsupportedError
from solkit.kernelfiles import Workload
from solkit.measure.checking.exact import TooLargeError, TooSlowError, exact_reference, reference_in

BF16 = torch.bfloat16


def exact(reference, *args, **more):
    return exact_reference(Workload(args, {}, reference, None, **more))


def value(reference, *args):
    (output,) = exact(reference, *args)
    return output.value


def test_inputs_are_widened_exactly():
    x, w = torch.randn(9, 300).to(BF16), torch.randn(300, 5).to(BF16)
    assert torch.equal(value(torch.mm, x, w), x.double() @ w.double())


@pytest.mark.parametrize(
    "reference",
    [
        lambda x: (x.float() / 3).to(x.dtype),
        lambda x: x.to(torch.bfloat16) / 3,
        lambda x: torch.zeros(8, dtype=torch.float32).add_(x / 3),
        lambda x: torch.zeros(8) + x / 3,
        lambda x: torch.full_like(x, 3, dtype=torch.float16).reciprocal() * x,
    ],
)
def test_casts_and_buffers_do_not_narrow(reference):
    x = torch.randn(8)
    assert torch.allclose(value(reference, x), x.double() / 3, rtol=1e-15, atol=0)
    assert torch.get_default_dtype() is torch.float32


def test_autocast_does_not_narrow():
    def reference(x, w):
        with torch.autocast("cpu", dtype=BF16):
            return F.linear(x, w)

    x, w = torch.randn(4, 30), torch.randn(5, 30)
    assert torch.allclose(value(reference, x, w), x.double() @ w.double().t(), rtol=1e-12)


def test_outputs_of_few_elements_show_rounding_on_nearby_inputs():
    def reference(x):
        return (x.float().sum() + 1e4) - 1e4, x

    x = torch.rand(300, 5).to(BF16)
    total, many = exact(reference, x)
    assert not many.nearby
    assert len({float(own) for own, _ in total.nearby}) > 2
    for own, true in total.nearby:
        assert true.dtype is torch.float64
        assert 0 < abs(float(own) - float(true)) < 2**-10  # a unit in the last place of 10000
        assert abs(float(true) / float(total.value) - 1) < 2**-7


def test_casts_that_quantise_stay():
    x = torch.randn(50)
    stored = x.to(torch.float8_e4m3fn)
    assert torch.equal(value(lambda x: x.to(torch.float8_e4m3fn), x), stored.double())
    assert torch.equal(value(lambda x: (x * 10).to(torch.int8), x), (x * 10).to(torch.int8))


@pytest.mark.parametrize("hidden", [False, True])
def test_weights_are_widened_and_left_alone(hidden):
    model = nn.Sequential(nn.Linear(6, 4), nn.LSTM(4, 3)) if not hidden else nn.Linear(6, 4)

    def forward(x):
        with torch.no_grad():
            return model(x) if hidden else model(x)[0]

    if not hidden:
        forward.model = model
    before = {name: p.clone() for name, p in model.named_parameters()}
    x = torch.randn(2, 6)
    want = forward(x)
    outputs = exact(forward, x)
    assert outputs[0].value.dtype is torch.float64
    assert torch.allclose(outputs[0].value.float(), want, atol=1e-6)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_destinations_are_outputs():
    def reference(x, out):
        out.copy_(x * 2)

    x, out = torch.randn(4), torch.zeros(4)
    (output,) = exact(reference, x, out, outputs=("out",))
    assert torch.equal(output.value, 2 * x.double())
    assert torch.equal(out, torch.zeros(4))


@pytest.mark.parametrize("wide", [torch.float32, torch.float64])
def test_a_reference_computes_in_the_dtype_that_is_asked_for(wide):
    x = torch.tensor([0.1, 0.2], dtype=torch.bfloat16)
    work = Workload((x,), {}, lambda x: ((x + 1e3).bfloat16() - 1e3).half(), None)
    (got,) = reference_in(work, wide)
    assert got.dtype is wide
    assert torch.equal(got, (x.to(wide) + 1e3) - 1e3)


def test_sensitivity_of_a_sum_is_the_norm_of_its_terms():
    x = torch.randn(400, 1000)
    (output,) = exact(lambda x: x.sum(-1), x)
    norms = x.double().norm(dim=-1)
    # the mean of |normal| is 0.8 of its deviation; no element is below the rms over all
    assert 0.75 < output.sensitivity.double().mean() / norms.mean() < 1.3
    assert output.sensitivity.min() > 0.5 * norms.mean()


def test_sensitivity_follows_the_scale_of_rows_and_columns():
    scale = torch.logspace(0, -6, 40)[:, None]
    (output,) = exact(lambda x, w: x @ w, torch.randn(40, 100) * scale, torch.randn(100, 30))
    relative = output.sensitivity / scale
    assert relative.max() < 100 * relative.min()


def test_sensitivity_of_cancellation_is_large():
    (output,) = exact(lambda x: x - x.mean(), 1000 + torch.randn(300))
    assert output.sensitivity.min() > 300


def test_ties_give_other_integers():
    x = torch.tensor([[1.0, 1.0, 0.0]] * 8)
    (output,) = exact(lambda x: x.argmax(-1), x)
    assert {int(v) for other in output.others for v in other} == {0, 1}
    assert not output.sensitivity.any()


def test_integers_have_no_nearby_inputs_so_the_reference_runs_once():
    runs = []

    def reference(x, scale=None):
        runs.append(1)
        return x.bincount(minlength=8) if scale is None else (x * scale).round().int()

    x = torch.tensor([1, 3, 3, 7])
    (output,) = exact(reference, x)
    assert (len(runs), output.others) == (1, ())
    assert output.value.tolist() == [0, 1, 0, 2, 0, 0, 0, 1]
    (output,) = exact(reference, x, torch.ones(()))
    assert len(runs) == 1 + 1 + len(output.others) > 2


def test_random_references_draw_the_same_each_time():
    (output,) = exact(lambda x: x * torch.rand(8, dtype=torch.float64), torch.ones(8))
    assert output.sensitivity.max() < 2


def test_infinities_do_not_spread_into_sensitivities():
    (output,) = exact(torch.exp, torch.tensor([1.0, float("inf"), -float("inf"), 2.0]))
    assert output.sensitivity.isfinite().all()


def test_fp32_where_fp64_does_not_run():
    def reference(x):
        if x.dtype is torch.float64:
            raise TypeError("no doubles here")
        return x.float() * 3

    assert value(reference, torch.ones(4, dtype=BF16)).dtype is torch.float32


def test_what_runs_in_neither_is_said():
    def reference(x):
        assert x.dtype is BF16, "bf16 only"
        return x

    with pytest.raises(UnsupportedError, match="bf16 only"):
        exact(reference, torch.ones(4, dtype=BF16))


def test_fp8_inputs_move_the_output_as_wide_ones_do():
    a, b = (torch.randn(16, 64).to(torch.float8_e4m3fn) for _ in range(2))

    def reference(a, b):
        return a.float() @ b.float().mT

    (narrow,), (wide,) = exact(reference, a, b), exact(reference, a.float(), b.float())
    assert torch.equal(narrow.value, wide.value)
    assert torch.allclose(narrow.sensitivity, wide.sensitivity, rtol=1e-3)


def test_a_reference_that_takes_fp8_alone_still_has_an_exact_value():
    x = torch.randn(16, 64).to(torch.float8_e4m3fn)

    def reference(x):
        assert x.dtype is torch.float8_e4m3fn
        return x.float() * 3

    (result,) = exact(reference, x)
    assert torch.equal(result.value, x.double() * 3)


def test_there_is_a_limit_to_its_time():
    calls = []

    def slow(x):
        calls.append(1)
        time.sleep(0.05)
        return x * 2

    workload = Workload((torch.randn(4),), {}, slow, None)
    with pytest.raises(TooSlowError, match="s a run"):
        exact_reference(workload, limit_s=0.1)
    assert len(calls) == 1
    assert len(exact_reference(workload, limit_s=60.0)) == 1


def test_a_lack_of_memory_is_told_as_such():
    def reference(x):
        if x.dtype is torch.float64:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return x

    with pytest.raises(TooLargeError, match="ran out of memory"):
        exact_reference(Workload((torch.randn(4),), {}, reference, None))
