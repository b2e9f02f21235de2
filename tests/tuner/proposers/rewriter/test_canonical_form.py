"""Other ways to write loops, pointers, helpers and launchers, in the form that rewrites read."""

from __future__ import annotations

import pytest
from rewriting import HEADER, brief

from solkit.tuner.proposers.rewriter import Rewriter
from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form

SCALED = """
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}


def reference(x):
    return torch.softmax(x.float(), 1) - 2.0 * torch.tanh(x.float())


def inputs(M=5, N=37, device="cuda"):
    return (torch.randn(M, N, device=device),)


@triton.jit
def twice_tanh(x, factor: tl.constexpr):
    e = tl.exp(2.0 * x)
    return factor * (e - 1.0) / (e + 1.0)


@triton.jit
def peak_and_sum(x_ptr, row, N, BLOCK: tl.constexpr):
    m, s = float("-inf"), 0.0
    i = 0
    while i < N:
        at = i + tl.arange(0, BLOCK)
        i += BLOCK
        x = tl.load(x_ptr + row * N + at, mask=at < N, other=float("-inf"))
        new = tl.maximum(m, tl.max(x, 0))
        s = s * tl.exp(m - new) + tl.sum(tl.exp(x - new), 0)
        m = new
    return m, s


@triton.autotune(configs=[triton.Config({"BLOCK": 16}, num_warps=2)], key=["N"])
@triton.jit
def rows(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    m, s = peak_and_sum(x_ptr, row, N, BLOCK)
    x_block = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (row, 0), (1, BLOCK), (1, 0))
    y_block = tl.make_block_ptr(
        y_ptr, shape=(M, N), strides=(N, 1), offsets=(row, 0), block_shape=(1, BLOCK), order=(1, 0)
    )
    for _ in range(tl.cdiv(N, BLOCK)):
        x = tl.load(x_block, boundary_check=(1,), padding_option="zero")
        tl.store(y_block, tl.exp(x - m) / s - twice_tanh(x, 2.0), boundary_check=(0, 1))
        x_block = tl.advance(x_block, (0, BLOCK))
        y_block = tl.advance(y_block, (0, BLOCK))


def run(x, y):
    M, N = x.shape
    rows[(M,)](x, y, M, N)
    return y


def kernel(x):
    return run(x, torch.empty_like(x))
"""


def test_a_kernel_of_many_ways_computes_the_same_in_canonical_form(is_right):
    form = canonical_form(HEADER + SCALED)
    for gone in ("while", "block_ptr", "autotune", "advance", "peak_and_sum", "def run"):
        assert gone not in form
    assert "for i in range(0, N, BLOCK):" in form
    assert "BLOCK=16, num_warps=2)" in form
    text = parse_kernel(form)
    assert text is not None
    assert [launch.launcher.name.value for launch in text.launches] == ["kernel"]
    assert canonical_form(form) == form
    plain = SCALED.replace('@triton.autotune(configs=[triton.Config({"BLOCK": 16}, num_warps=2)], key=["N"])\n', "")  # fmt: skip  # noqa: E501
    plain = plain.replace("(x, y, M, N)", "(x, y, M, N, BLOCK=16)")
    assert is_right(form, plain, M=5, N=37)


@pytest.mark.slow
def test_rewrites_start_from_it():
    kinds = [p.kind for p in Rewriter(checks=False).propose(brief(SCALED, M=5, N=37))]
    assert any("whole row" in kind or "split reduction" in kind for kind in kinds)


SHIFTED = """
def reference(x):
    return torch.cat([torch.zeros(3, device=x.device), x])[: x.numel()]


def inputs(N=37, device="cuda"):
    return (torch.randn(N, device=device),)


@triton.jit
def shift(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK
    from_ptr = tl.make_block_ptr(x_ptr, (N,), (1,), (at - 3,), (BLOCK,), (0,))
    to_ptr = tl.make_block_ptr(y_ptr, (N,), (1,), (at,), (BLOCK,), (0,))
    tl.store(to_ptr, tl.load(from_ptr, boundary_check=(0,)), boundary_check=(0,))


def kernel(x):
    y = torch.empty_like(x)
    shift[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), BLOCK=16)
    return y
"""


def test_blocks_that_begin_ahead_of_a_tensor_are_checked_there(is_right):
    form = canonical_form(HEADER + SHIFTED)
    assert "(from_ptr_0 >= 0) & (from_ptr_0 < N)" in form
    assert "mask=to_ptr_0 < N)" in form
    assert is_right(form, SHIFTED, N=37)


