"""Mm persistent tma by Inductor: of product_silu, bfloat16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import libdevice

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "BLOCK_M": [16, 32, 64, 128, 256],
    "BLOCK_N": [16, 32, 64, 128, 256],
    "BLOCK_K": [16, 32, 64, 128],
    "GROUP_M": [1, 4, 8, 16],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3, 4, 5],
}
TOLERANCE = {"rtol": 0.02, "atol": 0.2}


@triton.jit
def fused_kernel(arg_A, arg_B, in_ptr2, out_ptr1, ws_ptr, BLOCK_M : tl.constexpr, BLOCK_N : tl.constexpr, BLOCK_K : tl.constexpr, GROUP_M : tl.constexpr):
    EVEN_K : tl.constexpr = True
    USE_FAST_ACCUM : tl.constexpr = False
    ACC_TYPE : tl.constexpr = tl.float32
    A_ROW_MAJOR : tl.constexpr = True
    B_ROW_MAJOR : tl.constexpr = True
    NUM_SMS : tl.constexpr = 132
    TMA_SIZE : tl.constexpr = 128
    TMA_EXPERIMENTAL_API : tl.constexpr = False
    ALLOW_TF32 : tl.constexpr = True
    INDEX_DTYPE : tl.constexpr = tl.int32
    A = arg_A
    B = arg_B

    M = 2048
    N = 2048
    K = 1024

    if (M == 0) or (N == 0):
        return

    start_pid = tl.program_id(0).to(INDEX_DTYPE)
    grid_m = tl.cdiv(M, BLOCK_M)
    grid_n = tl.cdiv(N, BLOCK_N)
    num_tiles = grid_m * grid_n
    width = GROUP_M * grid_n
    stride_am = 1024
    stride_ak = 1
    stride_bk = 2048
    stride_bn = 1

    a_desc = triton.language.make_tensor_descriptor(
        base=A,
        shape=[M, K] if A_ROW_MAJOR else [K, M],
        strides=[stride_am, 1] if A_ROW_MAJOR else [stride_ak, 1],
        block_shape=[BLOCK_M, BLOCK_K] if A_ROW_MAJOR else [BLOCK_K, BLOCK_M],
    )
    b_desc = triton.language.make_tensor_descriptor(
        base=B,
        shape=[K, N] if B_ROW_MAJOR else [N, K],
        strides=[stride_bk, 1] if B_ROW_MAJOR else [stride_bn, 1],
        block_shape=[BLOCK_K, BLOCK_N] if B_ROW_MAJOR else [BLOCK_N, BLOCK_K],
    )

    for tile_id in tl.range(start_pid, num_tiles, NUM_SMS):
        group_id = tile_id // width
        group_size = min(grid_m - group_id * GROUP_M, GROUP_M)
        pid_m = group_id * GROUP_M + (tile_id % group_size)
        pid_n = (tile_id % width) // (group_size)

        rm = pid_m * BLOCK_M
        rn = pid_n * BLOCK_N
        rm_desc = rm.to(tl.int32)
        rn_desc = rn.to(tl.int32)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC_TYPE)

        for rk in tl.range(0, K, BLOCK_K):
            rk_desc = rk.to(tl.int32)
            a = tl.load_tensor_descriptor(
                a_desc,
                [rm_desc, rk_desc] if A_ROW_MAJOR else [rk_desc, rm_desc],
            )
            b = tl.load_tensor_descriptor(
                b_desc,
                [rk_desc, rn_desc] if B_ROW_MAJOR else [rn_desc, rk_desc],
            )
            if USE_FAST_ACCUM:
                acc = tl.dot(
                    a if A_ROW_MAJOR else a.T,
                    b if B_ROW_MAJOR else b.T,
                    acc,
                    allow_tf32=ALLOW_TF32,
                    )
            else:
                acc += tl.dot(
                    a if A_ROW_MAJOR else a.T,
                    b if B_ROW_MAJOR else b.T,
                    allow_tf32=ALLOW_TF32,
                )
        rm = pid_m * BLOCK_M
        rn = pid_n * BLOCK_N
        _tmp_var1 = rm
        _tmp_var0 = (_tmp_var1 + tl.arange(0, BLOCK_M))[:, None]
        _tmp_var2 = _tmp_var0 < 2048
        _tmp_var4 = rn
        _tmp_var3 = (_tmp_var4 + tl.arange(0, BLOCK_N))[None, :, ]
        _tmp_var5 = _tmp_var3 < 2048
        _tmp_var6 = _tmp_var2 & _tmp_var5
        xindex = _tmp_var3 + 2048*_tmp_var0
        tmp0 = acc.to(tl.bfloat16)
        tmp1 = tmp0.to(tl.float32)
        x1 = (xindex % 2048)
        tmp9 = tl.load(in_ptr2 + (x1), _tmp_var6, eviction_policy='evict_last').to(tl.float32)
        tmp2 = tmp1.to(tl.float32)
        tmp3 = -tmp2
        tmp4 = libdevice.exp(tmp3)
        tmp5 = tl.full([1], 1.0, tl.float32)
        tmp6 = tmp4 + tmp5
        tmp7 = (tmp2 / tmp6)
        tmp8 = tmp7.to(tl.float32)
        tmp10 = tmp8 * tmp9
        tl.store(out_ptr1 + (tl.broadcast_to(xindex, [BLOCK_M, BLOCK_N])), tmp10, _tmp_var6)


def valid(params, shape):
    values = params["BLOCK_M"] * params["BLOCK_N"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and params["num_stages"] * params["BLOCK_K"] * 2 * (params["BLOCK_M"] + params["BLOCK_N"]) <= 232448 and 1024 % params["BLOCK_K"] == 0


def inputs(device="cuda"):
    x_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
    w_1 = torch.randn((1024, 2048), dtype=torch.bfloat16, device=device)
    b_1 = torch.randn((2048,), dtype=torch.bfloat16, device=device)
    return (x_1, w_1, b_1,)


def reference(x_1, w_1, b_1):
    mm = aten.mm.default(x_1, w_1)
    convert_element_type_2 = mm.to(torch.float32)
    neg = aten.neg.default(convert_element_type_2)
    exp = aten.exp.default(neg)
    add = aten.add.Tensor(exp, 1)
    div = aten.div.Tensor(convert_element_type_2, add)
    b_1 = b_1.float()
    mul = aten.mul.Tensor(div, b_1)
    return mul.to(torch.bfloat16)


def kernel(x_1, w_1, b_1, *, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, GROUP_M=8, num_warps=8, num_stages=4):
    out_ptr1 = torch.empty_strided((2048, 2048), (2048, 1), dtype=torch.bfloat16, device=x_1.device)
    ws_ptr = torch.empty(33792, dtype=torch.uint8, device=x_1.device)
    triton.set_allocator(lambda size, _alignment, _stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    grid = (min(132, triton.cdiv(2048, BLOCK_M)*triton.cdiv(2048, BLOCK_N)), 1, 1,)
    fused_kernel[grid](x_1, w_1, b_1, out_ptr1, ws_ptr, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=GROUP_M, num_warps=num_warps, num_stages=num_stages)
    return out_ptr1
