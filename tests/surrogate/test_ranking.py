"""The cascade, on a real kernel file, with no GPU."""

from __future__ import annotations

import json
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pytest
from synthetic import CARD, KERNEL, QUICK, table

import solkit
from solkit import extras, rank
from solkit.analysis.analyser import Analysed
from solkit.core import (
    Analysis,
    AnalysisStatus,
    Configuration,
    Depth,
    Facts,
    KernelAnalysis,
    Launch,
    Requests,
)
from solkit.errors import InputError
from solkit.surrogate import ranking
from solkit.surrogate.candidate_forecasts import common_depth
from solkit.surrogate.costs import CostModel, CostTrees
from solkit.surrogate.ensemble import Stack, StackedRegressor
from solkit.surrogate.model import Surrogate
from solkit.surrogate.plan import Action
from solkit.surrogate.ranking import RankSettings
from solkit.surrogate.trees import Forecasts

LAUNCH = Launch("f", (8, 1, 1), 4, 1)


@pytest.fixture(scope="module")
def model():
    """It knows nothing of these features, so it forecasts its mean and abstains or not alike."""
    return Surrogate.fit(dict.fromkeys(Depth, table(400)), CARD, QUICK)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "double.py"
    path.write_text(KERNEL)
    return path


@pytest.mark.slow
def test_a_space_is_ranked_by_a_cascade(file, model):
    (plan,) = rank(file, device="h100", budget=6, surrogate=model)
    assert plan.shape == {"N": 1 << 20}
    assert len(plan.ranked) == 32  # 4 x 4 x 2
    assert len({json.dumps(dict(e.configuration.params)) for e in plan.ranked}) == 32
    depths = [candidate.depth for candidate in plan.ranked]
    assert depths.count(Depth.LOWERED) == 23  # the least that go on, but for what is in use
    assert depths.count(Depth.COMPILED) == 1
    assert depths.count(Depth.CAPTURED) == 8
    assert len(plan.of(Action.MEASURE)) + len(plan.of(Action.EXPLORE)) == 6
    own = {"BLOCK": 512, "STORE": "", "num_warps": 4}
    (incumbent,) = (e for e in plan.ranked if dict(e.configuration.params) == own)
    assert incumbent.action is Action.MEASURE
    assert incumbent.depth is Depth.COMPILED
    assert all(e.forecast.time_ms >= plan.sol_ms / 2 for e in plan.ranked)


@pytest.mark.slow
def test_score_and_rank_expect_the_same_of_what_is_in_use(file, model, monkeypatch):
    monkeypatch.setattr(Surrogate, "load", staticmethod(lambda *_: model))
    (scored,) = solkit.score(file, device="h100", measure=False).results
    (plan,) = rank(file, device="h100", budget=2)
    (own,) = (e for e in plan.ranked if dict(e.configuration.params) == dict(scored.params))
    assert scored.forecast == own.forecast
    assert scored.forecast.low_ms < scored.forecast.time_ms < scored.forecast.high_ms


def test_a_score_without_a_surrogate_says_why_and_what_to_install(file, monkeypatch):
    def load(*_):
        return extras.library("no_such_trees")

    monkeypatch.setitem(extras.EXTRAS, "surrogate", ("scipy", "no_such_trees"))
    monkeypatch.setattr(Surrogate, "load", staticmethod(load))
    shape = {"N": 1 << 19}  # no forecast of it is kept
    (scored,) = solkit.score(file, device="h100", measure=False, shapes=[shape]).results
    assert scored.forecast is None
    assert scored.gap is not None
    (note,) = (text for text in scored.analysis.notes if "surrogate" in text)
    assert note.startswith("The surrogate gives no forecast: ")
    assert "pip install 'solkit[surrogate]'" in note


AUTOTUNED = """
import torch, triton, triton.language as tl

def inputs(N=1 << 20, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * 2

@triton.autotune(
    [triton.Config({"BLOCK": b}, num_warps=w) for b in (512, 1024) for w in (4, 8)], key=["N"]
)
@triton.jit
def double(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, 2 * tl.load(x_ptr + at, mask=at < N), mask=at < N)

def kernel(x):
    out = torch.empty_like(x)
    double[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out
"""


@pytest.mark.slow
def test_what_is_in_use_and_the_point_that_spells_it_out_are_one_row(tmp_path):
    path = tmp_path / "autotuned.py"
    path.write_text(AUTOTUNED)
    (plan,) = rank(path, device="h100", settings=RankSettings("captured"))
    params = [dict(candidate.configuration.params) for candidate in plan.ranked]
    assert sorted((param["BLOCK"], param["num_warps"]) for param in params) == [
        *((512, 4), (512, 8), (1024, 4), (1024, 8))
    ]
    (own,) = (candidate for candidate in plan.ranked if "what you have" in candidate.reason)
    assert own.configuration.params["BLOCK"] == 512  # Triton's first, as nothing was timed


