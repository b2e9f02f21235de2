from __future__ import annotations

import json

import pytest
from tuned_moe import BEST, tuned
from tuning_rows import SHAPE, row

from solkit.core import Difference, Final, Ratio, Stopped, TimedParams, Tuned, TuneVerdict
from solkit.datasets.outcomelog import OutcomeLog
from solkit.datasets.store import Store
from solkit.errors import InputError
from solkit.report import tuning as tune_report
from solkit.tuner.emitters import (
    EMITTERS,
    Target,
    emit,
    emitter_named,
    logged_results,
    parse_target,
)
from solkit.tuner.tuning_results import decision_row, results_of_runs

NAMES = {
    "vllm-moe", "vllm-fp8", "sglang-moe", "sglang-fp8", "triton-autotune", "best-config",
    "flashinfer-bench",
}  # fmt: skip


def result(log=None, params=None):
    """What `solkit tune` gives."""
    params = params or {"B": 256}
    return Tuned(
        "softmax.py", "k", row({}, 1.0).problem_id, SHAPE, "h100-sxm", 0.25,
        TimedParams({"B": 64}, 1.0), TimedParams(params, 0.8, 0.79, 0.81), TuneVerdict.FASTER,
        Final(params, Difference.FASTER, Ratio(0.8, 0.75, 0.84, 0.004, 9), "turns"), 4, 1, 2.5, 1.0,
        Stopped.BUDGET, environment={"triton": "3.6.0"}, log=log,
    )  # fmt: skip


def test_there_is_an_emitter_for_each_format_of_the_issue():
    assert EMITTERS.keys() == NAMES
    assert emitter_named("best_config") is EMITTERS["best-config"]
    with pytest.raises(InputError, match="unknown format 'toml'; choose one of: vllm-moe"):
        emitter_named("toml")


def test_a_target_is_a_format_and_a_path():
    assert parse_target("best_config:/a/b:c.json") == Target("best-config", "/a/b:c.json")
    for text in ("best-config", ":b.json", "best-config:"):
        with pytest.raises(InputError, match="is not FORMAT:PATH"):
            parse_target(text)
    with pytest.raises(InputError, match="unknown format"):
        parse_target("toml:b.toml")


@pytest.mark.parametrize("form", sorted(NAMES - {"flashinfer-bench"}))
def test_a_file_holds_one_kernel(tmp_path, form):
    both = [*tuned({4: {16: 1.0}}), *tuned({4: {16: 1.0}}, kernel="other")]
    with pytest.raises(InputError, match="holds one kernel, and there are 2"):
        emit(both, form, tmp_path / "out")


@pytest.mark.parametrize("form", sorted(NAMES))
def test_nothing_found_is_an_error(tmp_path, form):
    with pytest.raises(InputError, match="no parameters to write"):
        emit([], form, tmp_path / "out")


def test_runs_that_disagree_are_told(tmp_path):
    rows = []
    for run, place, block, time_ms in (("one", 0, 2, 0.8), ("two", 10, 4, 0.5)):
        first = row({"B": 1}, 1.0, place, run=run, chosen_by="default")
        best = row({"B": block}, time_ms, place + 1, run=run)
        ratio = Ratio(time_ms, time_ms, time_ms, 0.004, 9)
        won = Final({"B": block}, Difference.FASTER, ratio, "turns")
        rows += [first, best, decision_row(best, first, won)]
    written = emit(results_of_runs(rows), "best-config", tmp_path / "b.json")
    (entry,) = json.loads((tmp_path / "b.json").read_text())["configs"]
    assert entry["params"] == {"B": 4}
    assert "runs chose different parameters: run one of 20" in written.notes[0]


