from __future__ import annotations

from dataclasses import replace

import pytest
from tuning_rows import START, row

from solkit.core import (
    Difference,
    Final,
    Outcome,
    Ratio,
    Stopped,
    TimedParams,
    Tuned,
    TuneVerdict,
    Verdict,
)
from solkit.core.codec import from_json, to_json
from solkit.tuner.tuning_results import (
    Key,
    agreed_results,
    decision_row,
    finding_of,
    results_by_key,
    results_of_runs,
    time_configuration,
)

FASTER = Ratio(0.8, 0.78, 0.82, 0.004, 12)
WON = Final({"B": 256}, Difference.FASTER, FASTER, "turns")


def run(name="run", start=0, best=0.8, **fields):
    """The default, three others of which one crashed, and the decision."""
    first = row({"B": 64}, 1.0, start, run=name, chosen_by="default", **fields)
    best_row = row({"B": 256}, best, start + 2, run=name, **fields)
    return [
        first,
        row({"B": 128}, 0.9, start + 1, run=name, **fields),
        best_row,
        row({"B": 512}, None, start + 3, run=name, **fields),
        replace(
            decision_row(best_row, first, WON, (0.81, 0.79, 0.8), (1.0, 1.02, 1)),
            run_id=name,
            sequence=start + 4,
            created=first.created,
        ),
    ]


def test_a_run_with_a_win_says_what_it_found_and_what_it_cost():
    (result,) = results_of_runs(run())
    assert result.verdict is TuneVerdict.FASTER
    assert result.confirmed
    assert result.incumbent.params == {"B": 64}
    assert result.incumbent.time_ms == 1.0
    assert result.winner.params == {"B": 256} == result.chosen.params
    assert (result.winner.low_ms, result.winner.time_ms, result.winner.high_ms) == (0.79, 0.8, 0.81)
    assert result.ratio == FASTER
    assert result.measured == 4
    assert result.gpu_s == 2.0  # the decision, made of given rows, claims no GPU time of its own
    assert (result.begun - START).total_seconds() == 0
    assert (result.ended - START).total_seconds() == 3
    assert result.run_id == "run"
    assert result.shape == {"M": 4096, "N": 1024}
    key = result.key
    assert (key.kernel_id, key.device, key.protocol) == ("k", "h100-sxm", "cold")
    assert (key.triton_version, key.torch_version) == ("3.6.0", "2.11.0")
    assert (key.cuda_version, key.solkit_version) == ("13.0", "0.9")
    assert result.row.driver_version == "580.95"
    assert result.row.clock_mhz == 1980.0


@pytest.mark.parametrize("difference", [d for d in Difference if d is not Difference.FASTER])
def test_without_a_shown_win_the_incumbent_is_kept(difference):
    rows = run()
    rows[-1] = replace(rows[-1], comparison=replace(rows[-1].comparison, difference=difference))
    (result,) = results_of_runs(rows)
    assert result.verdict is TuneVerdict.KEEP
    assert result.confirmed
    assert result.chosen.params == {"B": 64}
    assert result.winner.params == {"B": 256}  # still told


def test_a_later_decision_takes_an_earlier_one_back_and_says_why():
    rows = run()
    why = "it is slower at M=3"
    taken_back = Final({"B": 256}, Difference.NOT_SHOWN, FASTER, "turns", (why,))
    back = decision_row(rows[2], rows[0], taken_back)
    rows.append(replace(back, run_id="run", sequence=9))
    (result,) = results_of_runs(rows)
    assert result.chosen.params == {"B": 64}
    assert (result.verdict, result.why) == (TuneVerdict.KEEP, why)


def test_a_run_that_was_stopped_before_the_decision_keeps_the_incumbent():
    (result,) = results_of_runs(run()[:-1])
    assert not result.confirmed
    assert result.chosen.params == {"B": 64}
    assert result.winner.params == {"B": 256}
    assert result.winner.time_ms == 0.8


def test_without_any_incumbent_the_fastest_is_chosen():
    (result,) = results_of_runs(run()[1:4])
    assert result.incumbent is None
    assert result.chosen.params == {"B": 256}


def test_wrong_and_impossible_times_win_nothing():
    rows = run()[:-1]
    rows.append(row({"B": 8}, 0.1, 7, verdict=Verdict.WRONG))
    rows.append(row({"B": 16}, 0.01, 8, verdict=Verdict.IMPOSSIBLE))
    (result,) = results_of_runs(rows)
    assert result.winner.params == {"B": 256}
    assert result.measured == 6


def test_repeats_of_a_configuration_are_one_with_their_median_and_outer_interval():
    rows = [
        row({"B": 1}, time_ms, place, low_ms=time_ms - 0.1, high_ms=time_ms + 0.1)
        for place, time_ms in enumerate((0.5, 0.9, 0.6))
    ]
    result = time_configuration(rows)
    assert (result.time_ms, result.low_ms, result.high_ms) == (0.6, 0.4, 1.0)
    (whole,) = results_of_runs(rows)
    assert whole.measured == 1
    assert whole.gpu_s == 1.5
    assert time_configuration([row({"B": 1}, None)]) is None


