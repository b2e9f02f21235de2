"""Inputs of problem folders, drawn as both benchmarks do, or made up if data is missing."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping

import torch

_INTEGER_RANGE = {"int8": (-128, 128), "uint8": (0, 256)}
_OTHER_INTEGERS = (-1024, 1024)
"""Both benchmarks' ``_rand_tensor``."""


def to_torch_dtype(name: str) -> torch.dtype:
    """Return the torch dtype of that name; 4-bit floats come two to an element."""
    dtype: torch.dtype = getattr(torch, "float4_e2m1fn_x2" if name == "float4_e2m1" else name)
    return dtype


def is_inexact(dtype: str) -> bool:
    """Tell whether a dtype is floating."""
    return dtype.startswith(("float", "bfloat"))


def draw_tensor(shape: tuple[int, ...], dtype: str, device: str) -> torch.Tensor:
    """Draw normal floats, or integers from the range of both benchmarks."""
    if dtype == "bool":
        return torch.randint(0, 2, shape, device=device).bool()
    if not is_inexact(dtype):
        low, high = _INTEGER_RANGE.get(dtype, _OTHER_INTEGERS)
        return torch.randint(low, high, shape, dtype=to_torch_dtype(dtype), device=device)
    if dtype.startswith("float4"):
        return _round_and_pack_fp4(torch.randn((*shape[:-1], 2 * shape[-1]), device=device))
    if dtype.startswith("float8"):
        return torch.randn(shape, device=device).clamp(-2.0, 2.0).to(to_torch_dtype(dtype))
    return torch.randn(shape, dtype=to_torch_dtype(dtype), device=device)


_FP4_BORDERS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
"""Halfway between the magnitudes of e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 (OCP Microscaling 1.0)."""


def _round_and_pack_fp4(values: torch.Tensor) -> torch.Tensor:
    """Round to e2m1 and pack two to a byte, the first in the low half."""
    borders = torch.tensor(_FP4_BORDERS, device=values.device)
    codes = (torch.bucketize(values.abs(), borders) + 8 * (values < 0)).to(torch.uint8)
    return (codes[..., ::2] + 16 * codes[..., 1::2]).view(torch.float4_e2m1fn_x2)


def random_scalar(dtype: str) -> bool | int | float:
    """Drawn by Python, so that the value is known on fake tensors, too."""
    if dtype == "bool":
        return random.random() < 0.5
    if not is_inexact(dtype):
        return random.randrange(*_INTEGER_RANGE.get(dtype, _OTHER_INTEGERS))
    return random.gauss(0.0, 1.0)


# ------------------------------------------------------------------------------ missing data

_OFFSETS = {
    "qo_indptr": ("total_q", "total_tokens"),
    "kv_indptr": ("num_kv_indices", "total_kv", "total_tokens"),
    "seq_indptr": ("total_tokens",),
    "cu_seqlens": ("total_seq_len",),
}
"""Offsets of sequences, and the axes whose size the last offset is, by the constraints of
FlashInfer-Bench's definitions (``total_q == qo_indptr[-1].item()``)."""

_INDEXED: tuple[tuple[str, str], ...] = (
    (r"topk_ids$", r"num_experts$"),
    (r"positions?$", r"max_\w*len$|max_\w*positions$"),
    (r"(indices|block_table|page_table)$", r"num_pages$|(cache|pool)_size$"),
)
"""Names of indices, and of the axis that they index."""


def structured_indices(
    name: str, shape: tuple[int, ...], axes: Mapping[str, int]
) -> tuple[str, torch.Tensor] | None:
    """Offsets, lengths or indices that fit the sizes, described in words; else ``None``."""
    count = math.prod(shape)
    total = next((axes[axis] for axis in _OFFSETS.get(name, ()) if axis in axes), None)
    if total is not None and len(shape) == 1 and count > 1:
        return "is spread evenly", torch.arange(count) * total // (count - 1)
    if name.endswith("last_page_len") and "page_size" in axes:
        return "says that every page is full", torch.full(shape, axes["page_size"])
    longest = axes.get("max_seq_len", axes.get("max_num_pages", 0) * axes.get("page_size", 0))
    if name == "seq_lens" and longest:
        return "is as long as the page table allows", torch.full(shape, longest)
    for names, targets in _INDEXED:
        bound = next((axes[axis] for axis in axes if re.search(targets, axis)), None)
        if re.search(names, name) and bound:
            return "counts up, so that entries differ", (torch.arange(count) % bound).view(shape)
    return None
