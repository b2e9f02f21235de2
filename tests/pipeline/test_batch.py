"""Many kernels under one budget, on recorded benches."""

from __future__ import annotations

import functools
import importlib
import sys
from collections import Counter
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import recorded_batch as recorded
import spaces

import solkit
from solkit.core import BatchSettings, Difference, Stopped, TuneVerdict, Worth, canonical
from solkit.datasets import outcomelog
from solkit.errors import InputError, UnsupportedError, WorkerError
from solkit.tuner.database import Database
from solkit.tuner.head_to_head import heads_to_heads
from solkit.tuner.manifest import Limits, Manifest
from solkit.tuner.tuning_results import results_of_runs

STEEP, FLAT = TuneVerdict.FASTER, TuneVerdict.KEEP


def run(manifest=None, minutes=2.0, settings=None, **fields):
    return solkit.batch(
        recorded.manifest() if manifest is None else manifest,
        gpu_minutes=minutes,
        bench=recorded.bench(**fields),
        settings=settings,
    )


@pytest.fixture(scope="module")
def tuned_batch():
    return run()


def test_winners_are_found_and_what_is_fast_enough_is_left_alone(tuned_batch):
    assert [item.tuned.verdict for item in tuned_batch.items] == [STEEP, STEEP, FLAT]
    assert [item.tuned.params for item in tuned_batch.items[:2]] == [spaces.BEST] * 2
    assert tuned_batch.items[2].tuned.stopped is Stopped.SPEED_OF_LIGHT
    assert tuned_batch.items[2].tuned.params == spaces.DEFAULT


def test_what_calls_save_adds_up_by_the_finals(tuned_batch):
    first = tuned_batch.items[0]
    default_ms, best_ms = spaces.true_ms(spaces.DEFAULT), spaces.true_ms(spaces.BEST)
    assert first.saved_ms == pytest.approx(1000 * (default_ms - best_ms), rel=0.02)
    assert tuned_batch.saved_ms == pytest.approx(1010 * (default_ms - best_ms), rel=0.02)
    assert tuned_batch.before_ms == pytest.approx(1010 * default_ms + 500 * 0.5, rel=0.02)


def test_a_shape_may_have_its_own_parameters_in_use():
    manifest = recorded.manifest()
    steep = manifest.kernels[0]
    in_use = {"BLOCK": 64, "num_stages": 2}
    shapes = (replace(steep.shapes[0], params=in_use), steep.shapes[1])
    batch = run(replace(manifest, kernels=(replace(steep, shapes=shapes),)), minutes=0.05)
    defaults = [item.tuned.default.params for item in batch.items]
    assert defaults == [{**spaces.DEFAULT, **in_use}, spaces.DEFAULT]


def test_a_kernel_of_a_small_share_ends_once_all_in_use_are_timed():
    """The one with 10 calls of 1510 takes about a hundredth of the time."""
    settings = BatchSettings(use_database=False, prior=False, least_share=0.05)
    many, few, _ = (item.tuned for item in run(settings=settings).items)
    assert few.stopped is Stopped.SMALL_SHARE
    assert few.measured < 8 < many.measured
    assert many.verdict is STEEP
    whole = run(settings=replace(settings, least_share=0.0)).items[0].tuned
    assert many.measured < whole.measured  # the last ones were expected to save too little


def test_a_least_share_is_a_share():
    with pytest.raises(InputError, match="least_share is 1; expected a share"):
        BatchSettings(least_share=1)


@pytest.mark.slow
def test_more_is_tried_where_more_can_be_saved():
    """With budget for about a third of the points."""
    tuned_batch = run(minutes=0.6)
    many, few, flat = (item.tuned.measured for item in tuned_batch.items)
    assert many > few > flat
    finals_s = sum(item.tuned.final_s for item in tuned_batch.items)
    assert tuned_batch.gpu_s - finals_s <= 36.0 + 1.0  # what is being timed is finished


def test_the_defaults_are_measured_whatever_the_budget():
    tuned_batch = run(minutes=0.05)
    assert all(item.tuned.default.time_ms is not None for item in tuned_batch.items)


@pytest.mark.slow
def test_a_winner_that_is_slower_at_a_held_out_shape_is_taken_back():
    def reverse(params):
        return 4.0 - spaces.true_ms(params)

    tuned_batch = run(
        recorded.manifest(held_out=[{"M": 4096}], held_out_rule="all"),
        times={(recorded.STEEP, 4096): reverse},
    )
    first = tuned_batch.items[0]
    assert first.tuned.final.difference is Difference.FASTER
    assert first.tuned.verdict is TuneVerdict.KEEP
    assert (first.tuned.params, first.saved_ms) == (spaces.DEFAULT, 0.0)
    (held,) = first.held_out
    assert (held.passed, held.difference) == (False, Difference.SLOWER)
    assert 'Taken back at held-out {"M":4096}' in first.tuned.notes[-1]


