"""Accelerations of M bodies by the gravity of N: a softened inverse square of each distance."""

import torch

KIND = "reduction"
SOFTENING = 1e-2
SHAPES = [
    {"M": 32768, "N": 32768},
    {"M": 16384, "N": 16384},
    {"M": 65536, "N": 16384},
    {"M": 3001, "N": 40009},
    {"M": 20011, "N": 10007},
    {"M": 1000, "N": 65536},
    {"M": 8192, "N": 8192},
]
TOLERANCE = {"rtol": 1e-2, "atol": 5e-3}


def inputs(M=32768, N=32768, dtype=torch.float32, device="cuda"):
    """Places and masses of all bodies, as x, y, z, mass in rows; the first M of them move."""
    bodies = torch.randn(max(M, N), 4, dtype=dtype, device=device)
    bodies[:, 3] = torch.rand(max(M, N), dtype=dtype, device=device)
    return bodies, M, N


def reference(bodies, M, N):
    sources = bodies[:N]
    x, y, z, mass = sources.T.contiguous()
    found = []
    for targets in bodies[:M].split(8192):
        squares = (targets[:, :1] - x).square() + SOFTENING
        squares += (targets[:, 1:2] - y).square()
        squares += (targets[:, 2:3] - z).square()
        weight = mass * torch.rsqrt(squares) / squares
        found.append(weight @ sources[:, :3] - weight.sum(dim=1, keepdim=True) * targets[:, :3])
    return torch.cat(found) / N
