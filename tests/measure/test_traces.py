"""Traces: what is written is read again, whatever happened to the file."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path

import pytest

from solkit import pipeline, userdata
from solkit.core import (
    Candidate,
    KernelAnalysis,
    KernelFile,
    Launch,
    Measurement,
    Problem,
    Protocol,
    Tolerance,
    Verdict,
)
from solkit.errors import InputError, TraceError
from solkit.measure import Outcome, traces
from solkit.measure.messages import Samples
from solkit.measure.traces import (
    Trace,
    TracedBound,
    TracedCandidate,
    TracedDevice,
    TracedProblem,
    TraceWriter,
    digests,
    read,
)
from solkit.roofline import devices
from solkit.roofline.calibration.record import Conditions

OLD = Path(__file__).parent / "data" / "traces-1.jsonl"


def trace(name="kernel", evidence=()):
    launch = Launch("k", (3, 2, 1), 4, 3, 1, {"BLOCK": 64, "CAUSAL": True}, {"x": "*fp32"})
    return Trace(
        schema="solkit.trace/1",
        created=datetime(2026, 11, 21, 12, 0, 0, 250_000, timezone.utc),
        candidate=TracedCandidate(name, "/k/mine.py", "ab" * 32, {"BLOCK": 1024, "w": 0.5}),
        problem=TracedProblem(
            "mine", "native", "/k/mine.py", "ab" * 32,
            {"M": 4096, "dtype": "bfloat16", "causal": True, "p": 0.1, "window": None},
            Tolerance(1e-2, 0.0),
        ),
        device=TracedDevice("h100-sxm", "NVIDIA H100", "GPU-a", (9, 0), 132, 1980.0, ("ECC on.",)),
        software={"solkit": "0.1", "torch": "2.13.0", "triton": None},
        verdict=Verdict.CORRECT,
        evidence=tuple(evidence),
        bound=TracedBound(0.01, 0.005, None, 0.012, "dram", "tf32"),
        protocol=Protocol("cupti", "cold", "read", 13, 3, 120.0, 0),
        measurement=Measurement(
            0.02, 0.019, 0.021, None, 0.03, "cupti", 1e-7, 3, 1755.0, (KernelAnalysis(launch, 32),)
        ),
        samples=Samples(
            (0.019, 0.02, 0.021), (0.03, 0.031, 0.029),
            Conditions(samples=7, sm_clock_mhz=1755, reasons={"power cap": 0.429}),
        ),
    )  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return tmp_path / "traces.jsonl"


def names(path):
    found, faults = read(path)
    assert faults == ()
    return [each.candidate.name for each in found]


def test_what_is_written_is_read_again(path):
    written = [trace(), trace("ü\n\u2028", ["a\nb"])]
    for each in written:
        TraceWriter(path).append(each)
    assert read(path) == (tuple(written), ())
    assert path.read_bytes().count(b"\n") == 2


def test_a_line_is_json_for_everybody(path):
    failed = replace(trace(), verdict=Verdict.WRONG, bound=None, protocol=None)
    huge = replace(trace().measurement, max_error=float("inf"), reference_ms=float("nan"))
    TraceWriter(path).append(replace(failed, measurement=huge))

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    (line,) = path.read_text().splitlines()
    told = json.loads(line, parse_constant=refuse)
    assert next(iter(told)) == "schema"
    assert (told["schema"], told["verdict"]) == ("solkit.trace/1", "wrong")
    assert told["created"] == "2026-11-21T12:00:00.250000Z"
    assert told["measurement"]["max_error"] == "Infinity"
    ((found,), faults) = read(path)
    assert (found.measurement.max_error, faults) == (float("inf"), ())
    assert found.measurement.reference_ms != found.measurement.reference_ms


def test_types_of_settings_survive(path):
    TraceWriter(path).append(trace())
    ((found,), _) = read(path)
    kinds = [type(value) for value in found.problem.shape.values()]
    assert kinds == [int, str, bool, float, type(None)]


def test_traces_of_older_versions_are_still_read():
    """What the first version wrote: fields are added with defaults, never renamed."""
    found, faults = read(OLD)
    assert faults == ()
    assert [each.verdict for each in found] == [Verdict.CORRECT, Verdict.TIMED_OUT]
    assert found[0].measurement.median_ms == 0.02
    assert found[0].measurement.launches[0].launch.constants == {"BLOCK": 64, "CAUSAL": True}
    assert found[0].protocol.method == "cupti"
    assert found[0].samples.conditions.reasons == {"power cap": 0.429}


# ------------------------------------------------------------------------------ damaged files


def test_a_line_cut_off_anywhere_costs_no_other_trace(path):
    TraceWriter(path).append(trace("first"))
    whole = path.read_bytes()
    TraceWriter(path).append(trace("second"))
    both = path.read_bytes()
    for end in {len(whole) + 1, len(whole) + 40, len(both) - 100, len(both) - 2}:
        path.write_bytes(both[:end])
        found, (fault,) = read(path)
        assert [each.candidate.name for each in found] == ["first"]
        assert fault == (
            f"{path}:2: the line is cut off: {end - len(whole)} bytes that are no JSON"
        )
        TraceWriter(path).append(trace("third"))
        found, (fault,) = read(path)
        assert [each.candidate.name for each in found] == ["first", "third"]
        assert fault.startswith(f"{path}:2: the line is damaged")


def test_a_line_that_lacks_only_its_end_is_whole(path):
    TraceWriter(path).append(trace("first"))
    path.write_bytes(path.read_bytes()[:-1])
    assert names(path) == ["first"]
    TraceWriter(path).append(trace("second"))
    assert names(path) == ["first", "second"]


def test_a_first_line_cut_off_is_still_a_file_of_traces(path):
    path.write_bytes(b'{"sch')
    TraceWriter(path).append(trace())
    found, faults = read(path)
    assert (len(found), len(faults)) == (1, 1)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"schema": "solkit.trace/2"}', "solkit.trace/2 is newer than solkit.trace/1"),
        ('{"schema": "solkit.trace/12"}', "solkit.trace/12 is newer than solkit.trace/1"),
        ('{"schema": "solkit.score/1"}', "no solkit.trace/1: schema is 'solkit.score/1'"),
        ("{}", "no solkit.trace/1: schema is None"),
        ("[1]", "no solkit.trace/1: schema is None"),
        ('{"schema": "solkit.trace/1"}', "no solkit.trace/1: created: Field required"),
        ("\0\0\0\0", "the line is damaged: 5 bytes that are no JSON"),
        ("\xff\xfe", "the line is damaged"),
    ],
)
def test_lines_that_hold_no_trace_are_told(path, line, fault):
    TraceWriter(path).append(trace("first"))
    with path.open("ab") as file:
        file.write(line.encode("latin-1") + b"\n\n")
    TraceWriter(path).append(trace("last"))
    found, (told,) = read(path)
    assert [each.candidate.name for each in found] == ["first", "last"]
    assert told.startswith(f"{path}:2: {fault}")


def test_fields_of_later_versions_are_ignored(path):
    TraceWriter(path).append(trace())
    told = json.loads(path.read_text())
    told["mood"] = told["measurement"]["mood"] = told["device"]["mood"] = "good"
    path.write_text(json.dumps(told))
    assert read(path) == ((trace(),), ())


# ------------------------------------------------------------------------------------ full disks


def test_a_full_disk_loses_nothing_that_was_written(path, monkeypatch):
    writer = TraceWriter(path)
    writer.append(trace("first"))
    before, write, calls = path.read_bytes(), os.write, []

    def half(file, data):
        calls.append(len(data))
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data[: len(data) // 2])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(TraceError, match=r"could not be written to .*: No space left on dev"):
            writer.append(trace("second"))
    assert (len(calls), path.read_bytes()) == (2, before)
    writer.append(trace("third"))
    assert names(path) == ["first", "third"]


def test_a_disk_that_takes_a_line_in_pieces(path, monkeypatch):
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda file, data: write(file, data[:100]))
        TraceWriter(path).append(trace())
    assert read(path) == ((trace(),), ())


def test_a_trace_that_did_not_reach_the_disk_is_not_there(path, monkeypatch):
    writer = TraceWriter(path)
    writer.append(trace("first"))

    def fail(_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(TraceError, match="Input/output error"):
            writer.append(trace("second"))
    assert names(path) == ["first"]


APPEND = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from test_traces import append
append(Path(sys.argv[2]), "more", 2)
"""


