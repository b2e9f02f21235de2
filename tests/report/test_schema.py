import hashlib
import json
import math
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from solkit.core import (
    Contributor,
    FailedShape,
    Fusion,
    InstructionCount,
    InstructionMix,
    OpWork,
    Pace,
    Part,
    PartBound,
    Verdict,
)
from solkit.errors import InputError
from solkit.report import schema

RESULT = {
    "shape", "params", "verdict", "protocol", "errors", "work", "bound", "analysis", "launches",
    "forecast", "measurement", "score", "fusion", "best", "hint", "gap", "advice", "advised",
}  # fmt: skip
CEILINGS = {
    "dram": {"value": 3.352e12, "unit": "B/s", "clock_mhz": 2619.0, "source": "NVML"},
    "tensor.bf16": {
        "value": 1070.5e12, "unit": "FLOP/s", "clock_mhz": 1980.0, "source": "datasheet, scaled",
    },
}  # fmt: skip


def written(report):
    """What a reader of the file gets."""
    return json.loads(schema.dumps(report))


def refuse(constant):
    raise AssertionError(f"{constant} is no JSON")


def test_top_level_is_the_contract(make):
    data = written(make.report())
    assert set(data) == {
        "schema", "environment", "kernel", "device", "results", "failed", "sources", "written",
    }  # fmt: skip
    assert data["schema"] == "solkit.score/1"
    assert data["environment"] == {
        "solkit": "0.1.0", "torch": "2.13.0", "triton": "3.7.1", "driver": None,
    }  # fmt: skip
    assert data["kernel"] == {
        "path": "examples/matmul.py", "format": "native", "name": "matmul",
    }  # fmt: skip
    assert data["device"] == {
        "name": "NVIDIA H100 80GB HBM3", "source": "catalogue", "key": "h100-sxm",
        "compute_capability": [9, 0], "sm_count": 132, "clock_mhz": 1980.0,
        "clock_kind": "maximum", "notes": [], "ceilings": CEILINGS, "datasheet": CEILINGS,
        "calibrated": {},
    }  # fmt: skip


def test_result_not_measured_is_the_contract(make):
    (result,) = written(make.report(make.result()))["results"]
    assert set(result) == RESULT
    assert result["shape"] == {"M": 4096, "N": 4096, "K": 4096, "dtype": "bfloat16"}
    assert result["params"] == {"BLOCK_M": 128}
    assert result["verdict"] == "not_measured"
    assert result["errors"] == []
    assert result["analysis"] == {
        "status": "complete", "notes": [], "written": [], "is_whole": True,
    }  # fmt: skip
    nothing_yet = ("protocol", "forecast", "measurement", "score")
    assert [result[name] for name in nothing_yet] == [None] * 4


def test_when_it_was_written(make):
    noon = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
    assert schema.to_model(make.report(), noon).written == "2026-11-21T12:00:00+00:00"
    assert schema.to_model(make.report()).written is None


def test_sources_are_the_files_as_they_are_now(make, tmp_path):
    kernel, problem, binary = (tmp_path / name for name in ("kernel.py", "model.py", "long.py"))
    kernel.write_text("import model  # µ\n")
    problem.write_text("def reference(): ...\n")
    binary.write_bytes(b"\xff\xfe")
    analysis = replace(make.result().analysis, files=(str(binary), str(kernel)))
    report = make.report(make.result(analysis=analysis))
    file = replace(
        report.kernel,
        problem=replace(report.kernel.problem, path=str(problem)),
        candidate=replace(report.kernel.candidate, path=str(kernel)),
    )
    sources = schema.to_model(replace(report, kernel=file)).sources
    assert [source.path for source in sources] == [str(kernel), str(problem), str(binary)]
    assert [source.text for source in sources] == [
        "import model  # µ\n", "def reference(): ...\n", None,
    ]  # fmt: skip
    assert sources[1].sha256 == hashlib.sha256(b"def reference(): ...\n").hexdigest()


def test_a_source_that_is_gone_or_long(make, tmp_path):
    gone = make.report()
    candidate = replace(gone.kernel.candidate, path=str(tmp_path / "k.py"))
    problem = replace(gone.kernel.problem, path=str(tmp_path))
    report = replace(gone, kernel=replace(gone.kernel, candidate=candidate, problem=problem))
    assert schema.to_model(report).sources == []
    (tmp_path / "k.py").write_bytes(b"#" * (2**18 + 1))
    (source,) = schema.to_model(report).sources
    assert source.text is None


def test_demand_model_gap_and_advice(make):
    (result,) = written(make.report(make.explained()))["results"]
    (launch,) = result["launches"]
    assert launch["demand"]["accesses"][1] == {
        "kind": "load", "path": "async", "argument": "w_ptr", "line": "examples/matmul.py:77",
        "requests": 2**20, "sectors": 2**25, "block_sectors": 2**24, "requested_bytes": 2**29,
        "unique_bytes": 2 * 4096**2, "vector_bytes": 16, "cache": "", "eviction": "",
        "is_volatile": False, "semantics": "", "scope": "", "operation": "", "is_returned": False,
        "contention": None, "outside_bytes": 0,
    }  # fmt: skip
    assert [term["name"] for term in launch["model"]["terms"]] == [
        "tensor.bf16", "l2", "latency", "launch",
    ]  # fmt: skip
    assert math.prod(f["factor"] for f in result["gap"]["factors"]) == pytest.approx(1.5)
    assert len(result["advice"]) >= 1


