"""Twenty planted regressions of very different kernels: each is found, and named first."""

from __future__ import annotations

import functools
import importlib.metadata
import re
import sys
from pathlib import Path

import pytest

from solkit.pipeline.diff_sides import DiffAxes
from solkit.pipeline.diffing import DiffSettings, diff

FOLDER = Path(__file__).parent / "planted"
FILES = sorted(FOLDER.glob("*.py"))
QUICK = "added_vectors", "tiled_product", "long_softmax"
HOW = DiffSettings(first=True, forecasts=False)


@functools.cache
def compared(quick: bool):
    """The candidates of the quick files, or of the others, by name."""
    files = [file for file in FILES if (file.stem in QUICK) == quick]
    axes = DiffAxes(params=({"PLANT": False}, {"PLANT": True}), devices=("h100",))
    (result,) = diff(files, axes, settings=HOW)
    assert not result.failed
    return {Path(row.path).stem: row for row in result.candidates}


def planted_in(file: Path) -> str:
    return re.search(r'^PLANTED = "(\w+)"', file.read_text(encoding="utf-8"), re.MULTILINE)[1]


def test_there_are_twenty_of_three_kinds():
    kinds = [planted_in(file) for file in FILES]
    assert len(kinds) == 20
    assert {kinds.count(kind) for kind in ("vector_width", "pipeline", "spills")} <= {6, 7}


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, marks=() if file.stem in QUICK else pytest.mark.slow, id=file.stem)
        for file in FILES
    ],
)
def test_a_planted_regression_is_the_first_that_is_named(file):
    row = compared(file.stem in QUICK)[file.stem]
    assert row.exceeding(0.05)[0].name == planted_in(file)


@pytest.mark.slow
def test_an_interpreter_with_the_same_triton_changes_nothing():
    axes = DiffAxes(
        triton=(importlib.metadata.version("triton"), sys.executable), devices=("h100",)
    )
    (result,) = diff([FOLDER / "tiled_product.py"], axes, settings=HOW)
    (row,) = result.candidates
    assert row.is_compared
    assert row.ratio == 1.0
    assert row.changes == ()
