"""Graphs that Inductor has templates for: products of matrices, convolutions, attention."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tools.inductor.graphs import Given, Variant, add

__all__: list[str] = []

_TUNED: dict[str, Any] = {
    "max_autotune": True,
    "max_autotune_gemm_backends": "TRITON",
    "max_autotune_conv_backends": "TRITON",
}
_TMA = {**_TUNED, "triton.enable_persistent_tma_matmul": True}
_NATIVE = {"triton.native_matmul": True}
_EVEN, _ODD = 0, 1
_PRODUCT = (
    Variant(_EVEN, torch.bfloat16, _TUNED),
    Variant(_ODD, torch.float16, _TUNED),
    Variant(_EVEN, torch.float32, _TUNED),
    Variant(_EVEN, torch.bfloat16, _TMA),
    Variant(_EVEN, torch.float16, _NATIVE),
    Variant(_ODD, torch.float32, _NATIVE),
)
_PLAIN = _PRODUCT[:3]
_MM = (((2048, 1024), (1024, 2048)), ((1000, 712), (712, 1500)))
_LINEAR = tuple((*shapes, (shapes[1][1],)) for shapes in _MM)

# ------------------------------------------------------------------------------- one product


@add(*_MM, variants=_PRODUCT)
def product(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


@add(*((shapes[0], shapes[1][::-1]) for shapes in _MM), variants=_PRODUCT)
def product_transposed(x: Tensor, w: Tensor) -> Tensor:
    return x @ w.t()


@add(*((shapes[0][::-1], shapes[1]) for shapes in _MM), variants=_PRODUCT)
def product_of_columns(x: Tensor, w: Tensor) -> Tensor:
    return x.t() @ w


@add(*_LINEAR, variants=_PRODUCT)
def linear(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.addmm(b, x, w)


@add(*_LINEAR, variants=_PRODUCT)
def linear_relu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(torch.addmm(b, x, w))


@add(*_LINEAR, variants=_PLAIN)
def product_gelu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(x @ w + b)


@add(*_LINEAR, variants=_PLAIN)
def product_gelu_tanh(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(torch.addmm(b, x, w), approximate="tanh")


@add(*_LINEAR, variants=_PRODUCT)
def product_silu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.silu(x @ w) * b


@add(*((*shapes, (shapes[0][0], shapes[1][1])) for shapes in _MM), variants=_PRODUCT)
def product_residual(x: Tensor, w: Tensor, r: Tensor) -> Tensor:
    return x @ w + r


@add(*((*shapes, (shapes[0][0], shapes[1][1])) for shapes in _MM), variants=_PLAIN)
def product_gate(x: Tensor, w: Tensor, gate: Tensor) -> Tensor:
    return (x @ w) * F.silu(gate)


@add(*_MM, variants=_PLAIN)
def product_clamp(x: Tensor, w: Tensor) -> Tensor:
    return torch.clamp((x @ w) * 0.125, -4, 4)


@add(*_MM, variants=_PLAIN)
def product_tanh_twice(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    y = x @ w
    return y, torch.tanh(y * 0.1)


@add(*((*shapes, (shapes[0][0], 1), (shapes[1][1],)) for shapes in _MM), variants=_PLAIN)
def product_scaled_rows_columns(x: Tensor, w: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    return (x @ w) * rows * columns


@add(*_MM, variants=_PLAIN)
def product_of_relu(x: Tensor, w: Tensor) -> Tensor:
    return F.relu(x) @ w


@add(*((*shapes, (shapes[0][1],)) for shapes in _MM), variants=_PLAIN)
def product_of_scaled(x: Tensor, w: Tensor, s: Tensor) -> Tensor:
    return (x * s) @ w


@add(((16, 4096), (4096, 4096)), ((5, 3000), (3000, 1111)), variants=_PLAIN)
def product_of_few_rows(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


def _bytes(*shape: int) -> Given:
    return Given(lambda _: torch.randint(-60, 60, shape, dtype=torch.int8))


# aten._int_mm takes multiples of 8
_INT8 = (
    (_bytes(2048, 1024), _bytes(1024, 2048), (2048,)),
    (_bytes(1000, 712), _bytes(712, 1504), (1504,)),
)
_MIXED = (((2048, 1024), _bytes(1024, 2048), (2048,)), ((1000, 712), _bytes(712, 1500), (1500,)))


@add(*(shapes[:2] for shapes in _INT8), variants=_PLAIN[:2])
def product_int8(x: Tensor, w: Tensor) -> Tensor:
    return torch._int_mm(x, w)


@add(*_INT8, variants=_PLAIN)
def product_int8_scaled(x: Tensor, w: Tensor, s: Tensor) -> Tensor:
    return (torch._int_mm(x, w) * (s.float() * 1e-3)).to(s.dtype)


@add(*(shapes[:2] for shapes in _MIXED), variants=_PLAIN)
def product_of_int8_weights(x: Tensor, w: Tensor) -> Tensor:
    return x @ w.to(x.dtype)


@add(*_MIXED, variants=_PLAIN)
def product_of_scaled_int8_weights(x: Tensor, w: Tensor, s: Tensor) -> Tensor:
    return x @ (w.to(x.dtype) * (s * 0.01))


@add(*_MIXED, variants=_PLAIN)
def product_of_int8_weights_scaled(x: Tensor, w: Tensor, s: Tensor) -> Tensor:
    return F.silu((x @ w.to(x.dtype)) * s)


# ------------------------------------------------------------------------------ many products

_BMM = (((16, 512, 256), (16, 256, 512)), ((7, 300, 200), (7, 200, 333)))
_BATCHES = (
    Variant(_EVEN, torch.bfloat16, _TUNED),
    Variant(_ODD, torch.float16, _TUNED),
    Variant(_EVEN, torch.float16, _NATIVE),
)


@add(*_BMM, variants=_BATCHES)
def products(x: Tensor, w: Tensor) -> Tensor:
    return torch.bmm(x, w)


@add(*((b[0], (b[1][0], b[1][2], b[1][1])) for b in _BMM), variants=_BATCHES)
def scores(q: Tensor, k: Tensor) -> Tensor:
    return (q @ k.transpose(1, 2)) * 0.0625


@add(*_BMM, variants=_BATCHES)
def products_gelu(x: Tensor, w: Tensor) -> Tensor:
    return F.gelu(torch.bmm(x, w))


@add(*((*b, (b[0][0], b[0][1], b[1][2])) for b in _BMM), variants=_BATCHES)
def products_residual(x: Tensor, w: Tensor, r: Tensor) -> Tensor:
    return torch.baddbmm(r, x, w)


@add(*((*b, (b[0][0], 1, b[1][2])) for b in _BMM), variants=_BATCHES)
def products_bias_relu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(torch.bmm(x, w) + b)


@add(*_BMM, variants=_BATCHES)
def causal_scores(q: Tensor, k: Tensor) -> Tensor:
    y = torch.bmm(q, k)
    rows = torch.arange(y.shape[1], device=y.device)[:, None]
    columns = torch.arange(y.shape[2], device=y.device)
    return torch.where(columns <= rows, y * 0.1, -1e4)


@add(*_BMM, variants=_BATCHES)
def soft_capped_scores(q: Tensor, k: Tensor) -> Tensor:
    return 30 * torch.tanh(torch.bmm(q, k) / 30)


def _ends(*ends: int) -> Given:
    return Given(lambda _: torch.tensor(ends, dtype=torch.int32))


_GROUPS = (Variant(0, torch.bfloat16, _TUNED), Variant(1, torch.bfloat16, _TUNED))
_ENDS = (_ends(64, 700, 712, 1024), _ends(200, 208, 320, 400, 640))


@add(
    ((1024, 512), (4, 512, 768), _ENDS[0]),
    ((640, 256), (5, 256, 320), _ENDS[1]),
    variants=_GROUPS,
)
def grouped_rows(x: Tensor, w: Tensor, ends: Tensor) -> Tensor:
    return torch._grouped_mm(x, w, ends)


@add(
    ((1024, 512), (4, 768, 512), _ENDS[0]),
    ((640, 256), (5, 320, 256), _ENDS[1]),
    variants=_GROUPS,
)
def grouped_rows_transposed(x: Tensor, w: Tensor, ends: Tensor) -> Tensor:
    return torch._grouped_mm(x, w.transpose(1, 2), ends)


@add(
    ((512, 1024), (1024, 768), _ENDS[0]),
    ((256, 640), (640, 320), _ENDS[1]),
    variants=_GROUPS,
)
def grouped_depths(x: Tensor, w: Tensor, ends: Tensor) -> Tensor:
    return torch._grouped_mm(x, w, ends)


@add(((4, 512, 256), (4, 256, 768)), ((5, 128, 320), (5, 320, 64)), variants=_GROUPS)
def grouped_all(x: Tensor, w: Tensor) -> Tensor:
    return torch._grouped_mm(x, w)


@add(
    ((1024, 512), (4, 512, 768), _ENDS[0]),
    ((640, 256), (5, 256, 320), _ENDS[1]),
    variants=_GROUPS,
)
def grouped_rows_silu(x: Tensor, w: Tensor, ends: Tensor) -> Tensor:
    return F.silu(torch._grouped_mm(x, w, ends))


# ------------------------------------------------------------------------------- convolutions


def _image(*shape: int) -> Given:
    """Channels last, as Inductor wants them: else it copies the tensor first."""
    layout = torch.channels_last
    return Given(lambda dtype: torch.randn(shape).to(dtype, memory_format=layout))


_CONVOLUTION = (
    Variant(0, torch.float16, _TUNED),
    Variant(1, torch.bfloat16, _TUNED),
    Variant(0, torch.float32, _TUNED),
)


def _convolution(height: int, width: int) -> tuple[tuple[Given | tuple[int, ...], ...], ...]:
    return (
        (_image(8, 64, 56, 56), _image(128, 64, height, width), (128,)),
        (_image(3, 24, 33, 47), _image(40, 24, height, width), (40,)),
    )


@add(*(shapes[:2] for shapes in _convolution(3, 3)), variants=_CONVOLUTION)
def convolution(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(x, w, padding=1)


@add(*_convolution(3, 3), variants=_CONVOLUTION)
def convolution_bias_relu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(F.conv2d(x, w, padding=1) + b[:, None, None])


@add(*_convolution(3, 3), variants=_CONVOLUTION)
def convolution_strided_silu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.silu(F.conv2d(x, w, stride=2, padding=1) * b[:, None, None])


@add(*(shapes[:2] for shapes in _convolution(5, 5)), variants=_CONVOLUTION)
def convolution_wide(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(x, w, padding=2)


@add(*_convolution(7, 1), variants=_CONVOLUTION)
def convolution_tall_tanh(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.tanh(F.conv2d(x, w, padding=(3, 0))) + b[:, None, None]


@add(
    (_image(8, 64, 56, 56), _image(128, 32, 3, 3)),
    (_image(3, 24, 33, 47), _image(40, 12, 3, 3)),
    variants=_CONVOLUTION,
)
def convolution_grouped(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(x, w, padding=1, groups=2)


@add(
    (_image(8, 64, 56, 56), _image(64, 64, 3, 3), _image(8, 64, 56, 56)),
    (_image(3, 24, 33, 47), _image(24, 24, 3, 3), _image(3, 24, 33, 47)),
    variants=_CONVOLUTION,
)
def convolution_residual(x: Tensor, w: Tensor, r: Tensor) -> Tensor:
    return F.relu(F.conv2d(x, w, padding=1) + r)
