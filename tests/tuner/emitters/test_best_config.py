from __future__ import annotations

import json

import pytest
from tuned_moe import BEST, tuned
from tuning_rows import row

from solkit.core import Difference, Final, Ratio
from solkit.errors import InputError
from solkit.tuner.emitters import best_config, emit
from solkit.tuner.tuning_results import decision_row, results_of_runs


@pytest.fixture
def path(tmp_path, moe):
    (written,) = emit(moe, "best-config", tmp_path / "best_config.json").paths
    return written


def test_a_shape_gets_its_parameters_back(path):
    for m, block in ((1, 16), (32, 32), (1024, 128)):
        assert best_config.read_best_configs(path, [{"M": m}]) == {**BEST, "BLOCK_SIZE_M": block}
    assert best_config.read_best_configs(path, [{"M": 1, "E": 8}], "h200")["BLOCK_SIZE_M"] == 16


def test_shapes_with_different_parameters_need_a_choice(path):
    with pytest.raises(InputError, match=r"has 3 choices of parameters: give --shape, one of: M=1"):
        best_config.read_best_configs(path)
    with pytest.raises(InputError, match="no parameters for M=2; it has: M=1, E=8"):
        best_config.read_best_configs(path, [{"M": 2}])


def test_one_choice_for_all_shapes_needs_none(tmp_path):
    path = tmp_path / "best.json"
    emit(tuned({m: {16: 1.0, 32: 2.0} for m in (1, 2)}), "best-config", path)
    assert best_config.read_best_configs(path) == BEST


def test_entries_of_the_gpu_go_first(tmp_path):
    h100 = tuned({4: {32: 1.0}}, device="h100-sxm", device_name="NVIDIA H100 80GB HBM3")
    emit([*h100, *tuned({4: {16: 1.0}})], "best-config", tmp_path / "best.json")
    for device, block in (("h200", 16), ("h100-sxm", 32)):
        best_configs = best_config.read_best_configs(tmp_path / "best.json", device=device)
        assert best_configs["BLOCK_SIZE_M"] == block
    with pytest.raises(InputError, match="2 choices"):
        best_config.read_best_configs(tmp_path / "best.json", device="a100-sxm-80gb")


def test_an_entry_says_what_it_rests_on(tmp_path):
    first, best = row({"B": 1}, 1.0, chosen_by="default"), row({"B": 2}, 0.5, 1, max_error=1e-3)
    won = Final({"B": 2}, Difference.FASTER, Ratio(0.5, 0.4, 0.6, 0.004, 9), "turns")
    emit(
        results_of_runs([first, best, decision_row(best, first, won)]),
        "best-config",
        tmp_path / "b.json",
    )
    (entry,) = json.loads((tmp_path / "b.json").read_text())["configs"]
    assert entry["params"] == {"B": 2}
    assert entry["verdict"] == "faster"
    assert entry["ratio"]["high"] == 0.6
    assert entry["in_use"] == {"params": {"B": 1}, "time_ms": 1.0, "low_ms": 1.0, "high_ms": 1.0}
    assert entry["versions"]["driver"] == "580.95"
    assert (entry["measured"], entry["gpu_s"], entry["clock_mhz"]) == (2, 1.0, 1980.0)


def test_without_a_confirmed_win_it_holds_what_was_in_use(tmp_path):
    rows = [row({"B": 1}, 1.0, chosen_by="default"), row({"B": 2}, 0.5, 1)]
    emit(results_of_runs(rows), "best-config", tmp_path / "b.json")
    (entry,) = json.loads((tmp_path / "b.json").read_text())["configs"]
    assert (entry["params"], entry["verdict"]) == ({"B": 1}, "unconfirmed")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "cannot read"),
        ("[]", "not a best_config.json: schema is None"),
        ('{"schema": "solkit.best_config/1", "configs": []}', "holds no configs"),
        ('{"schema": "solkit.best_config/1", "configs": [{"shape": {}}]}', r"configs\[0\] lacks"),
        (
            '{"schema": "solkit.best_config/1",'
            ' "configs": [{"shape": [], "params": {}, "device": ""}]}',
            "must be objects",
        ),
    ],
)
def test_what_is_no_best_config_is_refused(tmp_path, text, why):
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(InputError, match=why):
        best_config.read_best_configs(tmp_path / "b.json")


def test_other_names_are_refused(tmp_path, moe):
    with pytest.raises(InputError, match="takes no --map"):
        emit(moe, "best-config", tmp_path / "b.json", drop=["M"])
