"""Cat, pad, repeat, where and boolean masks, in-place updates."""

from __future__ import annotations

import pytest

F = 4  # bytes of a float32
N = 64 * 32
X = "R(64, 32)"
TRI = 64 * 65 // 2  # elements on and below the diagonal of 64 x 64
UNKNOWN = "what is read depends on the data"

PROBLEMS = {
    # ------------------------------------------------------------------ cat, stack, pad, repeat
    "cat": ("R(64); R(32)", "return torch.cat([a0, a1])", {}, F * 96, F * 96),
    "half of a cat": (
        f"{X}; {X}",
        "return torch.cat([a0, a1])[:64] * 2",
        {"fp32": N},
        F * N,
        F * N,
    ),
    "one of a stack": (
        f"{X}; {X}",
        "return torch.stack([a0, a1])[0] * 2",
        {"fp32": N},
        F * N,
        F * N,
    ),
    "chunks put together again": (
        X,
        "return torch.cat([c * 2 for c in a0.split(8)])",
        {"fp32": N},
        F * N,
        F * N,
    ),
    "a cat with nothing": ("R(0, 32); R(4, 32)", "return torch.cat([a0, a1])", {}, 512, 512),
    "half-turned, as in rotary embeddings": (
        X,
        "x, y = a0.chunk(2, -1)\nreturn torch.cat([-y, x], -1) * 2",
        {"fp32": (N, N + N // 2)},  # a negation is free as an operand's sign
        F * N,
        F * N,
    ),
    "zeros beside": (
        X,
        "return F.pad(a0, (0, 32)) * 2",
        {"fp32": N},  # twice zero is zero
        F * N,
        2 * F * N,
    ),
    "a negative pad crops": (X, "return F.pad(a0, (0, -16))", {}, F * 1024, F * 1024),
    "reflected": (
        "R(2, 3, 8, 8)",
        "return F.pad(a0, (1, 1, 1, 1), mode='reflect')",
        {},
        F * 6 * 64,
        F * 6 * 100,
    ),
    "padded, then the middle taken": (
        X,
        "return F.pad(a0, (4, 4))[:, 8:12].clone()",
        {},
        F * 64 * 4,
        F * 64 * 4,
    ),
    **{
        # each of 39 x 30 and 40 x 29 pairs of neighbours has one exponential
        f"diffusion with edges that {way}": (
            "R(40, 30)",
            f"u = a0\nfor _ in range(3):\n    p = {padded}\n    flow = torch.zeros_like(u)\n"
            "    for n in (p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:]):\n"
            "        d = n - u\n        flow = flow + torch.exp(-(d / 0.3) ** 2) * d\n"
            "    u = u + 0.2 * flow\nreturn u",
            {"fp32": (3 * 4 * 2330, 3 * 24 * 1200), "sfu": 3 * 2330},
            4 * 1200,
            4 * 1200,
        )
        for way, padded in {
            "repeat": "F.pad(u[None], (1, 1, 1, 1), mode='replicate')[0]",
            "mirror": "F.pad(u[None], (1, 1, 1, 1), mode='reflect')[0]",
        }.items()
    },
    "differences to either neighbour: an even function is computed once": (
        "R(30, 40)",
        "d, e = a0[1:] - a0[:-1], a0[:-1] - a0[1:]\n"
        "return F.pad(d.abs().exp(), (0, 0, 1, 0)) + F.pad(e.abs().exp(), (0, 0, 0, 1))",
        {"fp32": (2 * 1160 - 40, 2 * 1160 + 40), "sfu": 1160},
        4 * 1200,
        4 * 1200,
    ),
    "differences to either neighbour: no other function is": (
        "R(30, 40)",
        "d, e = a0[1:] - a0[:-1], a0[:-1] - a0[1:]\nreturn d.exp() * 2 + e.exp()",
        {"fp32": (3 * 1160, 4 * 1160), "sfu": 2 * 1160},
        4 * 1200,
        4 * 1160,
    ),
    "differences before and after a write": (
        "R(30, 40)",
        "d = (a0[1:] - a0[:-1]).abs().exp()\nx = a0.mul_(2)\n"
        "return d + (x[:-1] - x[1:]).abs().exp()",
        {"fp32": (2 * 1160, 6000), "sfu": 2 * 1160},
        4 * 1200,
        4 * 1160,
    ),
    "differences of two tensors": (
        "R(30, 40); R(30, 40)",
        "return (a0[1:] - a1[:-1]).abs().exp() + (a0[:-1] - a1[1:]).abs().exp()",
        {"fp32": 3 * 1160, "sfu": 2 * 1160},
        2 * 4 * 1200,
        4 * 1160,
    ),
    "a window of weights: each pair of neighbours has one": (
        "R(1, 30, 40)",
        "p = F.pad(a0, (1, 1, 1, 1), mode='reflect')\ntotal = 0\n"
        "for i in range(3):\n    for j in range(3):\n"
        "        total = total + torch.exp(-(p[:, i:i + 30, j:j + 40] - a0) ** 2)\n"
        "return total",
        {"fp32": (8 * 1200, 24 * 1200), "sfu": 29 * 40 + 30 * 39 + 2 * 29 * 39},
        4 * 1200,
        4 * 1200,
    ),
    "repeated exponentials are computed once": (
        X,
        "return a0.repeat(4, 1).exp()",
        {"sfu": N},
        F * N,
        F * 4 * N,
    ),
    "a repeated sum: the sum of one, times four": (
        X,
        "return a0.repeat(4, 1).sum()",
        {"fp32": (N - 1, 4 * N)},
        F * N,
        F,
    ),
    "heads repeated": (
        "R(2, 2, 16, 8)",
        "return a0.repeat_interleave(4, 1) * 2",
        {"fp32": 512},
        F * 512,
        F * 2048,
    ),
    "a grid of two axes": (
        "R(64); R(32)",
        "x, y = torch.meshgrid(a0, a1, indexing='ij')\nreturn x * y",
        {"fp32": N},
        F * 96,
        F * N,
    ),
    "rolled whole": (X, "return a0.roll(3, 1)", {}, F * N, F * N),
    "rows with factors, stacked": (
        X,
        "return torch.stack([a0[i] * (i + 2) for i in range(4)])",
        {"fp32": 4 * 32},
        F * 4 * 32,
        F * 4 * 32,
    ),
    "shuffled pixels": ("R(1, 4, 4, 4)", "return F.pixel_shuffle(a0, 2)", {}, F * 64, F * 64),
    # ---------------------------------------------------------------------------- known masks
    "the lower triangle": ("R(64, 64)", "return a0.tril()", {}, F * TRI, F * 64 * 64),
    "twice the upper triangle": (
        "R(64, 64)",
        "return a0.triu() * 2",
        {"fp32": TRI},
        F * TRI,
        F * 64 * 64,
    ),
    "where a constant triangle is": (
        "R(64, 64)",
        "return torch.where(causal(64), a0, 0.0)",
        {},
        F * TRI,
        F * 64 * 64,
    ),
    "filled above the diagonal": (
        "R(64, 64)",
        "return a0.masked_fill(~causal(64), 0.0)",
        {},
        F * TRI,
        F * 64 * 64,
    ),
    "times a triangle of ones": (
        "R(64, 64)",
        "return a0 * causal(64).float()",
        {"fp32": (0, TRI)},  # times one is a copy
        F * TRI,
        F * 64 * 64,
    ),
    "padding by known lengths: 16+32+16+64 steps": (
        "R(4, 64, 32); tensor([16, 32, 16, 64])",
        "m = arange(64)[None] < a1[:, None]\nreturn a0.masked_fill(~m[..., None], 0.0)",
        {"int32": (0, 512)},
        8 * 4 + F * 128 * 32,
        F * 4 * 64 * 32,
    ),
    "a sum over known lengths": (
        "R(4, 64, 32); tensor([16, 32, 16, 64])",
        "m = arange(64)[None] < a1[:, None]\nreturn (a0 * m[..., None]).sum(1)",
        {"fp32": (124 * 32, 2 * 128 * 32), "int32": (0, 256)},
        8 * 4 + F * 128 * 32,
        F * 4 * 32,
    ),
    "picked by a known mask": (
        "R(100, 8); arange(100) < 10",
        "return a0[a1]",
        {},
        100 + F * 10 * 8,
        F * 10 * 8,
    ),
    "masked_select by a known mask": (
        "R(100); arange(100) < 10",
        "return a0.masked_select(a1)",
        {},
        100 + F * 10,
        F * 10,
    ),
    "a mask nobody knows: one of two for each element, and the mask": (
        f"{X}; {X}; R(64, 1)",
        "return torch.where(a2 > 0, a0, a1)",
        {"fp32": 64},
        F * N + F * 64,
        F * N,
    ),
    "picked by the sign of drawn numbers: about half": (
        "R(100)",
        "return a0.masked_select(a0 > 0)",
        {"fp32": 100},
        F * 100,
        (F * 30, F * 70),
        UNKNOWN,
    ),
    "zero where it is negative: relu by hand": (
        "R(16, 8)",
        "return torch.where(a0 > 0, a0, 0.0)",
        {"fp32": 128},
        F * 128,
        F * 128,
    ),
    # ------------------------------------------------------------------------------- in place
    "one added to some columns": (
        X,
        "a0[:, :8].add_(1)\nreturn a0",
        {"fp32": 512},
        F * 512,
        F * 512,
    ),
    "a row set to a number": (X, "a0[0] = 0.5\nreturn a0", {}, 0, F * 32),
    "a row set to another": (f"{X}; R(32)", "a0[3] = a1\nreturn a0", {}, F * 32, F * 32),
    "a result and a copy of the same: one tensor, returned twice": (
        "R(64)",
        "y = a0 * 2\nreturn y, y.clone()",
        {"fp32": 64},
        F * 64,
        F * 64,
        "brute force counts what is returned",
    ),
    "a result and a copy that is changed": (
        "R(64)",
        "y = a0 * 2\nz = y.clone()\nz[0] = 0\nreturn y, z",
        {"fp32": 64},
        F * 64,
        (F * 127, F * 128),
    ),
    "a copy of an argument": ("R(64)", "return a0.clone()", {}, F * 64, F * 64),
    "a copy with a row cleared": (
        X,
        "y = a0.clone()\ny[0] = 0\nreturn y",
        {},
        F * 63 * 32,
        F * N,
    ),
    "an empty tensor filled by slices": (
        f"{X}; {X}",
        "y = torch.empty(128, 32, device='cuda')\ny[:64] = a0\ny[64:] = a1 * 2\nreturn y",
        {"fp32": N},
        2 * F * N,
        2 * F * N,
    ),
    "of such a one only half": (
        f"{X}; {X}",
        "y = torch.empty(128, 32, device='cuda')\ny[:64] = a0\ny[64:] = a1 * 2\n"
        "return y[:64].exp()",
        {"sfu": N},
        F * N,
        F * N,
    ),
    "changed, then cleared": (
        f"{X}; {X}",
        "a0.mul_(a1)\na0.zero_()\nreturn a0",
        {},
        0,
        F * N,
    ),
    "changed twice, written once": (
        "R(64)",
        "a0.add_(1)\na0.copy_(a0 * 2)\nreturn a0",
        {"fp32": 128},
        F * 64,
        F * 64,
    ),
    "overwritten before it is read": (
        "R(64); R(64)",
        "a0.copy_(a1)\nreturn a0 * 2",
        {"fp32": 64},
        F * 64,
        F * 64,
    ),
    "an input changed that nobody asked for": (
        "R(64); R(64)",
        "a0.add_(1)\nreturn a1 * 2",
        {"fp32": 64},
        F * 64,
        F * 64,
    ),
    "filled by a known mask": (
        "R(64)",
        "a0.masked_fill_(arange(64) < 8, 0.5)\nreturn a0",
        {},
        0,
        F * 8,
    ),
    "known rows cleared": (
        "R(100, 8); arange(10)",
        "a0[a1] = 0.5\nreturn a0",
        {},
        8 * 10,
        F * 80,
    ),
    "known rows added to": (
        "R(100, 8); arange(10); R(10, 8)",
        "a0.index_add_(0, a1, a2)\nreturn a0",
        {"fp32": 80},
        8 * 10 + F * 80 + F * 80,
        F * 80,
    ),
    "known rows replaced": (
        "R(100, 8); arange(10); R(10, 8)",
        "a0.index_copy_(0, a1, a2)\nreturn a0",
        {},
        8 * 10 + F * 80,
        F * 80,
    ),
    "scattered into": (
        "R(100, 8); zeros(1, 8, d=i64); R(1, 8)",
        "a0.scatter_(0, a1, a2)\nreturn a0",
        {},
        8 * 8 + F * 8,
        F * 8,
    ),
    "one step into a cache": (
        "R(4, 1024, 8); R(4, 1, 8)",
        "a0[:, 5:6] = a1\nreturn a0",
        {},
        F * 4 * 8,
        F * 4 * 8,
    ),
    "out=": (
        "R(64); R(64)",
        "torch.add(a0, a0, out=a1)\nreturn a1",
        {"fp32": 64},
        F * 64,
        F * 64,
    ),
    "some columns copied": (
        f"{X}; {X}",
        "a0[:, :8].copy_(a1[:, :8])\nreturn a0[:, :8]",
        {},
        F * 512,
        F * 512,
    ),
    "swapped halves": (
        X,
        "t = a0[:32].clone()\na0[:32] = a0[32:]\na0[32:] = t\nreturn a0",
        {},
        F * N,
        F * N,
    ),
    "a row overwritten, then all used": (
        f"{X}; R(32)",
        "a0[0] = a1\nreturn a0.sum(0)",
        {"fp32": N - 32},
        F * N,  # 63 rows and the new one
        F * 32,
    ),
    "a row of a copy that was overwritten": (
        f"{X}; R(64)",
        "c = a0.clone()\nc[:, :] = a1[:, None]\nreturn c[0], c + a0",
        {"fp32": N},
        F * N + F * 64,
        F * 32 + F * N,
    ),
    # arguments that are zero stand for any state: a cache, a moment, an accumulator
    "a cache that starts at zero": (
        "zeros(64, 32); R(4, 32); torch.randperm(64, device=DEV)[:4]",
        "c = a0.clone()\nc[a2] = a1\nreturn c",
        {},
        F * N + 4 * 8,  # 60 rows are kept, and 4 are new
        F * N,
    ),
    "a product with a state of zeros": (
        "zeros(64, 32); R(32, 16)",
        "return a0 @ a1",
        {"contraction.fp32": 2 * N * 16},
        F * (N + 512),
        F * 64 * 16,
        "zeros hide what they are multiplied with",
    ),
    "a moment that starts at zero": (
        f"torch.zeros_like({X}); {X}",
        "return a0 * 0.9 + a1",
        {"fp32": 2 * N},
        F * 2 * N,
        F * N,
    ),
    "a cache of codes that starts at zero": (
        "torch.zeros(64, 32, dtype=i8, device=DEV); zeros(32)",
        "return torch.cat([a0.float() * a1, a0.float()])",
        {"fp32": N},
        N + F * 32,
        F * 2 * N,
        "zeros hide what they are multiplied with",
    ),
    "a gate that starts at zero": (
        f"zeros(1); {X}; R(32, 16)",
        "return a0 * (a1 @ a2)",
        {"contraction.fp32": 2 * N * 16, "fp32": 64 * 16},
        F * (N + 512 + 1),
        F * 64 * 16,
        "zeros hide what they are multiplied with",
    ),
    "zeros that the program makes": (
        X,
        "return a0 * torch.zeros_like(a0)",
        {},
        0,
        F * N,
    ),
    "indices that are zero name one row": (
        "R(64, 32); torch.zeros(8, dtype=i64, device=DEV)",
        "return a0[a1]",
        {},
        F * 32 + 8 * 8,
        F * 8 * 32,
    ),
    "a loop that reads its own output": (
        "R(64)",
        "y = torch.zeros(65, device='cuda')\nfor i in range(64): y[i + 1] = y[i] + a0[i]\nreturn y",
        {"fp32": (63, 64)},
        F * 64,
        F * 65,
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_bound_is_what_was_derived(check_bound, name):
    check_bound(PROBLEMS, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_brute_force_agrees_with_the_derivation(check_derivation, name):
    check_derivation(PROBLEMS, name)
