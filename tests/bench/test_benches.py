"""What is made of the outcomes of two benches."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import benches
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "measure" / "benches"))

from recordings import outcome

from solkit.core import Configuration, StoredFacts, Verdict
from solkit.datasets.outcomelog import OutcomeLog
from solkit.measure.benches import RecordedBench
from solkit.roofline import devices

DEVICE = devices.find("h100")


@pytest.fixture
def both(tmp_path):
    """Compares outcomes; each bench's log holds the facts with the ids that are given."""

    def both(guarded_ms, trusted_ms, facts=("a", "a"), texts=("{}", "{}")):
        path = str(benches.FILES[0])
        compared = benches.Compared(Configuration(path, "kernel"))
        sides = (compared.guarded, guarded_ms), (compared.trusted, trusted_ms)
        for (side, times), name, items, text in zip(sides, ("guarded", "trusted"), facts, texts):
            rows = [outcome(n, time_ms=ms, facts_id=items) for n, ms in enumerate(times)]
            with OutcomeLog(tmp_path / f"{name}.jsonl") as log:
                log.append(rows, facts=[StoredFacts(items, text)])
            side += rows
        return compared

    return both


def test_the_ratio_is_of_medians(both):
    result = both([2.0], [1.0, 1.6, 9.0])
    assert result.ratio == pytest.approx(2.0 / 1.6)
    assert result.verdicts == ["correct", "correct"]
    assert benches.Compared(result.configuration, guarded=result.guarded).ratio is None


@pytest.mark.parametrize(
    ("facts", "texts", "same"),
    [(("a", "a"), ("{}", "{}"), True), (("a", "b"), ("{}", "{}"), False),
     (("a", "a"), ("{}", "[]"), False)],
)  # fmt: skip
def test_facts_are_the_same_under_one_id(both, tmp_path, facts, texts, same):
    result = both([1.0], [1.0], facts, texts)
    assert result.same_facts(benches.facts_in(tmp_path)) is same


@pytest.mark.parametrize(("guarded_ms", "code"), [(1.029, 0), (1.031, 1), (0.969, 1)])
def test_medians_agree_within_three_per_cent(both, tmp_path, guarded_ms, code):
    result = both([guarded_ms], [1.0])
    assert benches.report(DEVICE, [result], tmp_path) == code


def test_other_verdicts_or_nothing_at_all_is_a_failure(both, tmp_path):
    result = both([1.0], [1.0])
    result.guarded[0] = outcome(0, verdict=Verdict.UNSTABLE, facts_id="a", time_ms=1.0)
    assert benches.report(DEVICE, [result], tmp_path) == 1
    assert benches.report(DEVICE, [], tmp_path) == 1


def test_what_is_known_is_on_disk(both, tmp_path):
    benches.write(DEVICE, [both([1.01], [1.0])], tmp_path)
    (row,) = json.loads((tmp_path / "benches.json").read_text())["rows"]
    assert (row["ratio"], row["same_facts"]) == (1.01, True)
    assert row["guarded"][0]["time_ms"] == 1.01


def test_the_driver_takes_every_configuration_and_stops_on_time():
    bench = RecordedBench([outcome(n) for n in range(30)], cores=1)
    expected = bench.configurations()
    outcomes = list(benches.outcomes_of(bench, expected, float("inf")))
    assert sorted(id(request) for request, _ in outcomes) == sorted(map(id, expected))
    assert list(benches.outcomes_of(bench, expected, 0.0)) == []
