"""Sparse tensors. What a stored value stands for is data, so nothing is known of results."""

from __future__ import annotations

from solkit.ops._record import Family, Operator, Selects, records

_F = Family.SPARSE

OPERATORS: tuple[Operator, ...] = (
    # a row of the dense operand that no index names is not read
    *records("spmm", _F, namespace="solkit", cost="spmm", selects=Selects.SOME,
             decides=("indices", "values")),
    *records("sparse_coo_tensor _sparse_coo_tensor_with_dims "
             "_sparse_coo_tensor_with_dims_and_tensors _sparse_coo_tensor_unsafe "
             "sparse_compressed_tensor _sparse_compressed_tensor_with_dims "
             "_sparse_compressed_tensor_unsafe sparse_mask _sparse_mask_projection "
             "_validate_compressed_sparse_indices _convert_indices_from_coo_to_csr "
             "_convert_indices_from_csr_to_coo _to_dense to_dense _to_sparse to_sparse "
             "_to_sparse_bsc _to_sparse_bsr _to_sparse_csc _to_sparse_csr _coalesce _coalesced "
             "_dimI _dimV dense_dim sparse_dim is_coalesced _indices_copy _values_copy "
             "indices_copy values_copy crow_indices_copy col_indices_copy ccol_indices_copy "
             "row_indices_copy sparse_resize sparse_resize_and_clear copy_sparse_to_sparse "
             "resize_as_sparse _spdiags _sparse_broadcast_to_copy", _F, cost="free"),
    *records("_nnz", _F, cost="free", launches=False),
)  # fmt: skip
"""Records of sparse tensors."""
