"""What the bench of plain kernels says of results; the numbers are by hand."""

from __future__ import annotations

import argparse
import json

import evolve_naive as bench
import pytest


def result(device="h100", verdict="faster", **more):
    fields = {
        "device": device,
        "sol_ms": 1.0,
        "verdict": verdict,
        "original": {"time_ms": 8.0},
        "best": {"id": "b"},
        "variants": [{"id": "a", "kind": "original"}, {"id": "b", "kind": "retile"}],
        "gate": {"held_out": [{}]},
        "speedup": {"value": 4.0},
        "measured": 3,
        "failed": 1,
        "gpu_s": 20.0,
        "trajectory": [{"gpu_s": 4.0, "best_ms": 8.0}, {"gpu_s": 9.0, "best_ms": 2.0}],
    }
    return fields | more


def test_the_gap_after_counts_what_the_gate_showed():
    assert bench.closed(result()) == bench.Closed(8.0, 2.0)
    assert bench.closed(result(verdict="keep", speedup=None)) == bench.Closed(8.0, 8.0)
    assert bench.closed(result(sol_ms=None)) is None
    assert bench.closed(result(original={"time_ms": None})) is None


def test_a_line_names_what_won():
    assert "retile" in bench.line("k/plain.py", result(), bench.Closed(8.0, 2.0))
    kept = bench.line("k/plain.py", result(verdict="keep", gate=None), None)
    assert "kept" in kept
    assert "no gap" in kept


@pytest.mark.parametrize(("gpu_s", "best_ms"), [(1.0, 8.0), (4.0, 8.0), (8.9, 8.0), (9.0, 2.0)])
def test_the_best_so_far(gpu_s, best_ms):
    assert bench.best_after(result(), gpu_s) == best_ms


def test_only_runs_of_one_seed_on_one_gpu_are_paired():
    def search(order, seed, best_ms, device="h100"):
        at = [{"gpu_s": 5.0, "best_ms": best_ms}]
        return bench.Search("k.py", seed, order, result(device, trajectory=at))

    searches = [search("surrogate", 0, 1.0), search("random", 0, 2.0)]
    searches += [search("surrogate", 1, 1.0), search("random", 1, 8.0)]
    searches += [search("surrogate", 2, 1.0), search("random", 2, 9.0, "h200")]
    results = bench.paired(searches, "surrogate", "random", 10.0)
    assert "after 10 GPU s: 0.250 (0.125 to 0.500), 2 pairs" in results
    assert bench.paired(searches[:1], "surrogate", "random", 10.0) == "no pairs"


def test_what_is_in_the_folder_is_not_searched_again(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "evolve", None)  # it would fail
    (tmp_path / "k-surrogate-0.json").write_text(json.dumps(result()))
    request = argparse.Namespace(kernels=["k.py"], seeds=1, order=["surrogate"], out=tmp_path)
    (results,) = bench.searched(request)
    assert results.result == result()


def test_a_search_that_was_cut_short_goes_on_from_its_log(tmp_path, monkeypatch):
    settings = []

    def evolve(_path, **options):
        settings.append(options["settings"])
        raise bench.SolkitError("cut short")

    monkeypatch.setattr(bench, "evolve", evolve)
    values = {"gpu_seconds": 20.0, "stop_at": 0.95, "no_compiled": False}
    options = argparse.Namespace(
        kernels=["k.py"], seeds=1, order=["surrogate"], out=tmp_path, **values
    )
    assert list(bench.searched(options)) == []
    (tmp_path / "k-surrogate-0.jsonl").write_text("")
    assert list(bench.searched(options)) == []
    assert [one.resume for one in settings] == [False, True]
    assert {one.log for one in settings} == {tmp_path / "k-surrogate-0.jsonl"}
