"""Checks, studies, compiling, ranking and measuring of variants, and the shapes of practice."""

from __future__ import annotations

import contextlib
import math
import threading
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from solkit.core import (
    Analysis,
    AnalysisStatus,
    Bred,
    Candidate,
    Checked,
    Configuration,
    Depth,
    EvolveSettings,
    Forecast,
    MeasureSettings,
    Problem,
    Space,
    Variant,
    Verdict,
)
from solkit.errors import InputError
from solkit.measure.benches import RecordedBench
from solkit.pipeline import held_out_kernels, kernel_evaluator, variant_ranking
from solkit.pipeline.compiled_parents import COMPILED
from solkit.pipeline.evolve_original import Original
from solkit.pipeline.evolving import _make_check
from solkit.pipeline.kernel_evaluator import KernelEvaluator
from solkit.pipeline.practice import Practice
from solkit.pipeline.preparing import Preparation
from solkit.pipeline.studies_ahead import StudiesAhead
from solkit.pipeline.variant_checks import VariantChecks
from solkit.roofline.devices import find
from solkit.surrogate.plan import Action, Ranked
from solkit.tuner.evolution import Point
from solkit.tuner.evolution.variant_evaluator import VariantOutcome
from solkit.tuner.interpreter_check import Checkers

H100 = find("h100")
FIRST, SECOND, THIRD = {"M": 1024}, {"M": 3072}, {"M": 48}
MADE = [641, 128, 2048, 512]  # of 1024: five eighths and one, an eighth, twice, half
NOW = EvolveSettings()

_KERNEL = SimpleNamespace(error=None, facts=SimpleNamespace(registers=32))
WELL = SimpleNamespace(
    result=SimpleNamespace(
        analysis=SimpleNamespace(status=None, failure="", own=(_KERNEL,), code="")
    )
)


def original(shapes, held_out=(), space=None, **fields):
    problem = Problem("p", "k.py", "native", "reference", {"M": 7, "N": 2}, shapes, held_out)
    candidate = Candidate("kernel", "k.py", {}, space or Space())
    file = SimpleNamespace(problem=problem, candidate=candidate)
    return Original("k.py", "k.py", file, FIRST, {}, Variant("id", ""), **fields)


def sizes(shapes):
    assert all(shape["N"] == 2 for shape in shapes)
    return [shape["M"] for shape in shapes]


def test_the_files_own_shapes_come_first_then_those_made_of_the_searchs():
    base = original([FIRST, SECOND], held_out=[THIRD])
    assert sizes(base.practice(NOW)) == [3072, *MADE]


def test_shapes_that_are_held_out_for_want_of_others_are_not_practised_at():
    assert sizes(original([FIRST, SECOND, {"M": 128}]).practice(NOW)) == [641, 2048, 512]


@pytest.mark.parametrize("held_out", [[{"M": 641}], [{"M": 641, "N": 2}]])
def test_a_made_shape_that_is_held_out_is_left_out(held_out):
    assert sizes(original([FIRST], held_out=held_out).practice(NOW)) == MADE[1:]
    settings = EvolveSettings(held_out=held_out)
    assert sizes(original([FIRST]).practice(settings)) == MADE[1:]
    assert sizes(original([FIRST], held_out=[{"M": 128}]).practice(settings)) == MADE[2:]


def test_a_problem_with_one_shape_has_no_practice():
    assert original([FIRST]).practice(NOW) == []
    fits_one = original([FIRST, SECOND], held_out=[THIRD], compiled="reference.py")
    assert fits_one.practice(NOW) == []


