"""``solkit rank`` and ``solkit train``, as a user runs them."""

from __future__ import annotations

import json
import re
import sys
from html import unescape
from pathlib import Path

import pytest
from typer.testing import CliRunner

from solkit.cli import app

sys.path.append(str(Path(__file__).parents[1] / "surrogate"))
from synthetic import CARD, KERNEL, QUICK, table

from solkit.core import Depth
from solkit.surrogate.model import Surrogate

RUN = CliRunner()
FORECAST = {"time_ms", "low_ms", "high_ms", "p_fail", "abstains"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rank")
    (folder / "double.py").write_text(KERNEL)
    (folder / "params.jsonl").write_text('{"BLOCK": 256}\n\n{"BLOCK": 2048, "num_warps": 8}\n')
    Surrogate.fit(dict.fromkeys(Depth, table(400)), CARD, QUICK).save(folder / "it.solkit")
    return folder


def run_rank(folder, *options):
    result = RUN.invoke(
        app,
        ["rank", str(folder / "double.py"), "--device", "h100", *options, *_model(folder)],
    )
    return result


def _model(folder):
    return "--model", str(folder / "it.solkit")


@pytest.mark.slow
def test_a_page_explains_the_first(folder, tmp_path):
    pytest.importorskip("jinja2")
    page = tmp_path / "plan.html"
    results = run_rank(folder, "--depth", "captured", "--html", str(page), "--json", "-")
    assert results.exit_code == 0, results.output
    (result,) = json.loads(results.stdout)["results"]
    first = result["ranking"][0]
    text = page.read_text()
    assert "What moves the forecast of" in text
    assert all(push["words"] in unescape(text) for push in first["explanation"])
    assert not any(push["feature"] in text for push in first["explanation"] if "." in push["words"])
    assert 1 <= sum(bool(item["explanation"]) for item in result["ranking"]) <= 5
    assert run_rank(folder, "--html", "-").exit_code == 2


@pytest.mark.slow
def test_the_json_is_the_contract(folder):
    results = run_rank(folder, "--depth", "captured", "--top", "4", "--json", "-")
    assert results.exit_code == 0, results.output
    data = json.loads(results.stdout)
    assert data["schema"] == "solkit.rank/1"
    (result,) = data["results"]
    assert result["shape"] == {"N": 1 << 20}
    assert len(result["ranking"]) == 32
    for items in result["ranking"]:
        assert {"file", "entry_point", "params", "depth", "action", "reason"} < set(items)
        assert set(items["forecast"]) == FORECAST
        assert items["depth"] == "captured"
        assert items["action"] in ("measure", "explore", "skip")
        assert items["reason"]
    first = result["ranking"][0]
    assert first["entry_point"] == "kernel"
    assert {"feature", "words", "value", "time_factor"} == set(first["explanation"][0])


@pytest.mark.slow
def test_given_candidates_all_reach_the_depth(folder):
    results = run_rank(folder, "--params-file", str(folder / "params.jsonl"), "--json", "-")
    (result,) = json.loads(results.stdout)["results"]
    assert sorted(item["params"]["BLOCK"] for item in result["ranking"]) == [256, 2048]
    assert {item["depth"] for item in result["ranking"]} == {"lowered"}


@pytest.mark.slow
def test_the_page_names_what_to_measure(folder):
    result = run_rank(folder, "--depth", "captured", "--top", "3")
    assert result.exit_code == 0, result.output
    assert "32 candidates" in result.stdout
    rows = [line for line in result.stdout.splitlines() if re.match(r" *\d+ ", line)]
    assert len(rows) == 3  # as many as may be measured, in one order
    places = [int(line.split()[0]) for line in rows]
    assert places == sorted(places)
    assert all("measure" in line or "explore" in line for line in rows)
    assert "It is what you have" in " ".join(result.stdout.split())


@pytest.mark.slow
def test_a_file_without_a_space_says_how_to_add_one(folder, tmp_path):
    lines = [line for line in KERNEL.splitlines() if not line.startswith("SPACE")]
    bare = tmp_path / "bare.py"
    bare.write_text("\n".join(lines))
    result = RUN.invoke(app, ["rank", str(bare), "--device", "h100", *_model(folder)])
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    assert "1 candidate," in words
    assert "bare.py has no SPACE" in words
    assert 'SPACE = {"BLOCK": [256, 512, 1024]' in words


@pytest.mark.parametrize(
    ("line", "message"),
    [("not json", "line 1: this is not JSON"), ("[1]", "line 1: expected an object")],
)
def test_candidates_that_cannot_be_read(folder, line, message):
    path = folder / "bad.jsonl"
    path.write_text(line + "\n")
    result = run_rank(folder, "--params-file", str(path))
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_store_with_too_few_rows_teaches_nothing(folder):
    result = RUN.invoke(app, ["train", str(folder / "empty"), "--out", str(folder / "m.solkit")])
    assert result.exit_code == 2
    assert not (folder / "m.solkit").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--work", "w"], "--language-depth and --work are for --language"),
        (["--language", "--language-depth", "deep"], "choose from captured, lowered, compiled"),
    ],
)
def test_options_of_the_language_regressor_are_checked_first(folder, options, message):
    out = str(folder / "m.solkit")
    result = RUN.invoke(app, ["train", str(folder / "empty"), "--out", out, *options])
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


@pytest.mark.slow
def test_the_language_regressor_counts_unless_it_is_left_out(folder, tmp_path):
    pytest.importorskip("transformers")
    from dataclasses import replace

    from solkit.surrogate.ensemble import Stack, StackedRegressor
    from solkit.surrogate.language.regressor import LanguageRegressor, Shape

    tiny = Shape(vocabulary=300, width=32, layers=1, decoder={"width": 16, "layers": 1, "heads": 2})
    known_values = table(40)
    params = [f'{{"BLOCK": {n}}}' for n in range(len(known_values))]
    language = LanguageRegressor(shape=tiny, device="cpu")
    language.prepared(replace(known_values, about={**known_values.about, "params": params}))
    trees = Surrogate.load(folder / "it.solkit")
    beside = StackedRegressor(
        language, Stack({"trees": 0.5, "language": 0.5}), trees.trees(Depth.CAPTURED).calibration
    )
    trees.with_language({Depth.CAPTURED: beside}).save(tmp_path / "both.solkit")

    def times(model, *options):
        command = ["rank", str(folder / "double.py"), "--device", "h100", "--depth", "captured"]
        results = RUN.invoke(app, [*command, "--model", str(model), "--json", "-", *options])
        assert results.exit_code == 0, results.output
        (result,) = json.loads(results.stdout)["results"]
        return {str(item["params"]): item["forecast"]["time_ms"] for item in result["ranking"]}

    alone = times(folder / "it.solkit")
    assert times(tmp_path / "both.solkit", "--no-language") == pytest.approx(alone, rel=1e-3)
    assert times(tmp_path / "both.solkit") != pytest.approx(alone, rel=1e-3)
