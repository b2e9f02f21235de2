"""Experts in a loop: what a row did not choose costs nothing, however that is written."""

from __future__ import annotations

import pytest

T, D, H, E, K = 64, 32, 48, 8, 2
INPUTS = f"R({T}, {D}); R({E}, {D}); R({E}, {H}, {D}); R({E}, {D}, {H})"
ROUTER = 2 * T * D * E
ROW = 2 * (D * H + H * D)  # operations of an expert for a row
EXPERT = "F.silu(a0 @ a2[e].T) @ a3[e].T"


def loop(gate):
    lines = ["w, i = torch.topk((a0 @ a1.T).softmax(-1), 2)", "out = 0", f"for e in range({E}):"]
    return "\n".join([*lines, f"    out = out + {gate} * ({EXPERT})", "return out"])


# name: (body, rows of all experts together)
TABLE = {
    "a sum of weights": (loop("(w * (i == e)).sum(-1, keepdim=True)"), T * K),
    "a chosen weight": (loop("torch.where(i == e, w, 0.0).sum(-1, keepdim=True)"), T * K),
    "the largest weight": (loop("(w * (i == e)).amax(-1, keepdim=True)"), T * K),
    "a converted index": (loop("(w * (i.int() == e)).sum(-1, keepdim=True)"), T * K),
    "one choice": (
        "i = (a0 @ a1.T).argmax(-1)\n"
        f"out = 0\nfor e in range({E}):\n"
        f"    out = out + (i == e)[:, None].float() * ({EXPERT})\n"
        "return out",
        T,
    ),
    "an index from elsewhere": (  # of how many things is not known
        f"i = (a0[:, :{K}] * 4).long()\n"
        f"out = 0\nfor e in range({E}):\n"
        f"    out = out + (i == e).any(-1, keepdim=True) * ({EXPERT})\n"
        "return out + (a0 @ a1.T).sum()",
        T * E,
    ),
}
ALONE = {
    "numbers that no choice has": (  # the sums are zero
        INPUTS,
        loop(f"(w * (i == e + {E})).sum(-1, keepdim=True)"),
        *(0, 0),
    ),
    # a comparison needs all of what its index is made of
    "a comparison": ("R(64, 8)", "return a0.argmax(-1) == 3", 0, 4 * 64 * 8),
    "one expert": (
        f"R({T}, {D}); R({D}, {E}); R({D}, {H}); R({H}, {D})",
        "i = (a0 @ a1).argmax(-1)\nreturn (i == 3)[:, None] * (F.silu(a0 @ a2) @ a3)",
        ROUTER + T * ROW,
        4 * (T * D + D * E + 2 * D * H),
    ),
    "a flat argmax": ("R(64, 8); R(64, 8)", "return (a0.argmax() == 3) * a1", 0, 2 * 4 * 64 * 8),
    "an index that is changed": (
        "R(64, 8); R(64, 32); R(32, 48)",
        "i = a0.argmax(-1)\n"
        "hits = [(i == e).sum() for e in range(8)]\n"
        "i //= 4\n"
        "return (i == 1)[:, None] * (a1 @ a2), hits",
        2 * 64 * 32 * 48,
        4 * (64 * 8 + 64 * 32 + 32 * 48),
    ),
    "every comparison alone": (
        "R(64, 8)",
        "i = a0.argmax(-1)\nreturn torch.stack([(i == e).sum() for e in range(8)])",
        0,
        4 * 64 * 8,
    ),
}

SLOTS = 16  # of an expert
BATCHES = {
    "two choices, each with a place in its expert's batch": (
        INPUTS,
        "p = (a0 @ a1.T).softmax(-1)\n"
        "disp = 0\n"
        "for _ in range(2):\n"
        f"    hot = F.one_hot(p.argmax(-1), {E})\n"
        "    place = ((hot.cumsum(0) - 1) * hot).sum(1)\n"
        f"    disp = disp + hot[:, :, None].float() * F.one_hot(place, {SLOTS})[:, None]\n"
        "    p = p.masked_fill(hot.bool(), -1.0)\n"
        "x = torch.einsum('sec,sm->ecm', disp, a0)\n"
        "y = F.silu(x @ a2.mT) @ a3.mT\n"
        "return torch.einsum('sec,ecm->sm', disp, y)",
    ),
}


@pytest.fixture(scope="module")
def batches(traced):
    return lambda name: traced(BATCHES, name)


def test_choices_of_an_expert_and_of_a_place_are_of_different_slots(batches):
    work = batches(next(iter(BATCHES)))
    experts = sum(
        op.operations.get("contraction.fp32", 0) for op in work.ops if op.op == "aten.bmm"
    )
    assert E * SLOTS // 2 * ROW <= experts <= 1.1 * E * SLOTS * ROW


@pytest.fixture(scope="module")
def work_of(traced):
    rows = {name: (INPUTS, body) for name, (body, _) in TABLE.items()}
    return lambda name: traced(rows, name)


@pytest.fixture(scope="module")
def alone(traced):
    return lambda name: traced(ALONE, name)


@pytest.mark.parametrize("name", ALONE)
def test_what_an_index_is_made_of_is_needed(alone, name):
    operations, read = ALONE[name][2:]
    work = alone(name)
    contractions = [n for key, n in work.operations.items() if key.startswith("contraction.")]
    assert sum(contractions) == operations
    assert work.dram_read_bytes == read


@pytest.mark.parametrize("name", TABLE)
def test_rows_that_an_expert_does_not_get_cost_nothing(work_of, name):
    work, rows = work_of(name), TABLE[name][1]
    contractions = [n for key, n in work.operations.items() if key.startswith("contraction.")]
    assert sum(contractions) == ROUTER + rows * ROW
    assert sum(work.hard_operations.values()) <= ROUTER
    text = "".join(work.assumptions)
    assert ("spread evenly" in text) is (rows < T * E)