def world(**failures):
    """A world where a kernel needs as many GB as its M says, and fails in analysis as told."""

    def analysed(configuration, *_):
        size = configuration.shape["M"]
        failure = failures.get(f"at_{size}", "")
        if failure == "refused":
            raise InputError("M must be even")
        work = SimpleNamespace(dram_bytes=size * 10**9)
        status = AnalysisStatus.NOT_CAPTURED if failure else AnalysisStatus.COMPLETE
        if failure == "given_up":
            status, failure = AnalysisStatus.OUT_OF_TIME, ""
        error = failure if "too much" in failure else None
        failure = "" if error else failure
        facts = SimpleNamespace(registers=32)
        if failure == "unfinished":
            failure, facts = "", SimpleNamespace(registers=None)
        kernel = SimpleNamespace(error=error, facts=facts)
        analysis = SimpleNamespace(failure=failure, status=status, own=(kernel,))
        return configuration, SimpleNamespace(result=SimpleNamespace(work=work, analysis=analysis))

    evaluator = KernelEvaluator(
        SimpleNamespace(analysed=analysed), H100, original([FIRST]), NOW, None
    )
    evaluator.close()
    return evaluator


def accepted(evaluator, first, shape):
    evaluator.original = replace(evaluator.original, shape={"M": first})
    return evaluator.accepts_shape({"M": shape})


def test_a_shape_may_need_what_the_searchs_does_or_a_sixteenth_of_the_memory():
    assert H100.memory_bytes // 16 // 10**9 == 5
    assert accepted(world(), first=20, shape=20)
    assert not accepted(world(), first=20, shape=21)
    assert accepted(world(), first=1, shape=5)
    assert not accepted(world(), first=1, shape=6)


def test_a_shape_that_the_problem_or_the_original_refuses_is_left_out():
    assert not accepted(world(at_2="refused"), first=3, shape=2)
    assert not accepted(world(at_2="crashed"), first=3, shape=2)
    assert accepted(world(at_2="timed_out", at_3="timed_out"), first=3, shape=2)
    assert not accepted(world(at_2="crashed", at_3="timed_out"), first=3, shape=2)


@pytest.mark.parametrize(
    ("own", "recorded", "takes_too_long"),
    [("", False, True), ("timed_out", False, False), ("", True, False)],
)
@pytest.mark.parametrize("failure", ["timed_out", "given_up", "unfinished"])
def test_only_what_the_original_does_faster_takes_too_long(failure, own, recorded, takes_too_long):
    evaluator = world(at_2=failure, at_3=own)
    evaluator.original = replace(evaluator.original, shape={"M": 3})
    evaluator.bench = object.__new__(RecordedBench) if recorded else None
    slow, fast = (
        evaluator.prospect_of(replace(evaluator.original.configuration, shape={"M": m}))
        for m in (2, 3)
    )
    assert evaluator._takes_too_long(slow) is takes_too_long
    assert not evaluator._takes_too_long(fast)


@pytest.mark.parametrize(
    ("own", "recorded", "refused"),
    [("", False, True), ("too much of anything", False, False), ("", True, False)],
)
def test_what_the_compiler_refuses_is_not_measured_unless_it_refuses_the_original(
    own, recorded, refused
):
    evaluator = world(at_2="too much shared memory", at_3=own)
    evaluator.original = replace(evaluator.original, shape={"M": 3})
    evaluator.bench = object.__new__(RecordedBench) if recorded else None
    bad, good = (
        evaluator.prospect_of(replace(evaluator.original.configuration, shape={"M": m}))
        for m in (2, 3)
    )
    assert evaluator._compile_error(bad) == ("too much shared memory" if refused else "")
    assert evaluator._compile_error(good) == ""


class Checks:
    """Notes what it was asked to check."""

    def __init__(self):
        self.prepared, self.checked = [], []

    def prepare(self, brief):
        self.prepared.append(brief.source)

    def check(self, source, _brief):
        self.checked.append(source)
        return Checked.RIGHT, "it agrees"


def checking(size, **fields):
    """A world of a problem of so many GB, and its checks."""
    evaluator = world()
    evaluator._variant_checks = VariantChecks()
    variant, base = Variant("id", "original"), original([FIRST], **fields)
    evaluator.original = replace(base, shape={"M": size}, variant=variant)
    checks = Checks()
    evaluator.checks = checks.check
    if not evaluator.uninterpretable:
        evaluator.prepare_checks(checks.prepare)
    return evaluator, checks