LOOP = """
@triton.jit
def add(x, N, s, STEP: tl.constexpr):
    i = 0
    while i < N:
        s += tl.load(x + i)
        i += STEP
    tl.store(x, s)


def kernel(x):
    add[(1,)](x, x.numel(), 0.0, STEP=4)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tl.store(x, s)", "tl.store(x, i)"),  # the counter is read
        ("i += STEP", "i += N"),  # it may not be positive
        ("i += STEP", "i += STEP\n        x += i"),
        ("i < N", "i < s"),  # the end moves
        ("i < N", "i < tl.load(x)"),
        ("i < N", "i <= N"),
        ("        i += STEP", "        if s > 1.0:\n            break\n        i += STEP"),
        ("    i = 0\n", "    i = 0.5\n"),
    ],
    ids=["read", "runtime", "used", "moves", "loaded", "reaches", "breaks", "float"],
)
def test_other_loops_stay(old, new):
    assert "while" not in canonical_form(HEADER + LOOP)
    source = HEADER + LOOP.replace(old, new)
    assert "while" in canonical_form(source)


def test_a_first_value_that_is_read_ahead_of_its_loop_keeps_a_name():
    """As the first page of a program's share, from which its last one follows."""
    source = LOOP.replace("i = 0", "i = N // 4\n    last = tl.minimum(i + N // 2, N)")
    source = source.replace("while i < N", "while i < last").replace("i += STEP", "i += 1")
    form = canonical_form(HEADER + source)
    assert "while" not in form
    assert "i_2 = N // 4" in form
    assert "tl.minimum(i_2 + N // 2, N)" in form
    changed = source.replace("    while", "    last += i\n    while")
    assert "last += i_2" in canonical_form(HEADER + changed)
    assert "while" in canonical_form(HEADER + source.replace("    while", "    i *= 2\n    while"))


HELPER = """
@triton.jit
def part(x, s):
    s = s * 2
    return x + s


@triton.jit
def whole(x, y):
    s = tl.program_id(0)
    tl.store(y + s, 3 * part(tl.load(x + s), s + 1))


def kernel(x, y):
    whole[(4,)](x, y)
"""


def test_a_helper_keeps_its_names_and_its_operators_apart():
    form = canonical_form(HEADER + HELPER)
    assert "s_2 = s + 1" in form
    assert "s_2 = s_2 * 2" in form
    assert "3 * (x_2 + s_2)" in form


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    s = s * 2\n", "    if s > 2:\n        return x\n    s = s * 2\n"),
        ("    s = s * 2\n", "    tl.store(x, s)\n    s = s * 2\n"),  # ahead of another load
        ("def part(x, s):", "def part(x, *s):"),
        ("3 * part(", "3 * x if s > 2 else part("),  # it may not run
        ("return x + s", "return x + s + y"),  # the module's
    ],
    ids=["returns early", "writes", "any arguments", "perhaps", "hidden"],
)
def test_other_helpers_stay(old, new):
    source = HEADER + HELPER.replace(old, new)
    assert "part(" in canonical_form(source).replace("def part(", "")


POINTERS = """
@triton.jit
def copy(x, y, M, N, A: tl.constexpr):
    b = tl.make_block_ptr(x, (M, N), (N, 1), (0, 0), (A, A), (1, 0))
    v = tl.load(b, boundary_check=(0, 1))
    tl.store(y + tl.arange(0, A)[:, None] * A + tl.arange(0, A)[None, :], v)


def kernel(x, y):
    copy[(1,)](x, y, x.shape[0], x.shape[1], A=16)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "    v =",
            "    if M > 4:\n        b = tl.make_block_ptr(y, (M,), (1,), (0,), (A,))\n    v =",
        ),
        ("    v =", "    c = b\n    v ="),
        ("    b =", "    for t in range(4):\n        x += t\n    b ="),
        ("(M, N), (N, 1)", "x_shape, (N, 1)"),
        ("boundary_check=(0, 1)", "boundary_check=A"),
    ],
    ids=["made twice", "another name", "base moves", "shape", "checked where"],
)
def test_other_block_pointers_stay(old, new):
    assert "make_block_ptr" not in canonical_form(HEADER + POINTERS)
    assert "make_block_ptr" in canonical_form(HEADER + POINTERS.replace(old, new))


def test_a_base_that_breaks_across_lines_is_read_in_one():
    broken = POINTERS.replace(
        "ptr(x, (M", "ptr(\n        x  # the first\n        + 2 * N\n        - N, (M"
    )
    plain = POINTERS.replace("ptr(x, (M", "ptr(x + 2 * N - N, (M")
    assert "make_block_ptr" not in canonical_form(HEADER + broken)
    assert canonical_form(HEADER + broken) == canonical_form(HEADER + plain)


SWITCH = """
TUNES = False
if TUNES:
    CONFIGS = [triton.Config({"A": n}, num_warps=2) for n in (8, 32)]
else:
    CONFIGS = [triton.Config({"A": 16}, num_warps=8)]


