"""One SolKit at a time on a GPU, by real processes; and who else is there."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pynvml
import pytest

from solkit.core import Measurement, MeasureSettings, Verdict
from solkit.errors import GpuBusyError, UnsupportedError, WorkerError
from solkit.measure import Judgement, Session, is_available
from solkit.measure.guarded import processes as of_a_session
from solkit.measure.guarded import session as sessions
from solkit.measure.timing import gpu_lock as lock
from solkit.measure.timing import wait_queue
from solkit.measure.timing.gpu_lock import (
    GpuProcess,
    Neighbours,
    exclusive_gpu,
    gpu_processes,
    gpu_uuid,
    is_gpu_awaited,
    judge_company,
)
from solkit.processes.standby import IDLE_NAME

UUID = "GPU-a0000000-0000-0000-0000-000000000000"
HOLD = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
import sys
from solkit.measure.timing.gpu_lock import exclusive_gpu
with exclusive_gpu(sys.argv[1], 300):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SOLKIT_LOCKS", str(tmp_path))
    return tmp_path


@pytest.fixture
def hold():
    """Start processes that hold a GPU until their input ends; all are killed in the end."""
    started = []

    def hold(uuid=UUID):
        command = [sys.executable, "-c", HOLD, uuid]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen(command, text=True, **pipes)
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def take(limit_s=0.2, uuid=UUID):
    with exclusive_gpu(uuid, limit_s):
        return True


def test_the_holder_is_named(hold):
    process = hold()
    with pytest.raises(GpuBusyError) as caught:
        take()
    message = str(caught.value)
    assert message.startswith(f"{UUID} is in use by process {process.pid} (")
    assert f"{sys.executable} -c" in message
    assert f" since {time.gmtime().tm_year}-" in message
    assert "waited 0.2 s" in message


def test_another_gpu_is_free(hold):
    hold()
    assert take(uuid="GPU-b")


@pytest.mark.slow
def test_waiting_ends_when_the_holder_does_and_is_told_of_once(hold, caplog, monkeypatch):
    process = hold()
    hears = logging.Handler()
    hears.emit = lambda _: process.stdin.close()
    monkeypatch.setattr(lock._log, "handlers", [hears])
    assert take(limit_s=300)
    results = [record.getMessage() for record in caplog.records]
    assert len(results) == 1
    assert results[0].startswith(f"waiting for {UUID}, in use by process {process.pid} (")


@pytest.mark.quick("9", "11")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV, signal.SIGINT])
def test_the_dead_hold_nothing(hold, how):
    process = hold()
    process.send_signal(how)
    process.wait()
    assert take(limit_s=0)


def test_what_the_holder_started_does_not_hold_it_on():
    with exclusive_gpu(UUID, 0):
        child = subprocess.Popen(["sleep", "600"], close_fds=False)
    try:
        assert take(limit_s=0)
    finally:
        child.kill()
        child.wait()


def test_threads_of_one_process_wait_for_each_other():
    inside = []

    def work():
        for _ in range(5):
            with exclusive_gpu(UUID, 300):
                inside.append(1)
                assert sum(inside) == 1
                time.sleep(0.002)
                inside.append(-1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(inside), sum(inside)) == (40, 0)


def test_an_error_inside_frees_it():
    with pytest.raises(ZeroDivisionError), exclusive_gpu(UUID, 0):
        raise ZeroDivisionError
    assert take(limit_s=0)


def test_every_user_may_lock_the_file(folder):
    before = os.umask(0o077)
    try:
        take()
    finally:
        os.umask(before)
    paths = sorted(folder.iterdir())
    assert [path.suffix for path in paths] == [".lock", ".queue"]
    for path in paths:
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
        assert path.read_bytes() == b""  # nobody holds it: nobody is named


def test_a_signature_that_cannot_be_read_is_no_obstacle(folder, hold):
    hold()
    path = folder / f"solkit-{UUID}.lock"
    for garbage in (b"", b"{", b"[]", b'{"pid": "x"}', b"\xff" * 5000):
        path.write_bytes(garbage)
        with pytest.raises(GpuBusyError, match="an unidentified process"):
            take(limit_s=0)


@pytest.mark.parametrize("trap", ["link", "hard link", "folder", "fifo"])
def test_only_a_plain_file_is_written_to(folder, trap):
    precious = folder / "precious"
    precious.write_text("mine")
    path = folder / f"solkit-{UUID}.lock"
    if trap == "link":
        path.symlink_to(precious)
    elif trap == "hard link":
        path.hardlink_to(precious)
    elif trap == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(UnsupportedError, match="cannot lock the GPU by"):
        take()
    assert precious.read_text() == "mine"


def test_a_folder_that_is_not_there_is_passed_over(monkeypatch, tmp_path):
    monkeypatch.setenv("SOLKIT_LOCKS", str(tmp_path / "gone"))
    uuid = f"GPU-test-{os.getpid()}"
    path = Path("/tmp") / f"solkit-{uuid}.lock"
    try:
        assert take(uuid=uuid)
        assert path.exists()
    finally:
        path.unlink(missing_ok=True)
        path.with_suffix(".queue").unlink(missing_ok=True)


# ------------------------------------------------------------------------------------ the queue


@pytest.fixture
def waiting():
    """Start threads that wait for the GPU, each once the one before it waits; gives their order."""
    order, threads = [], []

    def wait(name):
        with exclusive_gpu(UUID, 300):
            order.append(name)

    def start(name):
        threads.append(threading.Thread(target=wait, args=(name,)))
        threads[-1].start()
        until(lambda: len(places()) == len(threads))
        return order

    yield start
    for thread in threads:
        thread.join()


def until(condition):
    """Wait until it is so."""
    end_s = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.005)


def places():
    """The bytes of the queue's file that are locked in this process, as the system lists them."""
    number = lock._lock_path(UUID).with_suffix(".queue").stat().st_ino
    rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return [row[6] for row in rows if row[1] == "OFDLCK" and row[5].endswith(f":{number}")]


