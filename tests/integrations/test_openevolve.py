"""OpenEvolve's contract, and its own evaluator where it is installed."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import textwrap
from pathlib import Path

import pytest

from solkit.datasets.kernels import ZOO
from solkit.integrations import openevolve
from solkit.integrations.grading import FEATURES, Graded, Stage
from solkit.integrations.openevolve import DIMENSIONS, functions_of, result_of
from solkit.integrations.sessions import without_markers

EXAMPLE = Path(__file__).parents[2] / "examples" / "openevolve"
GRADES = {
    "measured": Graded(
        "correct", Stage.MEASURED, 0.8, {"num_warps": 4}, 0.05, 1.5, 0.6, reasons=("why",)
    ),
    "rejected": Graded("not_measured", Stage.REJECTED, 0.3, forecast_ms=0.2, reasons=("slow",)),
    "passed": Graded("not_measured", Stage.PASSED, 0.5),
    "refused": Graded("cheating", Stage.REFUSED, 0.0, reasons=("it replaces a clock",)),
    "wrong": Graded("wrong", Stage.MEASURED, 0.0, reasons=("other values",)),
}
HAS_OPENEVOLVE = importlib.util.find_spec("openevolve") is not None


class Told:
    """Gives the grade that a program's text names; stage 1 passes what stage 2 measures."""

    def evaluate(self, path):
        return GRADES[Path(path).read_text().split()[1]]

    def stage1(self, path):
        graded = self.evaluate(path)
        return GRADES["passed"] if graded.stage is Stage.MEASURED else graded

    def stage2(self, path):
        return self.evaluate(path)


def without_openevolve(monkeypatch):
    monkeypatch.setitem(sys.modules, "openevolve.evaluation_result", None)


@pytest.mark.parametrize("name", GRADES)
def test_every_result_has_every_dimension_as_a_number(name, monkeypatch):
    without_openevolve(monkeypatch)
    metrics = result_of(GRADES[name])
    assert {*DIMENSIONS} <= metrics.keys()
    assert {*FEATURES, "combined_score"} <= {*DIMENSIONS}
    assert all(type(metric) is float for metric in metrics.values())
    assert metrics["combined_score"] == GRADES[name].combined_score
    assert ("time_ms" in metrics) == (name == "measured")


def test_reasons_are_artifacts():
    pytest.importorskip("openevolve", reason="OpenEvolve is not installed")
    result = result_of(GRADES["measured"])
    assert result.artifacts["reasons"] == "why"
    assert result.artifacts["verdict"] == "correct"
    assert "0.05 ms" in result.artifacts["time"]
    assert all(type(artifact) is str for artifact in result.artifacts.values())


def test_an_evaluator_file_has_the_three_functions_and_opens_nothing():
    functions = openevolve.evaluator(ZOO / "softmax/problem.py", url="http://127.0.0.1:9")
    assert functions._fields == ("evaluate", "evaluate_stage1", "evaluate_stage2")
    assert functions_of(Told()).evaluate is not None


def test_functions_never_raise(tmp_path, monkeypatch):
    without_openevolve(monkeypatch)
    functions = openevolve.evaluator(ZOO / "softmax/problem.py", recorded="h100")
    for function in functions:
        assert function(str(tmp_path / "missing.py"))["combined_score"] in (0, 0.5)


@pytest.mark.skipif(not HAS_OPENEVOLVE, reason="OpenEvolve is not installed")
def test_openevolves_own_evaluator_runs_the_cascade(tmp_path):
    from openevolve.config import EvaluatorConfig
    from openevolve.evaluator import Evaluator

    file = tmp_path / "evaluator.py"
    file.write_text(
        textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from solkit.integrations.openevolve import functions_of
        from test_openevolve import Told
        evaluate, evaluate_stage1, evaluate_stage2 = functions_of(Told())
        """)
    )
    config = EvaluatorConfig(cascade_evaluation=True, cascade_thresholds=[0.5], max_retries=0)
    evaluator = Evaluator(config, str(file))
    for name, graded in GRADES.items():
        metrics = asyncio.run(evaluator.evaluate_program(f"# {name}\n", name))
        assert metrics["combined_score"] == graded.combined_score, name
        assert {*DIMENSIONS} <= metrics.keys()
        assert evaluator.get_pending_artifacts(name)["verdict"] == graded.verdict


def test_the_example_starts_from_a_recorded_source_and_uses_known_dimensions():
    yaml = pytest.importorskip("yaml")
    text = without_markers((EXAMPLE / "initial_program.py").read_text())
    assert text == (ZOO / "softmax/three_pass.py").read_text()
    config = yaml.safe_load((EXAMPLE / "config.yaml").read_text())
    assert config["evaluator"]["cascade_thresholds"] == [0.5]
    assert config["evaluator"]["cascade_evaluation"] is True
    assert {*config["database"]["feature_dimensions"]} <= {*DIMENSIONS}
