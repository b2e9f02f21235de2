"""`solkit init` writes a new file, never over another."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from solkit.cli import app

BARE = """
import triton
import triton.language as tl

@triton.jit
def copy(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)
"""


def run(*words):
    """The exit code and all that a command prints."""
    done = CliRunner().invoke(app, ["init", *map(str, words)])
    return done.exit_code, done.output


def test_the_new_file_stands_beside_and_the_next_command_is_printed(tmp_path):
    path = tmp_path / "my-copy.py"
    path.write_text(BARE)
    code, out = run(path)
    assert code == 0
    assert f"solkit score {tmp_path / 'my_copy_solkit.py'}" in out
    assert '"y": "fp32[N]"' in (tmp_path / "my_copy_solkit.py").read_text()
    assert path.read_text() == BARE


def test_a_file_is_replaced_by_force_alone(tmp_path):
    (tmp_path / "a.py").write_text(BARE)
    (tmp_path / "b.py").write_text("mine")
    code, out = run(tmp_path / "a.py", "--out", tmp_path / "b.py")
    assert (code, (tmp_path / "b.py").read_text()) == (2, "mine")
    assert "--force" in out
    assert run(tmp_path / "a.py", "--out", tmp_path / "b.py", "--force")[0] == 0
    assert "LAUNCH" in (tmp_path / "b.py").read_text()


@pytest.mark.parametrize("out", ["a.py", "a.txt"])
def test_neither_the_file_itself_nor_another_kind_is_written(tmp_path, out):
    (tmp_path / "a.py").write_text(BARE)
    code, _ = run(tmp_path / "a.py", "--out", tmp_path / out, "--force")
    assert (code, (tmp_path / "a.py").read_text()) == (2, BARE)


def test_a_kernel_file_needs_nothing(tmp_path):
    (tmp_path / "a.py").write_text("class Model: ...\ndef get_inputs(): ...\n")
    code, out = run(tmp_path / "a.py")
    assert code == 0
    assert "nothing to do" in out
    assert [path.name for path in tmp_path.iterdir()] == ["a.py"]
