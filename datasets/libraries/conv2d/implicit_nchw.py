"""Convolution as an implicit product over images with channels first; every stride an argument."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "convolution"
SHAPES = [{"case": 0}, {"case": 1}, {"case": 2}, {"case": 3}]
# batch, channels, side, filters, side of a filter, stride, padding
SIZES = [
    [16, 64, 56, 64, 3, 1, 1, torch.float16],
    [32, 128, 28, 128, 3, 2, 1, torch.bfloat16],
    [8, 256, 14, 512, 1, 1, 0, torch.float16],
    [4, 32, 112, 48, 5, 1, 2, torch.float32],
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}
SPACE = {
    "BLOCK_NI_HO_WO": [32, 64, 128],
    "BLOCK_CI": [16, 32, 64],
    "BLOCK_CO": [16, 32, 64, 128],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def conv2d_forward(
    input_ptr, weight_ptr, output_ptr, in_n, in_h, in_w, out_c, out_h, out_w,
    input_n_stride, input_c_stride, input_h_stride, input_w_stride, weight_n_stride,
    weight_c_stride, weight_h_stride, weight_w_stride, output_n_stride, output_c_stride,
    output_h_stride, output_w_stride, weight_c: tl.constexpr, weight_h: tl.constexpr,
    weight_w: tl.constexpr, stride: tl.constexpr, padding: tl.constexpr,
    BLOCK_NI_HO_WO: tl.constexpr, BLOCK_CI: tl.constexpr, BLOCK_CO: tl.constexpr,
):  # fmt: skip
    pid_ni_ho_wo, pid_co = tl.program_id(0), tl.program_id(1)
    places = pid_ni_ho_wo * BLOCK_NI_HO_WO + tl.arange(0, BLOCK_NI_HO_WO)
    ni_ho, out_x = places // out_w, places % out_w
    image, out_y = ni_ho // out_h, ni_ho % out_h
    filters = pid_co * BLOCK_CO + tl.arange(0, BLOCK_CO)
    input_ptr += (input_n_stride * image)[:, None]
    weight_ptr += (weight_n_stride * filters)[None, :]
    accum = tl.zeros((BLOCK_NI_HO_WO, BLOCK_CO), dtype=tl.float32)
    BLOCK_CI_COUNT = (weight_c + BLOCK_CI - 1) // BLOCK_CI
    for hwc in range(weight_h * weight_w * BLOCK_CI_COUNT):
        c = (hwc % BLOCK_CI_COUNT) * BLOCK_CI
        hw = hwc // BLOCK_CI_COUNT
        h, w = hw // weight_w, hw % weight_w
        channels = c + tl.arange(0, BLOCK_CI)
        y = h - padding + stride * out_y
        x = w - padding + stride * out_x
        at = (input_c_stride * channels)[None, :] + (input_h_stride * y)[:, None]
        at += (input_w_stride * x)[:, None]
        of = (weight_c_stride * channels)[:, None] + weight_h_stride * h + weight_w_stride * w
        inside = (channels < weight_c)[None, :] & (image < in_n)[:, None] & (y >= 0)[:, None]
        inside &= (y < in_h)[:, None] & (x >= 0)[:, None] & (x < in_w)[:, None]
        block = tl.load(input_ptr + at, mask=inside, other=0.0)
        taps = tl.load(
            weight_ptr + of, mask=(channels < weight_c)[:, None] & (filters < out_c)[None, :],
            other=0.0,
        )  # fmt: skip
        accum += tl.dot(block, taps, allow_tf32=True)
    out = output_ptr + (output_n_stride * image)[:, None] + (output_c_stride * filters)[None, :]
    out += (output_h_stride * out_y)[:, None] + (output_w_stride * out_x)[:, None]
    mask = (image < in_n)[:, None] & (filters < out_c)[None, :]
    tl.store(out, accum.to(output_ptr.dtype.element_ty), mask=mask)


def valid(params, shape):
    tile = params["BLOCK_NI_HO_WO"] * params["BLOCK_CO"] / (32 * params["num_warps"])
    return 8 <= tile <= 128


def inputs(case=0, device="cuda"):
    n, c, side, out_c, r, stride, padding, dtype = SIZES[case]
    x = torch.randn(n, c, side, side, dtype=dtype, device=device)
    weight = torch.randn(out_c, c, r, r, dtype=dtype, device=device) * (c * r * r) ** -0.5
    return x, weight, [stride, padding]


def reference(x, weight, options):
    return F.conv2d(x, weight, stride=options[0], padding=options[1])


def kernel(x, weight, options, *, BLOCK_NI_HO_WO=64, BLOCK_CI=32, BLOCK_CO=32, num_warps=4,
           num_stages=2):  # fmt: skip
    stride, padding = options
    n, c, h, w = x.shape
    out_c, _, r, _ = weight.shape
    out_h, out_w = ((side + 2 * padding - r) // stride + 1 for side in (h, w))
    out = torch.empty(n, out_c, out_h, out_w, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(n * out_h * out_w, BLOCK_NI_HO_WO), triton.cdiv(out_c, BLOCK_CO))
    conv2d_forward[grid](
        x, weight, out, n, h, w, out_c, out_h, out_w, *x.stride(), *weight.stride(), *out.stride(),
        c, r, r, stride, padding, BLOCK_NI_HO_WO=BLOCK_NI_HO_WO, BLOCK_CI=BLOCK_CI,
        BLOCK_CO=BLOCK_CO, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
