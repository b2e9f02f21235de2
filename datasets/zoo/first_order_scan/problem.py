"""The recurrence y_t = a_t y_{t-1} + x_t along time, for every channel of a batch."""

import torch

KIND = "scan"
SHAPES = [
    {"B": 4, "T": 2048, "C": 1024, "dtype": "float32"},
    {"B": 1, "T": 4096, "C": 2048, "dtype": "bfloat16"},
    {"B": 8, "T": 511, "C": 300, "dtype": "float32"},
    {"B": 32, "T": 128, "C": 1536, "dtype": "float16"},
    {"B": 2, "T": 1000, "C": 77, "dtype": "float32"},
    {"B": 16, "T": 1024, "C": 512, "dtype": "bfloat16"},
    {"B": 1, "T": 16384, "C": 256, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}


def inputs(B=4, T=2048, C=1024, dtype=torch.float32, device="cuda"):
    a = 0.6 + 0.35 * torch.rand(B, T, C, device=device)
    return a.to(dtype), torch.randn(B, T, C, dtype=dtype, device=device)


def reference(a, x):
    # Doubling the distance: after step s each pair (a, y) stands for 2 ** s moments.
    gain, y = a.float(), x.float()
    distance = 1
    while distance < x.shape[1]:
        earlier_y = torch.nn.functional.pad(y, (0, 0, distance, 0))[:, :-distance]
        earlier_gain = torch.nn.functional.pad(gain, (0, 0, distance, 0))[:, :-distance]
        y, gain = y + gain * earlier_y, gain * earlier_gain
        distance *= 2
    return y.to(x.dtype)
