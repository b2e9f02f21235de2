"""Both products of SGLang's fused experts, by its unmodified Triton kernel.

The router's choice is sorted by expert beforehand, for every block size of the tokens, as SGLang
does it in a kernel of its own: what is timed is what a configuration of SGLang's files decides.
"""

from types import SimpleNamespace

import torch
import triton.language as tl
from alone import import_alone

from solkit.datasets.libraries.moe.problem import sort_by_expert


def off(*_, **__):
    """Stands in for a question about the machine, and for what bf16 does not call."""
    return False


QUANTISATION = "sglang.kernels.ops.quantization"
MODULE = import_alone(
    "sglang.kernels.ops.moe.fused_moe_triton_kernels",
    {
        "sglang.kernels.jit.utils": {"is_arch_support_pdl": off},
        f"{QUANTISATION}.fp8_kernel": dict.fromkeys(
            (
                "per_token_group_quant_fp8",
                "scaled_fp8_quant",
                "sglang_per_token_group_quant_fp8",
            ),
            off,
        ),
        f"{QUANTISATION}.int8_kernel": dict.fromkeys(
            (
                "per_token_group_quant_int8",
                "per_token_quant_int8",
                "sglang_per_token_group_quant_int8",
            ),
            off,
        ),
        "sglang.srt.batch_invariant_ops": {"is_batch_invariant_mode_enabled": off},
        "sglang.srt.environ": {"envs": SimpleNamespace(SGLANG_USE_AITER=SimpleNamespace(get=off))},
        "sglang.srt.layers.moe.utils": {"get_moe_padding_size": lambda _: 0},
        "sglang.srt.utils": {
            **dict.fromkeys(("cpu_has_amx_support", "is_cpu", "is_hip", "is_sm90_supported"), off),
            "is_cuda": lambda: True,
        },
    },
)
BLOCKS_M = (16, 32, 64, 128)
SHAPES = [{"M": 64, "E": 128, "N": 768, "K": 2048, "top_k": 8}]
HELD_OUT_SHAPES = []
TOLERANCE = {"rtol": 2e-2, "atol": 5e-2}  # each expert's share is rounded to bf16 before the sum
SPACE = {
    "BLOCK_SIZE_M": list(BLOCKS_M),
    "BLOCK_SIZE_N": [32, 64, 128, 256],
    "BLOCK_SIZE_K": [32, 64, 128, 256],
    "GROUP_SIZE_M": [1, 8, 16, 32],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4, 5],
}


def inputs(M=64, E=128, N=768, K=2048, top_k=8, dtype=torch.bfloat16, device="cuda"):
    """Tokens, weights, routing, and the slots by expert: for the reference, then for each block."""
    x = torch.randn(M, K, dtype=dtype, device=device)
    w1 = torch.randn(E, 2 * N, K, dtype=dtype, device=device) * K**-0.5
    w2 = torch.randn(E, K, N, dtype=dtype, device=device) * N**-0.5
    weights, ids = torch.rand(M, E).topk(top_k, dim=-1)
    order = ids.flatten().argsort(stable=True).to(device)
    sizes = torch.bincount(ids.flatten(), minlength=E).tolist()
    by_block = [tensor.to(device) for m in BLOCKS_M for tensor in sort_by_expert(ids, m, E)]
    ids, weights = ids.to(device, torch.int32), weights.to(device)
    return x, w1, w2, weights, ids, order, sizes, *by_block


def reference(x, w1, w2, weights, ids, order, sizes, *_):
    out = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    for expert, slots in enumerate(order.split(sizes)):
        tokens = slots // ids.shape[1]
        gate, up = (x[tokens] @ w1[expert].t()).float().chunk(2, dim=-1)
        hidden = (torch.nn.functional.silu(gate) * up).to(x.dtype)
        down = (hidden @ w2[expert].t()).float() * weights.flatten()[slots, None]
        out.index_add_(0, tokens, down)
    return out.to(x.dtype)


def valid(params, shape):
    """Tell whether a tile fits registers and its stages fit shared memory; a block, the tokens."""
    m, n, k = (params[f"BLOCK_SIZE_{axis}"] for axis in "MNK")
    staged = (m + n) * k * 2 * params["num_stages"]
    fits = 4 <= m * n / (32 * params["num_warps"]) <= 128 and staged <= 220_000
    return fits and m <= 16 * max(1, shape["M"])


def kernel(x, w1, w2, weights, ids, _order, _sizes, *by_block, BLOCK_SIZE_M=64, BLOCK_SIZE_N=64,
           BLOCK_SIZE_K=32, GROUP_SIZE_M=8, num_warps=4, num_stages=3):  # fmt: skip
    (M, K), top_k = x.shape, ids.shape[1]
    at = 3 * BLOCKS_M.index(BLOCK_SIZE_M)
    routed = weights, ids, *by_block[at : at + 3]
    config = {
        "BLOCK_SIZE_M": BLOCK_SIZE_M,
        "BLOCK_SIZE_N": BLOCK_SIZE_N,
        "BLOCK_SIZE_K": BLOCK_SIZE_K,
        "GROUP_SIZE_M": GROUP_SIZE_M,
        "num_warps": num_warps,
        "num_stages": num_stages,
    }
    wide = torch.empty(M, top_k, w1.shape[1], dtype=x.dtype, device=x.device)
    product(x, w1, wide, routed, config, weighted=False, top_k=top_k)
    hidden = torch.empty(M * top_k, w2.shape[2], dtype=x.dtype, device=x.device)
    MODULE.act_and_mul_triton(wide.view(-1, w1.shape[1]), hidden, config, topk_ids=ids)
    narrow = torch.empty(M, top_k, K, dtype=x.dtype, device=x.device)
    product(hidden, w2, narrow, routed, config, weighted=True, top_k=1)
    out = torch.empty_like(x)
    MODULE.moe_sum_reduce_triton(narrow, out, 1.0)
    return out


def product(a, b, c, routed, config, weighted, top_k):
    """Launch one product of tokens with their experts' weights, as SGLang does for bf16."""
    MODULE.invoke_fused_moe_kernel(
        a, b, None, c, None, None, None, *routed, weighted, top_k, config,
        compute_type=tl.bfloat16, use_fp8_w8a8=False, use_int8_w8a8=False, use_int8_w8a16=False,
        use_int4_w4a16=False, per_channel_quant=False,
    )  # fmt: skip
