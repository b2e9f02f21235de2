"""What tests of commands share lies beside them: `cli_reports`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from solkit.cli import _base

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def any_file(monkeypatch):
    """Files that a test names need not exist."""
    monkeypatch.setattr(_base, "check_readable", lambda *_: None)
