"""Texts end to end, without padding: how a GPU reads many of them at once.

Half of the kernels are shorter than half of the longest, and four layers of six look 64 tokens
around. With a mask, attention compares all tokens of the longest text all the same. PyTorch's
attention of texts of different lengths compares what a token sees, and no more.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from solkit.surrogate.language.network import Packing, Texts, sent

__all__ = ["ATTENTION", "is_packable", "packed_states", "packing"]

ATTENTION = "solkit_packed"
"""What a backbone's attention is called that reads packed texts, and padded ones as ever."""


def is_packable(backbone: Any, device: torch.device) -> bool:
    """Whether a backbone reads packed texts here: on a GPU, in half precision."""
    return (
        device.type == "cuda"
        and torch.is_autocast_enabled("cuda")
        and backbone.config._attn_implementation == ATTENTION
        and _lengths_differ() is not None
    )


@functools.cache
def _lengths_differ() -> Any:
    """PyTorch's attention of texts of different lengths; ``None`` before it knew windows (2.11)."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn if "window_size" in inspect.signature(varlen_attn).parameters else None


def packing(texts: Texts, tokens: int = 1, texts_more: int = 0) -> Packing:
    """How texts lie end to end.

    Args:
        texts: to be read.
        tokens: all of them together are filled up to a multiple of it, with texts of padding.
        texts_more: of padding that there is room for. A longest text is 1 / `texts_more` of
            `tokens` at least.
    """
    number, longest = texts.ids.shape
    lengths = np.array(texts.lengths)
    filling = -lengths.sum() % tokens
    more = [min(longest, max(filling - at, 0)) for at in range(0, texts_more * longest, longest)]
    every = np.concatenate([lengths, np.array(more, int)])
    starts = np.concatenate([[0], np.cumsum(every)])
    position = np.arange(starts[-1]) - np.repeat(starts[:-1], every)
    row = np.minimum(np.repeat(np.arange(len(every)), every), number)  # padding shares one
    device = texts.ids.device
    return Packing(
        sent(torch.from_numpy(position), device),
        sent(torch.from_numpy(position + longest * row), device),
        sent(torch.from_numpy(starts.astype(np.int32)), device),
        longest,
    )


def packed_states(backbone: Any, texts: Texts) -> Tensor:
    """What a ModernBERT makes of each token, (texts, tokens, width); zeros where padding is."""
    number, tokens = texts.ids.shape
    how = texts.packing or packing(texts)
    told: Tensor = backbone(
        input_ids=F.pad(texts.ids.flatten(), (0, tokens))[how.place][None],
        position_ids=how.position[None],
        attention_mask=dict.fromkeys(("full_attention", "sliding_attention")),
        text_starts=how.starts,
        longest=how.longest,
    ).last_hidden_state[0]
    states = told.new_zeros((number + 1) * tokens, told.shape[-1])
    return states.index_copy(0, how.place, told).view(number + 1, tokens, -1)[:number]


def _attention(
    module: nn.Module,  # noqa: ARG001 - how transformers calls it
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    text_starts: Tensor | None = None,
    longest: int = 0,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention as `transformers` calls it: (texts, heads, tokens, width) to (texts, tokens, ...).

    `transformers` counts a token itself to each side of its window, `varlen_attn` does not.
    """
    if text_starts is None:
        found = F.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, dropout_p=dropout, scale=scaling
        )
        return found.transpose(1, 2), None
    around = -1 if sliding_window is None else sliding_window - 1
    kind = value.dtype
    found = _lengths_differ()(
        *(each[0].transpose(0, 1).to(kind) for each in (query, key, value)),
        text_starts,
        text_starts,
        longest,
        longest,
        scale=scaling,
        window_size=(around, around),
    )
    return found[None], None


AttentionInterface.register(ATTENTION, _attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