@pytest.mark.slow
@pytest.mark.parametrize(("alike", "verdict"), [(True, STEEP), (False, FLAT)])
def test_a_winner_is_not_timed_where_it_launches_what_is_in_use(monkeypatch, alike, verdict):
    """At the held-out shape its recorded times are slower."""

    def identity(configuration):
        seen = Future()
        seen.set_result("launches" if alike else canonical(configuration.params))
        return seen

    form = importlib.import_module("solkit.pipeline.batch")
    seeing = functools.partial(form._Course, analyser=SimpleNamespace(launch_identity=identity))
    monkeypatch.setattr(form, "_Course", seeing)
    tuned_batch = run(
        recorded.manifest(held_out=[{"M": 4096}], held_out_rule="all"),
        times={(recorded.STEEP, 4096): lambda params: 4.0 - spaces.true_ms(params)},
    )
    first = tuned_batch.items[0]
    assert first.tuned.verdict is verdict
    assert [held.ratio is None for held in first.held_out] == [alike]


@pytest.mark.slow
def test_only_the_nearest_shapes_winner_must_be_fast_at_a_held_out_one():
    def reverse(params):
        return 4.0 - spaces.true_ms(params)

    times = {(recorded.STEEP, 4096): reverse}
    tuned_batch = run(recorded.manifest(held_out=[{"M": 4096}]), times=times)
    far, near = tuned_batch.items[:2]  # M is 64 and 128
    assert [far.tuned.verdict, near.tuned.verdict] == [TuneVerdict.FASTER, TuneVerdict.KEEP]
    assert far.held_out[0].passed
    assert "another winner is nearer" in far.held_out[0].why


@pytest.mark.slow
def test_a_winner_that_is_wrong_at_a_held_out_shape_is_taken_back(monkeypatch):
    rows = [
        spaces.failed(row) if row.shape["M"] == 4096 and row.params == spaces.BEST else row
        for row in recorded.rows()
    ]
    monkeypatch.setattr(recorded, "rows", lambda **_: rows)
    tuned_batch = run(recorded.manifest(held_out=[{"M": 4096}]))
    assert [item.tuned.verdict for item in tuned_batch.items[:2]] == [TuneVerdict.KEEP] * 2
    assert tuned_batch.items[0].held_out[0].difference is Difference.NOT_COMPARED


@pytest.mark.slow
def test_a_held_out_shape_that_is_not_recorded_takes_a_winner_back():
    tuned_batch = run(recorded.manifest(held_out=[{"M": 7}]))
    assert tuned_batch.items[0].tuned.verdict is TuneVerdict.KEEP
    assert "is not recorded" in tuned_batch.items[0].held_out[0].why


@pytest.mark.slow
def test_pairs_that_fail_together_are_compared_alone(tuned_batch, monkeypatch):
    requests = []
    real = heads_to_heads

    def failing(bench, pairs, **how):
        requests.append(len(pairs))
        if len(pairs) > 1:
            bench.submit([pairs[0][0]])  # what is left over is measured for nobody
            raise WorkerError("the process ended")
        return real(bench, pairs, **how)

    monkeypatch.setattr("solkit.tuner.head_to_head.heads_to_heads", failing)
    alone = run()
    assert requests[0] > 1
    assert set(requests[1:]) == {1}
    verdicts = [item.tuned.verdict for item in tuned_batch.items]
    assert [item.tuned.verdict for item in alone.items] == verdicts
    best = [item.tuned.best.params for item in tuned_batch.items]
    assert [item.tuned.best.params for item in alone.items] == best


def test_finals_that_the_budget_does_not_reach_do_not_count(monkeypatch, tmp_path):
    monkeypatch.setattr("solkit.pipeline.batch._TOGETHER", 1)
    monkeypatch.setattr("solkit.pipeline.batch._FINAL_SHARE", 0.0)  # the search leaves them nothing
    log = str(tmp_path / "log.jsonl")
    minutes = 0.1
    result = run(minutes=minutes, settings=BatchSettings(log=log))
    won = [item for item in result.items if item.tuned.verdict is STEEP]
    assert len(won) == 1
    assert "The budget ended before 2 finals: none counts." in result.notes
    again = run(minutes=minutes, settings=BatchSettings(log=log, resume=True))
    assert sum(item.tuned.verdict is STEEP for item in again.items) == 2


