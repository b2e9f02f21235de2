"""Pointwise by Inductor: of average_pool, float32."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "YBLOCK": [1, 4, 16, 32, 64, 128, 256, 1024],
    "XBLOCK": [1, 2, 4, 8, 16, 32],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 3e-05}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, ynumel, xnumel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr):
    ynumel = 14336
    xnumel = 28
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = tl.full([YBLOCK], True, tl.int1)[:, None]
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    y0 = (yindex % 28)
    x2 = xindex
    y3 = yindex
    tmp0 = ((-1) + 2*y0).to(tl.int32)
    tmp1 = tl.full([1, 1], 0, tl.int64)
    tmp2 = tmp0 >= tmp1
    tmp3 = tl.full([1, 1], 56, tl.int64)
    tmp4 = tmp0 < tmp3
    tmp5 = tmp2 & tmp4
    tmp6 = ((-1) + 2*x2).to(tl.int32)
    tmp7 = tmp6 >= tmp1
    tmp8 = tmp6 < tmp3
    tmp9 = tmp7 & tmp8
    tmp10 = tmp5 & tmp9
    tmp11 = tl.load(in_ptr0 + ((-57) + 2*x2 + 112*y3), tmp10 & xmask, eviction_policy='evict_last', other=0.0)
    tmp12 = (2*x2).to(tl.int32)
    tmp13 = tmp12 >= tmp1
    tmp14 = tmp12 < tmp3
    tmp15 = tmp13 & tmp14
    tmp16 = tmp5 & tmp15
    tmp17 = tl.load(in_ptr0 + ((-56) + 2*x2 + 112*y3), tmp16 & xmask, eviction_policy='evict_last', other=0.0)
    tmp18 = tmp11 + tmp17
    tmp19 = (1 + 2*x2).to(tl.int32)
    tmp20 = tmp19 >= tmp1
    tmp21 = tmp19 < tmp3
    tmp22 = tmp20 & tmp21
    tmp23 = tmp5 & tmp22
    tmp24 = tl.load(in_ptr0 + ((-55) + 2*x2 + 112*y3), tmp23 & xmask, eviction_policy='evict_last', other=0.0)
    tmp25 = tmp18 + tmp24
    tmp26 = (2*y0).to(tl.int32)
    tmp27 = tmp26 >= tmp1
    tmp28 = tmp26 < tmp3
    tmp29 = tmp27 & tmp28
    tmp30 = tmp29 & tmp9
    tmp31 = tl.load(in_ptr0 + ((-1) + 2*x2 + 112*y3), tmp30 & xmask, eviction_policy='evict_last', other=0.0)
    tmp32 = tmp25 + tmp31
    tmp33 = tmp29 & tmp15
    tmp34 = tl.load(in_ptr0 + (2*x2 + 112*y3), tmp33 & xmask, eviction_policy='evict_last', other=0.0)
    tmp35 = tmp32 + tmp34
    tmp36 = tmp29 & tmp22
    tmp37 = tl.load(in_ptr0 + (1 + 2*x2 + 112*y3), tmp36 & xmask, eviction_policy='evict_last', other=0.0)
    tmp38 = tmp35 + tmp37
    tmp39 = (1 + 2*y0).to(tl.int32)
    tmp40 = tmp39 >= tmp1
    tmp41 = tmp39 < tmp3
    tmp42 = tmp40 & tmp41
    tmp43 = tmp42 & tmp9
    tmp44 = tl.load(in_ptr0 + (55 + 2*x2 + 112*y3), tmp43 & xmask, eviction_policy='evict_last', other=0.0)
    tmp45 = tmp38 + tmp44
    tmp46 = tmp42 & tmp15
    tmp47 = tl.load(in_ptr0 + (56 + 2*x2 + 112*y3), tmp46 & xmask, eviction_policy='evict_last', other=0.0)
    tmp48 = tmp45 + tmp47
    tmp49 = tmp42 & tmp22
    tmp50 = tl.load(in_ptr0 + (57 + 2*x2 + 112*y3), tmp49 & xmask, eviction_policy='evict_last', other=0.0)
    tmp51 = tmp48 + tmp50
    tmp52 = (1 + ((-2)*x2) + ((-2)*y0) + ((57) * ((57) <= (2 + 2*x2)) + (2 + 2*x2) * ((2 + 2*x2) < (57)))*((57) * ((57) <= (2 + 2*y0)) + (2 + 2*y0) * ((2 + 2*y0) < (57))) + ((-2)*x2*((57) * ((57) <= (2 + 2*y0)) + (2 + 2*y0) * ((2 + 2*y0) < (57)))) + ((-2)*y0*((57) * ((57) <= (2 + 2*x2)) + (2 + 2*x2) * ((2 + 2*x2) < (57)))) + 4*x2*y0 + ((57) * ((57) <= (2 + 2*x2)) + (2 + 2*x2) * ((2 + 2*x2) < (57))) + ((57) * ((57) <= (2 + 2*y0)) + (2 + 2*y0) * ((2 + 2*y0) < (57)))).to(tl.int32)
    tmp53 = (tmp51 / tmp52)
    tl.store(tl.make_block_ptr(out_ptr0, shape=[14336, 28], strides=[28, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), tl.broadcast_to(tmp53, [YBLOCK, XBLOCK]).to(tl.float32), boundary_check=[1])


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    arg0_1 = torch.randn((8, 64, 56, 56), dtype=torch.float32, device=device)
    return (arg0_1,)


def reference(arg0_1):
    avg_pool2d = aten.avg_pool2d.default(arg0_1, [3, 3], [2, 2], [1, 1])
    return avg_pool2d


def kernel(arg0_1, *, YBLOCK=32, XBLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((8, 64, 28, 28), (50176, 784, 28, 1), dtype=torch.float32, device=arg0_1.device)
    grid = (triton.cdiv(28, XBLOCK), triton.cdiv(14336, YBLOCK),)
    fused_kernel[grid](arg0_1, out_ptr0, 14336, 28, YBLOCK=YBLOCK, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
