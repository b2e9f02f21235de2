"""The checker finds planted errors, and blames nothing else."""

from __future__ import annotations

import math
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from solkit import kernelfiles
from solkit.core import Brief, Checked, Space
from solkit.errors import InputError, JobDiedError, UnsupportedError, WorkerError
from solkit.processes.forkserver import ForkServer
from solkit.roofline import devices
from solkit.tuner import interpreter_check
from solkit.tuner._interpreter_trial import differing_configs
from solkit.tuner._trial_sizes import SizeLimits, even_sizes, fixed_weight, sizes_to_try
from solkit.tuner.interpreter_check import Checker, Checkers, _Parent

sys.path.insert(0, str(Path(__file__).parent / "proposers" / "rewriter"))
sys.path.insert(0, str(Path(__file__).parents[1] / "kernelfiles"))
from folders import flashinfer_set, sol_folder, workload
from naive_kernels import COLUMN_SUM, LAYER_NORM, SOFTMAX

HEADER = "import os\nimport torch\nimport triton\nimport triton.language as tl\n"
ROWS = {"M": 6, "N": 256}


def brief(source, **shape):
    return Brief(HEADER + source, "naive.py", devices.find("h100"), shape)


def checked(checker, source, old, new, **shape):
    assert old in source
    return checker.check(HEADER + source.replace(old, new), brief(source, **shape))


@pytest.mark.quick("softmax_kernel[(M,)]-softmax_kernel[(M - 1,)")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        # the last store has no mask, and writes into the next row
        ("tl.exp(x - peak) / total, mask=cols < N)", "tl.exp(x - peak) / total)"),
        # a block that is not whole is left out
        (
            "for i in range(0, N, BLOCK):\n        cols",
            "for i in range(0, N - N % 64, BLOCK):\n        cols",
        ),
        # elements beyond the row count
        (
            'x = tl.load(x_ptr + start + cols, mask=cols < N, other=float("-inf"))\n        total',
            "x = tl.load(x_ptr + start + cols, mask=cols < N, other=0.0)\n        total",
        ),
        ("softmax_kernel[(M,)]", "softmax_kernel[(M - 1,)]"),
        ("return out", "return out.T"),
        ("return out", "return out + missing"),
    ],
)
def test_wrong_variants_are_wrong(trials, old, new):
    result, why = checked(trials, SOFTMAX, old, new, **ROWS)
    assert result is Checked.WRONG, why
    assert why


def test_cores_share_the_sizes_of_a_parent(checker, monkeypatch):
    monkeypatch.setattr("solkit.tuner.interpreter_check.usable_cores", lambda: 6)
    shape = {"M": 5, "N": 192}
    result, why = checked(checker, SOFTMAX, "return out", "return out * 1.0", **shape)
    parent = checker._parent_cases(brief(SOFTMAX, **shape))
    sizes = len(sizes_to_try(shape))
    assert len(parent.cases) == 3
    assert (result, why) == (Checked.RIGHT, f"it agrees with the reference at {sizes} sizes")
    result, _ = checked(checker, SOFTMAX, "softmax_kernel[(M,)]", "softmax_kernel[(1,)]", **shape)
    assert result is Checked.WRONG


CANCELLING = re.sub(r" *x = tl.where\(cols < N, x - mean, 0.0\)\n", "", LAYER_NORM).replace(
    "tl.sum(squares, axis=0) / N + eps", "tl.sum(squares, axis=0) / N - mean * mean + eps"
)


@pytest.mark.slow
def test_a_variance_that_cancels_is_wrong(trials):
    result, why = trials.check(HEADER + CANCELLING, brief(LAYER_NORM, **ROWS))
    assert result is Checked.WRONG
    assert "offset means" in why


@pytest.mark.slow
def test_a_parent_that_cancels_as_much_blames_no_variant(trials):
    variant = HEADER + CANCELLING.replace("BLOCK=64", "BLOCK=128")
    result, why = trials.check(variant, brief(CANCELLING, **ROWS))
    assert result is Checked.RIGHT, why


LARGE_SCORES = """
def reference(x, w):
    return torch.softmax(x @ w, 1) @ w


def inputs(M=4, K=128, device="cuda"):
    return torch.randn(M, K, device=device), torch.randn(K, K, device=device)


@triton.jit
def weights_kernel(x, w, out, K: tl.constexpr, PARTS: tl.constexpr):
    k, row = tl.arange(0, K), tl.program_id(0)
    scores = tl.zeros((K,), tl.float32)
    for part in range(PARTS):
        own = part * (K // PARTS) + tl.arange(0, K // PARTS)
        a = tl.load(x + row * K + own)
        b = tl.load(w + own[:, None] * K + k[None, :])
        scores += tl.sum(a[:, None] * b, 0)
    p = tl.exp(scores - tl.max(scores, 0))
    p = p / tl.sum(p, 0)
    b = tl.load(w + k[:, None] * K + k[None, :])
    tl.store(out + row * K + k, tl.sum(p[:, None] * b, 0))


def kernel(x, w):
    M, K = x.shape
    out = torch.empty_like(x)
    weights_kernel[(M,)](x, w, out, K=K, PARTS=1)
    return out
"""


