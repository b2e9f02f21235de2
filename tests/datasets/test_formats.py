"""Each format's sample is made up here, in the form that the real tool writes."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from solkit.core import Verdict, canonical
from solkit.datasets import formats, outcomelog
from solkit.datasets.formats import FORMATS, Labels, t4
from solkit.datasets.formats._base import Document
from solkit.errors import InputError

H100 = Labels(device="h100-sxm")
REAL_T4 = Path(os.environ.get("SOLKIT_T4_FILE", "none"))

KERNEL_TUNER = {
    "schema_version": "1.1.0",
    "device_name": "NVIDIA A100-PCIE-40GB",
    "kernel_name": "convolution_kernel",
    "problem_size": [4096, 2048],
    "tune_params_keys": ["block_size_x", "use_shmem"],
    "tune_params": {"block_size_x": [16, 32], "use_shmem": [0, 1]},
    "objective": "time",
    "cache": {
        "16,0": {
            "block_size_x": 16, "use_shmem": 0, "time": 3.5, "times": [3.5, 3.25, 3.75],
            "compile_time": 900.0, "verification_time": 0, "benchmark_time": 120.5,
            "GFLOP/s": 1948.5, "strategy_time": 0, "framework_time": 1.5,
            "timestamp": "2023-12-22 09:54:05.502007+00:00",
        },
        "16,1": {
            "block_size_x": 16, "use_shmem": 1, "time": "RuntimeFailedConfig",
            "compile_time": 800.0, "timestamp": "2023-12-22 09:54:06+00:00",
        },
        "32,0": {"block_size_x": 32, "use_shmem": 0, "time": "CompilationFailedConfig"},
        "32,1": {"block_size_x": 32, "use_shmem": 1, "time": 1e20},
    },
}  # fmt: skip

T4 = {
    "metadata": {"timeunit": "milliseconds"},
    "schema_version": "1.0.0",
    "results": [
        {
            "timestamp": "2023-12-22 09:54:05.502007+00:00",
            "configuration": {"block_size_x": 16, "mode": "fast"},
            "times": {
                "compilation": 918.5990339610726, "framework": 105.25, "search_algorithm": 0,
                "validation": 0, "runtimes": [3.976191997528076, 3.8789119720458984],
            },
            "invalidity": "correct",
            "correctness": 1,
            "measurements": [
                {"name": "time", "value": 3.8753279224038124, "unit": ""},
                {"name": "GFLOP/s", "value": 1948.156, "unit": ""},
            ],
            "objectives": ["time"],
        },
        {
            "timestamp": "2023-12-22 10:33:52.030910+00:00",
            "configuration": {"block_size_x": 32, "mode": "fast"},
            "times": {"compilation": 3055.960983969271, "framework": 2.0},
            "invalidity": "runtime",
            "correctness": 0,
            "measurements": [{"name": "time", "value": "RuntimeFailedConfig", "unit": ""}],
            "objectives": ["time"],
        },
        *(
            {"timestamp": "2023-12-22 10:33:53.500000+00:00", "configuration": {"block_size_x": n},
             "times": {}, "invalidity": invalidity, "correctness": 0, "measurements": [],
             "objectives": ["time"]}
            for n, invalidity in enumerate(["compile", "timeout", "correctness", "constraints"])
        ),
    ],
}  # fmt: skip

AUTOTUNE_JSON = {
    "key": [4096, 1000, "torch.float16", "torch.float32"],
    "configs_timings": [
        [{"kwargs": {"BLOCK": 64, "FAST": True}, "num_warps": 4, "num_ctas": 1, "num_stages": 3,
          "maxnreg": None, "pre_hook": None, "ir_override": None}, [0.5, 0.4375, 0.625]],
        [{"kwargs": {"BLOCK": 128, "FAST": True}, "num_warps": 8, "num_ctas": 1, "num_stages": 3,
          "maxnreg": 128, "pre_hook": None}, [float("inf")] * 3],
        [{"num_warps": 8}, [0.5]],
    ],
}  # fmt: skip

_REST = "num_ctas: 1, num_stages: 2, maxnreg: None"
AUTOTUNE_LOG = f"""\
something else
Autotuning kernel matmul with config BLOCK: 64, HINT: a, b, num_warps: 4, {_REST}
Autotuning kernel matmul with config BLOCK: 128, HINT: none, num_warps: 8, {_REST}
Autotuning failed with out of resource: shared memory
Triton autotuning for function matmul,
with key as (4096, 'torch.float16'),
finished after 1.25s,
best config selected: BLOCK: 64, HINT: a, b, num_warps: 4, {_REST};
Triton autotuning for function softmax finished after 0.50s; best config selected: num_warps: 1;
Triton autotuning for function norm,
with key as (8,),
finished after 0.50s,
best config selected: BLOCK: 32, num_warps: 1, maxnreg: None;
"""
AUTOTUNE_OPEN = """\
Autotuning kernel scan with config num_warps: 2
Autotuning kernel scan with config num_warps: 4
"""
AUTOTUNE_END = """\
Triton autotuning for function scan,
with key as (512,),
finished after 0.50s,
best config selected: num_warps: 4;
"""

HELION_OLD = """\
timestamp_s,config_index,generation,status,perf_ms,compile_time_s,config
0.10,1,0,started,,,"Config(block_sizes=[32, 32], num_warps=4, indexing='pointer')"
0.50,1,0,ok,1.25,0.40,"Config(block_sizes=[32, 32], num_warps=4, indexing='pointer')"
0.70,2,0,timeout,,,"Config(block_sizes=[64, 32], num_warps=8, indexing='pointer')"
0.80,3,1,error,,0.10,"helion.Config(block_sizes=[64, 64])"
0.90,4,1,ok,0.5,0.10,"os.system('x')"
"""

HELION_NEW = """\
run_id,kernel_id,sample_id,timestamp_s,config_index,generation,status,perf_ms,compile_time_s,decorator,config
r1,k1,s1,0.50,1,0,ok,1.250000,0.40,"@helion.kernel(config=...)","Config(block_sizes=[32])"
"""
HELION_META = {
    "run_id": "r1", "kernel_name": "add", "kernel_source": "def add(): ...", "dtypes": "f32",
    "input_shapes": "(4096,)",
    "hardware_info": {"device_name": "NVIDIA H200", "versions": {"torch": "2.13", "cuda": "13.0"}},
}  # fmt: skip


def bench_trace(status, performance=None, correctness=None, **environment):
    return {
        "definition": "gemm_n4096",
        "solution": "triton_v1",
        "workload": {"axes": {"M": 256}, "inputs": {"A": {"type": "random"}}, "uuid": "u"},
        "evaluation": {
            "status": status, "log": "told", "correctness": correctness,
            "performance": performance, "timestamp": "2025-07-22T12:54:53.121350",
            "environment": {"libs": {"torch": "2.7.1", "triton": "3.3.1"}, **environment},
        },
    }  # fmt: skip


PERFORMANCE = {"latency_ms": 0.5, "reference_latency_ms": 0.25, "speedup_factor": 0.5}
ERRORS = {"max_relative_error": 0.5, "max_absolute_error": 0.125}

KERNELBENCH = {
    "23": [
        {"sample_id": 0, "compiled": True, "correctness": True, "runtime": 1.5,
         "metadata": {"hardware": "NVIDIA H100 80GB HBM3", "device": "cuda:0"},
         "runtime_stats": {"mean": 1.5, "std": 0.01, "num_trials": 100}},
        {"sample_id": 1, "compiled": True, "correctness": False, "runtime": -1.0,
         "metadata": {"hardware": "NVIDIA H100 80GB HBM3", "correctness_issue": "off"},
         "runtime_stats": {}},
    ],
    "24": {"compiled": True, "correctness": False, "runtime": -1.0,
           "metadata": {"hardware": "NVIDIA H100 80GB HBM3", "runtime_error": "boom"}},
    "25": [{"sample_id": 0, "compiled": False, "correctness": False, "runtime": -1.0,
            "metadata": {"hardware": "NVIDIA H100 80GB HBM3", "compilation_error": "no"}}],
}  # fmt: skip

TUNED = {
    "triton_version": "3.4.0",
    "1": {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "num_warps": 4, "num_stages": 5},
    "4096": {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 128, "num_warps": 8, "num_stages": 3},
}


def written(path, result):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(result if isinstance(result, str) else json.dumps(result), encoding="utf-8")
    return path


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def test_kernel_tuner_caches(tmp_path):
    result = formats.read(written(tmp_path / "cache.json", KERNEL_TUNER))
    assert result.faults == ()
    first, crashed, uncompiled, old = result.rows
    assert (first.family, first.device) == ("convolution_kernel", "NVIDIA A100-PCIE-40GB")
    assert first.problem_id == "convolution_kernel/x=4096,y=2048"
    assert first.params == {"block_size_x": 16, "use_shmem": 0}
    assert (first.time_ms, first.samples_ms, first.compile_s) == (3.5, (3.5, 3.25, 3.75), 0.9)
    assert first.created == datetime(2023, 12, 22, 9, 54, 5, 502007, timezone.utc)
    assert first.extra["GFLOP/s"] == 1948.5
    verdicts = [row.verdict for row in (first, crashed, uncompiled, old)]
    assert verdicts == [
        Verdict.CORRECT, Verdict.CRASHED, Verdict.DOES_NOT_COMPILE, Verdict.CRASHED,
    ]  # fmt: skip
    assert all(row.time_ms is None for row in (crashed, uncompiled, old))


def test_a_kernel_tuner_cache_that_is_still_being_written(tmp_path):
    text = json.dumps(KERNEL_TUNER).removesuffix("}}") + ",\n"
    whole = formats.read(written(tmp_path / "whole.json", KERNEL_TUNER))
    assert len(formats.read(written(tmp_path / "open.json", text)).rows) == len(whole.rows) == 4


@pytest.mark.parametrize("nested", [3.5, {"a": [1, "}"]}])
def test_a_kernel_tuner_cache_that_was_cut_in_an_entry_loses_that_one(tmp_path, nested):
    cache = {name: {**entry, "x": nested} for name, entry in KERNEL_TUNER["cache"].items()}
    text = json.dumps({**KERNEL_TUNER, "cache": cache})
    start = text.index('"32,1"')
    whole = formats.read(written(tmp_path / "whole.json", json.loads(text))).rows
    for end in range(start + 1, len(text) - 2):  # the last that lacks a bracket of that entry
        path = written(tmp_path / "cut.json", text[:end])
        result = formats.read(path)
        assert tuple(row.params for row in result.rows) == tuple(row.params for row in whole[:3])
        (fault,) = result.faults
        assert fault.startswith(f"{path}: ")
        assert fault.endswith("is cut off or damaged")
    with pytest.raises(InputError, match="is cut off before its first entry"):
        formats.read(written(tmp_path / "head.json", text[: text.index('"cache"')]))


def five_entries():
    more = {"48,0": {"block_size_x": 48, "use_shmem": 0, "time": 2.5}}
    return json.dumps({**KERNEL_TUNER, "cache": {**KERNEL_TUNER["cache"], **more}})


SECOND = 'Config", "compile_time": 800.0, "timestamp": "2023-12-22 09:54:06+00:00"}, '


@pytest.mark.parametrize(
    ("damaged", "lost"),
    [
        ("\0" + SECOND[1:], "16,1"),
        (SECOND.replace("}", "\0"), "16,1"),
        (SECOND.replace("}", ""), "16,1"),  # it swallows those that follow
        (SECOND.replace("}", ', "x": {"a": 1}, "b": \0}'), "16,1"),  # what is in it is no entry
        (SECOND.replace(", ", ", \0", 1), "16,1"),
        (SECOND.replace('"timestamp"', '"timestamp'), "16,1"),
        (SECOND.replace("}, ", "}, \0"), None),  # between two
    ],
)
def test_damage_within_a_kernel_tuner_cache_costs_what_is_damaged_alone(tmp_path, damaged, lost):
    text = five_entries()
    assert text.count(SECOND) == 1
    whole = formats.read(written(tmp_path / "whole.json", text)).rows
    kept = [row for row in whole if lost != "{block_size_x},{use_shmem}".format(**row.params)]
    assert len(kept) == (5 if lost is None else 4)
    for still_open in (text.removesuffix("}}"), text):
        path = written(tmp_path / "damaged.json", still_open.replace(SECOND, damaged))
        result = formats.read(path)
        assert names(result.rows) == names(kept)
        (fault,) = result.faults
        assert fault.startswith(f"{path}: ")
        assert fault.endswith("is cut off or damaged")


def test_t4_comes_back_as_it_was(tmp_path):
    path = tmp_path / "convolution.T4.json.gz"
    path.write_bytes(gzip.compress(json.dumps(T4).encode()))
    result = formats.read(path, labels=H100)
    assert [row.verdict for row in result.rows] == [
        Verdict.CORRECT, Verdict.CRASHED, Verdict.DOES_NOT_COMPILE, Verdict.TIMED_OUT,
        Verdict.WRONG, Verdict.NOT_MEASURED,
    ]  # fmt: skip
    assert result.rows[0].time_ms == 3.8753279224038124
    assert result.rows[0].family == "convolution"
    assert_same_t4(json.loads(t4.dumps(result.rows)), T4)


def test_t4_comes_back_through_a_store(tmp_path):
    pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    from solkit.datasets.store import Store

    inputs = Document(REAL_T4).json if REAL_T4.is_file() else T4
    store = Store(tmp_path / "store", create=True)
    store.add(formats.read(written(tmp_path / "x.json", inputs), labels=H100).rows)
    data = json.loads(t4.dumps(store.rows()))
    assert_same_t4(by_configuration(data), by_configuration(inputs))  # a store has its own order


def by_configuration(result):
    return {
        **result,
        "results": sorted(result["results"], key=lambda item: canonical(item["configuration"])),
    }


def assert_same_t4(got, want):
    """Equal, but for the last digit of seconds that were milliseconds."""
    assert got.keys() == want.keys()
    assert [got[name] for name in got if name != "results"] == [
        want[name] for name in got if name != "results"
    ]
    for one, other in zip(got["results"], want["results"], strict=True):
        fields, expected = dict(one["times"]), dict(other["times"])
        assert fields.pop("compilation", 0) == pytest.approx(expected.pop("compilation", 0), 1e-15)
        stamps = [
            datetime.fromisoformat(item["timestamp"].ljust(32, " ")[:19]) for item in (one, other)
        ]
        assert stamps[0] == stamps[1]
        assert {**one, "times": fields, "timestamp": ""} == {
            **other, "times": expected, "timestamp": "",
        }  # fmt: skip


def test_other_rows_as_t4(tmp_path):
    result = formats.read(written(tmp_path / "cache.json", KERNEL_TUNER))
    data = json.loads(t4.dumps(result.rows))
    assert data["schema_version"] == "1.0.0"
    assert [item["invalidity"] for item in data["results"]] == [
        "correct", "runtime", "compile", "runtime",
    ]  # fmt: skip
    first = data["results"][0]
    assert first["measurements"] == [{"name": "time", "value": 3.5, "unit": "ms"}]
    assert first["times"] == {"compilation": 900.0, "runtimes": [3.5, 3.25, 3.75]}
    assert (first["correctness"], data["results"][1]["correctness"]) == (1, 0)


@pytest.mark.parametrize(
    ("verdict", "invalidity"),
    [
        ("correct", "correct"),
        ("beats_algorithm", "correct"),
        ("wrong", "correctness"),
        ("cheating", "correctness"),
        ("impossible", "correctness"),
        ("degenerate_problem", "correctness"),
        ("does_not_compile", "compile"),
        ("crashed", "runtime"),
        ("out_of_memory", "runtime"),
        ("unstable", "runtime"),
        ("timed_out", "timeout"),
        ("not_measured", "correct"),  # timed by a tool that checks no results
    ],
)
def test_only_a_time_that_counts_is_a_time_to_t4(tmp_path, verdict, invalidity):
    row = formats.read(written(tmp_path / "cache.json", KERNEL_TUNER)).rows[0]
    text = t4.dumps([replace(row, origin="triton_autotune", verdict=Verdict(verdict))])
    (result,) = json.loads(text)["results"]
    assert (result["invalidity"], result["correctness"]) == (invalidity, invalidity == "correct")
    value = 3.5 if invalidity == "correct" else verdict
    assert result["measurements"] == [{"name": "time", "value": value, "unit": "ms"}]


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_has_a_place_in_t4(tmp_path, verdict):
    row = formats.read(written(tmp_path / "cache.json", KERNEL_TUNER)).rows[0]
    (result,) = json.loads(t4.dumps([replace(row, verdict=verdict, time_ms=None)]))["results"]
    (measured,) = result["measurements"]
    assert measured["value"] == verdict.value
    schema = {"timeout", "compile", "runtime", "correctness", "constraints", "correct"}
    assert result["invalidity"] in schema


def test_t4_is_told_of_no_configuration_that_nothing_was_found_out_about(tmp_path):
    excluded = {"block_size_x": 99, "use_shmem": 1, "time": "InvalidConfig"}
    cache = {**KERNEL_TUNER["cache"], "99,1": excluded}
    rows = formats.read(written(tmp_path / "cache.json", {**KERNEL_TUNER, "cache": cache})).rows
    failed = replace(
        rows[0], origin="zoo", verdict=Verdict.NOT_MEASURED, time_ms=None, samples_ms=(),
        message="OSError: No space left on device",
    )  # fmt: skip
    untimed = formats.read(written(tmp_path / "out.txt", AUTOTUNE_LOG), labels=H100).rows
    results = json.loads(t4.dumps([failed, *untimed, rows[-1]]))["results"]
    assert [(result["configuration"], result["invalidity"]) for result in results] == [
        ({"BLOCK": 128, "HINT": "none", "num_warps": 8, "num_ctas": 1, "num_stages": 2}, "compile"),
        ({"block_size_x": 99, "use_shmem": 1}, "constraints"),
    ]


def test_what_t4_calls_excluded_stays_so_though_it_has_a_time(tmp_path):
    result = {**T4["results"][-1], "measurements": [{"name": "time", "value": 1e9, "unit": ""}]}
    results = formats.read(written(tmp_path / "a.json", {**T4, "results": [result]}), labels=H100)
    (again,) = json.loads(t4.dumps(results.rows))["results"]
    assert (again["invalidity"], again["measurements"]) == ("constraints", result["measurements"])


def test_tritons_autotune_cache(tmp_path):
    path = written(tmp_path / "matmul.autotune.json", AUTOTUNE_JSON)
    result = formats.read(path, labels=Labels("h200", "gemm", "matmul"))
    best, failed = result.rows
    assert (best.family, best.kind, best.device) == ("gemm", "matmul", "h200")
    assert (best.entry_point, best.dtypes) == ("matmul", ("float16", "float32"))
    assert best.shape == {"key0": 4096, "key1": 1000}
    assert best.params == {
        "BLOCK": 64, "FAST": True, "num_warps": 4, "num_ctas": 1, "num_stages": 3,
    }  # fmt: skip
    assert (best.time_ms, best.verdict) == (0.5, Verdict.NOT_MEASURED)
    assert "checks no results" in best.message
    assert best.extra == {"quantiles_ms": [0.5, 0.4375, 0.625]}
    assert (failed.time_ms, failed.verdict) == (None, Verdict.DOES_NOT_COMPILE)
    assert failed.params["maxnreg"] == 128
    assert result.faults == (f"{path}: config 2: 'kwargs' is missing",)


def test_tritons_autotune_log(tmp_path):
    result = formats.read(written(tmp_path / "out.txt", AUTOTUNE_LOG), labels=H100)
    best, failed, softmax, norm = result.rows
    assert best.params == {
        "BLOCK": 64, "HINT": "a, b", "num_warps": 4, "num_ctas": 1, "num_stages": 2,
    }  # fmt: skip
    assert (best.chosen_by, best.verdict) == ("tuned", Verdict.NOT_MEASURED)
    assert (best.shape, best.dtypes) == ({"key0": 4096}, ("float16",))
    assert (failed.chosen_by, failed.verdict) == ("exhaustive", Verdict.DOES_NOT_COMPILE)
    assert failed.message == "out of resource: shared memory"
    assert (softmax.family, softmax.params) == ("softmax", {"num_warps": 1})
    assert (norm.family, norm.shape, norm.chosen_by) == ("norm", {"key0": 8}, "tuned")
    assert {row.time_ms for row in result.rows} == {None}
    assert result.faults == ()


def test_a_tuning_that_is_not_finished_is_left_out_until_it_is(tmp_path):
    path = tmp_path / "out.txt"
    before = formats.read(written(path, AUTOTUNE_LOG + AUTOTUNE_OPEN), labels=H100)
    left_out = f"{path}: tuning of scan is not finished: its configurations (2) are left out"
    assert before.faults == (left_out,)
    assert names(before.rows) == names(formats.read(written(path, AUTOTUNE_LOG), labels=H100).rows)
    whole = formats.read(written(path, AUTOTUNE_LOG + AUTOTUNE_OPEN + AUTOTUNE_END), labels=H100)
    assert whole.faults == ()
    new = [row for row in whole.rows if names([row])[0] not in names(before.rows)]
    assert [(row.problem_id, row.params, row.chosen_by) for row in new] == [
        ("scan/key0=512", {"num_warps": 2}, "exhaustive"),
        ("scan/key0=512", {"num_warps": 4}, "tuned"),
    ]
    alone = formats.read(written(path, AUTOTUNE_OPEN), labels=H100)
    assert (alone.rows, alone.faults) == ((), (left_out,))


def test_tritons_own_classes_write_what_is_read(tmp_path):
    """The forms above are those of the Triton that is installed."""
    autotuner = pytest.importorskip("triton.runtime.autotuner")
    config = autotuner.Config({"BLOCK": 64}, num_warps=8, num_stages=2)
    cache = {"key": [8], "configs_timings": [(config.__dict__, [0.5, 0.5, 0.5])]}
    log = (
        f"Autotuning kernel matmul with config {config}\n"
        "Triton autotuning for function matmul,\nwith key as (8,),\n"
        f"finished after 0.50s,\nbest config selected: {config};\n"
    )
    expected = {"BLOCK": 64, "num_warps": 8, "num_stages": 2, "num_ctas": 1}
    for name, result in (("matmul.autotune.json", cache), ("out.txt", log)):
        (row,) = formats.read(written(tmp_path / name, result), labels=H100).rows
        assert row.params == expected


def test_helions_older_log(tmp_path):
    path = written(tmp_path / "add.csv", HELION_OLD)
    result = formats.read(path, labels=H100)
    first, timeout, error = result.rows
    assert first.params == {"block_sizes": [32, 32], "num_warps": 4, "indexing": "pointer"}
    assert (first.time_ms, first.compile_s, first.verdict) == (1.25, 0.4, Verdict.CORRECT)
    assert (first.family, first.extra["generation"]) == ("add", "0")
    assert (timeout.verdict, error.verdict) == (Verdict.TIMED_OUT, Verdict.CRASHED)
    assert result.faults == (f"{path}: line 6: no configuration: \"os.system('x')\"",)


def test_helions_newer_log_and_what_lies_beside_it(tmp_path):
    written(tmp_path / "tune.meta.jsonl", lines(HELION_META))
    result = formats.read(written(tmp_path / "tune.csv", HELION_NEW))
    (row,), (source,) = result.rows, result.sources
    assert (row.family, row.device, row.shape) == ("add", "NVIDIA H200", {"inputs": "(4096,)"})
    assert (source.text, row.source_sha256) == ("def add(): ...", source.sha256)
    assert (row.torch_version, row.cuda_version) == ("2.13", "13.0")


def test_a_line_that_was_cut_off_beside_helions_log_is_named(tmp_path):
    beside = tmp_path / "tune.meta.jsonl"
    written(beside, lines(HELION_META) + '{"run_id": "r2", "hardware_info": {"dev')
    other = HELION_NEW.splitlines()[1].replace("r1", "r2", 1)
    path = written(tmp_path / "tune.csv", HELION_NEW + other + "\n")
    cut = f"{beside}: line 2: is cut off or damaged"
    result = formats.read(path)
    assert [row.device for row in result.rows] == ["NVIDIA H200"]
    assert result.faults[0] == cut
    assert result.faults[1].startswith(f"{path}: line 3: does not say which GPU it is about")
    labelled = formats.read(path, labels=H100)
    assert (len(labelled.rows), labelled.faults) == (2, (cut,))
    written(beside, '{"run_id": "r1", "hard')
    with pytest.raises(InputError, match=r"tune\.meta\.jsonl: line 1: is cut off(?s:.)*--device"):
        formats.read(path)
    beside.write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"cannot read .*tune\.meta\.jsonl"):
        formats.read(path)


def test_flashinfer_bench_traces(tmp_path):
    reported_lines = lines(
        bench_trace("PASSED", PERFORMANCE, ERRORS, hardware="NVIDIA_H100"),
        bench_trace("RUNTIME_ERROR", device="NVIDIA B200"),
        {"definition": "gemm_n4096", "workload": {"axes": {}}, "solution": None},
        bench_trace("SOMETHING", hardware="x"),
    )
    path = written(tmp_path / "traces.jsonl", reported_lines + "{cut")
    result = formats.read(path)
    good, bad = result.rows
    assert {row.origin for row in result.rows} == {"flashinfer_bench"}
    assert (good.problem_id, good.implementation) == ("gemm_n4096/M=256", "triton_v1")
    assert (good.time_ms, good.reference_ms, good.max_error) == (0.5, 0.25, 0.125)
    assert (good.device, good.torch_version) == ("NVIDIA_H100", "2.7.1")
    assert good.created == datetime(2025, 7, 22, 12, 54, 53, 121350, timezone.utc)
    assert (bad.verdict, bad.device) == (Verdict.CRASHED, "NVIDIA B200")
    assert bad.message == "RUNTIME_ERROR: told"
    assert result.faults == (
        f"{path}: line 4: 'SOMETHING' is missing",
        f"{path}: line 5: is not JSON",
    )


def test_sol_execbench_traces(tmp_path):
    reported_lines = lines(
        bench_trace("PASSED", PERFORMANCE, {**ERRORS, "has_nan": False}, hardware="NVIDIA B200"),
        bench_trace("REWARD_HACK", hardware="NVIDIA B200"),
    )
    result = formats.read(written(tmp_path / "traces.jsonl", reported_lines))
    assert [row.verdict for row in result.rows] == [Verdict.CORRECT, Verdict.CHEATING]
    assert {row.origin for row in result.rows} == {"sol_execbench"}


def test_kernelbench_results(tmp_path):
    path = written(tmp_path / "my_level2_run" / "eval_results.json", KERNELBENCH)
    result = formats.read(path)
    assert [row.verdict for row in result.rows] == [
        Verdict.CORRECT, Verdict.WRONG, Verdict.CRASHED, Verdict.DOES_NOT_COMPILE,
    ]  # fmt: skip
    first = result.rows[0]
    assert (first.problem_id, first.time_ms) == ("kernelbench/level=2,problem=23", 1.5)
    assert first.implementation == "my_level2_run/problem_23_sample_0"
    assert [row.time_ms for row in result.rows[1:]] == [None] * 3
    assert [row.message for row in result.rows[1:]] == [
        "correctness_issue: off", "runtime_error: boom", "compilation_error: no",
    ]  # fmt: skip
    assert len({row.kernel_id for row in result.rows}) == 4


@pytest.mark.parametrize(
    ("name", "origin", "problem"),
    [
        (
            "E=128,N=192,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8,block_shape=[128,128].json",
            "vllm",
            "fused_moe/E=128,M=1,N=192,block_shape=[128%2C128],dtype=fp8_w8a8",
        ),
        (
            "N=1024,K=2048,device_name=NVIDIA_H20,dtype=fp8_w8a8,block_shape=[128, 128].json",
            "sglang",
            "scaled_matmul/K=2048,M=1,N=1024,block_shape=[128%2C128],dtype=fp8_w8a8",
        ),
        (
            "triton_3_2_0/E=8,N=7168,device_name=NVIDIA_H200.json",
            "sglang",
            "fused_moe/E=8,M=1,N=7168",
        ),
        (
            "E=8,N=64,device_name=NVIDIA_H200,per_channel_quant=True_down.json",
            "sglang",
            "fused_moe/E=8,M=1,N=64,per_channel_quant=true,projection=down",
        ),
    ],
)
def test_tuned_configurations(tmp_path, name, origin, problem):
    result = formats.read(written(tmp_path / name, TUNED))
    first, second = result.rows
    assert (first.origin, first.problem_id) == (origin, problem)
    assert first.params == TUNED["1"]
    assert second.shape["M"] == 4096
    assert (first.time_ms, first.chosen_by) == (None, "tuned")
    assert first.device.startswith("NVIDIA H")
    assert first.triton_version == "3.4.0"


def test_runs_keep_their_numbers(tmp_path):
    rows = formats.read(written(tmp_path / "cache.json", KERNEL_TUNER)).rows
    with outcomelog.OutcomeLog(tmp_path / "run.jsonl", resume=True) as log:
        logged = log.append(rows)
    assert formats.read(tmp_path / "run.jsonl").rows == logged
    (tmp_path / "run.jsonl.gz").write_bytes(gzip.compress((tmp_path / "run.jsonl").read_bytes()))
    assert formats.read(tmp_path / "run.jsonl.gz").rows == logged
    with pytest.raises(InputError, match="rows of a run name their GPU and family"):
        formats.read(tmp_path / "run.jsonl", labels=H100)


# ------------------------------------------------------------------------------------- all alike


def test_a_file_that_has_grown_keeps_the_names_of_its_rows(tmp_path):
    short = {**KERNEL_TUNER, "cache": dict(list(KERNEL_TUNER["cache"].items())[:2])}
    before = formats.read(written(tmp_path / "a.json", short)).rows
    path = written(tmp_path / "b.json", KERNEL_TUNER)
    os.utime(path, (1, 1))
    after = formats.read(path).rows
    assert names(after)[:2] == names(before)
    assert len(set(names(after))) == 4


def names(rows):
    return [(row.run_id, row.sequence) for row in rows]


def test_a_file_that_has_grown_in_the_middle_brings_only_what_is_new(tmp_path):
    path = tmp_path / "level1_run" / "eval_results.json"
    before = formats.read(written(path, KERNELBENCH)).rows
    sample = {**KERNELBENCH["23"][0], "sample_id": 2, "runtime": 1.25}
    grown = {**KERNELBENCH, "23": [*KERNELBENCH["23"], sample]}
    after = formats.read(written(path, grown)).rows
    (new,) = [row for row in after if names([row])[0] not in names(before)]
    assert new.time_ms == 1.25
    assert set(names(before)) < set(names(after))
    assert len(set(names(after))) == 5


def cache_that_begins_with_a_failure(time):
    entries = {name: KERNEL_TUNER["cache"][name] for name in ("32,0", "16,0")}
    return {**KERNEL_TUNER, "cache": {**entries, "16,0": {**entries["16,0"], "time": time}}}


BEGIN_ALIKE = {  # the file's name, one file, and another in which the last row alone differs
    "kernel_tuner": (
        "a.json", cache_that_begins_with_a_failure(3.5), cache_that_begins_with_a_failure(4.5),
    ),
    "vllm": (
        "E=1,N=2,device_name=X.json", TUNED, {**TUNED, "4096": {**TUNED["4096"], "num_warps": 4}},
    ),
    "triton_autotune": (
        "out.txt", AUTOTUNE_LOG + AUTOTUNE_END, AUTOTUNE_LOG + AUTOTUNE_END.replace("4;", "8;"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BEGIN_ALIKE)
def test_files_that_begin_alike_lose_no_rows(tmp_path, name):
    file, one, other = BEGIN_ALIKE[name]
    first = formats.read(written(tmp_path / file, one), name, H100).rows
    second = formats.read(written(tmp_path / file, other), name, H100).rows
    assert names(first)[:-1] == names(second)[:-1]
    assert names(first)[-1] != names(second)[-1]


def test_rows_of_a_file_that_are_equal_are_kept_apart(tmp_path):
    fields = {**T4, "results": [T4["results"][0]] * 3}
    thrice = formats.read(written(tmp_path / "a.json", fields), labels=H100).rows
    once = formats.read(written(tmp_path / "a.json", {**T4, "results": fields["results"][:1]}),
                        labels=H100).rows  # fmt: skip
    assert len(set(names(thrice))) == 3
    assert names(thrice)[:1] == names(once)


def test_attempts_that_differ_in_their_time_of_day_alone_are_two(tmp_path):
    later = {**T4["results"][1], "timestamp": "2023-12-23 01:00:00+00:00"}
    fields = {**T4, "results": [T4["results"][1], later]}
    rows = formats.read(written(tmp_path / "a.json", fields), labels=H100).rows
    assert [row.run_id for row in rows] == ["t4-20231222", "t4-20231223"]


@pytest.mark.parametrize(
    ("labels", "same"),
    [
        (Labels("a100"), True),  # the file names its GPU
        (Labels(kind="stencil"), True),  # says nothing of which configuration it is
        (Labels(family="conv"), False),
    ],
)
def test_labels_tell_rows_apart_where_the_file_does_not(tmp_path, labels, same):
    path = written(tmp_path / "a.json", KERNEL_TUNER)
    results = formats.read(path, labels=labels).rows
    assert (names(results) == names(formats.read(path).rows)) is same


def test_two_gpus_that_only_the_user_tells_apart_are_two(tmp_path):
    path = written(tmp_path / "out.txt", AUTOTUNE_LOG)
    rows = [formats.read(path, labels=Labels(device)).rows for device in ("h100-sxm", "h200")]
    assert set(names(rows[0])).isdisjoint(names(rows[1]))


def test_what_ends_a_line_elsewhere_may_stand_in_json(tmp_path):
    reported_bench_trace = bench_trace("RUNTIME_ERROR", hardware="x")
    reported_bench_trace["evaluation"]["log"] = "one\u2028two\x85three"
    path = written(
        tmp_path / "a.jsonl", json.dumps(reported_bench_trace, ensure_ascii=False) + "\r\n"
    )
    result = formats.read(path)
    assert [row.message for row in result.rows] == ["RUNTIME_ERROR: one\u2028two\x85three"]
    assert result.faults == ()


def test_a_file_of_which_nothing_can_be_taken_says_why(tmp_path):
    """What `solkit data import` fails on."""
    reported_lines = lines(
        {"schema": "solkit.run/2"}, {"row": {"verdict": "fine"}}, {"row": {"device": None}}
    )
    result = formats.read(written(tmp_path / "a.jsonl", reported_lines))
    assert (result.rows, len(result.faults)) == ((), 3)


def test_a_value_of_another_type_costs_its_own_row(tmp_path):
    cache = {**KERNEL_TUNER["cache"]}
    cache["16,0"] = {**cache["16,0"], "times": ["fast"]}
    result = formats.read(written(tmp_path / "a.json", {**KERNEL_TUNER, "cache": cache}))
    assert len(result.rows) == 3
    assert result.faults == (f"{tmp_path}/a.json: 16,0: samples_ms: expected a number, not 'fast'",)


def test_what_the_user_says_comes_before_what_a_file_does(tmp_path):
    labels = Labels("a100", "conv", "convolution")
    row = formats.read(written(tmp_path / "a.json", KERNEL_TUNER), labels=labels).rows[0]
    assert (row.device, row.family, row.kind) == ("a100", "conv", "convolution")
    assert row.problem_id.startswith("conv/")


COLUMNS = {
    "kernel": "convolution_kernel", "device": "NVIDIA A100-PCIE-40GB", "params": {"B": [16, 32]},
    "columns": ["B", "time_ms"], "rows": [[16, 3.5], [32, None]],
}  # fmt: skip


def test_brute_forced_spaces_in_columns(tmp_path):
    timed, failed = formats.read(written(tmp_path / "conv.json", COLUMNS)).rows
    assert (timed.family, timed.device) == ("convolution_kernel", "NVIDIA A100-PCIE-40GB")
    assert (timed.params, timed.time_ms, timed.verdict) == ({"B": 16}, 3.5, Verdict.CORRECT)
    assert (failed.params, failed.time_ms, failed.verdict) == ({"B": 32}, None, Verdict.CRASHED)
    assert failed.message == "It failed to compile or to run."
    short = written(tmp_path / "short.json", {**COLUMNS, "rows": [[16], [32, 1.5]]})
    result = formats.read(short)
    assert [row.params["B"] for row in result.rows] == [32]
    assert "row 0" in result.faults[0]


SAMPLES = {
    "kernel_tuner": ("a.json", KERNEL_TUNER),
    "t4": ("a.json", T4),
    "triton_autotune": ("a.autotune.json", AUTOTUNE_JSON),
    "helion": ("a.csv", HELION_OLD),
    "flashinfer_bench": ("a.jsonl", lines(bench_trace("TIMEOUT", hardware="x"))),
    "sol_execbench": ("a.jsonl", lines(bench_trace("REWARD_HACK", hardware="x"))),
    "kernelbench_results": ("eval_results.json", KERNELBENCH),
    "kernelbench_timing": (
        "baseline_time_torch.json",
        {"level1": {"19_ReLU.py": {"mean": 6.96, "std": 0.01, "min": 6.95, "max": 6.99}}},
    ),
    "kernelbench_com": (
        "run.json",
        {"run_id": "r", "problem": "p", "correct": True, "shapes": [{"idx": 1, "ms": 0.025}]},
    ),
    "cuda_l1": (
        "h100.json",
        lines(
            {"level_id": 1, "task_id": 2, "ref_code": "a", "custom_code": "b", "score_default": 2.5}
        ),
    ),
    "times_table": ("times.csv", "problem,device,M,shape,time_us\nmatmul,h100-sxm,8,N=4,210\n"),
    "liger_kernel": (
        "all_benchmark_data.csv",
        "kernel_name,kernel_provider,kernel_operation_mode,metric_name,metric_unit,x_name,x_label,"
        "x_value,y_value_50,y_value_20,y_value_80,extra_benchmark_config_str,gpu_name,timestamp\n"
        'llama4_rope,liger,full,speed,ms,T,length,64,0.5,0.4,0.6,"{""dtype"": ""torch.bfloat16"", '
        '""hidden_size"": 512, ""num_q_heads"": 8, ""num_kv_heads"": 2}",NVIDIA H100 80GB HBM3,'
        "2026-01-02 03:04:05\n"
        'tvd,huggingface,forward,speed,ms,V,size,4096,0.25,0.2,0.3,"{""B"": 2, ""T"": 128}",'
        "NVIDIA B200,\n"
        'tvd,liger,forward,memory,MB,V,size,4096,25,25,25,"{""B"": 2, ""T"": 128}",NVIDIA B200,\n',
    ),
    "aiter": (
        "a8w8_tuned_gemm.csv",
        "gfx,cu_num,M,N,K,q_dtype_w,kernelId,splitK,us,kernelName,tflops,bw\n"
        "gfx942,304,16,1280,8192,torch.int8,3,0,20.5,some_kernel,1.0,500\n",
    ),
    "neusight": (
        "linear.csv",
        "OPName,Latency,Device,Torch Version,Kernel Name,B,M,N,K\n"
        "linear,1.5,NVIDIA L4,p2.1.0,some_sgemm,1,512,2048,256\n",
    ),
    "vllm": ("E=1,N=2,device_name=X.json", TUNED),
    "sglang": ("E=1,N=2,device_name=X_down.json", TUNED),
    "columns": ("a.json", COLUMNS),
    "run": ("a.jsonl", lines({"schema": "solkit.run/2", "run_id": "r"})),
}


@pytest.mark.parametrize(
    "name", ["kernel_tuner", "flashinfer_bench", "sol_execbench", "kernelbench_results"]
)
def test_a_file_of_another_name_has_the_same_rows(tmp_path, name):
    rows, others = rows_under(tmp_path, SAMPLES[name][0], f"b{SAMPLES[name][0]}", SAMPLES[name][1])
    assert undated(rows) == undated(others)


def rows_under(folder, one, other, result):
    return [formats.read(written(folder / item, result), labels=H100).rows for item in (one, other)]


def undated(rows):
    """What a store compares of rows that it has already."""
    return [replace(row, created=None) for row in rows]


def test_a_log_of_another_name_has_the_same_rows(tmp_path):
    rows, others = rows_under(tmp_path, "a.txt", "b.txt", AUTOTUNE_LOG)
    assert undated(rows) == undated(others)
    for stem in "ab":
        written(tmp_path / f"{stem}.meta.jsonl", lines(HELION_META))
    rows, others = rows_under(tmp_path, "a.csv", "b.csv", HELION_NEW)
    assert undated(rows) == undated(others)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("t4", "b.json"),
        ("triton_autotune", "b.autotune.json"),
        ("helion", "b.csv"),
        ("kernelbench_results", "level1_run/eval_results.json"),
        ("vllm", "E=1,N=4,device_name=X.json"),
        ("sglang", "E=1,N=4,device_name=X_down.json"),
    ],
)
def test_what_the_path_alone_tells_is_what_rows_are_of(tmp_path, name, other):
    """Of two kernels, what was tried alike and failed alike are two attempts: none may be lost."""
    rows, others = rows_under(tmp_path, *(SAMPLES[name][0], other, SAMPLES[name][1]))
    assert set(names(rows)).isdisjoint(names(others))
    assert {row.kernel_id + row.problem_id for row in rows}.isdisjoint(
        row.kernel_id + row.problem_id for row in others
    )


@pytest.mark.parametrize("name", sorted(FORMATS.keys() - {"run"}))  # which numbers its rows itself
def test_a_file_that_is_gzipped_or_elsewhere_has_the_same_rows(tmp_path, name):
    file, result = SAMPLES[name]
    path = written(tmp_path / "one" / "run" / file, result)
    rows = formats.read(path, labels=H100).rows
    zipped = tmp_path / "two" / "run" / f"{file}.gz"
    zipped.parent.mkdir(parents=True)
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert rows
    assert undated(rows) == undated(formats.read(zipped, labels=H100).rows)


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_is_recognised_by_its_format_alone(tmp_path, name):
    path = written(tmp_path / SAMPLES[name][0], SAMPLES[name][1])
    assert [item for item, form in FORMATS.items() if form.recognises(Document(path))] == [name]


@pytest.mark.quick("{}-helion")
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("message", ["", "[]", "{}", "null", '{"results": 5}', "{cut", "a\nb"])
def test_a_file_of_something_else_is_said_to_be(tmp_path, name, message):
    path = written(tmp_path / "x.json", message)
    with pytest.raises(InputError, match=r"no known format; those that .* takes are: run, kernel"):
        formats.read(path)
    with contextlib.suppress(InputError):
        assert not formats.read(path, name, H100).rows


def test_liger_kernels_rows_have_the_sizes_of_their_problem(tmp_path):
    own, other = read_sample(tmp_path, "liger_kernel")  # not the row of memory
    assert (own.family, own.time_ms, own.l2) == ("llama4_rope", 0.5, "cold")
    assert own.shape == {
        "operation": "rope", "variant": "llama4_rope", "mode": "full", "dtype": "bfloat16",
        "tokens": 64, "columns": 512, "hidden": 512, "heads": 8, "kv_heads": 2,
    }  # fmt: skip
    assert other.shape == {
        "operation": "tvd", "mode": "forward", "dtype": "float32", "tokens": 256, "columns": 4096,
    }  # fmt: skip
    assert (own.extra["runs"], other.extra.get("runs")) == ("kernel", None)


def test_products_of_others_have_their_sizes_and_bring_their_problem(tmp_path):
    (row,) = read_sample(tmp_path, "aiter")
    assert row.shape == {"M": 16, "N": 1280, "K": 8192, "dtype": "int8"}
    assert (row.device, row.time_ms) == ("h100-sxm", pytest.approx(0.0205))  # as the test labels it
    (row,) = read_sample(tmp_path, "neusight")  # which sums over its N
    assert row.shape == {"operator": "linear", "B": 1, "M": 512, "K": 2048, "N": 256}
    assert (row.time_ms, row.extra["runs"]) == (1.5, "reference")
    for name in ("liger_kernel", "aiter", "neusight"):
        result = formats.read(written(tmp_path / SAMPLES[name][0], SAMPLES[name][1]), labels=H100)
        texts = {source.sha256: source.text for source in result.sources}
        assert "def reference(" in texts[result.rows[0].problem_sha256]


@pytest.mark.parametrize(
    ("file", "gpu", "library", "shape"),
    [
        ("a8w8_blockscale_bpreshuffle_tuned_gemm.csv", "gfx950,256", "triton",
         {"dtype": "float8_e4m3fn", "scheme": "blockscale_bpreshuffle"}),
        ("bf16_tuned_gemm.csv", "gfx950,256", "triton", {"dtype": "bfloat16"}),
        ("bf16_tuned_gemm.csv", "gfx950,256", "hipblaslt", None),
        ("bf16_tuned_gemm.csv", "gfx942,80", "triton", {"dtype": "bfloat16"}),
        ("a8w8_blockscale_bpreshuffle_tuned_gemm.csv", "gfx942,80", "triton",
         {"dtype": "float8_e4m3fnuz", "scheme": "blockscale_bpreshuffle"}),
        ("bf16_tuned_gemm.csv", "gfx942,38", "triton", None),  # a GPU that is not catalogued
        ("a8w8_tuned_gemm.csv", "gfx950,256", "triton", None),  # scaled in another way
    ],
)  # fmt: skip
def test_aiters_triton_products_can_be_launched_again(tmp_path, file, gpu, library, shape):
    text = f"gfx,cu_num,M,N,K,libtype,us,kernelName\n{gpu},16,256,512,{library},6.5,auto\n"
    (row,) = formats.read(written(tmp_path / file, text)).rows
    assert row.extra.get("runs") == ("kernel" if shape else None)
    if shape:
        assert row.shape == {"M": 16, "N": 256, "K": 512, **shape}


@pytest.mark.parametrize(
    ("gpu", "device"),
    [
        ("gfx942,80", "mi308x"),
        ("gfx942,304", "mi325x"),
        ("gfx942,38", "mi325x"),  # the fastest: its bound holds for a part of it, too
        ("gfx950,256", "mi355x"),
    ],
)
def test_aiter_names_gpus_by_architecture_and_compute_units(tmp_path, gpu, device):
    text = f"gfx,cu_num,M,N,K,libtype,us,kernelName\n{gpu},16,256,512,asm,6.5,auto\n"
    (row,) = formats.read(written(tmp_path / "bf16_tuned_gemm.csv", text)).rows
    assert row.device == device


def test_liger_kernels_dynamic_tanh_may_have_a_bias(tmp_path):
    name, text = SAMPLES["liger_kernel"]
    heading = text.split("\n", 1)[0]
    text = heading + "".join(
        "\ndyt,liger_triton,forward,speed,ms,BT,length,64,0.5,0.4,0.6,"
        f'"{{""beta"": {beta}, ""hidden_size"": 512}}",NVIDIA B200,\n'.rstrip()
        for beta in ("true", "false")
    )
    with_bias, without = formats.read(written(tmp_path / name, text)).rows
    assert (with_bias.shape["variant"], without.shape.get("variant")) == ("bias", None)


@pytest.mark.parametrize("provider", ["liger_cutile", "liger_cutile_softmax"])
def test_liger_kernels_rows_in_cutile_launch_its_kernels(tmp_path, provider):
    name, text = SAMPLES["liger_kernel"]
    text = text.split("\n", 1)[0]
    text += f'\nsoftmax,{provider},forward,speed,ms,BT,length,64,0.5,0.4,0.6,"{{}}",NVIDIA B200,\n'
    (row,) = formats.read(written(tmp_path / name, text)).rows
    assert (row.shape["language"], row.extra["runs"]) == ("cutile", "kernel")


def test_kernelbench_timings_are_means_in_ms(tmp_path):
    (row,) = read_sample(tmp_path, "kernelbench_timing")
    assert (row.time_ms, row.shape, row.verdict) == (
        6.96, {"level": 1, "problem": 19}, Verdict.CORRECT,
    )  # fmt: skip


def test_a_run_of_kernelbench_com_has_a_row_a_shape(tmp_path):
    (row,) = read_sample(tmp_path, "kernelbench_com")
    assert (row.family, row.shape, row.time_ms) == ("p", {"shape_index": 1}, 0.025)


def test_a_speed_up_is_no_time(tmp_path):
    (row,) = read_sample(tmp_path, "cuda_l1")
    assert row.time_ms is None
    assert row.extra == {"speed_up": 2.5}
    assert row.shape == {"level": 1, "problem": 2}


def test_a_table_of_times_has_sizes_in_columns_and_in_a_shape(tmp_path):
    (row,) = read_sample(tmp_path, "times_table")
    assert (row.family, row.shape) == ("matmul", {"M": 8, "N": 4})
    assert row.time_ms == pytest.approx(0.21)
    assert row.extra["resolution_ms"] == pytest.approx(0.5e-3)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", "\ufeffProblem;GPU;Latency (us);M;n\nmatmul;h100;210;8.0;4\n"),
        ("t.tsv", "op\tdevice\tus\tM\tn\nmatmul\th100\t210\t8\t4\n"),
        ("t.json", [{"name": "matmul", "gpu": "h100", "runtime_ms": 0.210, "M": 8, "n": 4}]),
        ("t.jsonl", '{"op": "matmul", "gpu": "h100", "time": "210us", "shape": {"M": 8, "n": 4}}'),
    ],
)
def test_a_table_of_times_is_read_in_other_spellings(tmp_path, name, content):
    (row,) = formats.read(written(tmp_path / name, content)).rows
    assert (row.family, row.shape, row.device_name) == ("matmul", {"M": 8, "n": 4}, "h100")
    assert row.time_ms == pytest.approx(0.21)


def test_a_row_without_a_device_costs_no_other(tmp_path):
    path = written(tmp_path / "t.csv", "problem,device,time_us\na,h100,5\na,,5\n")
    imported = formats.read(path)
    assert [row.time_ms for row in imported.rows] == [pytest.approx(0.005)]
    assert "does not say which GPU it is about: give --device (line 3)" in imported.faults[0]
    path = written(tmp_path / "none.csv", "problem,device,time_us\na,,5\n")
    with pytest.raises(InputError, match="give --device"):
        formats.read(path)


@pytest.mark.parametrize("time_ms", ["NaN", "-1", "Infinity", "0"])
def test_a_time_that_is_none_is_no_row(tmp_path, time_ms):
    content = (
        f'{{"level1": {{"1_A.py": {{"mean": {time_ms}, "std": 0, "min": 1, "max": 1}}, '
        '"2_B.py": {"mean": 2.0, "std": 0, "min": 1, "max": 1}}}'
    )
    imported = formats.read(written(tmp_path / "t.json", content), labels=H100)
    assert [row.time_ms for row in imported.rows] == [2.0]
    assert "level1/1_A.py: its time is" in imported.faults[0]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("a,1", "line 2: has not the 3 cells"),
        ("a,h100,1e400", "line 2: '1e400us' is no time above 0"),
        ("a,h100,nan", "line 2: 'nanus' is no time above 0"),
        (",h100,5", "line 2: names no problem"),
        ("a,h100,fast", "line 2: 'fastus' is no time above 0 with a unit"),
    ],
)
def test_a_bad_line_of_a_table_is_named(tmp_path, line, fault):
    path = written(tmp_path / "t.csv", f"problem,device,time_us\n{line}\n")
    imported = formats.read(path, labels=H100)
    assert not imported.rows
    assert fault in imported.faults[0]


def read_sample(folder, name):
    file, content = SAMPLES[name]
    return formats.read(written(folder / file, content), labels=H100).rows


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*none"):
        formats.read(tmp_path / "none")
    (tmp_path / "x.gz").write_text("not compressed")
    with pytest.raises(InputError, match=r"cannot read .*x\.gz"):
        formats.read(tmp_path / "x.gz")
    whole = gzip.compress(json.dumps(KERNEL_TUNER).encode())
    damaged = whole[:20] + bytes(item ^ 255 for item in whole[20:60]) + whole[60:]
    for data in (whole[:-20], damaged):
        (tmp_path / "x.json.gz").write_bytes(data)
        for read in (formats.read, outcomelog.read):
            with pytest.raises(InputError, match=r"cannot read .*x\.json\.gz"):
                read(tmp_path / "x.json.gz")
    with pytest.raises(InputError, match="unknown format 'csv'; choose one of: run, kernel_tuner"):
        formats.read(written(tmp_path / "a.json", T4), "csv")
    with pytest.raises(InputError, match="does not say which GPU it is about: give --device"):
        formats.read(tmp_path / "a.json")
