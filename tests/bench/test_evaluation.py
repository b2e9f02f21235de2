"""What bench/evaluation.py says of figures."""

from __future__ import annotations

import json

import evaluation


def figures(spearman, error, pairs):
    pool = {"spearman_median": spearman, "spearman_p10": 0.5, "problems": 9, "k_90": 4}
    pool |= {f"regret_top{n}_mean": 0.01 for n in (1, 3, 5, 8)}
    return {
        "rows": 1234,
        "pools": {"problem": pool, "kernel": pool},
        "time_error_median": error,
        "coverage_90": 0.95,
        "pairs_right": {"over_1.2": pairs, "1.2_to_1.5": None},
    }


def saved_evaluation(split, **values):
    return {
        "depth": "compiled",
        "splits": {split: figures(**values)},
        "baselines": {"kernel_model": {split: figures(0.8, 0.3, 0.7)}},
    }


def test_targets_are_held_against_figures(tmp_path, capsys):
    path = tmp_path / "kinds.json"
    path.write_text(json.dumps(saved_evaluation("kinds", spearman=0.92, error=0.25, pairs=0.94)))
    evaluation.main([str(path)])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "kinds, compiled: 1,234 configurations"
    assert "problem spearman_median 0.92 at least 0.91 ✓ kernel model 0.8" in lines
    assert "problem spearman_p10 0.5 at least 0.72 ✗ 1.79 times kernel model 0.5" in lines
    assert "time error 0.25 at most 0.125 ✗ 2.00 times kernel model 0.3" in lines
    assert "pairs_right.over_1.2 0.94 at least 0.93 ✓" in lines
    assert "pairs_right.1.2_to_1.5 unknown" in lines


def test_splits_of_several_files_are_joined(tmp_path):
    for split in ("kinds", "families"):
        result = saved_evaluation(split, spearman=0.9, error=0.2, pairs=0.9)
        (tmp_path / f"{split}.json").write_text(json.dumps(result))
    result = evaluation.joined([str(tmp_path / f"{split}.json") for split in ("kinds", "families")])
    assert set(result["compiled"]["splits"]) == {"kinds", "families"}
    assert set(result["compiled"]["baselines"]["kernel_model"]) == {"kinds", "families"}


def test_the_committed_figures_are_few_bytes_and_of_every_depth():
    text = evaluation.DATA.read_text()
    assert len(text) < 60_000
    data = json.loads(text)
    assert set(data) <= set(evaluation.RUNS)
    for depth, row in data.items():
        assert row["depth"] == depth
        requests = {split for splits in evaluation.RUNS[depth].values() for split in splits}
        assert set(row["splits"]) <= requests
    assert evaluation.packed({"a": [1], "b": {"c": 0.123456, "d": None}}) == (
        '{"a":[1],"b":{"c":0.1235,"d":null}}\n'
    )
