"""References whose least work follows from their weights' form or from the data as drawn.

Ranges of counts of drawn numbers are wider than four standard deviations.
"""

from __future__ import annotations

import pytest

F, I64, C64 = 4, 8, 8  # bytes of a float32, an int64 and a complex64
QKV = "R(64, 4); R(64, 4); R(64, 4)"
STATE = 2 * 4 * 4 * (64 + 64)  # each key enters a state of 4 x 4, each query reads it
SEEN = 64 * 65 // 2
PLACES = "i = arange(64)\nd = i[:, None] - i\n"
SCORES = "s = (a0 @ a1.T) * w\n"
FEW = {"fp32": (0, 64 * 32), "sfu": (0, 64 * 6), "int32": (0, 64 * 4)}
MANY = {"fp32": (0, 64 * 64 * 2), "sfu": (0, 64 * 64 * 2)}
CAUSAL = {"contraction.fp32": 2 * 2 * 4 * SEEN, **MANY}

PROBLEMS = {
    "powers of a decay by distance": (
        QKV,
        PLACES + "w = torch.where(d >= 0, 0.9 ** d.clamp(min=0), 0.0)\n" + SCORES + "return s @ a2",
        {"contraction.fp32": STATE, **FEW},
        F * 3 * 256,
        F * 256,
    ),
    "products of gates, as of a state-space model": (
        QKV + "; R(64)",
        "c = F.logsigmoid(a3).cumsum(0)\nw = (c[:, None] - c).masked_fill(~causal(64), -torch.inf)"
        ".exp()\nreturn torch.einsum('id,jd,ij,je->ie', a0, a1, w, a2)",
        {"contraction.fp32": STATE, **FEW},
        F * (3 * 256 + 64),
        F * 256,
    ),
    "a causal mask alone, and the sums of its rows": (
        QKV,
        "s = (a0 @ a1.T).tril()\nreturn s @ a2, s.sum(-1)",
        {"contraction.fp32": STATE, **FEW},
        F * 3 * 256,
        F * (256 + 64),
    ),
    "weights of any distances": (
        QKV + "; R(64)",
        PLACES + "w = a3[d.clamp(min=0)].tril()\n" + SCORES + "return s @ a2",
        CAUSAL,
        F * (3 * 256 + 64),
        F * 256,
    ),
    "a decay but for the diagonal": (
        QKV,
        PLACES
        + "w = torch.where(d > 0, 0.9 ** d.clamp(min=0), (d == 0) * 2.0)\n"
        + SCORES
        + "return s @ a2",
        CAUSAL,
        F * 3 * 256,
        F * 256,
    ),
    "a window of 16": (
        QKV,
        PLACES + "w = ((d >= 0) & (d < 16)) * 0.9 ** d.clamp(0, 16)\n" + SCORES + "return s @ a2",
        {"contraction.fp32": 2 * 2 * 4 * (64 * 16 - 120), **MANY},
        F * 3 * 256,
        F * 256,
    ),
    "scores that are a result, too": (
        QKV,
        "w = causal(64)\n" + SCORES + "return s, s @ a2",
        CAUSAL,
        F * 3 * 256,
        F * (256 + 64 * 64),
    ),
    "rows of a matrix that large numbers of a vector name": (
        "R(1, 512); R(512, 64)",
        "return torch.where(a0 > 1, a0, 0) @ a1",
        {"contraction.fp32": (2 * 64 * 45, 2 * 64 * 120), "fp32": (448, 512)},
        (F * (448 + 64 * 45), F * (512 + 64 * 120)),
        F * 64,
    ),
    "missing neighbours name a row of zeros": (
        "R(32, 8); R(4, 8, 8); torch.where(torch.rand(32, 4, device=DEV) < 0.5, -1, I(32, 32, 4))",
        "return torch.einsum('nki,kio->no', F.pad(a0, (0, 0, 0, 1))[a2], a1)",
        {"contraction.fp32": (2 * 64 * 40, 2 * 64 * 88)},
        (F * (8 * 16 + 256) + I64 * 128, F * (8 * 32 + 256) + I64 * 128),
        F * 256,
    ),
    "exp(log x + y) is x exp(y)": (
        "torch.rand(64, device=DEV); R(64)",
        "return torch.exp(torch.log(a0) + a1)",
        {"fp32": (0, 128), "sfu": 64},
        F * 128,
        F * 64,
    ),
    "exp(y - log x) is a quotient, and no cheaper": (
        "torch.rand(64, device=DEV); R(64)",
        "return torch.exp(a1 - torch.log(a0))",
        {"fp32": (0, 128), "sfu": 128},
        F * 128,
        F * 64,
    ),
    "the real part of a complex convolution takes two real ones": (
        "R(2, 4, 32, d=torch.complex64); R(4, 4, 3, d=torch.complex64)",
        "return F.conv1d(a0, a1).real",
        {"contraction.fp32": 2 * 2 * (2 * 4 * 30 * 4 * 3), "fp32": (0, 2 * 240)},
        C64 * (256 + 48),
        F * 240,
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_bound_is_what_was_derived(check_bound, name):
    check_bound(PROBLEMS, name)
