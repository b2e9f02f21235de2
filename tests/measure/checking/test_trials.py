"""Power: kernels that are subtly wrong fail on some trial, and valid ones pass on all of them."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from solkit.core import KernelFile, Problem, Tolerance
from solkit.kernelfiles import Workload
from solkit.kernelfiles.seeding import seed_everything
from solkit.measure.checking.choices import outputs_as_chosen
from solkit.measure.checking.distributions import DISTRIBUTIONS, _swap_elements
from solkit.measure.checking.exact import exact_reference
from solkit.measure.checking.faults import ContextLostError
from solkit.measure.checking.inputs import copy_workload
from solkit.measure.checking.tolerance import Standard
from solkit.measure.checking.trials import Trial, Trials

BF16, FP16 = torch.bfloat16, torch.float16


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small tensors: threads would wait for each other, and for other tests."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# ------------------------------------------------------------------------------ the problems


def normal(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype)


def gemm(x, w):
    return x @ w


def linear(x, w, b):
    return x @ w + b


def norm(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b, eps=1e-5)


def rms(x, w):
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


def softmax(x):
    return torch.softmax(x, dim=-1)


def masked(x, lengths):
    outside = torch.arange(x.shape[-1]) >= lengths[:, None]
    return torch.softmax(x.masked_fill(outside, -math.inf), dim=-1)


def attention(q, k, v):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    above = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(above, -math.inf).float(), -1).to(q.dtype) @ v


def row_sum(x):
    return x.sum(-1)


PROBLEMS: dict[str, tuple[Callable, Callable, dict, Tolerance | None]] = {
    # name -> reference, inputs by sizes, held-out sizes, the file's tolerance
    "gemm": (gemm, lambda M=33, K=1000: (normal(M, K), normal(K, 29)), {"M": 1, "K": 77}, None),
    "loose gemm": (
        gemm,
        lambda M=33, K=1000: (normal(M, K), normal(K, 29)),
        {"M": 1, "K": 77},
        Tolerance(1e-3, 1e-3),
    ),
    "bf16 gemm": (
        gemm,
        lambda M=33, K=4096: (normal(M, K, dtype=BF16), normal(K, 29, dtype=BF16)),
        {"M": 7, "K": 77},
        None,
    ),
    "fp16 gemm": (
        gemm,
        lambda M=33, K=2048: (normal(M, K, dtype=FP16), normal(K, 29, dtype=FP16) / 8),
        {"M": 7, "K": 77},
        None,
    ),
    "linear": (
        linear,
        lambda M=33, N=48: (normal(M, 256), normal(256, N) / 16, normal(N) / 16),
        {"M": 5, "N": 7},
        Tolerance(1e-2, 1e-2),
    ),
    "norm": (
        norm,
        lambda M=16, N=500: (normal(M, N), normal(N), normal(N)),
        {"M": 3, "N": 77},
        None,
    ),
    "rms": (
        rms,
        lambda M=16, N=500: (normal(M, N, dtype=BF16), normal(N, dtype=BF16)),
        {"M": 3, "N": 77},
        Tolerance(1e-2, 1e-2),
    ),
    "softmax": (softmax, lambda M=16, N=1000: (normal(M, N) * 3,), {"M": 3, "N": 77}, None),
    "masked": (
        masked,
        lambda M=16, N=200: (normal(M, N), torch.randint(1, N + 1, (M,))),
        {"M": 3, "N": 77},
        Tolerance(1e-2, 1e-2),
    ),
    "attention": (
        attention,
        lambda M=80, N=32: tuple(normal(2, M, N, dtype=BF16) for _ in range(3)),
        {"M": 33, "N": 16},
        Tolerance(2e-2, 2e-2),
    ),
    "sum": (row_sum, lambda M=33, N=2000: (normal(M, N),), {"M": 5, "N": 77}, None),
    "gelu": (F.gelu, lambda M=33, N=64: (normal(M, N),), {"M": 5, "N": 77}, None),
    "relu": (torch.relu, lambda M=33, N=64: (normal(M, N),), {"M": 5, "N": 77}, None),
    "log": (torch.log, lambda M=33, N=64: (normal(M, N),), {"M": 5, "N": 77}, None),
    "angle": (torch.atan2, lambda M=9, N=64: (normal(M, N), normal(M, N)), {"M": 5}, None),
}


def trials(make, description, seed, skip=()):
    """All that a candidate is checked on."""
    trials, usual = Trials(make, seed, skip=skip), 0
    for trial in trials.own_trials():
        usual = max(usual, trial.nonfinite_count)
        yield trial
    yield from trials.common_trials(description.problem.held_out_shapes, usual)


@functools.cache
def problem_trials(name):
    reference, inputs, held_out, tolerance = PROBLEMS[name]
    problem = Problem(name, "", "native", "reference", {}, ({},), (held_out,), tolerance)

    def make(shape):
        return Workload(inputs(**shape), {}, reference, None)

    return list(trials(make, KernelFile(problem, None), seed=3))


def failures(name, kernel):
    """The trials that a kernel fails, with what is said of it."""
    results = {}
    for trial in problem_trials(name):
        seed_everything(trial.seed)
        got = replace(copy_workload(trial.workload), kernel=kernel).run_kernel()
        assert [(g.shape, g.dtype) for g in got] == [(w.shape, w.dtype) for w in trial.want]
        comparison = Standard(trial.want, PROBLEMS[name][3], trial.exact).judge(got)
        if comparison.errors:
            results[trial.name] = comparison.errors
    return results


# ------------------------------------------------------------------------ ties of equal values


def chosen_payloads(scores, payloads):
    """The two best places of each row, and what lies there; the first of equal ones wins."""
    places = scores.sort(dim=-1, descending=True, stable=True).indices[:, :2]
    return places.to(torch.int32), payloads.gather(1, places)


def chosen_from_the_end(scores, payloads):
    """The same, but the last of equal ones wins."""
    places = scores.flip(-1).sort(dim=-1, descending=True, stable=True).indices[:, :2]
    places = scores.shape[-1] - 1 - places
    return places.to(torch.int32), payloads.gather(1, places)


def with_one_other_place(scores, payloads):
    places, taken = chosen_from_the_end(scores, payloads)
    places[7, 0] = (places[7, 0] + 1) % scores.shape[-1]
    return places, taken


def with_one_other_payload(scores, payloads):
    places, taken = chosen_from_the_end(scores, payloads)
    taken[7, 0] += 0.01
    return places, taken


@pytest.mark.parametrize(
    ("kernel", "wrong"),
    [
        (chosen_payloads, []),
        (chosen_from_the_end, []),
        (with_one_other_place, ["output 0"]),
        (with_one_other_payload, ["output 1"]),
        (lambda scores, payloads: chosen_payloads(-scores, payloads), ["output 0", "output 1"]),
    ],
)
def test_either_order_of_equal_values_is_right(kernel, wrong):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2000, 64, generator=generator).bfloat16()
    pair = scores.topk(2).values
    assert (pair[:, 0] == pair[:, 1]).sum() > 20
    payloads = torch.randn(2000, 64, generator=generator)
    workload = Workload((scores, payloads), {}, chosen_payloads, None)
    exact = exact_reference(workload)
    trial = Trial("inputs()", 0, workload, workload.run_reference(), exact)
    errors = trial.standard(None).judge(list(kernel(scores, payloads))).errors
    assert [error.split(":")[0] for error in errors] == wrong


def router(scores):
    """The two likeliest experts, their renormalised weights, and how often each is chosen."""
    weights, experts = torch.softmax(scores, -1).topk(2)
    return routed(scores, experts, weights)


def routed(scores, experts, weights=None):
    if weights is None:
        weights = torch.softmax(scores, -1).gather(-1, experts)
    load = experts.flatten().bincount(minlength=scores.shape[-1]).int()
    return weights / weights.sum(-1, keepdim=True), experts.int(), load


def router_from(wayward):
    """Choose experts by other roundings and in the order of a permutation where these are equal."""

    def kernel(scores):
        powers = torch.exp2((scores - scores.amax(-1, True)) * math.log2(math.e))
        moved = (powers / powers.sum(-1, True))[:, wayward]
        order = moved.sort(dim=-1, descending=True, stable=True).indices
        return routed(scores, wayward[order[:, :2]])

    return kernel


EXPERTS = 16
RIGHT_ROUTERS = [
    router_from(torch.arange(EXPERTS)),
    router_from(torch.arange(EXPERTS).flip(0)),
    router_from(torch.arange(EXPERTS) * 7 % EXPERTS),
]
WRONG_ROUTERS = {
    "next": lambda scores: routed(scores, (router(scores)[1].long() + 1) % EXPERTS),
    "ascending": lambda scores: routed(scores, scores.topk(2, largest=False).indices),
    "third": lambda scores: routed(scores, scores.topk(3).indices[:, 1:]),
    "exchanged": lambda scores: routed(scores, router(scores)[1].long().flip(-1)),
    "constant": lambda scores: routed(scores, torch.tensor([[0, 1]]).expand(len(scores), 2)),
    "twice": lambda scores: routed(scores, router(scores)[1].long()[:, :1].expand(-1, 2)),
    "outside": lambda scores: (*router(scores)[:1], router(scores)[1] + EXPERTS, router(scores)[2]),
    "load": lambda scores: (*router(scores)[:2], router(scores)[2].roll(1)),
}


@functools.cache
def router_trials():
    def make(_shape):
        ranks = torch.randn(300, EXPERTS).argsort(-1).float()
        return Workload(((ranks - EXPERTS / 2) * 0.5,), {}, router, None)

    source = Trials(make, 0)
    trials = [*source.own_trials(), *source.common_trials((), 0)]
    names = {trial.name for trial in trials}
    assert {"minute", "swapped values", "zeros", "tiny", "large", "ramps"} <= names
    return trials


def rejecting(kernel):
    trials = router_trials()
    return {t.name for t in trials if t.standard(None).judge(kernel(*t.workload.args)).errors}


@pytest.mark.parametrize("kernel", RIGHT_ROUTERS)
def test_any_choice_among_values_equal_within_rounding_is_right(kernel):
    assert rejecting(kernel) == set()


@pytest.mark.parametrize("name", WRONG_ROUTERS)
def test_a_wrong_choice_is_no_tie(name):
    distinct = {"inputs()", "inputs(), seed 1", "swapped values", "tiny", "large", "ramps"}
    if name in ("twice", "outside", "load"):  # wrong even where all values are equal
        distinct |= {"minute", "zeros", "repeated values"}
    assert distinct <= rejecting(WRONG_ROUTERS[name])


@pytest.mark.parametrize(
    "select",
    [
        lambda s: s.argmax(-1),
        lambda s: s.max(-1, keepdim=True).indices,
        lambda s: s.argsort(-1, descending=True)[:, :1],
        lambda s: s.negative().argmin(-1),
        lambda s: s.negative().min(-1).indices.int(),
    ],
)
def test_computed_values_may_differ_by_rounding(select):
    scores = torch.tensor([[0.5, 1.0, 1.0 + 2.0**-20], [1.0, 0.5, 1.0 + 2.0**-8]])
    workload = Workload((scores,), {}, lambda s: select(s * 1.5), None)
    want, *_ = workload.run_reference()
    assert want.flatten().tolist() == [2, 2]
    for row, place in ((0, 1), (1, 0), (0, 0), (0, 3)):
        got = want.clone()
        got[row] = place
        (chosen,) = outputs_as_chosen(workload, 0, None, got)
        assert torch.equal(chosen, got if (row, place) == (0, 1) else want)


def test_values_that_are_given_must_be_equal():
    scores = torch.tensor([[1.0, 1.0 + 2.0**-20, 1.0 + 2.0**-20]])
    workload = Workload((scores,), {}, lambda s: s.argmax(-1), None)
    for place in range(3):
        (chosen,) = outputs_as_chosen(workload, 0, None, torch.tensor([place]))
        assert chosen.tolist() == [max(place, 1)]


def test_where_a_files_own_check_decides_no_further_inputs_are_drawn():
    runs = []

    def counted(scores, payloads):
        runs.append(1)
        return chosen_payloads(scores, payloads)

    scores = torch.randn(500, 64).bfloat16()
    workload = Workload((scores, torch.randn(500, 64)), {}, counted, None)
    workload = replace(workload, check=lambda got, _: bool((got[0] >= 0).all()))
    trial = Trial("inputs()", 0, workload, workload.run_reference(), exact_reference(workload))
    runs.clear()
    places, taken = (output.clone() for output in trial.want)
    places[:3, 0] = (places[:3, 0] + 1) % 64
    assert trial.standard(None).judge([places, taken]).errors == ()
    places[0, 0] = -1
    assert trial.standard(None).judge([places, taken]).errors != ()
    assert runs == []


# --------------------------------------------------------------------------- subtly wrong ones


def tail_missing(x):
    out = torch.softmax(x, -1)
    out[..., x.shape[-1] // 16 * 16 :] = 0
    return out


def last_of_k_missing(x, w):
    return x[:, :-1] @ w[:-1]


def mask_dropped(x, lengths):
    return torch.softmax(x, -1) * (torch.arange(x.shape[-1]) < lengths[:, None])


def mask_one_too_far(q, k, v):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    above = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(2)
    return torch.softmax(scores.masked_fill(above, -math.inf).float(), -1).to(q.dtype) @ v


def scale_forgotten(q, k, v):
    return attention(q * math.sqrt(q.shape[-1]), k, v)


def accumulated_in(dtype, step):
    """A matrix product whose accumulator is of that dtype, `step` terms a time."""

    def kernel(x, w):
        total = torch.zeros(x.shape[0], w.shape[1], dtype=dtype)
        for start in range(0, x.shape[1], step):
            part = x[:, start : start + step].float() @ w[start : start + step].float()
            total = (total.float() + part).to(dtype)
        return total.to(x.dtype)

    return kernel


def tile_transposed(x, w):
    out = x @ w
    side = min(16, *out.shape)
    out[:side, :side] = out[:side, :side].t().clone()
    return out


def strides_swapped(x, w):
    return x.reshape(x.shape[1], x.shape[0]).t() @ w


def unstable_softmax(x):
    return x.exp() / x.exp().sum(-1, keepdim=True)


class Stale:
    """Gives what it gave the first time for a shape."""

    def __init__(self, function):
        self.function, self.known = function, {}

    def __call__(self, *args):
        key = tuple(arg.shape for arg in args)
        return self.known.setdefault(key, self.function(*args))


def element_left_over(x):
    out = torch.full_like(x, math.nan)
    out.view(-1)[:-1] = torch.relu(x).view(-1)[:-1]
    return out


def through(dtype, function):
    return lambda *args: function(*args).to(dtype).to(args[0].dtype)


def tanh_gelu(x):
    return F.gelu(x, approximate="tanh")


def variance_over_one_less(x, w, b):
    return (x - x.mean(-1, True)) / torch.sqrt(x.var(-1, keepdim=True) + 1e-5) * w + b


def norm_without_eps(x, w, b):
    centred = x - x.mean(-1, True)
    return centred / centred.square().mean(-1, True).sqrt().clamp(min=1e-12) * w + b


def zeros(*args):
    return torch.zeros_like(args[0] @ args[1])


def rms_eps(x, w):
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5) * w.float()).to(x.dtype)


WRONG = {
    "tail of each row missing": ("softmax", tail_missing),
    "last term of K missing": ("gemm", last_of_k_missing),
    "last term of K missing, bf16": ("bf16 gemm", last_of_k_missing),
    "mask dropped": ("masked", mask_dropped),
    "mask one too far": ("attention", mask_one_too_far),
    "scale forgotten": ("attention", scale_forgotten),
    "eps of 1e-6": ("norm", lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, eps=1e-6)),
    "eps missing": ("norm", norm_without_eps),
    "eps of 1e-5": ("rms", rms_eps),
    "variance over N - 1": ("norm", variance_over_one_less),
    "bias missing": ("linear", lambda x, w, _: x @ w),
    "bf16 accumulation": ("bf16 gemm", accumulated_in(BF16, 16)),
    "fp16 accumulation": ("fp16 gemm", accumulated_in(FP16, 16)),
    "bf16 product for fp32": ("gemm", lambda x, w: (x.bfloat16() @ w.bfloat16()).float()),
    "tf32 where 1e-4 is asked": ("gemm", lambda x, w: tf32(x) @ tf32(w)),
    "a tile transposed": ("gemm", tile_transposed),
    "strides swapped": ("gemm", strides_swapped),
    "unstable softmax": ("softmax", unstable_softmax),
    "zeros": ("gemm", zeros),
    "zeros for small outputs": ("masked", lambda x, _: torch.zeros_like(x)),
    "a constant for small outputs": (
        "masked",
        lambda x, lengths: (torch.arange(x.shape[-1]) < lengths[:, None]) / lengths[:, None],
    ),
    "stale values": ("gemm", Stale(gemm)),
    "NaN dropped": ("log", lambda x: torch.log(x).nan_to_num(nan=0.0)),
    "NaN where there is none": ("relu", element_left_over),
    "sign of zero lost": ("angle", lambda y, x: torch.atan2(y + 0.0, x)),
    "infinity clamped": ("relu", lambda x: torch.clamp(x, 0, 3e38)),
    "through bf16 and back": ("gelu", through(BF16, F.gelu)),
    "through fp16 and back": ("softmax", through(FP16, softmax)),
    "another function nearby": ("gelu", tanh_gelu),
    "means for sums": ("sum", lambda x: x.sum(-1) / (1 + 1e-4)),
    "bf16 terms": ("sum", lambda x: x.bfloat16().float().sum(-1)),
}


@pytest.mark.quick(
    "scale forgotten", "tf32 where 1e-4 is asked", "a tile transposed", "infinity clamped"
)
@pytest.mark.parametrize("name", WRONG)
def test_subtly_wrong_kernels_fail(name):
    problem, kernel = WRONG[name]
    assert failures(problem, kernel)


# ---------------------------------------------------------------------------------- valid ones


def tf32(x):
    """The high 10 bits of the mantissa, cut off as tensor cores do."""
    return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)


def three_tf32(x, w):
    big_x, big_w = tf32(x), tf32(w)
    return tf32(x - big_x) @ big_w + big_x @ tf32(w - big_w) + big_x @ big_w


def split_k(parts, shuffled=False):
    def kernel(x, w):
        bounds = torch.linspace(0, x.shape[1], parts + 1).long()
        order = torch.randperm(parts) if shuffled else torch.arange(parts)
        total = torch.zeros(x.shape[0], w.shape[1])
        for i in order:
            part = slice(int(bounds[i]), int(bounds[i + 1]))
            total += x[:, part].float() @ w[part].float()
        return total.to(x.dtype)

    return kernel


def fused_multiply_adds(x, w):
    """One rounding a term, in a single chain: the product is exact in fp64."""
    total = torch.zeros(x.shape[0], w.shape[1])
    for k in range(x.shape[1]):
        total = (total.double() + x[:, k : k + 1].double() * w[k].double()).float()
    return total


def strassen_like(x, w):
    """(x + y) - y: a few more roundings of the size of the operands."""
    half = x.shape[1] // 2
    a, b, c, d = x[:, :half], x[:, half : 2 * half], w[:half], w[half : 2 * half]
    rest = x[:, 2 * half :] @ w[2 * half :]
    return (a + b) @ c + b @ (d - c) + rest


def welford(x, w, b):
    mean, spread = torch.zeros(x.shape[0]), torch.zeros(x.shape[0])
    for i in range(x.shape[1]):
        step = x[:, i] - mean
        mean = mean + step / (i + 1)
        spread = spread + step * (x[:, i] - mean)
    scale = torch.rsqrt(spread / x.shape[1] + 1e-5)
    return (x - mean[:, None]) * scale[:, None] * w + b


def one_pass(x, w, b):
    mean = x.mean(-1, True)
    variance = (x.square().mean(-1, True) - mean.square()).clamp(min=0)
    return (x - mean) * torch.rsqrt(variance + 1e-5) * w + b


def online_softmax(x):
    top = torch.full(x.shape[:1], -math.inf)
    total = torch.zeros(x.shape[0])
    for block in x.split(64, -1):
        new = torch.maximum(top, block.amax(-1))
        total = total * torch.exp(top - new) + torch.exp(block - new[:, None]).sum(-1)
        top = new
    return torch.exp(x - top[:, None]) / total[:, None]


def exp2_softmax(x):
    scaled = x * math.log2(math.e)
    powers = torch.exp2(scaled - scaled.amax(-1, True))
    return powers * (1 / powers.sum(-1, True))


def two_ulp_softmax(x):
    powers = torch.exp(x - x.amax(-1, True))
    powers = powers * (1 + (torch.randint(-2, 3, powers.shape) * 2.0**-23))
    return powers / powers.sum(-1, True)


def flash(keep):
    """Online softmax over blocks of keys, probabilities kept in that dtype for the product."""

    def kernel(q, k, v):
        n, width = k.shape[-2:]
        top = torch.full((*q.shape[:-1], 1), -math.inf)
        total, out = torch.zeros_like(top), torch.zeros(q.shape)
        rows = torch.arange(q.shape[-2])[:, None]
        for start in range(0, n, 16):
            block = slice(start, min(start + 16, n))
            scores = q.float() @ k[:, block].float().transpose(-1, -2) / math.sqrt(width)
            scores = scores.masked_fill(torch.arange(n)[block] > rows, -math.inf)
            new = torch.maximum(top, scores.amax(-1, True))
            share = torch.exp(scores - new)
            out = out * torch.exp(top - new) + share.to(keep).float() @ v[:, block].float()
            total = total * torch.exp(top - new) + share.sum(-1, keepdim=True)
            top = new
        return (out / total).to(q.dtype)

    return kernel


def kahan(x):
    total, lost = torch.zeros(x.shape[0]), torch.zeros(x.shape[0])
    for column in x.unbind(-1):
        term = column - lost
        new = total + term
        lost = (new - total) - term
        total = new
    return total


def chain(x):
    """A single chain of additions."""
    return x.cumsum(-1)[..., -1]


def gelu_by_erfc(x):
    return 0.5 * x * torch.erfc(-x * math.sqrt(0.5))


VALID = {
    "split-K": ("gemm", split_k(7)),
    "split-K, atomics in any order": ("gemm", split_k(13, shuffled=True)),
    "fused multiply-adds": ("gemm", fused_multiply_adds),
    "three tf32 passes": ("gemm", three_tf32),
    "fp64 inside": ("gemm", lambda x, w: (x.double() @ w.double()).float()),
    "sums and differences of halves": ("gemm", strassen_like),
    "the other way round": ("gemm", lambda x, w: (w.t().contiguous() @ x.t()).t()),
    "tf32 where 1e-3 is allowed": ("loose gemm", lambda x, w: tf32(x) @ tf32(w)),
    "bf16, fp32 accumulation": ("bf16 gemm", accumulated_in(torch.float32, 16)),
    "bf16, split-K": ("bf16 gemm", split_k(8)),
    "fp16, fp32 accumulation": ("fp16 gemm", accumulated_in(torch.float32, 16)),
    "fp16, split-K in any order": ("fp16 gemm", split_k(5, shuffled=True)),
    "Welford": ("norm", welford),
    "variance in one pass": ("norm", one_pass),
    "online softmax": ("softmax", online_softmax),
    "exp2 and a reciprocal": ("softmax", exp2_softmax),
    "exp within 2 ulp": ("softmax", two_ulp_softmax),
    "attention block by block": ("attention", flash(torch.float32)),
    "probabilities in bf16": ("attention", flash(BF16)),
    "bf16 through fp32": ("rms", lambda x, w: F.rms_norm(x, x.shape[-1:], w, eps=1e-6)),
    "Kahan's sum": ("sum", kahan),
    "one chain of additions": ("sum", chain),
    "erfc in place of erf": ("gelu", gelu_by_erfc),
    "bf16 where 1e-2 is allowed": ("linear", lambda x, w, b: linear(*bf16(x, w, b)).float()),
    "select in place of max": ("relu", lambda x: torch.where(x > 0, x, 0.0)),
}


def bf16(*tensors):
    return [t.bfloat16() for t in tensors]


@pytest.mark.quick(
    "fp64 inside", "the other way round", "variance in one pass", "select in place of max"
)
@pytest.mark.parametrize("name", VALID)
def test_valid_kernels_pass(name):
    problem, kernel = VALID[name]
    assert failures(problem, kernel) == {}


@pytest.mark.slow
def test_one_wrong_element_in_a_million_is_seen():
    workload = Workload((normal(1024, 1024),), {}, torch.relu, None)
    exact, want = exact_reference(workload), workload.run_reference()
    got = want[0].clone()
    assert not Standard(want, None, exact).judge([got]).errors
    got.view(-1)[700_001] += 1e-3
    assert "1 of 1048576 elements" in Standard(want, None, exact).judge([got]).errors[0]


# ---------------------------------------------------------------------------- the trials themselves


def listed(reference, *arguments, held_out=(), skip=(), outputs=()):
    problem = Problem("", "", "native", "reference", {}, ({},), held_out, outputs=outputs)

    def make(shape):
        return Workload(tuple(m(**shape) for m in arguments), {}, reference, None, outputs)

    return {t.name: t for t in trials(make, KernelFile(problem, None), seed=3, skip=skip)}


def test_inputs_come_first_then_held_out_shapes_each_from_a_seed_of_its_own():
    results = listed(torch.relu, lambda N=6: normal(5, N), held_out=({"N": 7},))
    names = list(results)
    assert names[:4] == ["inputs()", "inputs(), seed 1", "swapped values", "held-out N=7"]
    assert names[4:] == [
        distribution.name for distribution in DISTRIBUTIONS if not distribution.is_twin
    ]
    assert [trial.is_usual for trial in results.values()] == [True, True] + [False] * len(names[2:])
    assert {name for name, trial in results.items() if trial.shape} == {"held-out N=7"}
    assert results["held-out N=7"].workload.args[0].shape == (5, 7)
    twin = results.pop("swapped values")
    assert len({trial.seed for trial in results.values()}) == len(results)
    assert twin.seed == results["inputs()"].seed
    first, second = (results[name].workload.args[0] for name in names[:2])
    assert not torch.equal(first, second)
    assert torch.equal(first, listed(torch.relu, lambda: normal(5, 6))["inputs()"].workload.args[0])


def test_a_twin_has_the_first_trial_s_values_with_a_few_in_other_places():
    result = listed(torch.relu, lambda: normal(64, 64))
    first, twin = (result[name].workload.args[0] for name in ("inputs()", "swapped values"))
    assert 0 < int((first != twin).sum()) <= 64
    assert torch.equal(first.flatten().sort().values, twin.flatten().sort().values)
    rows = (first != twin).any(1)
    assert rows.sum() > 32  # of 64: they are spread over the tensor
    assert (first.sum(1) != twin.sum(1))[rows].float().mean() > 0.8  # and leave their rows


@pytest.mark.parametrize("count", [1, 2, 3, 127, 128])
def test_a_few_elements_of_any_number_swap_places(count):
    tensor = torch.arange(count, dtype=torch.float32)
    twin = _swap_elements(tensor, torch.float32)
    assert sorted(twin.tolist()) == tensor.tolist()
    assert int((twin != tensor).sum()) == (2 if count > 1 else 0)


def test_a_number_that_is_expanded_has_no_places_to_swap():
    problem = Workload((normal(8), torch.randn(1).expand(8)), {}, torch.mul, None)
    assert [own_trial.name for own_trial in Trials(lambda _: problem, 0).own_trials()][
        -1
    ] == "swapped values"


def test_wide_arithmetic_is_left_out_where_memory_is_short():
    """relu of N numbers: two and a half outputs beside the inputs while it runs, in fp64, or one
    and a half beside 4 bytes of inputs and, four times, of outputs: 28 N and 32 N bytes.
    """
    number = 1000
    problem = Workload((torch.randn(number),), {}, torch.relu, None)
    for free, there in ((32 * number, True), (32 * number - 1, False)):
        (first, *_) = Trials(lambda _: problem, 0, free_bytes=lambda free=free: free).own_trials()
        assert (first.exact is not None) is there
        assert first.is_short is not there
        assert first.notes == (
            () if there else ("the reference in wide arithmetic needs 0.0 GB of memory",)
        )
    for free, there in ((28 * number, True), (28 * number - 1, False)):
        judged = Trials(lambda _: problem, 0, free_bytes=lambda free=free: free)
        assert (judged.trial_on("a call", 0, problem).exact is not None) is there


def test_the_reference_s_outputs_are_of_the_trial_s_inputs():
    for trial in listed(torch.relu, lambda: normal(5, 6)).values():
        assert torch.equal(trial.want[0], torch.relu(trial.workload.args[0]))
        assert torch.equal(trial.exact[0].value.float(), trial.want[0])


def test_values_of_each_distribution():
    values = {
        name: trial.workload.args[0]
        for name, trial in listed(torch.relu, lambda: normal(64, 50)).items()
    }
    assert 100 < values["large"].std() < 160
    assert 5e-4 < values["tiny"].std() < 2e-3
    assert (values["one-hot rows"].sum(-1) == 1).all()
    assert (values["one-hot rows"].amax(-1) == 1).all()
    assert values["ramps"].unique().numel() == 3200
    assert values["ramps"].abs().max() <= 1
    assert values["repeated values"].unique().numel() == 1
    assert (values["negative"] < 0).all()
    assert not values["zeros"].any()
    assert 0 < values["zeros"].signbit().sum() < 3200
    assert 0 < values["subnormal"].abs().max() < torch.finfo(torch.float32).tiny
    assert set(values["infinities"][values["infinities"].isinf()].tolist()) == {math.inf, -math.inf}
    assert set(values["negative infinities"].amin(-1).tolist()) >= {-math.inf}


def test_only_floating_tensors_of_several_elements_are_touched():
    index, scale = torch.arange(5), torch.tensor(2.5)
    result = listed(
        lambda x, i, s, n: x[i] * s * n, lambda: normal(9, 4), lambda: index.clone(),
        lambda: scale.clone(), lambda: 3,
    )  # fmt: skip
    for trial in result.values():
        assert torch.equal(trial.workload.args[1], index)
        assert torch.equal(trial.workload.args[2], scale)
        assert trial.workload.args[3] == 3


@pytest.mark.quick("dtype0", "dtype2")
@pytest.mark.parametrize("dtype", [BF16, FP16, torch.float64, torch.float8_e4m3fn])
def test_strides_and_dtypes_are_kept(dtype):
    def strided():
        return torch.randn(8, 6).to(dtype).t()[1:, ::2]

    expanded = listed(lambda x, y: x.float() + y.sum(), strided, lambda: normal(3, 1).expand(3, 9))
    assert len(expanded) > 5
    for trial in expanded.values():
        assert trial.workload.args[0].stride() == strided().stride()
        assert trial.workload.args[0].dtype is dtype
        assert trial.workload.args[1].stride() == (1, 0)


def test_inputs_are_not_written_by_the_reference():
    result = listed(lambda x: x.mul_(2), lambda: normal(4, 5), outputs=())
    for trial in result.values():
        assert torch.equal(trial.want[0], trial.workload.args[0] * 2)


def nan_below_zero(x):
    return torch.sqrt(x)


def raises_below_zero(x):
    assert (x >= 0).all()
    return x * 2


@pytest.mark.parametrize("reference", [nan_below_zero, raises_below_zero])
def test_distributions_that_the_reference_does_not_allow_are_left_out(reference):
    results = listed(reference, lambda: torch.rand(8, 9))
    assert {"large", "tiny", "one-hot rows"} <= set(results)
    assert not {"ramps", "negative", "negative infinities"} & set(results)


def test_a_reference_that_fails_on_the_file_s_own_inputs_is_at_fault():
    with pytest.raises(AssertionError):
        listed(raises_below_zero, lambda: normal(8, 9))


def test_infinities_that_spread_are_left_out():
    assert "infinities" not in listed(gemm, lambda: normal(8, 64), lambda: torch.rand(64, 8))
    assert "negative infinities" in listed(softmax, lambda: normal(8, 64))
    assert "infinities" not in listed(softmax, lambda: normal(8, 64))


def test_subnormal_inputs_that_matter_are_left_out():
    assert "subnormal" not in listed(lambda x: x / x.abs().amax(), lambda: normal(8, 9))


def test_distributions_on_which_rounding_decides_are_left_out():
    # 128 * 100 is rounded to multiples of 64 in bf16: softmax is of that, and not of the inputs
    result = listed(lambda x: torch.softmax(x.to(BF16), -1), lambda: 100 + normal(64, 4))
    assert "tiny" in result
    assert "large" not in result


def test_references_that_run_in_their_own_dtype_only():
    def narrow(x):
        assert x.dtype is BF16
        return torch.softmax(x, -1)

    result = listed(narrow, lambda: (100 + normal(64, 4)).to(BF16))
    assert "tiny" in result
    assert "large" not in result
    assert result["tiny"].exact is None
    assert "wide arithmetic" in result["tiny"].notes[0]


def test_trials_can_be_skipped():
    results = listed(torch.relu, lambda: normal(5, 6), skip=("large", "inputs()"))
    assert not {"large", "inputs()"} & set(results)
    assert "tiny" in results


def test_a_lost_context_is_told_with_the_trial(monkeypatch):
    monkeypatch.setattr("solkit.measure.checking.trials.context_is_lost", lambda: True)

    def picky(x):
        if (x < 0).any():
            raise RuntimeError("device-side assert triggered")
        return x * 2

    def make(_shape):
        return Workload((torch.rand(64),), {}, picky, None)

    problem = Problem("picky", "picky.py", "native", "reference", {}, ({},))
    description = KernelFile(problem, None)
    with pytest.raises(ContextLostError) as raised:
        list(trials(make, description, 0))
    name = raised.value.trial
    with pytest.raises(ContextLostError) as raised:
        list(trials(make, description, 0, skip=(name,)))
    assert raised.value.trial != name


# ------------------------------------------------------- structures that the inputs always have


def triangular():
    return Workload(
        args=(torch.randn(16, 16).triu(), torch.randn(16, 16).triu()),
        kwargs={},
        reference=lambda a, b: torch.triu(a @ b),
        kernel=None,
    )


def symmetric():
    def operand():
        half = torch.rand(16, 16)
        return (half + half.mT) / 2

    return Workload(args=(operand(), operand()), kwargs={}, reference=gemm, kernel=None)


def trials_of(make):
    trials = Trials(lambda _: make(), 0)
    own = list(trials.own_trials())
    return [*own, *replace(trials, seed=7).common_trials((), 0)]


def wrong_on(make, kernel):
    return [
        trial.name
        for trial in trials_of(make)
        if Standard(trial.want, None, trial.exact)
        .judge([kernel(*copy_workload(trial.workload).args)])
        .errors
    ]


def test_a_kernel_may_rely_on_zeros_that_every_draw_has():
    upper = lambda a, b: torch.triu(a.triu() @ b.triu())  # noqa: E731
    assert {"swapped values", "ramps", "negative"} <= {t.name for t in trials_of(triangular)}
    assert wrong_on(triangular, upper) == []
    assert wrong_on(triangular, lambda a, b: torch.triu(a.tril() @ b.triu()))


def test_a_zero_by_chance_hides_no_structure():
    def unlucky():
        new_triangular = triangular()
        new_triangular.args[0][0, int(torch.randint(1, 16, ()))] = 0.0  # above the diagonal
        return new_triangular

    upper = lambda a, b: torch.triu(a.triu() @ b.triu())  # noqa: E731
    assert wrong_on(unlucky, upper) == []


@pytest.mark.parametrize("share", [0.02, 0.9])
def test_zeros_in_a_fixed_mask_are_a_structure_however_many_they_are(share):
    mask = torch.rand(32, 32, generator=torch.Generator().manual_seed(1)) >= share

    def masked():
        return Workload((torch.randn(32, 32) * mask,), {}, lambda x: x.exp(), None)

    assert wrong_on(masked, lambda x: torch.where(mask, x, 0.0).exp()) == []


def test_a_kernel_may_rely_on_a_symmetry_that_every_draw_has():
    assert wrong_on(symmetric, lambda a, b: a.mT @ b.mT) == []
    assert wrong_on(symmetric, lambda a, b: a @ b.tril())


def ordered():
    limits, rows = torch.rand(40).sort().values, torch.randn(8, 32).sort(-1, descending=True).values
    reference = lambda x, a, b: torch.bucketize(x, a) + b.amax(-1)  # noqa: E731
    return Workload((torch.rand(8, 8), limits, rows), {}, reference, None)


@pytest.mark.slow
def test_a_kernel_may_rely_on_an_order_that_every_draw_has():
    relies = lambda x, a, b: torch.searchsorted(a, x) + b[:, 0]  # noqa: E731
    assert {"swapped values", "ramps", "negative"} <= {t.name for t in trials_of(ordered)}
    assert wrong_on(ordered, relies) == []
    assert wrong_on(ordered, lambda x, a, b: torch.searchsorted(a, x) + b[:, 1])
    for trial in trials_of(ordered):
        _, limits, rows = trial.workload.args
        assert bool((limits[1:] >= limits[:-1]).all()), trial.name
        assert bool((rows[:, 1:] <= rows[:, :-1]).all()), trial.name


def test_wide_arithmetic_that_was_too_slow_once_is_not_tried_again():
    wide = []

    def slow(x):
        if x.dtype == torch.float64:
            wide.append(1)
            time.sleep(0.02)
        return x * 2

    result = lambda _: Workload((torch.randn(8),), {}, slow, None)  # noqa: E731
    own = list(Trials(result, 0, wide_limit_s=lambda: 0.01).own_trials())
    assert len(own) == 3
    assert all(trial.exact is None and "wide arithmetic" in trial.notes[0] for trial in own)
    assert len(wide) == 1


def test_zeros_by_chance_are_no_structure():
    def dropped():
        x = torch.nn.functional.dropout(torch.randn(64, 64))
        return Workload(args=(x,), kwargs={}, reference=lambda x: x * 2, kernel=None)

    (twin,) = [trial for trial in trials_of(dropped) if trial.name == "ramps"]
    assert int((twin.workload.args[0] == 0).sum()) <= 1  # of the ramp itself


def summed_with_few_bits(a, b):
    """A product of fp8 as Hopper's tensor cores sum it: 14 bits, truncated, in steps of 32."""
    total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64)
    for start in range(0, a.shape[1], 32):
        step = a[:, start : start + 32].double() @ b[start : start + 32].double()
        total = total + step
        unit = 2.0 ** (total.abs().log2().floor() - 13)
        total = torch.where(total == 0, total, (total / unit).trunc() * unit)
    return total.float()


def test_tensor_cores_may_sum_products_of_fp8_with_few_bits():
    def scaled():
        a, b = (torch.randn(32, 4096).to(torch.float8_e4m3fn) for _ in range(2))
        return Workload(
            args=(a, b.mT), kwargs={}, reference=lambda a, b: a.float() @ b.float(), kernel=None
        )

    own = list(Trials(lambda _: scaled(), 0).own_trials())
    for trial in own:
        a, b = trial.workload.args
        assert not trial.standard(None).judge([summed_with_few_bits(a, b)]).errors
        assert trial.standard(None).judge([summed_with_few_bits(a, b) * 1.05]).errors
        wide = Standard(trial.want, None, trial.exact).judge([summed_with_few_bits(a, b)])
        assert wide.errors  # as fp32 inputs would have it