def test_a_file_that_is_there_is_replaced_and_a_log_is_not(tmp_path, moe):
    path = tmp_path / "best.json"
    path.write_text("old")
    emit(moe, "best-config", path)
    assert json.loads(path.read_text())["schema"] == "solkit.best_config/1"
    with OutcomeLog(tmp_path / "log.json") as log:
        log.append([row({"B": 1}, 1.0)])
    with pytest.raises(InputError, match="is a log, whose measurements are never overwritten"):
        emit(moe, "best-config", log.path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.json", "log.json"]


def test_destinations_that_cannot_be(tmp_path, moe):
    with pytest.raises(InputError, match="is a folder; name a file"):
        emit(moe, "best-config", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        emit(moe, "vllm-moe", tmp_path / "file" / "deeper")


def test_a_json_file_can_be_named_for_vllm_and_what_it_looks_for_is_told(tmp_path, moe):
    written = emit(moe, "vllm-moe", tmp_path / "moe.json")
    assert written.paths == (tmp_path / "moe.json",)
    assert "looks for the name E=8,N=7168,device_name=NVIDIA_H200.json" in written.notes[0]
    two = [*tuned({4: {16: 1.0}}, device="a", device_name="A"), *tuned({8: {16: 1.0}})]
    with pytest.raises(InputError, match="is one file, and 2 are needed"):
        emit(two, "vllm-moe", tmp_path / "moe.json")


def test_a_gpu_without_a_recorded_name_has_the_drivers_name(tmp_path):
    result = tuned({4: {16: 1.0}}, device_name=None)
    (path,) = emit(result, "vllm-moe", tmp_path).paths
    assert "device_name=NVIDIA_H200.json" in path.name
    result = tuned({4: {16: 1.0}}, device_name=None, device="h100-sxm")
    (path,) = emit(result, "sglang-moe", tmp_path).paths
    assert "device_name=NVIDIA_H100_80GB_HBM3.json" in path.name


# ------------------------------------------------------------------------------------- reading


def test_a_result_of_tune_can_be_emitted(tmp_path):
    emit([result()], "best-config", tmp_path / "b.json")
    (entry,) = json.loads((tmp_path / "b.json").read_text())["configs"]
    assert entry["params"] == {"B": 256}
    assert entry["verdict"] == "faster"


def test_the_json_of_tune_says_the_same(tmp_path):
    (tmp_path / "tune.json").write_text(tune_report.dumps(result()))
    (results,) = logged_results.read_results(tmp_path / "tune.json")
    assert results.chosen == TimedParams({"B": 256}, 0.8, 0.79, 0.81)
    assert results.ratio.value == pytest.approx(0.8)
    assert (results.ratio.low, results.ratio.high) == pytest.approx((0.75, 0.84))
    assert results.key.triton_version == "3.6.0"
    assert (results.kernel, results.shape) == ("softmax.py", SHAPE)


def test_its_log_adds_what_else_was_timed_and_the_gpus_own_name(tmp_path):
    with OutcomeLog(tmp_path / "run.jsonl") as log:
        log.append([row({"B": 64}, 1.0), row({"B": 128}, 0.9)])
    (tmp_path / "tune.json").write_text(tune_report.dumps(result(str(log.path))))
    (results,) = logged_results.read_results(tmp_path / "tune.json")
    assert sorted(time.time_ms for time in results.times.values()) == [0.8, 0.9, 1.0]
    assert results.row.device_name == "NVIDIA H100 80GB HBM3"
    log.path.unlink()
    (results,) = logged_results.read_results(tmp_path / "tune.json")
    assert len(results.times) == 2


def test_logs_stores_and_other_tools_files_are_read(tmp_path, moe):
    with OutcomeLog(tmp_path / "run.jsonl") as log:
        rows = log.append([row({"B": 64}, 1.0), row({"B": 128}, 0.9)])
    Store(tmp_path / "db", create=True).add(rows)
    for source in ("run.jsonl", "db"):
        (result,) = logged_results.read_results(tmp_path / source)
        assert result.chosen.params == {"B": 128}
    (path,) = emit(moe, "vllm-moe", tmp_path).paths
    assert next(item.chosen.params for item in logged_results.read_results(path)) == BEST


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nothing.json does not exist"):
        logged_results.read_results(tmp_path / "nothing.json")
    data = json.loads(tune_report.dumps(result()))
    del data["verdict"]
    (tmp_path / "tune.json").write_text(json.dumps(data))
    with pytest.raises(InputError, match=r"cannot be read as solkit.tune/1: 'verdict' is missing"):
        logged_results.read_results(tmp_path / "tune.json")
    assert results_of_runs([]) == ()