@pytest.mark.slow
def test_another_order_of_sums_is_right_where_the_reference_in_fp32_is_as_far_off(trials):
    """Scores of a million round to sixteenths: each order of their sums has errors of its own."""
    result, why = checked(trials, LARGE_SCORES, "PARTS=1)", "PARTS=min(64, K))", M=4)
    assert result is Checked.RIGHT, why


FLAGGED = SOFTMAX.replace("N, BLOCK: tl.constexpr", "N, flag, BLOCK: tl.constexpr").replace(
    "x, out, N, BLOCK=64", "x, out, N, True, BLOCK=64"
)


def test_boolean_arguments_and_cudas_own_libdevice_are_interpreted(trials):
    assert "N, True" in FLAGGED
    with_both = FLAGGED.replace(
        "    total = 0.0\n", "    total = 0.0\n    if flag:\n        total = 0.0\n"
    ).replace("tl.exp(x - peak) / total", "tl.extra.cuda.libdevice.exp(x - peak) / total")
    result, why = trials.check(HEADER + with_both + "\n", brief(with_both, **ROWS))
    assert result is Checked.RIGHT, why


@pytest.mark.slow
def test_large_problems_are_run_by_sampled_programs(trials):
    shape = {"M": 1 << 16, "N": 64}
    parent = brief(SOFTMAX, **shape)
    result, why = trials.check(parent.source, parent)
    assert result is Checked.RIGHT, why
    late = "tl.exp(x - peak) / total, mask"  # wrong in programs that no small problem has
    wrong = late.replace("/ total", "/ (total + (start >= 1000 * N))")
    result, why = checked(trials, SOFTMAX, late, wrong, **shape)
    assert result is Checked.WRONG
    assert "M as it is" in why


def test_what_the_interpreter_lacks_is_unchecked(trials):
    asm = (
        "tl.inline_asm_elementwise('mov.b32 $0, $1;', '=r,r', [x - peak], dtype=tl.float32, "
        "is_pure=True, pack=1)"
    )
    result, why = checked(trials, SOFTMAX, "x - peak) / total", f"{asm}) / total", **ROWS)
    assert result is Checked.UNCHECKED
    assert "inline_asm" in why


def test_a_parent_that_the_interpreter_cannot_run_leaves_all_unchecked(trials):
    parent = brief(
        SOFTMAX.replace("M, N = x.shape", "assert x.get_device() == 1\n    M, N = x.shape"), **ROWS
    )
    result, why = trials.check(parent.source, parent)
    assert result is Checked.UNCHECKED
    assert "parent" in why


AUTOTUNED = (
    SOFTMAX.replace(
        "@triton.jit",
        "@triton.autotune([triton.Config({'BLOCK': 32}), triton.Config({'BLOCK': 64})], ['N'])\n"
        "@triton.jit",
    )
    .replace("M, N = x.shape", "assert x.is_cuda\n    M, N = x.shape")
    .replace(", BLOCK=64", "")
)


def test_autotuned_parents_and_those_that_assert_a_gpu_are_run(trials):
    parent = brief(AUTOTUNED, **ROWS)
    result, why = trials.check(parent.source, parent)
    assert result is Checked.RIGHT, why


DEVICE_OF_MODULE = """
DEVICE = triton.runtime.driver.active.get_active_torch_device()
LIMITS = triton.runtime.driver.active.utils.get_device_properties(DEVICE.index)
BUFFER = torch.zeros(1, device="cuda")


"""
LAUNCHER_OF_TUTORIAL = """
    assert x.device == DEVICE and x.is_cuda and not x.is_cpu and x.get_device() == 0
    assert torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)
    assert torch.cuda.get_device_properties(x.device).multi_processor_count > 0
    BUFFER.add_(torch.ones(1, device=torch.device("cuda")))
    M, N = x.to("cuda").cuda().shape
    out = torch.empty(x.shape, device=DEVICE)
    compiled = softmax_kernel.warmup(x, out, N, BLOCK=64, grid=(1,))
    compiled._init_handles()
    assert LIMITS["max_num_regs"] // (compiled.n_regs * LIMITS["warpSize"] * 4) > 0
    assert LIMITS["max_shared_mem"] // compiled.metadata.shared > 0
    compiled[(M, 1, 1)](x, out, N, 64)
    return out
"""


def test_launchers_may_ask_for_the_gpu_and_allocate_there(trials):
    own = SOFTMAX.replace("@triton.jit", DEVICE_OF_MODULE + "@triton.jit")
    own = own[: own.index("    M, N = x.shape")] + LAUNCHER_OF_TUTORIAL
    wrong = own.replace("x - peak) / total", "x - peak) / total * 2")
    for source, verdict in ((own, Checked.RIGHT), (wrong, Checked.WRONG)):
        result, why = trials.check(HEADER + source, brief(own, **ROWS))
        assert result is verdict, why


