"""CUDA C++: a block's sources pass through shared memory; a thread keeps some targets."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.nbody_forces.problem import SHAPES, SOFTENING, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "THREADS": [64, 128, 256, 512],
    "EACH": [1, 2, 4],
    "SPLITS": [1, 4, 16, 64],
    "SHARED": [False, True],
}

CUDA = r"""
// Targets of a thread lie blockDim.x apart. Without SHARED all threads read the same source.
template <int EACH, bool SHARED>
__global__ void gravity(const float4* bodies, float* out, int targets, int sources, int share,
                        float softening) {
  extern __shared__ float4 tile[];
  const int first = blockIdx.x * blockDim.x * EACH + threadIdx.x;
  float4 own[EACH];
  float ax[EACH], ay[EACH], az[EACH];
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    own[e] = bodies[min(first + e * static_cast<int>(blockDim.x), targets - 1)];
    ax[e] = ay[e] = az[e] = 0.0f;
  }
  const int begin = blockIdx.y * share, end = min(begin + share, sources);
  for (int start = begin; start < end; start += blockDim.x) {
    const int count = min(static_cast<int>(blockDim.x), end - start);
    if (SHARED) {
      __syncthreads();
      if (threadIdx.x < count) tile[threadIdx.x] = bodies[start + threadIdx.x];
      __syncthreads();
    }
#pragma unroll 8
    for (int i = 0; i < count; ++i) {
      const float4 source = SHARED ? tile[i] : __ldg(bodies + start + i);
#pragma unroll
      for (int e = 0; e < EACH; ++e) {
        const float dx = source.x - own[e].x, dy = source.y - own[e].y, dz = source.z - own[e].z;
        const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
        const float weight = source.w * inverse * inverse * inverse;
        ax[e] += weight * dx;
        ay[e] += weight * dy;
        az[e] += weight * dz;
      }
    }
  }
  const float scale = 1.0f / sources;
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int m = first + e * blockDim.x;
    if (m >= targets) continue;
    if (gridDim.y == 1) {
      out[3 * m] = ax[e] * scale;
      out[3 * m + 1] = ay[e] * scale;
      out[3 * m + 2] = az[e] * scale;
    } else {
      atomicAdd(out + 3 * m, ax[e] * scale);
      atomicAdd(out + 3 * m + 1, ay[e] * scale);
      atomicAdd(out + 3 * m + 2, az[e] * scale);
    }
  }
}

template <int EACH>
void launch(const float4* bodies, float* out, int targets, int sources, int splits, float softening,
            int threads, bool shared, cudaStream_t stream) {
  const dim3 grid((targets + threads * EACH - 1) / (threads * EACH), splits);
  const int share = (sources + splits - 1) / splits;
  if (shared) {
    gravity<EACH, true>
        <<<grid, threads, threads * 16, stream>>>(bodies, out, targets, sources, share, softening);
  } else {
    gravity<EACH, false>
        <<<grid, threads, 0, stream>>>(bodies, out, targets, sources, share, softening);
  }
}

void gravity_any(const float* bodies, float* out, int targets, int sources, int splits,
                 float softening, int threads, int each, bool shared, cudaStream_t stream) {
  const float4* b = reinterpret_cast<const float4*>(bodies);
  if (each == 1) launch<1>(b, out, targets, sources, splits, softening, threads, shared, stream);
  if (each == 2) launch<2>(b, out, targets, sources, splits, softening, threads, shared, stream);
  if (each == 4) launch<4>(b, out, targets, sources, splits, softening, threads, shared, stream);
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void gravity_any(const float* bodies, float* out, int targets, int sources, int splits,
                 float softening, int threads, int each, bool shared, cudaStream_t stream);

at::Tensor accelerations(const at::Tensor& bodies, int targets, int sources, int splits,
                         double softening, int threads, int each, bool shared) {
  at::Tensor out = splits == 1 ? at::empty({targets, 3}, bodies.options())
                               : at::zeros({targets, 3}, bodies.options());
  gravity_any(bodies.const_data_ptr<float>(), out.mutable_data_ptr<float>(), targets, sources,
              splits, softening, threads, each, shared, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_nbody_forces_cuda_shared_tiles",
        BINDING,
        CUDA,
        functions=["accelerations"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Blocks enough to fill half the SMs."""
    return shape["M"] * params["SPLITS"] // (params["THREADS"] * params["EACH"]) >= 64


def kernel(bodies, M, N, *, THREADS=128, EACH=2, SPLITS=64, SHARED=True):
    return extension().accelerations(bodies, M, N, SPLITS, SOFTENING, THREADS, EACH, SHARED)
