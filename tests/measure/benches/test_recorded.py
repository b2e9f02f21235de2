"""The recorded bench: equal outcomes, a clock that adds what was recorded, and errors that help."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from recordings import failed, outcome, recording

from solkit.core import Configuration, Verdict, canonical
from solkit.datasets.formats import t4
from solkit.datasets.kernels import kernel_at_path
from solkit.datasets.outcomelog import OutcomeLog
from solkit.errors import InputError, NotRecordedError, UnknownDeviceError
from solkit.measure.benches import RecordedBench

KERNEL = "k" * 16


def replayed(bench, configurations):
    bench.submit(configurations)
    return [result for _, result in bench.outcomes()]


def by_sequence(outcomes):
    return sorted(outcomes, key=lambda outcome: outcome.sequence)


def at(block, **shape):
    return Configuration(KERNEL, "kernel", shape or {"M": 64, "N": 32}, {"BLOCK": block})


def test_every_recorded_configuration_comes_back_equal():
    bench = RecordedBench(recording())
    assert len(bench.configurations()) == 12
    result = replayed(bench, bench.configurations())
    assert by_sequence(result) == by_sequence(row for row in recording() if row.sequence < 90)
    assert bench.pending == 0


def test_each_outcome_comes_with_the_configuration_that_was_submitted():
    bench = RecordedBench(recording())
    expected = [at(3), at(10, M=128, N=32), at(5)]
    bench.submit(expected)
    results = list(bench.outcomes())
    assert {id(request) for request, _ in results} == set(map(id, expected))
    assert all(request.params == got.params for request, got in results)


def test_repeats_come_in_the_order_recorded_and_then_again():
    bench = RecordedBench(reversed(recording()))
    times = [replayed(bench, [at(0)])[0].time_ms for _ in range(4)]
    assert times == [10.0, 8.0, 7.0, 10.0]


def test_one_core_and_the_gpu_work_at_the_same_time():
    bench = RecordedBench([outcome(n) for n in range(12)], cores=1)
    bench.submit(bench.configurations())
    ends = []
    for _ in bench.outcomes():
        ends.append(bench.clock.now_s())
    # eight compile until 16 s and are timed until 20 s; four compile until 24 s
    assert ends == pytest.approx([20.0] * 8 + [26.0] * 4)


def test_more_cores_compile_more_handfuls_at_once():
    bench = RecordedBench([outcome(n) for n in range(12)], cores=2)
    replayed(bench, bench.configurations())
    # four compile until 8 s and are timed until 10 s; eight compile until 16 s
    assert bench.clock.now_s() == pytest.approx(20.0)


def test_of_two_compiled_handfuls_the_first_submitted_is_timed_first():
    slow = [outcome(n, first_call_s=100.0) for n in range(1)]
    bench = RecordedBench([*slow, outcome(1, compile_s=9.0), outcome(2, compile_s=3.0)], cores=3)
    for block in (0, 1, 2):
        bench.submit([at(block)])
    assert [request.params["BLOCK"] for request, _ in bench.outcomes()] == [0, 1, 2]


def test_the_drivers_own_time_is_never_added(monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 1e9)
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("it slept"))
    bench = RecordedBench(recording())
    assert bench.clock.now_s() == bench.clock.gpu_s() == 0.0
    replayed(bench, [at(1)])
    assert bench.clock.now_s() == pytest.approx(2.5)
    replayed(bench, [at(1)])
    assert bench.clock.now_s() == pytest.approx(5.0)
    assert bench.clock.gpu_s() == pytest.approx(5.0)  # held while the second one compiles


def test_what_is_submitted_late_compiles_late():
    bench = RecordedBench([outcome(n) for n in range(3)], cores=1)
    bench.submit([at(0)])
    ends = []
    for request, _ in bench.outcomes():
        ends.append(bench.clock.now_s())
        if request.params["BLOCK"] < 2:
            bench.submit([at(request.params["BLOCK"] + 1)])
    assert ends == pytest.approx([2.5, 5.0, 7.5])


def test_unknown_costs_are_assumed_and_labelled():
    fields = {"compile_s": None, "samples_ms": (), "first_call_s": None, "warmup_calls": None}
    rows = [outcome(0, **fields, time_ms=30.0), outcome(1, **fields, time_ms=50.0)]
    rows += [failed(2, Verdict.CRASHED, compile_s=None, first_call_s=None)]
    rows += [failed(3, Verdict.DOES_NOT_COMPILE, compile_s=None, first_call_s=None)]
    bench = RecordedBench(rows)
    results = by_sequence(replayed(bench, bench.configurations()))
    assumed = [result.extra.pop("assumed_costs") for result in results]
    assert results == rows
    assert [item["compile_s"] for item in assumed] == [1.0] * 4
    # ten calls; of one that crashed, of the median of its problem; nothing of what never ran
    assert [item.get("gpu_s") for item in assumed] == [0.3, 0.5, 0.4, None]
    assert bench.clock.now_s() == pytest.approx(4.0 + 1.2)


def test_known_costs_are_not_labelled_and_failures_cost_what_they_cost():
    bench = RecordedBench([failed(0, Verdict.WRONG), failed(1, Verdict.TIMED_OUT)])
    results = replayed(bench, bench.configurations())
    assert {result.verdict for result in results} == {Verdict.WRONG, Verdict.TIMED_OUT}
    assert all(result.extra == {} for result in results)
    assert bench.clock.now_s() == pytest.approx(2 * 2.0 + 2 * 0.45)


def test_the_seconds_that_the_gpu_was_held_count_where_they_are_recorded():
    bench = RecordedBench([outcome(0, gpu_s=7.0), failed(1, Verdict.TIMED_OUT, gpu_s=60.0)])
    assert all(item.extra == {} for item in replayed(bench, bench.configurations()))
    assert bench.clock.now_s() == pytest.approx(2 * 2.0 + 67.0)


def test_a_single_recorded_time_has_no_interval():
    single = outcome(0, low_ms=None, high_ms=None, samples_ms=())
    (result,) = replayed(RecordedBench([single]), [at(0)])
    assert (result.time_ms, result.low_ms, result.high_ms) == (10.0, None, None)


def test_it_stops_at_the_time_given_but_for_what_is_being_timed():
    bench = RecordedBench([outcome(n) for n in range(9)], cores=1)
    bench.submit(bench.configurations())
    assert list(bench.outcomes(until_s=5.0)) == []
    assert bench.clock.now_s() == 5.0
    assert len(list(bench.outcomes(until_s=16.1))) == 8
    assert bench.clock.now_s() == pytest.approx(20.0)
    assert bench.pending == 1
    assert len(list(bench.outcomes())) == 1


def test_leaving_the_iterator_loses_nothing():
    bench = RecordedBench(recording())
    bench.submit([at(1), at(2), at(3)])
    first = next(bench.outcomes())
    assert bench.pending == 2
    rest = list(bench.outcomes())
    assert sorted(got.params["BLOCK"] for _, got in [first, *rest]) == [1, 2, 3]


def test_what_is_discarded_costs_only_what_was_begun():
    bench = RecordedBench([outcome(n) for n in range(12)], cores=1)
    bench.submit([at(n) for n in range(8)])
    assert list(bench.outcomes(until_s=1.0)) == []
    bench.submit([at(8)])
    bench.discard()
    assert bench.pending == 0
    replayed(bench, [at(9)])
    assert bench.clock.now_s() == pytest.approx(16.0 + 2.0 + 0.5)  # after what was compiling


def test_a_shape_may_be_given_in_part_where_that_names_one():
    bench = RecordedBench(recording())
    assert replayed(bench, [at(10, M=128)])[0].shape == {"M": 128, "N": 32}
    with pytest.raises(NotRecordedError, match="several shapes; recorded: M=64, N=32; M=128"):
        bench.submit([at(10, N=32)])


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        (Configuration("gemm", "kernel"), f"no kernel 'gemm'; recorded: softmax/rows ({KERNEL})"),
        (at(1, M=7), "softmax/rows at M=7 is not recorded; recorded: M=64, N=32; M=128, N=32"),
        (at(99), "not recorded with BLOCK=99; recorded: 10 configurations, with BLOCK of 0, 1, 2"),
        (replace(at(1), params={"BLOCK": 1.0}), "with BLOCK=1.0"),
    ],
)
def test_what_is_not_recorded_is_named_and_nothing_is_queued(configuration, message):
    bench = RecordedBench(recording())
    with pytest.raises(NotRecordedError) as error:
        bench.submit([at(1), configuration])
    assert message in str(error.value)
    assert bench.pending == 0


def test_a_kernel_is_found_by_its_name_and_by_its_file(tmp_path):
    file = tmp_path / "rows.py"
    file.write_text("def kernel(): ...\n")
    rows = [outcome(1), outcome(1, kernel_id=kernel_at_path(file).kernel_id, implementation="rows")]
    bench = RecordedBench(rows)
    for path, row in (("softmax/rows", rows[0]), (str(file), rows[1])):
        assert replayed(bench, [replace(at(1), path=path)]) == [row]
    file.write_text("def kernel(): return 1\n")
    with pytest.raises(NotRecordedError, match="no kernel"):
        bench.submit([replace(at(1), path=str(file))])


def test_one_gpu_is_chosen_of_several():
    rows = [outcome(1), outcome(1, device="h200", time_ms=5.0)]
    with pytest.raises(InputError, match=r"several GPUs are recorded; .*: h100-sxm, h200"):
        RecordedBench(rows)
    with pytest.raises(InputError, match="'a100' is not recorded; choose one of: h100-sxm"):
        RecordedBench(rows, device="a100")
    bench = RecordedBench(rows, device="NVIDIA H200")  # another name of it
    assert bench.device.key == "h200"
    assert replayed(bench, [at(1)])[0].time_ms == 5.0
    with pytest.raises(InputError, match="no recorded row to replay"):
        RecordedBench([])


def test_a_gpu_that_the_catalogue_lacks_can_be_replayed_and_has_no_device():
    bench = RecordedBench([outcome(1, device="AMD Radeon PRO W6600")])
    assert len(replayed(bench, [at(1)])) == 1
    with pytest.raises(UnknownDeviceError):
        bench.device  # noqa: B018


def test_a_store_a_log_and_t4_are_recordings(tmp_path):
    store = pytest.importorskip("solkit.datasets.store")
    rows = [replace(row, run_id="") for row in recording()]
    with OutcomeLog(tmp_path / "run.jsonl") as log:
        logged = log.append(rows)
    store.Store(tmp_path / "kept", create=True).add(logged)
    (tmp_path / "rows.T4.json").write_text(t4.dumps(row for row in rows if row.sequence < 10))
    whole = RecordedBench.read(tmp_path / "run.jsonl", device="h100")
    assert len(whole.configurations()) == 12
    part = RecordedBench.read(tmp_path / "kept", where="problem_id LIKE '%M=128%'")
    assert len(part.configurations()) == 2
    result = RecordedBench.read(tmp_path / "rows.T4.json", device="h100-sxm")
    assert len(result.configurations()) == 10
    with pytest.raises(InputError, match="only a store can be filtered"):
        RecordedBench.read(tmp_path / "run.jsonl", where="true")


def test_nothing_of_a_brute_forced_space_says_what_it_cost(tmp_path):
    fields = {"kernel": "conv", "device": "NVIDIA A100-PCIE-40GB", "columns": ["BLOCK", "time_ms"]}
    path = tmp_path / "conv.json"
    path.write_text(json.dumps({**fields, "rows": [[16, 3.5], [32, None]]}))
    bench = RecordedBench.read(path)
    results = replayed(bench, bench.configurations())
    assert [result.time_ms for result in results] == [3.5, None]
    # two compilations of 1 s, and twice ten calls: a failure counts as the median call
    assert bench.clock.now_s() == pytest.approx(2.0 + 0.07)


def test_the_shipped_rows_of_a_problem_replay_exactly():
    store = pytest.importorskip("solkit.datasets.store").shipped("h100")
    rows = list(store.rows(store.where("problem_id LIKE 'softmax/M=2048,N=8192,%'")))
    points = Counter((row.kernel_id, canonical(row.shape), canonical(row.params)) for row in rows)
    assert len(rows) > len(points) > 100  # some are repeats
    bench = RecordedBench(rows)
    for configuration in bench.configurations():
        bench.submit(
            [configuration]
            * points[
                configuration.path, canonical(configuration.shape), canonical(configuration.params)
            ]
        )
    results = [got for _, got in bench.outcomes()]
    name = lambda row: (row.run_id, row.sequence)  # noqa: E731
    assert sorted(results, key=name) == sorted(rows, key=name)
