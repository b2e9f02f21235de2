from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest
from typer.testing import CliRunner

import solkit
from solkit import cli
from solkit.core import Verdict

pytest.importorskip("polars")
pytest.importorskip("pyarrow")

from solkit.core import Outcome
from solkit.datasets import outcomelog
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
    data = json.loads(run("info", tmp_path / "store", "--json", "-").stdout)
    assert data["families"][0]["device"] == "h200"


def test_info_counts_what_is_there(store):
    data = json.loads(run("info", store, "--json", "-").stdout)
    assert data["schema"] == "solkit.data_info/1"
    (family,) = data["families"]
    assert (family["device"], family["rows"], family["timed"]) == ("h100-sxm", 2, 1)
    assert data["verdicts"] == {"does_not_compile": 1, "not_measured": 1}
    shown = run("info", store).stdout
    assert "2 rows (1 timed) of 1 runs" in shown


@pytest.mark.slow
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


MESSAGES = ("ptxas: [sm_90a] got [1, 2] :x:", "at [/foo]", None, None)


@pytest.fixture
def failures(tmp_path):
    """A store of attempts that failed, one on each of the first days of 2026."""
    rows = [
        Outcome(
            kernel_id="k", family="softmax", kind="norm", origin="zoo", problem_id="p",
            device="h100-sxm", params={}, verdict=Verdict.DOES_NOT_COMPILE, chosen_by="default",
            created=datetime(2026, 1, day, tzinfo=timezone.utc), run_id="r", sequence=day,
            message=message,
        )
        for day, message in enumerate(MESSAGES, 1)
    ]  # fmt: skip
    Store(tmp_path / "failures", create=True).add(rows)
    return tmp_path / "failures"


def test_csv_keeps_the_rows_that_end_it_with_nulls(failures):
    sql = "select message from data order by sequence"
    text = run("query", failures, sql, "--csv", "-").stdout
    _, *rows = csv.reader(io.StringIO(text))
    assert [row[0] if row else None for row in rows] == list(MESSAGES)
    run("query", failures, sql, "--csv", failures.parent / "x.csv")
    assert (failures.parent / "x.csv").read_text() == text


def test_cells_and_names_are_shown_as_they_are(failures):
    sql = 'select message as "[b]:x:" from data where message is not null'
    shown = run("query", failures, sql).stdout
    assert all(text in shown for text in ("[b]:x:", *MESSAGES[:2]))


@pytest.mark.slow
def test_an_answer_that_is_too_wide_is_shown_a_line_a_column(failures, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("query", failures, "select * from data order by sequence limit 1").stdout
    lines = [[cell.strip() for cell in line.split("│")[1:3]] for line in shown.splitlines()]
    cells = dict(line for line in lines if line)
    assert list(cells) == Store(failures).scan().collect_schema().names()
    assert (cells["message"], cells["time_ms"]) == (MESSAGES[0], "None")
    narrow = run("query", failures, "select sequence, message from data").stdout
    assert narrow.count("│ None") == 2
    union = " union all ".join(["select * from data"] * 2)
    assert "4 of 8 rows; --json or --csv FILE writes all" in run("query", failures, union).stdout


@pytest.mark.quick(
    "cast(family as int) > 3-softmax-t4",
    "1-oolean-tried",
    "family-oolean-tried",
    "family =-family =-tried",
)
@pytest.mark.parametrize("to", ["huggingface", "t4", "tried"])
@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("cast(family as int) > 3", "softmax"),
        ("1", "oolean"),
        ("message ~ '('", "unclosed group"),
        ("family", "oolean"),
        ("family =", "family ="),
        ("true) or (family", "true) or (family"),
    ],
)
def test_a_condition_that_fails_is_the_users_and_named(failures, to, where, message):
    target = failures.parent / "out"
    error = run("export", failures, target, "--to", to, "--where", where, code=2).stderr
    assert f"{where!r}" in error
    assert message in error
    assert "Resolved plan" not in error
    assert "This error occurred" not in error
    assert "memory_clock_mhz" not in error  # no column is unknown
    assert not target.exists()


@pytest.mark.slow
def test_an_unknown_column_is_told_with_those_that_there_are(failures):
    result = run("query", failures, "select speed from data", code=2)
    chosen = run("export", failures, failures.parent / "out", "--where", "speed > 1", code=2)
    for error in (result.stderr, chosen.stderr):
        assert '"speed"' in error
        assert ", ".join(Store(failures).scan().collect_schema().names()) in error
    assert "memory_clock_mhz" not in run("query", failures, "select from", code=2).stderr


