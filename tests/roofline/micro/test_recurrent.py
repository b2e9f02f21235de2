"""LSTM, GRU and other recurrences; mixtures of experts.

A layer of h units sees T steps of a batch B. Where no state is given it starts at zero: the first
step has no recurrent product, and an LSTM's first forget gate has nothing to forget.
"""

from __future__ import annotations

import pytest

F, I64 = 4, 8  # bytes of a float32 and of an int64
T, B, K, U = 5, 2, 8, 4  # steps, batch, input width, units


def recurrent(gates, layers=1, ways=1, biased=True, steps=T):
    """Operations and parameter bytes of a layer whose whole output is wanted."""
    pairs, params = 0, 0
    for layer in range(layers):
        width = K if layer == 0 else ways * U
        pairs += ways * gates * U * B * (steps * width + (steps - 1) * U)
        params += ways * gates * U * (width + U + (2 if biased else 0))
    unused = layers * ways * U * B * (K + ways * U) // (1 if gates > 1 else 4)
    cells = layers * ways * steps * B * U
    functions = {4: 5, 3: 3, 1: 1}[gates]
    return {
        "contraction.fp32": (2 * (pairs - unused), 2 * pairs),
        "fp32": (0, 30 * cells),
        # an LSTM's 3 sigmoids and 2 hyperbolic tangents, a GRU's 2 and 1, an RNN's one
        "sfu": (max(functions - 1, 1) * cells, functions * cells),
    }, F * params


def layer(kind, **options):
    fields = {"num_layers": 1, "bidirectional": False, "bias": True, **options}
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    ways = 2 if fields["bidirectional"] else 1
    arguments = ", ".join(f"{name}={value}" for name, value in fields.items())
    operations, params = recurrent(gates, fields["num_layers"], ways, fields["bias"])
    return (
        f"nn.{kind}({K}, {U}, {arguments}).cuda(); R({T}, {B}, {K})",
        "return a0(a1)[0]",
        operations,
        params + F * T * B * K,
        F * T * B * U * ways,
    )


def cells(count, functions):
    return {"fp32": (0, 30 * count), "sfu": ((functions - 1) * count, functions * count)}


DATA = "which experts are used depends on the data"
# 16 tokens of 8, 4 experts of 8 x 6, a router of 8 x 4
MOE = "R(16, 8); R(8, 4); R(4, 8, 6)"
ROUTER = 2 * 16 * 8 * 4
EXPERT = 2 * 16 * 8 * 6  # one expert for each token
ALL = F * (128 + 32 + 4 * 48)

