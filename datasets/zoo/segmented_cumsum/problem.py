"""Running sums of a long vector that start anew at marked elements.

A run is EVERY elements long on average. With SKEW > 1 marks are rare at the front and frequent at
the end, so that runs are of very different lengths. Values are multiples of 1/8: sums are exact.
"""

import torch

KIND = "scan"
SHAPES = [
    {"N": 1 << 24, "EVERY": 64, "SKEW": 1.0, "dtype": "float32"},
    {"N": 1 << 24, "EVERY": 64, "SKEW": 6.0, "dtype": "float32"},
    {"N": 10000019, "EVERY": 5, "SKEW": 2.0, "dtype": "float16"},
    {"N": 1 << 22, "EVERY": 3000, "SKEW": 1.0, "dtype": "float32"},
    {"N": 30000001, "EVERY": 500, "SKEW": 3.0, "dtype": "bfloat16"},
    {"N": 1 << 20, "EVERY": 20, "SKEW": 4.0, "dtype": "float32"},
    {"N": 1 << 25, "EVERY": 10000, "SKEW": 1.0, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-3, "atol": 5e-2}


def inputs(N=1 << 24, EVERY=64, SKEW=1.0, dtype=torch.float32, device="cuda"):
    x = torch.randint(-8, 9, (N,), dtype=torch.int8, device=device).to(dtype) / 8
    place = torch.arange(N, device=device) / N
    marks = torch.rand(N, device=device) * EVERY < SKEW * place ** (SKEW - 1)
    marks[0] = True
    return x, marks.to(torch.uint8)


def reference(x, marks):
    total = x.double().cumsum(0)
    run = marks.cumsum(0)
    begin = torch.zeros(x.shape[0] + 1, dtype=torch.float64, device=x.device)
    begin.scatter_(0, torch.where(marks > 0, run, 0), total - x)
    return (total - begin[run]).float()
