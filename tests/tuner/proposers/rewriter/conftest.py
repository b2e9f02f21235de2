"""The checker that tries what rewrites make of the kernels in `naive_kernels`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("libcst")
sys.path.insert(0, str(Path(__file__).parent))  # conftest.py is all that pytest can import here

from rewriting import brief

from solkit.core import Checked
from solkit.processes.jobs import Jobs
from solkit.tuner.interpreter_check import Checker


@pytest.fixture(scope="session")
def trials(one_process: Callable[..., Jobs], interpreting_jobs: Jobs) -> Iterator[Checker]:
    """A checker of kernels that end and touch nothing else."""
    with Checker() as checker:
        checker._jobs = one_process(interpreting_jobs.server, {"TRITON_INTERPRET": "1"})
        yield checker


@pytest.fixture
def is_right(trials: Checker) -> Callable[..., bool]:
    """Whether a variant computes what its source does, at even and awkward sizes."""

    def check(variant: str, source: str, **shape: int) -> bool:
        result, why = trials.check(variant, brief(source, **shape))
        assert result is Checked.RIGHT, why  # it says more than False would
        return True

    return check
