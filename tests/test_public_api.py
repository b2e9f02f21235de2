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
Analysis Batch BatchSettings Bound Comparison ComparisonReport Device Difference Evaluation
EvolveSettings Evolved Fusion InputError KernelFile KernelFileError Lab MeasureSettings
ParamsError Profile Report Result Score ShapeError SolkitError Surrogate TuneSettings Tuned
UnknownDeviceError UnsupportedError Verdict WorkerError
analyse ask_tell batch bound bounds compare devices evolve fusion load profile rank score tune
tune_call
""".split()


def test_the_public_names_are_these():
    assert sorted(solkit.__all__) == sorted(PUBLIC)
    assert all(getattr(solkit, name) is not None for name in PUBLIC)
    functions = [name for name in PUBLIC if name.islower()]
    assert len(functions) == 15
    assert all(callable(getattr(solkit, name)) for name in functions)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        solkit.nothing  # noqa: B018


STEPS = {
    "import": "import solkit, solkit.pipeline, solkit.cli",
    "score": "solkit.score('examples/softmax.py', device='h100')",
    "rank": "solkit.rank('examples/softmax.py', device='h100')",
}
HEAVY = ("torch", "triton", "transformers", "xgboost", "polars", "pyarrow")


@pytest.fixture(scope="module")
def loaded():
    """Which heavy modules a process has after each step; one process, which warms up once."""
    tell = f"print([m for m in {HEAVY} if m in sys.modules])"
    code = "\n".join(["import sys", *(f"{step}; {tell}" for step in STEPS.values())])
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    lines = [ast.literal_eval(line) for line in found.stdout.splitlines()]
    return dict(zip(STEPS, lines, strict=True))


@pytest.mark.parametrize(("step", "modules"), [("import", []), ("score", ["xgboost"])])
def test_the_callers_process_never_imports_torch(loaded, step, modules):
    assert set(loaded[step]) <= set(modules)  # trees forecast, unless the cache knows


def test_ranking_what_is_lowered_imports_no_language_model(loaded):
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
