"""States that trips add outer products to, as products of matrices of blocks of trips."""

from __future__ import annotations

import pytest
from rewriting import brief, variants

from solkit.core import Checked
from solkit.tuner.proposers.rewriter.vectorise import Chunks

STATES = """
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(q, k, v, g, first):
    state, rows = first, []
    for t in range(q.shape[1]):
        k_t, v_t = k[:, t, :, None], v[:, t, None, :]
        state = state * g[:, t, None, None] + 0.5 * k_t * v_t
        rows.append((state * q[:, t, :, None]).sum(1))
    return torch.stack(rows, 1), state


def inputs(B=2, T=24, D=16, E=16, device="cuda"):
    q, k = (torch.randn(B, T, D, device=device) for _ in range(2))
    v, g = torch.randn(B, T, E, device=device), torch.rand(B, T, device=device)
    return q, k, v, g, torch.randn(B, D, E, device=device)


@triton.jit
def states(
    q_ptr, k_ptr, v_ptr, g_ptr, first_ptr, o_ptr, last_ptr, T, D: tl.constexpr, E: tl.constexpr
):
    row = tl.program_id(0)
    d = tl.arange(0, D)
    e = tl.arange(0, E)
    s = tl.load(first_ptr + row * D * E + d[:, None] * E + e[None, :])
    for t in range(T):
        at = row * T + t
        k = tl.load(k_ptr + at * D + d).to(tl.float32) * 0.5
        v = tl.load(v_ptr + at * E + e)
        s = tl.load(g_ptr + at) * s + k[:, None] * v[None, :]
        k = tl.load(q_ptr + at * D + d)
        o = tl.sum(s * k[:, None], axis=0)
        tl.store(o_ptr + at * E + e, o)
    tl.store(last_ptr + row * D * E + d[:, None] * E + e[None, :], s)


def kernel(q, k, v, g, first):
    B, T, D = q.shape
    o, last = torch.empty_like(v), torch.empty_like(first)
    states[(B,)](q, k, v, g, first, o, last, T, D=D, E=v.shape[2])
    return o, last
"""
SIZES = {"B": 2, "T": 24, "D": 16, "E": 16}
UPDATE = "tl.load(g_ptr + at) * s + k[:, None] * v[None, :]"
FIRST = "tl.load(first_ptr + row * D * E + d[:, None] * E + e[None, :])"
TURNED = STATES.replace("d[:, None] * E + e[None, :]", "d[None, :] * E + e[:, None]")
TURNED = TURNED.replace(UPDATE, "s * tl.load(g_ptr + at) + v[:, None] * k[None, :]")
TURNED = TURNED.replace("s * k[:, None], axis=0", "k[None, :] * s, axis=1")


@pytest.mark.slow
@pytest.mark.parametrize("source", [STATES, TURNED], ids=["rows", "turned"])
def test_trips_with_a_factor_each_are_products_of_blocks(source, is_right):
    (variant,) = variants(Chunks(), source, **SIZES)
    assert variant.count("tl.dot(") == 4
    assert "associative_scan" not in variant
    assert is_right(variant, source, **SIZES)


def test_factors_that_never_change_are_multiplied_once(is_right):
    source = STATES.replace("tl.load(g_ptr + at) * s +", "0.75 * s +")
    product = "k[:, None] * v[None, :]"
    source = source.replace(
        f"        s = 0.75 * s + {product}", f"        kv = {product}\n        s = 0.75 * s + kv"
    )
    assert "+ kv" in source
    source = source.replace("g[:, t, None, None]", "0.75")
    head, tail = source.rsplit("    tl.store(last_ptr", 1)
    source = head + tail[tail.index("\n") + 1 :]  # no state is stored, so none needs a mask
    source = source.replace("torch.stack(rows, 1), state", "torch.stack(rows, 1)")
    source = source.replace("return o, last", "return o")
    (variant,) = variants(Chunks(), source, **SIZES)
    assert "tl.cumprod" in variant[: variant.index("for t_start")]
    assert "tl.cumprod" not in variant[variant.index("for t_start") :]
    assert is_right(variant, source, **SIZES)


def test_trips_may_go_backwards(is_right):
    source = STATES.replace(UPDATE, "s + k[:, None] * v[None, :]")
    source = source.replace("state * g[:, t, None, None]", "state")
    source = source.replace("in range(T):\n        at = row * T + t", "in range(T):\n"
                            "        back = T - 1 - t\n        at = row * T + back")  # fmt: skip
    source = source.replace("in range(q.shape[1])", "in reversed(range(q.shape[1]))")
    source = source.replace("torch.stack(rows, 1)", "torch.stack(rows[::-1], 1)")
    (variant,) = variants(Chunks(), source, **SIZES)
    assert is_right(variant, source, **SIZES)


def test_products_are_as_exact_as_sums():
    (variant,) = variants(Chunks(), STATES, **SIZES)
    assert variant.count('input_precision="ieee"') == variant.count("tl.dot(") == 4


def test_states_that_fp32_does_not_hold_do_not_run(trials):
    source = STATES.replace("torch.randn(B, D, E,", "torch.randn(B, D, E, dtype=torch.float64,")
    (variant,) = variants(Chunks(), source, **SIZES)
    result, why = trials.check(variant, brief(source, **SIZES))
    assert result is Checked.WRONG
    assert "AssertionError" in why


def test_a_vector_is_no_scale_of_a_whole_block():
    source = STATES.replace("v_ptr + at * E + e)", "v_ptr + at * E + e).to(tl.float32) * weights")
    for weights, uses in (("tl.load(v_ptr + e)", 1), ("tl.load(v_ptr)", 3)):
        loop = f"    weights = {weights}\n    for t in range(T):"
        (variant,) = variants(Chunks(), source.replace("    for t in range(T):", loop), **SIZES)
        assert variant.count("* weights") == uses


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tl.store(o_ptr + at * E + e, o)", "tl.store(o_ptr + at * E + e, o + tl.max(s, axis=0))"),
        ("tl.load(g_ptr + at) * s", "k[:, None] * s"),
        ("k[:, None] * v[None, :]", "k[:, None] + v[None, :]"),
        ("s * k[:, None], axis=0", "s * k[:, None] * 2, axis=0"),
        (FIRST, "tl.zeros((D, E), tl.int32)"),
    ],
    ids=["read by itself", "a factor a row", "no product", "another read", "integers"],
)
def test_other_states_stay(old, new):
    assert old in STATES
    assert not variants(Chunks(), STATES.replace(old, new), **SIZES)