PRUNED = """
def left(configs, named, **others):
    return [each for each in configs if each.kwargs["BLOCK"] <= named["N"]]

def estimate(N, BLOCK, num_warps, **others):
    return (N // BLOCK, num_warps)  # the larger blocks first, then the fewer warps
"""


@pytest.mark.quick("left-600")
@pytest.mark.parametrize(
    ("by", "size", "kept"),
    [
        ('"early_config_prune": left', 600, {(512, 4), (512, 8)}),
        ('"early_config_prune": left', 4096, {(512, 4), (512, 8), (1024, 4), (1024, 8)}),
        ('"perf_model": estimate, "top_k": 1', 4096, {(1024, 4)}),
        ('"early_config_prune": left, "perf_model": estimate, "top_k": 1', 600, {(512, 4)}),
    ],
)
def test_what_the_autotuner_prunes_at_a_shape_is_not_ranked(tmp_path, by, size, kept):
    head, tuned = AUTOTUNED.split("@triton.autotune")
    path = tmp_path / "pruned.py"
    tuned = tuned.replace('key=["N"]', f'key=["N"], prune_configs_by={{{by}}}')
    path.write_text(f"{head}{PRUNED}\n@triton.autotune{tuned}")
    settings = RankSettings("captured")
    (plan,) = rank(path, device="h100", shapes=[{"N": size}], settings=settings)
    params = [dict(candidate.configuration.params) for candidate in plan.ranked]
    assert {(param["BLOCK"], param["num_warps"]) for param in params} == kept
    assert len(params) == len(kept)


class Reading:
    """A language regressor that counts what it is asked, and adds nothing."""

    def __init__(self):
        self.rows = 0

    def forecast(self, table):
        self.rows += len(table)
        return SimpleNamespace(mean=np.zeros(len(table)))


@pytest.mark.slow
@pytest.mark.parametrize(("depth", "read"), [("captured", True), ("lowered", False)])
def test_a_text_is_read_only_where_nothing_goes_deeper(file, model, depth, read):
    reader, calibration = Reading(), model.trees(Depth.CAPTURED).calibration
    stack = Stack({"trees": 1.0, "language": 0.0})
    both = model.with_language({Depth.CAPTURED: StackedRegressor(reader, stack, calibration)})
    (plan,) = rank(file, device="h100", surrogate=both, settings=RankSettings(depth))
    assert (reader.rows >= len(plan.ranked)) is read
    assert (reader.rows > 0) is read
    (alone,) = rank(file, device="h100", surrogate=model, settings=RankSettings(depth))
    assert [e.forecast for e in plan.ranked] == [e.forecast for e in alone.ranked]


@pytest.mark.slow
def test_without_a_model_the_kernel_model_ranks(file, monkeypatch):
    def absent(*_):
        raise __import__("solkit").UnsupportedError("no trained surrogate is installed")

    monkeypatch.setattr(Surrogate, "load", staticmethod(absent))
    settings = RankSettings(depth="lowered", everything=True)
    (plan,) = rank(file, device="h100", settings=settings)
    assert "kernel model alone" in plan.notes[0]
    assert "no trained surrogate is installed" in plan.notes[0]
    times = [candidate.forecast.time_ms for candidate in plan.ranked]
    assert [e.depth for e in plan.ranked].count(Depth.LOWERED) == 31
    assert None not in times
    assert times == sorted(times) or np.ptp(times) < 0.3 * max(times)  # twins are parted
    captured = RankSettings(depth="captured")
    (plan,) = rank(file, device="h100", settings=captured)
    assert {candidate.forecast.time_ms for candidate in plan.ranked} == {None}  # no model at all


@pytest.mark.slow
def test_single_configurations_and_what_cannot_run(file, model):
    points = [{"BLOCK": 1024}, {"BLOCK": 1000}]
    configurations = [Configuration(str(file), "kernel", params=point) for point in points]
    (plan,) = rank(configurations, device="h100", surrogate=model)
    good, bad = plan.ranked
    assert good.configuration.params["BLOCK"] == 1024
    assert bad.configuration.params["BLOCK"] == 1000
    assert bad.forecast.p_fail == 1
    assert bad.action is Action.SKIP
    assert "power of 2" in bad.reason


@pytest.mark.slow
def test_equal_requests_get_equal_plans(file, model):
    first, again = (rank(file, device="h100", surrogate=model) for _ in range(2))
    assert first == again