def test_a_condition_compares_times_with_text(failures):
    target = failures.parent / "out.jsonl"
    where = "created >= '2026-01-02 12:00'"
    run("export", failures, target, "--to", "tried", "--where", where)
    assert [row.sequence for row in outcomelog.read(target).rows] == [3, 4]


@pytest.fixture
def refused(tmp_path):
    """A run's file of which no line is a row."""
    with outcomelog.OutcomeLog(tmp_path / "refused.jsonl", resume=True) as log:
        pass
    with log.path.open("a") as file:
        file.write('{"row": {}}\n{"row": {"kern')
    return log.path


@pytest.mark.slow
def test_an_import_of_which_nothing_could_be_taken_fails_and_leaves_no_store(refused, store):
    done = run("import", refused.parent / "new", refused, code=2)
    assert f"{refused}:3: " in done.stderr
    assert f"{refused}: no row could be imported" in done.stderr
    assert not (refused.parent / "new").exists()
    run("import", store, refused, code=2)
    tuned = refused.parent / "E=8,N=64,device_name=NVIDIA_H200.json"
    tuned.write_text(json.dumps({"1": {"num_warps": 4}}))
    done = run("import", refused.parent / "new", refused, tuned, code=2)
    assert "1 new rows" in done.stdout
    assert "1 known already" in run("import", refused.parent / "new", tuned).stdout


@pytest.mark.slow
def test_a_merge_of_which_nothing_can_be_read_fails(refused, store):
    for options in ([], ["--salvage"]):
        done = run("merge", refused.parent / "new", refused, *options, code=2)
        assert "no row could be read" in done.stderr
    assert "2 new rows" in run("merge", refused.parent / "new", refused, store).stdout
    assert "2 known already" in run("merge", refused.parent / "new", refused, store).stdout


@pytest.mark.slow
def test_export_writes_a_set_or_t4(store, tmp_path):
    run("export", store, tmp_path / "set", "--title", "Some times")
    assert "\n# Some times\n" in (tmp_path / "set" / "README.md").read_text()
    run("export", store, tmp_path / "x.json", "--to", "t4", "--where", "time_ms > 0")
    (result,) = json.loads((tmp_path / "x.json").read_text())["results"]
    assert result["configuration"] == {"BLOCK": 64, "num_warps": 4}
    assert "choose one of" in run("export", store, tmp_path / "y", "--to", "csv", code=2).stderr


def test_export_of_what_was_tried_is_a_run_with_the_rows_own_names(store, tmp_path):
    run("export", store, tmp_path / "tried.jsonl", "--to", "tried")
    result = outcomelog.read(tmp_path / "tried.jsonl")
    kept = list(Store(store).rows())
    assert [(r.run_id, r.sequence, r.params, r.verdict, r.time_ms) for r in result.rows] == [
        (r.run_id, r.sequence, r.params, r.verdict, r.time_ms) for r in kept
    ]
    assert {r.run_id for r in result.rows}.isdisjoint(result.runs)
    assert result.rows[0].dtypes == () != kept[0].dtypes  # nothing else is told
    for command in ("import", "merge"):
        done = run(command, tmp_path / "other", tmp_path / "tried.jsonl", code=2)
        assert "holds what was tried and its time, no more" in done.stderr
    with pytest.raises(SolkitError, match="for `solkit data collect --after`"):
        outcomelog.OutcomeLog(tmp_path / "tried.jsonl", resume=True)


@pytest.mark.slow
def test_merge_and_verify(store, tmp_path):
    assert "2 new rows" in run("merge", tmp_path / "both", store).stdout
    assert "whole: 2 rows" in run("verify", tmp_path / "both").stdout
    verified = json.loads(run("verify", tmp_path / "both", "--json", "-").stdout)
    assert (verified["schema"], verified["rows"]) == ("solkit.data_verify/1", 2)
    (part,) = (tmp_path / "both" / "parts").glob("*.parquet")
    part.write_bytes(b"")
    done = run("verify", tmp_path / "both", code=1)
    assert f"wrong: {part}" in done.stdout
    assert part.name in run("merge", tmp_path / "third", tmp_path / "both", code=2).stderr
    done = run("merge", tmp_path / "third", tmp_path / "both", "--salvage", code=2)
    assert "no row could be read" in done.stderr
    run("merge", tmp_path / "third", tmp_path / "both", store, "--salvage")


@pytest.mark.slow
def test_a_mistake_names_the_valid_choices(store, tmp_path):
    (tmp_path / "x.txt").write_text("hello")
    result = run("import", store, tmp_path / "x.txt", code=2).stderr
    assert all(name in result for name in FORMATS)
    result = run("import", store, tmp_path / "x.txt", "--format", "csv", code=2).stderr
    assert all(name in result for name in FORMATS)
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
