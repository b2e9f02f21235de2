"""Reductions, scans, sorts and scatters."""

from __future__ import annotations

import torch

from solkit.roofline.work.costs._base import Cost, rule, scalar
from solkit.roofline.work.program import TracedOp

# Per element that is read: (scalar operations, special-function results).
_REDUCTIONS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(
        """
        sum nansum amax amin max min any all argmax argmin prod cumsum cumprod cummax cummin
        mean median mode kthvalue sort topk count_nonzero aminmax bincount unique _unique2
        unique_consecutive unique_dim searchsorted bucketize histc
        """.split(),
        (1, 0),
    ),
    "logsumexp": (3, 1),  # maximum, shift, exponential, sum
    "logcumsumexp": (3, 1),
    "norm": (2, 0),
    "linalg_vector_norm": (2, 0),
    "var": (3, 0),  # mean, difference, square-and-add: Welford's is no cheaper
    "std": (3, 0),
    "var_mean": (3, 0),
    "std_mean": (3, 0),
}


@rule(" ".join(_REDUCTIONS))
def _reduction(op: TracedOp) -> Cost:
    """So many operations for each distinct element read, and a root per result for norms."""
    name = op.name.removeprefix("aten.")
    per_element, sfu = _REDUCTIONS[name]
    source = op.inputs[0]
    rooted = name in ("norm", "linalg_vector_norm", "std", "std_mean")
    logs = name in ("logsumexp",)
    per_result = op.result.numel if rooted or logs else 0
    like = source if source.dtype != torch.bool else op.result
    return scalar(like, per_element * source.distinct, sfu=sfu * source.distinct + per_result)


@rule(
    """
    nll_loss_backward nll_loss2d_backward embedding_dense_backward scatter_add scatter_reduce
    index_add index_reduce _unsafe_index_put segment_reduce
    """
)
def _scatter(op: TracedOp) -> Cost:
    """One addition per element scattered."""
    return scalar(op.result, min(use.numel for use in op.inputs) if op.inputs else 0)
