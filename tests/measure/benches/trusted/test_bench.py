"""The trusted bench from outside: what compiles and what times are fake, the log is real."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future
from dataclasses import replace

import fakes
import pytest
from fakes import BOUND, DEVICE, FACTS, LAUNCH, VALID, done

from solkit.core import Configuration, Verdict
from solkit.datasets import outcomelog
from solkit.datasets.facts import facts_from_json, facts_key
from solkit.datasets.kernels import kernel_at_path
from solkit.datasets.outcomelog import OutcomeLog
from solkit.errors import InputError, UnsupportedError, WorkerError
from solkit.measure.benches.trusted import TrustedBench
from solkit.measure.benches.trusted.precompile import Compiled
from solkit.measure.timing.gpu_lock import exclusive_gpu


@pytest.fixture
def parts(monkeypatch):
    return fakes.fake(monkeypatch)


@pytest.fixture
def file(tmp_path):
    folder = tmp_path / "family"
    folder.mkdir()
    (folder / "problem.py").write_text('KIND = "norm"\n')
    (folder / "a.py").write_text("# a\n")
    return str(folder / "a.py")


@pytest.fixture
def log(tmp_path):
    with OutcomeLog(tmp_path / "run.jsonl", resume=True) as log:
        yield log


@pytest.fixture
def bench(parts, log):
    with TrustedBench(parts[0], log) as bench:
        yield bench


def at(file, *choices, size=100):
    configuration = Configuration(file, "kernel", {"N": size}, chosen_by="search")
    return [replace(configuration, params=choice) for choice in choices]


def measured(bench, configurations):
    bench.submit(configurations)
    return [result for _, result in bench.outcomes()]


def test_an_outcome_says_all_that_is_known(bench, file):
    (right,) = measured(bench, at(file, VALID[0]))
    kernel = kernel_at_path(file)
    assert (right.kernel_id, right.problem_id) == (kernel.kernel_id, "family/N=100")
    assert (right.family, right.kind, right.origin) == ("family", "norm", "file")
    assert (right.implementation, right.entry_point) == ("family/a", "kernel")
    assert (right.device, right.chosen_by) == ("h100-sxm", "search")
    assert (right.params, right.shape) == (VALID[0], {"N": 100})
    assert right.time_ms == 256 - 16 + 1
    assert {name: getattr(right, name) for name in BOUND} == BOUND
    assert (right.protocol, right.l2, right.launched) == ("cold", "cold", "eager")
    assert (right.compile_s, right.device_uuid, right.flush) == (0.25, "GPU-0", "not at all")
    assert (right.compute_capability, right.sm_count, right.platform) == ((9, 0), 132, "Linux")
    assert right.path == file
    assert right.launch_count is None  # copies and memsets are not counted


def test_a_process_that_does_not_start_gives_the_gpu_back(
    bench, file, parts, monkeypatch, tmp_path
):
    monkeypatch.setenv("SOLKIT_LOCKS", str(tmp_path))
    monkeypatch.setattr("solkit.measure.benches.trusted.bench.exclusive_gpu", exclusive_gpu)
    monkeypatch.setattr("solkit.measure.benches.trusted.bench._PATIENCE_S", 0.5)
    _, process = parts
    with monkeypatch.context() as patch:
        patch.setattr(process, "start", raise_worker_error)
        with pytest.raises(WorkerError, match="did not start"):
            measured(bench, at(file, VALID[0]))
    assert len(list(bench.outcomes())) == 1  # the lock is its own again, at once


def raise_worker_error():
    raise WorkerError("the timing process did not start")


def test_the_process_loads_while_the_first_configurations_are_compiled(bench, file, parts):
    _, process = parts
    assert process.done == []
    bench.submit(at(file, VALID[0]))
    assert process.done == ["load"]
    list(bench.outcomes())
    measured(bench, at(file, VALID[1]))
    assert process.done == ["load", "start", ("load_file", file, None)]
    bench.close()
    assert set(process.done[3:]) == {"close"}


def test_every_outcome_is_on_disk_before_it_comes(bench, file, log):
    expected = at(file, *VALID[:12])
    bench.submit(expected)
    for number, (request, got) in enumerate(bench.outcomes(), 1):
        written = outcomelog.read(log.path)
        assert request in expected
        assert got in written.rows
        assert bench.pending == 12 - number
    names = [source.name for source in written.sources]
    assert sorted(names) == ["family/a.py", "family/problem.py"]  # each once


def test_failures_cost_no_other(bench, parts, file):
    results = measured(bench, at(file, *VALID))
    assert len(results) == len(VALID)
    for row in results:
        expected = {
            1: (Verdict.CORRECT, None),
            2: (Verdict.WRONG, "8 of 8 elements"),
            4: (Verdict.DOES_NOT_COMPILE, "too big"),
        }[row.params["SPLIT"]]
        if (row.params["SPLIT"], row.params["BLOCK"]) == (2, 16):
            expected = Verdict.TIMED_OUT, "killed"
        assert (row.verdict, row.message) == expected
        assert (row.facts_id is None) == (row.verdict is Verdict.DOES_NOT_COMPILE)
        assert (row.gpu_s == 0.0) == (row.verdict is Verdict.DOES_NOT_COMPILE)
        assert (row.time_ms is None) == (row.verdict is not Verdict.CORRECT)
    _, process = parts
    assert not [d for h in process.handfuls for d in h.drafts if d.params["SPLIT"] == 4]


def test_facts_are_kept_once_and_named_by_what_they_follow_from(bench, file, log):
    first, again, other = (measured(bench, at(file, VALID[n]))[0] for n in (0, 0, 3))
    assert first.facts_id == again.facts_id != other.facts_id
    kept = {items.id: items.text for items in outcomelog.read(log.path).facts}
    assert kept.keys() == {first.facts_id, other.facts_id}
    assert facts_from_json(kept[first.facts_id]) == (FACTS,)
    shape, triton = {"N": 100}, "3.7.1"
    key = facts_key(first.kernel_id, VALID[0], shape, (9, 0), 132, triton)
    assert first.facts_id == key


def test_launches_are_kept_where_the_facts_say_otherwise(bench, parts, file, monkeypatch):
    (right,) = measured(bench, at(file, VALID[0]))
    assert right.live_launches == ()
    more = replace(LAUNCH, registers=33)
    monkeypatch.setattr(fakes, "LAUNCH", more)
    (right,) = measured(bench, at(file, VALID[0]))
    assert right.live_launches == (more,)
    monkeypatch.setattr(parts[0], "compiled", lambda *_: done([Compiled(0.25)]))
    (right,) = measured(bench, at(file, VALID[0]))
    assert (right.facts_id, right.live_launches) == (None, (more,))


def test_handfuls_are_of_one_file_and_shape(bench, parts, file):
    mixed = [at(file, VALID[3 * n], size=size)[0] for n in range(9) for size in (1, 2)]
    measured(bench, mixed)
    handfuls = Counter((h.shape["N"], len(h.drafts)) for h in parts[1].handfuls)
    assert handfuls == {(1, 8): 1, (1, 1): 1, (2, 8): 1, (2, 1): 1}


def test_a_shape_given_in_part_is_completed(bench, parts, file, monkeypatch):
    whole = {"shape": {"N": 100, "M": 7}, **BOUND}
    monkeypatch.setattr(parts[0], "bound", lambda *_: done(whole))
    (right,) = measured(bench, at(file, VALID[0]))
    assert (right.shape, right.problem_id) == ({"N": 100, "M": 7}, "family/M=7,N=100")


def test_a_candidate_may_have_its_reference_elsewhere(bench, parts, file, tmp_path):
    task = tmp_path / "task.py"
    task.write_text("KIND = 'scan'\n")
    (request,) = at(file, VALID[0])
    (right,) = measured(bench, [replace(request, reference=str(task))])
    assert (right.family, right.kind, right.implementation) == ("task", "scan", "task/a")
    assert parts[1].handfuls[0].reference == str(task)


def test_kernels_may_be_named_from_outside(parts, log, file):
    kernel = replace(kernel_at_path(file), family="mine", name="mine/a")
    with TrustedBench(parts[0], log, [kernel]) as bench:
        (right,) = measured(bench, at(file, VALID[0]))
    assert (right.family, right.implementation) == ("mine", "mine/a")


def test_how_long_compiling_took_may_be_unknown(bench, parts, file, monkeypatch):
    killed = Compiled(None, "exit code -9.", verdict=Verdict.NOT_MEASURED)
    monkeypatch.setattr(parts[0], "compiled", lambda *_: done([killed] * 3))
    results = measured(bench, at(file, *VALID[:3]))
    assert {(row.verdict, row.message, row.compile_s) for row in results} == {
        (Verdict.NOT_MEASURED, "exit code -9.", None)
    }


@pytest.mark.parametrize(
    "bound", [{"shape": {"N": 100}, "error": "no such op"}, WorkerError("no such op")]
)
def test_a_problem_without_a_bound_is_told_once(parts, log, file, monkeypatch, bound):
    monkeypatch.setattr(parts[0], "bound", lambda *_: done(bound))
    messages = []
    with TrustedBench(parts[0], log, tell=messages.append) as bench:
        results = measured(bench, at(file, *VALID[:12]))
    assert messages == ["family/a at {'N': 100} has no bound: no such op"]
    assert {row.bound_ms for row in results} == {None}
    assert {row.problem_id for row in results} == {"family/N=100"}


def test_a_time_under_a_hard_bound_that_was_not_measured_is_not_impossible(bench, parts, file):
    parts[0].bounded = {**BOUND, "bound_ms": 60.0, "hard_bound_ms": 50.0}
    fast, slow = measured(bench, at(file, {**VALID[0], "BLOCK": 256}, VALID[0]))
    assert (fast.verdict, slow.verdict) == (Verdict.BEATS_ALGORITHM, Verdict.CORRECT)
    assert fast.message.startswith("1 ms is under the hard bound of 50 ms; what the inputs need")


def test_what_is_compiled_first_is_timed_first(bench, parts, file, monkeypatch):
    slow, compiled = Future(), parts[0].compiled

    def late(kernel, reference, shape, choices):
        now = compiled(kernel, reference, shape, choices)
        if shape["N"] != 1:
            return now
        slow.set_running_or_notify_cancel()
        return slow

    monkeypatch.setattr(parts[0], "compiled", late)
    bench.submit([*at(file, VALID[0], size=1), *at(file, VALID[0], size=2)])
    results = bench.outcomes()
    assert next(results)[1].shape == {"N": 2}
    slow.set_result(compiled(None, None, None, [VALID[0]]).result())
    assert next(results)[1].shape == {"N": 1}


def test_it_waits_no_longer_than_it_may_and_goes_on_later(bench, parts, file, monkeypatch):
    measured(bench, at(file, VALID[3]))  # takes the GPU
    late = Future()
    with monkeypatch.context() as patch:
        patch.setattr(parts[0], "compiled", lambda *_: late)
        bench.submit(at(file, VALID[0]))
    before_s = bench.clock.now_s()
    assert list(bench.outcomes(until_s=before_s + 0.05)) == []
    assert 0.05 <= bench.clock.now_s() - before_s < 5.0
    assert bench.waited_s >= 0.04
    late.set_result([Compiled(0.25)])
    assert len(list(bench.outcomes())) == 1


def test_the_gpu_is_held_from_the_first_outcomes_on(bench, file):
    assert bench.clock.gpu_s() == 0.0
    measured(bench, at(file, VALID[0]))
    assert 0.0 < bench.clock.gpu_s() <= bench.clock.now_s()


def test_loading_the_first_file_is_no_time_of_the_gpu(bench, parts, file, monkeypatch):
    held_s = []
    monkeypatch.setattr(parts[1], "load_file", lambda *_: held_s.append(bench.clock.gpu_s()))
    measured(bench, at(file, VALID[0]))
    assert held_s == [0.0]


def test_leaving_the_iterator_loses_nothing_and_discarding_what_is_not_timed(bench, parts, file):
    bench.submit(at(file, *VALID[:48:3]))  # which are all correct
    for _ in bench.outcomes():
        break
    assert bench.pending == 15
    bench.discard()
    assert bench.pending == 7  # of the handful that was timed
    assert len(list(bench.outcomes())) == 7
    assert len(parts[1].handfuls) == 1


def test_a_file_that_cannot_be_read_is_refused_before_anything_is_queued(bench, file):
    with pytest.raises(InputError, match="cannot read"):
        bench.submit([*at(file, VALID[0]), *at("nowhere.py", VALID[0])])
    assert bench.pending == 0


def test_a_gpu_of_the_catalogue_cannot_be_timed(parts, log, monkeypatch):
    monkeypatch.setattr(parts[0], "device", replace(DEVICE, uuid=None))
    with pytest.raises(UnsupportedError, match="catalogue"):
        TrustedBench(parts[0], log)


def test_orders_that_are_ready_are_timed_together(bench, parts, file):
    for item in at(file, *[VALID[3 * n] for n in range(10)]):
        bench.submit([item])
    bench.submit(at(file, VALID[0], size=7))
    results = [outcome for _, outcome in bench.outcomes()]
    handfuls = [(h.shape["N"], len(h.drafts)) for h in parts[1].handfuls]
    assert handfuls == [(100, 8), (100, 2), (7, 1)]
    assert len(results) == 11
    assert [row.params for row in results[:10]] == [VALID[3 * n] for n in range(10)]


def test_an_order_that_is_not_ready_is_not_waited_for(bench, parts, file, monkeypatch):
    late, compiled = Future(), parts[0].compiled
    monkeypatch.setattr(parts[0], "compiled", lambda *_: late)
    bench.submit(at(file, VALID[0]))
    monkeypatch.setattr(parts[0], "compiled", compiled)
    bench.submit(at(file, VALID[3]))
    outcomes = bench.outcomes()
    assert next(outcomes)[1].params == VALID[3]
    late.set_result([Compiled(0.25)])
    assert next(outcomes)[1].params == VALID[0]
    assert [len(h.drafts) for h in parts[1].handfuls] == [1, 1]


def test_another_seed_gives_other_inputs(parts, log, file):
    with TrustedBench(parts[0], log, seed=7) as bench:
        (row,) = measured(bench, at(file, VALID[0]))
    assert row.seed == parts[1].handfuls[0].seed == 7


def test_a_new_seed_holds_from_the_next_handful_on(bench, parts, file):
    for seed in (0, 3):
        bench.seed = seed
        (row,) = measured(bench, at(file, VALID[0]))
        assert row.seed == parts[1].handfuls[-1].seed == seed


@pytest.mark.parametrize(
    ("limits", "passed"), [((5.0, 7.0), 7.0), ((5.0, None), None), ((None, None), None)]
)
def test_a_handful_is_hopeless_beyond_the_largest_limit(bench, parts, file, limits, passed):
    both = at(file, VALID[0], VALID[3])
    results = [replace(c, hopeless_ms=limit) for c, limit in zip(both, limits, strict=True)]
    measured(bench, results)
    assert parts[1].handfuls[0].hopeless_ms == passed


def test_the_gpu_is_not_taken_before_something_is_compiled(bench, parts, file, monkeypatch):
    late: Future = Future()
    monkeypatch.setattr(parts[0], "compiled", lambda *_: late)
    bench.submit(at(file, VALID[0]))
    assert list(bench.outcomes(bench.clock.now_s() + 0.1)) == []
    assert bench.clock.gpu_s() == bench.waited_s == 0.0
    late.set_result([Compiled(0.25)])
    assert len(list(bench.outcomes())) == 1
    assert bench.clock.gpu_s() > 0.0


def test_what_is_compiled_is_kept_if_the_gpu_is_busy(bench, file, monkeypatch):
    def busy(*_):
        raise WorkerError("another SolKit holds the GPU")

    bench.submit(at(file, VALID[0]))
    with monkeypatch.context() as patch:
        patch.setattr(bench, "_start_process", busy)
        with pytest.raises(WorkerError, match="holds the GPU"):
            next(bench.outcomes())
    assert bench.pending == 1
    assert len(list(bench.outcomes())) == 1