SIGNS = """
def reference(x):
    return (x > 0).int()


def inputs(N=300, device="cuda"):
    return (torch.randn(N, device=device),)


@triton.jit
def sign_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, (tl.load(x_ptr + at, mask=at < N) > 0).to(tl.int32), mask=at < N)


def kernel(x):
    out = torch.empty(x.shape, dtype=torch.int32, device=x.device)
    sign_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out
"""


@pytest.mark.slow
def test_whole_numbers_are_the_same_or_wrong(trials):
    is_right, why = checked(trials, SIGNS, "BLOCK=64", "BLOCK=64, num_warps=2", N=300)
    assert is_right is Checked.RIGHT, why
    is_wrong, why = checked(trials, SIGNS, "at < N) > 0", "at < N) > 0.5", N=300)
    assert is_wrong is Checked.WRONG
    assert "output 0 is off by 1" in why


NEAREST = """
def reference(x, c):
    squares = x.square().sum(1)[:, None] - 2 * x @ c.T + c.square().sum(1)
    return squares.argmin(1)


def inputs(N=64, K=64, device="cuda"):
    return torch.randn(N, 32, device=device), torch.randn(K, 32, device=device)


@triton.jit
def nearest_kernel(x_ptr, c_ptr, out_ptr, K, BLOCK: tl.constexpr):
    row, d, k = tl.program_id(0), tl.arange(0, 32), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * 32 + d)
    c = tl.load(c_ptr + k[:, None] * 32 + d[None, :], mask=k[:, None] < K, other=0.0)
    far = tl.sum(x * x) - 2.0 * tl.sum(x[None, :] * c, 1) + tl.sum(c * c, 1)
    tl.store(out_ptr + row, tl.argmin(tl.where(k < K, far, float("inf")), 0).to(tl.int64))


def kernel(x, c):
    out = torch.empty(x.shape[0], dtype=torch.int64, device=x.device)
    nearest_kernel[x.shape[:1]](x, c, out, c.shape[0], BLOCK=triton.next_power_of_2(c.shape[0]))
    return out
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        (
            "tl.sum(x * x) - 2.0 * tl.sum(x[None, :] * c, 1) + tl.sum(c * c, 1)",
            "tl.sum(c * c, 1) - (tl.sum(2.0 * x[None, :] * c, 1) - tl.sum(x * x))",
            Checked.RIGHT,
        ),
        ("tl.where(k < K,", "tl.where(k < K - 1,", Checked.WRONG),
    ],
)
def test_places_may_be_others_where_rounding_decides(trials, old, new, want):
    """With means of 100 the squares are some 320,000, and their differences are below 100."""
    result, why = checked(trials, NEAREST, old, new, N=64, K=64)
    assert result is want, why


@pytest.mark.slow
def test_endless_variants_are_killed_and_unchecked(checker, monkeypatch):
    monkeypatch.setattr(checker, "_limit_s", 1.0)
    endless = "while True:\n        pass\n    return out"
    result, why = checked(checker, COLUMN_SUM, "return out", endless, M=64, N=64)
    assert result is Checked.UNCHECKED
    assert "killed" in why


@pytest.mark.slow
def test_variants_that_end_their_process_are_wrong(checker):
    result, why = checked(checker, COLUMN_SUM, "return out", "os._exit(7)", M=64, N=64)
    assert result is Checked.WRONG
    assert "exit code 7" in why


@pytest.mark.slow
def test_variants_see_no_tokens(checker, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "abc")
    spy = "assert 'SECRET_TOKEN' not in os.environ\n    return out"
    result, why = checked(checker, COLUMN_SUM, "return out", spy, M=64, N=64)
    assert result is Checked.RIGHT, why


def test_variants_see_no_files_of_other_parents(checker):
    secret = "\n# a variant of another parent must not read this\n"
    result, why = checked(checker, COLUMN_SUM + secret, "return out", "return out", M=64, N=64)
    assert result is Checked.RIGHT, why
    spy = """
    from pathlib import Path
    folder = Path(__file__).parents[1]
    texts = [path.read_text() for path in folder.rglob("*") if path.is_file()]
    assert len(texts) >= 2, folder  # its parent and itself
    assert not any("of another" + " parent" in text for text in texts)
    return out
