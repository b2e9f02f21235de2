"""Attention and the cells of recurrent layers, without the libraries that a GPU has for them."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import warnings
from typing import Any, cast

import torch

__all__ = ["fake_libraries"]

_aten = torch.ops.aten
_libraries: list[Any] = []

_ATTENTION = (
    "attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal) -> Tensor"
)


def _attention_shape(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    is_causal: bool,
) -> torch.Tensor:
    del key, attn_mask, is_causal
    return query.new_empty((*query.shape[:-1], value.shape[-1]))


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """One op, unless gradients are wanted: then a decomposition that autograd can follow."""
    tensors = [t for t in (query, key, value, attn_mask) if t is not None]
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        whole = _aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
        return cast(torch.Tensor, whole[0])
    return cast(torch.Tensor, torch.ops.solkit.attention(query, key, value, attn_mask, is_causal))


def fake_libraries() -> None:
    """Keep torch from asking for a real GPU in cuDNN, attention and cells of GRUs.

    `scaled_dot_product_attention` becomes the one op ``solkit::attention``, whoever calls it.
    PyTorch would pick a fused kernel or a decomposition, by asking the GPU.
    """
    torch.backends.cudnn.enabled = False
    own, aten = torch.library.Library("solkit", "DEF"), torch.library.Library("aten", "IMPL")
    own.define(_ATTENTION)
    torch.library.register_fake("solkit::attention", _attention_shape, lib=own)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overriding a kernel is the intention
        for key in ("CUDA", "AutogradCUDA"):
            aten.impl("scaled_dot_product_attention", _attention, key)
        aten.impl("_thnn_fused_gru_cell", _gru_cell, "Meta")  # torch has one for LSTMs alone
    _libraries.extend((own, aten))  # the overrides last as long as these objects


def _gru_cell(
    gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    state: torch.Tensor,
    bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The new state, and a workspace of 5 values an element: aten/src/ATen/native/cuda/RNN.cu."""
    del gates, hidden_gates, bias, hidden_bias
    return torch.empty_like(state), state.new_empty((state.shape[0], 5 * state.shape[1]))
