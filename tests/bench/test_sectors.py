"""The bench that holds sectors against the counters, with the counters stood in for."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import sectors as bench
import sectors_gpu

from solkit.core import Access, Counters, Demand, Facts, KernelAnalysis, Launch, Occupancy
from solkit.errors import CountersError
from solkit.roofline import devices

JOB = bench.Job(3, "sectors/scatter", bench.ROOT / "bench/sectors/scatter.py", {})


def kernel(loads=1000, stores=1000, tma=0, dram=32000, tensor=0, name="scatter_kernel"):
    amounts = (("load", "global", loads), ("store", "global", stores), ("load", "tma", tma))
    accesses = tuple(Access(k, p, "x", "", n, n, n, 32 * n, 32 * n, 4) for k, p, n in amounts)
    demand = Demand(
        accesses=accesses, operations={"tensor.bf16": tensor}, l1_wavefronts=0,
        l2_read_bytes=dram, l2_write_bytes=0, dram_read_bytes=dram, dram_write_bytes=0,
    )  # fmt: skip
    return KernelAnalysis(
        Facts(Launch(name, (8, 1, 1), 4, 3)),
        occupancy=Occupancy(0.5, "warps", 2, 8 / 264, 8 / 264), demand=demand,
    )  # fmt: skip


def counted(name="scatter_kernel", grid=(8, 1, 1), **figures):
    usual = {
        "load_sectors": 1000, "store_sectors": 1000, "tma_read_sectors": 0,
        "dram_read_bytes": 32000, "occupancy": 0.5, "waves": 0.03, "multiply_adds": 5,
        "operations": {"tensor.bf16": 0},
    }  # fmt: skip
    return Counters(name, grid, **{**usual, **figures})


def report_of(*launches, error=None):
    return json.loads(json.dumps({"error": error, "launches": [asdict(c) for c in launches]}))


def row(*launches, kernels=None):
    return bench.row(JOB, kernels or (kernel(),), report_of(*launches))


def test_there_are_enough_jobs_and_each_is_found():
    jobs = bench.all_jobs()
    assert len(jobs) >= 24
    assert len({job.label for job in jobs}) == len(jobs)
    assert set(bench.SHAPES) <= {job.label for job in jobs}
    assert all(job.kernels for job in jobs)


def test_markers_tell_whose_launches_follow():
    def marker(number):
        return counted(bench.MARKER, (number + 1, 1, 1))

    a, b, c = (counted(name) for name in "abc")
    result = bench.by_job([marker(0), a, b, marker(4), marker(7), c])
    assert result == {0: [a, b], 4: [], 7: [c]}
    assert bench.MARKER == sectors_gpu.MARKER == sectors_gpu.job_marker.__name__
    assert bench.ENDED == sectors_gpu.ENDED


def test_a_row_that_agrees():
    result = row(counted())
    assert result.pairs["loads"] == (1000, 1000)
    assert "async copies" not in result.pairs  # none on either side
    assert result.exact == {"occupancy": True, "waves": True}  # 0.0303 is written 0.03
    assert bench.sectors_agree(result, bench.OF_SECTORS) is True
    assert bench.sectors_agree(result, bench.OF_TMA) is None


@pytest.mark.parametrize(
    ("figures", "agrees"),
    [
        ({"load_sectors": 960}, True),
        ({"load_sectors": 940}, False),
        ({"store_sectors": 1060}, False),
        ({"atomic_sectors": 10}, True),  # a two-hundredth of all
        ({"atomic_sectors": 40}, False),
        ({"tma_read_sectors": 5000}, True),  # apart
    ],
)
def test_five_per_cent_by_kind(figures, agrees):
    assert bench.sectors_agree(row(counted(**figures)), bench.OF_SECTORS) is agrees


def test_launches_of_one_job_are_summed():
    kernels = (kernel(), kernel(loads=500, name="other"))
    result = row(counted(), counted("other", load_sectors=480), kernels=kernels)
    assert result.pairs["loads"] == (1500, 1480)
    assert result.multiply_adds == 10


def test_rows_that_could_not_be_judged_say_why():
    rows = [
        bench.row(JOB, "out of registers", report_of(counted())),
        bench.row(JOB, (kernel(),), report_of(error="RuntimeError: no such thing")),
        bench.row(JOB, (kernel(),), None),
        row(counted("another")),
    ]
    assert [row.reason for row in rows] == [
        "out of registers", "RuntimeError: no such thing", "not counted",
        "scatter_kernel was not counted",
    ]  # fmt: skip
    lines = list(bench.table(rows))
    assert "| sectors/scatter: RuntimeError: no such thing | 1.00 k / ? |" in lines[3]


def test_the_shares_and_the_exit_code(capsys):
    good, bad = row(counted()), replace(row(counted(load_sectors=1)), label="bad")
    assert bench.report([good] * 5 + [bad]) == 0  # five of six is the target
    assert "sectors: 5 of 6, target 83 %; not: bad" in capsys.readouterr().out
    assert bench.report([good, bad]) == 1
    assert "(missed)" in capsys.readouterr().out
    inexact = row(counted(waves=0.05))
    assert bench.report([inexact]) == 1
    assert bench.report([bench.row(JOB, (kernel(),), None)]) == 2


def test_tensor_operations_within_two_per_cent(capsys):
    kernels = (kernel(tensor=1000),)
    near = row(counted(operations={"tensor.bf16": 985}), kernels=kernels)
    far = row(counted(operations={"tensor.bf16": 900}), kernels=kernels)
    bench.report([near, far])
    assert "tensor operations: 1 of 2" in capsys.readouterr().out


@pytest.fixture
def gpu(monkeypatch):
    """Stands in for a GPU on which some jobs, by number, end the process or Nsight Compute."""
    requests = []
    monkeypatch.setattr(bench, "versions", lambda: {"ncu": "2025.3"})

    def fails_at(*numbers, trouble=None):
        def count(program, kernels, *_, **__):
            assert {bench.MARKER, "scatter_kernel"} <= set(kernels)
            data = json.loads(Path(program[2]).read_text())
            requests.append([job["number"] for job in data])
            results, report = [], {}
            for job in data:
                report[job["label"]] = None
                results.append(counted(bench.MARKER, (job["number"] + 1, 1, 1)))
                if job["number"] in numbers:
                    report[job["label"]] = bench.ENDED
                    break
                results.append(counted())
            if not (trouble and data[0]["number"] in numbers):
                Path(program[3]).write_text(json.dumps(report))
            if trouble and report[job["label"]]:
                raise CountersError(trouble)
            return results

        monkeypatch.setattr(bench.nsight, "count_kernels", count)
        return requests

    return fails_at


def jobs(count):
    return [replace(JOB, number=n, label=f"job {n}") for n in range(count)]


def test_counting_goes_on_behind_what_ended_it(gpu, tmp_path):
    requested_gpu, out = gpu(2), tmp_path / "sectors.json"
    bench.count(jobs(14), devices.find("h100"), bench._read(out), out)
    assert requested_gpu == [[*range(12)], [*range(3, 14)]]
    kept = bench._read(out)
    assert kept["jobs"]["job 13"]["launches"][0]["load_sectors"] == 1000
    assert kept["jobs"]["job 2"] == {"error": bench.ENDED, "launches": []}
    assert (kept["device"], kept["versions"]) == ("h100-sxm", {"ncu": "2025.3"})
    bench.count(jobs(15), devices.find("h100"), kept, out)  # what is missing is counted again
    assert requested_gpu[2:] == [[14, 2]]  # what ended it last


def test_what_was_counted_before_a_table_was_lost_is_named(gpu, tmp_path):
    gpu(2, trouble="ncu: took too long")
    recorded = bench._read(None)
    bench.count(jobs(5), devices.find("h100"), recorded, tmp_path / "sectors.json")
    assert recorded["jobs"]["job 0"] == {"error": "ncu: took too long", "launches": []}
    assert recorded["jobs"]["job 2"]["error"] == bench.ENDED
    assert recorded["jobs"]["job 3"]["launches"]


def test_a_gpu_that_may_not_count_ends_it_at_once(gpu, tmp_path, capsys):
    requested_gpu = gpu(0, trouble="no permission")
    bench.count(jobs(20), devices.find("h100"), bench._read(None), tmp_path / "sectors.json")
    assert requested_gpu == [[*range(12)]]
    assert "no permission" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("message", "ran"), [("no\nsuch size", ["a", "b"]), ("CUDA error: illegal access", ["a"])]
)
def test_a_job_that_fails_is_reported(monkeypatch, tmp_path, message, ran):
    seen = []

    def run(job):
        seen.append(job["label"])
        if job["label"] == "a":
            raise ValueError(message)

    monkeypatch.setattr(sectors_gpu, "run", run)
    jobs, report = tmp_path / "jobs.json", tmp_path / "report.json"
    jobs.write_text(json.dumps([{"label": "a"}, {"label": "b"}]))
    sectors_gpu.main(jobs, report)
    assert seen == ran
    fields = dict(zip(ran, (f"ValueError: {message}".splitlines()[0], None)))
    assert json.loads(report.read_text()) == fields


def test_recorded_counters_make_the_table_again(monkeypatch, tmp_path, capsys):
    recorded = {
        "device": "h100-sxm", "versions": {"ncu": "2025.3"},
        "jobs": {JOB.label: report_of(counted())},
    }  # fmt: skip
    path = tmp_path / "sectors.json"
    path.write_text(json.dumps(recorded))
    monkeypatch.setattr(bench, "analysed", lambda jobs, _: [(j.label, (kernel(),)) for j in jobs])
    assert bench.main(["--recorded", str(path), "--only", "sectors/scatter"]) == 0
    printed = capsys.readouterr().out
    assert "1.00 k / 1.00 k (1.000)" in printed
    assert "1 of 1 kernels" in printed


@pytest.mark.quick("defects/two_passes")
@pytest.mark.parametrize(
    "label",
    [
        "defects/two_passes",  # rows that L2 does not keep
        "sweeps/gemm_fp16_nt",  # a matrix that it keeps in part; asynchronous copies
        "sweeps/group_norm",  # what L1 and L2 each keep in part
    ],
)
def test_what_an_h100_counted_agrees(label, capsys):
    arguments = ["--recorded", str(bench.RECORDED), "--only", f"{label}$"]
    assert bench.main(arguments) == 0  # all targets reached
    printed = capsys.readouterr().out
    assert "H100 SXM5 80GB, torch 2.11.0+cu130" in printed
    assert "DRAM reads: 1 of 1" in printed
    assert "sectors: 1 of 1" in printed


def test_all_kernels_were_counted_with_loads_apart_from_copies():
    recorded = bench._read(bench.RECORDED)
    jobs = {job.label for job in bench.all_jobs()}
    # CUDA C++ and most defects came after that run
    later = {label for label in jobs if label.startswith(("defects/", "sectors/cuda_"))}
    assert set(recorded["jobs"]) <= jobs
    assert jobs - set(recorded["jobs"]) <= later
    assert all(job["launches"] and not job["error"] for job in recorded["jobs"].values())
    (gated,) = recorded["jobs"]["sweeps/gated_mlp"]["launches"]
    assert (gated["load_sectors"], gated["async_sectors"]) == (0, 25_165_824)


def test_on_a_gpu(gpu, monkeypatch, tmp_path, capsys):
    gpu()
    monkeypatch.setattr(bench.nvml, "live_devices", lambda: (devices.find("h100"),))
    monkeypatch.setattr(bench, "analysed", lambda jobs, _: [(j.label, (kernel(),)) for j in jobs])
    out = tmp_path / "sectors.json"
    assert bench.main(["--out", str(out), "--only", "sectors/scatter"]) == 0
    printed = capsys.readouterr().out
    assert "NVIDIA H100 SXM5 80GB, ncu 2025.3" in printed
    assert bench.main(["--recorded", str(out), "--only", "sectors/scatter"]) == 0
    assert capsys.readouterr().out == printed


def test_versions(monkeypatch, tmp_path):
    script = tmp_path / "ncu"
    script.write_text(
        "#!/bin/sh\necho NVIDIA Nsight Compute Command Line Profiler\n"
        "echo 'Version 2025.3.1.0 (build 36398880) (public-release)'\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert bench.versions()["ncu"] == "2025.3.1.0"
    monkeypatch.setenv("PATH", "")
    assert "ncu" not in bench.versions()
