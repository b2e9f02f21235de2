"""CUDA C++: rows copied as words of 2 to 16 bytes, whatever they hold; lanes of a warp a token."""

import functools

from torch.utils.cpp_extension import load_inline

from solkit.datasets.zoo.embedding.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BYTES": [2, 4, 8, 16],
    "LANES": [8, 16, 32],
    "THREADS": [64, 128, 256, 512],
    "DEPTH": [1, 4],
    "HINTED": [False, True],
}

CUDA = r"""
#include <cstdint>
#include <vector_types.h>

// Tokens that recur are worth keeping in the cache, what is written is not.
template <typename W, int DEPTH>
__global__ void embedding_words(const W* table, const int64_t* tokens, W* out, int count,
                                int words, int lanes, bool hinted) {
  const int lane = threadIdx.x % lanes;
  const int token = (blockIdx.x * blockDim.x + threadIdx.x) / lanes;
  if (token >= count) return;
  const W* from = table + tokens[token] * words;
  W* to = out + static_cast<int64_t>(token) * words;
  for (int start = lane; start < words; start += lanes * DEPTH) {
    W held[DEPTH];
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
      const int at = start + d * lanes;
      if (at < words) held[d] = __ldg(from + at);
    }
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
      const int at = start + d * lanes;
      if (at < words && hinted) __stcs(to + at, held[d]);
      if (at < words && !hinted) to[at] = held[d];
    }
  }
}

template <typename W>
void launch(const void* table, const int64_t* tokens, void* out, int count, int bytes, int lanes,
            int threads, int depth, bool hinted, cudaStream_t stream) {
  const W* from = static_cast<const W*>(table);
  W* to = static_cast<W*>(out);
  const int per_block = threads / lanes;
  const int blocks = (count + per_block - 1) / per_block;
  const int words = bytes / sizeof(W);
  if (depth == 1) {
    embedding_words<W, 1>
        <<<blocks, threads, 0, stream>>>(from, tokens, to, count, words, lanes, hinted);
  } else {
    embedding_words<W, 4>
        <<<blocks, threads, 0, stream>>>(from, tokens, to, count, words, lanes, hinted);
  }
}

// `bytes` of a row.
void gather(const void* table, const int64_t* tokens, void* out, int count, int bytes, int word,
            int lanes, int threads, int depth, bool hinted, cudaStream_t stream) {
  switch (word) {
    case 2:
      launch<unsigned short>(table, tokens, out, count, bytes, lanes, threads, depth, hinted,
                             stream);
      break;
    case 4:
      launch<unsigned int>(table, tokens, out, count, bytes, lanes, threads, depth, hinted,
                           stream);
      break;
    case 8:
      launch<uint2>(table, tokens, out, count, bytes, lanes, threads, depth, hinted, stream);
      break;
    default:
      launch<uint4>(table, tokens, out, count, bytes, lanes, threads, depth, hinted, stream);
  }
}
"""

BINDING = r"""
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

void gather(const void* table, const int64_t* tokens, void* out, int count, int bytes, int word,
            int lanes, int threads, int depth, bool hinted, cudaStream_t stream);

at::Tensor embedding(const at::Tensor& table, const at::Tensor& tokens, int word, int lanes,
                     int threads, int depth, bool hinted) {
  at::Tensor out = at::empty({tokens.size(0), table.size(1)}, table.options());
  gather(table.const_data_ptr(), tokens.const_data_ptr<int64_t>(), out.mutable_data_ptr(),
         tokens.size(0), table.size(1) * table.element_size(), word, lanes, threads, depth, hinted,
         c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@functools.cache
def extension():
    return load_inline(
        "zoo_embedding_cuda_bytes_of_rows",
        BINDING,
        CUDA,
        functions=["embedding"],
        no_implicit_headers=True,
    )


def valid(params, shape):
    """Rows of whole words, and no more lanes than twice the words."""
    row = shape["D"] * (4 if "float32" in str(shape["dtype"]) else 2)
    return row % params["BYTES"] == 0 and params["LANES"] * params["BYTES"] <= 2 * row


def kernel(table, tokens, *, BYTES=4, LANES=32, THREADS=256, DEPTH=4, HINTED=False):
    return extension().embedding(table, tokens, BYTES, LANES, THREADS, DEPTH, HINTED)
