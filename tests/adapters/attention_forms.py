"""Attention written out in PyTorch, and what is close to it, for test_fused_attention."""

from __future__ import annotations

import math
from typing import Any

import torch

half, wide, brain = torch.float16, torch.float32, torch.bfloat16
SQUARE = [(2, 3, 8, 16)] * 3
LONG = [(2, 3, 5, 16), (2, 3, 8, 16), (2, 3, 8, 16)]


def scores_of(q, k):
    return q.float() @ k.float().transpose(-1, -2) / q.shape[-1] ** 0.5


def plain(q, k, v):
    return torch.softmax(scores_of(q, k), -1) @ v.float()


def by_hand(q, k, v):
    s = (q.float() * 0.25) @ k.float().mT
    e = torch.exp(s - s.amax(-1)[..., None])
    return (e / e.sum(-1, keepdim=True) @ v.float()).to(q.dtype)


def reciprocal(q, k, v):
    s = 0.3 * torch.einsum("bhqd,bhkd->bhqk", q, k)
    e = (s - s.max(-1, keepdim=True).values).exp()
    return torch.einsum("bhqk,bhkd->bqhd", e * e.sum(-1, True).reciprocal(), v)


def columns(q, k, v):
    """Softmax over the first axis of a product of keys and queries."""
    return v.mT @ torch.softmax(k @ q.mT * 0.2, -2)


def matrices(q, k, v):
    return torch.softmax(q @ k.T, -1) @ v


def triangle(q, k, v):
    keep = torch.tril(torch.ones(q.shape[-2], k.shape[-2], device=q.device))
    return torch.softmax(scores_of(q, k).masked_fill(keep == 0, -1e9), -1) @ v.float()


def added(q, k, v):
    n = q.shape[-2]
    above = torch.full((n, n), -math.inf, device=q.device).triu(1)
    return torch.softmax(scores_of(q, k) + above, -1) @ v.float()


def compared(q, k, v):
    at = torch.arange(q.shape[-2], device=q.device)
    lowest = torch.tensor(-math.inf)
    s = torch.where(at[:, None] >= at, scores_of(q, k), lowest)
    return torch.softmax(s, -1) @ v.float()


def window(q, k, v):
    at = torch.arange(q.shape[-2], device=q.device)
    keep = (at[:, None] - at).abs() < 3
    return torch.softmax(scores_of(q, k).masked_fill(~keep, -math.inf), -1) @ v.float()


def biased(q, k, v, bias, kept):
    s = (scores_of(q, k) + bias) * 0.5
    return torch.softmax(s.masked_fill(kept[:, None, None, :] == 0, -math.inf), -1) @ v.float()


def baddbmm(q, k, v, bias):
    s = torch.baddbmm(bias, q, k.mT, beta=2.0, alpha=0.25)
    return torch.bmm(torch.softmax(s, -1), v)


def grouped(q, k, v, lengths):
    """Decoding, with heads that share their keys."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[2], 2).float() for t in (k, v))
    s = torch.einsum("bhd,bthd->bht", q.float(), k) * q.shape[-1] ** -0.5
    at = torch.arange(k.shape[1], device=q.device)
    s = s.masked_fill(at >= lengths[:, None, None], -math.inf)
    return torch.einsum("bht,bthd->bhd", s.softmax(-1), v).to(q.dtype)


def grouped_causal(q, k, v):
    k, v = (t[:, :, None].expand(-1, -1, 3, -1, -1).flatten(1, 2) for t in (k, v))
    return triangle(q, k, v)


def grouped_window(q, k, v):
    return window(q, *(t.repeat_interleave(3, 1) for t in (k, v)))


def tiled(q, k, v):
    return plain(q, k.repeat(1, 3, 1, 1), v.repeat(1, 3, 1, 1))


def rows_of_a_product(x, w, v):
    """Queries that a product gives."""
    q, k = (x @ w).split(16, -1)
    return plain(q, k, v)


# --------------------------------------------------------------------------- what stays


def other_axis(q, k, v):
    return torch.softmax(scores_of(q, k), -2) @ v.float()


def other_heads(q, k, v):
    return torch.softmax(scores_of(q, k), 1) @ v.float()


def mask_of_scores(q, k, v):
    s = scores_of(q, k)
    return torch.softmax(s.masked_fill(s < 0, -math.inf), -1) @ v.float()


def returned(q, k, v):
    s = scores_of(q, k)
    return torch.softmax(s, -1) @ v.float(), s


def weights_returned(q, k, v):
    p = torch.softmax(scores_of(q, k), -1)
    return p @ v.float(), p


def capped(q, k, v):
    return torch.softmax(torch.tanh(scores_of(q, k)), -1) @ v.float()


def negative(q, k, v):
    return torch.softmax(-scores_of(q, k), -1) @ v.float()


def weighted(q, k, v, bias):
    return torch.softmax(scores_of(q, k) * bias, -1) @ v.float()


def weights_masked(q, k, v):
    return torch.softmax(scores_of(q, k), -1).tril() @ v.float()


def wrong_sum(q, k, v):
    s = scores_of(q, k)
    e = torch.exp(s - s.amax(-1, keepdim=True))
    return e / e.sum(-2, keepdim=True) @ v.float()


def wrong_shift(q, k, v):
    s = scores_of(q, k)
    e = torch.exp(s - s.amax(-2, keepdim=True))
    return e / e.sum(-1, keepdim=True) @ v.float()


def shift_of_other_rows(q, k, v):
    s = scores_of(q, k)
    e = torch.exp(s - s.amax(-1)[..., None, :])
    return e / e.sum(-1, keepdim=True) @ v.float()


def largest_of_all(q, k, v):
    """A shift that is no row's own is left alone, though it cancels."""
    s = scores_of(q, k)
    e = torch.exp(s - s.amax())
    return e / e.sum(-1, keepdim=True) @ v.float()


