"""`evolve` from end to end, on times that were measured on an H100."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from datetime import datetime, timezone
from types import SimpleNamespace

import pytest

from solkit.core import (
    Checked,
    Configuration,
    EvolveSettings,
    Proposal,
    Stopped,
    TuneVerdict,
    canonical,
    variant_id,
)
from solkit.datasets import outcomelog
from solkit.datasets.kernels import ZOO
from solkit.datasets.store import shipped
from solkit.errors import InputError, UnsupportedError, WorkerError
from solkit.measure.benches import RecordedBench
from solkit.pipeline.evolve_selection import Selection
from solkit.pipeline.evolving import EvolveParts, _measure_limits, evolve
from solkit.pipeline.kernel_evaluator import KernelEvaluator
from solkit.report import evolution as page
from solkit.report.html import lineage_page

FOLDER = ZOO / "softmax"
PROBLEM, ORIGINAL = FOLDER / "problem.py", FOLDER / "three_pass.py"
SHAPE = {"M": 8192, "N": 1024, "dtype": "float16"}
KERNELS = ("three_pass", "rows_tile", "whole_row")
PER_KERNEL = 3
FAST = {"stop_at": 2.0, "depth": "captured"}
HOW = EvolveSettings(**FAST)


@pytest.fixture(scope="module")
def rows():
    """The first configurations of three kernels at a shape, with their repeats."""
    store, groups = shipped("h100"), defaultdict(list)
    for row in store.rows(store.where("family = 'softmax' and verdict = 'correct'")):
        name = (row.implementation or "").removeprefix("softmax/")
        kept = groups[name, canonical(row.shape)]
        known_values = {canonical(item.params) for item in kept}
        if name in KERNELS and (len(kept) < PER_KERNEL or canonical(row.params) in known_values):
            kept.append(row)
    expected = canonical(SHAPE)
    return [row for (_, shape), group in groups.items() if shape == expected for row in group]


class Recorded:
    """Proposes kernels of the zoo."""

    name = "recorded"

    def __init__(self, *names, **fields):
        self.names, self.told = names, fields

    def propose(self, brief):
        for name in self.names:
            yield Proposal((FOLDER / f"{name}.py").read_text(), name, f"As {name}.", **self.told)


class Written:
    """Proposes texts."""

    name = "written"

    def __init__(self, *texts):
        self.texts = texts

    def propose(self, brief):
        for text in self.texts:
            yield Proposal(text, "text", "")


def evolved(rows, *proposers, seconds=1e6, settings=HOW, path=ORIGINAL, check=None, **fields):
    fields = {"shape": SHAPE, "reference": PROBLEM, "bench": RecordedBench(rows), **fields}
    parts = EvolveParts(proposers, **({} if check is None else {"check": check}))
    return evolve(path, gpu_seconds=seconds, settings=settings, parts=parts, **fields)


@pytest.fixture(scope="module")
def evolution(rows):
    return evolved(rows, Recorded("rows_tile", "whole_row"))


def fastest(rows, *names):
    """The shortest recorded time at the shape, by the first repeat of each configuration."""
    first = {}
    for row in rows:
        if canonical(row.shape) == canonical(SHAPE) and row.implementation[8:] in names:
            first.setdefault((row.kernel_id, canonical(row.params)), row.time_ms)
    return min(first.values())


def test_the_fastest_recorded_variant_is_the_winner(evolution, rows):
    assert evolution.verdict is TuneVerdict.FASTER
    assert evolution.best_params.time_ms == fastest(rows, *KERNELS)
    assert evolution.winner.variant.kind in ("rows_tile", "whole_row")
    assert evolution.winner.variant.parent == variant_id(ORIGINAL.read_text())
    assert evolution.winner.gap == pytest.approx(evolution.best_params.time_ms / evolution.sol_ms)
    assert evolution.stopped in (Stopped.EXPECTED_GAIN, Stopped.EXHAUSTED)


def test_the_gate_compares_it_with_the_original(evolution):
    assert evolution.gate.passed
    assert evolution.gate.final.how == "recorded"
    assert evolution.gate.final.ratio.value < 1


def test_json_holds_every_variant_with_its_source(evolution):
    data = json.loads(page.dumps(evolution))
    assert data["schema"] == "solkit.evolve/1"
    assert [variant["kind"] for variant in data["variants"]] == [
        "original",
        "rows_tile",
        "whole_row",
    ]
    assert data["variants"][0]["source"] == ORIGINAL.read_text()
    assert data["best"]["id"] == evolution.best
    assert data["speedup"]["value"] == pytest.approx(1 / evolution.gate.ratio.value)


def test_the_page_shows_the_lineage_and_what_each_variant_changed(evolution):
    html = lineage_page(
        page.as_json(evolution), written=datetime(2026, 11, 26, tzinfo=timezone.utc)
    )
    assert "three_pass.py" in html
    for item in evolution.variants[1:]:
        assert f'id="v{item.variant.id}"' in html
    assert 'class="added"' in html
    assert "<script" not in html


@pytest.mark.slow
def test_a_source_that_is_not_recorded_is_refused_and_says_so(rows):
    strange = (FOLDER / "rows_tile.py").read_text() + "\n# another text\n"
    result = evolved(rows, Written(strange))
    (variant,) = result.variants[1:]
    assert variant.measured == 0
    assert variant.why.startswith("not_recorded")
    assert result.winner.variant.kind == "original"


def test_nonsense_and_a_plain_cheat_are_refused_before_anything_is_measured(rows):
    nonsense = "def kernel(:"
    cheat = ORIGINAL.read_text() + "\ntorch.cuda.Event.elapsed_time = lambda *_: 1e-6\n"
    result = evolved(rows, Written(nonsense, cheat))
    whys = {item.variant.source: item.why for item in result.variants}
    assert "it is no Python: line 1" in whys[nonsense]
    assert "elapsed_time" in whys[cheat]
    assert all(variant.measured == 0 for variant in result.variants[1:])


@pytest.mark.slow
def test_what_the_check_calls_wrong_is_not_measured(rows):
    def wrong(source, brief):
        assert brief.shape == SHAPE
        assert source == (FOLDER / "rows_tile.py").read_text()
        return Checked.WRONG, "its tail is missing"

    result = evolved(rows, Recorded("rows_tile"), check=wrong)
    (variant,) = result.variants[1:]
    assert (variant.measured, variant.why) == (0, "its tail is missing")


def test_a_log_is_resumed_and_nothing_is_measured_twice(rows, tmp_path):
    log = tmp_path / "evolve.jsonl"
    short = EvolveSettings(**FAST, log=log)
    first = evolved(rows, Recorded("rows_tile"), seconds=1e-6, settings=short)
    assert (first.measured, first.stopped) == (1, Stopped.BUDGET)
    long = EvolveSettings(**FAST, log=log, resume=True)
    second = evolved(rows, Recorded("rows_tile"), settings=long)
    reported_rows = outcomelog.read(log).rows
    assert len({row.run_id for row in reported_rows}) == 1
    assert len({(row.kernel_id, canonical(row.params)) for row in reported_rows}) == len(
        reported_rows
    )
    assert second.measured == len(reported_rows) > 1
    assert second.original.time_ms == first.original.time_ms
    lineage = [
        row.extra["evolve"] for row in reported_rows if row.implementation == "softmax/rows_tile"
    ]
    assert lineage[0]["kind"] == "rows_tile"
    assert lineage[0]["parent"] == variant_id(ORIGINAL.read_text())
    assert second.gpu_s >= first.gpu_s > 0


HELD_OUT = {**SHAPE, "M": 4096}
OWN = {"M": 8192, "N": 4096, "dtype": "bfloat16"}  # the file's
UNEVEN = {"M": 5121, "N": 641, "dtype": "float16"}  # five eighths of each size, and one


@pytest.fixture
def moved(rows, evolution):
    """The rows at another shape, where some kernels take several times as long as they did."""

    def rows_at(shape, **times):
        for row in rows:
            name = row.implementation.removeprefix("softmax/")
            in_use = name == "three_pass" and row.params == evolution.original.params
            longer = 1.0 if in_use else times.get(name, 1.0)
            samples = tuple(longer * item for item in row.samples_ms)
            yield replace(row, shape=shape, time_ms=longer * row.time_ms, samples_ms=samples)

    return rows_at


@pytest.mark.slow
@pytest.mark.parametrize(("times", "passes"), [(0.9, True), (100.0, False)])
def test_the_winner_must_not_be_slower_at_a_shape_that_the_search_did_not_see(
    rows, moved, times, passes
):
    both = [*rows, *moved(HELD_OUT, **dict.fromkeys(KERNELS, times))]
    how = EvolveSettings(**FAST, held_out=[HELD_OUT])
    result = evolved(both, Recorded("rows_tile"), settings=how)
    (held,) = result.gate.held_out
    assert not result.gate.single_shape
    assert (result.gate.passed, held.passed) == (passes, passes)
    assert result.verdict is (TuneVerdict.FASTER if passes else TuneVerdict.KEEP)
    assert passes or (
        result.best == variant_id(ORIGINAL.read_text()) and "M=4096" in result.gate.why
    )


def practised(rows, moved, *shapes, **fields):
    """A search whose fastest variant, `whole_row`, is slow everywhere else."""
    elsewhere = [row for item in (HELD_OUT, *shapes) for row in moved(item, whole_row=100.0)]
    fields["settings"] = EvolveSettings(**FAST, held_out=[HELD_OUT], **fields.get("settings", {}))
    return evolved([*rows, *elsewhere], Recorded("rows_tile", "whole_row"), **fields)


def kinds_of(result):
    return [result.variant(finalist.id).variant.kind for finalist in result.finalists]


@pytest.mark.slow
@pytest.mark.parametrize("shape", [OWN, pytest.param(UNEVEN, marks=pytest.mark.slow)])
def test_a_finalist_that_is_slower_at_a_practice_shape_gives_way_to_one_that_is_not(
    rows, moved, shape
):
    result = practised(rows, moved, shape)
    assert kinds_of(result) == ["whole_row", "rows_tile"]
    assert [finalist.taken for finalist in result.finalists] == [False, True]
    lost, held = (finalist.practised[0] for finalist in result.finalists)
    in_use_ms = result.original.time_ms
    assert (lost.shape, held.shape) == (shape, shape)
    assert lost.ratio == pytest.approx(100 * fastest(rows, "whole_row") / in_use_ms)
    assert held.ratio == pytest.approx(fastest(rows, "rows_tile") / in_use_ms)
    assert result.gate.passed
    assert result.winner.variant.kind == "rows_tile"
    assert result.best_params.time_ms == fastest(rows, "rows_tile")
    assert f"M={shape['M']}, N={shape['N']}" in result.notes[-1]
    assert result.notes[-1].endswith("rows_tile was taken.")
    (first, second) = json.loads(page.dumps(result))["finalists"]
    assert (first["taken"], second["taken"], second["id"]) == (False, True, result.best)
    assert first["practice"] == [{"shape": shape, "verdict": "correct", "ratio": lost.ratio}]


@pytest.mark.slow
def test_held_out_shapes_are_for_the_gate_alone_where_a_slower_winner_gives_way(rows, moved):
    result = practised(rows, moved)
    assert result.finalists == ()  # nothing was practised at the only other shape
    assert (result.gate.passed, result.gate.held_out[0].shape) == (True, HELD_OUT)
    assert result.winner.variant.kind == "rows_tile"
    (note,) = (note for note in result.notes if "did not pass the gate" in note)
    assert note.startswith("whole_row did")
    assert "M=4096, N=1024" in note


@pytest.mark.slow
@pytest.mark.parametrize("held_out", [[SHAPE], pytest.param([], marks=pytest.mark.slow)])
def test_there_is_no_practice_where_no_other_shape_is_held_out(rows, moved, held_out):
    both = [*rows, *moved(OWN, whole_row=100.0)]
    how = EvolveSettings(**FAST, held_out=held_out)
    result = evolved(both, Recorded("rows_tile", "whole_row"), settings=how)
    assert (result.finalists, result.gate.single_shape) == ((), True)
    assert result.winner.variant.kind == "whole_row"


def test_there_is_no_practice_where_there_is_nothing_to_choose(rows, moved):
    both = [*rows, *moved(HELD_OUT), *moved(OWN)]
    tuned = min(
        (row for row in rows if row.implementation == "softmax/three_pass"),
        key=lambda row: row.time_ms,
    )
    how = EvolveSettings(**FAST, held_out=[HELD_OUT], params=tuned.params)
    assert evolved(both, Written("def kernel(:"), settings=how).finalists == ()


@pytest.mark.slow
def test_practice_is_in_the_log_and_a_resumed_run_takes_it_over(rows, moved, tmp_path):
    log = tmp_path / "evolve.jsonl"
    first = practised(rows, moved, OWN, settings={"log": log})
    again = practised(rows, moved, OWN, settings={"log": log, "resume": True})
    reported_rows = outcomelog.read(log).rows
    there = [
        row.implementation.removeprefix("softmax/") for row in reported_rows if row.shape == OWN
    ]
    assert there == ["three_pass", "whole_row", "rows_tile"]
    assert again.finalists == first.finalists
    assert again.gpu_s == pytest.approx(first.gpu_s, abs=1e-3)  # rows are rounded
    assert again.measured == first.measured == len(reported_rows) - len(there)


@pytest.mark.slow
def test_practice_is_paid_from_the_budget(rows, moved):
    searched = evolved(rows, Recorded("rows_tile", "whole_row"))
    whole = practised(rows, moved, OWN)
    assert whole.gpu_s > searched.gpu_s
    assert (whole.measured, len(whole.finalists)) == (searched.measured, 2)
    almost_s = searched.gpu_s - 1e-6
    unpractised = evolved(rows, Recorded("rows_tile", "whole_row"), seconds=almost_s)
    assert unpractised.measured == searched.measured  # nothing is kept without practice shapes
    short = practised(rows, moved, OWN, seconds=searched.gpu_s)
    assert (short.stopped, short.measured < searched.measured) == (Stopped.BUDGET, True)
    assert searched.gpu_s <= short.gpu_s < whole.gpu_s
    assert len(short.finalists[0].practised) == 1
    assert short.finalists[-1].practised == ()  # nothing was left, so nothing speaks against it
    assert [finalist.taken for finalist in short.finalists] == [False, True]


class Listening(RecordedBench):
    """Notes what it is asked to measure."""

    def submit(self, configurations):
        self.asked = [*getattr(self, "asked", []), *configurations]
        super().submit(configurations)


@pytest.mark.slow
def test_the_search_says_what_is_hopeless_and_practice_times_in_full(rows, moved):
    bench = Listening([*rows, *moved(HELD_OUT), *moved(OWN)])
    practised(rows, moved, bench=bench)
    search, practice = (
        [item.hopeless_ms for item in bench.asked if item.shape["N"] == shape["N"]]
        for shape in ({"N": 1024}, OWN)
    )
    in_use_ms = next(row.time_ms for row in rows if row.implementation == "softmax/three_pass")
    assert search[:2] == [None, 2 * in_use_ms]
    assert set(practice) == {None}


@pytest.mark.slow
def test_only_what_is_in_use_is_measured_as_the_default(rows, moved):
    slow = dict.fromkeys(("rows_tile", "whole_row"), 100.0)
    bench = Listening([*rows, *moved(HELD_OUT), *moved(OWN, **slow)])
    result = practised(rows, moved, bench=bench)
    assert kinds_of(result) == ["whole_row", "rows_tile", "original"]  # with other parameters
    assert [finalist.taken for finalist in result.finalists] == [False, False, True]
    how = [item.chosen_by for item in bench.asked if item.shape["N"] == OWN["N"]]
    assert how == ["default", "search", "search", "search"]


class Interrupted(RecordedBench):
    """Someone interrupts, or it fails, once it leaves the shape of the search."""

    error: BaseException = KeyboardInterrupt()

    def submit(self, configurations):
        if configurations[0].shape.get("N") == OWN["N"]:
            raise self.error
        super().submit(configurations)


@pytest.mark.slow
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), pytest.param(WorkerError("lost"), marks=pytest.mark.slow)]
)
def test_if_practice_cannot_be_finished_the_fastest_goes_to_the_gate(rows, moved, error):
    bench = Interrupted([*rows, *moved(HELD_OUT), *moved(OWN)])
    bench.error = error
    result = practised(rows, moved, bench=bench)
    assert not any(finalist.practised for finalist in result.finalists)
    assert "practi" in result.notes[-1]
    assert (result.gate.passed, result.winner.variant.kind) == (True, "whole_row")


@pytest.mark.slow
def test_a_shape_that_is_not_recorded_cannot_be_held_out(rows):
    how = EvolveSettings(**FAST, held_out=[{**SHAPE, "M": 5}])
    result = evolved(rows, Recorded("rows_tile"), settings=how)
    assert (result.gate.passed, result.gate.single_shape) == (True, True)


def test_the_original_is_kept_if_nothing_is_faster(rows):
    fastest_own = next(
        row
        for row in rows
        if row.implementation == "softmax/three_pass"
        and canonical(row.shape) == canonical(SHAPE)
        and row.time_ms == fastest(rows, "three_pass")
    )
    how = EvolveSettings(**FAST, params=fastest_own.params)
    result = evolved(rows, Written("def kernel(:"), settings=how)
    assert (result.verdict, result.gate) == (TuneVerdict.KEEP, None)
    assert result.best_params == result.original


def test_without_a_gpu_it_says_what_can_be_done():
    with pytest.raises(UnsupportedError, match="a recording can be replayed"):
        evolve(ORIGINAL, reference=PROBLEM, device="h100")


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"depth": "deep"}, "depth is 'deep'; expected one of: captured, lowered, compiled"),
        ({"order": "up"}, "order is 'up'; expected one of: surrogate, random"),
        ({"stop_at": 0}, "stop_at is 0; expected a share"),
        ({"least_gain": 1}, "least_gain is 1; expected a share"),
        ({"proposals": 0}, "proposals is 0; expected 1 or more"),
        ({"resume": True}, "name the log of the run"),
    ],
)
def test_settings_are_checked(result, message):
    with pytest.raises(InputError, match=message):
        EvolveSettings(**result)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"seconds": 0}, "gpu_seconds is 0; expected a budget above 0"),
        ({"settings": EvolveSettings(params={"NOPE": 1})}, "has no parameter 'NOPE'"),
        (
            {"shape": {**SHAPE, "M": 1}},
            "three_pass.py is not recorded at M=1, N=1024, dtype=float16; choose one with --shape: "
            "M=8192, N=1024, dtype=float16",
        ),
        pytest.param(  # loads Inductor
            *({"path": PROBLEM, "reference": None}, "not_recorded"), marks=pytest.mark.slow
        ),
    ],
)
def test_bad_input_is_named(rows, result, message):
    with pytest.raises(InputError, match=message):
        evolved(rows, Recorded(), **result)


@pytest.mark.parametrize(("budget_s", "most_s"), [(20, 20), (120, 60), (1000, 120)])
def test_one_candidate_takes_a_part_of_the_budget(budget_s, most_s):
    search, gate = _measure_limits(EvolveSettings(), budget_s)
    assert search.time_limit_s == most_s
    assert gate.time_limit_s == 120  # the gate is outside the budget


def test_nothing_is_checked_or_compiled_beside_the_gate(rows, monkeypatch):
    refused = []

    def gate(selection, *_):
        with pytest.raises(RuntimeError, match="shutdown"):
            selection.evaluator._variant_checks.prepare(print)
        refused.append(True)

    monkeypatch.setattr(Selection, "gate", gate)
    evolved(rows, Recorded())
    assert refused == [True]


def test_waiting_for_another_search_costs_no_budget():
    clock = SimpleNamespace(now_s=lambda: waited_s[0] + 2.0, gpu_s=lambda: waited_s[0] and 2.0)
    waited_s = [0.0]

    def outcomes():
        waited_s[0] = 30.0  # another session held the GPU; then two seconds of measuring
        yield None, "measured"

    bench = SimpleNamespace(clock=clock, submit=lambda _: None, outcomes=outcomes)
    world = KernelEvaluator(*(None,) * 5, bench=bench)
    assert world._await_outcome(Configuration("x.py", "kernel", {}, {}, None, "search"), None)
    assert world.spent_s() == 2.0


def test_a_measurement_counts_while_it_runs():
    """Its row is logged before it ends: a resumed run would not know of the last one's cost."""
    spent_s, gpu_s = [], [10.0]

    def outcomes():
        gpu_s[0] += 3.0
        spent_s.append(world.spent_s())  # where the log asks
        yield None, "measured"

    clock = SimpleNamespace(gpu_s=lambda: gpu_s[0])
    bench = SimpleNamespace(clock=clock, submit=lambda _: None, outcomes=outcomes)
    world = KernelEvaluator(*(None,) * 5, bench=bench, earlier_s=1.0)
    world._await_outcome(Configuration("x.py", "kernel", {}, {}, None, "search"), None)
    gpu_s[0] += 5.0  # nothing is measured
    assert (spent_s, world.spent_s()) == ([4.0], 4.0)
