"""The worker process: what comes back, and what happens to jobs that misbehave."""

from __future__ import annotations

import importlib
import os
import select
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import solkit
from solkit.errors import JobDiedError, UnsupportedError, WorkerError
from solkit.processes import forkserver
from solkit.processes import jobs as worker
from solkit.processes.forkserver import ForkServer
from solkit.processes.host import python_command

SHARED = worker.shared_jobs()  # with other tests


@pytest.fixture(autouse=True, scope="module")
def server_without_torch(tmp_path_factory):
    """Jobs here need no torch, and servers come and go: let none spend seconds on loading it."""
    folder = tmp_path_factory.mktemp("light")
    (folder / "light_study.py").write_text("def warm_up():\n    pass\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "_shared", worker.Jobs("light_study:warm_up"))
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)  # dependencies may lie there
        yield
        worker.shared_jobs().close()


def test_the_server_has_torch_and_triton_ready(monkeypatch):
    loaded = "builtins:eval", "sorted({'torch', 'triton'} & set(__import__('sys').modules))"
    assert worker.call(*loaded) == []
    monkeypatch.setattr(worker, "_shared", SHARED)
    assert worker.call(*loaded) == ["torch", "triton"]


def test_a_job_returns_its_value_and_runs_elsewhere():
    assert worker.call("math:hypot", 3.0, 4.0) == 5.0
    assert worker.call("os:getpid") != os.getpid()


def test_every_job_has_a_process_of_its_own():
    worker.call("os:putenv", "SOLKIT_TEST", "1")
    assert worker.call("os:getenv", "SOLKIT_TEST") is None
    assert worker.call("os:getpid") != worker.call("os:getpid")


def test_arguments_may_have_classes_that_only_the_caller_finds(tmp_path, monkeypatch):
    worker.call("os:getpid")  # the server's module path was set before
    (tmp_path / "found_late.py").write_text("class Given(str): ...")
    monkeypatch.syspath_prepend(str(tmp_path))
    inputs = importlib.import_module("found_late").Given("told")
    assert worker.call("builtins:str", inputs) == "told"


def test_jobs_see_no_gpu():
    assert worker.call("os:getenv", "CUDA_VISIBLE_DEVICES") == ""


def test_an_unexpected_error_carries_its_traceback():
    with pytest.raises(WorkerError, match=r"(?s)Traceback.*math domain error|expected a"):
        worker.call("math:sqrt", -1.0)


def test_a_crash_names_its_signal_and_the_next_job_runs():
    with pytest.raises(JobDiedError, match="died of SIGABRT") as death:
        worker.call("os:abort")
    assert not death.value.timed_out
    assert worker.call("math:hypot", 3.0, 4.0) == 5.0


def test_a_hang_is_killed_at_its_time_limit():
    start = time.monotonic()
    with pytest.raises(JobDiedError, match=r"^its process ran for over 0\.5 s") as death:
        worker.call("time:sleep", 600, timeout_s=0.5)
    assert death.value.timed_out
    assert time.monotonic() - start < 300  # it would sleep for 600


def wait_until_dead(server: ForkServer) -> None:
    while server.is_alive:
        time.sleep(0.01)


def test_a_dead_server_is_an_error_and_is_replaced():
    worker.call("os:getpid")
    os.kill(worker.shared_jobs().server.pid, signal.SIGKILL)
    wait_until_dead(worker.shared_jobs().server)
    assert worker.call("math:hypot", 3.0, 4.0) == 5.0


def test_a_program_ends_what_is_kept_and_starts_it_again(monkeypatch):
    server = worker.shared_jobs().server
    monkeypatch.setattr(forkserver, "_servers", [server])  # those of other tests stay
    worker.call("os:getpid")
    solkit.close()
    assert not server.is_alive
    solkit.close()
    assert worker.call("math:hypot", 3.0, 4.0) == 5.0