@pytest.mark.slow
def test_a_winner_whose_held_out_shapes_were_interrupted_does_not_count(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("solkit.tuner.holdout.pass_gates", interrupted)
    result = run(recorded.manifest(held_out=[{"M": 4096}]))
    assert result.interrupted
    assert TuneVerdict.FASTER not in {item.tuned.verdict for item in result.items}


# ------------------------------------------------------------------------------- log and database


@pytest.mark.slow
def test_every_outcome_and_decision_is_in_the_log(tmp_path):
    log = tmp_path / "run.jsonl"
    tuned_batch = run(settings=BatchSettings(log=log))
    rows = outcomelog.read(log).rows
    searched = [row for row in rows if row.comparison is None]
    tried = Counter((row.kernel_id, row.problem_id) for row in searched)
    for item in tuned_batch.items:
        of = [
            r
            for r in searched
            if (r.kernel_id, r.problem_id) == (item.tuned.kernel_id, item.tuned.problem_id)
        ]
        assert len({canonical(row.params) for row in of}) == item.tuned.measured
    assert len(tried) == 3
    read_back = {result.key.problem_id: result.chosen.params for result in results_of_runs(rows)}
    assert read_back == {
        outcome.tuned.problem_id: outcome.tuned.params for outcome in tuned_batch.items
    }


@pytest.mark.slow
def test_a_winner_taken_back_is_so_in_the_log(tmp_path):
    log = tmp_path / "run.jsonl"
    run(recorded.manifest(held_out=[{"M": 7}]), settings=BatchSettings(log=log))
    read_back = {
        result.key.problem_id: result for result in results_of_runs(outcomelog.read(log).rows)
    }
    steep = read_back["softmax/M=64,N=32"]
    assert (steep.verdict, steep.chosen.params) == (TuneVerdict.KEEP, spaces.DEFAULT)
    assert "At held-out" in steep.why


@pytest.mark.slow
def test_a_resumed_run_counts_nothing_twice(tmp_path):
    log = tmp_path / "run.jsonl"
    first = run(settings=BatchSettings(log=log))
    rows = outcomelog.read(log).rows
    again = run(settings=BatchSettings(log=log, resume=True))
    held = outcomelog.read(log).rows
    assert held[: len(rows)] == rows
    assert len(held) <= len(rows) + 12  # a few more may seem worth it: nothing is begun anew
    of = Counter((row.problem_id, row.kernel_id, row.created) for row in held)
    assert set(of.values()) == {1}
    assert [item.tuned.params for item in again.items] == [e.tuned.params for e in first.items]
    assert [item.tuned.verdict for item in again.items] == [e.tuned.verdict for e in first.items]
    assert first.gpu_s <= again.gpu_s <= first.gpu_s + 40.0


@pytest.mark.slow
def test_results_are_in_the_database_once_and_warm_the_next_run(tmp_path):
    place = tmp_path / "tuned"
    settings = BatchSettings(log=tmp_path / "run.jsonl", database=place)
    first = run(settings=settings)
    database = Database(place)
    assert first.database == str(place)
    assert len(database.findings()) == 3
    again = run(settings=replace(settings, resume=True))
    assert len(list(database.place.rows_of())) == len(outcomelog.read(again.log).rows)
    cold = run(minutes=0.17)
    warm = run(minutes=0.17, settings=BatchSettings(log=tmp_path / "2.jsonl", database=place))
    assert [item.tuned.best.params for item in warm.items[:2]] == [spaces.BEST] * 2
    assert cold.items[1].tuned.best.params != spaces.BEST
    assert warm.triage[0].source == "measured"
    assert warm.triage[0].worth is Worth.WORTH_TUNING
    assert len(database.findings()) > 3  # added, not overwritten


def test_a_recording_is_not_merged_into_the_users_own_database(tuned_batch, monkeypatch, tmp_path):
    assert tuned_batch.database is None
    monkeypatch.setenv("SOLKIT_TUNING", str(tmp_path / "own"))
    assert run(minutes=0.1).database is None
    assert not (tmp_path / "own").exists()


# ----------------------------------------------------------------------------------------- triage


def test_a_triage_spends_nothing():
    bench = recorded.bench()
    tuned_batch = solkit.batch(recorded.manifest(), bench=bench, triage=True)
    assert (bench.clock.gpu_s(), tuned_batch.items) == (0.0, ())
    assert {item.worth for item in tuned_batch.triage} == {Worth.UNKNOWN}


def test_profiled_times_say_what_is_near_the_speed_of_light():
    manifest = recorded.manifest()
    flat = manifest.kernels[1]
    timed = replace(flat, shapes=(replace(flat.shapes[0], time_ms=0.51),))
    tuned_batch = solkit.batch(
        replace(manifest, kernels=(timed,)), bench=recorded.bench(), triage=True
    )
    assert tuned_batch.triage[0].worth is Worth.NEAR_SOL


# ----------------------------------------------------------------------------------------- errors


def test_a_kernel_that_cannot_be_used_is_left_out_with_the_reason():
    manifest = recorded.manifest()
    wrong = replace(manifest.kernels[1], path="none/rows", line=9)
    tuned_batch = run(replace(manifest, kernels=(manifest.kernels[0], wrong)), minutes=0.1)
    assert len(tuned_batch.items) == 2
    assert "no kernel 'none/rows'" in tuned_batch.notes[0]


def test_nothing_to_tune_is_an_error():
    manifest = recorded.manifest()
    wrong = replace(manifest.kernels[1], path="none/rows")
    with pytest.raises(InputError, match="no kernel can be tuned"):
        run(replace(manifest, kernels=(wrong,)))


def test_a_budget_is_needed():
    with pytest.raises(InputError, match=r"m.toml has no limits.gpu_minutes"):
        run(minutes=None)
    limits = replace(recorded.manifest(), limits=Limits(gpu_minutes=0.1))
    assert run(limits, minutes=None).budget_s == pytest.approx(6.0)


def test_without_a_gpu_it_says_what_works(monkeypatch):
    monkeypatch.setattr("solkit.pipeline.batch.target_device", lambda *_: solkit.devices()[0])
    with pytest.raises(UnsupportedError, match="--triage and a recording"):
        solkit.batch(recorded.manifest(), gpu_minutes=1)


# ---------------------------------------------------------------------------------------- emitters


@pytest.mark.slow
def test_winners_are_written_as_the_manifest_says(tmp_path):
    manifest = recorded.manifest()
    changed_kernel = replace(manifest.kernels[0], emit=("triton-autotune:configs.py",))
    manifest = replace(manifest, kernels=(changed_kernel,))
    tuned_batch = run(manifest, minutes=1.0, settings=BatchSettings(emit_to=tmp_path))
    text = (tmp_path / "configs.py").read_text()
    assert tuned_batch.items[0].emitted == (str(tmp_path / "configs.py"),)
    assert "num_warps=4" in text
    assert "'BLOCK': 128" in text or '"BLOCK": 128' in text


def test_an_unknown_form_is_an_error_before_anything_is_measured():
    manifest = recorded.manifest()
    changed_kernel = replace(manifest.kernels[0], emit=("yaml:x",))
    with pytest.raises(InputError, match="unknown format 'yaml'"):
        run(replace(manifest, kernels=(changed_kernel,)))


@pytest.mark.parametrize(
    ("budget_s", "is_live", "has_prior"),
    [(10.0, True, False), (1.0, True, True), (10.0, False, True)],
)
def test_recorded_launches_are_ranked_where_the_budget_cannot_measure_them_all(
    budget_s, is_live, has_prior
):
    space = {"num_warps": (4, 8), "BLOCK": tuple(range(48))}
    forms = (("inductor", ()), ("autotuner", ((4, 0), (8, 1))), ("jit", ()))
    rest = {"space": space, "tiles": ()}
    launches = tuple(SimpleNamespace(launcher=e, configs=c, **rest) for e, c in forms)
    recorded = (SimpleNamespace(launches=launches),)  # 96, 2 and 2 choices
    manifest = Manifest("", (), Limits())
    form = importlib.import_module("solkit.pipeline.batch")._Batch
    run = form(manifest, BatchSettings(), budget_s, lambda _: None, recorded=recorded)
    run.processes = object() if is_live else None
    assert run._tune_settings().prior is has_prior


def test_finals_have_the_searchs_bench_with_other_inputs_and_a_process_that_is_ready(monkeypatch):
    messages = []

    class Bench:
        def __init__(self, ahead, log, *, tell, process):  # noqa: ARG002 - as the real one
            messages.append(("opened", ahead, process))

        def __enter__(self):
            return self

        def __exit__(self, *_):
            messages.append("closed")

        def renew(self, seed):
            messages.append(("renewed", seed))

    monkeypatch.setattr("solkit.measure.benches.trusted.TrustedBench", Bench)
    form = importlib.import_module("solkit.pipeline.batch")._Batch
    run = form(Manifest("", (), Limits()), BatchSettings(), 10.0, lambda _: None)
    run.processes = SimpleNamespace(ahead="ahead", timing="timing")
    with run.stack:
        with run._open_bench(None, object()) as first:
            pass
        with run._open_bench(None, object(), seed=1) as second:
            assert second is first
    assert messages == [("opened", "ahead", "timing"), ("renewed", 1), "closed"]