@pytest.mark.parametrize(
    ("options", "message"),
    [({"budget": 0}, "budget is 0"), ({"shapes": [{"M": 3}]}, "M")],
)
def test_bad_requests(file, model, options, message):
    with pytest.raises(InputError, match=message):
        rank(file, device="h100", surrogate=model, **options)


def test_an_unknown_depth():
    with pytest.raises(InputError, match="'deep' is unknown: choose one of captured, lowered"):
        RankSettings(depth="deep")


def test_a_file_without_a_candidate(tmp_path, model):
    path = tmp_path / "only.py"
    path.write_text(KERNEL[: KERNEL.index("@triton.jit")])
    with pytest.raises(InputError, match="no candidate"):
        rank(path, device="h100", surrogate=model)


CUDA = "__global__ void f() {}"


def candidates(*texts):
    """Captured ones, of kernels with such sources."""
    captured = Analysis(AnalysisStatus.COMPLETE, (KernelAnalysis(Facts(LAUNCH, Depth.CAPTURED)),))
    return [
        ranking._Candidate(
            Configuration("k.py", "kernel", params={"N": place}),
            SimpleNamespace(source=SimpleNamespace(text=text)),
            analysis=captured,
        )
        for place, text in enumerate(texts)
    ]


READ = Requests(accesses=(), operations={}, l1_wavefronts=0, l2_read_bytes=0, l2_write_bytes=0)


@dataclass
class Analysing:
    """An analyser whose results are as deep as told."""

    reaches: Depth
    requests: list = field(default_factory=list)
    read: Requests | None = READ

    def analysed(self, configurations, depth):
        for configuration in configurations:
            self.requests.append((configuration.params["N"], depth))
            kernel = KernelAnalysis(Facts(LAUNCH, self.reaches, requests=self.read))
            yield Analysed(
                configuration, Analysis(AnalysisStatus.PARTIAL, (kernel,), ("Because.",))
            )


@pytest.mark.parametrize(
    ("texts", "lowered", "least"),
    [
        (["triton"] * 400, 300, 24),
        ([CUDA] * 400, 40, 8),
        (["triton"] * 150 + [CUDA] * 100, 150 + 20, 24),
        ([CUDA] * 10 + ["triton"] * 400, 10 + 225, 8),
    ],
)
def test_fewer_go_on_where_lowering_means_compiling(texts, lowered, least):
    results = candidates(*texts)
    assert ranking._count_within_limit(results, Depth.LOWERED, ranking._MOST) == lowered
    assert ranking._count_within_limit(results, Depth.LOWERED, ranking._LEAST) == least
    assert ranking._count_within_limit(results, Depth.COMPILED, ranking._MOST) == 40


def test_what_was_compiled_where_others_are_lowered_is_not_compiled_again():
    results, compiler = candidates(CUDA, CUDA), Analysing(Depth.COMPILED)
    ranking._analyse_candidates(results, compiler, Depth.LOWERED)
    assert [result.depth for result in results] == [Depth.LOWERED] * 2
    assert [result.known_depths for result in results] == [{Depth.COMPILED}] * 2
    ranking._analyse_candidates(results[:1], compiler, Depth.COMPILED)
    assert [result.depth for result in results] == [Depth.COMPILED, Depth.LOWERED]
    assert compiler.requests == [(0, Depth.LOWERED), (1, Depth.LOWERED)]


def test_what_takes_too_long_keeps_its_forecast_and_is_given_up():
    lowered, slow = candidates("triton", "triton")
    begun: dict[int, Future[Analysed]] = {0: Future(), 1: Future()}
    kernel = KernelAnalysis(Facts(LAUNCH, Depth.LOWERED, requests=READ))
    analysis = Analysis(AnalysisStatus.COMPLETE, (kernel,))
    begun[0].set_result(Analysed(lowered.configuration, analysis))
    analyser = SimpleNamespace(submit=lambda configuration, _: begun[configuration.params["N"]])
    ranking._analyse_candidates([lowered, slow], analyser, Depth.LOWERED, patience_s=0.05)
    assert [lowered.depth, slow.depth] == [Depth.LOWERED, Depth.CAPTURED]
    assert begun[1].cancelled()


def test_what_cannot_be_compiled_here_stays_captured():
    results = candidates(CUDA)
    ranking._analyse_candidates(results, Analysing(Depth.CAPTURED), Depth.LOWERED)
    assert results[0].depth is Depth.CAPTURED
    assert ranking._notes_of_captured(results) == ["Because."]
    lowered = candidates("triton")
    ranking._analyse_candidates(lowered, Analysing(Depth.LOWERED), Depth.LOWERED)
    assert lowered[0].depth is Depth.LOWERED
    assert ranking._notes_of_captured(lowered) == []


