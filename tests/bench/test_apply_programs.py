"""Programs with and without what was tuned: the stages' processes, without a GPU."""

from __future__ import annotations

import json
from argparse import Namespace

import apply_programs


def test_a_batch_may_spend_its_budget_of_the_gpu(tmp_path, monkeypatch):
    (tmp_path / "tuned.json").write_text(json.dumps({"entries": [{}, {}]}))
    limits = []

    def run(_, limit_s=170.0):
        limits.append(limit_s)
        return "", "", 12.0

    monkeypatch.setattr(apply_programs, "run", run)
    row = apply_programs.stage_tune("any", tmp_path, Namespace(gpu_minutes=3.0))
    assert row == {"wall_s": 12.0, "entries": 2}
    assert limits[0] >= 2 * 3 * 60
