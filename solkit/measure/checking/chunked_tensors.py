"""Large tensors a part at a time: whole copies of them exhaust a GPU's memory.

Many an operator takes memory of its own on CUDA: `torch.equal` a truth for each element, and a sum
of truths or small integers a 64-bit number for each, which is twice the size of an fp32 tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

ELEMENTS = 1 << 24
"""Elements of a part: 128 MiB as 64-bit numbers."""

_WORD = 8  # bytes
_STEP = 0x9E3779B97F4A7C15 - (1 << 64)  # 2^64 / golden ratio, odd
_MIXING = ((0xFF51AFD7ED558CCD - (1 << 64), 33), (0xC4CEB9FE1A85EC53 - (1 << 64), 29))
"""Factors and shifts that spread each bit of a word: the finalizer of MurmurHash3."""


def part_slices(elements: int) -> Iterator[slice]:
    """Yield slices that cover so many elements."""
    for start in range(0, elements, ELEMENTS):
        yield slice(start, min(start + ELEMENTS, elements))


def flat_elements(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements of a tensor of any layout, in one dimension."""
    plain = tensor.detach()
    return (plain if plain.layout is torch.strided else plain.to_dense()).reshape(-1)


def cut_slabs(tensor: torch.Tensor) -> tuple[int, Iterator[torch.Tensor]]:
    """Return the dimension that a tensor is cut along, its longest, and the slabs."""
    dim = max(range(tensor.dim()), key=lambda axis: tensor.shape[axis])
    size = tensor.shape[dim]
    step = max(1, ELEMENTS * size // max(1, tensor.numel()))
    return dim, (tensor.narrow(dim, at, min(step, size - at)) for at in range(0, size, step))


def count_elements(tensor: torch.Tensor, is_counted: Callable[[torch.Tensor], torch.Tensor]) -> int:
    """Count elements; `is_counted` gives truths for a part of them."""
    values = flat_elements(tensor)
    return sum(int(is_counted(values[part]).sum()) for part in part_slices(values.numel()))


def map_parts(
    tensor: torch.Tensor, make: Callable[[torch.Tensor, int], torch.Tensor]
) -> torch.Tensor:
    """Return a tensor of the same form; `make` gives a part's values, from it and its start."""
    values = flat_elements(tensor)
    output = torch.empty_like(values)
    for part in part_slices(values.numel()):
        output[part] = make(values[part], part.start)
    return output.view(tensor.shape)


def equal_bytes(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Tell whether two tensors of bytes, in one dimension, are the same."""
    if first.numel() != second.numel():
        return False
    are_aligned = not any(tensor.storage_offset() % _WORD for tensor in (first, second))
    end = first.numel() // _WORD * _WORD if are_aligned else 0
    pairs = [(first[end:], second[end:])]
    if end:  # as words, which is faster
        pairs.append((first[:end].view(torch.int64), second[:end].view(torch.int64)))
    return all(torch.equal(a[part], b[part]) for a, b in pairs for part in part_slices(len(a)))


def fingerprint(values: torch.Tensor, key: int) -> int:
    """64 bits that tell bytes, in one dimension, from others, except by a chance of 2^-64.

    Each word is mixed with its place and the key, which whoever could choose the bytes must not
    know.
    """
    total = 0
    step = ELEMENTS * _WORD
    for start in range(0, values.numel(), step):
        chunk = values[start : start + step]
        if len(chunk) % _WORD or chunk.storage_offset() % _WORD:
            chunk = torch.nn.functional.pad(chunk, (0, -len(chunk) % _WORD)).clone()
        words = chunk.view(torch.int64)
        first = start // _WORD
        mixed = torch.arange(first, first + len(words), device=words.device)
        mixed.mul_(_STEP).add_(key).bitwise_xor_(words)
        for factor, shift in _MIXING:
            mixed.mul_(factor)
            mixed.bitwise_xor_((mixed >> shift) & ((1 << (64 - shift)) - 1))  # a logical shift
        total += int(mixed.sum())
    return total % 2**64