@pytest.mark.parametrize(
    "other",
    [
        {"device": "h200"},
        {"triton_version": "3.7.1"},
        {"torch_version": "2.13.0"},
        {"cuda_version": "12.8"},
        {"solkit_version": "1.0"},
        {"protocol": "warm"},
    ],
)
def test_what_was_measured_under_other_conditions_is_kept_apart(other):
    results = results_of_runs([*run(), *run("later", 10, best=0.5, **other)])
    assert len(results_by_key(results)) == 2
    assert [result.winner.time_ms for result in results] == [0.8, 0.8]  # of each run's own turns
    assert [result.measured for result in results] == [
        4,
        4,
    ]  # failures, which have no protocol, too


def test_runs_that_disagree_stay_side_by_side_with_their_dates():
    second = [replace(item, params={"B": 1024}) if item.params["B"] == 256 else item
              for item in run("second", 100)]  # fmt: skip
    ((key, result),) = results_by_key(results_of_runs([*second, *run()])).items()
    assert key.device == "h100-sxm"
    assert [item.run_id for item in result] == ["run", "second"]
    assert [item.winner.params["B"] for item in result] == [256, 1024]
    assert result[0].ended < result[1].begun


def test_two_protocols_in_one_run_are_two_findings():
    rows = [*run()[:-1], *run("run", 50, best=0.3, protocol="warm")[:-1]]
    results = {result.key.protocol: result for result in results_of_runs(rows)}
    assert results["cold"].winner.time_ms == 0.8
    assert results["warm"].winner.time_ms == 0.3


def test_a_cost_that_no_row_tells_is_unknown():
    (result,) = results_of_runs([row({"B": 1}, 1.0, gpu_s=None)])
    assert result.gpu_s is None


def test_nothing_with_a_time_is_no_result():
    assert results_of_runs([row({"B": 1}, None)]) == ()
    assert results_of_runs([]) == ()


def test_a_decision_survives_a_log():
    written = run()[-1]
    held = from_json(Outcome, to_json(written))
    assert held.comparison == written.comparison
    assert held.time_ms is None
    assert held.chosen_by == "tuned"


def test_of_runs_that_disagree_the_fastest_confirmed_choice_is_taken_and_all_are_told():
    later = [replace(e, params={"B": 1024}) if e.params["B"] == 256 else e
             for e in run("later", 100)]  # fmt: skip
    later[-1] = replace(later[-1], samples_ms=(0.7,) * 6)
    unconfirmed = [row({"B": 2}, 0.1, 200, run="third", chosen_by="default")]
    taken, notes = agreed_results(results_of_runs([*run(), *later, *unconfirmed]))
    assert [item.run_id for item in taken] == ["later"]
    (note,) = notes
    for text in ("run run of 2024-05-01", '{"B":256} at 0.8 ms', '{"B":1024} at 0.7 ms'):
        assert text in note
    assert "third" not in note


def test_the_newest_versions_count():
    newer = run("newer", 100, best=0.9, triton_version="3.7.1")
    newer[-1] = replace(newer[-1], created=newer[2].created, samples_ms=(0.9,) * 6)
    taken, notes = agreed_results(results_of_runs([*newer, *run()]))
    assert [item.key.triton_version for item in taken] == ["3.7.1"]
    assert notes == ()


def test_the_result_of_a_tuning_is_a_finding():
    rows = run()[:-1]
    tuned = Tuned(
        "softmax.py", "k", rows[0].problem_id, rows[0].shape, "h100-sxm", 0.25,
        TimedParams({"B": 64}, 1.0), TimedParams({"B": 256}, 0.8, 0.79, 0.81), TuneVerdict.FASTER,
        WON, 4, 1, 2.5, 1.0, Stopped.BUDGET, environment={"triton": "3.6.0", "torch": None},
    )  # fmt: skip
    alone = finding_of(tuned)
    assert alone.chosen.params == {"B": 256}
    assert (alone.confirmed, alone.ratio, alone.measured, alone.gpu_s) == (True, FASTER, 4, 2.5)
    assert sorted(time.time_ms for time in alone.times.values()) == [0.8, 1.0]
    assert alone.row is None
    other = row({"B": 1}, 9.0, 90, shape={"M": 1})
    logged = finding_of(tuned, [*rows, other])
    assert sorted(time.time_ms for time in logged.times.values()) == [0.8, 0.9, 1.0]
    assert logged.row.device_name == "NVIDIA H100 80GB HBM3"
    assert logged.key == Key("k", rows[0].problem_id, "h100-sxm", "cold", "3.6.0")
