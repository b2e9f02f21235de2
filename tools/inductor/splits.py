"""Graphs whose reductions and scans Inductor spreads over programs, or puts into one launch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tools.inductor.graphs import Variant, add

__all__: list[str] = []

# ----------------------------------------------------------------- cooperative: a barrier within

_FORCED = {
    "split_reductions": False,
    "triton.cooperative_reductions": True,
    "triton.force_cooperative_reductions": True,
}
_LOOPED = {**_FORCED, "triton.persistent_reductions": False}
_COOPERATIVE = (
    Variant(0, torch.bfloat16, _FORCED),
    Variant(1, torch.float16, _LOOPED),
    Variant(1, torch.float32, _FORCED),
)
_LONG = (((8, 262144),), ((5, 100003),))
_LONG_PAIR = (((8, 131072),) * 2, ((5, 50021),) * 2)


@add(*_LONG, variants=_COOPERATIVE)
def cooperative_sum(x: Tensor) -> Tensor:
    return x.sum(dim=1)


@add(((4000000,),), ((1999993,),), variants=_COOPERATIVE)
def cooperative_norm(x: Tensor) -> Tensor:
    return (x.float() * x.float()).sum().sqrt()


@add(*_LONG, variants=_COOPERATIVE)
def cooperative_extremes(x: Tensor) -> tuple[Tensor, ...]:
    return x.amax(dim=1), x.amin(dim=1)


@add(*_LONG, variants=_COOPERATIVE)
def cooperative_argmax(x: Tensor) -> Tensor:
    return x.argmax(dim=1)


@add(*_LONG, variants=_COOPERATIVE)
def cooperative_variance(x: Tensor) -> tuple[Tensor, ...]:
    var, mean = torch.var_mean(x, dim=1)
    return var, mean


@add(*_LONG, variants=_COOPERATIVE)
def cooperative_softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, dim=1)


@add(*_LONG, variants=_COOPERATIVE)
def cooperative_log_softmax(x: Tensor) -> Tensor:
    return torch.log_softmax(x, dim=1)


@add(*_LONG, variants=_COOPERATIVE)
def cooperative_layer_norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[1:])


@add(*_LONG, variants=_COOPERATIVE)
def cooperative_rms_norm(x: Tensor) -> Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)


@add(*_LONG_PAIR, variants=_COOPERATIVE)
def cooperative_cosine(x: Tensor, y: Tensor) -> Tensor:
    return F.cosine_similarity(x, y, dim=1)


@add(*_LONG_PAIR, variants=_COOPERATIVE)
def cooperative_squared_error(x: Tensor, y: Tensor) -> Tensor:
    return ((x - y) ** 2).mean(dim=1)


@add(((8, 40, 4096),), ((3, 30, 5001),), variants=_COOPERATIVE)
def cooperative_group_norm(x: Tensor) -> Tensor:
    return F.silu(F.group_norm(x, 1))


# ----------------------------------------------------- split scans: each waits for those before it

_SCANNED = (Variant(0, torch.float32, {}), Variant(1, torch.bfloat16, {}))
_LINE = (((1000000,),), ((3, 333335),))


@add(*_LINE, variants=_SCANNED)
def long_cumulative_sum(x: Tensor) -> Tensor:
    return torch.cumsum(x, dim=-1)


@add(*_LINE, variants=_SCANNED)
def long_cumulative_product(x: Tensor) -> Tensor:
    return torch.cumprod(1 + 1e-4 * x, dim=-1)


@add(*_LINE, variants=_SCANNED)
def long_cumulative_sum_scaled(x: Tensor) -> Tensor:
    return torch.cumsum(torch.sigmoid(x), dim=-1) * 1e-3


@add(*_LINE, variants=_SCANNED)
def long_log_cumulative_sum_exp(x: Tensor) -> Tensor:
    return torch.logcumsumexp(x, dim=-1)


@add(*_LINE, variants=_SCANNED)
def long_positions(x: Tensor) -> Tensor:
    return torch.cumsum((x > 0).to(torch.int64), dim=-1) - 1


@add(*_LINE, variants=_SCANNED)
def long_cumulative_sum_squares(x: Tensor) -> Tensor:
    y = x.float()
    return torch.cumsum(y * y, dim=-1).sqrt()


# --------------------------------------------- reductions along both axes of one tensor in a launch

_BOTH = (Variant(0, torch.float32, {}), Variant(1, torch.bfloat16, {}))
_TALL = (((16384, 512),), ((8200, 760),))
_TALL_PAIR = (((16384, 512),) * 2, ((8200, 760),) * 2)


@add(*_TALL, variants=_BOTH)
def row_and_column_sums(x: Tensor) -> tuple[Tensor, ...]:
    return x.sum(1), x.sum(0)


@add(*_TALL_PAIR, variants=_BOTH)
def row_and_column_dots(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (x * y).sum(1), (x * y).sum(0)


@add(*_TALL, variants=_BOTH)
def row_and_column_squares(x: Tensor) -> tuple[Tensor, ...]:
    return (x.float() ** 2).mean(1), (x.float() ** 2).sum(0)


@add(*_TALL, variants=_BOTH)
def row_maxima_and_column_sums(x: Tensor) -> tuple[Tensor, ...]:
    return x.amax(1), torch.exp(-x.abs()).sum(0)


@add(*(((*s[:2], (s[0][1],))) for s in _TALL_PAIR), variants=_BOTH)
def rms_norm_gradients(g: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    x, g = x.float(), g.float()
    scale = torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)
    dot = (g * w * x).mean(-1, keepdim=True)
    return (g * w - x * scale * scale * dot) * scale, (g * x * scale).sum(0)


@add(*_TALL_PAIR, variants=_BOTH)
def softmax_gradient_and_bias(g: Tensor, p: Tensor) -> tuple[Tensor, ...]:
    dot = (g * p).sum(1, keepdim=True)
    return dot, (g * p).sum(0)


# --------------------------------------------------------- many tensors, or many results, a launch

_EACH = (Variant(0, torch.float32, {}), Variant(1, torch.bfloat16, {}))
_SIZES = (1024, 1024), (4096,), (512, 768), (333, 77)
_TENSORS = (_SIZES, ((2048, 512), (512,), (100, 999), (17,)))
_TENSOR_PAIRS = tuple(sizes * 2 for sizes in _TENSORS)
_TENSOR_TRIPLES = tuple(sizes * 3 for sizes in _TENSORS)


@add(*_TENSOR_PAIRS, variants=_EACH)
def foreach_add(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch._foreach_add(tensors[:4], tensors[4:]))


@add(*_TENSOR_PAIRS, variants=_EACH)
def foreach_average(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch._foreach_lerp(tensors[:4], tensors[4:], 0.01))


@add(*_TENSORS, variants=_EACH)
def foreach_clip(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch._foreach_clamp_max(torch._foreach_mul(tensors, 0.5), 0.25))


@add(*_TENSOR_TRIPLES, variants=_EACH)
def foreach_add_products(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch._foreach_addcmul(tensors[:4], tensors[4:8], tensors[8:], value=0.1))


@add(*_TENSOR_TRIPLES, variants=_EACH)
def foreach_adam(*tensors: Tensor) -> tuple[Tensor, ...]:
    p, g, m = tensors[:4], tensors[4:8], tensors[8:]
    m = torch._foreach_add(torch._foreach_mul(m, 0.9), g, alpha=0.1)
    scale = torch._foreach_add(torch._foreach_sqrt(torch._foreach_abs(g)), 1e-3)
    return (*torch._foreach_sub(p, torch._foreach_div(m, scale), alpha=1e-3), *m)


@add(*_TENSOR_PAIRS, variants=_EACH)
def foreach_decay(*tensors: Tensor) -> tuple[Tensor, ...]:
    p = torch._foreach_mul(tensors[:4], 0.99)
    return tuple(torch._foreach_sub(p, torch._foreach_sign(tensors[4:]), alpha=1e-2))


_COMBINED = {"combo_kernels": True, "benchmark_combo_kernel": False}
_COMBO = (Variant(0, torch.float32, _COMBINED), Variant(1, torch.bfloat16, _COMBINED))


@add(*_TENSORS, variants=_COMBO)
def combined_activations(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> tuple[Tensor, ...]:
    return F.relu(a), torch.sigmoid(b), F.gelu(c), torch.tanh(d)


@add(*_TENSORS, variants=_COMBO)
def combined_scales(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> tuple[Tensor, ...]:
    return a * 2 + 1, b.exp() - 1, F.silu(c), (d * d + 1).rsqrt()


@add(((1024, 512), (512, 700), (300, 999)), ((700, 300), (90, 64), (64, 5001)), variants=_COMBO)
def combined_row_sums(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    return a.sum(1), b.abs().sum(1), (c * c).sum(1)


@add(((1024, 512), (512, 700), (300, 999)), ((700, 300), (90, 64), (64, 501)), variants=_COMBO)
def combined_norms(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    return F.layer_norm(a, a.shape[1:]), F.layer_norm(b, b.shape[1:]), torch.softmax(c, 1)


@add(((2048, 1024), (512, 640)), ((3000, 77), (60, 5000)), variants=_COMBO)
def combined_maxima(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return a.amax(1), b.amin(1)


@add(((512, 512), (640, 1000), (4096,)), ((33, 1000), (99, 300), (7777,)), variants=_COMBO)
def combined_mixture(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    return torch.softmax(a, 1), b.mean(1), F.silu(c)
