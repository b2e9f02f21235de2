"""Sparse matrices: products by hand, dense forms against torch's own on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from solkit.adapters import fake_cuda
from solkit.errors import UnsupportedError
from solkit.roofline.work import work_of


def csr(device):
    starts, columns = ([0, 2, 2, 3], [0, 3, 1])
    values = torch.arange(1, 4, device=device)
    return torch.sparse_csr_tensor(
        torch.tensor(starts, device=device), torch.tensor(columns, device=device), values, (3, 5)
    )


def coo(device):
    places = torch.tensor([[0, 2, 2], [4, 1, 0]], device=device)
    return torch.sparse_coo_tensor(places, torch.tensor([5, 6, 7], device=device), (3, 5))


def bsr(device):
    starts, columns = torch.tensor([0, 1, 2], device=device), torch.tensor([1, 0], device=device)
    return torch.sparse_bsr_tensor(
        starts, columns, torch.arange(12, device=device).view(2, 2, 3), (4, 6)
    )


def from_dense(device):
    return torch.eye(3, 5, device=device).to_sparse()


def from_dense_by_row(device):
    return torch.eye(3, 5, device=device).to_sparse_csr()


BUILDS = [csr, coo, bsr, from_dense, from_dense_by_row]


@pytest.mark.quick("coo", "bsr")
@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("build", BUILDS)
def test_the_dense_form_is_torchs_own(in_child, build):
    def dense():
        matrix = build("cuda")
        turned = matrix.t().to_dense() if build is not bsr else matrix.to_dense().t()
        return fake_cuda.known_value(matrix.to_dense()), fake_cuda.known_value(turned)

    want = build("cpu").to_dense()
    for got, expected in zip(in_child(dense), (want, want.t())):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.quick("csr-3-mm")
@pytest.mark.parametrize("call", ["matmul", "mm", "sparse", "operator", "reverse"])
@pytest.mark.parametrize(("build", "stored"), [(csr, 3), (bsr, 12), (coo, 3)])
def test_a_product_costs_what_is_stored(in_child, build, stored, call):
    def product():
        def run():
            matrix = build("cuda").to(torch.float32)
            rows, columns = matrix.shape
            dense = torch.randn(columns, 7, device="cuda")
            tall = torch.randn(7, rows, device="cuda")
            return [
                {
                    "matmul": lambda: torch.matmul(matrix, dense),
                    "mm": lambda: torch.mm(matrix, dense),
                    "sparse": lambda: torch.sparse.mm(matrix, dense),
                    "operator": lambda: matrix @ dense,
                    "reverse": lambda: tall @ matrix,
                }[call]()
            ]

        (result,) = run()
        return dict(work_of(run).operations), tuple(result.shape)

    operations, shape = in_child(product)
    assert operations["contraction.fp32"] == 2 * stored * 7
    rows, columns = build("cpu").shape
    assert shape == ((7, columns) if call == "reverse" else (rows, 7))


def test_products_have_gradients(in_child):
    def shapes():
        values = torch.randn(3, device="cuda", requires_grad=True)
        dense = torch.randn(5, 7, device="cuda", requires_grad=True)
        parts = csr("cuda")
        matrix = torch.sparse_csr_tensor(parts.crow_indices(), parts.col_indices(), values, (3, 5))
        (matrix @ dense).sum().backward()
        return tuple(values.grad.shape), tuple(dense.grad.shape)

    assert in_child(shapes) == ((3,), (5, 7))


def test_a_missing_size_is_inferred(in_child):
    def sizes():
        places = torch.tensor([[0, 3], [1, 0]], device="cuda")
        return tuple(torch.sparse_coo_tensor(places, torch.ones(2, device="cuda")).shape)

    assert in_child(sizes) == (4, 2)


def test_what_is_not_supported_says_so(in_child):
    def fail():
        with pytest.raises(UnsupportedError, match="sum of a sparse matrix"):
            torch.sum(csr("cuda"))
        with pytest.raises(UnsupportedError, match="two sparse"):
            csr("cuda") @ csr("cuda").t()
        with pytest.raises(UnsupportedError, match=r"torch\.nested\.nested_tensor"):
            torch.nested.nested_tensor([torch.randn(2, device="cuda")])
        return True

    assert in_child(fail)
