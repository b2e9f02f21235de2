"""What tests of commands share lies beside them: `cli_reports`."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import pytest
import typer.main
import typer.testing

from solkit.cli import _base

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True, scope="session")
def one_command_line():
    """Let Typer read all signatures once, not at each call: most of a call's time."""
    command_of = functools.cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", command_of)
        patch.setattr(typer.testing, "_get_command", command_of)
        yield


@pytest.fixture(autouse=True)
def any_file(monkeypatch):
    """Files that a test names need not exist."""
    monkeypatch.setattr(_base, "check_readable", lambda *_: None)
