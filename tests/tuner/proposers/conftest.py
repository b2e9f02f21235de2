"""What these tests share lies beside them, `hostile_answers`, and in tests/llm: `model_fakes`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from solkit.tuner.interpreter_check import Checker

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "llm")]


@pytest.fixture(scope="session")
def checker() -> Iterator[Checker]:
    """One for all of a run: its server takes seconds to load torch and Triton's interpreter."""
    with Checker() as made:
        yield made