@triton.autotune(CONFIGS, key=["N"])
@triton.jit
def copy("""


def test_a_modules_switch_decides_what_a_function_is_tuned_over():
    source = HEADER + POINTERS.replace("@triton.jit\ndef copy(", SWITCH).replace(", A=16)", ")")
    assert "A=16, num_warps=8)" in canonical_form(source)
    turned = source.replace("False", "True")
    assert "A=8, num_warps=2)" in canonical_form(turned)
    turn = "\n\ndef turn():\n    global TUNES\n    TUNES = True\n"
    assert "@triton.autotune" in canonical_form(source + turn)
    for line in ("def TUNES(): pass", "from os import name as TUNES", "from options import *"):
        again = source.replace("if TUNES", f"{line}\nif TUNES")
        assert "@triton.autotune" in canonical_form(again)


def test_a_launcher_with_two_ends_is_not_inlined():
    source = HEADER + SCALED.replace("    M, N = x.shape\n", "    if x.numel() == 0:\n        return y\n    M, N = x.shape\n")  # fmt: skip  # noqa: E501
    source = source.replace("return run(x,", "return 1 * run(x,")  # else its value is the caller's
    assert "run(x, torch.empty_like(x))" in canonical_form(source)


def test_a_name_that_starts_anew_is_another_name():
    form = canonical_form(HEADER + HELPER.replace("    tl.store(y", "    tl.store(x, s)\n    s = 7\n    tl.store(y"))  # fmt: skip  # noqa: E501
    assert "tl.store(x, s)\n    s_3 = 7\n" in form
    assert "tl.store(y + s_3," in form


TILES = """
def reference(x):
    return x + 1.0


def inputs(M=5, N=37, device="cuda"):
    return (torch.randn(M, N, device=device),)


@triton.jit
def tiles(x, y, M, N, BLOCK: tl.constexpr):
    grid_n = tl.cdiv(N, BLOCK)
    pid = tl.program_id(0)
    row = pid // grid_n * BLOCK + tl.arange(0, BLOCK)[:, None]
    col = (pid % grid_n * BLOCK + tl.arange(0, BLOCK))[None, :]
    inside = (row < M) & (col < N)
    tl.store(y + row * N + col, tl.load(x + row * N + col, mask=inside) + 1.0, mask=inside)


def kernel(x):
    M, N = x.shape
    y = torch.empty_like(x)
    tiles[(triton.cdiv(M, 16) * triton.cdiv(N, 16),)](x, y, M, N, BLOCK=16)
    return y
"""


def test_indices_get_their_axes_where_they_are_used(is_right):
    plain = canonical_form(HEADER + TILES)
    assert "row = pid // grid_n * BLOCK + tl.arange(0, BLOCK)\n" in plain
    assert "col = (pid % grid_n * BLOCK + tl.arange(0, BLOCK))\n" in plain
    assert "y + row[:, None] * N + col[None, :]" in plain
    assert is_right(plain, TILES, M=5, N=37)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    inside =", "    row += 0\n    inside ="),  # no longer assigned once
        ("    inside =", "    rows = row[:, :]\n    inside ="),
        ("row = pid // grid_n * BLOCK +", "row = tl.load(x).to(tl.int32) +"),  # may be a block
        ("tl.arange(0, BLOCK)[:, None]", "tl.arange(0, BLOCK)[:, None].to(tl.int64)"),
    ],
)
def test_indices_that_are_more_than_a_range_keep_their_axes(old, new):
    assert old in TILES
    plain = canonical_form(HEADER + TILES.replace(old, new))
    assert "row[:, None]" not in plain
    assert "tl.arange(0, BLOCK)[:, None]" in plain


def test_statements_on_one_line_get_lines_of_their_own():
    joined = TILES.replace("BLOCK)\n    pid", "BLOCK); pid")
    assert joined != TILES
    assert canonical_form(HEADER + joined) == canonical_form(HEADER + TILES)


@pytest.mark.parametrize(
    ("decorator", "is_inlined"),
    [("torch.no_grad()", True), ("torch.inference_mode()", True), ("torch.compile", False)],
)
def test_a_launcher_that_turns_gradients_off_is_inlined(decorator, is_inlined):
    source = f"""
@triton.jit
def copy(x, y, N: tl.constexpr):
    tl.store(y + tl.arange(0, N), tl.load(x + tl.arange(0, N)))


@{decorator}
def copied(x):
    y = torch.empty_like(x)
    copy[(1,)](x, y, N=16)
    return y


def kernel(x):
    return copied(x)
"""
    (launch,) = parse_kernel(canonical_form(HEADER + source)).launches
    assert launch.launcher.name.value == ("kernel" if is_inlined else "copied")


@pytest.mark.parametrize(
    ("power", "product"),
    [
        ("libdevice.pow(x.to(tl.float32), 2.0)", "x.to(tl.float32) * x.to(tl.float32)"),
        ("tl.math.pow(x + 1, 3)", "(x + 1) * (x + 1) * (x + 1)"),
        ("libdevice.pow(x, 2.5)", "libdevice.pow(x, 2.5)"),
        ("libdevice.pow(2.0, x)", "libdevice.pow(2.0, x)"),
        ("libdevice.pow(tl.load(X + i + 1), 2.0)", "libdevice.pow(tl.load(X + i + 1), 2.0)"),
    ],
)
def test_small_powers_are_products(power, product):
    source = f"""
@triton.jit
def raised(X, Y):
    i = tl.program_id(0)
    x = tl.load(X + i)
    tl.store(Y + i, {power})


def kernel(x):
    y = torch.empty_like(x)
    raised[(x.numel(),)](x, y)
    return y
"""
    assert product in canonical_form(HEADER + source)
