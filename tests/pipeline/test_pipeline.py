"""The public functions: what they take, and files that end or hang the process that reads them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

import solkit
from solkit.core import AnalysisStatus, MeasureSettings, Verdict
from solkit.errors import InputError, KernelFileError
from solkit.pipeline.target import target_device
from solkit.roofline import devices, nvml

PROBLEM = """
def inputs(N=1024, device="cuda"):
    return torch.randn(N, device=device)
def reference(x):
    return x * 2
"""


@pytest.mark.slow
def test_a_path_may_be_any_path_like(write):
    problem = Path(write(PROBLEM))
    candidate = Path(write("def kernel(x):\n    return x * 2\n", "candidate.py"))
    assert solkit.load(candidate, reference=problem).candidate.path == str(candidate)
    report = solkit.score(candidate, device="h100", reference=problem)
    assert report.kernel.problem.path == str(problem)
    assert solkit.bound(problem, "h100", reference=None).time_ms > 0


def test_no_shapes_are_not_the_files_own_shapes(write):
    with pytest.raises(InputError, match="shapes: expected at least one"):
        solkit.score(write(PROBLEM), device="h100", shapes=[])


@pytest.mark.parametrize("device", [5, b"h100", Path("h100")])
def test_a_device_is_a_name_or_a_device(write, device):
    with pytest.raises(InputError, match="device: expected a name"):
        solkit.score(write(PROBLEM), device=device)


def test_a_file_that_never_ends_being_read_is_given_up_at_its_time_limit(write):
    path = write("while True: pass\n" + PROBLEM)
    with pytest.raises(KernelFileError, match=r"its process ran for over 0\.5 s and was") as fault:
        solkit.score(path, device="h100", settings=MeasureSettings(study_limit_s=0.5))
    assert "solkit" not in fault.value.message


@pytest.mark.slow
def test_a_candidate_that_hangs_costs_the_analysis_alone(write):
    path = write(PROBLEM + "def kernel(x):\n    while True: pass\n")
    solkit.bounds(path, device="h100")  # is known from then on, however short the time is
    settings = MeasureSettings(study_limit_s=0.5)
    result = solkit.score(path, device="h100", measure=False, settings=settings).results[0]
    assert result.bound.time_ms > 0
    assert result.analysis.status is AnalysisStatus.OUT_OF_TIME
    assert result.verdict is Verdict.NOT_MEASURED  # compilers may have taken the time
    assert "ran for over 0.5 s" in result.analysis.notes[0]


def test_relative_paths_follow_the_callers_working_directory(write, monkeypatch):
    folder, name = os.path.split(write(PROBLEM))
    solkit.devices()
    monkeypatch.chdir(folder)
    assert solkit.load(name).problem.sizes == {"N": 1024}


def test_a_shape_that_ends_the_process_costs_that_shape_alone(write):
    body = PROBLEM.replace("return x * 2", "os._exit(7) if len(x) == 3 else None\n    return x * 2")
    report = solkit.bounds(
        write("import os\n" + body), device="h100", shapes=[{"N": 3}, {"N": 1024}]
    )
    assert [result.shape["N"] for result in report.results] == [1024]
    (failed,) = report.failed
    assert failed.shape == {"N": 3}
    assert "ended with exit code 7" in failed.error


def test_the_first_shape_is_the_one_that_is_asked_for(write):
    path = write(PROBLEM + "SHAPES = [{'N': -1}, {'N': 8}]\n")
    with pytest.raises(InputError, match=r"problem\.py:5: calling inputs\(\)"):
        solkit.bound(path, "h100")
    assert len(solkit.bounds(path, device="h100").results) == 1


def test_a_score_says_what_fusion_is_worth(write):
    path = write(PROBLEM.replace("x * 2", "x * 2 + x"))
    (result,) = solkit.score(path, device="h100", measure=False).results
    assert result.fusion.fused_ms == result.bound.time_ms
    assert len(result.fusion.unfused) == 2
    assert result.fusion.worth == pytest.approx(2)  # one launch instead of two: so little is moved


@pytest.fixture
def two_gpus(monkeypatch):
    gpus = [replace(devices.find(name), source="nvml", uuid=name) for name in ("h100", "h200")]
    monkeypatch.setattr(nvml, "live_devices", lambda: tuple(gpus))
    monkeypatch.setattr(nvml, "live_device", gpus.__getitem__)


@pytest.mark.usefixtures("two_gpus")
def test_what_is_measured_on_is_the_target():
    assert target_device(None).uuid == "h100"
    assert target_device(None, MeasureSettings(on="cuda:1")).uuid == "h200"
    assert target_device("h200").uuid == "h200"
    assert target_device("h200", MeasureSettings(on="cuda:1")).uuid == "h200"
    with pytest.raises(InputError, match=r"cuda:1 is NVIDIA H200.*, not the target NVIDIA H100"):
        target_device("h100", MeasureSettings(on="cuda:1"))
    with pytest.raises(InputError, match="on: expected a GPU such as 'cuda:1', got 'h100'"):
        target_device(None, MeasureSettings(on="h100"))