def end_checks(evaluator):
    """Wait until all that was begun is checked."""
    evaluator._variant_checks._threads.shutdown()


def test_the_original_is_run_in_the_interpreter_before_any_variant_asks():
    evaluator, checks = checking(3)
    checked = evaluator.check(Variant("new", "variant"), SimpleNamespace())
    end_checks(evaluator)
    assert (checks.prepared, checks.checked) == (["original"], ["variant"])
    assert (checked.checked, checked.why) == (Checked.RIGHT, "it agrees")


def test_a_check_that_takes_long_is_not_awaited_and_its_result_comes_later():
    clock, may_end = [0.0], threading.Event()
    evaluator, _ = checking(3)
    evaluator._variant_checks = VariantChecks(lambda: clock[0])
    evaluator._compiled_ahead = SimpleNamespace(has_result=lambda _: True)
    evaluator.checks = lambda *_: (Checked.WRONG, f"it differs {may_end.wait(120)}")
    variant = Variant("new", "variant")
    point = Point("new", evaluator.original.configuration, 0.0, 0.0)
    evaluator.expect([(variant, SimpleNamespace())])
    readiness = []
    for clock[0] in (0.0, 5.9, 6.0):  # seconds
        readiness.append(evaluator.is_ready(point))
    assert readiness == [False, False, True]
    assert evaluator.check(variant, SimpleNamespace()).checked is Checked.UNCHECKED
    assert evaluator.checked_late() == []
    may_end.set()
    evaluator._ahead = evaluator._compiled_ahead = SimpleNamespace(clear=lambda: None)
    evaluator.await_checks(["new", "other"])
    (late,) = evaluator.checked_late()
    assert (late.id, late.checked, late.why) == ("new", Checked.WRONG, "it differs True")
    assert evaluator.checked_late() == []
    end_checks(evaluator)


def test_what_fits_one_large_shape_alone_is_not_tried_in_the_interpreter():
    evaluator, _ = checking(3, compiled="reference.py")
    with Checkers(1) as checkers:
        check = _make_check(checkers, evaluator)
    checked, why = check("variant", SimpleNamespace())
    assert checked is Checked.UNCHECKED
    assert "too slow for this problem" in why
    end_checks(evaluator)


def test_what_fits_one_small_shape_alone_is_tried():
    evaluator, checks = checking(0, compiled="reference.py")
    assert evaluator.uninterpretable == ""
    assert evaluator.check(Variant("new", "variant"), SimpleNamespace()).checked is Checked.RIGHT
    end_checks(evaluator)
    assert checks.prepared == ["original"]


def test_a_references_program_and_what_is_made_of_it_are_not_tried_small():
    evaluator, checks = checking(0)
    program = Variant("program", "a program", "id", proposer=COMPILED)
    rewritten = Variant("rewritten", "a rewrite", "program", proposer="rewriter")
    other = Variant("other", "another", "id", proposer="rewriter")
    checked = [evaluator.check(v, SimpleNamespace()).checked for v in (program, rewritten, other)]
    end_checks(evaluator)
    assert checked == [Checked.UNCHECKED, Checked.UNCHECKED, Checked.RIGHT]
    assert checks.checked == ["another"]


def holding_out(compile_at, shapes, space=None, **functions):
    """A world whose analyser compiles by the function that it is given, at held-out shapes.

    Studies end once its event is set.
    """
    may_end = threading.Event()

    def analysed(configuration, *_):
        may_end.wait(120)
        return configuration, WELL

    unknown = SimpleNamespace(analysis=None)
    captured = {"captured": lambda _: [unknown]}
    analyser = SimpleNamespace(compile=compile_at, **captured, **functions)
    prepared = SimpleNamespace(analysed=analysed, analyser=analyser)
    first = original([FIRST], shapes, space)
    evaluator = KernelEvaluator(prepared, H100, first, NOW, None)
    evaluator._forecast_compiled = lambda *_: None
    evaluator.may_end = may_end
    return evaluator


