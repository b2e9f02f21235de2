"""Matrix products that host code asks cuBLAS for, as PyTorch's products of the same matrices.

Source: cuBLAS documentation, "gemm": matrices are stored by columns, so that a row-major C = A B is
asked for as C^T = B^T A^T; ``ld`` is the distance of columns in elements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from solkit.analysis.cuda.source import Token, split_arguments
from solkit.analysis.cuda.values import Pointer

_NAME = re.compile(r"cublas(?:[SDH]gemm|Gemm)(StridedBatched)?(Ex)?(?:_64)?")
_TRANSPOSED = {"CUBLAS_OP_N": False, "CUBLAS_OP_T": True}
_DTYPES = {
    **{"CUDA_R_32F": torch.float32, "CUDA_R_64F": torch.float64},
    **{"CUDA_R_16F": torch.float16, "CUDA_R_16BF": torch.bfloat16},
    **{"cublasS": torch.float32, "cublasD": torch.float64, "cublasH": torch.float16},
}
_LESS_PRECISE = ("FAST", "TF32", "EMULATED")


def product_of(
    name: str, args: Sequence[Any], held: Sequence[Token]
) -> Callable[[], torch.Tensor] | None:
    """Return what does a call's product; ``None`` if it is no product, or not all of it is known.

    Args:
        name: of the function.
        args: as evaluated; the address of a factor is the factor's value.
        held: their tokens.
    """
    match = _NAME.fullmatch(name)
    if match is None or any(word in token.text for token in held for word in _LESS_PRECISE):
        return None
    batched, typed = match[1] is not None, match[2] is not None
    width = 2 + typed + batched  # pointer, its type, distances of columns and of matrices
    words = [part[0].text if len(part) == 1 else "" for part in split_arguments(held)]
    if len(args) != 9 + 3 * width + batched - 1 + 2 * typed or len(words) != len(args):
        return None
    first, second, result = 7, 7 + width, 8 + 2 * width
    count = args[result + width] if batched else 1
    numbers = [*args[3:6], count]
    for at in (first, second, result):
        numbers += args[at + 1 + typed : at + width]
    flags = [_TRANSPOSED.get(word) for word in words[1:3]]
    beta, places = args[result - 1], (first, second, result)
    types = [words[at + 1] if typed else name[: len("cublasS")] for at in places]
    if not all(type(number) is int for number in numbers) or None in flags:
        return None
    if not _holds([args[at] for at in places], types):
        return None
    m, n, k, _ = numbers[:4]
    matrices = [
        _matrix(args[at], rows, columns, bool(flag), count, args[at + 1 + typed : at + width])
        for at, rows, columns, flag in zip(places, (m, k, m), (k, n, n), (*flags, False))
    ]
    a, b, c = matrices
    if a is None or b is None or c is None or (count > 1 and c.stride(0) < n * c.stride(1)):
        return None  # or results that overlap

    def multiply() -> torch.Tensor:
        if type(beta) in (int, float) and beta == 0:
            return torch.bmm(b, a, out=c) if batched else torch.mm(b, a, out=c)
        return torch.baddbmm(c, b, a, out=c) if batched else torch.addmm(c, b, a, out=c)

    return multiply


def _holds(pointers: Sequence[Any], types: Sequence[str]) -> bool:
    """Tell whether pointers are of tensors of one dtype, and that is what a call takes them for."""
    tensors = [place.tensor if isinstance(place, Pointer) else None for place in pointers]
    dtypes = {None if tensor is None else tensor.dtype for tensor in tensors}
    return (
        len(dtypes) == 1 and None not in dtypes and {_DTYPES.get(word) for word in types} == dtypes
    )


def _matrix(
    pointer: Pointer, rows: int, columns: int, transposed: bool, count: int, steps: Sequence[int]
) -> torch.Tensor | None:
    """Return the transpose of a matrix, or of a batch: as PyTorch stores it, by rows.

    ``None`` if cuBLAS refuses its sizes, or it reaches beyond its tensor's memory.
    """
    assert pointer.tensor is not None  # the caller looked
    if min(rows, columns, count) < 1 or steps[0] < (columns if transposed else rows):
        return None
    strides = (1, steps[0]) if transposed else (steps[0], 1)
    start = pointer.tensor.storage_offset() + pointer.ahead_bytes // pointer.tensor.element_size()
    batch = [(count, steps[1])] if len(steps) > 1 else []
    try:
        return pointer.tensor.as_strided(
            [*(size for size, _ in batch), columns, rows],
            [*(step for _, step in batch), *strides],
            start,
        )
    except RuntimeError:
        return None
