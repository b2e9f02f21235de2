"""Grouped mm by Inductor: of grouped_rows_transposed, bfloat16."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "BLOCK_M": [16, 32, 64, 128, 256],
    "BLOCK_N": [16, 32, 64, 128, 256],
    "BLOCK_K": [16, 32, 64, 128, 256],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3, 4],
}
TOLERANCE = {"rtol": 0.02, "atol": 0.3}


@triton.jit
def do_tma_loads(
    g, a_desc, b_desc, m_offset, n_offset, k_offset,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    a = a_desc.load([m_offset, k_offset])
    b = b_desc.load([g, n_offset, k_offset]).reshape(BLOCK_N, BLOCK_K)

    return (a, b)


@triton.jit
def do_mma(a, b, accumulator):
    accumulator += tl.dot(a, b.T)

    return accumulator

import triton
import triton.language as tl

from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
from torch._inductor.runtime.hints import AutotuneHint, ReductionHint, TileHint, DeviceProperties

@triton.jit
def fused_kernel(arg_a_ptr, arg_b_ptr, arg_offsets_ptr, out_ptr0, BLOCK_M : tl.constexpr, BLOCK_N : tl.constexpr, BLOCK_K : tl.constexpr):
    SCALED : tl.constexpr = False
    A_IS_2D : tl.constexpr = True
    B_IS_2D : tl.constexpr = False
    A_IS_K_MAJOR : tl.constexpr = True
    B_IS_K_MAJOR : tl.constexpr = True
    USE_FAST_ACCUM : tl.constexpr = False
    NUM_SMS : tl.constexpr = 132
    USE_TMA_LOAD : tl.constexpr = True
    USE_EXPERIMENTAL_MAKE_TENSOR_DESCRIPTOR : tl.constexpr = False
    NUM_CONSUMER_GROUPS : tl.constexpr = 1
    INDEX_DTYPE : tl.constexpr = tl.int32
    a_ptr = arg_a_ptr
    b_ptr = arg_b_ptr
    offsets_ptr = arg_offsets_ptr

    tidx = tl.program_id(0).to(INDEX_DTYPE)
    G: tl.constexpr = 5

    M: tl.constexpr = 640
    N: tl.constexpr = 320
    K: tl.constexpr = 256

    A_STRIDE_M: tl.constexpr = 256
    A_STRIDE_K: tl.constexpr = 1
    B_STRIDE_N: tl.constexpr = 256
    B_STRIDE_K: tl.constexpr = 1
    B_STRIDE_G: tl.constexpr = 81920
    B_STRIDE_G = 81920
    a_desc = tl.make_tensor_descriptor(
        a_ptr,
        shape=[M, K],
        strides=[A_STRIDE_M, A_STRIDE_K],
        block_shape=[BLOCK_M, BLOCK_K],
    )
    b_desc = tl.make_tensor_descriptor(
        b_ptr,
        shape=[G, N, K],
        strides=[B_STRIDE_G, B_STRIDE_N, B_STRIDE_K],
        block_shape=[1, BLOCK_N, BLOCK_K],
    )
    m_end_offset = 0
    iterated_tiles = 0
    for g in tl.range(G):
        m_start_offset = m_end_offset
        m_end_offset = tl.load(offsets_ptr + g)
        m_size = m_end_offset - m_start_offset
        n_start_offset = 0
        n_size = N

        if m_size > 0 and n_size > 0:
            k_start_offset = 0
            k_size = K

            num_m_tiles = tl.cdiv(m_size, BLOCK_M)
            num_n_tiles = tl.cdiv(n_size, BLOCK_N)
            num_tiles = num_m_tiles * num_n_tiles
            while tidx >= iterated_tiles and tidx < iterated_tiles + num_tiles:
                gidx = tidx - iterated_tiles
                tile_m_idx = gidx % num_m_tiles
                tile_n_idx = gidx // num_m_tiles

                accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
                m_tile_offset = tile_m_idx * BLOCK_M
                n_tile_offset = tile_n_idx * BLOCK_N
                m_offset = (m_start_offset + m_tile_offset).to(tl.int32)
                n_offset = (n_start_offset + n_tile_offset).to(tl.int32)

                k_block_offset = 0
                for k in range(k_size // BLOCK_K):
                    k_offset = k_start_offset + k_block_offset
                    a, b = do_tma_loads(
                        g, a_desc, b_desc, m_offset, n_offset, k_offset,
                        BLOCK_M, BLOCK_N, BLOCK_K
                    )
                    accumulator = do_mma(a, b, accumulator)
                    k_block_offset += BLOCK_K

                if k_size % BLOCK_K != 0:
                    k_offset = k_start_offset + k_block_offset
                    a, b = do_tma_loads(
                        g, a_desc, b_desc, m_offset, n_offset, k_offset,
                        BLOCK_M, BLOCK_N, BLOCK_K
                    )
                    accumulator = do_mma(a, b, accumulator)

                offs_am = tile_m_idx * BLOCK_M + tl.arange(0, BLOCK_M).to(INDEX_DTYPE)
                offs_bn = tile_n_idx * BLOCK_N + tl.arange(0, BLOCK_N).to(INDEX_DTYPE)
                c = accumulator.to(tl.float32)
                idx_m = (m_start_offset + offs_am[:, None])
                idx_n = offs_bn[None, :]
                mask = (offs_am[:, None] < m_size) & (offs_bn[None, :] < n_size)
                xindex = idx_n + 320*idx_m
                tl.store(out_ptr0 + (tl.broadcast_to(xindex, [BLOCK_M, BLOCK_N])), c, mask)
                tidx += NUM_SMS

            iterated_tiles += num_tiles


def valid(params, shape):
    values = params["BLOCK_M"] * params["BLOCK_N"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and params["num_stages"] * params["BLOCK_K"] * 2 * (params["BLOCK_M"] + params["BLOCK_N"]) <= 232448


def inputs(device="cuda"):
    x_1 = torch.randn((640, 256), dtype=torch.bfloat16, device=device)
    w_1 = torch.randn((5, 320, 256), dtype=torch.bfloat16, device=device)
    ends_1 = torch.tensor([200, 208, 320, 400, 640], dtype=torch.int32, device=device)
    return (x_1, w_1, ends_1,)


def reference(x_1, w_1, ends_1):
    permute = aten.permute.default(w_1, [0, 2, 1])
    _grouped_mm = aten._grouped_mm.default(x_1, permute, ends_1)
    return _grouped_mm


def kernel(x_1, w_1, ends_1, *, BLOCK_M=64, BLOCK_N=256, BLOCK_K=64, num_warps=4, num_stages=4):
    out_ptr0 = torch.empty_strided((640, 320), (320, 1), dtype=torch.bfloat16, device=x_1.device)
    triton.set_allocator(lambda size, _alignment, _stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    grid = (132, 1, 1,)
    fused_kernel[grid](x_1, w_1, ends_1, out_ptr0, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