def points_of(evaluator, count):
    """Points of the original's file with further parameters, the most promising first."""
    base = evaluator.original.configuration
    return [Point("id", replace(base, params={"N": n}), 0.0, 0.0) for n in range(count)]


def studied_to_the_end(evaluator, points):
    """Foresee points until all of them are studied."""
    evaluator.foresee(points)
    evaluator.may_end.set()
    for future in evaluator._ahead.running():
        future.result(120)


def test_of_what_is_studied_the_most_promising_are_compiled_for_held_out_shapes_once():
    compiled = []

    def compile_at(configuration):
        compiled.append((configuration.params["N"], configuration.shape))
        return ended()

    evaluator = holding_out(compile_at, [THIRD, SECOND])
    points = points_of(evaluator, 6)
    evaluator._ahead = StudiesAhead(evaluator._study_new, slots=6)
    studied_to_the_end(evaluator, points)
    assert compiled == []
    assert not evaluator.is_ready(points[0])
    for _ in range(2):
        evaluator.foresee(points)
        for future in evaluator._compiled_ahead.running():
            future.result(120)
    next_ones = range(kernel_evaluator._NEXT)
    assert sorted(compiled, key=str) == sorted(
        [(n, shape) for n in next_ones for shape in (THIRD, SECOND)], key=str
    )
    assert [evaluator.is_ready(point) for point in points] == [n in next_ones for n in range(6)]
    evaluator.close()


def ended():
    done = Future()
    done.set_result(None)
    return done


def test_the_original_is_compiled_for_held_out_shapes_once_while_its_own_is_analysed():
    submitted = []

    def compile_at(configuration):
        submitted.append((configuration.path, configuration.shape))
        return ended()

    evaluator = holding_out(compile_at, [THIRD, SECOND])
    evaluator.may_end.set()
    evaluator.compile_original()
    own = [("k.py", THIRD), ("k.py", SECOND)]
    assert submitted == own  # before anything is studied
    base = evaluator.original.configuration
    for configuration in (replace(base, path="variant.py"), base, base):
        evaluator._study_or_earlier(configuration)
    assert submitted == [*own, ("variant.py", THIRD), ("variant.py", SECOND)]
    evaluator.close()


def test_an_autotuners_list_is_compiled_at_all_shapes_before_the_original_is_measured(monkeypatch):
    monkeypatch.setattr(held_out_kernels, "_LISTED_S", 0.01)
    listed = []

    def compile_listed(at):
        listed.append((at.shape, Future()))
        return listed[-1][1]

    def holding(space):
        return holding_out(lambda _: ended(), [THIRD], space, compile_listed=compile_listed)

    holding(None).compile_original()
    assert not listed  # there is none
    evaluator = holding(Space.of_points([{"BLOCK": 16}, {"BLOCK": 32}]))
    evaluator.may_end.set()
    evaluator.compile_original()
    assert [shape for shape, _ in listed] == [FIRST, THIRD]
    base = evaluator.original.configuration
    evaluator._study_or_earlier(replace(base, path="variant.py"))
    assert not any(future.cancelled() for _, future in listed)
    listed[0][1].set_result(None)
    evaluator._study_or_earlier(base)
    assert [future.cancelled() for _, future in listed] == [False, True]  # what is late is given up
    evaluator.close()


def test_what_is_not_compiled_for_a_held_out_shape_in_time_is_refused(monkeypatch):
    monkeypatch.setattr(held_out_kernels, "_STUDY_S", 0.01)
    never = Future()
    evaluator = holding_out(lambda _: never, [THIRD])
    (point,) = points_of(evaluator, 1)
    studied_to_the_end(evaluator, [point])
    evaluator.foresee([point])
    (compiled,) = evaluator._compiled_ahead.running()
    assert isinstance(compiled.exception(120), InputError)
    assert never.cancelled()
    refused = [study for study in evaluator.studied() if study.refused]
    assert [study.point for study in refused] == [point]
    assert "held-out shape takes too long" in refused[0].refused
    hopeless = replace(point.configuration, params={"N": 9}, hopeless_ms=1.0)
    with pytest.raises(InputError, match="held-out shape takes too long"):
        evaluator._study_or_earlier(hopeless)
    own = evaluator.original.configuration
    assert evaluator._study_or_earlier(own)[1] is WELL  # the original is tried all the same
    evaluator.close()


