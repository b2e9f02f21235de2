"""``solkit data tuned``, as a user runs it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from solkit.cli import app

pytest.importorskip("polars")
pytest.importorskip("pyarrow")

sys.path.append(str(Path(__file__).parents[1] / "tuner"))
from tuning_rows import row

from solkit.core import Difference, Final, Ratio
from solkit.datasets.outcomelog import OutcomeLog
from solkit.tuner.database import VARIABLE, Database
from solkit.tuner.tuning_results import decision_row

RUN = CliRunner()


def tuned(folder, name, block, time_ms, difference):
    """A run in the database."""
    with OutcomeLog(folder / f"{name}.jsonl") as log:
        first, best = log.append(
            [row({"B": 64}, 1.0, chosen_by="default"), row({"B": block}, time_ms, 1)]
        )
        ratio = Ratio(time_ms, time_ms - 0.01, time_ms + 0.01, 0.004, 9)
        log.append([decision_row(best, first, Final({}, difference, ratio, "turns"))])
    Database(folder / "db").merge(log.path)
    return log.run_id


def test_runs_that_disagree_are_both_shown_and_one_is_marked(tmp_path, monkeypatch):
    first = tuned(tmp_path, "a", 256, 0.8, Difference.FASTER)
    second = tuned(tmp_path, "b", 512, 0.5, Difference.FASTER)
    result = RUN.invoke(app, ["data", "tuned", str(tmp_path / "db")])
    assert result.exit_code == 0, result.output
    head, *lines = result.stdout.splitlines()
    assert head == ("softmax/whole_row at M=4096 N=1024 on h100-sxm, Triton 3.6.0, cold protocol")
    (worse,) = [line for line in lines if first in line]
    (better,) = [line for line in lines if second in line]
    assert worse.startswith("  20")
    assert better.startswith("* 20")
    assert (
        "faster: 2.000 times as fast (1.961 to 2.041): 500 µs (B=512); in use 1.00 ms (B=64)"
        in better
    )
    assert "2 configurations, 1.0 GPU s" in better
    monkeypatch.setenv(VARIABLE, str(tmp_path / "db"))
    assert RUN.invoke(app, ["data", "tuned"]).stdout == result.stdout


def test_the_json_has_everything(tmp_path):
    tuned(tmp_path, "a", 256, 0.999, Difference.NOT_SHOWN)
    result = RUN.invoke(app, ["data", "tuned", str(tmp_path / "db"), "--json", "-"])
    (results,) = json.loads(result.stdout)["findings"]
    assert (results["verdict"], results["confirmed"], results["taken"]) == ("keep", True, True)
    assert results["incumbent"]["params"] == {"B": 64}
    assert results["winner"]["params"] == {"B": 256}
    assert (results["driver_version"], results["clock_mhz"]) == ("580.95", 1980.0)
    assert (results["kernel_id"], results["protocol"]) == ("k", "cold")
    none = RUN.invoke(app, ["data", "tuned", str(tmp_path / "db"), "--shape", "M=1"])
    assert none.stdout == "nothing has been tuned yet\n"


def test_a_folder_of_other_files_is_an_error(tmp_path):
    (tmp_path / "letter.txt").write_text("hello")
    result = RUN.invoke(app, ["data", "tuned", str(tmp_path)])
    assert result.exit_code == 2
    assert "is not a store: it contains other files" in result.stderr
