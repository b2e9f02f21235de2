"""CUDA C++: a point in each thread's registers; centres in shared memory, summed in fp32."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.kmeans_assign.problem import SHAPES, TOLERANCE, check, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "check", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "THREADS": [64, 128, 256],
    "CENTRES": [8, 16, 32, 64],
    "CHAINS": [1, 2, 4],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

// CHAINS centres at a time, so that as many sums are under way; all threads read the same centre.
template <typename T, int D, int CHAINS>
__global__ void assign(const T* points, const T* centres, int* nearest, float* distances, int count,
                       int groups, int each) {
  extern __shared__ __align__(16) float kept[];
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  float own[D];
#pragma unroll
  for (int d = 0; d < D; ++d) {
    own[d] = at < count ? wide(points[static_cast<long long>(at) * D + d]) : 0.0f;
  }
  float best = INFINITY;
  int place = 0;
  for (int start = 0; start < groups; start += each) {
    const int held = min(each, groups - start);
    __syncthreads();
    for (int i = threadIdx.x; i < held * D; i += blockDim.x) {
      kept[i] = wide(centres[static_cast<long long>(start) * D + i]);
    }
    __syncthreads();
    for (int c = 0; c < held; c += CHAINS) {
      float sum[CHAINS] = {};
#pragma unroll
      for (int d = 0; d < D; ++d) {
#pragma unroll
        for (int i = 0; i < CHAINS; ++i) {
          const float gap = own[d] - kept[min(c + i, held - 1) * D + d];
          sum[i] += gap * gap;
        }
      }
#pragma unroll
      for (int i = 0; i < CHAINS; ++i) {
        if (sum[i] < best) {
          best = sum[i];
          place = start + min(c + i, held - 1);
        }
      }
    }
  }
  if (at < count) {
    nearest[at] = place;
    distances[at] = best;
  }
}

template <typename T, int D>
void launch(const void* points, const void* centres, int* nearest, float* distances, int count,
            int groups, int threads, int each, int chains, cudaStream_t stream) {
  const T* p = static_cast<const T*>(points);
  const T* c = static_cast<const T*>(centres);
  const int blocks = (count + threads - 1) / threads, shared = each * D * 4;
  if (chains == 1) {
    assign<T, D, 1>
        <<<blocks, threads, shared, stream>>>(p, c, nearest, distances, count, groups, each);
  } else if (chains == 2) {
    assign<T, D, 2>
        <<<blocks, threads, shared, stream>>>(p, c, nearest, distances, count, groups, each);
  } else {
    assign<T, D, 4>
        <<<blocks, threads, shared, stream>>>(p, c, nearest, distances, count, groups, each);
  }
}

template <typename T>
void by_depth(const void* p, const void* c, int* nearest, float* distances, int count, int groups,
              int depth, int threads, int each, int chains, cudaStream_t stream) {
  switch (depth) {
    case 16:
      launch<T, 16>(p, c, nearest, distances, count, groups, threads, each, chains, stream);
      break;
    case 32:
      launch<T, 32>(p, c, nearest, distances, count, groups, threads, each, chains, stream);
      break;
    case 64:
      launch<T, 64>(p, c, nearest, distances, count, groups, threads, each, chains, stream);
      break;
    default:
      launch<T, 128>(p, c, nearest, distances, count, groups, threads, each, chains, stream);
  }
}

void assign_any(const void* p, const void* c, int* nearest, float* distances, int type, int count,
                int groups, int depth, int threads, int each, int chains, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_depth<float>(p, c, nearest, distances, count, groups, depth, threads, each, chains,
                      stream);
      break;
    case 1:
      by_depth<__half>(p, c, nearest, distances, count, groups, depth, threads, each, chains,
                       stream);
      break;
    default:
      by_depth<__nv_bfloat16>(p, c, nearest, distances, count, groups, depth, threads, each,
                              chains, stream);
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

void assign_any(const void* p, const void* c, int* nearest, float* distances, int type, int count,
                int groups, int depth, int threads, int each, int chains, cudaStream_t stream);

std::tuple<at::Tensor, at::Tensor> kmeans(const at::Tensor& points, const at::Tensor& centres,
                                          int threads, int each, int chains) {
  at::Tensor nearest = at::empty({points.size(0)}, points.options().dtype(at::kInt));
  at::Tensor distances = at::empty({points.size(0)}, points.options().dtype(at::kFloat));
  const int type = points.scalar_type() == at::kFloat  ? 0
                   : points.scalar_type() == at::kHalf ? 1
                                                       : 2;
  assign_any(points.const_data_ptr(), centres.const_data_ptr(), nearest.mutable_data_ptr<int>(),
             distances.mutable_data_ptr<float>(), type, points.size(0), centres.size(0),
             points.size(1), threads, each, chains, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {nearest, distances};
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_kmeans_assign_cuda_point_a_thread",
        BINDING,
        CUDA,
        functions=["kmeans"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """An instance for the dimensions; not the largest problems; at most 48 KiB of shared memory."""
    work = shape["N"] * shape["K"] * shape["D"]
    depth = shape["D"] in (16, 32, 64, 128)
    shared = params["CENTRES"] * shape["D"] * 4
    return depth and work <= 3 << 34 and shared <= 48 * 1024


def kernel(points, centres, *, THREADS=128, CENTRES=32, CHAINS=2):
    return extension().kmeans(points, centres, THREADS, CENTRES, CHAINS)
