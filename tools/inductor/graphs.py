"""The functions that `tools.inductor` has Inductor compile: what models are made of.

A `Graph` is a function of tensors with the shapes it is compiled for. Floating tensors take the
dtype that is asked for; `Index`, `Mask` and `Given` stand for the others. Where `gradient` is set,
what is compiled is the function together with the gradients of its floating arguments.

Here is what needs no choice of Inductor's; `templates` has what it has templates for, and
`splits` what it spreads over many programs or puts together in one launch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Union

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["GRAPHS", "Argument", "Given", "Graph", "Index", "Mask", "Variant", "add"]


@dataclass(frozen=True)
class Index:
    """An int64 tensor of values in [0, `high`)."""

    shape: tuple[int, ...]
    high: int


@dataclass(frozen=True)
class Mask:
    """A tensor of booleans."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class Given:
    """Dtypes that a function makes of the one that is requested."""

    make: Callable[[torch.dtype], Tensor]


Argument = Union[tuple[int, ...], Index, Mask, Given]
Shapes = tuple[Argument, ...]


@dataclass(frozen=True)
class Variant:
    """One way to compile a graph.

    Attributes:
        shapes: which of the graph's, counted round.
        dtype: of its floating arguments.
        settings: of ``torch._inductor.config``.
    """

    shapes: int
    dtype: torch.dtype
    settings: Mapping[str, Any]


_LOOPED = {"split_reductions": False, "triton.persistent_reductions": False}
_BLOCK_POINTERS = {
    "split_reductions": False,
    "triton.use_block_ptr": True,
    "triton.prefer_nd_tiling": True,
}
VARIANTS = (
    Variant(0, torch.bfloat16, {}),
    Variant(1, torch.float16, {}),
    Variant(0, torch.float32, _BLOCK_POINTERS),
    Variant(1, torch.float32, _LOOPED),
)
"""Twice with Inductor's own settings, twice with others, under which it writes the same graph
otherwise."""


@dataclass(frozen=True)
class Graph:
    """A function, the shapes of its arguments, whether its gradient is wanted too, and variants."""

    function: Callable[..., Tensor | tuple[Tensor, ...]]
    shapes: tuple[Shapes, ...]
    gradient: bool
    variants: tuple[Variant, ...]


GRAPHS: dict[str, Graph] = {}

_Function = Callable[..., "Tensor | tuple[Tensor, ...]"]


def add(
    *shapes: Shapes, gradient: bool = False, variants: tuple[Variant, ...] = VARIANTS
) -> Callable[[_Function], _Function]:
    """A decorator that puts a function among the graphs, under its name."""

    def put(function: _Function) -> _Function:
        GRAPHS[function.__name__] = Graph(function, shapes, gradient, variants)
        return function

    return put


_ROWS: tuple[Shapes, ...] = (((2048, 1024),), ((509, 4003),))
_PAIR: tuple[Shapes, ...] = (((2048, 1024), (2048, 1024)), ((333, 5001), (333, 5001)))
_BIAS: tuple[Shapes, ...] = (((2048, 1024), (1024,)), ((515, 3000), (3000,)))
_NORM: tuple[Shapes, ...] = (((2048, 1024), (1024,), (1024,)), ((384, 5120), (5120,), (5120,)))
_IMAGE: tuple[Shapes, ...] = (((8, 64, 56, 56),), ((3, 48, 97, 97),))
_HEADS: tuple[Shapes, ...] = (((2, 8, 384, 384),), ((1, 6, 333, 500),))

# ------------------------------------------------------------------------------ elementwise


@add(*_BIAS, gradient=True)
def bias_gelu(x: Tensor, b: Tensor) -> Tensor:
    return F.gelu(x + b)


@add(*_BIAS, gradient=True)
def bias_gelu_tanh(x: Tensor, b: Tensor) -> Tensor:
    return F.gelu(x + b, approximate="tanh")


@add(*_BIAS, gradient=True)
def bias_relu_square(x: Tensor, b: Tensor) -> Tensor:
    return torch.square(F.relu(x + b))


@add(*_BIAS, gradient=True)
def bias_silu(x: Tensor, b: Tensor) -> Tensor:
    return F.silu(x + b)


