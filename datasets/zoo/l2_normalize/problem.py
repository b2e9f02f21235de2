"""Rows of a matrix divided by their Euclidean lengths, as embeddings are before comparing."""

import torch
import torch.nn.functional as F

EPS = 1e-12
KIND = "norm"
SHAPES = [
    {"M": 256, "N": 1024, "dtype": "float32"},
    {"M": 65536, "N": 256, "dtype": "float16"},
    {"M": 20011, "N": 300, "dtype": "float32"},
    {"M": 16384, "N": 1536, "dtype": "bfloat16"},
    {"M": 8192, "N": 4096, "dtype": "bfloat16"},
    {"M": 2048, "N": 10007, "dtype": "float16"},
    {"M": 128, "N": 262144, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-5}


def inputs(M=8192, N=4096, dtype=torch.bfloat16, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)


def reference(x):
    return F.normalize(x.float(), dim=-1, eps=EPS).to(x.dtype)