def test_what_could_not_be_followed_is_forecast_as_if_only_captured():
    (unread,) = candidates("triton")
    ranking._analyse_candidates([unread], Analysing(Depth.LOWERED, read=None), Depth.LOWERED)
    assert unread.depth is Depth.CAPTURED
    assert common_depth(unread.analysis) is Depth.CAPTURED


@dataclass
class Always:
    """BoostedTrees trees that always say the same."""

    log2_s: float

    def predict(self, values):
        return np.full(len(values), self.log2_s)


def costing(model, seconds, typical_s):
    parts = {"compile_s": CostTrees((), Always(np.log2(seconds)), typical_s)}
    return replace(model, _costs=lambda _: CostModel(parts))


def test_what_compiles_fast_goes_on_in_larger_numbers(model, monkeypatch):
    monkeypatch.setattr(ranking, "table_of_entries", lambda entries: table(len(entries)))
    monkeypatch.setattr(ranking._Cascade, "_entries_of", lambda _, candidates: candidates)

    def number(surrogate):
        cascade = ranking._Cascade(None, None, surrogate, None)
        return cascade._count_affordable(candidates(*["triton"] * 100), Depth.LOWERED, 10)

    assert number(costing(model, 0.5, 0.25)) == 5
    assert number(costing(model, 0.125, 0.25)) == 20
    assert number(costing(model, 0.001, 0.25)) == 40  # at the most
    assert number(model) == number(None) == 10  # nothing is known of costs


def test_fewer_candidates_are_rows_of_the_table_of_all(monkeypatch):
    counts = []

    def count(entries):
        counts.append(len(entries))
        whole = table(len(entries))
        return replace(whole, time_ms=np.arange(len(entries), dtype=float))

    monkeypatch.setattr(ranking, "table_of_entries", count)
    monkeypatch.setattr(ranking._Cascade, "_entries_of", lambda _, chosen: chosen)
    pool = candidates(*["triton"] * 5)
    cascade = ranking._Cascade(None, None, None, None)
    cascade._table_of(pool)
    assert list(cascade._table_of([pool[3], pool[1]]).time_ms) == [3.0, 1.0]
    assert counts == [5]
    pool[1].analysis = candidates("triton")[0].analysis or object()
    cascade._table_of([pool[3], pool[1]])  # analysed more deeply: another row
    assert counts == [5, 2]


def test_fewer_are_lowered_where_that_takes_long(model, monkeypatch):
    monkeypatch.setattr(ranking, "table_of_entries", lambda entries: table(len(entries)))
    monkeypatch.setattr(ranking._Cascade, "_entries_of", lambda _, candidates: candidates)
    request = SimpleNamespace(settings=RankSettings(), budget=4)
    times = Forecasts.from_times(np.arange(1.0, 601.0))

    def number(seconds):
        cascade = ranking._Cascade(request, None, costing(model, seconds, 0.25), problem=None)
        return len(cascade._promote_to_depth(candidates(*["triton"] * 600), times, Depth.LOWERED))

    assert number(0.25) == 200  # a third of all
    assert number(0.5) == 150  # in the time of 300 typical ones
    assert number(25.0) == 24  # at the least


@pytest.mark.slow
def test_a_plan_tells_what_candidates_cost(file, model):
    settings = RankSettings(depth="captured")
    (plan,) = rank(file, device="h100", surrogate=costing(model, 0.5, 0.25), settings=settings)
    assert {candidate.compile_s for candidate in plan.ranked} == {0.5}
    assert {candidate.gpu_s for candidate in plan.ranked} == {None}
    (plan,) = rank(file, device="h100", surrogate=model, settings=settings)
    assert {candidate.compile_s for candidate in plan.ranked} == {None}


def test_a_depth_without_a_program_cannot_be_ranked_at():
    with pytest.raises(InputError, match=r"'machine' is unknown: .* captured, lowered, compiled$"):
        RankSettings("machine")


@pytest.mark.slow
def test_a_grid_that_cuda_refuses_cannot_run(tmp_path, model):
    path = tmp_path / "double.py"
    path.write_text(
        KERNEL.replace("tl.program_id(0)", "tl.program_id(1)").replace("grid = (", "grid = (1, ")
    )
    points = [{"BLOCK": 32}, {"BLOCK": 8}]  # 32,768 and 131,072 blocks along y, of 65,535
    configurations = [Configuration(str(path), "kernel", params=point) for point in points]
    (plan,) = rank(configurations, device="h100", surrogate=model)
    assert [candidate.forecast.p_fail for candidate in plan.ranked] == [0, 1]
    assert "CUDA refuses a grid of (1, 131072, 1)" in plan.ranked[1].reason
