"""Cross-entropy of flash-linear-attention: programs of a part of the vocabulary, then a sum."""

import torch
import triton
from fla.modules.fused_cross_entropy.ops import (
    cross_entropy_fwd_kernel,
    cross_entropy_fwd_kernel_reduce,
)

from solkit.datasets.libraries.packages import check_installed
from solkit.datasets.zoo.cross_entropy import problem
from solkit.datasets.zoo.cross_entropy.problem import TOLERANCE, inputs, reference

check_installed("fla-core", "0.6.0")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "softmax"
SHAPES = [problem.SHAPES[place] for place in (2, 3, 5)]
SPACE = {"BV": [1024, 2048, 4096, 8192, 16384], "num_warps": [2, 4, 8, 16, 32]}


def valid(params, shape):
    return params["BV"] < shape["V"]


def kernel(logits, target, *, BV=8192, num_warps=16):
    N, V = logits.shape
    NV = triton.cdiv(V, BV)
    loss = logits.new_empty((NV, N), dtype=torch.float)
    lse = torch.empty_like(loss)
    z_loss = logits.new_empty(N, dtype=torch.float)
    cross_entropy_fwd_kernel[(N, NV)](
        logits=logits, target=target, loss=loss, z_loss=z_loss, lse=lse,
        s_logits=logits.stride(0), label_smoothing=0.0, logit_scale=1.0, lse_square_scale=0.0,
        logit_softcapping=None, ignore_index=-100, N=N, V=V, V_TOTAL=V, V_START=0, BV=BV,
        SPLIT=True, num_warps=num_warps,
    )  # fmt: skip
    reduced, reduced_lse = loss.new_empty(N), loss.new_empty(N)
    cross_entropy_fwd_kernel_reduce[(triton.cdiv(N, 128),)](
        partial_loss=loss, partial_lse=lse, target=target, loss=reduced, z_loss=z_loss,
        lse=reduced_lse, lse_square_scale=0.0, ignore_index=-100, N=N, NV=NV, BN=128,
        BS=triton.next_power_of_2(NV), SPLIT=False, REDUCE_LOSS=True, num_warps=4,
    )  # fmt: skip
    return reduced
