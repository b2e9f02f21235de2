"""How many insertions, deletions and changes turn one string into another, for many short pairs.

Strings have 1 to L letters; with SKEW > 1 most are short.
"""

import torch

KIND = "scan"
SHAPES = [
    {"B": 65536, "L": 63, "LETTERS": 4, "SKEW": 1.0},
    {"B": 200000, "L": 31, "LETTERS": 26, "SKEW": 2.0},
    {"B": 20011, "L": 127, "LETTERS": 26, "SKEW": 1.0},
    {"B": 100003, "L": 60, "LETTERS": 20, "SKEW": 5.0},
    {"B": 500000, "L": 15, "LETTERS": 4, "SKEW": 1.0},
    {"B": 5000, "L": 100, "LETTERS": 4, "SKEW": 3.0},
    {"B": 40000, "L": 127, "LETTERS": 12, "SKEW": 8.0},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(B=65536, L=63, LETTERS=4, SKEW=1.0, device="cuda"):
    pair = torch.randint(0, LETTERS, (2, B, L), dtype=torch.uint8, device=device)
    lengths = (torch.rand(2, B, device=device) ** SKEW * L).int().clamp_(max=L - 1) + 1
    return pair[0], pair[1], lengths[0], lengths[1], LETTERS


def reference(a, b, a_length, b_length, letters):
    L = a.shape[1]
    place = torch.arange(L + 1, dtype=torch.int32, device=a.device)
    row = place.expand(a.shape[0], L + 1)
    last = b_length.long()[:, None]
    found = torch.zeros_like(a_length)
    for i in range(L):
        changed = row[:, :-1] + (a[:, i : i + 1] != b).int()
        best = torch.minimum(changed, row[:, 1:] + 1)
        best = torch.cat([torch.full_like(row[:, :1], i + 1), best], 1)
        row = torch.cummin(best - place, 1).values + place
        found = torch.where(a_length == i + 1, row.gather(1, last)[:, 0], found)
    return found
