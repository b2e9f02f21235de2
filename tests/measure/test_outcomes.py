"""What `solkit.score` measures is in its log, whole, before the next shape is measured."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

import solkit
from solkit.core import (
    Conditions,
    Facts,
    KernelAnalysis,
    Launch,
    LiveLaunch,
    Measurement,
    MeasureSettings,
    Needed,
    Protocol,
    Verdict,
)
from solkit.datasets.outcomelog import read
from solkit.errors import InputError, UnsupportedError
from solkit.measure import Judgement, Session
from solkit.measure.guarded.messages import Samples
from solkit.report.schema import to_json
from solkit.roofline import devices

KERNEL = """
def inputs(N=16, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * 2

def kernel(x, *, BLOCK=64):
    return x * 2

SHAPES = [{"N": 16}, {"N": 32}]
TOLERANCE = {"rtol": 0.01, "atol": 0.0}
"""
LAUNCH = Launch("k", (3, 2, 1), 4, 3, 1, {"BLOCK": 64, "CAUSAL": True}, {"x": "*fp32"})
MEASURED = Judgement(
    Verdict.CORRECT,
    ("Nothing odd.", "Really."),
    Protocol("cupti", "cold", "read", 13, 3, 120.0, 5),
    Measurement(
        0.02, 0.019, 0.021, 0.018, 0.03, "cupti", 1e-7, 3, 1755.0,
        (KernelAnalysis(Facts(LAUNCH, registers=32)),),
    ),
    Samples(
        (0.019, 0.02, 0.021), (0.03, 0.031, 0.029),
        Conditions(7, 1755.0, 1700.0, 2619.0, 300.0, 320.0, 50.0, {"power cap": 0.429}),
        ("NVML told nothing.",),
        "d" * 64,
    ),
)  # fmt: skip
CRASHED = Judgement(Verdict.CRASHED, ("timing: gone",), None, None)


@pytest.fixture
def gpu():
    return replace(devices.find("h100"), source="nvml", uuid="GPU-a", notes=("ECC on.",))


@pytest.fixture
def measured(monkeypatch):
    """Have a session give these judgements in turn; notes the shape and the rows on disk then."""

    def measuring(path, *judgements):
        remaining_judgements, seen = list(judgements), []

        def measure(_session, _path, shape, *__, **___):
            seen.append((shape["N"], len(read(path).rows) if seen else 0))
            return remaining_judgements.pop(0)

        monkeypatch.setattr(Session, "measure", measure)
        return seen

    return measuring


@pytest.mark.slow
def test_each_shape_is_on_disk_before_the_next_one_is_measured(write, tmp_path, gpu, measured):
    path = tmp_path / "log.jsonl"
    seen = measured(path, MEASURED, CRASHED)
    report = solkit.score(
        write(KERNEL), device=gpu, params={"BLOCK": 128}, settings=MeasureSettings(log=path)
    )
    assert seen == [(16, 0), (32, 1)]
    outcome = read(path)
    assert outcome.faults == ()
    assert [row.verdict for row in outcome.rows] == [result.verdict for result in report.results]
    crashed = outcome.rows[1]
    assert (crashed.shape["N"], crashed.evidence) == (32, ("timing: gone",))
    assert (crashed.message, crashed.time_ms, crashed.samples_ms) == ("timing: gone", None, ())


def test_an_outcome_keeps_all_that_was_measured(write, tmp_path, gpu, measured):
    path, source = tmp_path / "log.jsonl", Path(write(KERNEL, "mine.py"))
    measured(path, MEASURED)
    report = solkit.score(
        source,
        device=gpu,
        shapes=[{"N": 16}],
        params={"BLOCK": 128},
        settings=MeasureSettings(log=path),
    )
    (row,), (file,) = read(path).rows, read(path).sources
    own = sha256(source.read_bytes()).hexdigest()
    assert (file.sha256, file.text) == (own, source.read_text())
    assert row.source_sha256 == row.problem_sha256 == own
    assert (row.family, row.problem_id, row.origin) == ("mine", "mine/N=16", "file")
    assert (row.params, row.entry_point, row.path) == ({"BLOCK": 128}, "kernel", str(source))
    assert (row.problem_path, row.problem_format) == (str(source), "native")
    assert (row.time_ms, row.low_ms, row.high_ms) == (0.02, 0.019, 0.021)
    assert (row.kernel_sum_ms, row.reference_ms, row.max_error) == (0.018, 0.03, 1e-7)
    assert row.samples_ms == MEASURED.samples.candidate_ms
    assert row.reference_samples_ms == MEASURED.samples.reference_ms
    assert row.live_launches == (
        LiveLaunch("k", (3, 2, 1), 4, 3, 1, 1, LAUNCH.constants, LAUNCH.signature, 32),
    )
    assert (row.method, row.l2, row.flush, row.seed) == ("cupti", "cold", "read", 5)
    assert (row.warmup_calls, row.time_limit_s, row.inputs_digest) == (13, 120.0, "d" * 64)
    assert (row.protocol, row.launched) == ("cold", "eager")
    assert (row.clock_mhz, row.clock_low_mhz, row.memory_clock_mhz) == (1755.0, 1700.0, 2619.0)
    assert (row.power_w, row.power_high_w, row.temperature_c) == (300.0, 320.0, 50.0)
    assert (row.condition_samples, row.throttle_reasons) == (7, {"power cap": 0.429})
    assert row.neighbours == ("NVML told nothing.",)
    assert (row.evidence, row.message) == (MEASURED.errors, "Nothing odd.; Really.")
    assert (row.rtol, row.atol) == (0.01, 0.0)
    bound = report.results[0].bound
    assert (row.bound_ms, row.hard_bound_ms) == (bound.time_ms, bound.at.hard_ms)
    assert row.calibrated_bound_ms == bound.at.calibrated_ms
    assert row.observed_clock_bound_ms == bound.at.observed_clock_ms is not None
    assert (row.limiter, row.precision) == (bound.limiter, bound.precision)
    assert (row.read_bytes, row.write_bytes) == (64, 64)
    assert (row.device, row.device_uuid, row.device_notes) == ("h100-sxm", "GPU-a", ("ECC on.",))
    assert (row.compute_capability, row.sm_count, row.max_clock_mhz) == ((9, 0), 132, 1980.0)
    assert row.solkit_version == report.environment["solkit"]
    assert row.platform == report.environment["platform"]


@pytest.mark.slow
def test_a_result_has_all_that_was_measured(write, tmp_path, gpu, measured):
    measured(tmp_path / "log.jsonl", MEASURED, CRASHED)
    settings = MeasureSettings(log=tmp_path / "log.jsonl")
    timed, crashed = solkit.score(write(KERNEL), device=gpu, settings=settings).results
    assert (timed.measurement, timed.protocol) == (MEASURED.measurement, MEASURED.protocol)
    assert timed.errors == MEASURED.errors
    assert timed.score.gap == 0.02 / timed.bound.time_ms
    assert (crashed.verdict, crashed.errors) == (Verdict.CRASHED, CRASHED.errors)
    assert crashed.measurement is crashed.protocol is crashed.score is None


@pytest.mark.slow
@pytest.mark.parametrize("failing", [1, 2])
def test_a_shape_that_cannot_be_measured_costs_the_others_nothing(write, monkeypatch, gpu, failing):
    def measure(_session, _path, shape, *_, **__):
        if shape["N"] <= 16 * failing:
            raise UnsupportedError("the inputs do not fit into memory")
        return MEASURED

    monkeypatch.setattr(Session, "measure", measure)
    path = write(KERNEL)
    if failing == 2:
        with pytest.raises(InputError, match="the inputs do not fit into memory"):
            solkit.score(path, device=gpu)
        return
    report = solkit.score(path, device=gpu)
    assert [result.shape["N"] for result in report.results] == [32]
    (failed,) = report.failed
    assert (failed.shape, failed.error) == ({"N": 16}, "the inputs do not fit into memory")


def test_without_a_measurement_there_is_no_log(write, tmp_path):
    solkit.score(write(KERNEL), device="h100", settings=MeasureSettings(log=tmp_path / "log.jsonl"))
    assert not (tmp_path / "log.jsonl").exists()


@pytest.mark.parametrize(("needed", "evidence"), [(None, "static"), (Needed(64, 64), "measured")])
def test_a_report_says_what_its_hard_bound_rests_on(
    write, tmp_path, gpu, measured, needed, evidence
):
    path = tmp_path / "log.jsonl"
    measured(path, replace(MEASURED, needed=needed))
    settings = MeasureSettings(log=path)
    report = solkit.score(write(KERNEL), device=gpu, shapes=[{"N": 16}], settings=settings)
    (row,), (result,) = read(path).rows, report.results
    assert row.hard_evidence == result.bound.hard_evidence == evidence
    assert row.hard_bound_ms == result.bound.at.hard_ms
    assert to_json(report)["results"][0]["bound"]["hard_evidence"] == evidence
