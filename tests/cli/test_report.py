"""``solkit report``, and what ``solkit score`` does with several kernels."""

import json
import sys
import types
from dataclasses import replace

import pytest
from cli_reports import NOT_MEASURED, report_of, solkit

from solkit.core import (
    Score,
    Verdict,
)
from solkit.errors import KernelFileError
from solkit.pipeline import hinting
from solkit.pipeline.hinting import Hint
from solkit.report import schema


@pytest.fixture
def pipeline(monkeypatch):
    """`solkit.pipeline` that gives each file a report, and raises where told to."""
    fake = types.ModuleType("solkit.pipeline")
    fake.results, fake.raised, fake.asked = {}, {}, []

    def score(path, **_):
        fake.asked.append(path)
        if path in fake.raised:
            raise fake.raised[path]
        return report_of(*fake.results.get(path, ()), path=path)

    fake.score = score
    monkeypatch.setitem(sys.modules, "solkit.pipeline", fake)
    monkeypatch.setattr(sys.modules["solkit"], "pipeline", fake, raising=False)
    return fake


def written(folder, name="kernel"):
    path = folder / f"{name}.json"
    path.write_text(schema.dumps(report_of(path=f"{name}.py")))
    return path


# ------------------------------------------------------------------------ solkit report


def test_a_report_is_shown(tmp_path):
    outcome = solkit("report", written(tmp_path))
    assert outcome.exit_code == 0
    assert "kernel  kernel.py · native" in outcome.stdout


def test_two_are_compared(tmp_path):
    paths = written(tmp_path, "one"), written(tmp_path, "two")
    assert "compared at M=4096" in solkit("report", *paths).stdout


def test_what_is_no_report_is_named(tmp_path):
    (tmp_path / "notes.json").write_text("{}")
    outcome = solkit("report", tmp_path / "notes.json")
    assert outcome.exit_code == 2
    assert "notes.json is not a solkit.score/1 report" in outcome.stderr


@pytest.mark.slow
def test_a_page_and_figures(tmp_path):
    pytest.importorskip("plotly")
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    html, figures = tmp_path / "page.html", tmp_path / "figures"
    outcome = solkit("report", written(tmp_path), "--html", html, "--figures", figures)
    assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (0, "", "")
    assert "<title>kernel on NVIDIA H100 80GB HBM3" in html.read_text()
    assert figures.is_dir()


@pytest.mark.parametrize("option", ["--html", "--figures"])
def test_what_cannot_be_written_is_refused_before_the_work(pipeline, option):
    outcome = solkit("score", "a.py", option, "/proc/version/x")
    assert outcome.exit_code == 2
    assert f"{option}: cannot" in outcome.stderr
    assert pipeline.asked == []


def test_a_page_is_no_output_for_a_pipe(pipeline):
    outcome = solkit("score", "a.py", "--html", "-")
    assert outcome.exit_code == 2
    assert "--html: name a file" in outcome.stderr
    assert pipeline.asked == []


@pytest.mark.parametrize(
    ("option", "package"), [("--html", "plotly"), ("--html", "jinja2"), ("--figures", "matplotlib")]
)
def test_a_missing_package_is_named_before_the_work(
    pipeline, monkeypatch, tmp_path, option, package
):
    monkeypatch.setitem(sys.modules, package, None)
    outcome = solkit("score", "a.py", option, tmp_path / "out")
    assert outcome.exit_code == 2
    assert "pip install 'solkit[report]'" in outcome.stderr
    assert package in outcome.stderr
    assert pipeline.asked == []


# --------------------------------------------------------------- solkit score, several kernels


def test_a_bad_file_does_not_stop_the_rest(pipeline):
    pipeline.raised["b.py"] = KernelFileError("no reference", "b.py", 3)
    outcome = solkit("score", "a.py", "b.py", "c.py")
    assert pipeline.asked == ["a.py", "b.py", "c.py"]
    assert outcome.exit_code == 2
    assert "b.py:3: no reference" in outcome.stderr
    assert "a  a.py" in outcome.stdout
    assert "c  c.py" in outcome.stdout
    assert "worst first" in outcome.stdout