def perhaps_no_key(q, k, v, kept):
    """A row without keys is the mean of all values."""
    return torch.softmax(scores_of(q, k).masked_fill(kept[:, None, None, :] == 0, -1e9), -1) @ v


def no_key(q, k, v):
    keep = torch.ones(q.shape[-2], k.shape[-2], device=q.device).tril(-1)
    return torch.softmax(scores_of(q, k).masked_fill(keep == 0, -1e9), -1) @ v.float()


def slightly_lower(q, k, v):
    keep = torch.ones(q.shape[-2], k.shape[-2], device=q.device).tril()
    return torch.softmax(scores_of(q, k).masked_fill(keep == 0, -5.0), -1) @ v.float()


def rows_swapped(q, k, v):
    """Weights of other queries and heads."""
    p = torch.softmax(scores_of(q, k), -1)
    return p.transpose(0, 1).reshape(p.shape) @ v.float()


MASK = torch.tensor([[0.0] * 8, [1.0] * 5 + [0.0] * 3])
"""The first sequence has no key."""
GQA = [(2, 6, 8, 16), (2, 2, 8, 16), (2, 2, 8, 16)]
FUSED: dict[Any, list[Any]] = {
    plain: [*LONG, half],
    by_hand: [*LONG, brain],
    reciprocal: [*LONG, wide],
    columns: [*LONG, wide],
    matrices: [(5, 16), (8, 16), (8, 4), wide],
    triangle: [*SQUARE, half],
    added: [*SQUARE, brain],
    compared: [*SQUARE, half],
    window: [*SQUARE, wide],
    biased: [*LONG, (3, 5, 8), MASK, wide],
    baddbmm: [(6, 5, 16), (6, 8, 16), (6, 8, 4), (5, 8), wide],
    grouped: [(3, 6, 16), (3, 9, 2, 16), (3, 9, 2, 16), torch.tensor([4, 0, 9]), half],
    grouped_causal: [*GQA, half],
    grouped_window: [*GQA, wide],
    tiled: [*GQA, half],
    rows_of_a_product: [(8, 16), (16, 32), (8, 4), wide],
}
STAYING: dict[Any, list[Any]] = {
    **{f: [*SQUARE, half] for f in (other_axis, other_heads, mask_of_scores, returned)},
    **{f: [*SQUARE, half] for f in (weights_returned, capped, negative, weights_masked)},
    **{f: [*SQUARE, half] for f in (wrong_sum, wrong_shift, shift_of_other_rows, no_key)},
    **{f: [*SQUARE, half] for f in (slightly_lower, rows_swapped, largest_of_all)},
    weighted: [*LONG, (5, 8), wide],
    perhaps_no_key: [*LONG, MASK, wide],
}


def _arguments(listed: list[Any]) -> list[torch.Tensor]:
    *operands, dtype = listed
    return [t if isinstance(t, torch.Tensor) else torch.randn(t).to(dtype) for t in operands]


class _Evaluated(torch.fx.Interpreter):
    """Values of a graph on the CPU; keeps the arguments of its attention."""

    called: dict[str, Any] | None = None

    def call_function(self, target, args, kwargs):
        if target is not torch.ops.solkit_inductor.attention.default:
            return super().call_function(target, args, kwargs)
        query, key, value, mask, dropout, is_causal, scale, is_grouped = args
        self.called = {"dtype": str(query.dtype), "causal": is_causal, "grouped": is_grouped}
        self.called |= {"query": tuple(query.shape), "key": tuple(key.shape)}
        self.called["mask"] = None if mask is None else tuple(mask.shape)
        assert not dropout
        return _attention(query, key, value, mask, is_causal, scale).contiguous()


def _attention(query, key, value, mask, is_causal, scale):
    """`scaled_dot_product_attention` as PyTorch documents it; a row without keys gives 0."""
    heads = query.shape[1] // key.shape[1]
    key, value = (tensor.double().repeat_interleave(heads, 1) for tensor in (key, value))
    scores = query.double() @ key.mT * scale
    if is_causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None and mask.dtype is torch.bool:
        scores = scores.masked_fill(~mask, -math.inf)
    elif mask is not None:
        assert mask.dtype is query.dtype
        scores = scores + mask
    return (torch.softmax(scores, -1).nan_to_num(0.0) @ value).to(query.dtype)


def fused() -> dict[str, tuple[bool, dict[str, Any] | None, float]]:
    """Return for each function: if it changed, the call, and the largest error."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from solkit.adapters.inductor_program._fused_attention import fuse_attention
    from solkit.adapters.inductor_program._graph import Tensors, trace_function

    torch.manual_seed(0)
    outcomes = {}
    for function, listed in {**FUSED, **STAYING}.items():
        real = _arguments(listed)
        with FakeTensorMode() as mode:
            fakes = tuple(mode.from_tensor(tensor) for tensor in real)
            traced = trace_function(lambda _, *args, f=function: f(*args), Tensors(fakes, {}, {}))
            changed = fuse_attention(traced.graph)
        traced.graph.graph.lint()
        evaluated = _Evaluated(traced.graph)
        result, expected = evaluated.run(*real)[0], function(*real)
        expected = expected if isinstance(expected, torch.Tensor) else expected[0]
        same = (result.shape, result.dtype, result.isnan().tolist())
        assert same == (expected.shape, expected.dtype, expected.isnan().tolist()), function
        error = (result.double() - expected.double()).abs().nan_to_num().max().item()
        outcomes[function.__name__] = changed, evaluated.called, error
    return outcomes