def test_a_job_that_the_system_kills_did_not_run_out_of_time():
    with pytest.raises(JobDiedError, match="SIGKILL, usually because memory ran out") as death:
        worker.call("builtins:exec", "import os; os.kill(os.getpid(), 9)")
    assert not death.value.timed_out


LEAVING_FILES = """
import os, tempfile
handle, path = tempfile.mkstemp(dir={folder})
open({told!r}, "w").write(path)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("folder", ["None", "os.environ['TMPDIR']"])
def test_a_killed_job_leaves_no_temporary_files(tmp_path, folder):
    result = tmp_path / "told"
    with pytest.raises(JobDiedError):
        worker.call("builtins:exec", LEAVING_FILES.format(folder=folder, told=str(result)))
    remaining_path = Path(result.read_text())
    assert not remaining_path.exists()
    assert not remaining_path.parent.exists()  # nor the folder that it had for them


def caller(code: str, cwd: Path) -> subprocess.Popen[str]:
    light = (
        "import signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it\n"
        "from solkit.processes import jobs as worker\n"
        "worker._shared = worker.Jobs('light_study:warm_up')\n"
    )
    return subprocess.Popen(
        python_command(light + code), cwd=cwd, text=True, stdout=subprocess.PIPE
    )


def alive(fd: int) -> bool:
    """Whether anyone still holds the write end of a pipe."""
    readable, _, _ = select.select([fd], [], [], 240.0)
    return not readable or os.read(fd, 1 << 16) != b""


ENDLESS = """
import sys
job = '''
import os
os.open({fifo!r}, os.O_WRONLY)  # held open by the job and by its child, until both have ended
if os.fork() == 0:
    {leave}
    while True: pass
print('running', file=open({started!r}, 'w'), flush=True)
while True: pass
'''
try:
    worker.call('builtins:exec', job)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.quick("pass-caller-9")
@pytest.mark.parametrize(
    ("victim", "number"),
    [("caller", signal.SIGINT), ("caller", signal.SIGKILL), ("caller", signal.SIGTERM),
     ("server", signal.SIGTERM), ("server", signal.SIGKILL)],
)  # fmt: skip
@pytest.mark.parametrize("leave", ["pass", "os.setsid()"])
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system must help")
def test_no_job_outlives_what_wants_its_answer(tmp_path, victim, number, leave):
    fifo, started = str(tmp_path / "fifo"), tmp_path / "started"
    os.mkfifo(fifo)
    held = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    process = caller(ENDLESS.format(fifo=fifo, started=str(started), leave=leave), tmp_path)
    while not started.exists():
        assert process.poll() is None
        time.sleep(0.05)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(process.pid if victim == "caller" else int(children[0]), number)
    process.communicate(timeout=240)
    if number == signal.SIGINT:
        assert process.returncode == 130
    assert not alive(held)
    os.close(held)


FORKS = """
import os, threading, time

def fork():
    heard, says = os.pipe()
    awaited, starts = os.pipe()

    def begin():
        if os.fork() == 0:
            os.write(says, b'forked')
            os.read(awaited, 1)
            os.write(says, b', lives')
            os._exit(0)
        os.read(heard, 6)

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    while os.path.exists(f'/proc/self/task/{thread.native_id}'):
        time.sleep(0.001)
    os.write(starts, b'.')
    os.close(says)
    return os.read(heard, 7)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system must help")
def test_what_a_thread_of_a_job_forks_outlives_the_thread(tmp_path, monkeypatch):
    (tmp_path / "forks_in_a_thread.py").write_text(FORKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert worker.call("forks_in_a_thread:fork") == b", lives"


def test_modules_in_the_working_directory_do_not_stand_in_for_the_standard_librarys(tmp_path):
    for name in ("random", "copy", "queue", "profile", "pickle"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the decoy was imported')")
    code = "print(worker.call('math:hypot', 3.0, 4.0))"
    assert caller(code, tmp_path).communicate(timeout=240)[0] == "5.0\n"


def test_jobs_find_what_the_caller_has_at_the_time_of_the_call(tmp_path, monkeypatch):
    worker.call("os:getpid")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOLKIT_TEST", "set after the server was started")
    assert worker.call("os:getcwd") == str(tmp_path)
    assert worker.call("os:getenv", "SOLKIT_TEST") == "set after the server was started"
    monkeypatch.setenv("OMP_NUM_THREADS", "7")  # but a job has one thread whatever it says
    assert worker.call("os:getenv", "OMP_NUM_THREADS") == "1"


@pytest.mark.slow
def test_a_fork_of_the_caller_has_a_server_of_its_own(tmp_path):
    code = """