"""
    result, why = checked(checker, COLUMN_SUM, "    return out", spy, M=64, N=64)
    assert result is Checked.RIGHT, why


def test_checks_of_two_parents_at_once_both_end(checker):
    with ThreadPoolExecutor(4) as pool:
        pairs = [(COLUMN_SUM + f"\n# {number % 2}\n", number) for number in range(4)]
        results = pool.map(
            lambda pair: checked(
                checker, pair[0], "return out", f"return out + {pair[1]}", M=64, N=64
            ),
            pairs,
        )
        assert [result for result, _ in results] == [Checked.RIGHT] + 3 * [Checked.WRONG]


@pytest.mark.slow
def test_the_reference_may_be_in_another_file(trials):
    problem, kernel = COLUMN_SUM.split("@triton.jit")
    changed_brief = replace(brief("\n@triton.jit" + kernel, M=64, N=64), reference=HEADER + problem)
    result, why = trials.check(changed_brief.source, changed_brief)
    assert result is Checked.RIGHT, why


def test_sizes_are_scaled_down_made_awkward_and_kept_in_turn():
    shapes = [dict(size.shape) for size in sizes_to_try({"M": 16384, "N": 4096, "eps": 0.1})]
    assert {"M": 128, "N": 128, "eps": 0.1} in shapes
    assert any(shape["M"] % 2 and shape["N"] % 2 for shape in shapes)
    assert any(shape["M"] == 16384 for shape in shapes)
    assert any(shape["N"] == 4096 for shape in shapes)
    assert any(size.offset for size in sizes_to_try({"M": 16384, "N": 4096}))


def test_the_smallest_sizes_are_run_whole_however_many_there_are():
    sizes = sizes_to_try({"B": 8, "S": 4096, "H": 16, "D": 64})
    assert any(math.prod(size.shape.values()) <= 512 for size in sizes)
    assert {"S", "D"} == {n for size in sizes for n, v in size.shape.items() if v == 1}


BY_BLOCKS = """
def reference(x):
    return x + 1

def inputs(N=2000, device="cuda"):
    return (torch.randn(N, device=device),)

@triton.jit
def _plus_one(x_ptr, out_ptr, scratch_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ahead = at + SHIFT
    tl.store(scratch_ptr + ahead, tl.load(x_ptr + ahead, mask=ahead < N), mask=ahead < N)
    tl.store(out_ptr + at, tl.load(scratch_ptr + at, mask=at < N) + 1, mask=at < N)

def kernel(x):
    out, scratch = torch.empty_like(x), x.clone()
    scratch[64:] = 0
    _plus_one[(triton.cdiv(x.numel(), 64),)](x, out, scratch, x.numel(), BLOCK=64)
    return out
"""


def test_variants_whose_programs_rely_on_an_order_are_wrong(trials):
    """Each program reads what the program before it wrote."""
    parent = BY_BLOCKS.replace("SHIFT", "0")
    result, why = trials.check(HEADER + BY_BLOCKS.replace("SHIFT", "64"), brief(parent, N=2000))
    assert result is Checked.WRONG, why


@pytest.mark.slow
def test_parents_share_a_process_that_has_loaded_torch(checker, monkeypatch):
    started = []
    original = ForkServer.start
    monkeypatch.setattr(
        ForkServer, "start", lambda self: started.append(self.is_alive) or original(self)
    )
    for width in (48, 80):
        result, why = checker.check(HEADER + SIGNS, brief(SIGNS, N=width))
        assert result is Checked.RIGHT, why
    assert all(started[1:])


# ------------------------------------------------------------------- other parameters and inputs

TUNED_ROWS = """
SPACE = {"BLOCK": [16, 64, 256], "num_warps": [1, 4]}

def reference(x, weight, keep):
    return torch.where(keep, x * weight, 0.0)

def inputs(N=64, device="cuda"):
    keep = torch.ones(N, N, dtype=torch.bool, device=device)
    return torch.randn(N, N, device=device), torch.ones(N, device=device), keep

@triton.jit
def weigh(x_ptr, w_ptr, keep_ptr, out_ptr, N, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + at, mask=at < N)
        w = tl.load(w_ptr + at, mask=at < N)
        keep = tl.load(keep_ptr + row * N + at, mask=at < N) != 0
        tl.store(out_ptr + row * N + at, tl.where(keep, x * w, 0.0), mask=at < N)

def kernel(x, weight, keep, *, BLOCK=64, num_warps=4):
    N = x.shape[0]
    out = torch.empty((N, N), device=x.device)
    weigh[(N,)](x, weight, keep, out, N, x.stride(0), BLOCK=BLOCK, num_warps=num_warps)
    return out
"""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("", "", ""),
        ("range(0, N, BLOCK)", "range(0, N, 64)", "with BLOCK=16, "),
        pytest.param(
            *(
                "at < N)\n        w",
                "at < N)\n        x *= BLOCK <= 64\n        w",
                "with BLOCK=256, ",
            ),
            marks=pytest.mark.slow,
        ),
        ("row * stride + at", "row * N + at", "padded inputs"),
        ("x * w, 0.0", "x, 0.0", "other masks and constants"),
        ("keep, x * w, 0.0", "at < N, x * w, 0.0", "other masks and constants"),
        ("keep_ptr + row * N + at", "keep_ptr + at * N + row", "other masks and constants"),
    ],
)
def test_variants_are_right_with_other_parameters_layouts_masks_and_weights(trials, old, new, says):
    result, why = checked(trials, TUNED_ROWS, old, new, N=64)
    assert result is (Checked.WRONG if says else Checked.RIGHT), why
    assert says in why


@pytest.mark.parametrize(("columns", "result"), [(8192, Checked.RIGHT), (32768, Checked.WRONG)])
def test_other_parameters_that_triton_refuses_make_no_variant_wrong(trials, columns, result):
    """A block has 1,048,576 elements at most: 64 rows of 8,192 are legal, and 256 are not."""
    wide = f"at < N)\n        x += tl.sum(tl.zeros((BLOCK, {columns}), tl.float32), 1)\n        w"
    outcome, why = checked(trials, TUNED_ROWS, "at < N)\n        w", wide, N=64)
    assert outcome is result, why
    assert ("exceeds triton maximum tensor numel" in why) == (result is Checked.WRONG)


PREFIXES = """
SPACE = {"ROWS": [16, 128], "STEP": [16, 128]}

def reference(x, weight):
    return x.cumsum(1) * weight.sum()

def inputs(B=2, M=48, D=32, device="cuda"):
    return torch.randn(B, M, device=device), torch.randn(D, device=device)

@triton.jit
def add(x_ptr, w_ptr, out_ptr, M, D: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr):
    first = tl.program_id(1) * M
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * ROWS, STEP):
        at = start + tl.arange(0, STEP)
        x = tl.load(x_ptr + first + at, mask=at < M, other=0.0)
        total += tl.sum(tl.where(at[None, :] <= rows[:, None], x[None, :], 0.0), 1)
    total *= tl.sum(tl.load(w_ptr + tl.arange(0, D)))
    tl.store(out_ptr + first + rows, total, mask=rows < M)