@add(*_ROWS, gradient=True)
def mish(x: Tensor) -> Tensor:
    return F.mish(x)


@add(*_ROWS, gradient=True)
def softplus_tanh(x: Tensor) -> Tensor:
    return x * torch.tanh(F.softplus(x, beta=1.5))


@add(*_ROWS, gradient=True)
def elu_hardtanh(x: Tensor) -> Tensor:
    return F.elu(x) + F.hardtanh(x, -0.5, 0.5)


@add(*_ROWS)
def hardswish_hardsigmoid(x: Tensor) -> Tensor:
    return F.hardswish(x) - F.hardsigmoid(x)


@add(*_ROWS)
def leaky_selu(x: Tensor) -> Tensor:
    return F.leaky_relu(F.selu(x), 0.1)


@add(*_ROWS)
def polynomial(x: Tensor) -> Tensor:
    return ((0.3 * x + 0.1) * x - 0.7) * x + 2.0


@add(*_ROWS)
def trigonometry(x: Tensor) -> Tensor:
    return torch.sin(x) * torch.cos(2 * x) + torch.atan(x)


@add(*_ROWS)
def safe_logarithm(x: Tensor) -> Tensor:
    return torch.log1p(x.abs()) * torch.sign(x)


@add(*_ROWS)
def quiet_root(x: Tensor) -> Tensor:
    return torch.sqrt(x * x + 1e-3) - torch.rsqrt(x.abs() + 1.0)


@add(*_ROWS)
def round_clamp(x: Tensor) -> Tensor:
    return torch.clamp(torch.round(x * 16), -128, 127) / 16


@add(*_ROWS)
def floor_fraction(x: Tensor) -> Tensor:
    return x - torch.floor(x) + torch.trunc(x)


@add(*_PAIR, gradient=True)
def swiglu(x: Tensor, gate: Tensor) -> Tensor:
    return F.silu(gate) * x


@add(*_PAIR, gradient=True)
def geglu(x: Tensor, gate: Tensor) -> Tensor:
    return F.gelu(gate) * x


@add(((2048, 2048),), ((511, 3002),), gradient=True)
def glu_halves(x: Tensor) -> Tensor:
    return F.glu(x, dim=-1)