def test_giving_up_what_is_foreseen_ends_what_is_compiled_for_held_out_shapes():
    has_begun, never = threading.Event(), Future()

    def compile_at(_):
        has_begun.set()
        return never

    evaluator = holding_out(compile_at, [THIRD])
    (point,) = points_of(evaluator, 1)
    studied_to_the_end(evaluator, [point])
    evaluator.foresee([point])
    assert has_begun.wait(120)
    (compiled,) = evaluator._compiled_ahead.running()
    evaluator.clear_ahead()
    assert isinstance(compiled.exception(120), InputError)
    assert never.cancelled()
    evaluator.close()


@pytest.mark.parametrize(("own_s", "limit_s"), [(2.0, 10.0), (7.0, 21.0)])
def test_held_out_shapes_have_longer_where_the_own_one_took_long(monkeypatch, own_s, limit_s):
    clock, limits = iter((100.0, 100.0 + own_s)), []

    def await_futures(futures, timeout_s):
        limits.append(timeout_s)
        return futures, []

    monkeypatch.setattr(kernel_evaluator, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(held_out_kernels, "await_futures", await_futures)
    evaluator = holding_out(lambda _: Future(), [THIRD])
    evaluator.may_end.set()
    evaluator._study_or_earlier(evaluator.original.configuration)
    assert limits == [limit_s]
    evaluator.close()


def test_what_is_measured_now_waits_for_no_candidate_that_may_be_measured_later():
    evaluator = world()
    evaluator._ahead = StudiesAhead(evaluator._study_new, slots=1)
    going_on = threading.Event()
    evaluator._ahead._threads.submit(going_on.wait)
    base = evaluator.original
    file = SimpleNamespace(problem=SimpleNamespace(held_out_shapes=()))
    evaluator.original = replace(base, file=file)
    point = Point("id", base.configuration, 0.0, 0.0)
    evaluator.foresee([point])
    evaluator._takes_too_long = lambda _: False
    evaluator._measure_safely = lambda *_: SimpleNamespace(verdict=Verdict.CORRECT, time_ms=None)
    measured = threading.Thread(
        target=evaluator.measure, args=(point, Variant("id", "")), daemon=True
    )
    measured.start()
    measured.join(120)
    ended = not measured.is_alive()
    going_on.set()
    evaluator.close()
    assert ended


def test_checks_that_run_end_before_the_gate():
    evaluator, ended = world(), []
    evaluator.end_checks = lambda: ended.append(evaluator._variant_checks._threads._shutdown)
    evaluator.close()
    assert ended == [True]  # no other begins


@pytest.mark.parametrize(("closes", "count"), [(True, 1), (False, 3)])
def test_practice_is_prepared_no_further_once_the_gate_may_begin(closes, count):
    evaluator, looked_at = world(), []
    evaluator.original, evaluator.is_closed = original([FIRST], held_out=[THIRD]), False

    def accepts_shape(shape):
        looked_at.append(shape)
        if closes:
            evaluator.close()
        return True

    evaluator.accepts_shape = accepts_shape
    Practice(evaluator, 20.0).prepare(Bred(evaluator.original.variant))
    assert len(looked_at) == count


def test_a_replay_does_nothing_beside_measuring():
    evaluator = world()
    evaluator.bench = object.__new__(RecordedBench)
    evaluator.foresee([Point("id", evaluator.original.configuration, 0.0, 0.0)])
    assert evaluator._ahead.running() == []
    assert evaluator.begin(lambda: 7).done()


@pytest.mark.slow
def test_a_candidate_that_needs_too_much_shared_memory_takes_no_gpu_time():
    example = str(Path(__file__).parents[2] / "examples" / "matmul.py")
    with contextlib.closing(Preparation(H100, MeasureSettings())) as prepared:
        first = Original.read(prepared, example, example, None, NOW)
        evaluator = KernelEvaluator(prepared, H100, first, NOW, None)
        large = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 128, "num_stages": 4, "num_warps": 8}
        # 4 stages of (128 + 256) x 128 x 2 bytes: 384 KiB of an SM's 227
        configuration = replace(first.configuration, params={**first.params, **large})
        ranked = Point(first.variant.id, configuration, 20.0, 1.0)
        evaluator.foresee([ranked])
        assert evaluator.await_any([], None)
        (study,) = evaluator.studied()
        outcome = evaluator.measure(ranked, first.variant)  # there is no bench
        evaluator.close()
    assert "shared" in study.refused
    assert not study.is_telling  # smaller tiles may fit
    assert outcome.verdict is Verdict.DOES_NOT_COMPILE
    assert outcome.why == study.refused