def test_work_counts_all_floating_point_pipes_and_no_integer_ones(make):
    pipes = {"tensor.bf16": 100, "fp32": 20, "fp64": 3, "sfu": 4, "int32": 7, "tensor.int8": 9}
    (result,) = written(make.report(make.result(bound=make.bound(flops_by_pipe=pipes))))["results"]
    assert result["work"] == {
        "flops": 127, "flops_by_pipe": pipes, "dram_bytes": 3 * 2 * 4096**2,
        "dram_read_bytes": 2 * 2 * 4096**2, "dram_write_bytes": 2 * 4096**2, "unmodelled": [],
    }  # fmt: skip


def test_bound_is_the_contract(make):
    work = make.work(ops=(OpWork("aten.mm", make.work().operations),))
    (result,) = written(make.report(make.measured(work=work)))["results"]
    bound = result["bound"]
    assert list(bound["resources"]) == ["tensor.bf16", "dram"]
    assert bound["resources"]["dram"] == {
        "amount": 3 * 2 * 4096**2, "unit": "B", "ceiling": 3.352e12, "source": "NVML",
        "time_ms": 0.03003, "contributors": [],
    }  # fmt: skip
    del bound["resources"]
    assert bound == {
        "time_ms": 0.12839, "limiter": "tensor.bf16", "precision": "tolerance: bf16 as bf16",
        "assumptions": ["Inputs come from DRAM once."],
        "at": {"roofline": 0.12839, "hard": 0.03003, "datasheet": 0.13891, "calibrated": None,
               "observed_clock": None, "launch_floor": None, "chain_floor": None,
               "strict": None},
        "protocol": "cold",
        "hard_evidence": "static", "routes": [],
        "slack": ["aten.mm: what becomes of its output may leave less to compute."],
    }  # fmt: skip


def test_contributors_fusion_and_failed_shapes(make):
    whole = make.bound()
    contributor = Contributor("aten.mm", 10, 0.5, "matmul.py:7", 3)
    resource = replace(whole.resources[0], contributors=(contributor,))
    part = PartBound(Part((0,), ("aten.mm",), "matmul.py:7", make.work()), whole)
    result = make.measured(
        bound=replace(whole, resources=(resource,)), fusion=Fusion(0.1, (part, part))
    )
    data = written(make.report(result, failed=(FailedShape({"M": 3}, "no"),)))
    assert data["failed"] == [{"shape": {"M": 3}, "error": "no"}]
    (result,) = data["results"]
    assert result["bound"]["resources"]["tensor.bf16"]["contributors"] == [
        {"name": "aten.mm", "amount": 10, "share": 0.5, "line": "matmul.py:7", "count": 3}
    ]
    assert result["fusion"] == {
        "fused_ms": 0.1, "unfused_ms": pytest.approx(0.25678), "unfused_kernels": 2,
        "worth": pytest.approx(2.5678), "grouped_ms": None, "grouped_kernels": None,
    }  # fmt: skip


def test_launches_come_from_the_analysis(make):
    (result,) = written(make.report())["results"]
    assert result["launches"] == [{
        "name": "matmul_kernel", "grid": [1024, 1, 1], "num_warps": 8, "num_stages": 3,
        "num_ctas": 1, "count": 1, "constants": {"BLOCK_M": 128}, "registers": 168, "spills": 0,
        "shared_bytes": 98304, "occupancy": 0.25, "occupancy_limiter": "shared",
        "blocks_per_sm": 2, "waves": 3.88, "tail_efficiency": 0.97, "tensor_cores": True,
        "error": None, "demand": None, "model": None, "instructions": None, "counters": None,
        "compared": [], "library": False, "line": "",
    }]  # fmt: skip


def test_instructions_are_the_contract(make):
    counts = (InstructionCount("tensor", "HMMA.16816.F32", 1, 4, 0, 0, 4096),)
    paces = (Pace(1, 33.5, 0.5, 0.0),)
    kernel = make.kernel(instructions=InstructionMix(counts, 1, {"matmul.py:7": 4}, paces))
    analysis = replace(make.result().analysis, kernels=(kernel,))
    (result,) = written(make.report(make.result(analysis=analysis)))["results"]
    assert result["launches"][0]["instructions"] == {
        "counts": [{"kind": "tensor", "opcode": "HMMA.16816.F32", "depth": 1, "count": 4,
                    "predicated": 0, "width_bytes": 0, "warp_flops": 4096}],
        "loops": 1, "lines": {"matmul.py:7": 4},
        "paces": [{"depth": 1, "cycles": 33.5, "trips": 0.5, "local_trips": 0.0}],
        "roles": [],
    }  # fmt: skip