@add(*_PAIR)
def minimum_maximum(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return torch.minimum(x, y), torch.maximum(x, y)


@add(*_PAIR)
def distance_parts(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return torch.hypot(x, y), torch.atan2(x, y)


@add(*_PAIR)
def compare_select(x: Tensor, y: Tensor) -> Tensor:
    return torch.where((x > y) & (x > 0), x - y, y * 0.5)


@add(*_PAIR)
def compare_mask(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return x >= y, (x - y).abs() < 0.1


@add(((2048, 1024), (2048, 1), (1024,)), ((700, 2500), (700, 1), (2500,)), gradient=True)
def scale_rows_columns(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    return x * rows + columns


@add(((1500, 1), (1, 1400)), ((777, 1), (1, 3001)))
def outer_difference(x: Tensor, y: Tensor) -> Tensor:
    return torch.exp(-((x - y) ** 2))


@add(((64, 128, 256), (128, 1), (256,)), ((7, 300, 999), (300, 1), (999,)))
def broadcast_middle(x: Tensor, m: Tensor, n: Tensor) -> Tensor:
    return torch.sigmoid(x + m) * n


@add(((2048, 1024), (2048, 1024), (2048, 1024), (2048, 1024)))
def lerp_four(x: Tensor, y: Tensor, z: Tensor, w: Tensor) -> Tensor:
    return torch.lerp(torch.lerp(x, y, 0.3), torch.lerp(z, w, 0.6), 0.5)


@add(((2048, 1024), Mask((2048, 1024))), ((500, 4001), Mask((500, 4001))), gradient=True)
def dropout_by_mask(x: Tensor, keep: Tensor) -> Tensor:
    return torch.where(keep, x / 0.9, 0.0)


@add(((2048, 1024), (2048, 1024), Mask((2048, 1024))), gradient=True)
def dropout_residual(x: Tensor, residual: Tensor, keep: Tensor) -> Tensor:
    return x * keep * 1.25 + residual


@add(*_ROWS)
def five_outputs(x: Tensor) -> tuple[Tensor, ...]:
    y = torch.tanh(x)
    return y, 1 - y * y, x.exp(), x.neg(), x.relu()


@add(((4, 512, 8, 64), (512, 64), (512, 64)), ((2, 1000, 12, 80), (1000, 80), (1000, 80)))
def rope_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * cos[None, :, None, :] + turned * sin[None, :, None, :]


@add(((4, 512, 8, 64), (512, 32), (512, 32)), ((2, 1000, 12, 80), (1000, 40), (1000, 40)))
def rope_interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    even, odd = x[..., 0::2], x[..., 1::2]
    c, s = cos[None, :, None, :], sin[None, :, None, :]
    return torch.stack([even * c - odd * s, even * s + odd * c], dim=-1).flatten(-2)


@add(*_ROWS)
def positions_sinusoid(x: Tensor) -> Tensor:
    position = torch.arange(x.shape[0], device=x.device)[:, None]
    rate = torch.exp(torch.arange(x.shape[1], device=x.device) * -0.01)
    return x + torch.sin(position * rate).to(x.dtype)


# ------------------------------------------------------------------------- moving, indexing


@add(*_ROWS)
def transpose_scale(x: Tensor) -> Tensor:
    return (x * 2 + 1).t().contiguous()


@add(((2048, 1024), (1024, 2048)), ((501, 3999), (3999, 501)))
def add_transposed(x: Tensor, y: Tensor) -> Tensor:
    return x + y.t()


@add(((8, 384, 12, 64),), ((3, 500, 7, 96),))
def heads_first(x: Tensor) -> Tensor:
    return (x * 0.125).permute(0, 2, 1, 3).contiguous()


@add(((8, 384, 12, 64),), ((3, 500, 7, 96),))
def heads_last_dim(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).contiguous() + 1


@add(*_IMAGE)
def channels_last(x: Tensor) -> Tensor:
    return F.relu(x).permute(0, 2, 3, 1).contiguous()


@add(((2048, 512), (2048, 512)), ((700, 1001), (700, 1999)))
def concatenate(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([x.relu(), y.sigmoid()], dim=1)


@add(((1024, 512), (1024, 512), (1024, 512)))
def stack_three(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return torch.stack([x + y, y + z, z + x], dim=1)


@add(*_IMAGE, gradient=True)
def pad_constant(x: Tensor) -> Tensor:
    return F.pad(x, (1, 2, 3, 1), value=0.5) * 2


@add(*_IMAGE)
def pad_reflect(x: Tensor) -> Tensor:
    return F.pad(x, (2, 2, 3, 3), mode="reflect")


@add(*_IMAGE)
def pad_replicate(x: Tensor) -> Tensor:
    return F.pad(x, (2, 1, 1, 2), mode="replicate") + 1


@add(*_ROWS)
def roll_flip(x: Tensor) -> Tensor:
    return torch.roll(x, 17, dims=1) + torch.flip(x, dims=[0])


@add(*_ROWS)
def neighbours(x: Tensor) -> Tensor:
    return x[1:-1, :-2] + x[1:-1, 2:] - 2 * x[1:-1, 1:-1]


@add(((8, 64, 48, 48),), ((3, 36, 80, 80),))
def pixel_shuffle(x: Tensor) -> Tensor:
    return F.pixel_shuffle(x, 2).relu()


@add(((8, 32, 96, 96),), ((2, 24, 130, 130),))
def space_to_depth(x: Tensor) -> Tensor:
    return F.pixel_unshuffle(x, 2) * 0.5


@add(*_ROWS)
def lower_triangle(x: Tensor) -> Tensor:
    return torch.tril(x) - torch.triu(x, 3)


@add((Index((4096,), 30000), (30000, 256)), (Index((777,), 5000), (5000, 1000)))
def embedding(index: Tensor, table: Tensor) -> Tensor:
    return F.embedding(index, table) * 16


@add((Index((8, 512), 10000), (10000, 256), (512, 256)))
def embedding_positions(index: Tensor, table: Tensor, positions: Tensor) -> Tensor:
    return F.embedding(index, table) + positions


@add(((2048, 1024), Index((2048, 256), 1024)), ((300, 5000), Index((300, 1999), 5000)))
def gather_columns(x: Tensor, index: Tensor) -> Tensor:
    return torch.gather(x, 1, index).exp()


@add(((4096, 512), Index((3000,), 4096)), ((900, 1777), Index((1234,), 900)))
def select_rows(x: Tensor, index: Tensor) -> Tensor:
    return x[index] + 1


@add(((512, 4096), Index((3000,), 4096)), ((900, 1777), Index((1234,), 1777)))
def select_columns(x: Tensor, index: Tensor) -> Tensor:
    return x[:, index].relu()


@add(((2048, 1024), Index((2048,), 1024), Index((2048,), 2048)))
def select_points(x: Tensor, columns: Tensor, rows: Tensor) -> Tensor:
    return x[rows, columns] * 2


@add((Index((4096,), 1000),), (Index((911,), 3000),))
def one_hot(index: Tensor) -> Tensor:
    return (index[:, None] == torch.arange(1000, device=index.device)).to(torch.float32)


@add(((2048, 1024), Mask((2048, 1024))), ((500, 3999), Mask((500, 3999))))
def masked_fill(x: Tensor, mask: Tensor) -> Tensor:
    return x.masked_fill(mask, -1e4) * 0.5


@add(*_IMAGE)
def upsample_nearest(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2.0, mode="nearest")


@add(((4, 32, 40, 40),), ((1, 17, 99, 99),))
def upsample_bilinear(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2.0, mode="bilinear")


@add(((4, 16, 24, 24),), ((1, 17, 50, 50),))
def upsample_bicubic(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2.0, mode="bicubic")


@add(*_IMAGE, gradient=True)
def average_pool(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, 3, 2, 1)


@add(*_IMAGE)
def max_pool(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 3, 2, 1)


@add(((4, 64, 2048),), ((1, 100, 9001),))
def average_pool1d(x: Tensor) -> Tensor:
    return F.avg_pool1d(x, 4, 4) * 2


@add(((1024, 1024),), ((777, 999),))
def stencil_five(x: Tensor) -> Tensor:
    middle = x[1:-1, 1:-1]
    return middle + 0.2 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * middle)


@add(((64, 96, 96),), ((50, 77, 130),))
def stencil_3d(x: Tensor) -> Tensor:
    y = x[1:-1, 1:-1, 1:-1] * -6 + x[:-2, 1:-1, 1:-1] + x[2:, 1:-1, 1:-1]
    y = y + x[1:-1, :-2, 1:-1] + x[1:-1, 2:, 1:-1]
    return y + x[1:-1, 1:-1, :-2] + x[1:-1, 1:-1, 2:]


@add(((4, 256, 2048), (256, 4)), ((1, 300, 5000), (300, 4)))
def causal_taps(x: Tensor, w: Tensor) -> Tensor:
    padded = F.pad(x, (3, 0))
    taps = [padded[..., i : i + x.shape[-1]] * w[:, i, None] for i in range(4)]
    return F.silu(taps[0] + taps[1] + taps[2] + taps[3])


# ----------------------------------------------------------------------------- reductions


@add(*_ROWS, ((64, 32768),))
def row_sum(x: Tensor) -> Tensor:
    return x.sum(dim=1)


@add(*_ROWS, ((16384, 96),))
def column_sum(x: Tensor) -> Tensor:
    return x.sum(dim=0)


@add(*_ROWS)
def row_max_min(x: Tensor) -> tuple[Tensor, ...]:
    return x.amax(dim=1), x.amin(dim=1)


@add(*_ROWS)
def column_max(x: Tensor) -> Tensor:
    return x.amax(dim=0)


@add(*_ROWS)
def row_argmax(x: Tensor) -> Tensor:
    return x.argmax(dim=1)


@add(*_ROWS)
def column_argmin(x: Tensor) -> Tensor:
    return x.argmin(dim=0)


@add(*_ROWS)
def max_with_index(x: Tensor) -> tuple[Tensor, ...]:
    maxima = torch.max(x, dim=1)
    return maxima.values, maxima.indices


@add(((64, 128, 256),), ((17, 300, 333),))
def middle_mean(x: Tensor) -> Tensor:
    return (x * x).mean(dim=1)


@add(((64, 128, 256),), ((17, 300, 333),))
def outer_dims_sum(x: Tensor) -> Tensor:
    return x.exp().sum(dim=(0, 2))


@add(*_IMAGE)
def global_average_pool(x: Tensor) -> Tensor:
    return F.relu(x).mean(dim=(2, 3))


@add(*_ROWS)
def variance_rows(x: Tensor) -> tuple[Tensor, ...]:
    var, mean = torch.var_mean(x, dim=1)
    return var, mean


@add(*_ROWS)
def standard_deviation_columns(x: Tensor) -> Tensor:
    return torch.std(x, dim=0)


@add(*_ROWS)
def any_all(x: Tensor) -> tuple[Tensor, ...]:
    return (x > 3.5).any(dim=1), (x > -3.5).all(dim=1)


@add(*_ROWS)
def count_positive(x: Tensor) -> Tensor:
    return (x > 0).sum(dim=1)


@add(*_ROWS)
def row_product(x: Tensor) -> Tensor:
    return (1 + 1e-3 * x).prod(dim=1)


@add(*_ROWS)
def p_norms(x: Tensor) -> tuple[Tensor, ...]:
    return x.abs().sum(1), (x * x).sum(1).sqrt(), x.abs().amax(1)


@add(*_PAIR)
def row_dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(dim=1)


@add(*_PAIR, gradient=True)
def cosine_similarity(x: Tensor, y: Tensor) -> Tensor:
    return F.cosine_similarity(x, y, dim=1)


@add(*_PAIR)
def pairwise_distance(x: Tensor, y: Tensor) -> Tensor:
    return ((x - y) ** 2).sum(dim=1).sqrt()


@add(((2048, 1024), (1024,)), ((701, 3333), (3333,)))
def matrix_vector(x: Tensor, v: Tensor) -> Tensor:
    return (x * v).sum(dim=1)


@add(((64, 512), (128, 512)), ((33, 700), (77, 700)))
def small_matmul_by_hand(x: Tensor, y: Tensor) -> Tensor:
    return (x[:, None, :] * y[None, :, :]).sum(dim=-1)


@add(((48, 400), (60, 400)))
def manhattan_distances(x: Tensor, y: Tensor) -> Tensor:
    return (x[:, None, :] - y[None, :, :]).abs().sum(dim=-1)


# ----------------------------------------------------------------------- softmax, attention


@add(*_ROWS, ((32, 50257),), gradient=True)
def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, dim=-1)


@add(*_ROWS, ((32, 50257),), gradient=True)
def log_softmax(x: Tensor) -> Tensor:
    return torch.log_softmax(x, dim=-1)


@add(*_ROWS)
def softmax_columns(x: Tensor) -> Tensor:
    return torch.softmax(x, dim=0)


@add(*_ROWS)
def softmin_temperature(x: Tensor) -> Tensor:
    return torch.softmax(x * -0.7, dim=-1)


@add(*_ROWS)
def log_sum_exp(x: Tensor) -> Tensor:
    return torch.logsumexp(x, dim=-1)


@add(*_HEADS, gradient=True)
def attention_weights(x: Tensor) -> Tensor:
    return torch.softmax(x * 0.125, dim=-1)


@add(*_HEADS)
def causal_weights(x: Tensor) -> Tensor:
    rows = torch.arange(x.shape[-2], device=x.device)[:, None]
    columns = torch.arange(x.shape[-1], device=x.device)
    return torch.softmax(torch.where(columns <= rows, x * 0.125, -1e4), dim=-1)


@add(*_HEADS)
def alibi_weights(x: Tensor) -> Tensor:
    rows = torch.arange(x.shape[-2], device=x.device)[:, None]
    columns = torch.arange(x.shape[-1], device=x.device)
    slope = torch.exp2(-torch.arange(x.shape[1], device=x.device).float())[:, None, None]
    return torch.softmax(x - (slope * (rows - columns).abs()).to(x.dtype), dim=-1)


@add(*_HEADS)
def soft_capped_weights(x: Tensor) -> Tensor:
    return torch.softmax(30 * torch.tanh(x / 30), dim=-1)


@add(((2, 8, 384, 384), (384, 384)), ((1, 6, 333, 500), (333, 500)), gradient=True)
def biased_weights(x: Tensor, bias: Tensor) -> Tensor:
    return torch.softmax(x * 0.1 + bias, dim=-1)


@add(((2, 8, 384, 384), Mask((2, 1, 384, 384))))
def masked_weights(x: Tensor, keep: Tensor) -> Tensor:
    return torch.softmax(x.masked_fill(~keep, -1e4), dim=-1)


@add(*_ROWS)
def squared_relu_weights(x: Tensor) -> Tensor:
    y = F.relu(x) ** 2
    return y / (y.sum(dim=-1, keepdim=True) + 1)


@add(((64, 8, 64), (64, 512, 8, 64)))
def decode_scores(q: Tensor, k: Tensor) -> Tensor:
    return torch.softmax((q[:, None] * k).sum(-1) * 0.125, dim=1)


@add(*_ROWS)
def router_probabilities(x: Tensor) -> tuple[Tensor, ...]:
    p = torch.softmax(x[:, :64].float(), dim=-1)
    return p, p.amax(dim=-1), p.mean(dim=0)


@add(*_ROWS)
def entropy(x: Tensor) -> Tensor:
    log_p = torch.log_softmax(x, dim=-1)
    return -(log_p.exp() * log_p).sum(dim=-1)


# ----------------------------------------------------------------------------------- norms


@add(*_NORM, gradient=True)
def layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, w.shape, w, b)


@add(((2048, 1024), (2048, 1024), (1024,), (1024,)), gradient=True)
def add_layer_norm(x: Tensor, y: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x + y, w.shape, w, b)


@add(*_NORM)
def layer_norm_gelu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(F.layer_norm(x, w.shape, w, b))


@add(*_NORM)
def layer_norm_modulate(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return F.layer_norm(x, scale.shape) * (1 + scale) + shift


@add(*_BIAS, gradient=True)
def rms_norm(x: Tensor, w: Tensor) -> Tensor:
    y = x.float()
    return (y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w


@add(((2048, 1024), (2048, 1024), (1024,)), ((300, 4099), (300, 4099), (4099,)), gradient=True)
def add_rms_norm(x: Tensor, residual: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    y = x + residual
    return (y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6) * w,)


@add(((4, 512, 8, 64), (64,)), ((2, 700, 12, 128), (128,)))
def head_norm(q: Tensor, w: Tensor) -> Tensor:
    return (q * torch.rsqrt((q * q).mean(-1, keepdim=True) + 1e-6) * w).transpose(1, 2).contiguous()


@add(((8, 64, 56, 56), (64,), (64,)), ((3, 48, 97, 97), (48,), (48,)), gradient=True)
def group_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.group_norm(x, 8, w, b)


@add(((8, 64, 56, 56), (64,), (64,)), ((3, 48, 97, 97), (48,), (48,)))
def group_norm_silu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.silu(F.group_norm(x, 16, w, b))


@add(*_IMAGE)
def instance_norm(x: Tensor) -> Tensor:
    return F.instance_norm(x)


@add(((16, 64, 48, 48), (64,), (64,)), ((5, 33, 99, 99), (33,), (33,)))
def batch_norm_statistics(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    var, mean = torch.var_mean(x, dim=(0, 2, 3), keepdim=True, correction=0)
    y = (x - mean) * torch.rsqrt(var + 1e-5)
    return y * w[:, None, None] + b[:, None, None]


@add(((8, 64, 56, 56), (64,), (64,), (64,)), ((3, 48, 97, 97), (48,), (48,), (48,)))
def batch_norm_inference(x: Tensor, mean: Tensor, w: Tensor, b: Tensor) -> Tensor:
    y = (x - mean[:, None, None]) * w[:, None, None] + b[:, None, None]
    return F.relu(y)


@add(*_ROWS, gradient=True)
def l2_normalise(x: Tensor) -> Tensor:
    return F.normalize(x, dim=-1)


@add(*_ROWS)
def min_max_scale(x: Tensor) -> Tensor:
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    return (x - low) / (high - low + 1e-6)


@add(*_ROWS)
def standardise(x: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5)


@add(*_ROWS)
def weight_norm(v: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(v, dim=0, keepdim=True)
    return v / length


@add(((8, 64, 28, 28), (8, 64)), ((3, 48, 57, 57), (3, 48)))
def squeeze_excite(x: Tensor, gate: Tensor) -> Tensor:
    return x * torch.sigmoid(gate)[:, :, None, None] + x


@add(((2048, 1024), (1024,)))
def grn(x: Tensor, w: Tensor) -> Tensor:
    g: Tensor = torch.linalg.vector_norm(x, dim=0, keepdim=True)
    return x * (g / (g.mean(-1, keepdim=True) + 1e-6)) * w + x


# ---------------------------------------------------------------------------------- losses


@add(((1024, 4096), Index((1024,), 4096)), ((64, 50257), Index((64,), 50257)), gradient=True)
def cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(x, target, reduction="none")


@add(((1024, 4096), Index((1024,), 4096)))
def smoothed_cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(x, target, label_smoothing=0.1, reduction="none")


@add(*_PAIR, gradient=True)
def mean_squared_rows(x: Tensor, y: Tensor) -> Tensor:
    return ((x - y) ** 2).mean(dim=1)


@add(*_PAIR, gradient=True)
def huber(x: Tensor, y: Tensor) -> Tensor:
    return F.huber_loss(x, y, reduction="none").sum(dim=1)


@add(*_PAIR)
def smooth_l1(x: Tensor, y: Tensor) -> Tensor:
    return F.smooth_l1_loss(x, y, reduction="none")


@add(*_PAIR, gradient=True)
def binary_cross_entropy(x: Tensor, y: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(x, torch.sigmoid(y), reduction="none").mean(dim=1)


@add(*_PAIR)
def kl_divergence(x: Tensor, y: Tensor) -> Tensor:
    log_p, log_q = torch.log_softmax(x, -1), torch.log_softmax(y, -1)
    return (log_p.exp() * (log_p - log_q)).sum(-1)


@add(*_PAIR)
def focal(x: Tensor, y: Tensor) -> Tensor:
    p = torch.sigmoid(x)
    return -((1 - p) ** 2) * torch.log(p + 1e-6) * (y > 0)


@add(((2048, 512), (2048, 512), (2048, 512)))
def triplet(a: Tensor, p: Tensor, n: Tensor) -> Tensor:
    near, far = ((a - p) ** 2).sum(1), ((a - n) ** 2).sum(1)
    return F.relu(near - far + 1.0)


@add(*_PAIR)
def soft_dice(x: Tensor, y: Tensor) -> Tensor:
    p, q = torch.sigmoid(x), torch.sigmoid(y)
    return 1 - 2 * (p * q).sum(1) / (p.sum(1) + q.sum(1) + 1)


@add(*_ROWS)
def z_loss(x: Tensor) -> Tensor:
    return torch.logsumexp(x, dim=-1).square() * 1e-4


# -------------------------------------------------------------- optimizers, quantising, scans

_STATE: tuple[Shapes, ...] = (((1024, 1024),) * 4, ((999, 1501),) * 4)


@add(*_STATE)
def adam(p: Tensor, g: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v.abs() + 0.001 * g * g
    return p - 1e-3 * m / (v.sqrt() + 1e-8), m, v


@add(*_STATE)
def lion(p: Tensor, g: Tensor, m: Tensor, d: Tensor) -> tuple[Tensor, ...]:
    return p - 1e-4 * (torch.sign(0.9 * m + 0.1 * g) + 0.1 * d), 0.99 * m + 0.01 * g


@add(*_STATE)
def momentum(p: Tensor, g: Tensor, m: Tensor, d: Tensor) -> tuple[Tensor, ...]:
    m = 0.9 * m + g + 1e-4 * p
    return p - 0.1 * (g + 0.9 * m) * d, m


@add(*_STATE)
def adagrad_average(p: Tensor, g: Tensor, s: Tensor, a: Tensor) -> tuple[Tensor, ...]:
    s = s.abs() + g * g
    p = p - 0.01 * g / (s.sqrt() + 1e-10)
    return p, s, 0.999 * a + 0.001 * p


@add(*_PAIR)
def exponential_average(x: Tensor, y: Tensor) -> Tensor:
    return 0.995 * x + 0.005 * y


@add(*_ROWS)
def clip_row_norms(x: Tensor) -> Tensor:
    norm = (x * x).sum(-1, keepdim=True).sqrt()
    return x * torch.clamp(1.0 / (norm + 1e-6), max=1.0)


@add(*_ROWS)
def quantise_rows(x: Tensor) -> tuple[Tensor, ...]:
    scale = x.abs().amax(-1, keepdim=True).float() / 127
    return torch.clamp(torch.round(x / scale), -127, 127).to(torch.int8), scale


@add(*_ROWS)
def quantise_static(x: Tensor) -> Tensor:
    return torch.clamp(torch.round(x * 31.0) + 3, -128, 127).to(torch.int8)


@add(((2048, 1024),), ((500, 4096),))
def quantise_groups(x: Tensor) -> tuple[Tensor, ...]:
    groups = x.float().reshape(x.shape[0], -1, 64)
    scale = groups.abs().amax(-1, keepdim=True) / 7
    return torch.round(groups / scale).to(torch.int8), scale


@add((Index((2048, 1024), 256), (2048, 1)), (Index((500, 4001), 256), (500, 1)))
def dequantise_rows(q: Tensor, scale: Tensor) -> Tensor:
    return (q.to(scale.dtype) - 128) * scale


@add((Index((1024, 1024), 256), (1024, 1)))
def unpack_nibbles(q: Tensor, scale: Tensor) -> Tensor:
    low, high = q & 15, (q >> 4) & 15
    return (torch.stack([low, high], dim=-1).flatten(1) - 8).to(scale.dtype) * scale


@add(*_ROWS)
def cumulative_sum(x: Tensor) -> Tensor:
    return torch.cumsum(x, dim=1)


@add(*_ROWS)
def cumulative_sum_columns(x: Tensor) -> Tensor:
    return torch.cumsum(x * 0.5, dim=0)


@add(*_ROWS)
def cumulative_product(x: Tensor) -> Tensor:
    return torch.cumprod(1 + 1e-3 * x, dim=1)


@add(*_ROWS)
def cumulative_log_sum_exp(x: Tensor) -> Tensor:
    return torch.logcumsumexp(x, dim=1)


@add(((2048, 512),), ((700, 900),))
def cumulative_max(x: Tensor) -> Tensor:
    values: Tensor = torch.cummax(x, dim=1).values
    return values


@add(((4096, 256),), ((511, 500),))
def sort_rows(x: Tensor) -> Tensor:
    values: Tensor = torch.sort(x, dim=1, stable=True).values
    return values


@add(((1024, 1024),), ((777, 555),))
def segment_positions(x: Tensor) -> Tensor:
    return torch.cumsum((x > 0).to(torch.int64), dim=1) - 1


@add(((256, 2048), (256, 2048)))
def discounted_decay(x: Tensor, decay: Tensor) -> Tensor:
    total = torch.cumsum(F.logsigmoid(decay), dim=1)
    return torch.exp(total) * x


# --------------------------------------------------------- beside matrix products, assembled


@add(((512, 512), (512, 1024), (1024,)), gradient=True)
def linear_gelu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(x @ w + b)


@add(((512, 512), (512, 512), (512, 512), (512,)))
def linear_add_norm(x: Tensor, w: Tensor, r: Tensor, g: Tensor) -> Tensor:
    return F.layer_norm(x @ w + r, g.shape, g)


@add(((4, 32, 32, 32), (64, 32, 3, 3), (64,)))
def convolution_relu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(F.conv2d(x, w, b, padding=1))


@add(((4, 32, 32, 32), (32, 32, 3, 3), (32,)), gradient=True)
def convolution_norm_residual(x: Tensor, w: Tensor, g: Tensor) -> Tensor:
    y = F.conv2d(x, w, padding=1)
    return F.silu(F.group_norm(y, 8, g)) + x


@add(((2, 256, 512), (2, 256, 512), (2, 256, 512)), gradient=True)
def attention_by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (t.reshape(2, 256, 8, 64).transpose(1, 2) for t in (q, k, v))
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125, dim=-1) @ v


@add(((256, 512), (512, 1024), (512, 1024), (1024, 512), (512,)), gradient=True)
def gated_block(x: Tensor, up: Tensor, gate: Tensor, down: Tensor, g: Tensor) -> Tensor:
    y = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * g
    return x + (F.silu(y @ gate) * (y @ up)) @ down