def test_those_that_wait_get_it_in_the_order_in_which_they_came(waiting):
    with exclusive_gpu(UUID, 0):
        for name in "abcd":
            order = waiting(name)
    until(lambda: len(order) == 4)
    assert order == list("abcd")


def test_whoever_takes_it_again_at_once_starves_nobody(waiting):
    with exclusive_gpu(UUID, 0):
        waiting("another")
        order = waiting("a third")
    with exclusive_gpu(UUID, 300):
        assert order == ["another", "a third"]


def test_a_holder_finds_out_whether_it_is_awaited(waiting):
    assert not is_gpu_awaited(UUID)
    with exclusive_gpu(UUID, 0):
        assert not is_gpu_awaited(UUID)
        with pytest.raises(GpuBusyError):
            take(limit_s=0)
        assert not is_gpu_awaited(UUID), "one without patience has left"
        waiting("another")
        assert is_gpu_awaited(UUID)
        assert not is_gpu_awaited("GPU-b")


@pytest.fixture
def asleep():
    """A place in the queue whose owner does nothing, as a stopped process."""
    with lock._open_queue(lock._lock_path(UUID)) as queue:
        assert lock.join_queue(queue) is not None
        yield


@pytest.mark.usefixtures("asleep")
def test_one_without_patience_passes_nobody():
    with pytest.raises(GpuBusyError):
        take(limit_s=0)


@pytest.mark.usefixtures("asleep")
def test_a_waiter_that_does_not_take_a_free_gpu_is_passed(monkeypatch):
    monkeypatch.setattr(lock, "_ASLEEP_S", 300)
    with pytest.raises(GpuBusyError):
        take(limit_s=0.1)
    monkeypatch.setattr(lock, "_ASLEEP_S", 0.1)
    assert take(limit_s=300)


