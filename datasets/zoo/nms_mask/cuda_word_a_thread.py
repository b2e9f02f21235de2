"""CUDA C++: a thread a box; columns of WORDS times 32 boxes in shared memory make its words."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.nms_mask.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [32, 64, 128, 256],
    "WORDS": [1, 2, 4, 8],
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

// Blocks below the diagonal have only zeros to write.
__global__ void mark_words(const float4* boxes, uint32_t* out, int count, int words, int each) {
  __shared__ float4 held[256];
  const int first = blockIdx.x * each * 32, row = blockIdx.y * blockDim.x + threadIdx.x;
  for (int i = threadIdx.x; i < each * 32; i += blockDim.x) {
    if (first + i < count) held[i] = boxes[first + i];
  }
  __syncthreads();
  if (row >= count) return;
  const float4 mine = boxes[row];
  for (int w = 0; w < each && blockIdx.x * each + w < words; ++w) {
    uint32_t word = 0;
    const int start = first + w * 32;
    if (start + 31 > row) {
      for (int i = 0; i < 32 && start + i < count; ++i) {
        const bool bit = start + i > row && too_close(mine, held[w * 32 + i]);
        word |= static_cast<uint32_t>(bit) << i;
      }
    }
    out[static_cast<long long>(row) * words + blockIdx.x * each + w] = word;
  }
}

void mark(const void* boxes, void* out, int count, int words, int threads, int each,
          cudaStream_t stream) {
  const dim3 grid((words + each - 1) / each, (count + threads - 1) / threads);
  mark_words<<<grid, threads, 0, stream>>>(static_cast<const float4*>(boxes),
                                           static_cast<uint32_t*>(out), count, words, each);
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void mark(const void* boxes, void* out, int count, int words, int threads, int each,
          cudaStream_t stream);

at::Tensor nms_mask(const at::Tensor& boxes, int threads, int each) {
  const int64_t count = boxes.size(0), words = (count + 31) / 32;
  at::Tensor out = at::empty({count, words}, boxes.options().dtype(at::kInt));
  mark(boxes.const_data_ptr(), out.mutable_data_ptr(), count, words, threads, each,
  c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_nms_mask_cuda_word_a_thread",
        BINDING,
        CUDA,
        functions=["nms_mask"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Blocks that are smaller than the mask."""
    return 32 * params["WORDS"] < shape["N"] and params["THREADS"] < shape["N"]


def kernel(boxes, *, THREADS=64, WORDS=2):
    return extension().nms_mask(boxes, THREADS, WORDS)
