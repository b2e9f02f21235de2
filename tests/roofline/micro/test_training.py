"""Backward passes by autograd, and optimizer steps."""

from __future__ import annotations

import pytest

F, I64 = 4, 8  # bytes of a float32 and of an int64
A, W, G = "R(8, 4)", "R(4, 6)", "R(8, 6)"
MM = 2 * 8 * 4 * 6
H = 2  # bytes of a bfloat16
QKVO = "; ".join(["R(1, 2, 8, 4, d=bf16)"] * 4)
Q = H * 64  # bytes of each


def grad(names, of, wrt=None, inputs=""):
    """The gradient of an expression with respect to `names`."""
    steps = "\n".join(f"{name}.requires_grad_()" for name in names.split())
    expected = ", ".join((wrt or names).split())
    return (
        f"{steps}\nreturn torch.autograd.grad({of}, ({expected},){', ' + inputs if inputs else ''})"
    )


def attention_backward(pairs, rows):
    """Scores again, dP = dO V', then dV, dQ and dK: five products; the forward PV is not needed."""
    return {
        "contraction.bf16": 10 * pairs * 4,
        "fp32": (4 * pairs, 16 * pairs + 8 * rows),
        "sfu": (pairs, pairs + 2 * rows),
    }


PROBLEMS = {
    "of a product, its gradient given: two products": (
        f"{A}; {W}; {G}",
        grad("a0 a1", "a0 @ a1", inputs="a2"),
        {"contraction.fp32": 2 * MM},
        F * (32 + 24 + 48),
        F * (32 + 24),
    ),
    "through a relu and a sum: the forward product too": (
        f"{A}; {W}",
        grad("a0 a1", "(a0 @ a1).relu().sum()"),
        {"contraction.fp32": 3 * MM, "fp32": (0, 48)},
        F * (32 + 24),
        F * (32 + 24),
    ),
    "by backward(), one gradient wanted": (
        f"{A}; {W}",
        "a0.requires_grad_()\n(a0 @ a1).relu().sum().backward()\nreturn a0.grad",
        {"contraction.fp32": 2 * MM, "fp32": (0, 48)},
        F * (32 + 24),
        F * 32,
    ),
    "of a weight alone": (
        f"{A}; R(6, 4); {G}",
        grad("a1", "F.linear(a0, a1)", inputs="a2"),
        {"contraction.fp32": MM},
        F * (32 + 48),
        F * 24,
    ),
    "of a bias: column sums": (
        f"{A}; R(6, 4); R(6); {G}",
        grad("a2", "F.linear(a0, a1, a2)", inputs="a3"),
        {"fp32": 48 - 6},
        F * 48,
        F * 6,
    ),
    "of a convolution": (
        "R(1, 2, 6, 6); R(3, 2, 3, 3); R(1, 3, 4, 4)",
        grad("a0 a1", "F.conv2d(a0, a1)", inputs="a2"),
        {"contraction.fp32": 2 * 2 * 6 * 9 * 16},
        F * (72 + 54 + 48),
        F * (72 + 54),
    ),
    "of a convolution's input alone: its values are not read": (
        "R(1, 2, 5, 5); R(3, 2, 3, 3); R(1, 3, 5, 5)",
        grad("a0", "F.conv2d(a0, a1, padding=1)", inputs="a2"),
        {"contraction.fp32": 2 * 2 * 3 * 13 * 13},  # 13 of 15 taps of an axis fall inside
        F * (54 + 75),
        F * 50,
    ),
    "of a strided convolution's weight alone, both tracked": (
        "R(1, 2, 5, 5); R(3, 2, 1, 1); R(1, 3, 3, 3)",
        grad("a0 a1", "F.conv2d(a0, a1, stride=2)", wrt="a1", inputs="a2"),
        {"contraction.fp32": 2 * 2 * 3 * 9},
        F * (2 * 9 + 27),  # every other position of each axis
        F * 6,
    ),
    "of a transposed convolution": (
        "R(1, 2, 4, 4); R(2, 3, 3, 3); R(1, 3, 6, 6)",
        grad("a0 a1", "F.conv_transpose2d(a0, a1)", inputs="a2"),
        {"contraction.fp32": 2 * 2 * 6 * 9 * 16},
        F * (32 + 54 + 108),
        F * (32 + 54),
    ),
    "of a relu": (
        "R(64); R(64)",
        grad("a0", "a0.relu()", inputs="a1"),
        {"fp32": (64, 128)},
        (F * 64, F * 128),  # gradients of what was negative do not matter
        F * 64,
    ),
    "of a softmax": (
        "R(8, 6); R(8, 6)",
        grad("a0", "a0.softmax(-1)", inputs="a1"),
        # forward 4 or 5; y dy, its sum, the difference and the product: 4
        {"fp32": (7 * 48, 9 * 48), "sfu": 48 + 8},
        F * 96,
        F * 48,
    ),
    "of a layer norm: its bias is not read": (
        "R(8, 6); R(6); R(6); R(8, 6)",
        grad("a0 a1 a2", "F.layer_norm(a0, (6,), a1, a2)", inputs="a3"),
        {"fp32": (6 * 48, 20 * 48), "sfu": 8},
        F * (2 * 48 + 6),
        F * (48 + 12),
    ),
    "of a batch norm": (
        "R(4, 3, 2, 2); R(3); R(3); R(4, 3, 2, 2)",
        grad("a0 a1 a2", "F.batch_norm(a0, None, None, a1, a2, True)", inputs="a3"),
        {"fp32": (6 * 48, 20 * 48), "sfu": 3},
        F * (2 * 48 + 3),
        F * (48 + 6),
    ),
    "of an embedding: a table of zeros and sums": (
        "R(50, 8); arange(10); R(10, 8)",
        grad("a0", "F.embedding(a1, a0)", inputs="a2"),
        {"fp32": (0, 80)},
        I64 * 10 + F * 80,
        F * 400,
    ),
    "of a cross entropy": (
        "R(8, 6); arange(8) % 6",
        grad("a0", "F.cross_entropy(a0, a1)"),
        {"fp32": (3 * 48, 9 * 48 + 16), "sfu": (48 + 8, 2 * 48 + 8)},
        F * 48 + I64 * 8,
        F * 48,
    ),
    "of a max pool": (
        "R(1, 1, 6, 6); R(1, 1, 3, 3)",
        grad("a0", "F.max_pool2d(a0, 2)", inputs="a1"),
        {"fp32": (27, 36 + 9)},
        F * (36 + 9),
        F * 36,
    ),
    "of attention: five products": (
        QKVO,
        grad("a0 a1 a2", "F.scaled_dot_product_attention(a0, a1, a2)", inputs="a3"),
        attention_backward(128, 16),
        4 * Q,
        3 * Q,
    ),
    "of causal attention": (
        QKVO,
        grad("a0 a1 a2", "F.scaled_dot_product_attention(a0, a1, a2, is_causal=True)", inputs="a3"),
        attention_backward(2 * 36, 16),
        (4 * Q - H * 2 * 4, 4 * Q),  # the first query does not matter
        3 * Q,
    ),
    "of a square by torch.func": (
        "R(64)",
        "return torch.func.grad(lambda x: (x * x).sum())(a0)",
        {"fp32": (64, 128)},
        F * 64,
        F * 64,
    ),
    "forward mode: a sine and its cosine": (
        "R(64)",
        "return torch.func.jvp(torch.sin, (a0,), (a0,))",
        {"fp32": 64, "sfu": 128},
        F * 64,
        F * 128,
    ),
    # ------------------------------------------------------------------------------ optimizers
    "SGD": (
        "R(64); R(64)",
        "a0.add_(a1, alpha=-0.1)\nreturn a0",
        {"fp32": 128},
        F * 128,
        F * 64,
    ),
    "SGD over a list": (
        "R(64); R(64); R(32); R(32)",
        "torch._foreach_add_([a0, a2], [a1, a3], alpha=-0.1)\nreturn a0, a2",
        {"fp32": 192},
        F * 192,
        F * 96,
    ),
    "a list of products": (
        "R(64); R(32)",
        "return torch._foreach_mul([a0, a1], 2.0)",
        {"fp32": 96},
        F * 96,
        F * 96,
    ),
    "momentum": (
        "R(64); R(64); R(64)",
        "a2.mul_(0.9).add_(a1)\na0.add_(a2, alpha=-0.1)\nreturn a0, a2",
        {"fp32": 4 * 64},
        F * 192,
        F * 128,
    ),
    "Adam by hand": (
        "R(64); R(64); R(64); torch.rand(64, device=DEV)",
        "a2.mul_(0.9).add_(a1, alpha=0.1)\na3.mul_(0.99).addcmul_(a1, a1, value=0.01)\n"
        "a0.addcdiv_(a2, a3.sqrt().add_(1e-8), value=-0.1)\nreturn a0, a2, a3",
        # m: 3, v: 4, the root's epsilon: 1, the step: 3
        {"fp32": (9 * 64, 11 * 64), "sfu": 128},
        F * 256,
        F * 192,
    ),
    "AdamW, fused": (
        "R(64); R(64); R(64); torch.rand(64, device=DEV); zeros(())",
        "torch._fused_adamw_([a0], [a1], [a2], [a3], [], [a4], lr=0.1, beta1=0.9, beta2=0.99,"
        " weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False)\nreturn a0, a2, a3",
        {"fp32": (9 * 64, 14 * 64 + 8), "sfu": (128, 128 + 4)},
        F * 257,
        F * 192,
        "not run in doubles",
    ),
    "torch.optim.SGD": (
        "nn.Linear(8, 6, bias=False).cuda(); R(6, 8)",
        "o = torch.optim.SGD(a0.parameters(), lr=0.1)\na0.weight.grad = a1\no.step()\n"
        "return a0.weight",
        {"fp32": 96},
        F * 96,
        F * 48,
    ),
    "torch.optim.AdamW: the first step starts from zeros": (
        "nn.Linear(8, 6, bias=False).cuda(); R(6, 8)",
        "o = torch.optim.AdamW(a0.parameters())\na0.weight.grad = a1\no.step()\nreturn a0.weight",
        {"fp32": (3 * 48, 14 * 48 + 16), "sfu": (48, 2 * 48 + 16)},
        F * 96,
        F * 48,
    ),
    "what is made twice and written in place alike is one": (
        "R(8, 4)",
        "one = (a0 * a0).sum(-1, keepdim=True)\none.add_(1.0)\n"
        "two = (a0 * a0).sum(-1, keepdim=True)\ntwo.add_(1.0)\n"
        "return one.rsqrt() * a0, two.rsqrt()",
        {"fp32": 32 + 24 + 8 + 32, "sfu": 8},
        F * 32,
        F * 40,
    ),
    "what is written in place otherwise is another": (
        "R(8, 4)",
        "one = (a0 * a0).sum(-1, keepdim=True)\none.add_(1.0)\n"
        "two = (a0 * a0).sum(-1, keepdim=True)\ntwo.add_(2.0)\n"
        "return one.rsqrt() * a0, two.rsqrt()",
        {"fp32": (32 + 24 + 16 + 32, 32 + 48 + 16 + 32), "sfu": 16},
        F * 32,
        F * 40,
    ),
    "what is read before it is written in place stays": (
        "R(8, 4)",
        "one = a0.exp()\none.mul_(3.0)\ntwo = a0.exp()\nsum = two.sum(-1)\ntwo.mul_(3.0)\n"
        "return one, two, sum",
        {"fp32": (32 + 24, 64 + 24), "sfu": 32},
        F * 32,
        F * (64 + 8),
    ),
    "an exponential before and after a write in place": (
        "R(8, 4)",
        "x = a0.exp()\none = x.exp()\nx.mul_(a0)\nreturn x, one, x.exp()",
        {"fp32": 32, "sfu": 96},
        F * 32,
        F * 96,
    ),
    "checkpointed, with its result": (
        f"{A}; {W}",
        "from torch.utils.checkpoint import checkpoint\n"
        "a0.requires_grad_()\na1.requires_grad_()\n"
        "def layer(x, w):\n    return (F.rms_norm(x, (4,), eps=1.0) @ w).exp()\n"
        "y = checkpoint(layer, a0, a1, use_reentrant=False).sum()\n"
        "return y, torch.autograd.grad(y, a1)[0]",
        {"contraction.fp32": 2 * MM, "fp32": (0, 200), "sfu": 48 + 8},
        F * (32 + 24),
        F * (1 + 24),
    ),
    "of an image that is sampled: no element of it": (
        "R(1, 4, 16, 16); R(1, 8, 8, 2); R(1, 4, 8, 8)",
        grad("a0", "F.grid_sample(a0, a1 * 0.3, align_corners=False)", inputs="a2"),
        {"fp32": (64 * 4 * 4, 64 * 4 * 8 + 64 * 24)},
        F * (64 * 2 + 64 * 4),
        F * 4 * 256,
    ),
    "of where an image is sampled: the elements there": (
        "R(1, 4, 64, 64); R(1, 8, 8, 2); R(1, 4, 8, 8)",
        grad("a1", "F.grid_sample(a0, a1, align_corners=False)", inputs="a2"),
        {"fp32": (64 * 4 * 4, 64 * 4 * 24 + 64 * 24)},
        F * (4 * 4 * 64 + 64 * 2 + 64 * 4),
        F * 64 * 2,
        "where the grid lies decides which elements",
    ),
    "gradients clipped to a norm": (
        "R(64); R(32)",
        "g = [a0, a1]\nt = torch.linalg.vector_norm(torch.stack([x.norm() for x in g]))\n"
        "return [x * (1 / t).clamp(max=1) for x in g]",
        {"fp32": (3 * 96 - 4, 3 * 96 + 8), "sfu": (1, 4)},
        F * 96,
        F * 96,
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_bound_is_what_was_derived(check_bound, name):
    check_bound(PROBLEMS, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_brute_force_agrees_with_the_derivation(check_derivation, name):
    check_derivation(PROBLEMS, name)
