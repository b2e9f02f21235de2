"""What tests of the tuner share lies beside them: `spaces`, `tuning_rows`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from solkit.processes.jobs import Jobs
from solkit.tuner.interpreter_check import Checker

sys.path.insert(0, str(Path(__file__).parent))  # conftest.py is all that pytest can import here


@pytest.fixture(scope="session")
def checker() -> Iterator[Checker]:
    """One for all of a run: its server takes seconds to load torch and Triton's interpreter."""
    with Checker() as checker:
        yield checker


@pytest.fixture(scope="session")
def trials(one_process: Callable[..., Jobs], interpreting_jobs: Jobs) -> Iterator[Checker]:
    """A checker for variants that leave nothing behind: one process runs them all."""
    with Checker() as checker:
        checker._jobs = one_process(interpreting_jobs.server, {"TRITON_INTERPRET": "1"})
        yield checker