@pytest.mark.slow
def test_the_gravest_exit_code_counts(pipeline):
    def graded(verdict, sol_score=0.9):
        return (replace(NOT_MEASURED, verdict=verdict, score=Score(2.0, None, sol_score, 0.5)),)

    pipeline.results = {
        "slow.py": graded(Verdict.CORRECT, 0.1),
        "wrong.py": graded(Verdict.WRONG),
        "impossible.py": graded(Verdict.IMPOSSIBLE),
        "good.py": graded(Verdict.CORRECT),
    }
    pipeline.raised = {"bad.py": KernelFileError("no", "bad.py"), "bug.py": ZeroDivisionError("x")}
    ascending = ["good.py", "slow.py", "bad.py", "wrong.py", "impossible.py", "bug.py"]
    for i, code in enumerate([0, 5, 2, 3, 4, 1]):
        files = [ascending[i], *ascending[:i]]
        if len(files) > 1:
            assert solkit("score", *files, "--fail-under", "0.5").exit_code == code


def test_an_interrupt_stops_all(pipeline):
    pipeline.raised["a.py"] = KeyboardInterrupt()
    assert solkit("score", "a.py", "b.py").exit_code == 130
    assert pipeline.asked == ["a.py"]


@pytest.mark.usefixtures("pipeline")
def test_json_of_several_is_a_file_each(tmp_path):
    folder = tmp_path / "new" / "reports"
    assert solkit("score", "x/a.py", "b.py", "y/a.py", "--json", folder).exit_code == 0
    paths = {path.name: schema.read(path).kernel.path for path in folder.iterdir()}
    assert paths == {"a.json": "x/a.py", "b.json": "b.py", "a-2.json": "y/a.py"}
    assert schema.read(folder / "a.json").written is not None
    (tmp_path / "file").write_text("kept")
    outcome = solkit("score", "a.py", "b.py", "--json", tmp_path / "file")
    assert outcome.exit_code == 2
    assert "--json" in outcome.stderr
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.usefixtures("pipeline")
def test_json_of_several_on_stdout_is_a_line_each():
    outcome = solkit("score", "a.py", "b.py", "--json", "-")
    names = [json.loads(line)["kernel"]["name"] for line in outcome.stdout.splitlines()]
    assert names == ["a", "b"]


def test_each_report_is_on_disk_before_the_next_kernel(pipeline, tmp_path):
    seen, score = [], pipeline.score

    def counting(path, **_):
        seen.append(len(list(tmp_path.iterdir())))
        return score(path)

    pipeline.score = counting
    solkit("score", "a.py", "b.py", "c.py", "--json", tmp_path)
    assert seen == [0, 1, 2]


@pytest.mark.slow
def test_the_index_names_what_failed(pipeline, tmp_path):
    pytest.importorskip("plotly")
    pytest.importorskip("jinja2")
    pipeline.raised["b.py"] = KernelFileError("no <reference>", "b.py", 3)
    html = tmp_path / "index.html"
    assert solkit("score", "a.py", "b.py", "--html", html).exit_code == 2
    text = html.read_text()
    assert "b.py:3: no &lt;reference&gt;" in text
    assert 'href="#k1">a</a>' in text


def test_a_solution_is_for_one_problem(pipeline):
    outcome = solkit("score", "a", "b", "--solution", "s.json")
    assert outcome.exit_code == 2
    assert "--solution s.json takes one problem, got 2" in outcome.stderr
    assert pipeline.asked == []


@pytest.mark.usefixtures("pipeline")
def test_a_hint_is_a_line_and_a_field(monkeypatch, tmp_path):
    hint = Hint({"BLOCK": 128, "num_warps": 8}, 2.04, 1.5, "lowered")
    monkeypatch.setattr(hinting, "hints_for_report", lambda *_: {0: hint})
    outcome = solkit("score", "softmax.py", "--json", tmp_path / "it.json")
    words = " ".join(outcome.stdout.split())
    assert "Hint: BLOCK=128, num_warps=8 is expected to be 2.0 times as fast" in words
    (result,) = json.loads((tmp_path / "it.json").read_text())["results"]
    assert result["hint"] == {
        "params": {"BLOCK": 128, "num_warps": 8},
        "speedup": 2.04,
        "least_speedup": 1.5,
        "depth": "lowered",
    }
    assert schema.read(tmp_path / "it.json").results[0].hint.speedup == 2.04


@pytest.mark.usefixtures("pipeline")
def test_without_a_hint_the_field_is_null(tmp_path):
    outcome = solkit("score", "softmax.py", "--json", tmp_path / "it.json")
    assert "Hint" not in outcome.stdout
    (result,) = json.loads((tmp_path / "it.json").read_text())["results"]
    assert result["hint"] is None


def test_code_that_nobody_trusts_is_not_looked_at(monkeypatch, pipeline):
    monkeypatch.setattr(hinting, "hints_for_report", lambda *_: pytest.fail("it looked"))
    assert solkit("score", "softmax.py", "--sandbox").exit_code == 0
    assert pipeline.asked
