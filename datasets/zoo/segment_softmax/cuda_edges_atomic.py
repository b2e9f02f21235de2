"""CUDA C++: three launches over edges: maxima, sums and quotients, with atomics a run of edges."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.segment_softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "THREADS": [64, 128, 256, 512, 1024],
    "EACH": [1, 2, 4, 8, 16, 32],
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

// Integers in the order of the numbers whose bits they hold, negative ones too.
__device__ int ordered(float x) {
  const int bits = __float_as_int(x);
  return bits >= 0 ? bits : bits ^ 0x7fffffff;
}
__device__ float number(int x) { return __int_as_float(x >= 0 ? x : x ^ 0x7fffffff); }

__global__ void least(int* most, int size) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) most[i] = ordered(-3e38f);
}

// A thread takes a head of `each` edges in a row; neighbours take neighbouring heads.
template <typename T, bool SUMS>
__global__ void reduce_edges(const T* scores, const int* nodes, int* most, float* total, int edges,
                             int heads, int each) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, head = i % heads;
  const int first = i / heads * each, end = min(first + each, edges);
  if (first >= end) return;
  int node = nodes[first];
  float peak = SUMS ? number(most[node * heads + head]) : -3e38f, sum = 0.0f;
  for (int e = first; e < end; ++e) {
    const int here = nodes[e];
    if (here != node) {
      if (SUMS) atomicAdd(total + node * heads + head, sum);
      if (!SUMS) atomicMax(most + node * heads + head, ordered(peak));
      node = here;
      peak = SUMS ? number(most[node * heads + head]) : -3e38f;
      sum = 0.0f;
    }
    const float s = wide(scores[static_cast<long long>(e) * heads + head]);
    if (SUMS) sum += __expf(s - peak);
    if (!SUMS) peak = fmaxf(peak, s);
  }
  if (SUMS) atomicAdd(total + node * heads + head, sum);
  if (!SUMS) atomicMax(most + node * heads + head, ordered(peak));
}

template <typename T>
__global__ void divide_edges(const T* scores, const int* nodes, const int* most,
                             const float* total, T* out, int edges, int heads) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= edges * heads) return;
  const int at = nodes[i / heads] * heads + i % heads;
  put(out + i, __expf(wide(scores[i]) - number(most[at])) / total[at]);
}

template <typename T>
void launch(const void* scores, const int* nodes, void* out, int* work_most, float* work_total,
            int edges, int heads, int segments, int threads, int each, cudaStream_t stream) {
  const T* scores_t = static_cast<const T*>(scores);
  T* out_t = static_cast<T*>(out);
  const int cells = segments * heads, runs = (edges + each - 1) / each * heads;
  const int blocks = (runs + threads - 1) / threads;
  const int wide_blocks = (edges * heads + threads - 1) / threads;
  least<<<(cells + threads - 1) / threads, threads, 0, stream>>>(work_most, cells);
  reduce_edges<T, false><<<blocks, threads, 0, stream>>>(scores_t, nodes, work_most, work_total,
                                                         edges, heads, each);
  reduce_edges<T, true><<<blocks, threads, 0, stream>>>(scores_t, nodes, work_most, work_total,
                                                        edges, heads, each);
  divide_edges<T><<<wide_blocks, threads, 0, stream>>>(scores_t, nodes, work_most, work_total,
                                                       out_t, edges, heads);
}

void run(const void* scores, const int* nodes, void* out, int* work_most, float* work_total,
         int type, int edges, int heads, int segments, int threads, int each,
         cudaStream_t stream) {
  switch (type) {
    case 0:
      launch<float>(scores, nodes, out, work_most, work_total, edges, heads, segments, threads,
                    each, stream);
      break;
    case 1:
      launch<__half>(scores, nodes, out, work_most, work_total, edges, heads, segments, threads,
                     each, stream);
      break;
    default:
      launch<__nv_bfloat16>(scores, nodes, out, work_most, work_total, edges, heads, segments,
                            threads, each, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void run(const void* scores, const int* nodes, void* out, int* work_most, float* work_total,
         int type, int edges, int heads, int segments, int threads, int each,
         cudaStream_t stream);

at::Tensor segment_softmax(const at::Tensor& scores, const at::Tensor& nodes, int segments,
                           int threads, int each) {
  const int64_t edges = scores.size(0);
  const int64_t heads = scores.size(1);
  at::Tensor out = at::empty_like(scores);
  at::Tensor work_most = at::empty({segments, heads}, nodes.options());
  at::Tensor work_total = at::zeros({segments, heads}, scores.options().dtype(at::kFloat));
  const auto kind = scores.scalar_type();
  const int type = kind == at::kFloat ? 0 : kind == at::kHalf ? 1 : 2;
  run(scores.const_data_ptr(), nodes.const_data_ptr<int>(), out.mutable_data_ptr(),
      work_most.mutable_data_ptr<int>(), work_total.mutable_data_ptr<float>(), type, edges, heads,
      segments, threads, each, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_segment_softmax_cuda_edges_atomic",
        BINDING,
        CUDA,
        functions=["segment_softmax"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Everywhere."""
    return True


def kernel(scores, nodes, offsets, *, THREADS=256, EACH=8):
    return extension().segment_softmax(scores, nodes, offsets.shape[0] - 1, THREADS, EACH)