def test_the_locks_are_the_systems():
    assert (wait_queue._GETLK, wait_queue._SETLK) == (fcntl.F_OFD_GETLK, fcntl.F_OFD_SETLK)


def test_a_system_without_such_locks_has_no_order_but_a_lock(monkeypatch):
    monkeypatch.setattr(wait_queue.fcntl, "fcntl", Mock(side_effect=OSError(22, "invalid")))
    assert take(limit_s=0)
    with exclusive_gpu(UUID, 1):
        assert not is_gpu_awaited(UUID)
        with pytest.raises(GpuBusyError):
            take(limit_s=0.1)


# ---------------------------------------------------------------------------- foreign processes


@pytest.fixture
def other():
    """A process that is not of ours: adopted by init, since what started it is gone."""
    pid = start_orphan("sleep")
    yield pid
    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def idle(tmp_path):
    """The same, with the name of processes that wait for a command."""
    sleep = tmp_path / IDLE_NAME
    sleep.symlink_to(shutil.which("sleep"))
    pid = start_orphan(str(sleep))
    yield pid
    os.kill(pid, signal.SIGKILL)


def start_orphan(command):
    code = "import subprocess as s, sys; print(s.Popen(sys.argv[1:], stdout=-3, stderr=-3).pid)"
    inputs = [sys.executable, "-c", code, command, "600"]
    result = subprocess.run(inputs, capture_output=True, check=True)
    return int(result.stdout)


@pytest.fixture
def child():
    process = subprocess.Popen(["sleep", "600"])
    yield process.pid
    process.kill()
    process.wait()


def listed(*pids):
    return [GpuProcess(pid, 512 << 20) for pid in pids]


GONE = 2**22 + 1  # above the largest process number that Linux gives


def test_ours_alone(child):
    assert judge_company(listed(os.getpid(), child), [child]) == judge_company(
        listed(child), [child]
    )
    assert judge_company(listed(child), [child]).evidence == ()


def test_what_ours_started_is_ours(child):
    assert judge_company(listed(child), [os.getpid()]).evidence == ()
    assert judge_company(listed(child), [os.getppid()]).evidence == ()


def test_a_stranger_is_named(child, other):
    result = judge_company(listed(child, other), [child])
    assert result.evidence == (
        f"Other processes used the GPU: process {other} (sleep 600, 512 MiB).",
    )
    assert result.notes == ()


def test_before_ours_are_there_everybody_is_a_stranger(other):
    assert judge_company(listed(other), []).evidence
    assert judge_company([], []) == judge_company(listed(), [])
    assert not judge_company([], []).notes


def test_numbers_of_another_namespace_are_counted(child):
    two = [child, os.getpid()]
    same = judge_company(listed(GONE, GONE + 1), two)
    assert same.evidence == ()
    assert "another process namespace" in same.notes[0]
    more = judge_company(listed(GONE, GONE + 1, GONE + 2), two)
    assert more.evidence == ("NVML lists 3 processes on the GPU, of which 2 are SolKit's.",)


def test_processes_that_wait_for_a_command_are_no_company(child, idle):
    assert judge_company(listed(child, idle), [child]).evidence == ()
    strangers = judge_company(listed(GONE, GONE + 1, GONE + 2), [child, os.getpid()])
    assert strangers.evidence == (), "one of the three may be the idle one"


def test_a_list_that_lacks_even_ours_tells_nothing(child):
    result = judge_company([], [child])
    assert result.evidence == ()
    assert "not even SolKit" in result.notes[0]


