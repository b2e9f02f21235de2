"""`solkit diff`: what reaches the pipeline, the page, the JSON and the exit codes."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from solkit.cli import app
from solkit.core import CandidateDiff, Change, Diff, Side, Standing
from solkit.pipeline import diffing

run = CliRunner().invoke
WORSE = Change("registers", "f", "", 50, 60, True, 1.2, "registers per thread 50 → 60")
SIDES = Side("Triton 1.0", "h100-sxm", "1.0"), Side("Triton 2.0", "h100-sxm", "2.0")


def diff_of(failed=(), changes=(WORSE,)):
    row = CandidateDiff("k.py", "k.py", {}, {}, Standing(1.0), Standing(1.0), changes)
    return Diff(*SIDES, (row,), dict(failed))


@pytest.fixture
def diff_calls(monkeypatch, tmp_path):
    """Arguments of the last call; its answer can be set."""
    calls = {"answer": [diff_of()]}

    def answer(*arguments):
        calls["arguments"] = arguments
        return calls["answer"]

    monkeypatch.setattr(diffing, "diff", answer)
    monkeypatch.chdir(tmp_path)
    for name in ("a.py", "k.py"):
        (tmp_path / name).write_text("def kernel(): ...\n")
    return calls


def test_options_reach_the_pipeline(diff_calls):
    options = "--triton 3.7.1 --triton /x --device h100,b200 --first --configs 3 --map M=rows"
    sets = ["--params", "A=1,B=2", "--params", "A=2", "--no-forecast"]
    assert run(app, ["diff", "k.py", "a.py", *options.split(), *sets]).exit_code == 0
    files, axes, reference, settings = diff_calls["arguments"]
    assert files == ["k.py", "a.py"]
    assert axes.triton == ("3.7.1", "/x")
    assert axes.devices == ("h100", "b200")
    assert axes.params == ({"A": 1, "B": 2}, {"A": 2})
    assert reference is None
    assert (settings.first, settings.configurations, settings.forecasts) == (True, 3, False)
    assert settings.names == {"M": "rows"}


def test_a_folder_stands_for_its_kernel_files(diff_calls):
    run(app, ["diff", ".", "--device", "h100,b200"])
    assert [name.rpartition("/")[2] for name in diff_calls["arguments"][0]] == ["a.py", "k.py"]


@pytest.mark.parametrize(
    ("options", "answer", "code"),
    [
        ([], [diff_of()], 0),
        (["--threshold", "0.1"], [diff_of()], 5),
        (["--threshold", "0.3"], [diff_of()], 0),
        (["--threshold", "0.1"], [diff_of(failed=[("b.py", "no")])], 2),
    ],
)
def test_exit_codes(diff_calls, options, answer, code):
    diff_calls["answer"] = answer
    assert run(app, ["diff", "k.py", "--rev", "HEAD", *options]).exit_code == code


@pytest.mark.usefixtures("diff_calls")
def test_json_goes_to_stdout_alone():
    result = run(app, ["diff", "k.py", "--rev", "HEAD", "--json", "-"])
    assert json.loads(result.stdout)["schema"] == "solkit.diff/1"


@pytest.mark.usefixtures("diff_calls")
def test_html_is_written(tmp_path):
    run(app, ["diff", "k.py", "--rev", "HEAD", "--html", "d.html"])
    assert "registers per thread 50 → 60" in (tmp_path / "d.html").read_text()


@pytest.mark.usefixtures("diff_calls")
def test_a_pair_of_names_without_a_sign_is_refused():
    result = run(app, ["diff", "k.py", "--rev", "HEAD", "--map", "M"])
    assert result.exit_code == 2
    assert "'M' is not NAME=OWN" in result.stderr
