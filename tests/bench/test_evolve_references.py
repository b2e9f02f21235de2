"""References drawn by the share of Triton's kernels; what finds shares is a stand-in."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import evolve_references
import pytest
from evolve_references import Shares, summary, with_shares

CHILD = """
import os, sys, time
for path in map(str.strip, sys.stdin):
    if path == "dies":  # slowly, as with a GPU
        os.close(0)
        os.close(1)
        time.sleep(1)
        os._exit(3)
    if path == "hangs":
        time.sleep(600)
    print(os.getpid(), file=open(sys.argv[0] + ".pids", "a"), flush=True)
    print("what a problem prints")
    print("share of Triton:", "failed" if path == "fails" else f"0.{len(path)}", flush=True)
"""


@pytest.fixture
def child(tmp_path, monkeypatch):
    path = tmp_path / "child.py"
    path.write_text(CHILD)
    monkeypatch.setattr(evolve_references, "__file__", str(path))
    return path


def problem(path):
    return SimpleNamespace(path=path, name=path, label=f"1/{path}")


def test_one_process_tells_shares_until_it_ends(child, monkeypatch):
    shares = Shares()
    results = [shares.of(problem(text)) for text in ("abc", "fails", "abcd", "dies", "ab")]
    assert results == [0.3, None, 0.4, None, 0.2]
    pids = child.with_name("child.py.pids").read_text().split()
    assert len(set(pids[:3])) == 1
    assert pids[3] != pids[0]
    monkeypatch.setattr(evolve_references, "_SHARE_LIMIT_S", 0.3)
    begun_s = time.monotonic()
    assert shares.of(problem("hangs")) is None
    assert time.monotonic() - begun_s < 60
    shares.close()


@pytest.mark.usefixtures("child")
def test_shares_are_kept_and_small_ones_left_out(tmp_path):
    out = tmp_path / "found"
    out.mkdir()
    (out / "known.json").write_text(
        json.dumps({"problem": "1/known", "share": 0.9, "verdict": "keep"})
    )
    drawn = iter([problem(text) for text in ("ab", "known", "fails", "abc", "abcd", "never")])
    results = with_shares(drawn, 3, out)
    assert [(item.path, result["share"]) for item, result in results] == [
        *(("known", 0.9), ("abc", 0.3), ("abcd", 0.4))
    ]
    assert json.loads((out / "ab.json").read_text()) == {"problem": "1/ab", "share": 0.2}
    assert json.loads((out / "fails.json").read_text())["share"] is None
    assert not (out / "never.json").exists()
    assert next(drawn).path == "never"


def row(name, share, original_ms, part_sol_ms, speed_up, **more):
    fields = {"problem": f"1/{name}", "share": share, "original_ms": original_ms}
    part = {} if part_sol_ms is None else {"part_sol_ms": part_sol_ms}
    return fields | part | {"speed_up": speed_up} | more


def test_the_summary_is_of_what_was_searched():
    rows = [
        row("a", 0.5, 4.0, 1.0, 4.0, at_the_gate_high=4.1),  # Triton's part takes 2 ms of 1
        row("b", 1.0, 1.1, 1.0, 1.0),
        row("c", 1.0, 9.0, 1.0, 1.0, at_the_gate_high=0.3),  # torch.compile is faster
        row("d", 0.4, 3.0, None, 2.0, at_the_gate_high=2.1),
        {"problem": "1/e", "error": "it failed"},
    ]
    assert summary(rows) == [
        "geometric mean of the speed-ups over torch.compile: 1.682 (4)",  # of 4, 1, 1 and 2
        "where the gap of Triton's part was over 1.5: 2.000 (2)",  # of 4 and 1
        "slower, so torch.compile's own code stays: 1/c",
        "failed: 1",
    ]
