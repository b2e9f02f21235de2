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
    found = tmp_path_factory.mktemp("rank")
    (found / "double.py").write_text(KERNEL)
    (found / "params.jsonl").write_text('{"BLOCK": 256}\n\n{"BLOCK": 2048, "num_warps": 8}\n')
    Surrogate.fit(dict.fromkeys(Depth, table(400)), CARD, QUICK).save(found / "it.solkit")
    return found


def asked(folder, *options):
    told = RUN.invoke(
        app,
        ["rank", str(folder / "double.py"), "--device", "h100", *options, *_model(folder)],
    )
    return told


def _model(folder):
    return "--model", str(folder / "it.solkit")


@pytest.mark.slow
def test_a_page_explains_the_first(folder, tmp_path):
    pytest.importorskip("jinja2")
    page = tmp_path / "plan.html"
    told = asked(folder, "--depth", "captured", "--html", str(page), "--json", "-")
    assert told.exit_code == 0, told.output
    (result,) = json.loads(told.stdout)["results"]
    first = result["ranking"][0]
    text = page.read_text()
    assert "What moves the forecast of" in text
    assert all(push["words"] in unescape(text) for push in first["explanation"])
    assert not any(push["feature"] in text for push in first["explanation"] if "." in push["words"])
    assert 1 <= sum(bool(each["explanation"]) for each in result["ranking"]) <= 5
    assert asked(folder, "--html", "-").exit_code == 2


@pytest.mark.slow
def test_the_json_is_the_contract(folder):
    told = asked(folder, "--depth", "captured", "--top", "4", "--json", "-")
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    assert found["schema"] == "solkit.rank/1"
    (result,) = found["results"]
    assert result["shape"] == {"N": 1 << 20}
    assert len(result["ranking"]) == 32
    for each in result["ranking"]:
        assert {"file", "entry_point", "params", "depth", "action", "reason"} < set(each)
        assert set(each["forecast"]) == FORECAST
        assert each["depth"] == "captured"
        assert each["action"] in ("measure", "explore", "skip")
        assert each["reason"]
    first = result["ranking"][0]
    assert first["entry_point"] == "kernel"
    assert {"feature", "words", "value", "time_factor"} == set(first["explanation"][0])


@pytest.mark.slow
def test_given_candidates_all_reach_the_depth(folder):
    told = asked(folder, "--params-file", str(folder / "params.jsonl"), "--json", "-")
    (result,) = json.loads(told.stdout)["results"]
    assert sorted(each["params"]["BLOCK"] for each in result["ranking"]) == [256, 2048]
    assert {each["depth"] for each in result["ranking"]} == {"lowered"}


@pytest.mark.slow
def test_the_page_names_what_to_measure(folder):
    told = asked(folder, "--depth", "captured", "--top", "3")
    assert told.exit_code == 0, told.output
    assert "32 candidates" in told.stdout
    rows = [line for line in told.stdout.splitlines() if re.match(r" *\d+ ", line)]
    assert len(rows) == 3  # as many as may be measured, in one order
    places = [int(line.split()[0]) for line in rows]
    assert places == sorted(places)
    assert all("measure" in line or "explore" in line for line in rows)
    assert "It is what you have" in " ".join(told.stdout.split())


@pytest.mark.slow
def test_a_file_without_a_space_says_how_to_add_one(folder, tmp_path):
    lines = [line for line in KERNEL.splitlines() if not line.startswith("SPACE")]
    bare = tmp_path / "bare.py"
    bare.write_text("\n".join(lines))
    told = RUN.invoke(app, ["rank", str(bare), "--device", "h100", *_model(folder)])
    assert told.exit_code == 0, told.output
    words = " ".join(told.stdout.split())
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
    told = asked(folder, "--params-file", str(path))
    assert told.exit_code == 2
    assert message in " ".join(told.stderr.split())


def test_a_store_with_too_few_rows_teaches_nothing(folder):
    told = RUN.invoke(app, ["train", str(folder / "empty"), "--out", str(folder / "m.solkit")])
    assert told.exit_code == 2
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
    told = RUN.invoke(app, ["train", str(folder / "empty"), "--out", out, *options])
    assert told.exit_code == 2
    assert message in " ".join(told.stderr.split())


@pytest.mark.slow
def test_the_language_regressor_counts_unless_it_is_left_out(folder, tmp_path):
    pytest.importorskip("transformers")
    from dataclasses import replace

    from solkit.surrogate.ensemble import Stack, StackedRegressor
    from solkit.surrogate.language.regressor import LanguageRegressor, Shape

    tiny = Shape(vocabulary=300, width=32, layers=1, decoder={"width": 16, "layers": 1, "heads": 2})
    known = table(40)
    params = [f'{{"BLOCK": {n}}}' for n in range(len(known))]
    language = LanguageRegressor(shape=tiny, device="cpu")
    language.prepared(replace(known, about={**known.about, "params": params}))
    trees = Surrogate.load(folder / "it.solkit")
    beside = StackedRegressor(
        language, Stack({"trees": 0.5, "language": 0.5}), trees.trees(Depth.CAPTURED).calibration
    )
    trees.with_language({Depth.CAPTURED: beside}).save(tmp_path / "both.solkit")

    def times(model, *options):
        asked = ["rank", str(folder / "double.py"), "--device", "h100", "--depth", "captured"]
        told = RUN.invoke(app, [*asked, "--model", str(model), "--json", "-", *options])
        assert told.exit_code == 0, told.output
        (result,) = json.loads(told.stdout)["results"]
        return {str(each["params"]): each["forecast"]["time_ms"] for each in result["ranking"]}

    alone = times(folder / "it.solkit")
    assert times(tmp_path / "both.solkit", "--no-language") == pytest.approx(alone, rel=1e-3)
    assert times(tmp_path / "both.solkit") != pytest.approx(alone, rel=1e-3)
