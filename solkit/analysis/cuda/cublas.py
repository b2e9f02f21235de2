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
    if match is None or any("TF32" in token.text for token in held):
        return None
    batched, typed = match[1] is not None, match[2] is not None
    width = 2 + typed + batched  # pointer, its type, distances of columns and of matrices
    words = [part[-1].text for part in split_arguments(held)]
    if len(args) != 9 + 3 * width + batched - 1 + 2 * typed or len(words) != len(args):
        return None
    first, second, result = 7, 7 + width, 8 + 2 * width
    count = args[result + width] if batched else 1
    numbers = [*args[3:6], count]
    for at in (first, second, result):
        numbers += args[at + 1 + typed : at + width]
    pointers = [args[at] for at in (first, second, result)]
    flags = [_TRANSPOSED.get(word) for word in words[1:3]]
    beta = args[result - 1]
    if not all(type(number) is int for number in numbers) or None in flags:
        return None
    if any(not isinstance(pointer, Pointer) or pointer.tensor is None for pointer in pointers):
        return None
    m, n, k, _ = numbers[:4]
    sizes = [(m, k, flags[0]), (k, n, flags[1]), (m, n, False)]

    def multiply() -> torch.Tensor:
        a, b, c = (
            _matrix(args[at], rows, columns, bool(flag), count, args[at + 1 + typed : at + width])
            for at, (rows, columns, flag) in zip((first, second, result), sizes)
        )
        if type(beta) in (int, float) and beta == 0:
            return torch.bmm(b, a, out=c) if batched else torch.mm(b, a, out=c)
        return torch.baddbmm(c, b, a, out=c) if batched else torch.addmm(c, b, a, out=c)

    return multiply


def _matrix(
    pointer: Pointer, rows: int, columns: int, transposed: bool, count: int, steps: Sequence[int]
) -> torch.Tensor:
    """Return the transpose of a matrix, or of a batch: as PyTorch stores it, by rows."""
    assert pointer.tensor is not None  # the caller looked
    strides = (1, steps[0]) if transposed else (steps[0], 1)
    start = pointer.tensor.storage_offset() + pointer.ahead_bytes // pointer.tensor.element_size()
    batch = [(count, steps[1])] if len(steps) > 1 else []
    return pointer.tensor.as_strided(
        [*(size for size, _ in batch), columns, rows],
        [*(step for _, step in batch), *strides],
        start,
    )
