from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import solkit
from solkit import cli

pytest.importorskip("polars")
pytest.importorskip("pyarrow")

from solkit.datasets import runlog
from solkit.datasets.formats import FORMATS
from solkit.datasets.store import Store
from solkit.errors import SolkitError

AUTOTUNED = {
    "key": [4096, "torch.float16"],
    "configs_timings": [
        [{"kwargs": {"BLOCK": 64}, "num_warps": 4}, [0.5, 0.4, 0.6]],
        [{"kwargs": {"BLOCK": 128}, "num_warps": 8}, [float("inf")] * 3],
    ],
}


def run(*arguments, code=0):
    done = CliRunner().invoke(cli.app, ["data", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture
def store(tmp_path):
    file = tmp_path / "softmax.autotune.json"
    file.write_text(json.dumps(AUTOTUNED))
    run("import", tmp_path / "store", file, "--device", "NVIDIA H100 80GB HBM3")
    return tmp_path / "store"


def test_a_file_is_imported_once(store):
    file = store.parent / "softmax.autotune.json"
    done = run("import", store, file, "--device", "h100")
    assert "0 new rows, 2 known already" in done.stdout


def test_many_files_become_one_part(tmp_path):
    names = [f"E=8,N={n},device_name=NVIDIA_H200.json" for n in (64, 128)]
    for name in names:
        (tmp_path / name).write_text(json.dumps({"1": {"num_warps": 4}, "x": 1, "2": 5}))
    done = run("import", tmp_path / "store", *(tmp_path / name for name in names))
    assert "2 new rows" in done.stdout
    assert done.stderr.count("batch size 2: expected a configuration, not 5") == 2
    assert len(list((tmp_path / "store" / "parts").iterdir())) == 1
    told = json.loads(run("info", tmp_path / "store", "--json", "-").stdout)
    assert told["families"][0]["device"] == "h200"


def test_info_counts_what_is_there(store):
    told = json.loads(run("info", store, "--json", "-").stdout)
    (family,) = told["families"]
    assert (family["device"], family["rows"], family["timed"]) == ("h100-sxm", 2, 1)
    assert told["verdicts"] == {"does_not_compile": 1, "not_measured": 1}
    shown = run("info", store).stdout
    assert "2 rows (1 timed) of 1 runs" in shown


def test_query_answers_in_sql(store):
    sql = "select params, time_ms from data where time_ms is not null"
    assert "0.5" in run("query", store, sql).stdout
    (row,) = json.loads(run("query", store, sql, "--json", "-").stdout)
    assert row["time_ms"] == 0.5
    table = run("query", store, "select family, dtypes from data", "--csv", "-").stdout
    assert table.splitlines()[:2] == ["family,dtypes", 'softmax,"[""float16""]"']
    bad = run("query", store, "select speed from data", code=2)
    assert "speed" in bad.stderr
    assert "time_ms" in bad.stderr


def test_export_writes_a_set_or_t4(store, tmp_path):
    run("export", store, tmp_path / "set", "--title", "Some times")
    assert "pretty_name: Some times" in (tmp_path / "set" / "README.md").read_text()
    run("export", store, tmp_path / "x.json", "--to", "t4", "--where", "time_ms > 0")
    (result,) = json.loads((tmp_path / "x.json").read_text())["results"]
    assert result["configuration"] == {"BLOCK": 64, "num_warps": 4}
    assert "choose one of" in run("export", store, tmp_path / "y", "--to", "csv", code=2).stderr


def test_export_of_what_was_tried_is_a_run_with_the_rows_own_names(store, tmp_path):
    run("export", store, tmp_path / "tried.jsonl", "--to", "tried")
    found = runlog.read(tmp_path / "tried.jsonl")
    kept = list(Store(store).rows())
    assert [(r.run_id, r.sequence, r.params, r.verdict, r.time_ms) for r in found.rows] == [
        (r.run_id, r.sequence, r.params, r.verdict, r.time_ms) for r in kept
    ]
    assert {r.run_id for r in found.rows}.isdisjoint({found.run_id})
    assert found.rows[0].dtypes == () != kept[0].dtypes  # nothing else is told
    for command in ("import", "merge"):
        done = run(command, tmp_path / "other", tmp_path / "tried.jsonl", code=2)
        assert "holds what was tried and its time, no more" in done.stderr
    with pytest.raises(SolkitError, match="for `solkit data collect --after`"):
        runlog.RunLog(tmp_path / "tried.jsonl")


def test_merge_and_verify(store, tmp_path):
    assert "2 new rows" in run("merge", tmp_path / "both", store).stdout
    assert "whole: 2 rows" in run("verify", tmp_path / "both").stdout
    (part,) = (tmp_path / "both" / "parts").glob("*.parquet")
    part.write_bytes(b"")
    done = run("verify", tmp_path / "both", code=1)
    assert f"wrong: {part}" in done.stdout
    assert part.name in run("merge", tmp_path / "third", tmp_path / "both", code=2).stderr
    run("merge", tmp_path / "third", tmp_path / "both", "--salvage")


def test_a_mistake_names_the_valid_choices(store, tmp_path):
    (tmp_path / "x.txt").write_text("hello")
    told = run("import", store, tmp_path / "x.txt", code=2).stderr
    assert all(name in told for name in FORMATS)
    told = run("import", store, tmp_path / "x.txt", "--format", "csv", code=2).stderr
    assert all(name in told for name in FORMATS)
    assert (
        "give --device"
        in run("import", store, store.parent / "softmax.autotune.json", code=2).stderr
    )
    assert "no set 'nothing'" in run("info", "nothing", code=2).stderr
    assert all(name in run("import", "--help").stdout for name in FORMATS)


def test_help_loads_nothing_heavy():
    code = (
        "import sys, solkit.cli; heavy = 'torch polars pyarrow pydantic'; "
        "print([name for name in heavy.split() if name in sys.modules])"
    )
    root = Path(solkit.__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root)
    assert done.stdout.strip() == "[]", done.stderr
