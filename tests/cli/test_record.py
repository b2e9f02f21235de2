"""``solkit record``: what it refuses, before and after the program ran."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from solkit.cli import app

PROGRAM = "import pathlib, sys\npathlib.Path(sys.argv[1]).write_text('ran')\n"


def record(tmp_path, out):
    (tmp_path / "step.py").write_text(PROGRAM)
    words = ["record", "--out", str(out), str(tmp_path / "step.py"), str(tmp_path / "trace")]
    return CliRunner().invoke(app, words)


def test_a_folder_that_cannot_be_made_is_refused_before_the_program_runs(tmp_path):
    (tmp_path / "file").touch()
    refused = record(tmp_path, tmp_path / "file")
    assert refused.exit_code == 2
    assert f"--out {tmp_path / 'file'}: cannot make the folder" in refused.output
    assert not (tmp_path / "trace").exists()


def test_a_program_without_launches_is_named(tmp_path):
    ran = record(tmp_path, tmp_path / "out")
    assert (ran.exit_code, (tmp_path / "trace").read_text()) == (2, "ran")
    assert "step.py launched no Triton kernel that could be recorded" in ran.output


ARGUMENTS = "import pathlib, sys\npathlib.Path(sys.argv[1]).write_text(' '.join(sys.argv[2:]))\n"


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (["--lr", "3"], "--lr 3"),
        (["--", "--lr", "3"], "--lr 3"),
        (["--", "--", "-v"], "-- -v"),
        (["--skip", "2", "x"], "--skip 2 x"),
        (["--skip=2", "x"], "--skip=2 x"),
    ],
)
def test_what_follows_the_program_is_its_own(tmp_path, words, arguments):
    script, trace = tmp_path / "step.py", tmp_path / "trace"
    script.write_text(ARGUMENTS)
    separator = words[:1] if words[0] == "--" else []
    words = [*separator, str(trace), *words[len(separator) :]]
    command = ["record", "--out", str(tmp_path / "out"), str(script), *words]
    ran = CliRunner().invoke(app, command)
    assert trace.read_text() == arguments
    own = f"--skip is {script}'s own; put it first to give it to solkit record"
    assert (own in ran.output.replace("\n", " ")) == ("--skip" in " ".join(words))


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["record", "-m", "train", "--lr", "3"], "solkit record python -m train --lr 3"),
        (["record", "--skip", "1", "-mtrain"], "solkit record --skip 1 python -mtrain"),
        (["run", "--apply", "tuned", "-m", "train"], "solkit run --apply tuned python -m train"),
    ],
)
def test_a_module_is_run_by_python(words, command):
    refused = CliRunner().invoke(app, words, prog_name="solkit", terminal_width=200)
    assert refused.exit_code == 2
    assert f"name Python before it: {command}" in " ".join(refused.output.replace("│", "").split())


def test_other_options_that_are_unknown_are_named():
    refused = CliRunner().invoke(app, ["record", "-x", "train.py"])
    assert (refused.exit_code, "No such option: -x" in refused.output) == (2, True)