def test_a_launch_that_did_not_compile_has_nulls(make):
    broken = make.kernel(
        registers=None, spills=None, shared_bytes=None, occupancy=None, tensor_cores=None,
        error="out of resource",
    )  # fmt: skip
    analysis = replace(make.result().analysis, kernels=(broken,))
    (result,) = written(make.report(make.result(analysis=analysis)))["results"]
    (launch,) = result["launches"]
    unknown = {name for name, value in launch.items() if value is None}
    assert unknown == {
        "registers", "spills", "shared_bytes", "occupancy", "occupancy_limiter", "blocks_per_sm",
        "waves", "tail_efficiency", "tensor_cores", "demand", "model", "instructions",
        "counters",
    }  # fmt: skip
    assert launch["error"] == "out of resource"


def test_measurement_protocol_and_score_are_the_contract(make):
    live = make.kernel(registers=170)
    measurement = make.measurement(sm_clock_mhz=1410.0, launches=(live,))
    (result,) = written(make.report(make.measured(measurement=measurement)))["results"]
    assert result["measurement"].pop("launches")[0]["registers"] == 170
    assert result["measurement"] == {
        "median_ms": 0.1926, "low_ms": 0.1919, "high_ms": 0.1933, "kernel_sum_ms": 0.1901,
        "reference_ms": 0.2054, "method": "cupti", "max_error": 0.0625, "samples": 100,
        "sm_clock_mhz": 1410.0,
    }  # fmt: skip
    assert result["score"] == {
        "gap": 1.5, "gap_calibrated": None, "sol_score": 0.5455, "fraction_of_sol": 0.6667,
    }  # fmt: skip
    assert result["protocol"] == {
        "method": "cupti", "l2": "cold", "flush": "reading a 256 MB buffer", "warmup_calls": 10,
        "samples": 100, "time_limit_s": 120.0, "seed": 0,
        "name": "cold", "launched": "eager", "timed_inputs": "same",
    }  # fmt: skip
    assert result["verdict"] == "correct"


def test_kernel_is_the_candidates_file_or_the_references(make):
    report = make.report()
    elsewhere = replace(report.kernel.candidate, path="candidate.py")
    split = replace(report, kernel=replace(report.kernel, candidate=elsewhere))
    assert written(split)["kernel"]["path"] == "candidate.py"
    assert written(make.reference_alone())["kernel"]["path"] == "examples/matmul.py"


def test_no_number_makes_invalid_json(make):
    result = make.measured(
        verdict=Verdict.WRONG,
        shape={"scale": math.inf},
        params={"low": -math.inf, "pad": math.nan},
        measurement=make.measurement(max_error=math.nan, kernel_sum_ms=math.inf),
    )
    text = schema.dumps(make.report(result))
    (result,) = json.loads(text, parse_constant=refuse)["results"]
    assert (result["shape"], result["params"]) == ({"scale": "inf"}, {"low": "-inf", "pad": "nan"})
    assert result["measurement"]["max_error"] is None
    assert result["measurement"]["kernel_sum_ms"] is None


def test_settings_keep_their_types(make):
    params = {"a": 1, "b": 1.0, "c": True, "d": None, "e": "bfloat16"}
    text = schema.dumps(make.report(make.result(params=params)))
    read = schema.ReportJson.model_validate_json(text).results[0].params
    assert [(type(v), v) for v in read.values()] == [(type(v), v) for v in params.values()]


def test_what_is_written_is_read_back(make, tmp_path):
    report = make.report(make.measured(), make.result())
    path = tmp_path / "report.json"
    path.write_text(schema.dumps(report))
    assert schema.read(path) == schema.to_model(report)
    assert schema.read(str(path)).model_dump(mode="json", by_alias=True) == schema.to_json(report)


def test_later_fields_are_ignored(make, tmp_path):
    data = schema.to_json(make.report()) | {"invented_later": 1}
    data["results"][0]["score"]["invented_later"] = 1
    path = tmp_path / "report.json"
    path.write_text(json.dumps(data))
    assert schema.read(path) == schema.to_model(make.report())


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda data: data.update(schema="solkit.score/2"), "schema"),
        (lambda data: data["device"].pop("name"), "device.name"),
        (lambda data: data["results"][0].update(verdict="splendid"), "results.0.verdict"),
        (lambda data: data["results"][0]["bound"].update(time_ms="x"), "results.0.bound.time_ms"),
    ],
)
def test_reading_names_the_field_at_fault(make, tmp_path, spoil, named):
    data = schema.to_json(make.report())
    spoil(data)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(data))
    expected = rf"report\.json is not a solkit\.score/1 report: {named}: "
    with pytest.raises(InputError, match=expected):
        schema.read(path)


def test_reading_what_is_not_there_or_no_json(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*absent\.json: No such file"):
        schema.read(tmp_path / "absent.json")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match=r"notes\.txt is not a solkit\.score/1 report: the file: "):
        schema.read(tmp_path / "notes.txt")