class Library:
    """What `solkit.measure.timing.gpu_lock` asks of pynvml: two GPUs, two processes on the
    first."""

    uuids = (UUID, "GPU-b0000000-0000-0000-0000-000000000000")
    running = (
        SimpleNamespace(pid=7, usedGpuMemory=1024),
        SimpleNamespace(pid=8, usedGpuMemory=None),
    )
    open = 0

    def nvmlInit(self):  # noqa: N802
        self.open += 1

    def nvmlShutdown(self):  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self):  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        if index > 1:
            raise pynvml.NVMLError_InvalidArgument
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        return self.uuids.index(uuid)

    def nvmlDeviceGetUUID(self, gpu):  # noqa: N802
        return self.uuids[gpu]

    def nvmlDeviceGetComputeRunningProcesses(self, gpu):  # noqa: N802
        if gpu == 1:
            raise pynvml.NVMLError_NotSupported
        return self.running


@pytest.fixture
def library(monkeypatch):
    library = Library()
    for name in dir(Library):
        if name.startswith("nvml"):
            monkeypatch.setattr(pynvml, name, getattr(library, name))
    yield library
    assert library.open == 0


@pytest.mark.usefixtures("library")
def test_nvml_lists_who_is_on_a_gpu():
    assert gpu_processes(UUID) == (GpuProcess(7, 1024), GpuProcess(8, None))
    with pytest.raises(UnsupportedError, match="Not Supported"):
        gpu_processes(Library.uuids[1])


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    ("visible", "index"), [("0", 0), ("1", 1), (Library.uuids[1], 1), ("GPU-b", 1)]
)
def test_what_cuda_may_see_has_a_uuid(visible, index):
    assert gpu_uuid(visible) == Library.uuids[index]


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("visible", ["2", "", "GPU-c", "-1"])
def test_what_is_not_there_has_none(visible):
    with pytest.raises(UnsupportedError, match="NVML"):
        gpu_uuid(visible)


def test_a_slice_is_its_own_uuid():
    assert gpu_uuid("MIG-c") == "MIG-c"


# ------------------------------------------------------------------------------------ sessions


@pytest.fixture
def one_gpu(monkeypatch):
    """A session that is told of a GPU, though torch sees none."""
    monkeypatch.setattr(of_a_session, "gpu_uuid", lambda _: UUID)


@pytest.mark.usefixtures("one_gpu")
def test_a_session_waits_for_the_gpu_before_it_starts_anything(hold):
    process = hold()
    with Session(MeasureSettings(patience_s=0.1)) as session:
        with pytest.raises(GpuBusyError, match=f"process {process.pid}"):
            session.measure("kernel.py", {}, {})
        assert session.pids == ()


@pytest.mark.slow
@pytest.mark.usefixtures("one_gpu")
@pytest.mark.skipif(is_available(), reason="there is a GPU")
def test_a_session_holds_the_gpu_until_it_is_closed(write):
    with Session() as session:
        with pytest.raises(UnsupportedError, match="sees no CUDA device"):
            session.measure(write("def kernel(): pass"), {}, {})
        with pytest.raises(GpuBusyError, match=f"process {os.getpid()}"):
            take()
    assert take(limit_s=0)


@pytest.fixture
def session(monkeypatch, one_gpu):  # noqa: ARG001
    """A session that holds the GPU; its processes are counted instead of started."""
    monkeypatch.setattr(sessions, "_LOOK_S", 0.01)
    monkeypatch.setattr(sessions, "_IDLE_S", 0.05)
    monkeypatch.setattr(of_a_session.Processes, "_restart", lambda own: own.restarts.append(1))
    with Session(MeasureSettings(patience_s=300)) as session:
        session._processes.restarts = []
        session.left = []
        session.await_gpu()
        session.on_leave = lambda: session.left.append(1)
        yield session


def test_a_session_that_is_idle_leaves_the_gpu_to_one_that_waits(session, hold):
    other = hold()
    until(lambda: session.left)  # the other one may be quicker
    assert session.left == [1]
    session._processes._patience_s = 0.1
    again = threading.Thread(target=session.await_gpu)
    again.start()
    until(places)
    again.join(0.2)
    assert again.is_alive(), "its patience has no end: it had the GPU before"
    other.stdin.close()
    again.join()
    assert (session.left[0], session._processes.restarts) == (1, [1])
    with pytest.raises(GpuBusyError, match=f"process {os.getpid()}"):
        take(limit_s=0)


