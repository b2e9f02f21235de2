"""``solkit evaluate``, as a user runs it, on a table whose law is known."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("xgboost")

from typer.testing import CliRunner

from solkit.cli import app

sys.path.append(str(Path(__file__).parents[1] / "surrogate"))
from synthetic import CARD, QUICK, inline_pool, table

from solkit.core import Depth
from solkit.surrogate import table as tables
from solkit.surrogate import trees
from solkit.surrogate.evaluation import evaluate
from solkit.surrogate.model import Surrogate

RUN = CliRunner()
POOL = {
    *("spearman_median", "spearman_p10", "regret_top1_mean", "regret_top3_mean"),
    *("regret_top5_mean", "regret_top8_mean", "problems"),
}
MADE = table(400)


@pytest.fixture(autouse=True)
def rows(monkeypatch):
    monkeypatch.setattr(tables, "table_of_stores", lambda *_: MADE)
    monkeypatch.setattr(evaluate, "process_pool", inline_pool)
    few = replace(QUICK, rounds=40)  # trees are as many as the law of the table needs
    monkeypatch.setattr(trees, "Settings", partial(replace, few))
    monkeypatch.setattr(sys.modules["solkit.cli.data"], "open_store", lambda name: name)


def run_evaluate(*options):
    result = RUN.invoke(app, ["evaluate", *options, "--json", "-"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.slow
def test_the_json_is_the_contract():
    result = run_evaluate(
        "--split", "problems", "--split", "families", "--members", "1", "--update", "5"
    )
    assert result["schema"] == "solkit.evaluate/1"
    assert list(result["splits"]) == ["problems", "families"]
    assert set(result["baselines"]) == {
        "kernel_model",
        "knobs",
        "neusight",
        "gp_knobs",
        "nearest",
        "random",
        "noise_ceiling",
    }
    for results in (result["splits"], *result["baselines"].values()):
        for items in results.values():
            assert {"time_error_median", "coverage_90"} < set(items)
            assert set(items["pools"]) == {"problem", "kernel"}
            assert all(set(pool) > POOL for pool in items["pools"].values())
    ours, bare = result["splits"]["families"], result["baselines"]["kernel_model"]["families"]
    assert 0 < ours["time_error_median"] < bare["time_error_median"]
    assert 0.8 < ours["coverage_90"] <= 1
    assert bare["coverage_90"] is None
    assert ours["rows"] == 400
    assert result["after_update"]["points"] == 5
    assert result["after_update"]["splits"]["families"]["rows"] == 400 - 5 * 8


@pytest.mark.slow
def test_a_model_is_tried_as_it_is(tmp_path):
    Surrogate.fit(dict.fromkeys(Depth, table(400, seed=1)), CARD, QUICK).save(tmp_path / "m.solkit")
    result = run_evaluate("--model", str(tmp_path / "m.solkit"))
    assert list(result["splits"]) == ["all"]
    bare = result["baselines"]["kernel_model"]["all"]
    assert result["splits"]["all"]["time_error_median"] < bare["time_error_median"]
    assert result["members"] is None


def test_a_model_and_a_split_exclude_each_other():
    result = RUN.invoke(app, ["evaluate", "--model", "shipped", "--split", "kinds"])
    assert result.exit_code == 2
    assert "--model shipped and --split: give only one" in " ".join(result.output.split())


@pytest.mark.slow
def test_figures_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    options = "--members", "1", "--no-baselines", "--plots", str(tmp_path / "plots")
    result = RUN.invoke(app, ["evaluate", *options])
    assert result.exit_code == 0, result.output
    assert "left out: families; compiled" in result.output
    assert "One model in place of an ensemble" in " ".join(result.output.split())
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    assert names == {
        *("families-truth.png", "families-coverage.png"),
        *("families-regret-problem.png", "families-regret-kernel.png"),
    }
    assert all((tmp_path / "plots" / name).read_bytes()[:4] == b"\x89PNG" for name in names)


@pytest.mark.slow
def test_the_language_regressor_is_shown_alone_and_stacked(monkeypatch):
    from solkit.surrogate.ensemble import RegressorSettings
    from solkit.surrogate.trees import log2_target

    class Knows:
        def forecast(self, rows, _tell):
            return type("Told", (), {"mean": log2_target(rows)})

    monkeypatch.setattr(RegressorSettings, "train_regressor", lambda *_: Knows())
    result = run_evaluate("--split", "families", "--members", "1", "--no-baselines", "--language")
    assert list(result["baselines"]) == ["language", "stacked"]
    errors = [
        item["families"]["time_error_median"]
        for item in (
            result["splits"],
            result["baselines"]["stacked"],
            result["baselines"]["language"],
        )
    ]
    assert errors[2] == pytest.approx(0, abs=1e-6)
    assert errors[1] < 0.01 < errors[0]


@pytest.mark.parametrize("options", [["--work", "w"], ["--language", "--model", "shipped"]])
def test_what_does_not_go_with_the_language_regressor(options):
    result = RUN.invoke(app, ["evaluate", *options])
    assert result.exit_code == 2
    assert "--language" in result.stderr


def test_public_timings_are_forecast_and_nothing_is_trained(tmp_path):
    """An addition to 8 Mi floats moves 67.1 MB: 20 µs at 3.35 TB/s, half of the reported time."""
    (tmp_path / "addition.py").write_text(
        "import torch\ndef reference(x):\n    return x + 1\n"
        'def inputs(M=8192, device="cuda"):\n    return torch.randn(M, 1024, device=device)\n'
    )
    table = tmp_path / "times.csv"
    table.write_text("problem,device,M,time_us\naddition,h100-sxm,8192,40.06\n")
    result = run_evaluate("--on", str(table), "--problems", str(tmp_path))
    assert result["schema"] == "solkit.evaluate/1"
    assert result["splits"] == {}  # no kernel is known that could be forecast
    every, addition = result["on"]["groups"]
    assert (every["family"], addition["family"]) == (None, "addition")
    assert every["gap_median"] == pytest.approx(2.0, rel=1e-3)
    assert every["surrogate"]["time_error_median"] is None
    assert result["on"]["not_rebuilt"] == {"the file does not say what was launched": 1}


def test_public_timings_exclude_what_trains(tmp_path):
    (tmp_path / "times.csv").write_text("problem,device,time_us\na,h100,1\n")
    on = "--on", str(tmp_path / "times.csv")
    result = RUN.invoke(app, ["evaluate", *on, "--split", "kinds"])
    assert result.exit_code == 2
    assert "--on and --split: give only one" in " ".join(result.output.split())
    result = RUN.invoke(app, ["evaluate", "--problems", str(tmp_path)])
    assert "--problems and --device are for --on" in " ".join(result.output.split())


@pytest.mark.slow
def test_a_kernel_of_a_public_row_is_forecast(tmp_path):
    """Liger-Kernel's squared ReLU of 4,096 rows of 4,096 bf16: 67.1 MB, 20 µs on an H100."""
    pytest.importorskip("liger_kernel")
    config = '"{""M"": 4096, ""dtype"": ""torch.bfloat16""}"'
    heading = "kernel_name,kernel_provider,kernel_operation_mode,metric_name,metric_unit,x_name,"
    heading += "x_label,x_value,y_value_50,extra_benchmark_config_str,gpu_name"
    row = f"relu_squared,liger,forward,speed,ms,N,size,4096,0.03,{config},NVIDIA H100 80GB HBM3"
    (tmp_path / "data.csv").write_text(f"{heading}\n{row}\n")
    result = run_evaluate("--on", str(tmp_path / "data.csv"), "--depth", "captured")
    (every, _) = result["on"]["groups"]
    assert every["gap_median"] == pytest.approx(1.5, rel=2e-3)
    assert every["surrogate"]["rows"] == 1
    assert 0.3 < every["surrogate"]["ratio_median"] < 6
    assert result["splits"]["on"]["rows"] == 1
    assert list(result["baselines"]) == ["kernel_model", "random"]