def append(path, name, count):
    writer = TraceWriter(path)
    for i in range(count):
        writer.append(trace(f"{name}{i}"))


@pytest.fixture
def appending():
    """Start a process that appends so many traces to a file; it is killed in the end."""
    started = []

    def start(path, name, count):
        process = multiprocessing.get_context("fork").Process(
            target=append, args=(path, name, count)
        )
        started.append(process)
        process.start()
        return process

    yield start
    for process in started:
        process.kill()
        process.join()


def test_a_limit_of_the_file_size(path):
    """The kernel itself cuts the line off here: RLIMIT_FSIZE acts as a disk that is full."""
    TraceWriter(path).append(trace("first"))
    limit = int(path.stat().st_size * 2.5)
    found = subprocess.run(
        [sys.executable, "-c", APPEND, str(Path(__file__).parent), str(path)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        capture_output=True,
        text=True,
    )
    assert found.returncode == 1
    assert "TraceError: this measurement could not be written" in found.stderr
    assert "File too large" in found.stderr
    assert names(path) == ["first", "more0"]


# ------------------------------------------------------------------------------- many processes


def test_many_processes_append_to_one_file(path, appending):
    children = [appending(path, f"p{i}-", 20) for i in range(3)]
    writer = TraceWriter(path)

    def work(name):
        for i in range(20):
            writer.append(trace(f"{name}{i}"))

    threads = [threading.Thread(target=work, args=(f"t{i}-",)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0, 0]
    found = names(path)
    for writer_name in ("p0-", "p1-", "p2-", "t0-", "t1-"):  # all are there, each in its order
        mine = [name for name in found if name.startswith(writer_name)]
        assert mine == [f"{writer_name}{i}" for i in range(20)]


def test_a_writer_killed_at_any_moment_leaves_whole_lines(path, appending):
    for _ in range(4):
        child = appending(path, "x", 100_000)
        while not path.exists() or path.stat().st_size < 20_000:
            assert child.is_alive()
        child.kill()
        child.join()
        found, faults = read(path)
        assert len(found) > 5
        assert len(faults) <= 1  # a line in mid-write: one write makes that as good as impossible
        TraceWriter(path).append(trace("after"))
        assert read(path)[0][-1].candidate.name == "after"
        path.unlink()


# ------------------------------------------------------------------------------ where they lie


def test_the_default_is_this_months_file_in_the_users_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("SOLKIT_TRACES")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    writer = TraceWriter()
    month = datetime.now(timezone.utc).strftime("%Y-%m")
    assert writer.path == tmp_path / "solkit" / "traces" / f"{month}.jsonl"
    assert writer.path.exists()
    monkeypatch.setenv("SOLKIT_TRACES", str(tmp_path / "elsewhere"))
    assert TraceWriter().path.parent == tmp_path / "elsewhere"


def test_a_relative_data_home_counts_as_none(monkeypatch):
    monkeypatch.delenv("SOLKIT_TRACES")
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert userdata.folder("traces", "SOLKIT_TRACES") == Path.home() / ".local/share/solkit/traces"


def test_other_files_are_not_appended_to(tmp_path):
    kernel = tmp_path / "kernel.py"
    kernel.write_text("import torch\n")
    with pytest.raises(InputError, match="holds no traces"):
        TraceWriter(kernel)
    assert kernel.read_text() == "import torch\n"


def test_a_path_that_cannot_be_written_is_told_at_once(tmp_path):
    with pytest.raises(InputError, match=r"cannot write traces to .*: No such file or directory"):
        TraceWriter(tmp_path / "no" / "folder.jsonl")
    with pytest.raises(InputError, match="Is a directory"):
        TraceWriter(tmp_path)
    with pytest.raises(InputError, match=r"cannot read .*: No such file"):
        read(tmp_path / "none.jsonl")


def test_traces_may_be_thrown_away():
    TraceWriter(Path("/dev/null")).append(trace())
    assert Path("/dev/null").is_char_device()  # still: no file was put in its place


# ------------------------------------------------------------------------------------- digests


def kernel_file(problem, candidate=None):
    described = Problem("p", str(problem), "native", "reference", {}, ({},))
    path = str(candidate or problem)
    return KernelFile(described, Candidate("kernel", path, {}))


def test_digests_are_of_the_files(tmp_path):
    problem, candidate = tmp_path / "p.py", tmp_path / "c.py"
    problem.write_bytes(b"a")
    candidate.write_bytes(b"b")
    found = digests(kernel_file(problem, candidate))
    assert found.problem == sha256(b"a").hexdigest()
    assert found.candidate == sha256(b"b").hexdigest()
    with pytest.raises(InputError, match="cannot read"):
        digests(kernel_file(problem, tmp_path / "gone.py"))


def test_a_folders_digest_is_of_its_sources(tmp_path):
    (tmp_path / "definition.json").write_text("{}")
    (tmp_path / "blob.safetensors").write_text("large")
    (tmp_path / "solutions").mkdir()
    first = digests(kernel_file(tmp_path))
    (tmp_path / "blob.safetensors").write_text("other")
    assert digests(kernel_file(tmp_path)) == first
    (tmp_path / "definition.json").write_text("{ }")
    assert digests(kernel_file(tmp_path)) != first
    (tmp_path / "definition.json").rename(tmp_path / "d.json")
    assert digests(kernel_file(tmp_path)).problem not in (first.problem, "")


def test_the_schema_is_named_once():
    assert trace().schema == traces.SCHEMA


# ------------------------------------------------------------------------------ solkit.score

KERNEL = """
def inputs(N=16, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * 2

def kernel(x, *, BLOCK=64):
    return x * 2

SHAPES = [{"N": 16}, {"N": 32}]
"""


def test_each_shape_is_on_disk_before_the_next_one_starts(write, path, monkeypatch):
    gpu = replace(devices.find("h100"), source="nvml", uuid="GPU-a")
    told = trace()
    measured = Outcome(Verdict.CORRECT, (), told.protocol, told.measurement, told.samples)
    crashed = Outcome(Verdict.CRASHED, ("timing: gone",), None, None)
    seen = []

    def measure(_session, _path, shape, *__, **___):
        seen.append((shape["N"], len(path.read_bytes().splitlines())))
        return measured if len(seen) == 1 else crashed

    monkeypatch.setattr(pipeline.measuring.Session, "measure", measure)
    source = write(KERNEL)
    report = pipeline.score(source, device=gpu, params={"BLOCK": 128}, trace=path)
    assert seen == [(16, 0), (32, 1)]
    (first, second), faults = read(path)
    assert faults == ()
    assert first.candidate.params == {"BLOCK": 128}
    assert first.candidate.sha256 == sha256(Path(source).read_bytes()).hexdigest()
    assert (first.measurement, first.samples) == (measured.measurement, measured.samples)
    assert (first.verdict, second.verdict) == tuple(result.verdict for result in report.results)
    assert first.bound.roofline_ms == report.results[0].bound.time_ms
    assert first.bound.observed_clock_ms == report.results[0].bound.at.observed_clock_ms
    assert first.device.uuid == "GPU-a"
    assert first.software["solkit"] == report.environment["solkit"]
    assert (second.problem.shape["N"], second.evidence) == (32, ("timing: gone",))


def test_without_a_measurement_there_is_no_trace(write, path):
    pipeline.score(write(KERNEL), device="h100", trace=path)
    assert not path.exists()
