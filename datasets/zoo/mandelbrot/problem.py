"""Steps that z = z * z + c takes to leave a circle, for a grid of c: the Mandelbrot set.

VIEW decides how unequal the steps are: all of the set, its edge, or a place far from it.
"""

import torch

KIND = "elementwise"
SHAPES = [
    {"W": 3072, "H": 2048, "STEPS": 96, "VIEW": "whole"},
    {"W": 4096, "H": 2048, "STEPS": 64, "VIEW": "edge"},
    {"W": 2000, "H": 1001, "STEPS": 128, "VIEW": "inside"},
    {"W": 2560, "H": 2560, "STEPS": 50, "VIEW": "outside"},
    {"W": 1023, "H": 767, "STEPS": 128, "VIEW": "edge"},
    {"W": 4099, "H": 1500, "STEPS": 100, "VIEW": "inside"},
    {"W": 1920, "H": 1080, "STEPS": 80, "VIEW": "whole"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}
VIEWS = {  # left, right, bottom, top
    "whole": (-2.0, 0.6, -1.2, 1.2),
    "edge": (-0.78, -0.72, 0.05, 0.12),
    "inside": (-0.6, 0.25, -0.5, 0.5),
    "outside": (-2.0, -1.0, 0.4, 1.6),
}


def check(got, want):
    """A few points near the edge are decided by rounding."""
    return bool((got != want).float().mean() < 2e-2)


def inputs(W=3072, H=2048, STEPS=96, VIEW="whole", dtype=torch.float32, device="cuda"):
    """The real parts of columns, the imaginary parts of rows, and the most steps."""
    left, right, bottom, top = VIEWS[VIEW]
    real = torch.linspace(left, right, W, device=device) + 1e-6 * torch.randn(W, device=device)
    imaginary = torch.linspace(bottom, top, H, device=device)
    imaginary += 1e-6 * torch.randn(H, device=device)
    return real.to(dtype), imaginary.to(dtype), STEPS


def reference(real, imaginary, steps):
    c = torch.complex(*torch.broadcast_tensors(real[None, :].float(), imaginary[:, None].float()))
    z = torch.zeros_like(c)
    count = torch.zeros(c.shape, dtype=torch.int32, device=c.device)
    for _ in range(steps):
        z = z * z + c
        count += torch.view_as_real(z).square().sum(dim=-1) <= 4.0  # outside, it grows to inf
    return count
