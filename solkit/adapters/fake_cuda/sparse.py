"""Sparse matrices as tuples of dense tensors: torch has no fake tensors of sparse layouts.

A `SparseMatrix` replaces each sparse tensor. Its products are one op, ``solkit::spmm``, which reads
the index tensors, the values and the dense operand.
"""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch

from solkit.adapters.fake_cuda.contents import computing_really, recall_contents
from solkit.errors import UnsupportedError


def fake_sparse(own: torch.library.Library) -> None:
    """Make torch create a `SparseMatrix` instead of each sparse tensor.

    Args:
        own: where ops are defined; they last as long as it.
    """
    own.define("spmm(Tensor[] indices, Tensor values, Tensor dense, int rows) -> Tensor")
    torch.library.register_fake("solkit::spmm", _spmm_shape, lib=own)
    for name, fake in {
        "sparse_coo_tensor": _sparse_coo_tensor,
        **{f"sparse_{layout}_tensor": _compressed(layout) for layout in _COMPRESSED},
    }.items():
        setattr(torch, name, fake)
    for name, method in {
        "to_sparse": _to_sparse,
        "to_sparse_coo": _to_sparse,
        "to_sparse_csr": lambda dense, *_, **__: _to_sparse(dense, layout=torch.sparse_csr),
        "to_sparse_bsr": lambda dense, blocksize, *_: _to_sparse_bsr(dense, blocksize),
    }.items():
        setattr(torch.Tensor, name, method)


def _spmm_shape(
    _indices: Sequence[torch.Tensor], values: torch.Tensor, dense: torch.Tensor, rows: int
) -> torch.Tensor:
    dtype = torch.promote_types(values.dtype, dense.dtype)
    return dense.new_empty((rows, *dense.shape[1:]), dtype=dtype)