import os, sys
first = worker.call('os:getppid')
if os.fork() == 0:
    assert worker.call('os:getppid') != first
    sys.exit()  # with its exit handlers
status = os.wait()[1]
print(status, worker.call('os:getppid') == first)
"""
    assert caller(code, tmp_path).communicate(timeout=240)[0] == "0 True\n"


def sandbox_trouble() -> str:
    """Why there can be no sandbox here; empty where there can."""
    try:
        worker.SandboxedJobs().close()
        return ""
    except UnsupportedError as error:
        return str(error)


@pytest.mark.skipif(bool(sandbox_trouble()), reason=sandbox_trouble())
def test_jobs_in_a_sandbox(tmp_path, monkeypatch):
    home, folder = tmp_path / "home", tmp_path / "folder"
    home.mkdir()
    folder.mkdir()
    kernel = folder / "kernel.py"
    kernel.write_text("")
    monkeypatch.setenv("HOME", str(home))
    jobs = worker.SandboxedJobs("gc:collect")  # no torch is needed here
    shown = {"shown": [str(kernel)]}
    assert jobs.call("os.path:exists", str(kernel), **shown)
    assert not jobs.call("os.path:exists", str(home), **shown)
    assert jobs.call("math:hypot", 3.0, 4.0, **shown) == 5.0
    with pytest.raises(WorkerError, match=r"pathlib\.\w+ is not one of SolKit's records"):
        jobs.call("pathlib:PurePosixPath", "what it answers could be anything", **shown)
    with pytest.raises(JobDiedError, match="SIGABRT"):
        jobs.call("os:abort", **shown)
    assert worker.call("os.path:exists", str(home))  # others run outside it meanwhile
    jobs.close()


@pytest.mark.skipif(bool(sandbox_trouble()), reason=sandbox_trouble())
def test_a_sandbox_that_must_show_more_ends_no_job_of_another(tmp_path):
    jobs = worker.SandboxedJobs("gc:collect")
    kernels = [tmp_path / name / "kernel.py" for name in ("a", "b")]
    for kernel in kernels:
        kernel.parent.mkdir()
        kernel.write_text("")
    first, second = ({"shown": [str(kernel)]} for kernel in kernels)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(jobs.call, "os:read", 0, 1, timeout_s=300, **first)
        job = "builtins:exec", f"import time; time.sleep(1); open({str(kernels[0])!r})"
        running = pool.submit(jobs.call, *job, **first)
        assert jobs.call("os.path:exists", str(kernels[1]), **second)
        assert running.result() is None
        assert waiting.result() == b""  # its input is empty
    jobs.close()


MEETING = """
import os, time
open({here!r}, "w")
while not os.path.exists({there!r}):
    time.sleep(0.01)
"""


def test_jobs_run_beside_each_other(tmp_path):
    """Each waits for a file of the other's."""
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    with ThreadPoolExecutor() as pool:
        codes = MEETING.format(here=a, there=b), MEETING.format(here=b, there=a)
        jobs = [pool.submit(worker.call, "builtins:exec", code, timeout_s=300) for code in codes]
        assert [job.result() for job in jobs] == [None, None]
