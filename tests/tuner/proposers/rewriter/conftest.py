"""The checker that tries what rewrites make of the kernels in `naive_kernels`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("libcst")
sys.path.insert(0, str(Path(__file__).parent))  # conftest.py is all that pytest can import here

from rewriting import brief

from solkit.core import Checked
from solkit.tuner.interpreter_check import Checker


@pytest.fixture
def is_right(trials: Checker) -> Callable[..., bool]:
    """Whether a variant computes what its source does, at even and awkward sizes."""

    def check(variant: str, source: str, **shape: int) -> bool:
        result, why = trials.check(variant, brief(source, **shape))
        assert result is Checked.RIGHT, why  # it says more than False would
        return True

    return check
