"""Normalisation in training and inference, softmax, activations, losses, FFT."""

from __future__ import annotations

import pytest

F, I64 = 4, 8  # bytes of a float32 and of an int64
N = 16 * 8
X = "R(16, 8)"
C = 4 * 3 * 16  # elements of the batch of images
IMAGES = "R(4, 3, 4, 4)"

# Per element of a norm: mean (1), square-and-add (2) and a multiply-add (2), or three for a
# variance in two passes; per statistic a reciprocal root.


def loss(low, high, sfu=0):
    return (
        {"fp32": (low * N - 1, high * N + 1), **({"sfu": sfu * N} if sfu else {})},
        2 * F * N,
        F,
    )


def fft(real, complexes):
    """From one per number to a split radix: 4 n log2 n - 6 n + 8; half of it for real data."""
    count = 8 * (4 * 64 * 6 - 6 * 64 + 8)
    return {"fp32": (8 * 64, count // 2 if real else count)}, complexes


PROBLEMS = {
    "batch norm in training": (
        f"nn.BatchNorm2d(3).cuda(); {IMAGES}",
        "return a0(a1)",
        {"fp32": (4 * C, 6 * C), "sfu": 3, "int32": (0, 1)},
        F * (C + 6),
        F * C,
    ),
    "batch norm in training, its statistics returned": (
        f"{IMAGES}; zeros(3); ones(3)",
        "y = F.batch_norm(a0, a1, a2, training=True)\nreturn y, a1, a2",
        {"fp32": (4 * C, 6 * C + 24), "sfu": 3},
        F * (C + 6),
        F * (C + 6),
    ),
    "batch norm in inference: a multiply-add": (
        f"nn.BatchNorm2d(3).cuda().eval(); {IMAGES}",
        "return a0(a1)",
        {"fp32": (2 * C, 2 * C + 15), "sfu": (0, 3)},
        F * (C + 12),
        F * C,
    ),
    "instance norm": (
        IMAGES,
        "return F.instance_norm(a0)",
        {"fp32": (4 * C, 6 * C), "sfu": 12},
        F * C,
        F * C,
    ),
    "group norm with weight and bias": (
        "R(4, 6, 4, 4); R(6); R(6)",
        "return F.group_norm(a0, 2, a1, a2)",
        {"fp32": (4 * 384, 6 * 384 + 4 * 24), "sfu": 8},
        F * (384 + 12),
        F * 384,
    ),
    "layer norm": (
        X,
        "return F.layer_norm(a0, (8,))",
        {"fp32": (4 * N, 6 * N), "sfu": 16},
        F * N,
        F * N,
    ),
    "layer norm with weight and bias": (
        f"{X}; R(8); R(8)",
        "return F.layer_norm(a0, (8,), a1, a2)",
        {"fp32": (6 * N, 8 * N), "sfu": 16},
        F * (N + 16),
        F * N,
    ),
    "layer norm of the first token": (
        "R(4, 16, 8)",
        "return F.layer_norm(a0, (8,))[:, 0].contiguous()",
        {"fp32": (4 * 32, 6 * 32), "sfu": 4},
        F * 32,
        F * 32,
    ),
    "rms norm": (
        f"{X}; R(8)",
        "return F.rms_norm(a0, (8,), a1)",
        {"fp32": (4 * N - 16, 4 * N + 32), "sfu": 16},
        F * (N + 8),
        F * N,
    ),
    "rms norm by hand": (
        f"{X}; R(8)",
        "return a0 * torch.rsqrt(a0.pow(2).mean(-1, keepdim=True) + 1e-6) * a1",
        {"fp32": (4 * N - 16, 4 * N + 32), "sfu": 16},
        F * (N + 8),
        F * N,
    ),
    "rows of length one": (
        X,
        "return F.normalize(a0, dim=-1)",
        {"fp32": (3 * N - 16, 3 * N + 32), "sfu": (16, 32)},
        F * N,
        F * N,
    ),
    "softmax": (
        X,
        "return a0.softmax(-1)",
        {"fp32": (4 * N - 32, 5 * N), "sfu": N + 16},
        F * N,
        F * N,
    ),
    "softmax of some rows": (
        X,
        "return a0.softmax(-1)[:4, :2].clone()",
        {"fp32": (3 * 32 - 8, 5 * 32), "sfu": (8 * 4, 8 * 4 + 4)},
        F * 4 * 8,
        F * 8,
    ),
    "softmax of single elements: ones": ("R(16, 1)", "return a0.softmax(1)", {}, 0, F * 16),
    "log-softmax": (
        X,
        "return a0.log_softmax(-1)",
        {"fp32": (3 * N, 5 * N), "sfu": N + 16},
        F * N,
        F * N,
    ),
    "logsumexp": (
        X,
        "return a0.logsumexp(-1)",
        {"fp32": (3 * N - 32, 3 * N), "sfu": N + 16},
        F * N,
        F * 16,
    ),
    "a step of a hidden Markov model: a product of exponentials": (
        "R(8, 16); R(16, 4)",
        "return torch.logsumexp(a0[:, :, None] + a1, 1)",
        {"contraction.fp32": 2 * 8 * 16 * 4, "sfu": 8 * 16 + 16 * 4 + 8 * 4},
        F * (8 * 16 + 16 * 4),
        F * 8 * 4,
    ),
    "exponentials of differences of lines": (
        "R(16, 1); R(1, 8)",
        "return (a0 - a1).exp()",
        {"fp32": N, "sfu": 16 + 8},  # exp(a) exp(-b)
        F * (16 + 8),
        F * N,
    ),
    "a scan by exponentials of a running sum: those of its steps": (
        "R(128, 1); R(128, 1)",  # so long that the first step, which cancels, is within 1 %
        "c = a1.cumsum(0) * 0.5\nreturn (a0 * torch.exp(-c)).cumsum(0) * torch.exp(c)",
        {"fp32": (3 * N, 6 * N), "sfu": N},
        F * 2 * N,
        F * N,
    ),
    "exponentials of a number and of its opposite": (
        X,
        "return torch.exp(a0) + torch.exp(-a0).square()",
        {"fp32": 2 * N, "sfu": 2 * N},
        F * N,
        F * N,
    ),
    "Mish in words: an exponential and a quotient": (
        X,
        "return a0 * torch.tanh(F.softplus(a0))",
        {"fp32": (3 * N, 6 * N), "sfu": 2 * N},
        F * N,
        F * N,
    ),
    **{
        f"cross-entropy of probabilities, {way}": (
            f"{X}; torch.rand(16, 8, device=DEV)",
            f"p = torch.sigmoid(a0)\nreturn {body}",
            {"fp32": (4 * N, 12 * N), "sfu": 2 * N},  # as from logits
            F * 2 * N,
            F * N,
        )
        for way, body in {
            "in words": "-(a1 * torch.log(p) + (1 - a1) * torch.log(1 - p))",
            "by the operator": "F.binary_cross_entropy(p, a1, reduction='none')",
        }.items()
    },
    "the square of a root": (
        f"{X}; {X}",
        "return (a0 + a1).sqrt() ** 2 * a1",
        {"fp32": (2 * N, 3 * N)},
        F * 2 * N,
        F * N,
    ),
    "quotients by a root: a reciprocal root": (
        f"{X}; {X}",
        "r = (a0 * a0 + a1 * a1).sqrt()\nreturn a0 / r, a1 / r",
        {"fp32": (4 * N, 5 * N), "sfu": N},
        F * 2 * N,
        F * 2 * N,
    ),
    "powers of a base by distance: each once": (
        "R(4, 1, 1).abs()",
        "i = arange(128)\nreturn a0 ** (i[:, None] - i).abs()",
        {"fp32": (4 * 126, 4 * 128)},
        F * 4,
        F * 4 * 128 * 128,
        "high powers of small numbers are zero",
    ),
    "powers of known whole numbers: products": (
        X,
        "return a0[..., None] ** torch.arange(4, device='cuda')",
        {"fp32": (2 * N, 4 * N)},
        F * N,
        F * 4 * N,
    ),
    "a root that is a result as well": (
        X,
        "r = a0.sqrt()\nreturn r, r.square()",
        {"fp32": N, "sfu": N},
        F * N,
        F * 2 * N,
    ),
    **{
        # p and q at hand, log(b p + (1 - b) q) takes one logarithm
        f"Jensen and Shannon's divergence, {way}": (
            f"{X}; {X}",
            "s, t = a0.log_softmax(-1), a1.log_softmax(-1)\n"
            f"m = {mean}\nreturn (t.exp() * (t - m) + s.exp() * (s - m)).sum(-1)",
            {"fp32": (6 * N, 24 * N), "sfu": (3 * N, 3 * N + 32)},
            F * 2 * N,
            F * 16,
        )
        for way, mean in {
            "by logaddexp": "torch.logaddexp(s - 1.2, t - 0.36)",
            "by logsumexp": "torch.stack([s, t]).logsumexp(0)",
        }.items()
    },
    "Jensen and Shannon's divergence, by quotients: log(p / m) is log p - log m": (
        f"{X}; {X}",
        "p, q = a0.softmax(-1), a1.softmax(-1)\nm = (p + q) / 2\n"
        "return (p * (p / m).log() + q * (q / m).log()).sum(-1)",
        {"fp32": (6 * N, 24 * N), "sfu": (3 * N, 3 * N + 32)},
        F * 2 * N,
        F * 16,
    ),
    "two quotients with one divisor": (
        f"{X}; {X}; {X}",
        "d = a2.abs() + 1\nreturn a0 / d + (a1 / d).square()",
        {"fp32": (4 * N, 5 * N), "sfu": N},
        F * 3 * N,
        F * N,
    ),
    "softmax along rows and along columns": (
        X,
        "return a0.log_softmax(1) + a0.T.log_softmax(1).T",
        {"fp32": (6 * N, 12 * N), "sfu": (N + 16 + 8, N + 64)},
        F * N,
        F * N,
    ),
    "logaddexp: of the difference": (
        f"{X}; {X}",
        "return torch.logaddexp(a0, a1) * a0.exp()",
        {"fp32": (3 * N, 4 * N), "sfu": 3 * N},
        F * 2 * N,
        F * N,
    ),
    "entropy: the logarithm of a softmax is a shift": (
        X,
        "p = a0.softmax(-1)\nreturn -(p * p.log()).sum(-1)",
        {"fp32": (4 * N, 8 * N), "sfu": (N, N + 32)},
        F * N,
        F * 16,
    ),
    "entropy of probabilities that are limited: a shift is limited": (
        X,
        "p = a0.softmax(-1)\nreturn -(p * p.clamp(min=1e-5).log()).sum(-1)",
        {"fp32": (5 * N, 9 * N), "sfu": (N, N + 32)},
        F * N,
        F * 16,
    ),
    "a loss of rows that are not ignored, and a term of every row: one exponential each": (
        f"{X}; torch.where(arange(16) % 4 == 0, -100, 7)",
        "return F.cross_entropy(a0, a1) + a0.logsumexp(-1).square().mean()",
        {"fp32": (4 * N, 9 * N), "sfu": (N, N + 33), "int32": (0, 64)},
        (F * N + 8 * 12, F * N + 8 * 16),  # brute force draws no label in place of -100
        F,
    ),
    "centred columns": (
        X,
        "return a0 - a0.mean(0)",
        {"fp32": (2 * N - 8, 2 * N + 8)},
        F * N,
        F * N,
    ),
    "variances: a sum, then a difference and square-and-add, or both at once": (
        X,
        "return a0.var(1)",
        {"fp32": (3 * N - 32, 4 * N + 16)},
        F * N,
        F * 16,
    ),
    # ---------------------------------------------------------------------------- activations
    "sigmoid": (X, "return a0.sigmoid()", {"fp32": (0, 3 * N), "sfu": N}, F * N, F * N),
    "silu": (X, "return F.silu(a0)", {"fp32": (N, 4 * N), "sfu": N}, F * N, F * N),
    "silu by hand": (
        X,
        "return a0 * torch.sigmoid(a0)",
        {"fp32": (N, 4 * N), "sfu": N},
        F * N,
        F * N,
    ),
    "tanh": (X, "return a0.tanh()", {"sfu": N}, F * N, F * N),
    "softsign: a reciprocal each": (
        X,
        "return a0 / (1 + a0.abs())",
        {"fp32": (2 * N, 3 * N), "sfu": N},
        F * N,
        F * N,
    ),
    "a hundred sines are no copy": (
        "R(16)",
        "for _ in range(100): a0 = a0.sin()\nreturn a0",
        {"sfu": 1600},
        F * 16,
        F * 16,
    ),
    "a gated unit": (
        X,
        "x, y = a0.chunk(2, -1)\nreturn x * torch.tanh(y)",
        {"fp32": 64, "sfu": 64},
        F * N,
        F * 64,
    ),
    "dropout of nothing": (
        "R(64)",
        "return F.dropout(a0, 0.0, True)",
        {"fp32": (0, 64)},
        (0, F * 64),
        (0, F * 64),
    ),
    # --------------------------------------------------------------------------------- losses
    "mse": (f"{X}; {X}", "return F.mse_loss(a0, a1)", *loss(3, 3)),
    "l1": (f"{X}; {X}", "return F.l1_loss(a0, a1)", *loss(2, 3)),
    "smooth l1": (f"{X}; {X}", "return F.smooth_l1_loss(a0, a1)", *loss(3, 7)),
    "huber": (f"{X}; {X}", "return F.huber_loss(a0, a1)", *loss(3, 7)),
    "KL divergence": (f"{X}; {X}", "return F.kl_div(a0, a1)", *loss(3, 5, sfu=1)),
    "binary cross entropy with logits": (
        f"{X}; {X}",
        "return F.binary_cross_entropy_with_logits(a0, a1)",
        *loss(4, 8, sfu=2),
    ),
    "soft margin": (f"{X}; {X}", "return F.soft_margin_loss(a0, a1)", *loss(2, 4, sfu=2)),
    "Poisson": (f"{X}; {X}", "return F.poisson_nll_loss(a0, a1)", *loss(3, 4, sfu=1)),
    "triplet margin": (
        f"{X}; {X}; {X}",
        "return F.triplet_margin_loss(a0, a1, a2)",
        {"fp32": (6 * N, 9 * N + 96), "sfu": 32},
        (3 * F * N * 9 // 10, 3 * F * N),  # rows within the margin do not matter
        F,
    ),
    "cross entropy": (
        f"{X}; arange(16) % 8",
        "return F.cross_entropy(a0, a1)",
        # maximum, shift and sum; one chosen element of each row
        {"fp32": (3 * N - 32, 5 * N + 48), "sfu": N + 16},
        F * N + I64 * 16,
        F,
    ),
    "cross entropy with smoothed labels": (
        f"{X}; arange(16) % 8",
        "return F.cross_entropy(a0, a1, label_smoothing=0.1)",
        # the labels that count are counted: 16 comparisons, 15 sums, a division
        {"fp32": (4 * N - 32, 6 * N + 96), "sfu": (N + 16, N + 17), "int32": (0, 48)},
        F * N + I64 * 16,
        F,
    ),
    "cross entropy of shifted tokens": (
        "R(2, 8, 10); arange(16).reshape(2, 8) % 10",
        "return F.cross_entropy(a0[:, :-1].reshape(-1, 10), a1[:, 1:].reshape(-1))",
        {"fp32": (3 * 140 - 32, 5 * 140 + 48), "sfu": 140 + 14},
        F * 140 + I64 * 14,
        F,
    ),
    "negative log-likelihood picks": (
        f"{X}; arange(16) % 8",
        "return F.nll_loss(a0, a1)",
        {"fp32": (15, 18)},
        F * 16 + I64 * 16,
        F,
    ),
    # ------------------------------------------------------------------------------------ FFT
    "fft": (
        "R(8, 64, d=torch.complex64)",
        "return torch.fft.fft(a0)",
        fft(False, 0)[0],
        8 * 512,
        8 * 512,
    ),
    "rfft of real numbers: 33 of 64": (
        "R(8, 64)",
        "return torch.fft.rfft(a0)",
        fft(True, 0)[0],
        F * 512,
        8 * 8 * 33,
    ),
    "irfft: imaginary parts at both ends do not matter": (
        "R(8, 33, d=torch.complex64)",
        "return torch.fft.irfft(a0, n=64)",
        fft(True, 0)[0],
        (8 * 8 * 33 - 2 * 4 * 8, 8 * 8 * 33),
        F * 512,
    ),
    "a convolution by FFT": (
        "R(8, 64); R(64)",
        "return torch.fft.irfft(torch.fft.rfft(a0) * torch.fft.rfft(a1), n=64)",
        {"fp32": (3 * 512, 2 * fft(True, 0)[0]["fp32"][1] + 64 * 12 + 6 * 8 * 33)},
        F * (512 + 64),
        F * 512,
    ),
    "fft in two dimensions": (
        "R(2, 8, 8, d=torch.complex64)",
        "return torch.fft.fft2(a0)",
        # 2 * 16 transforms of 8: 4*8*3 - 6*8 + 8 = 56 operations each
        {"fp32": (2 * 64, 2 * 16 * 56)},
        8 * 128,
        8 * 128,
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_bound_is_what_was_derived(check_bound, name):
    check_bound(PROBLEMS, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_brute_force_agrees_with_the_derivation(check_derivation, name):
    check_derivation(PROBLEMS, name)
