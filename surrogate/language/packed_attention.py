"""Texts end to end, without padding: how a GPU reads many of them at once.

Half of the kernels are shorter than half of the longest, and four layers of six look 64 tokens
around. Attention with a mask compares all pairs of tokens, padding too. PyTorch's attention of
texts of different lengths compares what a token sees, and no more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from solkit.surrogate.language.network import Packing, Texts, send_to_device

ATTENTION = "solkit_packed"
"""Name of a backbone's attention that reads packed texts, and padded ones as ever."""

# PyTorch's flash attention (aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp)
_AMPERE = (8, 0)  # the least compute capability
_HEAD_MULTIPLE, _WIDEST_HEAD = 8, 256  # numbers of a head


def is_packable(backbone: Any, device: torch.device) -> bool:
    """Tell whether a backbone reads packed texts here: flash attention, a GPU, and bf16 or fp16.

    Its conditions are those of `torch.nn.attention.varlen`, which pads no heads and has no dropout.
    """
    config = backbone.config
    if device.type != "cuda" or config._attn_implementation != ATTENTION:
        return False
    head = config.hidden_size // config.num_attention_heads
    return (
        torch.is_autocast_enabled("cuda")
        and torch.backends.cuda.is_flash_attention_available()
        and torch.cuda.get_device_capability(device) >= _AMPERE
        and head % _HEAD_MULTIPLE == 0
        and head <= _WIDEST_HEAD
        and config.attention_dropout == 0
    )


def pack_texts(texts: Texts, tokens: int = 1, texts_more: int = 0) -> Packing:
    """Lay texts end to end.

    Args:
        texts: to be read.
        tokens: all of them together are filled up to a multiple of it, with texts of padding.
        texts_more: texts of padding that the packing always has, some of them empty, so that its
            shape does not vary. `texts_more` of the longest texts must hold `tokens` tokens.
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
        send_to_device(torch.from_numpy(position), device),
        send_to_device(torch.from_numpy(position + longest * row), device),
        send_to_device(torch.from_numpy(starts.astype(np.int32)), device),
        longest,
    )


def packed_states(backbone: Any, texts: Texts) -> Tensor:
    """Return what a ModernBERT makes of each token, (texts, tokens, width); zeros for padding."""
    number, tokens = texts.ids.shape
    how = texts.packing or pack_texts(texts)
    hidden: Tensor = backbone(
        input_ids=F.pad(texts.ids.flatten(), (0, tokens))[how.place][None],
        position_ids=how.position[None],
        attention_mask=dict.fromkeys(("full_attention", "sliding_attention")),
        text_starts=how.starts,
        longest=how.longest,
    ).last_hidden_state[0]
    states = hidden.new_zeros((number + 1) * tokens, hidden.shape[-1])
    return states.index_copy(0, how.place, hidden).view(number + 1, tokens, -1)[:number]


def _packed_attention(
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
    """Attend as `transformers` calls it: (texts, heads, tokens, width) to (texts, tokens, ...).

    `transformers` counts a token itself to each side of its window, `varlen_attn` does not.
    """
    if text_starts is None:
        padded = F.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, dropout_p=dropout, scale=scaling
        )
        return padded.transpose(1, 2), None
    around = -1 if sliding_window is None else sliding_window - 1
    queries, keys, values = (
        tensor[0].transpose(0, 1).to(value.dtype) for tensor in (query, key, value)
    )
    attended = varlen_attn(
        queries,
        keys,
        values,
        text_starts,
        text_starts,
        longest,
        longest,
        scale=scaling,
        window_size=(around, around),
    )
    assert isinstance(attended, Tensor)  # nothing else was asked for
    return attended[None], None


AttentionInterface.register(ATTENTION, _packed_attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
