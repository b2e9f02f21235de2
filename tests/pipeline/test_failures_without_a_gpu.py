"""What a candidate does wrong on every GPU is its failure; what only the fake GPU lacks is not."""

from __future__ import annotations

import re

import pytest

from solkit import score
from solkit.core import MeasureSettings, Verdict
from solkit.errors import UnsupportedError

PROBLEM = """
import importlib, os, time
import torch, triton, triton.language as tl

def reference(x): return x + 1
def inputs(N=64, device="cuda"): return (torch.randn(N, device=device),)

@triton.jit
def add(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at) + 1)

def launch(x, grid=(1,), **options):
    out = torch.empty_like(x)
    add[grid](x, out, BLOCK=64, **options)
    return out

def kernel(x):
"""


def scored(tmp_path, body, limit_s=600.0):
    path = tmp_path / "candidate.py"
    path.write_text(PROBLEM + "".join(f"    {line}\n" for line in body.splitlines()))
    settings = MeasureSettings(time_limit_s=limit_s)
    (result,) = score(path, device="h100", settings=settings, measure=False).results
    return result


@pytest.mark.quick("num_warps must")
@pytest.mark.parametrize(
    ("body", "verdict", "why"),
    [
        ("raise ValueError('boom')", Verdict.CRASHED, r":\d+: ValueError: boom"),
        ("raise KeyboardInterrupt", Verdict.CRASHED, "KeyboardInterrupt"),
        ("raise SystemExit(5)", Verdict.CRASHED, "SystemExit: 5"),
        ("return kernel(x)", Verdict.CRASHED, "RecursionError"),
        ("return [x][x.shape[0]]", Verdict.CRASHED, "IndexError"),
        ("return launch(x, num_warps=3)", Verdict.CRASHED, "num_warps must be a power of 2"),
        ("return launch(x, no_such=3)", Verdict.CRASHED, "no_such"),
        (
            "return launch(x, grid=(1, 65536))",
            Verdict.CRASHED,
            r"refuses a grid of \(1, 65536, 1\)",
        ),
        ("while True: time.sleep(1)", Verdict.TIMED_OUT, r":\d+: it ran for over 1 s"),
        ("while True:\n    try: x + 1\n    except Exception: pass", Verdict.TIMED_OUT, "over 1 s"),
        pytest.param(  # C code that never returns
            *("sum(range(10**13))", Verdict.TIMED_OUT, "too much CPU time"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_failure_is_the_candidates_and_names_its_line(tmp_path, body, verdict, why):
    result = scored(tmp_path, body, 2.0 if verdict is Verdict.TIMED_OUT else 600.0)
    assert result.verdict is verdict
    assert result.errors[0] in result.analysis.notes
    assert re.search(why, result.errors[0])


@pytest.mark.quick("os.kill(os.getpid(), 9)")
@pytest.mark.parametrize(
    "body",
    [
        "return launch(x)",
        "return launch(x, grid=(-1,))",  # Triton launches nothing
        "if x.sum() >= 0: raise ValueError('a guess')\nreturn 1 / 0",
        "importlib.import_module('not_installed_here')",
        "try: importlib.import_module('not_installed_here')\nexcept ImportError: raise TypeError",
        "raise OSError('libfoo.so is missing')",
        "return torch.ops.no_such_library.op(x)",
        "return launch(x, B=triton.testing.nvsmi(['power.draw'])[0])",  # no number without a GPU
        "os.kill(os.getpid(), 9)",
    ],
)
def test_what_may_work_on_a_gpu_is_not_measured(tmp_path, body):
    assert scored(tmp_path, body).verdict is Verdict.NOT_MEASURED


def test_a_negative_grid_is_noted(tmp_path):
    notes = scored(tmp_path, "return launch(x, grid=(-1,))").analysis.notes
    assert any(note.endswith("a grid of (-1, 1, 1) launches nothing") for note in notes)


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", "/dev/null/cache")
    monkeypatch.setenv("SOLKIT_CACHE", "/dev/null/cache")
    (kernel,) = scored(tmp_path, "return launch(x)").analysis.kernels
    assert kernel.error is None
    assert kernel.facts.registers


FULL_DISK = """
import triton.runtime.cache
def put(*_, **__): raise OSError(28, "No space left on device")
triton.runtime.cache.FileCacheManager.put = put
return launch(x)
"""


def test_a_full_disk_is_no_fault_of_the_candidate(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))  # which holds no such kernel
    with pytest.raises(UnsupportedError, match=r"cannot compile the kernels: .*No space left"):
        scored(tmp_path, FULL_DISK.strip())
