"""Late interaction: the sum of each query token's best document token, never stored."""

import torch
import triton
import triton.language as tl
from late_interaction_kernels.forward import _maxsim_fwd_kernel

from solkit.datasets.libraries.packages import check_installed

check_installed("late-interaction-kernels", "0.4.5")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "matmul"
SHAPES = [
    {"Nq": 4, "Lq": 32, "Nd": 1000, "Ld": 300, "d": 128, "dtype": "bfloat16"},
    {"Nq": 1, "Lq": 128, "Nd": 2000, "Ld": 180, "d": 128, "dtype": "float16"},
    {"Nq": 16, "Lq": 64, "Nd": 64, "Ld": 1030, "d": 96, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 1e-1}
SPACE = {
    "BLOCK_Q": [16, 32, 64, 128],
    "BLOCK_D": [32, 64, 128],
    "num_warps": [2, 4, 8],
    "num_stages": [2, 3],
}
WITHOUT_TUNER = _maxsim_fwd_kernel.fn


def valid(params, shape):
    tile = params["BLOCK_Q"] * params["BLOCK_D"] / (32 * params["num_warps"])
    return params["BLOCK_Q"] <= shape["Lq"] and 8 <= tile <= 128


def inputs(Nq=4, Lq=32, Nd=1000, Ld=300, d=128, dtype=torch.bfloat16, device="cuda"):
    Q, D = (
        torch.nn.functional.normalize(torch.randn(*size, d, device=device), dim=-1).to(dtype)
        for size in ((Nq, Lq), (Nd, Ld))
    )
    return Q, D


def reference(Q, D):
    similar = torch.einsum("qld,nkd->qnlk", Q.float(), D.float())
    return similar.amax(dim=-1).sum(dim=-1)


def kernel(Q, D, *, BLOCK_Q=32, BLOCK_D=64, num_warps=4, num_stages=2):
    Nq, Lq, d = Q.shape
    Nd, Ld, _ = D.shape
    scores = torch.empty(Nq, Nd, dtype=torch.float32, device=Q.device)
    dtypes = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
    WITHOUT_TUNER[(Nq * Nd,)](
        Q, D, Q, D, scores, scores, Nq, Nd, Lq, Ld, d, triton.next_power_of_2(d), *Q.stride(),
        *D.stride(), *scores.stride(), 0, 0, 0, 0, 0, 0, has_q_mask=False, has_d_mask=False,
        save_argmax=False, normalize=False, kd_layout=False, BLOCK_Q=BLOCK_Q, BLOCK_D=BLOCK_D,
        COMPUTE_DTYPE=dtypes[Q.dtype], num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return scores
