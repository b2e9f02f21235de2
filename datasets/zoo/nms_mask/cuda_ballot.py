"""CUDA C++: a warp a stretch of 32 boxes in registers; row by row it votes on a word."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.nms_mask.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [1, 2, 4, 8],
    "ROWS": [8, 32, 128, 512],
}

CUDA = r"""
#include <cstdint>

// Whether more than half of the union is in both: twice the intersection is more than the union.
__device__ bool too_close(float4 a, float4 b) {
  const float across = fmaxf(fminf(a.z, b.z) - fmaxf(a.x, b.x), 0.0f);
  const float down = fmaxf(fminf(a.w, b.w) - fmaxf(a.y, b.y), 0.0f);
  const float areas = (a.z - a.x) * (a.w - a.y) + (b.z - b.x) * (b.w - b.y);
  return 3.0f * across * down > areas;
}

// Rows of boxes come from cache, the same for all lanes; a lane keeps one of 32 words to store.
__global__ void mark_votes(const float4* boxes, uint32_t* out, int count, int words, int rows) {
  const int lane = threadIdx.x % 32;
  const int word = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (word >= words) return;
  const int column = word * 32 + lane, first = blockIdx.y * rows;
  const bool inside = column < count;
  const float4 mine = inside ? boxes[column] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  for (int row = first; row < min(first + rows, count); ++row) {
    const bool bit = inside && column > row && too_close(__ldg(boxes + row), mine);
    const uint32_t bits = __ballot_sync(0xffffffffu, bit);
    if (lane == 0) out[static_cast<long long>(row) * words + word] = bits;
  }
}

void mark(const void* boxes, void* out, int count, int words, int warps, int rows,
          cudaStream_t stream) {
  const dim3 grid((words + warps - 1) / warps, (count + rows - 1) / rows);
  mark_votes<<<grid, 32 * warps, 0, stream>>>(static_cast<const float4*>(boxes),
                                              static_cast<uint32_t*>(out), count, words, rows);
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void mark(const void* boxes, void* out, int count, int words, int warps, int rows,
          cudaStream_t stream);

at::Tensor nms_mask(const at::Tensor& boxes, int warps, int rows) {
  const int64_t count = boxes.size(0), words = (count + 31) / 32;
  at::Tensor out = at::empty({count, words}, boxes.options().dtype(at::kInt));
  mark(boxes.const_data_ptr(), out.mutable_data_ptr(), count, words, warps, rows,
  c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_nms_mask_cuda_ballot",
        BINDING,
        CUDA,
        functions=["nms_mask"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Fewer rows than there are."""
    return params["ROWS"] < shape["N"]


def kernel(boxes, *, WARPS=4, ROWS=32):
    return extension().nms_mask(boxes, WARPS, ROWS)
