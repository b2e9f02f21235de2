"""CUDA C++: warps count stretches; a second launch adds these up; a third one numbers."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.moe_routing.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WARPS": [1, 2, 4, 8],
    "STRETCH": [64, 128, 256, 512, 1024, 2048],
    "MATCH": [False, True],
}

CUDA = r"""
// How many choices of a stretch each expert has: by atomics, or found by lanes with equal ones.
template <typename T>
__global__ void count_stretches(const T* chosen, int* before, int count, int experts, int stretch,
                                int stretches, bool match) {
  extern __shared__ int held[];
  const int lane = threadIdx.x % 32, which = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int* mine = held + threadIdx.x / 32 * experts;
  if (which >= stretches) return;
  for (int e = lane; e < experts; e += 32) mine[e] = 0;
  __syncwarp();
  const int first = which * stretch;
  for (int start = first; start < min(first + stretch, count); start += 32) {
    const int i = start + lane;
    const int expert = i < count ? static_cast<int>(chosen[i]) : -1;
    const unsigned peers = match ? __match_any_sync(0xffffffff, expert) : 1u << lane;
    if (expert >= 0 && lane == __ffs(peers) - 1) atomicAdd(mine + expert, __popc(peers));
  }
  __syncwarp();
  for (int e = lane; e < experts; e += 32) before[which * experts + e] = mine[e];
}

// A warp adds up the stretches of an expert, 32 at a time.
__global__ void scan_stretches(int* before, int* counts, int experts, int stretches) {
  const int lane = threadIdx.x;
  int carry = 0;
  for (int start = 0; start < stretches; start += 32) {
    const int at = (start + lane) * experts + blockIdx.x;
    const int own = start + lane < stretches ? before[at] : 0;
    int sum = own;
    for (int far = 1; far < 32; far *= 2) {
      const int other = __shfl_up_sync(0xffffffff, sum, far);
      if (lane >= far) sum += other;
    }
    if (start + lane < stretches) before[at] = carry + sum - own;
    carry += __shfl_sync(0xffffffff, sum, 31);
  }
  if (lane == 0) counts[blockIdx.x] = carry;
}

template <typename T>
__global__ void number_stretches(const T* chosen, const int* before, int* places, int count,
                                 int experts, int stretch, int stretches) {
  extern __shared__ int held[];
  const int lane = threadIdx.x % 32, which = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int* mine = held + threadIdx.x / 32 * experts;
  if (which >= stretches) return;
  for (int e = lane; e < experts; e += 32) mine[e] = before[which * experts + e];
  __syncwarp();
  const int first = which * stretch;
  for (int start = first; start < min(first + stretch, count); start += 32) {
    const int i = start + lane;
    const int expert = i < count ? static_cast<int>(chosen[i]) : -1;
    const unsigned peers = __match_any_sync(0xffffffff, expert);
    const int base = expert >= 0 ? mine[expert] : 0;
    __syncwarp();
    if (expert >= 0 && lane == __ffs(peers) - 1) mine[expert] = base + __popc(peers);
    __syncwarp();
    if (expert >= 0) places[i] = base + __popc(peers & ((1u << lane) - 1));
  }
}

template <typename T>
void launch(const void* chosen, int* counts, int* places, int* work_before, int count,
            int stretches, int experts, int warps, int stretch, int match, cudaStream_t stream) {
  const T* chosen_t = static_cast<const T*>(chosen);
  const int blocks = (stretches + warps - 1) / warps, shared = 4 * warps * experts;
  count_stretches<T><<<blocks, 32 * warps, shared, stream>>>(chosen_t, work_before, count, experts,
                                                             stretch, stretches, match);
  scan_stretches<<<experts, 32, 0, stream>>>(work_before, counts, experts, stretches);
  number_stretches<T><<<blocks, 32 * warps, shared, stream>>>(chosen_t, work_before, places, count,
                                                              experts, stretch, stretches);
}

void run(const void* chosen, int* counts, int* places, int* work_before, int type, int count,
         int stretches, int experts, int warps, int stretch, int match, cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<int>(chosen, counts, places, work_before, count, stretches, experts, warps, stretch,
                  match, stream);
      break;
    default:
      launch<long long>(chosen, counts, places, work_before, count, stretches, experts, warps,
                        stretch, match, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
#include <tuple>

void run(const void* chosen, int* counts, int* places, int* work_before, int type, int count,
         int stretches, int experts, int warps, int stretch, int match, cudaStream_t stream);

std::tuple<at::Tensor, at::Tensor> moe_routing(const at::Tensor& chosen, int experts, int warps,
                                               int stretch, int match) {
  const int64_t count = chosen.numel();
  const int64_t stretches = (count + stretch - 1) / stretch;
  at::Tensor counts = at::empty({experts}, chosen.options().dtype(at::kInt));
  at::Tensor places = at::empty({count}, chosen.options().dtype(at::kInt));
  at::Tensor work_before = at::empty({stretches, experts}, counts.options());
  const int type = chosen.element_size() == 4 ? 0 : 1;
  run(chosen.const_data_ptr(), counts.mutable_data_ptr<int>(), places.mutable_data_ptr<int>(),
      work_before.mutable_data_ptr<int>(), type, count, stretches, experts, warps, stretch, match,
      c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {counts, places};
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_moe_routing_cuda_warp_stretches",
        BINDING,
        CUDA,
        functions=["moe_routing"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Everywhere."""
    return True


def kernel(chosen, experts, *, WARPS=4, STRETCH=256, MATCH=True):
    return extension().moe_routing(chosen, experts, WARPS, STRETCH, MATCH)
