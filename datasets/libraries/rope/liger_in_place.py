"""Liger's rotary embedding of queries and keys, in place: all heads of a token a program."""

import torch
import triton
from liger_kernel.ops.rope import _triton_rope

from solkit.datasets.libraries.packages import check_installed

check_installed("liger-kernel", "0.8.5")
__all__ = ["KIND", "OUTPUTS", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]
KIND = "elementwise"
OUTPUTS = ("q", "k")
SHAPES = [
    {"bsz": 4, "seq_len": 2048, "n_qh": 32, "n_kh": 8, "hd": 128, "dtype": "bfloat16"},
    {"bsz": 2, "seq_len": 4096, "n_qh": 16, "n_kh": 16, "hd": 64, "dtype": "float32"},
    {"bsz": 1, "seq_len": 1021, "n_qh": 12, "n_kh": 3, "hd": 256, "dtype": "float16"},
    {"bsz": 64, "seq_len": 1, "n_qh": 64, "n_kh": 8, "hd": 128, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}
SPACE = {"num_warps": [1, 2, 4, 8, 16], "num_stages": [1, 3]}


def inputs(bsz=4, seq_len=2048, n_qh=32, n_kh=8, hd=128, dtype=torch.bfloat16, device="cuda"):
    q, k = (
        torch.randn(bsz, seq_len, heads, hd, dtype=dtype, device=device) for heads in (n_qh, n_kh)
    )
    angles = torch.rand(1, seq_len, hd // 2, device=device) * 6.28
    cos, sin = (torch.cat((side, side), dim=-1).to(dtype) for side in (angles.cos(), angles.sin()))
    return q, k, cos, sin


def reference(q, k, cos, sin):
    for x in (q, k):
        low, high = x.float().chunk(2, dim=-1)
        turned = torch.cat((-high, low), dim=-1)
        x.copy_(x.float() * cos[:, :, None] + turned * sin[:, :, None])


def kernel(q, k, cos, sin, *, num_warps=4, num_stages=3):
    batch_size, seq_len, n_q_head, head_dim = q.shape
    n_kv_head = k.shape[2]
    pad_n_q_head, pad_n_kv_head = (triton.next_power_of_2(heads) for heads in (n_q_head, n_kv_head))
    _triton_rope[(batch_size * seq_len,)](
        q, q.stride(1), k, k.stride(1), cos, cos.stride(-2), sin, sin.stride(-2),
        seq_len, batch_size, cos.shape[0], n_q_head, n_kv_head, head_dim, pad_n_q_head,
        pad_n_kv_head, triton.next_power_of_2(head_dim), triton.next_power_of_2(head_dim), head_dim,
        BLOCK_SIZE=max(pad_n_q_head, pad_n_kv_head), BACKWARD_PASS=False,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
