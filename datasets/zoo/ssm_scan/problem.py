"""Selective state-space scan: h = exp(delta A) h + delta u b, y = h c, with N states a channel."""

import torch
import torch.nn.functional as F

KIND = "scan"
SHAPES = [
    {"B": 4, "L": 1024, "C": 1024, "N": 16, "dtype": "bfloat16"},
    {"B": 2, "L": 1500, "C": 512, "N": 16, "dtype": "float32"},
    {"B": 8, "L": 512, "C": 768, "N": 8, "dtype": "float16"},
    {"B": 1, "L": 777, "C": 1000, "N": 16, "dtype": "float32"},
    {"B": 16, "L": 128, "C": 2048, "N": 16, "dtype": "bfloat16"},
    {"B": 3, "L": 333, "C": 257, "N": 4, "dtype": "bfloat16"},
    {"B": 1, "L": 1024, "C": 4096, "N": 16, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}
STEPS = 32  # of a chunk of the reference: about as many as chunks


def inputs(B=4, L=1024, C=1024, N=16, dtype=torch.bfloat16, device="cuda"):
    u = torch.randn(B, L, C, dtype=dtype, device=device)
    delta = torch.rand(B, L, C, dtype=dtype, device=device) * 0.2 + 0.01
    a = -torch.rand(C, N, device=device) * N - 0.1
    b, c = (torch.randn(B, L, N, dtype=dtype, device=device) for _ in range(2))
    return u, delta, a, b, c


def reference(u, delta, a, b, c):
    """Chunks of time in lockstep, each from nothing; what earlier ones left is added after."""
    length, dtype = u.shape[1], u.dtype
    chunks = -(-length // STEPS)
    padding = (0, 0, 0, chunks * STEPS - length)  # delta is 0 there: the state stays as it is
    u, delta, b, c = (
        F.pad(x.float(), padding).unflatten(1, (chunks, STEPS)) for x in (u, delta, b, c)
    )
    decay = (delta[..., None] * a).exp()
    drive = (delta * u)[..., None] * b[..., None, :]
    h, states = torch.zeros_like(drive[:, :, 0]), []
    for kept, added in zip(decay.unbind(2), drive.unbind(2)):
        h = kept * h + added
        states.append(h)
    spent = decay.cumprod(2)
    start, starts = torch.zeros_like(h[:, 0]), []
    for kept, left in zip(spent[:, :, -1].unbind(1), h.unbind(1)):
        starts.append(start)
        start = kept * start + left
    states = torch.stack(states, 2) + spent * torch.stack(starts, 1)[:, :, None]
    return (states * c[..., None, :]).sum(-1).flatten(1, 2)[:, :length].to(dtype)