PROBLEMS = {
    "LSTM": layer("LSTM"),
    "LSTM, two layers, both ways": layer("LSTM", num_layers=2, bidirectional=True),
    "GRU": layer("GRU"),
    "GRU, two layers, without bias": layer("GRU", num_layers=2, bias=False),
    "RNN": layer("RNN"),
    "LSTM of one step: no recurrent weights": (
        f"nn.LSTM({K}, {U}).cuda(); R(1, {B}, {K})",
        "return a0(a1)[0]",
        # input, cell and output gate
        {
            "contraction.fp32": (2 * B * 3 * U * K, 2 * B * 4 * U * K),
            **cells(B * U, 5),
        },
        F * (3 * U * (K + 2) + B * K),
        F * B * U,
    ),
    "LSTM with a given state": (
        f"nn.LSTM({K}, {U}).cuda(); R({T}, {B}, {K}); R(1, {B}, {U}); R(1, {B}, {U})",
        "return a0(a1, (a2, a3))[0]",
        {"contraction.fp32": 2 * T * B * 4 * U * (K + U), **cells(T * B * U, 5)},
        F * (4 * U * (K + U + 2) + T * B * K + 2 * B * U),
        F * T * B * U,
    ),
    "LSTM with a projection": (
        f"nn.LSTM({K}, {U}, proj_size=2).cuda(); R({T}, {B}, {K}); R(1, {B}, 2); R(1, {B}, {U})",
        "return a0(a1, (a2, a3))[0]",
        {"contraction.fp32": 2 * T * B * (4 * U * (K + 2) + 2 * U), **cells(T * B * U, 5)},
        F * (4 * U * (K + 2 + 2) + 2 * U + T * B * K + B * 2 + B * U),
        F * T * B * 2,
    ),
    "LSTM both ways, the last step alone": (
        f"nn.LSTM({K}, {U}, bidirectional=True).cuda(); R({T}, {B}, {K})",
        "return a0(a1)[0][-1].clone()",
        # backwards, the last is the first step: no recurrent product, and nothing to forget
        {
            "contraction.fp32": (
                2 * B * 4 * U * (T * K + (T - 1) * U) + 2 * B * (3 - 1) * U * K,
                2 * B * 4 * U * (T * K + (T - 1) * U) + 2 * B * 4 * U * K,
            ),
            **cells((T + 1) * B * U, 5),
        },
        F * (4 * U * (K + U + 2) + 3 * U * (K + 2) + T * B * K),
        F * B * 2 * U,
    ),
    "the last state of the second layer": (
        f"nn.LSTM({K}, {U}, 2).cuda(); R({T}, {B}, {K})",
        "return a0(a1)[1][0][-1].clone()",
        recurrent(4, layers=2)[0],
        recurrent(4, layers=2)[1] + F * T * B * K,
        F * B * U,
    ),
    "GRU's first steps look at no later ones": (
        f"nn.GRU({K}, {U}).cuda(); R(20, {B}, {K})",
        "return a0(a1)[0][:5].clone()",
        recurrent(3)[0],
        recurrent(3)[1] + F * T * B * K,
        F * T * B * U,
    ),
    "packed sequences of 5, 4, 3 and 1 steps": (
        f"nn.LSTM({K}, {U}).cuda(); R(5, 4, {K})",
        "p = nn.utils.rnn.pack_padded_sequence(a1, [5, 4, 3, 1])\nreturn a0(p)[0].data",
        {
            "contraction.fp32": (
                2 * 4 * U * (13 * K + 9 * U) - 2 * 4 * U * K,
                2 * 4 * U * (13 * K + 9 * U),
            ),
            **cells(13 * U, 5),
        },
        F * (4 * U * (K + U + 2) + 13 * K),
        F * 13 * U,
    ),
    "LSTMCell in a loop": (
        f"nn.LSTMCell({K}, {U}).cuda(); R({T}, {B}, {K})",
        f"h = c = torch.zeros({B}, {U}, device='cuda')\n"
        f"for t in range({T}): h, c = a0(a1[t], (h, c))\nreturn h",
        recurrent(4)[0],
        recurrent(4)[1] + F * T * B * K,
        F * B * U,
    ),
    "GRUCell": (
        f"nn.GRUCell({K}, {U}).cuda(); R({B}, {K}); R({B}, {U})",
        "return a0(a1, a2)",
        {"contraction.fp32": 2 * B * 3 * U * (K + U), **cells(B * U, 3)},
        F * (3 * U * (K + U + 2) + B * (K + U)),
        F * B * U,
    ),
    "a linear recurrence by hand": (
        "R(10, 16); torch.rand(16, device=DEV) + 0.5",
        "h = torch.zeros(16, device='cuda')\nfor t in range(10): h = h * a1 + a0[t]\nreturn h",
        {"fp32": (2 * 9 * 16, 2 * 10 * 16)},
        F * (160 + 16),
        F * 16,
    ),
    "a selective scan: h = exp(-d) h + d x": (
        "R(10, 16); R(10, 16)",
        "h = torch.zeros(16, device='cuda')\nys = []\n"
        "for t in range(10):\n    h = (-a1[t]).exp() * h + a1[t] * a0[t]\n    ys.append(h)\n"
        "return torch.stack(ys)",
        # at the first step there is nothing to decay
        {"fp32": (3 * 9 * 16 + 16, 4 * 160), "sfu": (9 * 16, 160)},
        F * 320,
        F * 160,
    ),
    # --------------------------------------------------------------------- mixture of experts
    "experts chosen by known ids: one expert": (
        "R(16, 8); zeros(16, d=i64); R(4, 8, 6)",
        "return torch.bmm(a0[:, None], a2[a1])[:, 0]",
        {"contraction.fp32": EXPERT},
        F * (128 + 48) + I64 * 16,
        F * 96,
    ),
    "a loop over experts with nonzero": (
        MOE,
        "p, i = (a0 @ a1).softmax(-1).topk(2, -1)\no = torch.zeros(16, 6, device='cuda')\n"
        "for e in range(4):\n    t, k = (i == e).nonzero(as_tuple=True)\n"
        "    o.index_add_(0, t, (a0[t] @ a2[e]) * p[t, k, None])\nreturn o",
        {
            "contraction.fp32": ROUTER + 2 * EXPERT,
            "fp32": (2 * 96, 64 * 8 + 4 * 96 + 64 * 4),
            "sfu": (64, 64 + 16),
            "int32": (0, 4 * 32),
        },
        ALL,
        F * 96,
        DATA,
    ),
    "a loop over experts with masks": (
        MOE,
        "i = (a0 @ a1).argmax(-1)\no = torch.zeros(16, 6, device='cuda')\n"
        "for e in range(4):\n    m = i == e\n    o[m] = a0[m] @ a2[e]\nreturn o",
        {"contraction.fp32": ROUTER + EXPERT, "fp32": (48, 64), "int32": (0, 64)},
        ALL,
        F * 96,
        DATA,
    ),
    "a loop that skips unused experts": (
        MOE,
        "i = (a0 @ a1).argmax(-1)\no = torch.zeros(16, 6, device='cuda')\n"
        "for e in range(4):\n    m = i == e\n    if m.any(): o[m] = a0[m] @ a2[e]\nreturn o",
        {"contraction.fp32": ROUTER + EXPERT, "fp32": (48, 64), "int32": (0, 256)},
        ALL,
        F * 96,
        DATA,
    ),
    "the weights of the chosen experts gathered": (
        MOE,
        "i = (a0 @ a1).argmax(-1)\nreturn torch.bmm(a0[:, None], a2[i])[:, 0]",
        {"contraction.fp32": ROUTER + EXPERT, "fp32": (48, 64)},
        ALL,
        F * 96,
        DATA,
    ),
    "every expert for every token": (
        MOE,
        "p = (a0 @ a1).softmax(-1)\n"
        "y = torch.einsum('ti,eio->teo', a0, a2)\nreturn (p[:, :, None] * y).sum(1)",
        {
            "contraction.fp32": ROUTER + 4 * EXPERT,
            "fp32": (7 * 96, 8 * 96 + 64 * 5),
            "sfu": (64, 64 + 16),
        },
        ALL,
        F * 96,
    ),
    "grouped_mm": (
        "R(64, 32, d=bf16); R(4, 32, 16, d=bf16); tensor([16, 32, 48, 64], d=i32)",
        "return torch._grouped_mm(a0, a1, a2)",
        {"contraction.bf16": 2 * 64 * 32 * 16},
        2 * (2048 + 2048) + 16,
        2 * 1024,
        "not for doubles",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_bound_is_what_was_derived(check_bound, name):
    check_bound(PROBLEMS, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_brute_force_agrees_with_the_derivation(check_derivation, name):
    check_derivation(PROBLEMS, name)