def kernel(x, weight, *, ROWS=16, STEP=16):
    (B, M), out = x.shape, torch.empty_like(x)
    add[(triton.cdiv(M, ROWS), B)](x, weight, out, M, weight.numel(), ROWS=ROWS, STEP=STEP)
    return out
"""


FEW = {"B": 2, "M": 48, "D": 32}


def test_small_blocks_beside_large_ones_run_where_there_are_several(trials):
    """One block is enough for 13 rows, whatever counts it."""
    result, why = checked(trials, PREFIXES, "+ 1) * ROWS", "+ 1) * STEP", **FEW)
    assert result is Checked.WRONG, why
    assert "with ROWS=128, " in why
    result, why = checked(trials, PREFIXES, "+ 1) * ROWS", "+ 1) * (ROWS + 0)", **FEW)
    assert result is Checked.RIGHT, why


def test_what_its_parent_does_not_take_is_not_asked_of_a_variant(trials):
    """Contiguous rows, weights of one and full masks: the parent needs them as well."""
    parent = TUNED_ROWS.replace("row * stride", "row * N").replace("keep, x * w, 0", "True, x, 0")
    result, why = checked(trials, parent, "BLOCK=64", "BLOCK=16", N=64)
    assert result is Checked.RIGHT, why


@pytest.mark.slow
def test_sizes_that_its_parent_does_not_take_are_not_asked_of_a_variant(trials):
    parent = TUNED_ROWS.replace("range(0, N, BLOCK)", "range(0, N, 64)")
    result, why = checked(trials, parent, "num_warps=4):", "num_warps=1):", N=64)
    assert result is Checked.RIGHT, why


COUNTED_BLOCKS = """
def reference(x):
    return x + 1


def inputs(N=256, device="cuda"):
    return torch.randn(N, device=device)


@triton.jit
def add(x_ptr, out):
    at = tl.program_id(0) * 16 + tl.arange(0, 16)
    tl.store(out + at, tl.load(x_ptr + at) + 1)


