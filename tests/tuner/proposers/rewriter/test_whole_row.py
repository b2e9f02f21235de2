"""Rows of other lengths than the tuned one, and parameters that nothing but the original uses."""

from __future__ import annotations

import pytest
from naive_kernels import LAYER_NORM, SOFTMAX
from rewriting import HEADER, variants

from solkit.tuner.proposers.rewriter.whole_row import WholeRow

ROWS = {"M": 4, "N": 200}
WARPS = "num_warps=min(max(triton.next_power_of_2(N) // (32 * VALUES), 1), 32)"


def launcher(result):
    return result[result.index("def kernel(") :]


@pytest.mark.parametrize(
    ("length", "values"),
    # warps_for gives a thread 16 values, and at most 16 warps
    [(200, 8), (1000, 16), (8192, 16), (32768, 64)],
)
def test_warps_follow_from_the_length_of_the_row(length, values):
    (variant,) = variants(WholeRow(), SOFTMAX, M=64, N=length)
    assert f"def kernel(x, *, VALUES={values}):" in variant
    assert WARPS in variant
    assert 'SPACE = {"VALUES": [4, 8, 16, 32, 64, 128]}' in variant


@pytest.mark.parametrize(("length", "warps"), [(32768, 32), (4096, 4), (100, 1)])
def test_a_thread_holds_as_many_values_of_any_row(length, warps):
    import triton

    code = WARPS.removeprefix("num_warps=")
    assert eval(code, {"triton": triton, "N": length, "VALUES": 32}) == warps


@pytest.mark.slow
def test_what_only_the_original_uses_keeps_its_value(is_right):
    source = 'SPACE = {"BLOCK": [64, 128], "num_warps": [2, 4]}\n' + LAYER_NORM
    (variant,) = variants(WholeRow(), source, **ROWS)
    assert "def kernel(x, *, VALUES=8):" in variant
    assert "layer_norm_kernel[(M,)](x, out, N, 1e-5, BLOCK=64, num_warps=4)" in variant
    assert 'SPACE = {"VALUES": [4, 8, 16, 32, 64, 128]}' in variant
    assert is_right(variant, source, **ROWS)


@pytest.mark.slow
def test_what_others_use_too_stays_a_parameter(is_right):
    source = LAYER_NORM.replace(
        "    out = torch.empty_like(x)\n",
        "    out = torch.empty((M, triton.cdiv(N, BLOCK) * BLOCK), device=x.device)[:, :N]\n"
        "    out = out.contiguous()\n",
    )
    (variant,) = variants(WholeRow(), source, **ROWS)
    assert "def kernel(x, *, BLOCK=64, VALUES=8):" in variant
    assert "BLOCK=BLOCK, num_warps=4)" in variant
    assert is_right(variant, source, **ROWS)


@pytest.mark.parametrize(
    "more",
    [
        "def valid(params, shape):\n    return params['BLOCK'] <= shape['N']\n",
        "valid = lambda params, shape: params['BLOCK'] <= shape['N']\n",
        "SPACE = dict(BLOCK=[64, 128], num_warps=[2, 4])\n",
        "SPACE = {**{'BLOCK': [64, 128]}, 'num_warps': [2, 4]}\n",
        "SPACE = {'BLOCK': [64, 128]}\nSPACE['num_warps'] = [2, 4]\n",
    ],
    ids=["rule", "short rule", "call", "unpacked", "added to"],
)
def test_a_file_that_says_more_of_its_parameters_keeps_them(more):
    results = variants(WholeRow(), more + LAYER_NORM, **ROWS)
    assert all("BLOCK=64, num_warps=4, VALUES=8):" in result for result in results)
    assert results


def test_the_only_parameters_may_be_taken_away():
    source = LAYER_NORM.replace("BLOCK=BLOCK, num_warps=num_warps)", "BLOCK=BLOCK)")
    source = source.replace("*, BLOCK=64, num_warps=4)", "*, BLOCK=64)")
    (variant,) = variants(WholeRow(), source, **ROWS)
    assert launcher(variant).startswith("def kernel(x, *, VALUES=8):")
    assert variant.startswith(HEADER.rstrip())


