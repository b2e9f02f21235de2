"""ShinkaEvolve's contract: two files a candidate; and its own reader where it is installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from solkit.datasets.kernels import ZOO
from solkit.integrations.grading import FEATURES, Graded, Stage
from solkit.integrations.sessions import METRICS, without_markers
from solkit.integrations.shinka import correct_of, main, metrics_of, write_results

EXAMPLE = Path(__file__).parents[2] / "examples" / "shinka"
RIGHT = Graded("correct", Stage.MEASURED, 0.8, {"num_warps": 4}, 0.05, 1.5, 0.6, reasons=("why",))
REJECTED = Graded("not_measured", Stage.REJECTED, 0.3, forecast_ms=0.2, reasons=("It is slow.",))
PASSED = Graded("not_measured", Stage.PASSED, 0.5)
WRONG = Graded("wrong", Stage.MEASURED, 0.0, reasons=("Other values.",))


def read(folder):
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["correct.json", "metrics.json"]
    return tuple(json.loads((folder / name).read_text()) for name in names)


@pytest.mark.parametrize("graded", [RIGHT, REJECTED, PASSED, WRONG])
def test_both_files_are_written_with_their_keys(tmp_path, graded):
    write_results(tmp_path / "new" / "results", graded)
    correct, metrics = read(tmp_path / "new" / "results")
    assert correct.keys() == {"correct", "error"}
    assert metrics.keys() == {"combined_score", "public", "private", "text_feedback"}
    assert metrics["combined_score"] == graded.combined_score
    assert {*METRICS, *FEATURES} <= metrics["private"].keys()
    assert metrics["public"]["verdict"] == graded.verdict


def test_only_what_was_measured_is_correct():
    assert correct_of(RIGHT) == {"correct": True, "error": None}
    assert correct_of(REJECTED)["correct"] is False
    assert correct_of(REJECTED)["error"].startswith("not measured: rejected by forecast")
    assert "It is slow." in correct_of(REJECTED)["error"]
    assert correct_of(PASSED)["error"].startswith("not measured")
    assert correct_of(WRONG) == {"correct": False, "error": "wrong: Other values."}


def test_what_is_unknown_is_not_shown():
    public = metrics_of(RIGHT)["public"]
    assert (public["time_ms"], public["gap"], public["sol_score"]) == (0.05, 1.5, 0.6)
    assert metrics_of(REJECTED)["public"] == {"verdict": "not_measured", "forecast_ms": 0.2}
    assert "It is slow." in metrics_of(REJECTED)["text_feedback"]


def test_a_command_that_cannot_grade_leaves_files_and_fails(tmp_path, capsys):
    common = ["--program_path", "c.py", "--results_dir", str(tmp_path)]
    for wrong in (
        ["--problem", "nothing.py"],
        ["--problem", str(ZOO / "softmax/problem.py"), "--shape", "{"],
    ):
        assert main([*common, *wrong]) == 1
        correct, metrics = read(tmp_path)
        assert (correct["correct"], metrics["combined_score"]) == (False, 0)
        assert "not measured" in correct["error"]
        assert capsys.readouterr().err.startswith("error: ")


def test_a_missing_candidate_is_graded(tmp_path):
    problem = str(ZOO / "softmax/problem.py")
    arguments = ["--problem", problem, "--url", "http://127.0.0.1:9"]
    missing = ["--program_path", str(tmp_path / "c.py"), "--results_dir", str(tmp_path / "r")]
    assert main([*arguments, *missing]) == 0
    correct, metrics = read(tmp_path / "r")
    assert (correct["correct"], metrics["combined_score"]) == (False, 0)


def test_shinkas_own_reader_reads_them(tmp_path):
    utils = pytest.importorskip("shinka.utils", reason="ShinkaEvolve is not installed")
    write_results(tmp_path, RIGHT)
    results = utils.load_results(str(tmp_path))
    assert results["correct"] == correct_of(RIGHT)
    assert results["metrics"] == metrics_of(RIGHT)


def test_the_example_starts_from_a_recorded_source():
    text = (EXAMPLE / "initial.py").read_text()
    assert text.startswith("# EVOLVE-BLOCK-START\n")
    assert without_markers(text) == (ZOO / "softmax/three_pass.py").read_text()
    yaml = pytest.importorskip("yaml")
    config = yaml.safe_load((EXAMPLE / "config.yaml").read_text())
    assert config["evo"]["embedding_model"] is None
