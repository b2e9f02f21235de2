"""CUDA C++: rows in shared memory and fp32 registers; a thread makes a column of ROWS results."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.dft_small.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "ROWS": [4, 8, 16],
    "GROUPS": [1, 2, 4, 8],
    "UNROLL": [2, 4, 8],
    "TABLE": ["global", "computed"],
}

CUDA = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void put(float* at, float x) { *at = x; }
__device__ void put(__half* at, float x) { *at = __float2half(x); }
__device__ void put(__nv_bfloat16* at, float x) { *at = __float2bfloat16(x); }

// blockDim.x columns by blockDim.y groups of ROWS rows. `computed` angles take the index modulo the
// length and the fast sine; else the tables are read.
template <typename T, int ROWS, int UNROLL, bool COMPUTED>
__global__ void transform(const T* re, const T* im, const T* cosines, const T* sines, T* out_re,
                          T* out_im, int count) {
  extern __shared__ float2 kept[];
  const int length = blockDim.x, column = threadIdx.x;
  const int high = blockDim.y * ROWS, row0 = blockIdx.x * high;
  for (int r = threadIdx.y; r < high; r += blockDim.y) {
    const long long at = static_cast<long long>(row0 + r) * length + column;
    const bool inside = row0 + r < count;
    kept[r * length + column] = inside ? make_float2(wide(re[at]), wide(im[at])) : float2{0, 0};
  }
  __syncthreads();
  const float2* mine = kept + threadIdx.y * ROWS * length;
  const float turn = 6.2831853f / length, scale = rsqrtf(static_cast<float>(length));
  float sum_re[ROWS] = {}, sum_im[ROWS] = {};
#pragma unroll UNROLL
  for (int k = 0; k < length; ++k) {
    float c, s;
    if (COMPUTED) {
      __sincosf(turn * (k * column % length), &s, &c);
      c *= scale;
      s *= scale;
    } else {
      c = wide(cosines[k * length + column]);
      s = wide(sines[k * length + column]);
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const float2 x = mine[r * length + k];
      sum_re[r] += x.x * c + x.y * s;
      sum_im[r] += x.y * c - x.x * s;
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int row = row0 + threadIdx.y * ROWS + r;
    if (row >= count) return;
    put(out_re + static_cast<long long>(row) * length + column, sum_re[r]);
    put(out_im + static_cast<long long>(row) * length + column, sum_im[r]);
  }
}

template <typename T, int ROWS, int UNROLL>
void launch(const void* re, const void* im, const void* cosines, const void* sines, void* out_re,
            void* out_im, int count, int length, int groups, bool computed, cudaStream_t stream) {
  const T* r = static_cast<const T*>(re);
  const T* i = static_cast<const T*>(im);
  const T* c = static_cast<const T*>(cosines);
  const T* s = static_cast<const T*>(sines);
  T* to_re = static_cast<T*>(out_re);
  T* to_im = static_cast<T*>(out_im);
  const dim3 block(length, groups);
  const int blocks = (count + groups * ROWS - 1) / (groups * ROWS);
  const int shared = groups * ROWS * length * 8;
  if (computed) {
    transform<T, ROWS, UNROLL, true>
        <<<blocks, block, shared, stream>>>(r, i, c, s, to_re, to_im, count);
  } else {
    transform<T, ROWS, UNROLL, false>
        <<<blocks, block, shared, stream>>>(r, i, c, s, to_re, to_im, count);
  }
}

template <typename T, int ROWS>
void by_unroll(const void* re, const void* im, const void* c, const void* s, void* out_re,
               void* out_im, int count, int length, int groups, int unroll, bool computed,
               cudaStream_t stream) {
  if (unroll == 2) {
    launch<T, ROWS, 2>(re, im, c, s, out_re, out_im, count, length, groups, computed, stream);
  } else if (unroll == 4) {
    launch<T, ROWS, 4>(re, im, c, s, out_re, out_im, count, length, groups, computed, stream);
  } else {
    launch<T, ROWS, 8>(re, im, c, s, out_re, out_im, count, length, groups, computed, stream);
  }
}

template <typename T>
void by_rows(const void* re, const void* im, const void* c, const void* s, void* out_re,
             void* out_im, int count, int length, int rows, int groups, int unroll, bool computed,
             cudaStream_t stream) {
  if (rows == 4) {
    by_unroll<T, 4>(re, im, c, s, out_re, out_im, count, length, groups, unroll, computed, stream);
  } else if (rows == 8) {
    by_unroll<T, 8>(re, im, c, s, out_re, out_im, count, length, groups, unroll, computed, stream);
  } else {
    by_unroll<T, 16>(re, im, c, s, out_re, out_im, count, length, groups, unroll, computed, stream);
  }
}

void transform_any(const void* re, const void* im, const void* c, const void* s, void* out_re,
                   void* out_im, int type, int count, int length, int rows, int groups, int unroll,
                   bool computed, cudaStream_t stream) {
  switch (type) {
    case 0:
      by_rows<float>(re, im, c, s, out_re, out_im, count, length, rows, groups, unroll, computed,
                     stream);
      break;
    case 1:
      by_rows<__half>(re, im, c, s, out_re, out_im, count, length, rows, groups, unroll, computed,
                      stream);
      break;
    default:
      by_rows<__nv_bfloat16>(re, im, c, s, out_re, out_im, count, length, rows, groups, unroll,
                             computed, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <tuple>

void transform_any(const void* re, const void* im, const void* c, const void* s, void* out_re,
                   void* out_im, int type, int count, int length, int rows, int groups, int unroll,
                   bool computed, cudaStream_t stream);

std::tuple<at::Tensor, at::Tensor> dft(const at::Tensor& re, const at::Tensor& im,
                                       const at::Tensor& cosines, const at::Tensor& sines,
                                       int rows, int groups, int unroll, bool computed) {
  at::Tensor out_re = at::empty_like(re), out_im = at::empty_like(im);
  const int type = re.scalar_type() == at::kFloat ? 0 : re.scalar_type() == at::kHalf ? 1 : 2;
  transform_any(re.const_data_ptr(), im.const_data_ptr(), cosines.const_data_ptr(),
                sines.const_data_ptr(), out_re.mutable_data_ptr(), out_im.mutable_data_ptr(), type,
                re.size(0), re.size(1), rows, groups, unroll, computed,
                c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out_re, out_im};
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_dft_small_cuda_rows_in_shared",
        BINDING,
        CUDA,
        functions=["dft"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """64 to 1,024 threads, at most 48 KiB of shared memory."""
    shared = params["ROWS"] * params["GROUPS"] * shape["L"] * 8
    return 64 <= params["GROUPS"] * shape["L"] <= 1024 and shared <= 48 * 1024


def kernel(real, imaginary, cosines, sines, *, ROWS=4, GROUPS=4, UNROLL=4, TABLE="global"):
    settings = (ROWS, GROUPS, UNROLL, TABLE == "computed")
    return extension().dft(real, imaginary, cosines, sines, *settings)
