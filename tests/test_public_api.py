"""The public names, what importing them costs, and how the rooms are linked."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import solkit

ROOT = Path(solkit.__file__).parent.parent

PUBLIC = """
Analysis Batch BatchSettings BestAlgorithm Bound Comparison ComparisonReport Device Difference
Evaluation EvolveSettings Evolved Fusion InputError KernelFile KernelFileError Lab MeasureSettings
ParamsError Profile Report Result Score ShapeError SolkitError Surrogate TuneSettings Tuned
UnknownDeviceError UnsupportedError Verdict WorkerError
analyse applied apply ask_tell batch best bound bounds close compare compile devices evolve fusion
load profile rank recording score tune tune_call
""".split()


def test_the_public_names_are_these():
    assert sorted(solkit.__all__) == sorted(PUBLIC)
    assert all(getattr(solkit, name) is not None for name in PUBLIC)
    functions = [name for name in PUBLIC if name.islower()]
    assert len(functions) == 21
    assert all(callable(getattr(solkit, name)) for name in functions)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        solkit.nothing  # noqa: B018


KERNEL = """
import torch, triton, triton.language as tl

SPACE = {"BLOCK": [256, 512]}

def inputs(N=4096, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * 2

@triton.jit
def double(x, out, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, at < N), at < N)

def kernel(x, *, BLOCK=256):
    out = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), BLOCK),)](x, out, x.numel(), BLOCK=BLOCK)
    return out
"""
STEPS = {
    "import": "import solkit, solkit.pipeline, solkit.cli",
    "score": "solkit.score({path!r}, device='h100')",
    "rank": "solkit.rank({path!r}, device='h100')",
}
HEAVY = ("torch", "triton", "transformers", "xgboost", "polars", "pyarrow")


def heavy_modules(*steps):
    """The heavy modules that one process has after each step."""
    tell = f"print([m for m in {HEAVY} if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", "\n".join(["import sys", *(f"{step}; {tell}" for step in steps)])],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    return list(map(ast.literal_eval, result.stdout.splitlines()))


def test_importing_solkit_imports_nothing_heavy():
    assert heavy_modules(STEPS["import"]) == [[]]


@pytest.mark.slow
def test_the_callers_process_imports_no_torch_and_no_language_model(tmp_path):
    """One process, which warms up once."""
    path = tmp_path / "double.py"
    path.write_text(KERNEL, encoding="utf-8")
    steps = [step.format(path=str(path)) for step in STEPS.values()]
    loaded = dict(zip(STEPS, heavy_modules(*steps), strict=True))
    assert loaded["import"] == []
    assert set(loaded["score"]) <= {"xgboost"}  # trees forecast, unless the cache knows
    assert loaded["rank"] == ["xgboost"]


@pytest.mark.parametrize("room", ["roofline", "surrogate", "tuner", "datasets"])
def test_rooms_are_linked_into_the_package(room):
    link = ROOT / "solkit" / room
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("installed from a wheel: there the rooms are plain folders")
    assert link.is_symlink()
    assert link.readlink() == Path("..") / room
    assert (ROOT / room).is_dir()


def test_datasets_shadows_nobody():
    assert not (ROOT / "datasets" / "__init__.py").exists()


def test_analyse_stays_a_function_after_its_room_was_imported():
    import solkit.analysis

    assert callable(solkit.analyse)