def test_a_session_whose_processes_do_not_end_leaves_the_gpu_later(session, waiting):
    leave_gpu, failures = session._processes.leave_gpu, []

    def leave_later():
        if not failures:
            failures.append(1)
            raise WorkerError("a process still exists")
        return leave_gpu()

    session._processes.leave_gpu = leave_later
    order = waiting("another")
    until(lambda: order)
    assert failures


def test_a_session_that_is_alone_keeps_the_gpu(session):
    time.sleep(0.2)
    session.await_gpu()
    assert (session.left, session._processes.restarts) == ([], [])


def test_a_session_whose_processes_ended_says_so_before_it_waits_again(session):
    session._processes.close()  # as after a candidate that hangs: the GPU is free
    with exclusive_gpu(UUID, 0):
        again = threading.Thread(target=session.await_gpu)
        again.start()
        until(places)
        assert session.left, "waiting must not count as time with the GPU"
    again.join()


def test_a_session_leaves_the_gpu_in_no_request(session, waiting):
    with session._using_gpu():
        order = waiting("another")
        time.sleep(0.2)
        assert order == []
    until(lambda: order)


def test_a_session_leaves_the_gpu_between_requests_once_its_turn_is_over(
    session, waiting, monkeypatch
):
    monkeypatch.setattr(sessions, "_IDLE_S", 300)
    order = waiting("another")
    session.await_gpu()
    assert order == []
    monkeypatch.setattr(sessions, "_TURN_S", 0.0)
    session.await_gpu()
    assert order == ["another"]
    assert (session.left, session._processes.restarts) == ([1], [1])


def test_nothing_watches_a_closed_session(session):
    session.close()
    until(lambda: all(t.name != "solkit-watching-gpu" for t in threading.enumerate()))


def outcome_among(strangers, verdict, monkeypatch):
    """What a session makes of an outcome, where two of ours and some strangers are on the GPU."""
    ours = [GpuProcess(os.getpid()), GpuProcess(os.getpid())]
    monkeypatch.setattr(lock, "gpu_processes", lambda _: (*ours, *strangers))
    own = SimpleNamespace(pids=(os.getpid(),), uuid=UUID)
    wait = sessions.Wait(own, None, (), 1.0, 1 << 30)
    wait._look_for_neighbours()
    wait._look_for_neighbours()
    timed = Measurement(1.0, 1.0, 1.0, None, 1.0, "cupti", 0.0, 20)
    return sessions._with_company(Judgement(verdict, ("a note",), None, timed), wait.company)


def test_a_stranger_makes_a_time_unstable(other, monkeypatch):
    outcome = outcome_among([GpuProcess(other)], Verdict.CORRECT, monkeypatch)
    assert outcome.verdict is Verdict.UNSTABLE
    assert outcome.errors == (
        f"Other processes used the GPU: process {other} (sleep 600).",
        "a note",
    )


def test_a_stranger_excuses_nothing(other, monkeypatch):
    outcome = outcome_among([GpuProcess(other)], Verdict.DEGENERATE_PROBLEM, monkeypatch)
    assert outcome.verdict is Verdict.DEGENERATE_PROBLEM
    assert len(outcome.errors) == 2


def test_ours_make_nothing_unstable(monkeypatch):
    outcome = outcome_among([], Verdict.CORRECT, monkeypatch)
    assert (outcome.verdict, outcome.errors) == (Verdict.CORRECT, ("a note",))
    assert outcome.samples.neighbours == ()


@pytest.mark.skipif(is_available(), reason="there is a GPU")
def test_a_look_that_fails_is_told():
    neighbours = Neighbours(UUID)
    neighbours.look([os.getpid()])
    assert neighbours.seen.evidence == ()
    assert neighbours.seen.notes[0].startswith("Other users of the GPU are unknown: NVML: ")
