"""docs/cli.md: it names each command, and each exit code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

import solkit
from solkit.cli import Exit, app

DOCS = Path(solkit.__file__).parent.parent / "docs"
PAGE = (DOCS / "cli.md").read_text(encoding="utf-8")
COMMANDS = sorted(typer.main.get_command(app).commands)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_a_row_that_says_what_it_is_for(command):
    row = re.search(rf"^\| `solkit {command}` \|([^|]+)\|([^|]+)\|$", PAGE, re.MULTILINE)
    assert row is not None
    assert len(row[1].split()) > 4


def test_no_other_command_is_named():
    named = set(re.findall(r"^\$ solkit ([a-z]+)", PAGE, re.MULTILINE))
    assert named <= set(COMMANDS)


def test_each_exit_code_has_a_row():
    result = re.search(r"## Exit codes\n(.*?)\n## ", PAGE, re.DOTALL)[1]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", result, re.MULTILINE)} == set(Exit)
