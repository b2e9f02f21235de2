"""Attention as one op, and its gradient as another."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor

from solkit.adapters.fake_cuda.contents import KnownContents, computing_really, remember_contents

_aten = torch.ops.aten
_is_taken_apart = ContextVar("_is_taken_apart", default=False)

_SCHEMAS = (
    "attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal) "
    "-> Tensor",
    "attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, "
    "Tensor? attn_mask, bool is_causal, bool mask_wanted) -> Tensor[]",
)


def fake_attention(own: torch.library.Library, aten: torch.library.Library) -> None:
    """Make `scaled_dot_product_attention` call ``solkit::attention`` as long as both exist.

    PyTorch queries the GPU to choose a fused kernel or a decomposition.
    """
    for schema in _SCHEMAS:
        own.define(schema)
    torch.library.register_fake("solkit::attention", attention_shape, lib=own)
    torch.library.register_fake("solkit::attention_backward", _backward_shapes, lib=own)
    for key in ("CUDA", "AutogradCUDA", "CPU", "AutogradCPU"):
        aten.impl("scaled_dot_product_attention", _call_attention, key)


@contextmanager
def attention_taken_apart() -> Iterator[None]:
    """Make attention two products with a softmax between, for whoever looks at each of them."""
    token = _is_taken_apart.set(True)
    try:
        yield
    finally:
        _is_taken_apart.reset(token)


def attention_shape(
    query: torch.Tensor, _key: torch.Tensor, value: torch.Tensor, *_: Any
) -> torch.Tensor:
    """Return a tensor like the result of attention over these."""
    return query.new_empty((*query.shape[:-1], value.shape[-1]))


def _backward_shapes(_grad_out: torch.Tensor, *inputs: Any) -> list[torch.Tensor]:
    *tensors, mask, _is_causal, mask_wanted = inputs
    tensors += [mask] if mask_wanted and mask is not None else []
    return [tensor.new_empty(tensor.shape) for tensor in tensors]


def _call_attention(
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
    """Call one op; for real tensors, and under `torch.func`'s transforms, a decomposition."""
    tensors = [t for t in (query, key, value, attn_mask) if t is not None]
    apart = _is_taken_apart.get() or torch._C._functorch.maybe_current_level() is not None
    if apart or not any(isinstance(t, FakeTensor) for t in tensors):
        mask = _added_mask(attn_mask, query.dtype)
        whole = _aten._scaled_dot_product_attention_math(
            query, key, value, mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
        return cast(torch.Tensor, whole[0])
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return cast(torch.Tensor, _Attention.apply(query, key, value, attn_mask, is_causal))
    return cast(torch.Tensor, torch.ops.solkit.attention(query, key, value, attn_mask, is_causal))


def _added_mask(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """Return a mask that is added to scores: the decomposition adds also what is true or false."""
    if mask is None or mask.dtype is not torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, -math.inf)


class _Attention(torch.autograd.Function):
    """``solkit::attention`` with a gradient that is one op too."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """Save only the arguments, as FlashAttention does."""
        *tensors, ctx.is_causal = args
        ctx.save_for_backward(*tensors)
        return torch.ops.solkit.attention(*args)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        """Return the gradients of queries, keys, values and, if needed, the mask."""
        gradients = torch.ops.solkit.attention_backward(
            *grads, *ctx.saved_tensors, ctx.is_causal, ctx.needs_input_grad[3]
        )
        return (*gradients, *(None,) * (5 - len(gradients)))


# -------------------------------------------------------------------------- FlexAttention


def flex_attention_of(module: Any) -> Callable[..., Any]:
    """Return a `flex_attention` that calls ``solkit::attention`` with a block mask's pairs.

    With a ``score_mod`` it is two products and what comes between, so that all of it is counted.
    """

    def flex_attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        score_mod: Any = None,
        block_mask: Any = None,
        scale: float | None = None,
        enable_gqa: bool = False,
        return_lse: bool = False,
        kernel_options: Any = None,  # noqa: ARG001 - torch's signature
        *,
        return_aux: Any = None,
    ) -> Any:
        mask = None if block_mask is None else _dense_mask(module, block_mask, query, key)
        if score_mod is None:
            out = _call_attention(query, key, value, mask, enable_gqa=enable_gqa)
        else:
            out = _with_score_mod(query, key, value, mask, score_mod, scale)
        per_row = out.select(-1, 0).float()  # has their shape and depends on the same pairs
        if return_aux is not None:
            lse, scores = (
                per_row if requested else None
                for requested in (return_aux.lse, return_aux.max_scores)
            )
            return out, module.AuxOutput(lse=lse, max_scores=scores)
        return (out, per_row) if return_lse else out

    return flex_attention


def _with_score_mod(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    score_mod: Callable[..., torch.Tensor],
    scale: float | None,
) -> torch.Tensor:
    """Attention with a function of each score and its place, step by step."""
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (t.repeat_interleave(groups, dim=1) for t in (key, value))
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query @ key.transpose(-1, -2)).float() * factor
    places = [
        torch.arange(n, device=query.device).view([-1 if d == axis else 1 for d in range(4)])
        for axis, n in enumerate(scores.shape)
    ]
    scores = score_mod(scores, *places)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1).to(value.dtype) @ value


def plain_causal_biases(module: Any) -> None:
    """Make the causal biases of `torch.nn.attention.bias` plain masks: fakes have no subclass."""

    def mask_of(rows: int, columns: int, shift: int) -> torch.Tensor:
        return torch.ones(rows, columns, dtype=torch.bool, device="cuda").tril(shift)

    def bias(variant: Any, seq_len_q: int, seq_len_kv: int) -> torch.Tensor:
        lower = variant is module.CausalVariant.LOWER_RIGHT
        return mask_of(seq_len_q, seq_len_kv, seq_len_kv - seq_len_q if lower else 0)

    module.CausalBias = bias
    module.causal_upper_left = lambda rows, columns: mask_of(rows, columns, 0)
    module.causal_lower_right = lambda rows, columns: mask_of(rows, columns, columns - rows)


def _dense_mask(
    module: Any, block_mask: Any, query: torch.Tensor, key: torch.Tensor
) -> torch.Tensor | None:
    """Return the pairs that a block mask leaves, computed outside the program.

    A ``mask_mod`` that reads tensors of the program is evaluated as part of it.
    """
    batch, heads = block_mask.kv_num_blocks.shape[:2]
    shape = (batch, heads, query.shape[-2], key.shape[-2])
    if block_mask.mask_mod is module.noop_mask:
        return None
    try:
        with computing_really():
            value = module.create_mask(block_mask.mask_mod, *shape, device="cpu")
    except RuntimeError:  # it mixed real indices with fake tensors
        value = None
    if value is None or isinstance(value, FakeTensor):
        return cast(torch.Tensor, module.create_mask(block_mask.mask_mod, *shape, query.device))
    mask = query.new_empty(shape, dtype=torch.bool)
    remember_contents(cast(FakeTensor, mask), KnownContents(value))
    return mask
