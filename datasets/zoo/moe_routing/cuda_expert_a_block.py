"""CUDA C++: a block takes an expert and goes over all choices; ballots number those that hit."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.moe_routing.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [128, 256, 512, 1024],
    "EACH": [1, 2, 4, 8],
}

CUDA = r"""
// A tile is EACH times as long as the block; a warp's part of it lies in a row.
template <typename T, int EACH>
__global__ void number_expert(const T* chosen, int* counts, int* places, int count) {
  __shared__ int hits[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int expert = blockIdx.x;
  int before = 0;
  for (int start = 0; start < count; start += blockDim.x * EACH) {
    unsigned ballots[EACH];
    int mine = 0;
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      const int i = start + (warp * EACH + e) * 32 + lane;
      ballots[e] = __ballot_sync(0xffffffff, i < count && chosen[i] == expert);
      mine += __popc(ballots[e]);
    }
    __syncthreads();  // the sums of the tile before have been read
    if (lane == 0) hits[warp] = mine;
    __syncthreads();
    int place = before;
    for (int w = 0; w < warps; ++w) {
      if (w < warp) place += hits[w];
      before += hits[w];
    }
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      if (ballots[e] >> lane & 1) {
        places[start + (warp * EACH + e) * 32 + lane] =
            place + __popc(ballots[e] & ((1u << lane) - 1));
      }
      place += __popc(ballots[e]);
    }
  }
  if (threadIdx.x == 0) counts[expert] = before;
}

template <typename T, int EACH>
void launch(const void* chosen, int* counts, int* places, int count, int experts, int threads,
            cudaStream_t stream) {
  const T* chosen_t = static_cast<const T*>(chosen);
  number_expert<T, EACH><<<experts, threads, 0, stream>>>(chosen_t, counts, places, count);
}

template <typename T>
void by_each(const void* chosen, int* counts, int* places, int count, int experts, int threads,
             int each, cudaStream_t stream) {
  if (each == 1) {
    launch<T, 1>(chosen, counts, places, count, experts, threads, stream);
  } else if (each == 2) {
    launch<T, 2>(chosen, counts, places, count, experts, threads, stream);
  } else if (each == 4) {
    launch<T, 4>(chosen, counts, places, count, experts, threads, stream);
  } else {
    launch<T, 8>(chosen, counts, places, count, experts, threads, stream);
  }
}

void run(const void* chosen, int* counts, int* places, int type, int count, int experts,
         int threads, int each, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_each<int>(chosen, counts, places, count, experts, threads, each, stream);
      break;
    default:
      by_each<long long>(chosen, counts, places, count, experts, threads, each, stream);
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

void run(const void* chosen, int* counts, int* places, int type, int count, int experts,
         int threads, int each, cudaStream_t stream);

std::tuple<at::Tensor, at::Tensor> moe_routing(const at::Tensor& chosen, int experts, int threads,
                                               int each) {
  const int64_t count = chosen.numel();
  at::Tensor counts = at::empty({experts}, chosen.options().dtype(at::kInt));
  at::Tensor places = at::empty({count}, chosen.options().dtype(at::kInt));
  const int type = chosen.element_size() == 4 ? 0 : 1;
  run(chosen.const_data_ptr(), counts.mutable_data_ptr<int>(), places.mutable_data_ptr<int>(),
      type, count, experts, threads, each, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {counts, places};
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_moe_routing_cuda_expert_a_block",
        BINDING,
        CUDA,
        functions=["moe_routing"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Everywhere."""
    return True


def kernel(chosen, experts, *, THREADS=1024, EACH=4):
    return extension().moe_routing(chosen, experts, THREADS, EACH)