def test_a_variant_that_cannot_run_is_refused_for_what_most_of_its_candidates_fail_by():
    def ranked(path, p_fail, reason):
        configuration = Configuration(path, "kernel", FIRST, {"B": reason})
        forecast = Forecast(None, None, None, p_fail, True)
        return Ranked(configuration, Depth.LOWERED, forecast, Action.SKIP, reason)

    shared, spelled = "It cannot run: 300 KiB of shared memory", "It cannot run: no tl.exq"
    reasons = [shared, spelled, shared]
    unusable = [ranked("large.py", 1.0, reason) for reason in reasons]
    usable = [ranked("some.py", p_fail, shared) for p_fail in (1.0, 0.9)]
    refused = variant_ranking._unusable_files([*unusable, *usable])
    assert list(refused) == ["large.py"]
    assert refused["large.py"].endswith(f"can run on this GPU. {shared}")


@pytest.mark.slow
def test_a_study_forecasts_what_was_compiled():
    example = str(Path(__file__).parents[2] / "examples" / "softmax.py")
    with contextlib.closing(Preparation(H100, MeasureSettings())) as prepared:
        first = Original.read(prepared, example, example, None, NOW)
        evaluator = KernelEvaluator(prepared, H100, first, NOW, None)
        ranked = Point(first.variant.id, first.configuration, 20.0, 1.0)
        for _ in range(2):  # it is studied, then compiled for held-out shapes
            assert not evaluator.is_ready(ranked)
            evaluator.foresee([ranked])
            assert evaluator.await_any([], None)
        assert evaluator.is_ready(ranked)
        assert not evaluator.is_late(ranked)
        (study,) = evaluator.studied()
        evaluator.close()
    assert study.refused == ""
    assert 0 < study.low_ms < 2.0**ranked.mean
    assert study.point.mean == pytest.approx(math.log2(study.low_ms))
    assert evaluator.studied() == []


GUARDED = """
import torch
import triton
import triton.language as tl

SHAPES = [{"n": 4096}]


def reference(x):
    return x + 1


def inputs(n=4096, device="cuda"):
    return (torch.randn(n, device=device),)


@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)


@triton.jit
def small(x, ROWS: tl.constexpr):
    tl.store(x + tl.arange(0, ROWS), 0.0)


def kernel(x, *, BLOCK=128):
    y = torch.empty_like(x)
    n = x.numel()
    add[(triton.cdiv(n, BLOCK),)](x, y, n, BLOCK=BLOCK)
    return y
"""


