"""What is mended of Triton's interpreter."""

from __future__ import annotations

import pytest


@pytest.fixture
def answer(interpreted, tmp_path):
    """Run a program where Triton interprets kernels; gives its ``answer``."""

    def run(name, text):
        # Triton reads the source of a kernel
        (tmp_path / f"{name}.py").write_text(f"{text}\ndef get():\n    return answer\n")
        return interpreted(tmp_path, f"{name}:get")

    return run


PROGRAM = """
from types import SimpleNamespace
from triton.runtime import interpreter
from solkit.adapters import triton_interpreter

class Tensor:
    handle = SimpleNamespace(data=SimpleNamespace(squeeze=lambda: 3))  # `int` refuses it

triton_interpreter.install()
triton_interpreter.install()
scope = interpreter._LangPatchScope()
interpreter._patch_lang_tensor(Tensor, scope)
counted = list(range(Tensor()))
scope.restore()
answer = counted, hasattr(Tensor, "__index__")
"""


def test_scalars_bound_loops_whatever_numpy_thinks_of_arrays_of_one_element(answer):
    assert answer("scalars", PROGRAM) == ([0, 1, 2], False)


SUMS = """
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter
from solkit.adapters import triton_interpreter

triton_interpreter.install()
triton_interpreter.install()
looked = [0]
look = interpreter._patch_builtin

def counted(*args):
    looked[0] += 1
    return look(*args)

interpreter._patch_builtin = counted

@triton.jit
def sums(x, out, N, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = 0.0
    for start in range(0, N, BLOCK):
        total += tl.sum(tl.load(x + start + at), axis=0)
    tl.store(out, total + tl.max(tl.load(x + at), axis=0))

told = []
for n in (16, 16, 160):
    x, out = torch.arange(n, dtype=torch.float32), torch.zeros(1)
    looked[0] = 0
    sums[(1,)](x, out, n, BLOCK=16)
    told.append([out.item(), looked[0], tl.core.is_builtin(tl.load)])
try:
    sums[(1,)](x, out, "no number", BLOCK=16)
except Exception:
    told.append(tl.core.is_builtin(tl.load))
x, out = torch.arange(16, dtype=torch.float32), torch.zeros(1)
sums[(1,)](x, out, 16, BLOCK=16)
told.append(out.item())
answer = told
"""


def test_the_language_is_patched_once_a_launch_and_restored_after_it(answer):
    first, again, longer, *broken = answer("sums", SUMS)
    assert [first[0], again[0], longer[0]] == [120 + 15, 120 + 15, 160 * 159 / 2 + 15]
    assert again[1] == longer[1] > 0  # of as many calls: 2, and 11
    assert [item[2] for item in (first, again, longer)] == [True] * 3
    assert broken == [True, 120 + 15]


INFINITE = """
import warnings
import torch
import triton
import triton.language as tl
from solkit.adapters import triton_interpreter

triton_interpreter.install()
triton_interpreter.watch_launches(60.0)

@triton.jit
def shifted(x, out):
    at = tl.arange(0, 4)
    row = tl.load(x + at)
    tl.store(out + at, (row - tl.max(row, axis=0)) / 0.0)

x, out = torch.full((4,), float("-inf")), torch.zeros(4)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    shifted[(1,)](x, out)
answer = out.isnan().all().item(), [str(each.message) for each in told]
"""


def test_numpy_says_nothing_of_the_infinities_that_a_kernel_computes(answer):
    assert answer("infinite", INFINITE) == (True, [])