def kernel(x):
    out = torch.empty_like(x)
    add[(x.shape[0] // 16,)](x, out)
    return out
"""


def test_sizes_at_which_a_parent_writes_nothing_are_asked_of_no_variant(trials):
    """Less than a block gives a grid of no programs."""
    needed = "assert x.shape[0] >= 16\n    add[("
    result, why = checked(trials, COUNTED_BLOCKS, "add[(", needed, N=256)
    assert result is Checked.RIGHT, why


PAGES = """
def reference(x, pages):
    return x[:, pages.long()] + 1


def inputs(B=8, H=32, N=512, page=32, D=64, device="cuda"):
    x = torch.randn(B * H, N // page, page, D, device=device)
    return x, torch.randperm(N // page, device=device).to(torch.int32)


@triton.jit
def add(x, pages, out, PAGE: tl.constexpr, D: tl.constexpr):
    first = tl.program_id(1) * tl.num_programs(0)
    page = tl.load(pages + tl.program_id(0))
    within = tl.arange(0, PAGE)[:, None] * D + tl.arange(0, 64)[None, :]
    loaded = tl.load(x + (first + page) * PAGE * D + within)
    tl.store(out + (first + tl.program_id(0)) * PAGE * D + within, loaded + 1)


def kernel(x, pages):
    assert x.shape[2] % 32 == 0
    out = torch.empty_like(x)
    add[(x.shape[1], x.shape[0])](x, pages, out, x.shape[2], x.shape[3])
    return out
"""


@pytest.mark.slow
def test_a_parent_that_needs_whole_pages_and_rows_is_tried_with_them(trials):
    """Pages of 16 stop its launcher, and with rows of less than 64 its programs end outside."""
    shape = {"B": 8, "H": 32, "N": 512, "page": 32, "D": 64}
    result, why = checked(trials, PAGES, "loaded + 1", "1 + loaded", **shape)
    assert result is Checked.RIGHT, why
    wrong = "tl.load(pages + tl.program_id(0)) * 0 + tl.program_id(0)"
    result, why = checked(trials, PAGES, "tl.load(pages + tl.program_id(0))", wrong, **shape)
    assert result is Checked.WRONG, why


def test_sizes_stay_multiples_of_a_block_where_they_may_not_be_odd():
    limits = SizeLimits(32, frozenset({"S", "page"}), "S")
    shapes = [
        dict(size.shape) for size in sizes_to_try({"S": 8192, "H": 64, "page": 32}, (), 64, limits)
    ]
    assert {shape["page"] for shape in shapes} == {32}
    assert {shape["S"] % 32 for shape in shapes} == {0}
    assert any(shape["H"] % 2 for shape in shapes)
    assert any(shape["S"] == 96 for shape in shapes)  # several blocks
    assert min(shape["H"] for shape in shapes if shape["H"] % 2 == 0) == 32


@pytest.mark.parametrize(("shift", "kind"), [("16", "unchecked"), ("0", "wrong")])
def test_programs_that_fail_in_the_parent_as_well_blame_no_variant(
    tmp_path, interpreted, shift, kind
):
    """Of a parent that was cut short nobody knows what its other programs do."""
    parent, variant = tmp_path / "parent.py", tmp_path / "variant.py"
    parent.write_text(HEADER + LAST_READS_OUTSIDE.replace("16, 0", f"{shift}, 0"))
    variant.write_text(HEADER + LAST_READS_OUTSIDE.replace("x + 1)", "1 + x)"))
    judged, why = interpreted(Path(__file__).parent, "cut_short:judge", str(parent), str(variant))
    assert judged == kind, why


LAST_READS_OUTSIDE = """
def reference(x):
    return x + 1


def inputs(N=7, device="cuda"):
    return torch.randn(N, 16, device=device)


@triton.jit
def add(x_ptr, out, N):
    row = tl.program_id(0)
    at = row * 16 + tl.arange(0, 16)
    x = tl.load(x_ptr + at + tl.where(row == N - 1, 16, 0))
    tl.store(out + at, x + 1)


def kernel(x):
    out = torch.empty_like(x)
    add[(x.shape[0],)](x, out, x.shape[0])
    return out
"""


def test_configurations_that_differ_most_are_legal_and_leave_warps():
    space = Space({"BM": [16, 32, 256], "BN": [8, 64, 1024], "num_warps": [1, 8]})
    own = {"BM": 32, "BN": 64, "num_warps": 1}
    pairs = [(config["BM"], config["BN"]) for config in differing_configs(space, own)]
    assert pairs == [(256, 64), (16, 8), (16, 1024), (256, 8)]  # 2**18 elements are too many
    large = {"BM": 256, "BN": 1024, "num_warps": 1}  # it was run: smaller ones can be, too
    pairs = [(config["BM"], config["BN"]) for config in differing_configs(space, large)]
    assert pairs == [(16, 8), (16, 1024), (256, 8)]
    bounded = space.where("BM >= BN", lambda p: p["BM"] >= p["BN"], ["BM", "BN"])
    assert all(config["BM"] >= config["BN"] for config in differing_configs(bounded, own))
    assert differing_configs(Space({"num_warps": [1, 8]}), {"num_warps": 1}) == []


def test_a_large_block_is_tried_with_a_small_one_that_stands_behind_it():
    space = Space({"BLOCK": [64, 8192], "SPLIT": [2, 16, 64]})
    configs = differing_configs(space, {"BLOCK": 64, "SPLIT": 16})
    assert {"BLOCK": 8192, "SPLIT": 2} in configs  # with 16 there are 2**17 elements


# ----------------------------------------------------------------------------- without a parent


@pytest.fixture(scope="module")
def alone(checker):
    """A folder that the checker's sandbox shows: one that shows another loads torch again."""
    folder = Path(checker._root().name, "alone")
    folder.mkdir()
    return folder


WHOLE_BLOCKS = """
@triton.jit
def _doubled(x_ptr, out_ptr, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + places, tl.load(x_ptr + places) * 2)

def reference(x):
    return x * 2

def inputs(N=4096, device="cuda"):
    return (torch.randn(N, device=device),)

def kernel(x, *, BLOCK=256):
    out = torch.empty_like(x)
    _doubled[(x.numel() // BLOCK,)](x, out, BLOCK=BLOCK)
    return out
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        ("", "", Checked.RIGHT),  # it needs sizes that 256 divides: no other is tried
        ("    return out", "    return x", Checked.WRONG),
        ("    return out", "    return out[1:]", Checked.WRONG),
        ("* 2)", "* 2.2)", Checked.WRONG),
        ("* 2)", "* 2.002)", Checked.RIGHT),  # as far off as tensor cores may be
        ("return x * 2", "return torch.nn.functional.dropout(x)", Checked.UNCHECKED),
        ("    return out", "    return out.nothing_of_this_name", Checked.UNCHECKED),
    ],
)
def test_a_candidate_alone_is_wrong_only_where_it_is_plainly_so(checker, alone, old, new, want):
    path = alone / "alone.py"
    path.write_text(HEADER + WHOLE_BLOCKS.replace(old, new, 1), encoding="utf-8")
    result, why = checker.check_alone(str(path), None, {"BLOCK": 256}, {"N": 4096})
    assert result is want, why


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accepts", "factor", "want", "reason"),
    [
        ("abs(got - want).max() < 1", "2", Checked.RIGHT, "it agrees"),
        ("abs(got - want).max() < 1", "3", Checked.UNCHECKED, "the file's check() returned"),
        ("got.numel() == 4096", "2", Checked.UNCHECKED, "which was written for another size"),
    ],
)
def test_a_files_own_check_judges_a_candidate_alone_where_it_accepts_a_size(
    checker, alone, accepts, factor, want, reason
):
    path = alone / "alone.py"
    own = f"\ndef check(got, want):\n    return bool({accepts})\n"
    text = WHOLE_BLOCKS.replace("N=4096", "N=8192").replace("* 2)", f"* {factor})")
    path.write_text(HEADER + text + own, encoding="utf-8")
    result, why = checker.check_alone(str(path), None, {"BLOCK": 256}, {"N": 8192})
    assert result is want, why
    assert reason in why
    assert "Error" not in why


def test_sizes_of_a_candidate_alone_stay_divisible():
    shapes = [
        dict(even_size.shape) for even_size in even_sizes({"M": 4096, "N": 1001, "causal": True})
    ]
    assert shapes[0] == {"M": 256, "N": 1001, "causal": True}
    assert {"M": 4096, "N": 1001, "causal": True} in shapes
    assert len(shapes) == 2


def test_a_candidate_alone_is_first_tried_where_five_sizes_have_few_elements():
    decode = {"batch": 32, "heads": 32, "kv_heads": 8, "head_dim": 128, "length": 4096}
    first, *_ = [dict(even_size.shape) for even_size in even_sizes(decode)]
    assert math.prod(first.values()) <= 1 << 20
    assert all(decode[name] % size == 0 and size >= 8 for name, size in first.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("returned", "expected", "reason"),
    [
        ("out", Checked.RIGHT, "at 2 sizes"),
        ("x", Checked.UNCHECKED, "off by"),  # it may need the size that is left out
    ],
)
def test_sizes_of_a_candidate_alone_that_would_take_too_long_are_left_out(
    checker, alone, returned, expected, reason
):
    path = alone / "alone.py"
    text = WHOLE_BLOCKS.replace("def inputs(N=4096,", "def inputs(N=4096, M=256, K=256,")
    slow = "    import time; time.sleep(0.001)\n    return x * 2\n"  # 65 s at 2^16 times the work
    text = text.replace("    return x * 2\n", slow, 1).replace("return out", f"return {returned}")
    path.write_text(HEADER + text, encoding="utf-8")
    sizes = {"N": 1 << 20, "M": 256, "K": 256}
    result, why = checker.check_alone(str(path), None, {"BLOCK": 64}, sizes)
    assert result is expected
    assert reason in why
    assert why.endswith("; 1 more would take over 18 s")


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (InputError("naive.py: no kernel"), Checked.WRONG),
        (JobDiedError("exit code 7"), Checked.WRONG),
        (WorkerError("SolKit's own part failed"), Checked.UNCHECKED),
        (UnsupportedError("the checks have ended"), Checked.UNCHECKED),
    ],
)
def test_a_failure_of_the_check_is_no_verdict_on_the_variant(monkeypatch, error, verdict):
    with Checker() as own:
        monkeypatch.setattr(own, "_parent_cases", lambda _: _Parent({"parent.py": ""}, "", ()))
        monkeypatch.setattr(own, "_call_worker", Mock(side_effect=error))
        assert own.check("", brief(COLUMN_SUM)) == (verdict, str(error))


def test_sizes_of_a_parent_that_are_lost_leave_those_of_its_other_processes(monkeypatch):
    def answer(_worker, *args, **_):
        if args[-2] == 0:
            raise JobDiedError("its process ran for over 60 s and was killed", timed_out=True)
        return "", b"cases %d" % args[-2]

    monkeypatch.setattr(interpreter_check, "usable_cores", lambda: 6)
    monkeypatch.setattr(interpreter_check, "_start_jobs", lambda: Mock(call=answer))
    with Checker() as own:
        parent = own._parent_cases(brief(COLUMN_SUM))
    assert (parent.lacking, parent.cases) == ("", [b"cases 1", b"cases 2"])


@pytest.mark.parametrize(("size", "is_kept"), [(1 << 22, True), (40_000_003, False)])
def test_a_size_is_not_kept_where_the_reference_alone_would_take_long(size, is_kept):
    shapes = [dict(sized.shape) for sized in sizes_to_try({"N": size})]
    assert ({"N": size} in shapes) is is_kept


def test_checkers_share_the_parents_and_each_keeps_its_own(monkeypatch):
    calls = []
    monkeypatch.setattr(Checker, "check", lambda own, source, _: calls.append((own, source)))
    monkeypatch.setattr(Checker, "prepare", lambda own, _: calls.append((own, "prepare")))
    monkeypatch.setattr(Checker, "start", lambda _: None)
    first, second = brief(COLUMN_SUM), brief(SOFTMAX)
    with Checkers(2) as several:
        several.prepare(first)
        for source, parent in (("a", second), ("b", first), ("c", second)):
            several.check(source, parent)
    one, other = calls[0][0], calls[1][0]
    assert one is not other
    assert calls == [(one, "prepare"), (other, "a"), (one, "b"), (other, "c")]


def test_the_other_checkers_load_once_the_first_variant_comes(monkeypatch):
    started = []
    monkeypatch.setattr(Checker, "start", lambda own: started.append(own))
    monkeypatch.setattr(Checker, "check", lambda *_: (Checked.RIGHT, ""))
    monkeypatch.setattr(Checker, "prepare", lambda *_: None)
    with Checkers(3) as several:
        several.start()
        several.prepare(brief(COLUMN_SUM))
        assert len(started) == 1
        for source in ("a", "b"):
            several.check(source, brief(COLUMN_SUM))
    assert len(started) == 3
    assert len(set(map(id, started))) == 3


def test_a_checker_that_was_started_shows_the_folder_of_its_parents(monkeypatch):
    jobs = Mock()
    jobs.call.return_value = "it lacks a size", b""
    monkeypatch.setattr(interpreter_check, "_start_jobs", lambda: jobs)
    with Checkers(2) as several:
        several.start()
        several.prepare(brief(COLUMN_SUM))
    (shown,) = jobs.start.call_args.args
    assert {call.kwargs["shown"] for call in jobs.call.mock_calls} == {shown}
    closed = Checker()
    closed.close()
    with pytest.raises(UnsupportedError, match="the checks have ended"):
        closed.start()


def test_closed_checks_start_nothing(monkeypatch, tmp_path):
    start = Mock()
    monkeypatch.setattr(interpreter_check, "_start_jobs", start)
    own = Checker()
    own.close()
    with pytest.raises(UnsupportedError, match="the checks have ended"):
        own._call_worker(tmp_path, "judge")  # of a thread that nobody waits for
    assert start.mock_calls == []


SOLUTION = """
import torch, triton
import triton.language as tl

@triton.jit
def kernel(x, y, factor, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)

def run(x, factor, y):
    kernel[(triton.cdiv(x.numel(), 64),)](x, y, factor, x.numel(), BLOCK=64)
"""


@pytest.mark.quick("sol-execbench")
@pytest.mark.parametrize("form", ["sol-execbench", "flashinfer-bench"])
def test_solutions_are_judged_by_their_benchmarks_definition(checker, form):
    workloads = [workload("a", M=16), workload("b", M=8)]
    folder = Path(checker._root().name, form)  # its sandbox shows it: another would load torch
    folder.mkdir()
    if form == "sol-execbench":
        definition = str(Path(sol_folder(folder, workloads), "definition.json"))
    else:
        definition = flashinfer_set(folder, workloads)
    about = replace(brief("", M=16), source=SOLUTION, reference="of another", definition=definition)
    wrong = SOLUTION.replace("* factor", "+ factor")
    result, why = checker.check(wrong, about)
    assert result is Checked.WRONG, why
    result, why = checker.check(SOLUTION.replace("64", "32"), about)
    assert result is Checked.RIGHT, why


def test_rows_that_no_size_decides_are_tried_fewer_at_a_time(tmp_path):
    """A row of 4096 elements is a loop of 64 trips over blocks of 64, say, for each program."""
    axes = {"M": {"type": "var"}, "N": {"type": "const", "value": 4096}}
    folder = sol_folder(tmp_path, [workload("a", M=8192)], axes=axes)
    loaded = kernelfiles.load(folder)
    assert fixed_weight(loaded, {"M": 8192}) == 64
    sizes = [size.shape["M"] for size in sizes_to_try({"M": 8192}, weight=64)]
    assert max(size for size in sizes if size != 8192) == 128 * 128 // 64
    tiny = [size for size in sizes_to_try({"M": 8192}, weight=64) if size.is_tiny_problem]
    assert {size.shape["M"] for size in tiny} >= {8, 9, 1, 29}
    assert all(size.shape["M"] * 64 <= 4096 for size in tiny)
    (tmp_path / "all_sizes.py").write_text(HEADER + SOFTMAX)
    assert fixed_weight(kernelfiles.load(str(tmp_path / "all_sizes.py")), ROWS) == 1
