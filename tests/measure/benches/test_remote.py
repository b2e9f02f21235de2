"""Benches in workers: outcomes reach the driver's log once, whatever happens to a worker."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import fakes
import pytest
from kinds import Timed
from recordings import outcome

from solkit.core import Configuration, Verdict
from solkit.datasets.kernels import kernel_at_path
from solkit.datasets.outcomelog import OutcomeLog, read
from solkit.errors import InputError, NotRecordedError, TraceError, UnsupportedError, WorkerError
from solkit.measure.benches import bench_server
from solkit.measure.benches.bench_server import BenchServer, Recorded, Trusted, answer_request
from solkit.measure.benches.local import ProcessLink, gpus_named, local_bench
from solkit.measure.benches.remote import RemoteBench, Trade
from solkit.measure.benches.trusted import TrustedBench
from solkit.roofline import nvml

KERNEL = "k" * 16


def at(block):
    return Configuration(KERNEL, "kernel", {"M": 64, "N": 32}, {"BLOCK": block})


def recorded(device="h100-sxm", pace=0.0, **fields):
    rows = tuple(outcome(n, device=device, compile_s=0.0, **fields) for n in range(64))
    return Recorded(rows, pace=pace)


@pytest.fixture
def log(tmp_path):
    with OutcomeLog(tmp_path / "log.jsonl") as log:
        yield log


class Direct:
    """A link to a host of this process; `fails` names methods that lose it."""

    name = "here"

    def __init__(self, kind, fails=()):
        self.host, self.fails = BenchServer(kind), list(fails)

    def call(self, method, *args):
        if method in self.fails:
            self.fails.remove(method)
            raise WorkerError("here: its worker is gone")
        done, value = answer_request(self.host, method, args)
        if not done:
            raise value
        return value

    def close(self):
        self.host.close()


# ------------------------------------------------------------------------------------ one worker


def test_outcomes_are_in_the_drivers_log_when_they_are_yielded(log):
    requests = [at(n) for n in range(20)]
    with RemoteBench(partial(Direct, recorded()), Trade(log)) as bench:
        bench.submit(requests)
        assert bench.pending == 20
        seen = []
        for item, got in bench.outcomes():
            assert (got.run_id, got.params) == (log.run_id, item.params)
            assert len(read(log.path).rows) == len(seen) + 1
            seen.append(item)
        assert Counter(map(id, seen)) == Counter(map(id, requests))
        assert bench.clock.gpu_s() == pytest.approx(10.0)  # as recorded


def test_errors_of_the_worker_are_raised_here(log):
    with RemoteBench(partial(Direct, recorded()), Trade(log)) as bench:
        with pytest.raises(NotRecordedError, match="BLOCK=99"):
            bench.submit([at(1), at(99)])
        assert bench.pending == 0
        bench.submit([at(1)])
        assert len(list(bench.outcomes())) == 1
    with pytest.raises(InputError, match="no recorded row to replay"):
        RemoteBench(partial(Direct, Recorded()), Trade(log))


def test_where_one_file_cannot_be_used_none_is_queued(log, monkeypatch):
    with RemoteBench(partial(Direct, recorded()), Trade(log)) as bench:
        kernels = iter([None])

        def find_kernel(*_):
            for kernel in kernels:
                return kernel
            raise InputError("no such file")

        monkeypatch.setattr(bench, "_find_kernel", find_kernel)
        with pytest.raises(InputError, match="no such file"):
            bench.submit([at(1), at(2)])
        assert bench.pending == 0


def test_a_full_disk_loses_nothing(log, monkeypatch):
    with RemoteBench(partial(Direct, recorded()), Trade(log)) as bench:
        bench.submit([at(n) for n in range(8)])
        outcomes = bench.outcomes()
        next(outcomes)
        with monkeypatch.context() as patch:
            patch.setattr(OutcomeLog, "append", _full)
            with pytest.raises(TraceError, match="no space"):
                next(outcomes)
        assert len(list(bench.outcomes())) == 7
    assert sorted(row.params["BLOCK"] for row in read(log.path).rows) == list(range(8))


def _full(*_):
    raise TraceError("no space left")


def test_after_discarding_nothing_comes_but_what_was_timed_is_logged(log, monkeypatch):
    begun, may_end = threading.Event(), threading.Event()

    def sleep(_):
        begun.set()
        assert may_end.wait(60.0)

    monkeypatch.setattr(bench_server, "time", SimpleNamespace(sleep=sleep))
    with RemoteBench(partial(Direct, recorded(pace=0.1)), Trade(log)) as bench:
        bench.submit([at(n) for n in range(16)])
        while not begun.is_set():
            assert list(bench.outcomes(bench.clock.now_s() + 0.02)) == []
        bench.discard()
        assert (bench.pending, list(bench.outcomes())) == (0, [])
        may_end.set()
        bench.submit([at(40)])
        assert [item.params["BLOCK"] for item, _ in bench.outcomes()] == [40]
    assert sorted(row.params["BLOCK"] for row in read(log.path).rows) == [*range(8), 40]


def test_another_version_of_solkit_is_refused(log, monkeypatch):
    about = partial(bench_server.About, version="0.0.1")
    monkeypatch.setattr(bench_server, "About", about)
    with pytest.raises(UnsupportedError, match=r"here runs SolKit 0\.0\.1, this machine"):
        RemoteBench(partial(Direct, recorded()), Trade(log))


class Opened:
    """The kind of a trusted bench whose GPU is fake."""

    def __init__(self, ahead):
        self.ahead = ahead

    def open(self, around):
        return TrustedBench(self.ahead, around.log, (), around.tell)


def test_files_travel_and_outcomes_have_the_drivers_names_sources_and_facts(
    tmp_path, log, monkeypatch
):
    ahead, process = fakes.fake(monkeypatch)
    folder = tmp_path / "scaling"
    folder.mkdir()
    (folder / "problem.py").write_text("KIND = 'elementwise'\n")
    (folder / "helper.py").write_text("A = 1\n")
    (folder / "scale.py").write_text("import helper\nimport os\n")
    kernel = kernel_at_path(folder / "scale.py")
    configurations = [
        Configuration(str(folder / "scale.py"), "kernel", {"N": 100}, params)
        for params in fakes.VALID
        if params["SPLIT"] == 1
    ]
    with RemoteBench(partial(Direct, Opened(ahead)), Trade(log), sends_files=True) as bench:
        bench.submit(configurations[:8])
        bench.submit(configurations[8:11])
        results = [got for _, got in bench.outcomes()]
        used = {handful.path for handful in process.handfuls}
    (there,) = used
    assert there != str(folder / "scale.py")
    assert there.endswith("scaling/scale.py")
    assert len(results) == 11
    for got in results:
        assert (got.kernel_id, got.family, got.path) == (
            *(kernel.kernel_id, "scaling"),
            str(folder / "scale.py"),
        )
        assert got.problem_id == kernel.problem_id({"N": 100})
    contents = read(log.path)
    assert {source.sha256 for source in contents.sources} == {file.sha256 for file in kernel.files}
    assert {row.facts_id for row in contents.rows} == {items.id for items in contents.facts}


# --------------------------------------------------------------------------------- worker processes


@pytest.mark.slow
def test_workers_share_the_work_and_a_killed_one_loses_nothing(log):
    messages = []
    kinds = [recorded(pace=0.02), recorded(pace=0.02)]
    with local_bench(kinds, Trade(log, tell=messages.append), ["GPU 0", "GPU 1"]) as bench:
        pids = [items._link.host.process.pid for items in bench.benches]
        requests = [at(n) for n in range(64)]
        bench.submit(requests)
        seen = []
        for item, _ in bench.outcomes():
            seen.append(item)
            if len(seen) == 9:
                os.kill(pids[0], signal.SIGKILL)
        assert Counter(map(id, seen)) == Counter(map(id, requests))
        (ended,) = (message for message in messages if "SIGKILL" in message)
        assert ended.startswith("NVIDIA H100 SXM5 80GB: GPU 0: its process was killed by SIGKILL")
    rows = read(log.path).rows
    assert Counter(row.params["BLOCK"] for row in rows) == Counter(range(64))
    assert not any(map(_is_alive, pids))


@pytest.mark.slow
def test_a_worker_has_a_timing_process_of_its_own(log, tmp_path):
    file = tmp_path / "scale.py"
    file.write_text("KIND = 'elementwise'\n")
    with local_bench([Timed()], Trade(log)) as bench:
        worker = bench.benches[0]._link.host.process.pid
        configurations = [
            Configuration(str(file), "kernel", {"N": 100}, item) for item in fakes.VALID[:8]
        ]
        bench.submit(configurations)
        results = [got for _, got in bench.outcomes()]
        right = [got for got in results if got.verdict is Verdict.CORRECT]
        (pid,) = {int(got.message) for got in right}
        assert pid not in (worker, os.getpid())
        assert _is_alive(pid)
        assert 0 < bench.clock.gpu_s() <= bench.clock.now_s()
    assert len(results) == 8
    assert not _is_alive(pid)


@pytest.mark.slow
def test_a_kernels_folder_on_the_path_shadows_no_module_of_a_worker(log, tmp_path, monkeypatch):
    (tmp_path / "select.py").write_text("raise ImportError('of the kernel')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with local_bench([recorded()], Trade(log)) as bench:
        bench.submit([at(0)])
        assert len(list(bench.outcomes())) == 1


@pytest.mark.slow
def test_a_worker_that_ended_is_started_again(log):
    with local_bench([recorded(pace=0.05)], Trade(log)) as bench:
        pid = bench.benches[0]._link.host.process.pid
        bench.submit([at(n) for n in range(16)])
        threading.Timer(0.1, os.kill, (pid, signal.SIGKILL)).start()
        assert len(list(bench.outcomes())) == 16
        assert bench.benches[0]._link.host.process.pid != pid


@pytest.mark.slow
def test_a_worker_that_hangs_is_ended(log):
    bench = RemoteBench(partial(ProcessLink, recorded(), "GPU 0"), Trade(log))
    with bench:
        bench._link._limit_s = 0.5
        bench.submit([at(0)])
        os.kill(bench._link.host.process.pid, signal.SIGSTOP)
        with pytest.raises(WorkerError, match=r"GPU 0: its process ran for over 0\.5 s"):
            list(bench.outcomes())


def test_the_worker_ends_with_its_driver(log):
    bench = RemoteBench(partial(ProcessLink, recorded(), "GPU 0"), Trade(log))
    pid = bench._link.host.process.pid
    bench._link.host._channel.close()  # as when the driver is killed
    deadline = time.monotonic() + 10
    while _is_alive(pid) and time.monotonic() < deadline:
        bench._link.host.process.wait(0.05)
    assert not _is_alive(pid)
    bench.close()


def _is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# ----------------------------------------------------------------------------------- GPUs by name


@pytest.fixture
def two(monkeypatch):
    gpus = [replace(fakes.DEVICE, uuid=f"GPU-{n}") for n in range(2)]
    monkeypatch.setattr(nvml, "live_devices", lambda: tuple(gpus))
    monkeypatch.setattr(nvml, "live_device", lambda index: gpus[index])
    monkeypatch.setattr(os, "cpu_count", lambda: 10)


@pytest.mark.usefixtures("two")
def test_gpus_are_named_by_number_place_or_all():
    def named(text):
        return [item.gpu for item in gpus_named(Trusted(), text)[0]]

    assert named("all") == named("2") == named("cuda:0,cuda:1") == ["GPU-0", "GPU-1"]
    assert named("cuda:1") == ["GPU-1"]
    kinds, names = gpus_named(Trusted(), "2")
    assert [kind.workers for kind in kinds] == [4, 4]  # of ten cores, two of which time
    assert names == ["NVIDIA H100 SXM5 80GB (GPU-0)", "NVIDIA H100 SXM5 80GB (GPU-1)"]
    assert [item.workers for item in gpus_named(Trusted(workers=3), "2")[0]] == [3, 3]


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(
    ("named", "error", "why"),
    [
        ("3", UnsupportedError, "--gpus 3: this machine has 2 GPUs"),
        ("0", UnsupportedError, "--gpus 0"),
        ("cuda:0,cuda:0", InputError, "each once"),
        ("some", InputError, "expected 'all', a number, or places"),
    ],
)
def test_what_names_no_gpu_is_refused(named, error, why):
    with pytest.raises(error, match=why):
        gpus_named(Trusted(), named)


def test_no_gpu_at_all_is_refused(log):
    with pytest.raises(InputError, match="no GPU is named"):
        local_bench([], Trade(log))


def test_the_verdict_of_what_ends_every_worker_is_that_it_was_not_measured(log):
    class Poison(Direct):
        def call(self, method, *args):
            if method == "submit" and any(o.configuration.params["BLOCK"] == 3 for o in args[0]):
                raise WorkerError("here: its worker is gone")
            return super().call(method, *args)

    from solkit.measure.benches import multi_gpu

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multi_gpu, "_REOPEN_S", 0.001)
        links = [RemoteBench(partial(Poison, recorded()), Trade(log)) for _ in range(2)]
        with multi_gpu.ManyBench(links, log=log) as bench:
            bench.submit([at(n) for n in range(8)])
            verdicts = {item.params["BLOCK"]: got.verdict for item, got in bench.outcomes()}
    assert verdicts.pop(3) is Verdict.NOT_MEASURED
    assert set(verdicts) == {0, 1, 2, 4, 5, 6, 7}
    assert set(verdicts.values()) == {Verdict.CORRECT}