INTEGERS = """
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter
from solkit.adapters import triton_interpreter

triton_interpreter.install()
triton_interpreter.install()
triton_interpreter.watch_launches(60.0)
compared = []
less_equal = interpreter.interpreter_semantic.less_equal
interpreter.interpreter_semantic.less_equal = lambda *a: compared.append(a) or less_equal(*a)

@triton.jit
def wrapped(x, out, n):
    at = tl.program_id(0) * 4 + tl.arange(0, 4)
    value = tl.load(x + at, mask=at < n, other=7)
    tl.store(out + at, value * value + 1, mask=at < n)

x = torch.tensor([3, 2**31 - 1, -(2**31), 46341, 5, 0], dtype=torch.int32)
out = torch.zeros(6, dtype=torch.int32)
wrapped[(2,)](x, out, 6)
kinds = [tl.int1, tl.int32, tl.float16, tl.bfloat16, tl.pointer_type(tl.float32)]
kinds += [tl.block_type(kind, [4]) for kind in kinds]
answer = out.tolist(), len(compared), [interpreter._get_np_dtype(kind).name for kind in kinds]
"""


def test_integers_wrap_as_on_a_gpu_and_nothing_looks_for_it(answer):
    values = [3, 2**31 - 1, -(2**31), 46341, 5, 0]
    wrapped = [(v * v + 1 + 2**31) % 2**32 - 2**31 for v in values]
    assert answer("integers", INTEGERS) == (
        wrapped,
        0,
        ["bool", "int32", "float16", "uint16", "uint64"] * 2,
    )


BFLOAT16 = """
import torch
import triton
import triton.language as tl
from solkit.adapters import triton_interpreter

triton_interpreter.install()
triton_interpreter.install()

@triton.jit
def steps(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(out_ptr + at, (x + y) * x - y)
    tl.store(out_ptr + N + at, tl.maximum(x, y))
    tl.store(out_ptr + 2 * N + at, tl.where(x < y, -x, y))
    rows = tl.arange(0, N // 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    product = tl.dot(tl.load(x_ptr + rows), tl.load(y_ptr + rows))
    tl.store(out_ptr + 3 * N + rows, product)
    tl.store(out_ptr + 4 * N + tl.arange(0, N // 16), tl.sum(tl.load(y_ptr + rows), axis=1))
    tl.store(out_ptr + 4 * N + 16 + tl.arange(0, 16), (tl.arange(0, 16) - 5).to(tl.bfloat16))

x, y = (torch.randn(256, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
x, y = x.bfloat16(), y.bfloat16()
x[0] = float("nan")
out = torch.empty(5, 256, dtype=torch.bfloat16)
steps[(1,)](x, y, out, N=256)
product = (x.view(16, 16).float() @ y.view(16, 16).float()).view(-1)
expected = (x + y) * x - y, torch.maximum(x, y), torch.where(x < y, -x, y), product.bfloat16()
rows = [(a[16:], b[16:]) for a, b in zip(out, expected)]  # the first has the nan
answer = [torch.allclose(a, b, rtol=2**-7 * (i > 2), atol=0) for i, (a, b) in enumerate(rows)]
answer += [bool(out[0, 0].isnan())]
answer += [torch.allclose(out[4, :16].float(), y.view(16, 16).float().sum(1), rtol=2**-7)]
answer += [out[4, 16:32].tolist() == list(range(-5, 11))]
"""


def test_bfloat16_is_computed_with_its_values(answer):
    assert answer("bfloat16", BFLOAT16) == [True] * 7


ATOMICS = """
import torch
import triton
import triton.language as tl
from solkit.adapters import triton_interpreter

triton_interpreter.install()
triton_interpreter.install()

@triton.jit
def add(out, n, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = row[:, None] * 16 + tl.arange(0, 16)[None, :]
    value = tl.broadcast_to(tl.full((1, 1), 1.5, tl.float32), (ROWS, 16))
    tl.atomic_add(out + at, value, mask=(row < n)[:, None])

sums = []
for rows in (1, 2):
    out = torch.zeros(8, 16)
    add[(8 // rows,)](out, 5, ROWS=rows)
    sums.append(out.sum(1).tolist())
answer = sums
"""


def test_atomic_operations_take_a_mask_and_a_value_that_are_spread_over_a_block(answer):
    assert answer("atomics", ATOMICS) == [[24.0] * 5 + [0.0] * 3] * 2
