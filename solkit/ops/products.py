"""Products of matrices and vectors, attention, and distances between points."""

from __future__ import annotations

from typing import Any

from solkit.ops._record import Family, Operator, Selects, plain

_P, _A = Family.PRODUCT, Family.ATTENTION
_MATRIX = ("self", "mat2")
_HEADS: dict[str, Any] = {"attends": "heads first", "selects": Selects.SOME}
_ROWS: dict[str, Any] = {"attends": "rows first", "selects": Selects.SOME}

OPERATORS: tuple[Operator, ...] = (
    *plain("mm bmm", _P, cost="product", needs="product", zeros="product", factors=_MATRIX,
           multiplies=True, irreducible=True, called=("linear", "matmul")),
    *plain("addmm", _P, cost="product", needs="product", zeros="product and term",
           factors=("mat1", "mat2"), multiplies=True, irreducible=True, adds_terms=True,
           replaces=True, called=("linear",)),
    *plain("baddbmm", _P, cost="product", needs="product", zeros="product and term",
           factors=("batch1", "batch2"), multiplies=True, irreducible=True, adds_terms=True,
           replaces=True, called=("linear",)),
    *plain("_int_mm _scaled_mm", _P, cost="product", factors=_MATRIX, multiplies=True,
           irreducible=True),
    *plain("linear", _P, cost="whole product", factors=("input", "weight"), multiplies=True,
           irreducible=True),
    # of a matrix and a vector the bytes decide: their products are not counted as irreducible
    *plain("mv", _P, cost="product", needs="matvec", factors=("self", "vec"), multiplies=True,
           called=("matmul",)),
    *plain("addmv", _P, cost="product", needs="matvec", factors=("mat", "vec"), multiplies=True),
    *plain("dot", _P, cost="product", factors=("self", "tensor"), multiplies=True,
           called=("matmul",)),
    *plain("vdot", _P, cost="product", factors=("self", "other"), multiplies=True),
    *plain("addbmm", _P, cost="product summed over a batch", multiplies=True),
    *plain("matmul inner", _P, cost="whole product", multiplies=True),
    *plain("ger outer", _P, cost="outer product", multiplies=True),
    *plain("_grouped_mm _scaled_grouped_mm _scaled_grouped_mm_v2", _P, cost="grouped product",
           selects=Selects.SOME, decides=("offs",)),  # a group may be empty
    *plain("_scaled_mm_v2", _P, cost="scaled product", multiplies=True),
    *plain("_trilinear", _P, cost="trilinear"),
    *plain("attention", _A, namespace="solkit", cost="attention", needs="attention",
           factors=("query", "key", "value"), multiplies=True, irreducible=True,
           called=("scaled_dot_product_attention",)),
    *plain("attention_backward", _A, namespace="solkit", cost="attention backward"),
    # which keys a query sees, and which of them count, is data
    *plain("_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu "
           "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention "
           "_scaled_dot_product_fused_attention_overrideable", _A, cost="attention", **_HEADS),
    *plain("_flash_attention_forward _efficient_attention_forward", _A, cost="packed attention",
           **_ROWS),
    *plain("_varlen_attn", _A, namespace="torch_attn", cost="packed attention", **_ROWS),
    *plain("_flash_attention_forward_no_dropout_inplace", _A, cost="packed attention",
           overwrites=True, **_ROWS),
    *plain("_varlen_attn_out", _A, namespace="torch_attn", cost="packed attention",
           overwrites=True, **_ROWS),
    *plain("_scaled_dot_product_flash_attention_backward "
           "_scaled_dot_product_flash_attention_for_cpu_backward "
           "_scaled_dot_product_efficient_attention_backward "
           "_scaled_dot_product_cudnn_attention_backward "
           "_scaled_dot_product_fused_attention_overrideable_backward", _A,
           cost="attention backward", **_HEADS),
    *plain("_flash_attention_backward _efficient_attention_backward", _A,
           cost="packed attention backward", **_ROWS),
    *plain("_varlen_attn_backward", _A, namespace="torch_attn",
           cost="packed attention backward", **_ROWS),
    *plain("_cdist_forward _pdist_forward _euclidean_dist", Family.DISTANCE, cost="distances",
           taken_in=("square", "divisor", "order")),
    *plain("_cdist_backward _pdist_backward", Family.DISTANCE, cost="distances backward"),
)  # fmt: skip
"""Records by family: products, attention, distances."""