@dataclass(frozen=True)
class SparseMatrix:
    """A sparse matrix on the fake GPU.

    Attributes:
        layout: torch's.
        parts: its index tensors: ``(indices,)`` of COO, else compressed and plain indices.
        data: its values, of shape (nonzeros,) or, of blocks, (blocks, height, width).
        shape: rows and columns.
    """

    layout: torch.layout
    parts: tuple[torch.Tensor, ...]
    data: torch.Tensor
    shape: torch.Size

    is_sparse = True
    requires_grad = False
    ndim = 2

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the values."""
        return self.data.dtype

    @property
    def device(self) -> torch.device:
        """Device of the values."""
        return self.data.device

    def values(self) -> torch.Tensor:
        """Return the values."""
        return self.data

    def indices(self) -> torch.Tensor:
        """Return the indices of COO."""
        return self.parts[0]

    def crow_indices(self) -> torch.Tensor:
        """Return the start of each row."""
        return self.parts[0]

    def col_indices(self) -> torch.Tensor:
        """Return the column of each value."""
        return self.parts[1]

    ccol_indices, row_indices = crow_indices, col_indices
    _indices, _values = indices, values

    def _nnz(self) -> int:
        return self.data.shape[0]

    def size(self, dim: int | None = None) -> Any:
        """As `torch.Tensor.size`."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """2."""
        return self.ndim

    def numel(self) -> int:
        """Count elements, zeros included."""
        return self.shape.numel()

    def coalesce(self) -> SparseMatrix:
        """Itself: indices are taken to be distinct."""
        return self

    def is_coalesced(self) -> bool:
        """Return True."""
        return True

    def to(self, *args: Any, **kwargs: Any) -> SparseMatrix:
        """As `torch.Tensor.to`; a dtype applies to the values only."""
        data = self.data.to(*args, **kwargs)
        return replace(self, data=data, parts=tuple(part.to(data.device) for part in self.parts))

    def cuda(self, *_: Any, **__: Any) -> SparseMatrix:
        """Return the tensor on the fake GPU."""
        return self.to("cuda")

    def t(self) -> SparseMatrix:
        """Return the transpose: the same parts, read as the other compressed layout."""
        layout = _TRANSPOSED.get(self.layout, self.layout)
        parts, data = self.parts, self.data.transpose(1, 2) if self.data.dim() == 3 else self.data
        if self.layout is torch.sparse_coo:
            parts = (parts[0].flip(0),)
        return SparseMatrix(layout, parts, data, torch.Size(self.shape[::-1]))

    def transpose(self, *_: int) -> SparseMatrix:
        """Return the transpose."""
        return self.t()

    def places(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the row and the column of each value or block."""
        if self.layout is torch.sparse_coo:
            rows, columns = self.parts[0].unbind(0)
            return rows, columns
        starts, plain = self.parts
        count = torch.arange(starts.shape[0] - 1, device=starts.device)
        outer = torch.repeat_interleave(count, starts.diff(), output_size=plain.shape[0])
        by_row = self.layout in (torch.sparse_csr, torch.sparse_bsr)
        return (outer, plain) if by_row else (plain, outer)

    def to_dense(self, *_: Any, **__: Any) -> torch.Tensor:
        """Return the matrix with its zeros."""
        height, width = self.data.shape[1:] or (1, 1)
        grid = (self.shape[0] // height, self.shape[1] // width)
        dense = self.data.new_zeros((*grid, *self.data.shape[1:]))
        dense = dense.index_put(self.places(), self.data, accumulate=True)
        return dense if self.data.dim() == 1 else dense.transpose(1, 2).reshape(self.shape)

    def __matmul__(self, dense: Any) -> torch.Tensor:
        if isinstance(dense, SparseMatrix):
            raise UnsupportedError("a product of two sparse matrices on a fake GPU")
        if torch.is_grad_enabled() and (dense.requires_grad or self.data.requires_grad):
            return self._multiply_gathered(dense)
        op = torch.ops.solkit.spmm
        return cast(torch.Tensor, op(list(self.parts), self.data, dense, self.shape[0]))

    mm = matmul = mv = __matmul__

    def __rmatmul__(self, dense: torch.Tensor) -> torch.Tensor:
        return (self.t() @ dense.t()).t()

    def _multiply_gathered(self, dense: torch.Tensor) -> torch.Tensor:
        """Return the product out of ops that autograd can follow."""
        rows, columns = self.places()
        tall = dense if dense.dim() == 2 else dense.unsqueeze(1)
        height, width = self.data.shape[1:] or (1, 1)
        picked = tall.reshape(-1, width, tall.shape[1])[columns]
        parts = self.data.view(-1, height, width) @ picked
        out = parts.new_zeros((self.shape[0] // height, height, tall.shape[1]))
        out = out.index_add(0, rows, parts).reshape(self.shape[0], -1)
        return out if dense.dim() == 2 else out.squeeze(1)

    def __mul__(self, factor: Any) -> SparseMatrix:
        if isinstance(factor, (torch.Tensor, SparseMatrix)) and factor.dim():
            raise UnsupportedError("an elementwise product with a sparse matrix on a fake GPU")
        return replace(self, data=self.data * factor)

    __rmul__ = __mul__

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return the functions of torch that take a sparse matrix."""
        name = func.__name__
        if name in ("matmul", "mm", "mv", "_sparse_mm", "__matmul__", "spmm"):
            return args[0] @ args[1] if isinstance(args[0], cls) else args[1].__rmatmul__(args[0])
        if name == "__rmatmul__":
            return args[1] @ args[0]
        if name in ("addmm", "_sparse_addmm"):
            beta, alpha = ((kwargs or {}).get(factor, 1) for factor in ("beta", "alpha"))
            return beta * args[0] + alpha * (args[1] @ args[2])
        if name in ("t", "transpose", "to_dense", "coalesce"):
            return getattr(args[0], name)()
        raise UnsupportedError(f"torch's {name} of a sparse matrix on a fake GPU")


_COMPRESSED = {name: getattr(torch, f"sparse_{name}") for name in ("csr", "csc", "bsr", "bsc")}
_TRANSPOSED = dict(zip(_COMPRESSED.values(), map(_COMPRESSED.get, ("csc", "csr", "bsc", "bsr"))))


def _sparse_coo_tensor(
    indices: Any, values: Any, size: Sequence[int] | None = None, *, dtype: Any = None,
    device: Any = None, **_: Any,
) -> SparseMatrix:  # fmt: skip
    """`torch.sparse_coo_tensor`."""
    data = torch.as_tensor(values, dtype=dtype, device=device)
    places = torch.as_tensor(indices, device=data.device)
    shape = torch.Size(size) if size is not None else torch.Size(_inferred_sizes(places))
    if len(shape) != 2 or data.dim() != 1:
        raise UnsupportedError("a sparse tensor that is not a matrix of numbers on a fake GPU")
    return SparseMatrix(torch.sparse_coo, (places,), data, shape)


def _compressed(layout: str) -> Callable[..., SparseMatrix]:
    """``torch.sparse_csr_tensor`` and its like."""

    def make_compressed(
        compressed: Any, plain: Any, values: Any, size: Sequence[int] | None = None, *,
        dtype: Any = None, device: Any = None, **_: Any,
    ) -> SparseMatrix:  # fmt: skip
        data = torch.as_tensor(values, dtype=dtype, device=device)
        parts = tuple(torch.as_tensor(part, device=data.device) for part in (compressed, plain))
        if size is None:
            height, width = data.shape[1:] or (1, 1)
            outer, (inner,) = parts[0].shape[0] - 1, _inferred_sizes(parts[1][None])
            by_row = layout in ("csr", "bsr")
            rows, columns = (outer, inner) if by_row else (inner, outer)
            size = (rows * height, columns * width)
        return SparseMatrix(_COMPRESSED[layout], parts, data, torch.Size(size))

    return make_compressed


def _inferred_sizes(indices: torch.Tensor) -> list[int]:
    """Return the smallest sizes that the indices fit in, as torch infers them."""
    fact = recall_contents(indices)
    if fact is None:
        raise UnsupportedError("a sparse matrix without a size has unknown indices")
    with computing_really():
        return [int(end) + 1 for end in fact.value.amax(1)]


def _to_sparse(dense: torch.Tensor, *_: Any, layout: Any = None, **__: Any) -> SparseMatrix:
    """`torch.Tensor.to_sparse`."""
    places = dense.nonzero().t()
    rows, columns = places.unbind(0)
    data = dense[rows, columns]
    if layout is not torch.sparse_csr:
        return SparseMatrix(torch.sparse_coo, (places,), data, dense.shape)
    return SparseMatrix(
        torch.sparse_csr, (_row_starts(rows, dense.shape[0]), columns), data, dense.shape
    )


def _to_sparse_bsr(dense: torch.Tensor, blocksize: tuple[int, int]) -> SparseMatrix:
    """`torch.Tensor.to_sparse_bsr`."""
    height, width = blocksize
    grid = dense.reshape(dense.shape[0] // height, height, -1, width).transpose(1, 2)
    rows, columns = (grid != 0).any(-1).any(-1).nonzero().unbind(1)
    parts = (_row_starts(rows, grid.shape[0]), columns)
    return SparseMatrix(torch.sparse_bsr, parts, grid[rows, columns], dense.shape)


def _row_starts(rows: torch.Tensor, count: int) -> torch.Tensor:
    """Return the start of each row among the values."""
    return torch.cat([rows.new_zeros(1), rows.bincount(minlength=count).cumsum(0)])
