"""`Evaluator`, as a search loop uses it: sources of a recording, and some that are none."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import pytest

import solkit
from solkit.core import Configuration, Verdict
from solkit.datasets.kernels import ZOO
from solkit.datasets.store import shipped
from solkit.errors import InputError
from solkit.integrations.evaluator import Evaluator, Grading
from solkit.integrations.grading import FEATURES, Graded, Stage
from solkit.measure.benches import RecordedBench
from solkit.report.advice import advise
from solkit.tuner.evolution.default_params import with_params

pytest.importorskip("xgboost", reason="the surrogate needs solkit[surrogate]")

SOFTMAX = ZOO / "softmax"
PROBLEM = SOFTMAX / "problem.py"
SHAPE = {"M": 8192, "N": 4096, "dtype": "bfloat16"}
FAST, SLOW, TILES = (
    (SOFTMAX / f"{name}.py").read_text() for name in ("whole_row", "three_pass", "rows_tile")
)
CHEAT = "import torch\ntorch.cuda.Event.elapsed_time = 3\ndef kernel(x):\n    return x\n"
OTHER = "import torch\ndef kernel(x):\n    return torch.softmax(x, -1)\n"
BAD = {
    "def kernel(x:\n": "does_not_compile",
    "x = 1\n": "does_not_compile",
    "import os\nos._exit(3)\n": "crashed",
    "nothing.py": "does_not_compile",
    "\0\n": "does_not_compile",
    CHEAT: "cheating",
    OTHER: "not_recorded",
}


@pytest.fixture(scope="module")
def rows():
    store = shipped("h100")
    return list(store.rows(store.where("family = 'softmax'")))


def at(rows, name):
    """The rows of one kernel at the shape."""
    return [r for r in rows if r.implementation == f"softmax/{name}" and r.shape == SHAPE]


@pytest.fixture(scope="module")
def lab(rows):
    """What evaluators share: a text has one file in it, which is analysed once."""
    with solkit.Lab(bench=RecordedBench(rows)) as lab:
        yield lab


@pytest.fixture
def evaluator(lab):
    with Evaluator(
        PROBLEM,
        bench=lab,
        shape=SHAPE,
        how=Grading(sources=[FAST, SLOW, TILES], advise=advise),
    ) as evaluator:
        yield evaluator


@pytest.mark.slow
def test_both_stages_of_a_recorded_source(evaluator, rows):
    first = evaluator.stage1(TILES)
    assert (first.stage, first.combined_score) == (Stage.PASSED, 0.5)
    assert first.verdict == "not_measured"
    assert first.forecast_low_ms < first.forecast_ms < first.forecast_high_ms
    assert first.limiter == "dram"
    assert first.features["registers"] > 0
    second = evaluator.stage2(TILES)
    (row,) = [r for r in at(rows, "rows_tile") if r.params == second.params]
    assert (second.stage, second.verdict) == (Stage.MEASURED, row.verdict.value)
    assert second.time_ms == row.time_ms == evaluator.best_ms
    sol_ms = evaluator.lab.bound(PROBLEM, SHAPE).time_ms
    assert second.gap == pytest.approx(row.time_ms / sol_ms)
    base_ms = median(r.time_ms for r in rows if r.shape == SHAPE)
    score = 1 / (1 + (row.time_ms - sol_ms) / (base_ms - sol_ms))
    assert second.sol_score == pytest.approx(score)
    assert second.combined_score == pytest.approx(0.5 + score / 2)
    assert any("sustained rates" in reason for reason in second.reasons)
    assert second.reasons[-1] in advise_of(evaluator, TILES)
    assert not any("solkit-lab" in reason for reason in second.reasons)  # no private paths


def advise_of(evaluator, text):
    from solkit.integrations.candidates import hide_private_path

    evaluation = evaluator.lab.evaluate(
        text, PROBLEM, shape=SHAPE, params=evaluator.stage2(text).params
    )
    path = evaluation.configuration.path
    return [hide_private_path(item, path) for item in advise(evaluation.result, evaluator.device)]


@pytest.mark.slow
def test_what_cannot_be_used_is_refused_and_raises_nothing(evaluator):
    fields = dict(zip(BAD, evaluator.evaluate_all(BAD), strict=True))
    for source, verdict in BAD.items():
        for graded in (fields[source], evaluator.stage1(source), evaluator.stage2(source)):
            assert (graded.verdict, graded.stage) == (verdict, Stage.REFUSED), source
            assert graded.combined_score == 0
            assert graded.reasons
            assert graded.features.keys() == set(FEATURES)
    assert [item.value for item in evaluator.reward(BAD)] == [0] * len(BAD)
    assert evaluator.spent_s == 0
    assert "replaces torch.cuda.Event.elapsed_time" in fields[CHEAT].reasons[0]


@pytest.mark.slow
def test_the_forecast_rejects_what_is_clearly_slower_than_the_best(evaluator):
    assert evaluator.stage1(SLOW).stage is Stage.PASSED  # nothing to hold it against
    best = evaluator.evaluate(FAST)
    assert best.stage is Stage.MEASURED
    rejected = evaluator.evaluate(SLOW)
    assert (rejected.stage, rejected.time_ms) == (Stage.REJECTED, None)
    assert rejected.verdict == "not_measured"
    limit_ms = 1.1 * best.time_ms
    assert rejected.forecast_low_ms > limit_ms
    assert rejected.combined_score == pytest.approx(0.5 * limit_ms / rejected.forecast_low_ms)
    assert "the best known takes" in rejected.reasons[0]
    assert evaluator.stage2(SLOW).time_ms > 1.5 * best.time_ms  # it was right


@pytest.mark.slow
def test_an_incumbent_is_measured_first(rows):
    bench = RecordedBench(rows)
    with Evaluator(PROBLEM, bench=bench, shape=SHAPE, how=Grading(incumbent=FAST)) as evaluator:
        assert evaluator.stage1(SLOW).stage is Stage.REJECTED
        assert evaluator.best_ms == evaluator.stage2(FAST).time_ms


@pytest.mark.slow
def test_a_batch_measures_the_promising_first(evaluator, rows):
    evaluations = evaluator.evaluate_all([SLOW, OTHER, TILES, FAST], most=1)
    stages = [evaluation.stage for evaluation in evaluations]
    assert stages.count(Stage.MEASURED) == 1
    assert stages[1] is Stage.REFUSED
    (measured,) = [evaluation for evaluation in evaluations if evaluation.stage is Stage.MEASURED]
    others = [
        evaluation.forecast_ms for evaluation in evaluations if evaluation.forecast_ms is not None
    ]
    assert measured.forecast_ms == min(others)
    assert {
        evaluation.combined_score for evaluation in evaluations if evaluation.stage is Stage.PASSED
    } <= {0.5}
    assert at(rows, "whole_row")


@pytest.mark.slow
def test_parameters_make_other_candidates_of_one_source(evaluator, rows):
    own = evaluator.stage2(FAST)
    other = next(r for r in at(rows, "whole_row") if r.params != own.params)
    configuration = Configuration(FAST, "kernel", params=other.params)
    assert evaluator.stage2(configuration).time_ms == other.time_ms
    rewritten = with_params(FAST, "kernel", other.params)
    assert rewritten != FAST
    assert evaluator.stage2(rewritten).time_ms == other.time_ms
    unknown = Configuration(FAST, "kernel", params={**other.params, "num_warps": 3})
    assert evaluator.stage2(unknown).verdict == "not_recorded"
    absent = with_params(FAST, "kernel", {**other.params, "num_warps": 32})
    assert evaluator.stage2(absent).verdict == "not_recorded"
    assert evaluator.stage2(FAST + "\n# changed\n").verdict == "not_recorded"


@pytest.mark.slow
def test_a_source_whose_own_parameters_are_not_recorded_gets_recorded_ones(rows):
    text = SLOW
    own = at(rows, "three_pass")
    with Evaluator(PROBLEM, bench=RecordedBench(rows), shape=SHAPE) as whole:
        default = whole.stage2(text).params
    rest = [r for r in rows if r not in own] + [r for r in own if r.params != default]
    with Evaluator(PROBLEM, bench=RecordedBench(rest), shape=SHAPE) as evaluator:
        result = evaluator.stage2(text)
    assert result.time_ms in [r.time_ms for r in own if r.params == result.params != default]


@pytest.mark.slow
def test_rewards_follow_times_and_equal_candidates_are_measured_once(evaluator):
    result = evaluator.reward([FAST, SLOW, CHEAT, OTHER, FAST])
    assert result[0] == result[4]
    assert result[0].value == result[0].sol_score > result[1].value > 0
    assert [item.value for item in result[2:4]] == [0, 0]
    assert [item.gap for item in result[2:4]] == [None, None]
    spent_s = evaluator.spent_s
    assert evaluator.reward([FAST])[0] == result[0]
    assert evaluator.spent_s == spent_s > 0


@pytest.mark.slow
def test_a_budget_ends_measuring(rows):
    bench = RecordedBench(rows)
    with Evaluator(PROBLEM, bench=bench, shape=SHAPE, budget_s=1e-9) as evaluator:
        assert evaluator.stage2(FAST).stage is Stage.MEASURED
        result = evaluator.stage2(SLOW)
        assert (result.stage, result.combined_score) == (Stage.PASSED, 0.5)
        assert "spent" in result.reasons[0]
        assert evaluator.reward([SLOW])[0].value == 0


def test_wrong_and_cheating_outcomes_earn_nothing(rows):
    from dataclasses import replace

    for verdict in (Verdict.WRONG, Verdict.CHEATING, Verdict.IMPOSSIBLE, Verdict.CRASHED):
        spoilt = [replace(item, verdict=verdict, message="no") for item in at(rows, "whole_row")]
        with Evaluator(PROBLEM, bench=RecordedBench(spoilt), shape=SHAPE) as evaluator:
            graded = evaluator.stage2(FAST)
            assert (graded.verdict, graded.combined_score) == (verdict.value, 0)
            assert (graded.time_ms, evaluator.best_ms) == (None, None)
            assert evaluator.reward([FAST])[0].value == 0


@pytest.mark.slow
def test_threads_share_an_evaluator(evaluator):
    sources = [FAST, SLOW, TILES, CHEAT, OTHER] * 3
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(evaluator.stage2, sources))
    for graded, again in zip(results, results[5:], strict=False):
        assert isinstance(graded, Graded)
        assert (graded.verdict, graded.time_ms) == (again.verdict, again.time_ms)


@pytest.mark.slow
def test_a_candidate_cannot_bring_its_own_reference(evaluator):
    easy = (
        "import torch\ndef reference(x):\n    return x\ndef inputs(M=1):\n    return ()\n" + OTHER
    )
    assert evaluator.stage1(easy).verdict == "not_recorded"
    with Evaluator(PROBLEM, "h100", shape=SHAPE) as live:
        graded = live.stage1(easy)
        assert graded.sol_ms == evaluator.lab.bound(PROBLEM, SHAPE).time_ms
        assert graded.stage is Stage.PASSED
        assert "not in this machine" in live.stage2(easy).reasons[0]


@pytest.mark.slow
def test_several_evaluators_share_a_lab(rows):
    with solkit.Lab(bench=RecordedBench(rows)) as lab:
        for shape in (SHAPE, {"M": 2048, "N": 8192, "dtype": "float16"}):
            with Evaluator(PROBLEM, bench=lab, shape=shape) as evaluator:
                assert evaluator.stage2(TILES).stage is Stage.MEASURED
        assert math.isfinite(lab.bound(PROBLEM).time_ms)  # it is still open


@pytest.mark.slow
def test_a_store_is_enough():
    store = shipped("h100").folder
    with Evaluator.recorded(store, PROBLEM, shape=SHAPE) as evaluator:
        assert evaluator.stage2(FAST).is_right
    with pytest.raises(InputError, match="no rows of this problem"):
        Evaluator.recorded(store, Path(PROBLEM).read_text() + "\n# another\n")


def test_wrong_settings_are_named(rows):
    with pytest.raises(InputError, match="accept is 0"):
        Grading(accept=0)
    with pytest.raises(InputError, match="nothing"):
        Evaluator("nothing.py", bench=RecordedBench(rows))
