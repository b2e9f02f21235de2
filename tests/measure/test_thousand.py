"""A small version of bench/thousand.py, on the CPU."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "thousand.py"


@pytest.fixture
def thousand():
    spec = importlib.util.spec_from_file_location("bench_thousand", BENCH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_many_candidates_leave_nothing_behind(thousand, tmp_path, monkeypatch):
    kinds = ["right", "right", "right", "wrong", "raising", "dying"]
    monkeypatch.setattr(thousand, "kind_of", lambda number: kinds[number % len(kinds)])
    result = thousand.run(12, "cpu", tmp_path)
    assert result["verdicts"] == {
        "right: correct": 6,
        "wrong: wrong": 2,
        "raising: crashed": 2,
        "dying: crashed": 2,
    }
    growth = result["growth"]
    assert {name: growth[name] for name in ("descriptors", "threads", "processes")} == {
        "descriptors": 0,
        "threads": 0,
        "processes": 0,
    }
    assert growth["private_mib"] < 64
    assert 0 < result["cpu_s"] < 60
    assert 0 < result["beyond_samples_s"] <= result["beyond_samples_90th_percentile_s"]
    assert not list(tmp_path.glob("candidate1*.py"))