@pytest.mark.parametrize(
    ("change", "launches_alike"),
    [
        (("    add[", "    if n < 9:\n        return x + 1\n    add["), True),  # not at this shape
        (("    add[", "    if n < 9:\n        small[(1,)](x, ROWS=4)\n    add["), True),
        (("BLOCK=128", "BLOCK=256"), False),
        (("+ 1, mask", "+ 1.0, mask"), False),
        (("y, n, BLOCK=BLOCK", "y, n - 16, BLOCK=BLOCK"), False),
        (("BLOCK=BLOCK)", "BLOCK=BLOCK, num_warps=8)"), False),
        (("BLOCK=BLOCK)", "BLOCK=BLOCK, maxnreg=32)"), False),
    ],
)
def test_what_launches_the_same_at_the_shape_of_the_search_is_not_timed_again(
    tmp_path, change, launches_alike
):
    (path := tmp_path / "k.py").write_text(GUARDED)
    with contextlib.closing(Preparation(H100, MeasureSettings())) as prepared:
        first = Original.read(prepared, str(path), str(path), None, NOW)
        evaluator = KernelEvaluator(prepared, H100, first, NOW, None)
        evaluator.bench = SimpleNamespace(clock=SimpleNamespace(gpu_s=lambda: 0.0))
        point = Point("the original", first.configuration, 0.0, 0.0)
        evaluator._timed.add(point, evaluator._launches_of(first.configuration), "")
        changed = prepared.path(GUARDED.replace(*change))
        configuration = replace(first.configuration, path=changed, reference=str(path), params={})
        evaluator._study = lambda *_, **__: "studied"
        if launches_alike:
            with pytest.raises(InputError, match="launches what the original does"):
                evaluator._study_new(configuration, set())
        else:
            assert evaluator._study_new(configuration, set()) == "studied"
        assert evaluator.are_same(first.configuration, configuration) == launches_alike
        evaluator.close()


def test_what_is_compiled_to_code_that_was_timed_is_not_timed_again():
    evaluator = holding_out(lambda _: ended(), [])
    points = points_of(evaluator, 4)
    codes = dict(zip(range(4), ("one", "one", "two", ""), strict=True))

    def study(configuration, _):
        analysis = Analysis(AnalysisStatus.COMPLETE, code=codes[configuration.params["N"]])
        return configuration, SimpleNamespace(result=SimpleNamespace(analysis=analysis))

    evaluator._study_new = evaluator._study = study
    evaluator._ahead = StudiesAhead(study, slots=4)
    evaluator._takes_too_long = evaluator._forecast_compiled = lambda *_: None
    evaluator._compile_error = lambda _: ""
    evaluator._launches_of = lambda _: ""
    evaluator._measure_safely = lambda *_: VariantOutcome(Verdict.CORRECT, 1.0)
    studied_to_the_end(evaluator, points)
    assert [study.refused for study in evaluator.studied()] == [""] * 4
    evaluator.measure(points[0], evaluator.original.variant)
    (refused,) = evaluator.studied()
    assert refused.point == points[1]
    assert refused.refused.startswith("Compiled, it runs the code that ")
    assert evaluator.studied() == []
    evaluator.close()


def test_what_is_seen_in_part_is_expected_to_take_as_long_as_what_it_was_made_of(tmp_path):
    (path := tmp_path / "k.py").write_text(GUARDED)
    behind, before = "    return y\n", "    n = x.numel()\n"
    stops = "    open('/no/such/file')\n"
    texts = {
        "whole": GUARDED.replace("BLOCK=128", "BLOCK=256"),
        "part": GUARDED.replace(behind, stops + behind),
        "nothing": GUARDED.replace(before, stops + before),
    }
    how = EvolveSettings(depth="lowered")
    with contextlib.closing(Preparation(H100, MeasureSettings())) as prepared:
        first = Original.read(prepared, str(path), str(path), None, how)
        evaluator = KernelEvaluator(prepared, H100, first, how, None)
        ranking = evaluator.rank([Variant(name, text) for name, text in texts.items()], 8.0)
        evaluator.close()
    means = {point.variant: point.mean for point in ranking.points}
    assert means["part"] == means["nothing"] == 3.0
    assert means["whole"] < -5.0  # 32 KiB take microseconds
