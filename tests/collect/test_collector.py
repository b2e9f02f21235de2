"""What is tried next: the trusted bench's compiler and timer are fake, files and logs are real."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace

import fakes
import pytest
from fakes import VALID
from recordings import outcome

from solkit.collect import Limits, Workload, collect, recorded_workloads, survey_kernels, workloads
from solkit.collect.config_sampler import NEAR_BEST, REPEAT
from solkit.core import Configuration, Space, Verdict
from solkit.datasets import outcomelog
from solkit.datasets.kernels import select_kernels
from solkit.datasets.outcomelog import OutcomeLog
from solkit.measure.benches import RecordedBench
from solkit.measure.benches.trusted import TrustedBench
from solkit.measure.benches.trusted import bench as trusted

RIGHT = [params for params in VALID if params["SPLIT"] == 1]


@contextmanager
def resolved_late(future, value):
    """What is waited for in vain fails a test instead of holding it up."""
    timer = threading.Timer(5.0, lambda: future.done() or future.set_result(value))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@pytest.fixture
def fakes_(monkeypatch):
    monkeypatch.setattr(workloads.toolchain, "missing_tools", lambda _: "")
    return fakes.fake(monkeypatch)


@pytest.fixture
def kernels(tmp_path):
    folder = tmp_path / "family"
    folder.mkdir()
    (folder / "problem.py").write_text('KIND = "norm"\n')
    for name in "ab":
        (folder / f"{name}.py").write_text(f"# {name}\n")
    return select_kernels([str(folder)])


@pytest.fixture
def run(tmp_path, fakes_, kernels):
    """Collect into a file; gives the rows that are new in it."""

    def run(name="run.jsonl", after=(), per_cell=24, seconds=60.0, **options):
        path = tmp_path / name
        earlier = [row for item in after for row in outcomelog.read(tmp_path / item).rows]
        before = outcomelog.read(path).rows if path.exists() else ()
        limits = Limits(seconds, per_cell, options.pop("repeats", 0.05))
        tell = options.pop("lost", lambda _: None)
        ahead = fakes_[0]
        with OutcomeLog(path, resume=True) as log, TrustedBench(ahead, log, kernels, tell) as bench:
            results = survey_kernels(kernels, ahead, tell)
            known_values = [*earlier, *before]
            run.progress = collect(results, bench, limits, known_values, log.run_id, **options)
        return outcomelog.read(path).rows[len(before) :]

    run.folder = tmp_path
    return run


def keys(rows):
    return Counter(row.key for row in rows)


def test_each_kernel_and_shape_gets_as_many_as_are_wanted(run, kernels):
    rows = run()
    cells = Counter((row.kernel_id, row.problem_id) for row in rows)
    assert set(cells) == {
        (kernel.kernel_id, f"family/N={n}") for kernel in kernels for n in (100, 200)
    }
    assert set(cells.values()) == {24}
    assert set(keys(rows).values()) == {1}
    assert run.progress.rows.total() == len(rows) == 96


def test_all_cells_have_a_handful_before_any_has_a_second(run):
    rows = run()
    first = Counter((row.kernel_id, row.problem_id) for row in rows[:32])
    assert list(first.values()) == [8] * 4


def test_kernels_that_came_near_the_best_of_their_problem_go_on_before_others(run, fakes_):
    _, process = fakes_
    answer = process.outcomes

    def slower(handful):
        times = 1000.0 if handful.path.endswith("b.py") else 1.0
        return [
            replace(tried, time_ms=times * tried.time_ms) if tried.time_ms else tried
            for tried in answer(handful)
        ]

    process.outcomes = slower
    rows = run(per_cell=24)
    names = [row.implementation for row in rows]
    assert Counter(names[:32]) == {"family/a": 16, "family/b": 16}
    # a second handful of b may be chosen before a's first times are known
    assert names[-24:] == ["family/b"] * 24


def test_more_is_tried_first_of_problems_of_which_few_good_ones_are_known(run, fakes_, monkeypatch):
    monkeypatch.setattr(trusted, "AHEAD", 1)
    _, process = fakes_
    answer = process.outcomes

    def flat(handful):
        even = handful.shape["N"] == 200
        return [
            replace(tried, time_ms=1.0) if tried.time_ms and even else tried
            for tried in answer(handful)
        ]

    process.outcomes = flat
    rows = run(per_cell=24)
    first = [row.problem_id for row in rows[:32]]
    assert Counter(first) == {"family/N=100": 16, "family/N=200": 16}
    assert {row.problem_id for row in rows[32:56]} == {"family/N=100"}
    assert Counter(row.problem_id for row in rows[56:])["family/N=200"] == 32


def known_of(row, good):
    """Rows like it: good ones, told by how they were chosen, and ten bad ones, drawn."""
    chosen_by = [*good, *["random"] * 10]
    return [
        replace(row, params=params, chosen_by=how, time_ms=1.0 if n < len(good) else 3.0)
        for n, (params, how) in enumerate(zip(RIGHT, chosen_by))
    ]


@pytest.mark.parametrize(
    ("good", "near"),
    [
        (["near_best"] * 3 + ["random"] * 3, 6),  # more good ones are wanted
        (["near_best"] * 9, 0),  # good ones that were not searched for are
        (["near_best"] * 8 + ["random"], 2),  # nothing is
    ],
)
def test_later_ones_are_chosen_by_what_their_problem_lacks(run, fakes_, tmp_path, good, near):
    fakes_[0].valid = RIGHT
    row = next(row for row in run("first.jsonl", per_cell=1) if row.implementation == "family/a")
    rows = known_of(row, good)
    with OutcomeLog(tmp_path / "earlier.jsonl", resume=True) as log:
        log.append(rows)
    new = run(after=["earlier.jsonl"], per_cell=len(rows) + 8, repeats=0.0)
    cell = row.kernel_id, row.problem_id
    chosen = [item.chosen_by for item in new if (item.kernel_id, item.problem_id) == cell]
    assert len(chosen) == 8
    assert chosen.count(NEAR_BEST) == near


def test_more_is_tried_first_of_problems_with_no_good_ones_but_the_searchs(run, fakes_, tmp_path):
    fakes_[0].valid = RIGHT
    with OutcomeLog(tmp_path / "earlier.jsonl", resume=True) as log:
        for row in run("first.jsonl", per_cell=1):
            how = NEAR_BEST if row.problem_id == "family/N=200" else "random"
            log.append(known_of(row, [how] * 9))
    new = run(after=["earlier.jsonl"], per_cell=27, repeats=0.0)
    assert [row.problem_id for row in new] == ["family/N=200"] * 16 + ["family/N=100"] * 16


def test_kernels_are_surveyed_while_others_compile(run, fakes_, monkeypatch):
    """Or a run after others, which orders little of each kernel, waits for the compiler."""
    monkeypatch.setattr(workloads, "_SURVEYED", 1)
    ahead, _ = fakes_
    space, compiled = ahead.space, ahead.compiled
    first, second = Future(), Future()
    surveys, compilations = iter([None, second]), iter([first])

    def counted(kernel):
        if (late := next(surveys, None)) is None:
            return space(kernel)
        threading.Timer(0.1, late.set_result, [space(kernel).result()]).start()
        return late

    def ordered(*arguments):
        now = compiled(*arguments)
        if second.done() and not first.done():
            first.set_result(now.result())
        return next(compilations, None) or now

    monkeypatch.setattr(ahead, "space", counted)
    monkeypatch.setattr(ahead, "compiled", ordered)
    with resolved_late(first, []):
        assert len(run(per_cell=8)) == 32


def test_more_is_tried_of_the_surveyed_while_others_are_surveyed(run, fakes_, monkeypatch):
    ahead, process = fakes_
    late, space = Future(), ahead.space
    shapes = [{"shape": s, "default": VALID[5], "valid": VALID} for s in fakes.SHAPES]

    def slower(handful):
        times = 1000.0 if handful.path.endswith("b.py") else 1.0
        handfuls.append(handful.path)
        if len(handfuls) == 7:  # the third of this run
            late.set_result(shapes)
        return [
            replace(tried, time_ms=times * tried.time_ms) if tried.time_ms else tried
            for tried in map(process.one, handful.drafts)
        ]

    handfuls = []
    monkeypatch.setattr(process, "outcomes", slower)
    run("one.jsonl", per_cell=8)
    monkeypatch.setattr(ahead, "space", lambda k: late if k.name.endswith("b") else space(k))
    with resolved_late(late, shapes):
        rows = run("two.jsonl", after=["one.jsonl"], repeats=0.0)
    assert {row.implementation for row in rows[:16]} == {"family/a"}
    assert Counter(row.implementation for row in rows) == {"family/a": 32, "family/b": 32}
    assert len(handfuls) == 12


def test_a_limit_under_a_handful(run):
    assert len(run(per_cell=5)) == 4 * 5


def test_the_good_region_is_dense(run, monkeypatch):
    monkeypatch.setattr(trusted, "AHEAD", 1)
    rows = run(per_cell=72)
    near = [row for row in rows if row.chosen_by == NEAR_BEST and row.time_ms is not None]
    spread = [row for row in rows if row.chosen_by != NEAR_BEST and row.time_ms is not None]
    assert len(near) > 20
    assert sum(row.time_ms for row in near) / len(near) < 0.5 * (
        sum(row.time_ms for row in spread) / len(spread)
    )


def test_a_run_goes_on_where_it_was_cut(run):
    first = run(per_cell=12)
    second = run(per_cell=36)
    assert len(first) == 4 * 12
    assert len(second) == 4 * 24
    assert set(keys([*first, *second]).values()) == {1}
    assert {row.run_id for row in second} == {first[0].run_id}
    assert run(per_cell=36) == ()


def test_a_run_that_was_cut_anywhere_ends_as_one_that_was_not(run):
    class CutError(Exception):
        pass

    def cut(progress):
        if progress.rows.total() > 40:
            raise CutError

    with pytest.raises(CutError):
        run(show=cut)
    assert 0 < len(run()) < 96 - 40
    assert run() == ()


@pytest.mark.slow
def test_another_run_repeats_a_share_of_what_was_right(run):
    first = run("first.jsonl", per_cell=120)
    right = {row.key for row in first if row.verdict is Verdict.CORRECT}
    second = run("second.jsonl", ["first.jsonl"], per_cell=120, repeats=0.5)
    assert {row.chosen_by for row in second} == {REPEAT}
    assert {row.key for row in second} <= right
    assert len(right) == 4 * 40  # 20 handfuls of 8, of which 10 are meant, with a deviation of 2.2
    assert len(second) % 8 == 0
    assert 2 * 8 < len(second) < 18 * 8
    assert set(keys(second).values()) == {1}
    assert run("second.jsonl", ["first.jsonl"], per_cell=120, repeats=0.5) == ()


def test_all_or_none_may_be_repeated(run):
    right = [row for row in run("first.jsonl") if row.verdict is Verdict.CORRECT]
    assert run("second.jsonl", ["first.jsonl"], repeats=0.0) == ()
    assert keys(run("third.jsonl", ["first.jsonl"], repeats=1.0)) == keys(right)


def test_given_configurations_and_no_others_are_timed_again(run):
    """``--after points.jsonl --repeats 1 --per-shape 0``: with another Triton, say."""
    right = [row for row in run("first.jsonl", per_cell=12) if row.verdict is Verdict.CORRECT]
    of_one_shape = [row for row in right if row.problem_id == "family/N=100"]
    points = outcomelog.log_of_tried(of_one_shape)
    (run.folder / "points.jsonl").write_text(points)
    again = run("second.jsonl", ["points.jsonl"], per_cell=0, repeats=1.0)
    assert keys(again) == keys(of_one_shape)
    assert {row.chosen_by for row in again} == {REPEAT}


def test_another_run_goes_on_with_others(run):
    first = run("first.jsonl", per_cell=12)
    second = run("second.jsonl", ["first.jsonl"], per_cell=24, repeats=0.0)
    assert len(second) == 4 * 12
    assert not keys(first) & keys(second)


@pytest.mark.parametrize("job", ["compiled", "space"])
def test_it_ends_on_time_where_nothing_has_been_done_ahead(run, fakes_, monkeypatch, job):
    never = Future()
    monkeypatch.setattr(fakes_[0], job, lambda *_: never)
    with resolved_late(never, []):
        assert run(seconds=0.1) == ()
        assert never.cancelled() or not never.done()


@pytest.mark.slow
def test_what_was_not_measured_is_tried_again_by_a_later_run_alone(run, fakes_, monkeypatch):
    _, process = fakes_
    one = process.one
    with monkeypatch.context() as patch:
        patch.setattr(process, "one", lambda d: (in_vain if d.params["num_warps"] == 8 else one)(d))
        first = run("first.jsonl", per_cell=120)
    again = [row for row in first if row.verdict is Verdict.NOT_MEASURED]
    assert again
    assert {row.message for row in again} == {"no such op"}
    assert set(keys(first).values()) == {1}  # not twice in one run
    other = run("second.jsonl", ["first.jsonl"], per_cell=120, repeats=0.0)
    assert keys(other) == keys(again)
    resumed = run("first.jsonl", per_cell=120)
    assert keys(resumed) == keys(again)
    assert Verdict.NOT_MEASURED not in {row.verdict for row in resumed}
    assert run("first.jsonl", per_cell=120) == ()


def in_vain(draft):
    return replace(draft, verdict=Verdict.NOT_MEASURED, message="no such op")


def unmeasured(handful):
    """What becomes of it where its reference raises."""
    return list(map(in_vain, handful.drafts))


@pytest.mark.slow
@pytest.mark.parametrize("later", ["second.jsonl", "first.jsonl"])
def test_what_two_starts_did_not_measure_counts_as_tried(run, fakes_, monkeypatch, later):
    """Whether another run tried it again or the same one went on."""
    _, process = fakes_
    one = process.one
    after = {"first.jsonl"} - {later}
    with monkeypatch.context() as patch:
        patch.setattr(process, "one", lambda d: (in_vain if d.params["num_warps"] == 8 else one)(d))
        first = run("first.jsonl", per_cell=120)
        second = run(later, after, per_cell=120, repeats=0.0)
    again = [row for row in first if row.verdict is Verdict.NOT_MEASURED]
    assert len(again) == 4 * 19  # 10 BLOCK of 2 SPLIT that compile, but one ends the process
    assert keys(second) == keys(again)
    assert run("third.jsonl", {*after, later}, per_cell=120, repeats=0.0) == ()


def test_a_row_that_is_there_twice_is_one_try(run, fakes_, monkeypatch):
    fakes_[0].valid = RIGHT  # which all compile
    with monkeypatch.context() as patch:
        patch.setattr(fakes_[1], "outcomes", unmeasured)
        first = run("first.jsonl", per_cell=1)
    assert {row.verdict for row in first} == {Verdict.NOT_MEASURED}
    assert keys(run("second.jsonl", ["first.jsonl"] * 2, per_cell=1)) == keys(first)


def test_a_cell_that_cannot_be_measured_ends_in_a_run_and_in_all(run, fakes_, monkeypatch):
    fakes_[0].valid = RIGHT
    _, process = fakes_
    timed = process.outcomes
    with monkeypatch.context() as patch:
        patch.setattr(process, "outcomes", lambda h: (unmeasured if "b.py" in h.path else timed)(h))
        first = run("first.jsonl", per_cell=24)
        assert Counter(row.implementation for row in first) == {"family/a": 48, "family/b": 16}
        second = run("second.jsonl", ["first.jsonl"], per_cell=24, repeats=0.0)
        assert keys(second) == keys(row for row in first if row.implementation == "family/b")
        assert run("third.jsonl", ["first.jsonl", "second.jsonl"], repeats=0.0) == ()
    passed = run("third.jsonl", ["first.jsonl"], per_cell=24, repeats=0.0)
    assert Counter(row.verdict for row in passed) == {Verdict.CORRECT: 2 * 24}


def test_what_does_not_compile_does_not_hide_that_nothing_can_be_measured(run, fakes_, monkeypatch):
    monkeypatch.setattr(fakes_[1], "outcomes", unmeasured)
    rows = run(per_cell=120)
    cells = Counter(
        (row.kernel_id, row.problem_id) for row in rows if row.verdict is Verdict.NOT_MEASURED
    )
    assert {row.verdict for row in rows} == {Verdict.NOT_MEASURED, Verdict.DOES_NOT_COMPILE}
    assert len(cells) == 4
    assert all(8 <= count < 16 for count in cells.values())


def test_kernels_that_cannot_be_surveyed_are_told_and_the_others_go_on(run, fakes_):
    fakes_[0].error = "no such module"
    lost = []
    rows = run(lost=lost.append)
    assert lost == ["family/b: no such module"]
    assert {row.implementation for row in rows} == {"family/a"}


FORM = "reference = inputs = kernel = None\n"


def test_extensions_are_built_where_there_are_the_tools(fakes_, tmp_path, monkeypatch):
    (tmp_path / "c.py").write_text(f"from torch.utils import cpp_extension\n{FORM}")
    (tmp_path / "d.py").write_text(FORM)
    kernels, results = select_kernels([str(tmp_path)]), []

    def names():
        return {cell.name for cell in survey_kernels(kernels, fakes_[0], results.append) if cell}

    assert (names(), results) == ({"c", "d"}, [])
    monkeypatch.setattr(workloads.toolchain, "missing_tools", lambda _: "nvcc")
    assert names() == {"d"}
    assert results == ["1 kernels in CUDA C++ are left out, as there is no nvcc"]


def test_kernels_whose_extensions_build_hold_up_no_others(fakes_, tmp_path, monkeypatch):
    monkeypatch.setattr(workloads, "_SURVEYED", 1)
    for n in range(6):
        (tmp_path / f"builds_{n}.py").write_text(f"from torch.utils import cpp_extension\n{FORM}")
    for name in "az":
        (tmp_path / f"{name}.py").write_text(FORM)
    built, space = Future(), fakes_[0].space
    monkeypatch.setattr(
        fakes_[0], "space", lambda k: built if k.name.startswith("builds") else space(k)
    )
    kernels = survey_kernels(select_kernels([str(tmp_path)]), fakes_[0], lambda _: None)
    seen = {cell.name for cell in itertools.islice(kernels, 20) if cell is not None}
    assert seen == {"a", "z"}


def test_what_has_no_valid_configuration_is_passed_over(run, fakes_):
    fakes_[0].valid = []
    assert run() == ()


def test_rows_of_other_gpus_are_no_part_of_it(run, tmp_path):
    rows = run("one.jsonl")
    with OutcomeLog(tmp_path / "other.jsonl", resume=True) as log:
        log.append([replace(row, device="h200") for row in rows])
    again = run("two.jsonl", after=["other.jsonl"])
    assert keys(again) == keys(rows)


def test_the_next_of_a_kernel_is_chosen_when_the_last_ones_times_are_known(
    run, fakes_, monkeypatch
):
    ahead, process = fakes_
    timed: list[int] = []
    requests: list[int] = []
    answer, compile_ahead = process.outcomes, ahead.compiled

    def outcomes(handful):
        timed.append(len(handful.drafts))
        return answer(handful)

    def compiled(*arguments):
        requests.append(len(timed))
        return compile_ahead(*arguments)

    monkeypatch.setattr(process, "outcomes", outcomes)
    monkeypatch.setattr(ahead, "compiled", compiled)
    rows = run()
    assert len(requests) == 12  # four cells, three handfuls each
    assert requests[:3] == [0, 0, 0]  # as many are compiled ahead
    assert min(requests[4:]) > 0
    assert {row.chosen_by for row in rows[48:]} > {"near_best"}


# ----------------------------------------------------------------------------- on a recorded bench


def recording(sizes=(100, 200)):
    """What the fake process would find, each costing a core 1 s and the GPU 0.1 s."""
    rows = []
    for size in sizes:
        for params in RIGHT:
            time_ms = float(abs(params["BLOCK"] - 256) + params["num_warps"])
            rows.append(
                outcome(
                    len(rows),
                    params=params,
                    time_ms=time_ms,
                    compile_s=1.0,
                    first_call_s=0.1,
                    samples_ms=(),
                    warmup_calls=0,
                    shape={"N": size},
                )
            )
    return rows


def test_a_recorded_bench_is_driven_like_any_other():
    bench = RecordedBench(recording(), cores=2)
    progress = collect(recorded_workloads(bench.recording), bench, Limits(1e6, per_cell=24))
    assert progress.rows == {"correct": 48}
    assert progress.gpu_s == bench.clock.gpu_s() > 24.0  # two cores compiled 48 of them


def test_a_replayed_search_looks_near_the_best():
    requests = []

    class Watched(RecordedBench):
        def submit(self, configurations):
            requests.extend(configurations)
            super().submit(configurations)

    bench = Watched(recording(), cores=1)
    collect(recorded_workloads(bench.recording), bench, Limits(1e6, per_cell=16))
    assert {request.chosen_by for request in requests[:16]} == {"default", "latin_hypercube"}
    near = [request.params["BLOCK"] for request in requests if request.chosen_by == NEAR_BEST]
    assert len(near) == 12  # three quarters of each cell's second handful
    assert sum(64 <= block <= 512 for block in near) >= 8  # the best is 256 of 16 to 8192


def test_a_budget_is_of_virtual_seconds():
    bench = RecordedBench(recording(), cores=1)
    progress = collect(recorded_workloads(bench.recording), bench, Limits(30.0))
    # handfuls are compiled after 8, 16 and 24 s, the fourth only after 32 s
    assert progress.rows.total() == 24
    assert bench.clock.gpu_s() <= 30.0 + 1e-6
    assert bench.pending == 0


def test_rows_of_a_recording_that_are_known_are_not_asked_for_again():
    rows = recording()
    bench = RecordedBench(rows, cores=1)
    limits = Limits(1e6, per_cell=40, repeats=0.0)
    progress = collect(recorded_workloads(bench.recording), bench, limits, rows[:30], "another run")
    assert progress.rows.total() == 50


def test_the_cells_of_a_recording():
    first, second = recorded_workloads(recording())
    assert isinstance(first, Workload)
    assert (first.kernel_id, first.problem_id) == ("k" * 16, "softmax/N=100")
    assert first.name == "softmax/rows"
    assert first.default == Configuration(
        "k" * 16, "kernel", {"N": 100}, RIGHT[0], chosen_by="random"
    )
    assert second.default.shape == {"N": 200}
    assert second.space == Space.of_points(RIGHT)