BISECTION = """
def reference(x):
    low = x.amin(1)
    high = x.amax(1)
    for _ in range(3):
        at = (low + high) / 2
        many = (x > at[:, None]).sum(1) > 3
        low, high = torch.where(many, at, low), torch.where(many, high, at)
    return low


def inputs(M=4, N=200, device="cuda"):
    return torch.randn(M, N, device=device)


@triton.jit
def bisect(x_ptr, y_ptr, N, steps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    low = float("inf")
    high = float("-inf")
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=float("nan"))
        low = tl.minimum(low, tl.min(tl.where(cols < N, x, float("inf")), axis=0))
        high = tl.maximum(high, tl.max(tl.where(cols < N, x, float("-inf")), axis=0))
    for _ in range(steps):
        at = (low + high) / 2
        count = 0
        for start in range(0, N, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=float("-inf"))
            count += tl.sum((x > at).to(tl.int32), axis=0)
        low = tl.where(count > 3, at, low)
        high = tl.where(count > 3, high, at)
    tl.store(y_ptr + row, low)


def kernel(x, *, BLOCK=64):
    M, N = x.shape
    y = torch.empty(M, device=x.device)
    bisect[(M,)](x, y, N, 3, BLOCK=BLOCK)
    return y
"""


def test_steps_of_a_bisection_read_a_row_once(is_right):
    (variant,) = variants(WholeRow(), BISECTION, **ROWS)
    own = variant[variant.index("def bisect_whole_row") : variant.index("def kernel")]
    assert own.count("tl.load(") == 1
    assert "for _ in range(steps):" in own
    assert is_right(variant, BISECTION, **ROWS)


def test_steps_that_write_what_they_read_read_again():
    """An iteration in place needs, at each step, what the step before it stored."""
    source = BISECTION.replace(
        "            count +=", "            x += 0.25 * x\n            count +="
    )
    store = "            tl.store(x_ptr + row * N + cols, x, mask=cols < N)\n        low = tl.where"
    source = source.replace("        low = tl.where", store, 1)
    (variant,) = variants(WholeRow(), source, **ROWS)
    own = variant[variant.index("def bisect_whole_row") : variant.index("def kernel")]
    assert own.count("tl.load(") == 2


DIVERGENCE = """
@triton.jit
def divergence(x_ptr, z_ptr, y_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    x_rows = x_ptr + rows[:, None] * N
    largest = tl.full((ROWS,), float("-inf"), tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_rows + cols[None, :], mask=cols[None, :] < N, other=float("-inf"))
        z = tl.load(z_ptr + rows[:, None] * N + cols[None, :], mask=cols[None, :] < N, other=0.0)
        largest = tl.maximum(largest, tl.max(x + z, axis=1))
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_rows + cols[None, :], mask=cols[None, :] < N, other=float("-inf"))
        z = tl.load(z_ptr + rows[:, None] * N + cols[None, :], mask=cols[None, :] < N, other=0.0)
        total += tl.sum(tl.exp(x + z - largest[:, None]), axis=1)
    tl.store(y_ptr + rows, total, mask=rows < M)


def kernel(x, z):
    M, N = x.shape
    y = torch.empty(M, device=x.device)
    divergence[(triton.cdiv(M, 4),)](x, z, y, M, N, ROWS=4, BLOCK=64)
    return y
"""


def test_a_program_holds_all_tensors_and_rows_that_it_reads_again():
    (variant,) = variants(WholeRow(), DIVERGENCE, M=64, N=4096)
    assert "if N * 4 * 2 <= 32768:" in variant
    (single,) = variants(
        WholeRow(), DIVERGENCE.replace("z_ptr + rows[:, None] * N", "x_rows"), **ROWS
    )
    assert "if N * 4 <= 32768:" in single
