"""CUDA C++: spheres in shared memory; the root is taken only where a ray meets the sphere."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.ray_spheres.problem import FAR, SHAPES, TOLERANCE, check, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "check", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "THREADS": [64, 128, 256, 512],
    "EACH": [1, 2, 4],
    "HELD": [64, 256, 1024],
    "BRANCH": [False, True],
}

CUDA = r"""
// A thread's rays lie blockDim.x apart. In shared memory the fourth number is what a ray's inner
// product squared must exceed. With BRANCH the root and what follows is skipped by warps that miss.
template <int EACH, bool BRANCH>
__global__ void trace(const float* rays, const float4* spheres, float* ways, int* found, int size,
                      int count, int each, float far) {
  extern __shared__ float4 held[];
  const int first = blockIdx.x * blockDim.x * EACH + threadIdx.x;
  float x[EACH], y[EACH], z[EACH], best[EACH];
  int which[EACH];
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int at = min(first + e * static_cast<int>(blockDim.x), size - 1);
    x[e] = rays[at];
    y[e] = rays[size + at];
    z[e] = rays[2 * size + at];
    best[e] = far;
    which[e] = -1;
  }
  for (int start = 0; start < count; start += each) {
    const int here = min(each, count - start);
    __syncthreads();
    for (int i = threadIdx.x; i < here; i += blockDim.x) {
      float4 sphere = spheres[start + i];
      sphere.w = sphere.x * sphere.x + sphere.y * sphere.y + sphere.z * sphere.z - sphere.w;
      held[i] = sphere;
    }
    __syncthreads();
#pragma unroll 4
    for (int i = 0; i < here; ++i) {
      const float4 sphere = held[i];
#pragma unroll
      for (int e = 0; e < EACH; ++e) {
        const float along = x[e] * sphere.x + y[e] * sphere.y + z[e] * sphere.z;
        const float inner = along * along - sphere.w;
        if (BRANCH) {
          if (inner >= 0.0f) {
            const float way = along - sqrtf(inner);
            if (way > 0.0f && way < best[e]) {
              best[e] = way;
              which[e] = start + i;
            }
          }
        } else {
          const float way = along - sqrtf(fmaxf(inner, 0.0f));
          const bool nearer = inner >= 0.0f && way > 0.0f && way < best[e];
          best[e] = nearer ? way : best[e];
          which[e] = nearer ? start + i : which[e];
        }
      }
    }
  }
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int at = first + e * blockDim.x;
    if (at < size) {
      ways[at] = best[e];
      found[at] = which[e];
    }
  }
}

template <int EACH>
void launch(const float* rays, const float4* spheres, float* ways, int* found, int size, int count,
            int threads, int each, bool branch, float far, cudaStream_t stream) {
  const int blocks = (size + threads * EACH - 1) / (threads * EACH), shared = each * 16;
  if (branch) {
    trace<EACH, true>
        <<<blocks, threads, shared, stream>>>(rays, spheres, ways, found, size, count, each, far);
  } else {
    trace<EACH, false>
        <<<blocks, threads, shared, stream>>>(rays, spheres, ways, found, size, count, each, far);
  }
}

void trace_any(const float* rays, const float* spheres, float* ways, int* found, int size,
               int count, int threads, int each, int held, bool branch, float far,
               cudaStream_t stream) {
  const float4* s = reinterpret_cast<const float4*>(spheres);
  if (each == 1) {
    launch<1>(rays, s, ways, found, size, count, threads, held, branch, far, stream);
  } else if (each == 2) {
    launch<2>(rays, s, ways, found, size, count, threads, held, branch, far, stream);
  } else {
    launch<4>(rays, s, ways, found, size, count, threads, held, branch, far, stream);
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

void trace_any(const float* rays, const float* spheres, float* ways, int* found, int size,
               int count, int threads, int each, int held, bool branch, float far,
               cudaStream_t stream);

std::tuple<at::Tensor, at::Tensor> hits(const at::Tensor& rays, const at::Tensor& spheres,
                                        double far, int threads, int each, int held,
                                        bool branch) {
  at::Tensor ways = at::empty({rays.size(1)}, rays.options());
  at::Tensor found = at::empty({rays.size(1)}, rays.options().dtype(at::kInt));
  trace_any(rays.const_data_ptr<float>(), spheres.const_data_ptr<float>(),
            ways.mutable_data_ptr<float>(), found.mutable_data_ptr<int>(), rays.size(1),
            spheres.size(0), threads, each, held, branch, far,
            c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {ways, found};
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_ray_spheres_cuda_roots_where_hit",
        BINDING,
        CUDA,
        functions=["hits"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """No more room than the spheres fill twice; rays enough for 64 blocks."""
    rays = params["THREADS"] * params["EACH"]
    return params["HELD"] <= max(64, 2 * shape["S"]) and rays * 64 <= shape["N"]


def kernel(rays, spheres, *, THREADS=128, EACH=2, HELD=64, BRANCH=True):
    return extension().hits(rays, spheres, FAR, THREADS, EACH, HELD, BRANCH)
