"""The loop: what compiles ahead and what times are fake, the files and the run's log are real."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import Counter
from concurrent.futures import Future
from dataclasses import replace

import pytest
import served

from solkit.collect import Limits, collect, collector, sources
from solkit.collect.ahead import Compiled
from solkit.collect.bench import Tried
from solkit.collect.choice import NEAR_BEST, REPEAT
from solkit.collect.timing_process import LostError
from solkit.core import KernelAnalysis, Launch, Verdict
from solkit.datasets import runlog
from solkit.datasets.record import TimedDemand, TimedLaunch
from solkit.datasets.runlog import RunLog
from solkit.errors import UnsupportedError, WorkerError
from solkit.roofline import devices

DEVICE = replace(devices.find("h100-sxm"), uuid="GPU-0")
SPACE = {"BLOCK": [2**n for n in range(4, 14)], "num_warps": [1, 2, 4, 8], "SPLIT": [1, 2, 4]}
VALID = [dict(zip(SPACE, values)) for values in itertools.product(*SPACE.values())]
RIGHT = [params for params in VALID if params["SPLIT"] == 1]
SHAPES = ({"N": 100}, {"N": 200})
BOUND = {
    "bound_ms": 0.5,
    "hard_bound_ms": 0.4,
    "limiter": "dram",
    "precision": "bf16",
    "operations": {"fp32": 7},
    "read_bytes": 8,
    "write_bytes": 9,
}
LAUNCH = KernelAnalysis(Launch("k", (4, 1, 1), 4, 2), registers=32, shared_bytes=1024)
COMPILED = TimedLaunch("k", (4, 1, 1), 4, 2, demand=TimedDemand(load_bytes=64))


def done(value):
    future = Future()
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)
    return future


@contextlib.contextmanager
def resolved_late(future, value):
    """What is waited for in vain fails a test instead of holding it up."""
    timer = threading.Timer(5.0, lambda: future.done() or future.set_result(value))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class FakeAhead:
    """Knows everything at once; SPLIT 4 does not compile."""

    def __init__(self, *_):
        self.valid, self.error, self.bound = VALID, None, BOUND

    def space(self, path, builds_extension):
        assert builds_extension == ("c.py" in path)
        shapes = [{"shape": s, "default": VALID[5], "valid": self.valid} for s in SHAPES]
        return done(WorkerError(self.error) if self.error and "b.py" in path else shapes)

    def bounds(self, _path):
        return done([self.bound for _ in SHAPES])

    def compiled(self, _path, _shape, choices):
        errors = ["too big" if c["SPLIT"] == 4 else "" for c in choices]
        return done([Compiled(0.25, error, (COMPILED,)) for error in errors])


class FakeProcess:
    """Takes |BLOCK - 256| + num_warps ms; SPLIT 2 is wrong, but ends the process with BLOCK 16."""

    def __init__(self, *_):
        self.handfuls = []

    def start(self):
        return served.ENVIRONMENT

    def tried(self, handful):
        self.handfuls.append(handful)
        for number, params in enumerate(handful.choices):
            if params["SPLIT"] == 2 and params["BLOCK"] == 16:
                raise LostError(number, Tried(Verdict.TIMED_OUT, "killed"))
        return [self.one(params) for params in handful.choices]

    def one(self, params):
        if params["SPLIT"] == 2:
            return Tried(Verdict.WRONG, "8 of 8 elements", max_error=2.0)
        time_ms = float(abs(params["BLOCK"] - 256) + params["num_warps"])
        return Tried(
            Verdict.CORRECT,
            dtypes=("bfloat16", "bfloat16"),
            launches=(LAUNCH,),
            samples_ms=(time_ms,) * 9,
            time_ms=time_ms,
            conditions={"sm_clock_mhz": 1980.0, "reasons": {"idle": 0.5}},
        )


@pytest.fixture
def fakes(monkeypatch):
    ahead, process = FakeAhead(), FakeProcess()
    monkeypatch.setattr(collector, "Ahead", lambda *_: contextlib.nullcontext(ahead))
    monkeypatch.setattr(collector, "TimingProcess", lambda *_: contextlib.nullcontext(process))
    monkeypatch.setattr(collector, "exclusive", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(collector.toolchain, "missing", lambda _: "")
    return ahead, process


@pytest.fixture
def kernels(tmp_path):
    folder = tmp_path / "family"
    folder.mkdir()
    (folder / "problem.py").write_text('KIND = "norm"\n')
    for name in "ab":
        (folder / f"{name}.py").write_text(f"# {name}\n")
    return sources([str(folder)])


@pytest.fixture
def run(tmp_path, fakes, kernels):  # noqa: ARG001  # the fakes take their places
    """Collect into a file; gives the rows that are new in it."""

    def run(name="run.jsonl", after=(), per_cell=24, seconds=60.0, **options):
        path = tmp_path / name
        earlier = [row for each in after for row in runlog.read(tmp_path / each).rows]
        before = runlog.read(path).rows if path.exists() else ()
        limits = Limits(seconds, per_cell, options.pop("repeats", 0.05), workers=1)
        with RunLog(path) as log:
            run.progress = collect(kernels, DEVICE, log, limits, [*earlier, *before], **options)
        return runlog.read(path).rows[len(before) :]

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


def test_kernels_that_came_near_the_best_of_their_problem_go_on_before_others(run, fakes):
    _, process = fakes
    answer = process.tried

    def slower(handful):
        times = 1000.0 if handful.path.endswith("b.py") else 1.0
        return [
            replace(tried, time_ms=times * tried.time_ms) if tried.time_ms else tried
            for tried in answer(handful)
        ]

    process.tried = slower
    rows = run(per_cell=24)
    names = [row.implementation for row in rows]
    assert Counter(names[:32]) == {"family/a": 16, "family/b": 16}
    # a second handful of b may be chosen before a's first times are known
    assert names[-24:] == ["family/b"] * 24


def test_more_is_tried_first_of_problems_of_which_few_good_ones_are_known(run, fakes, monkeypatch):
    monkeypatch.setattr(collector, "_AHEAD", 1)
    _, process = fakes
    answer = process.tried

    def flat(handful):
        even = handful.shape["N"] == 200
        return [
            replace(tried, time_ms=1.0) if tried.time_ms and even else tried
            for tried in answer(handful)
        ]

    process.tried = flat
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
def test_later_ones_are_chosen_by_what_their_problem_lacks(run, fakes, tmp_path, good, near):
    fakes[0].valid = RIGHT
    row = next(row for row in run("first.jsonl", per_cell=1) if row.implementation == "family/a")
    rows = known_of(row, good)
    with RunLog(tmp_path / "earlier.jsonl") as log:
        log.append(rows)
    new = run(after=["earlier.jsonl"], per_cell=len(rows) + 8, repeats=0.0)
    cell = row.kernel_id, row.problem_id
    chosen = [each.chosen_by for each in new if (each.kernel_id, each.problem_id) == cell]
    assert len(chosen) == 8
    assert chosen.count(NEAR_BEST) == near


def test_more_is_tried_first_of_problems_with_no_good_ones_but_the_searchs(run, fakes, tmp_path):
    fakes[0].valid = RIGHT
    with RunLog(tmp_path / "earlier.jsonl") as log:
        for row in run("first.jsonl", per_cell=1):
            how = NEAR_BEST if row.problem_id == "family/N=200" else "random"
            log.append(known_of(row, [how] * 9))
    new = run(after=["earlier.jsonl"], per_cell=27, repeats=0.0)
    assert [row.problem_id for row in new] == ["family/N=200"] * 16 + ["family/N=100"] * 16


def test_kernels_are_surveyed_while_others_compile(run, fakes, monkeypatch):
    """Or a run after others, which orders little of each kernel, waits for the compiler."""
    monkeypatch.setattr(collector, "_SURVEYED", 1)
    ahead, _ = fakes
    space, compiled = ahead.space, ahead.compiled
    first, second = Future(), Future()
    surveys, compilations = iter([None, second]), iter([first])

    def counted(path, builds_extension):
        if (late := next(surveys, None)) is None:
            return space(path, builds_extension)
        threading.Timer(0.1, late.set_result, [space(path, False).result()]).start()
        return late

    def ordered(path, shape, choices):
        now = compiled(path, shape, choices)
        if second.done() and not first.done():
            first.set_result(now.result())
        return next(compilations, None) or now

    monkeypatch.setattr(ahead, "space", counted)
    monkeypatch.setattr(ahead, "compiled", ordered)
    with resolved_late(first, []):
        assert len(run(per_cell=8)) == 32


def test_more_is_tried_of_the_surveyed_while_others_are_surveyed(run, fakes, monkeypatch):
    ahead, process = fakes
    late, space = Future(), ahead.space
    shapes = space("b.py", False).result()

    def slower(handful):
        times = 1000.0 if handful.path.endswith("b.py") else 1.0
        handfuls.append(handful.path)
        if len(handfuls) == 7:  # the third of this run
            late.set_result(shapes)
        return [
            replace(tried, time_ms=times * tried.time_ms) if tried.time_ms else tried
            for tried in map(process.one, handful.choices)
        ]

    handfuls = []
    monkeypatch.setattr(process, "tried", slower)
    run("one.jsonl", per_cell=8)
    monkeypatch.setattr(ahead, "space", lambda p, b: late if "b.py" in p else space(p, b))
    with resolved_late(late, shapes):
        rows = run("two.jsonl", after=["one.jsonl"], repeats=0.0)
    assert {row.implementation for row in rows[:16]} == {"family/a"}
    assert Counter(row.implementation for row in rows) == {"family/a": 32, "family/b": 32}
    assert len(handfuls) == 12


def test_a_limit_under_a_handful(run):
    assert len(run(per_cell=5)) == 4 * 5


def test_a_row_says_all_that_is_known(run, kernels):
    right = next(row for row in run() if row.verdict is Verdict.CORRECT)
    kernel = next(k for k in kernels if k.kernel_id == right.kernel_id)
    assert (right.family, right.kind, right.origin) == ("family", "norm", "file")
    assert (right.implementation, right.device) == (kernel.name, "h100-sxm")
    assert right.time_ms == abs(right.params["BLOCK"] - 256) + right.params["num_warps"]
    assert {name: getattr(right, name) for name in BOUND} == BOUND
    assert (right.clock_mhz, right.throttle_reasons) == (1980.0, {"idle": 0.5})
    assert (right.protocol, right.l2, right.launched) == ("cold", "cold", "eager")
    assert (right.compile_s, right.device_uuid, right.flush) == (0.25, "GPU-0", "not at all")
    (launch,) = right.launches
    assert (launch.name, launch.registers, launch.count) == ("k", 32, 1)
    assert right.launch_count is None  # copies and memsets are not counted
    assert launch.occupancy == 1.0  # 16 blocks of 4 warps, 32 registers and 2 KiB: 64 warps
    assert 0 < launch.waves < 1
    assert launch.demand == COMPILED.demand


def test_failures_are_kept_and_cost_no_other(run, fakes):
    rows = run(per_cell=120)
    assert len(rows) == 4 * 120
    for row in rows:
        expected = {
            1: (Verdict.CORRECT, None),
            2: (Verdict.WRONG, "8 of 8 elements"),
            4: (Verdict.DOES_NOT_COMPILE, "too big"),
        }[row.params["SPLIT"]]
        if (row.params["SPLIT"], row.params["BLOCK"]) == (2, 16):
            expected = Verdict.TIMED_OUT, "killed"
        assert (row.verdict, row.message) == expected
        assert [each.demand for each in row.launches] == [COMPILED.demand]
        assert (row.time_ms is None) == (row.verdict is not Verdict.CORRECT)
    _, process = fakes
    assert not [c for h in process.handfuls for c in h.choices if c["SPLIT"] == 4]
    assert run.progress.rows["timed_out"] == 4 * 4


def test_sources_are_kept_once(run, tmp_path):
    run()
    told = [source.name for source in runlog.read(tmp_path / "run.jsonl").sources]
    assert sorted(told) == ["family/a.py", "family/b.py", "family/problem.py"]


def test_the_good_region_is_dense(run, monkeypatch):
    monkeypatch.setattr(collector, "_AHEAD", 1)
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


def test_another_run_goes_on_with_others(run):
    first = run("first.jsonl", per_cell=12)
    second = run("second.jsonl", ["first.jsonl"], per_cell=24, repeats=0.0)
    assert len(second) == 4 * 12
    assert not keys(first) & keys(second)


def test_it_stops_on_time(run, monkeypatch):
    ticks = itertools.count(0, 10)
    monkeypatch.setattr(collector.time, "monotonic", lambda: float(next(ticks)))
    shown = []
    rows = run(per_cell=120, seconds=100.0, show=lambda p: shown.append(p.seconds))
    assert shown[-2] < 100 <= shown[-1]
    assert 0 < len(rows) < 4 * 120


@pytest.mark.parametrize("job", ["compiled", "space"])
def test_it_ends_on_time_where_nothing_has_been_done_ahead(run, fakes, monkeypatch, job):
    never = Future()
    monkeypatch.setattr(fakes[0], job, lambda *_: never)
    with resolved_late(never, []):
        assert run(seconds=0.1) == ()
        assert not never.done()


def test_what_was_not_measured_is_tried_again_by_a_later_run_alone(run, fakes, monkeypatch):
    _, process = fakes
    one = process.one
    with monkeypatch.context() as patch:
        unmeasured = Tried(Verdict.NOT_MEASURED, "no way of timing works", max_error=0.5)
        patch.setattr(process, "one", lambda p: unmeasured if p["num_warps"] == 8 else one(p))
        first = run("first.jsonl", per_cell=120)
    again = [row for row in first if row.verdict is Verdict.NOT_MEASURED]
    assert again
    assert {(row.message, row.max_error) for row in again} == {("no way of timing works", 0.5)}
    assert set(keys(first).values()) == {1}  # not twice in one run
    other = run("second.jsonl", ["first.jsonl"], per_cell=120, repeats=0.0)
    assert keys(other) == keys(again)
    resumed = run("first.jsonl", per_cell=120)
    assert keys(resumed) == keys(again)
    assert Verdict.NOT_MEASURED not in {row.verdict for row in resumed}
    assert run("first.jsonl", per_cell=120) == ()


def unmeasured(handful):
    """What becomes of it where its reference raises."""
    return [Tried(Verdict.NOT_MEASURED, "no such op")] * len(handful.choices)


@pytest.mark.parametrize("later", ["second.jsonl", "first.jsonl"])
def test_what_two_starts_did_not_measure_counts_as_tried(run, fakes, monkeypatch, later):
    """Whether another run tried it again or the same one went on."""
    _, process = fakes
    one, vain = process.one, Tried(Verdict.NOT_MEASURED, "killed")
    after = {"first.jsonl"} - {later}
    with monkeypatch.context() as patch:
        patch.setattr(process, "one", lambda p: vain if p["num_warps"] == 8 else one(p))
        first = run("first.jsonl", per_cell=120)
        second = run(later, after, per_cell=120, repeats=0.0)
    again = [row for row in first if row.verdict is Verdict.NOT_MEASURED]
    assert len(again) == 4 * 19  # 10 BLOCK of 2 SPLIT that compile, but one ends the process
    assert keys(second) == keys(again)
    assert run("third.jsonl", {*after, later}, per_cell=120, repeats=0.0) == ()


def test_a_row_that_is_there_twice_is_one_try(run, fakes, monkeypatch):
    fakes[0].valid = RIGHT  # which all compile
    with monkeypatch.context() as patch:
        patch.setattr(fakes[1], "tried", unmeasured)
        first = run("first.jsonl", per_cell=1)
    assert {row.verdict for row in first} == {Verdict.NOT_MEASURED}
    assert keys(run("second.jsonl", ["first.jsonl"] * 2, per_cell=1)) == keys(first)


def test_a_cell_that_cannot_be_measured_ends_in_a_run_and_in_all(run, fakes, monkeypatch):
    fakes[0].valid = RIGHT
    _, process = fakes
    tried = process.tried
    with monkeypatch.context() as patch:
        patch.setattr(process, "tried", lambda h: (unmeasured if "b.py" in h.path else tried)(h))
        first = run("first.jsonl", per_cell=24)
        assert Counter(row.implementation for row in first) == {"family/a": 48, "family/b": 16}
        second = run("second.jsonl", ["first.jsonl"], per_cell=24, repeats=0.0)
        assert keys(second) == keys(row for row in first if row.implementation == "family/b")
        assert run("third.jsonl", ["first.jsonl", "second.jsonl"], repeats=0.0) == ()
    passed = run("third.jsonl", ["first.jsonl"], per_cell=24, repeats=0.0)
    assert Counter(row.verdict for row in passed) == {Verdict.CORRECT: 2 * 24}


def test_what_does_not_compile_does_not_hide_that_nothing_can_be_measured(run, fakes, monkeypatch):
    monkeypatch.setattr(fakes[1], "tried", unmeasured)
    rows = run(per_cell=120)
    cells = Counter(
        (row.kernel_id, row.problem_id) for row in rows if row.verdict is Verdict.NOT_MEASURED
    )
    assert {row.verdict for row in rows} == {Verdict.NOT_MEASURED, Verdict.DOES_NOT_COMPILE}
    assert len(cells) == 4
    assert all(8 <= count < 16 for count in cells.values())


def test_how_long_compiling_took_may_be_unknown(run, fakes, monkeypatch):
    killed = Compiled(None, "exit code -9.", verdict=Verdict.NOT_MEASURED)
    monkeypatch.setattr(fakes[0], "compiled", lambda *given: done([killed] * len(given[2])))
    rows = run(per_cell=3)
    assert {(row.verdict, row.message, row.compile_s) for row in rows} == {
        (Verdict.NOT_MEASURED, "exit code -9.", None)
    }


def test_kernels_that_cannot_be_surveyed_are_told_and_the_others_go_on(run, fakes):
    fakes[0].error = "no such module"
    lost = []
    rows = run(lost=lost.append)
    assert lost == ["family/b: no such module"]
    assert {row.implementation for row in rows} == {"family/a"}


def test_extensions_are_built_where_there_are_the_tools(fakes, tmp_path, monkeypatch):  # noqa: ARG001
    (tmp_path / "c.py").write_text("from torch.utils import cpp_extension\n")
    (tmp_path / "d.py").write_text("# Triton\n")
    kernels = sources([str(tmp_path)])

    def names(path):
        lost = []
        with RunLog(tmp_path / path) as log:
            collect(kernels, DEVICE, log, Limits(60.0, 3, workers=1), lost=lost.append)
        return {row.implementation for row in runlog.read(tmp_path / path).rows}, lost

    assert names("all.jsonl") == ({"c", "d"}, [])
    monkeypatch.setattr(collector.toolchain, "missing", lambda _: "nvcc")
    told = "1 kernels in CUDA C++ are left out, as there is no nvcc"
    assert names("some.jsonl") == ({"d"}, [told])


def test_rows_without_a_bound_are_told(run, fakes):
    fakes[0].bound = {"error": "no such op"}
    lost = []
    rows = run(lost=lost.append)
    assert len(lost) == 4
    assert "no bound: no such op" in lost[0]
    assert {row.bound_ms for row in rows} == {None}


def test_what_has_no_valid_configuration_is_passed_over(run, fakes):
    fakes[0].valid = []
    assert run() == ()


def test_a_gpu_of_the_catalogue_cannot_time(kernels, tmp_path):
    with RunLog(tmp_path / "run.jsonl") as log, pytest.raises(UnsupportedError, match="catalogue"):
        collect(kernels, replace(DEVICE, uuid=None), log, Limits(1.0))


def test_times_that_cannot_be_are_told_and_not_followed(run, fakes):
    fakes[0].bound = {**BOUND, "hard_bound_ms": 50.0}
    rows = run()
    under = [row for row in rows if row.time_ms is not None and row.time_ms < 50.0]
    assert under
    assert {row.verdict for row in under} == {Verdict.IMPOSSIBLE}
    assert "under the hard bound of 50.0 ms" in under[0].message
    assert all(row.verdict is Verdict.CORRECT for row in rows if (row.time_ms or 0.0) >= 50.0)


def test_rows_of_other_gpus_are_no_part_of_it(run, tmp_path):
    rows = run("one.jsonl")
    with RunLog(tmp_path / "other.jsonl") as log:
        log.append([replace(row, device="h200") for row in rows])
    again = run("two.jsonl", after=["other.jsonl"])
    assert keys(again) == keys(rows)


def test_the_next_of_a_kernel_is_chosen_when_the_last_ones_times_are_known(run, fakes, monkeypatch):
    ahead, process = fakes
    timed: list[int] = []
    asked: list[int] = []
    answer, compile_ahead = process.tried, ahead.compiled

    def tried(handful):
        timed.append(len(handful.choices))
        return answer(handful)

    def compiled(path, shape, choices):
        asked.append(len(timed))
        return compile_ahead(path, shape, choices)

    monkeypatch.setattr(process, "tried", tried)
    monkeypatch.setattr(ahead, "compiled", compiled)
    rows = run()
    assert len(asked) == 12  # four cells, three handfuls each
    assert asked[:3] == [0, 0, 0]  # as many are compiled ahead
    assert min(asked[4:]) > 0
    assert {row.chosen_by for row in rows[48:]} > {"near_best"}
