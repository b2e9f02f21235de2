"""A daemon that keeps processes ready, on the CPU, with a clock of the test's."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest

from solkit.core import MeasureSettings, Verdict
from solkit.errors import InputError, WorkerError
from solkit.measure import Session
from solkit.measure.guarded import processes
from solkit.measure.guarded import standby as daemon_module
from solkit.measure.guarded.standby import Standby, StandbySettings
from solkit.measure.timing.gpu_lock import gpu_uuid
from solkit.processes import standby as client
from solkit.processes.channel import NonsenseError
from solkit.processes.forkserver import ForkServer

LIMIT_S = 60.0
HEAD = """
import os
import torch

def inputs(N=16, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * 2
"""


class Clock:
    """Time stands still unless a test moves it."""

    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


class Daemon:
    """A daemon in a thread of this process."""

    def __init__(self, path, gpu=None, device="cpu", **settings):
        self.clock = Clock()
        self.standby = Standby(StandbySettings(gpu, device, **settings), clock=self.clock)
        self.ended = None
        self._thread = threading.Thread(target=self._serve, args=(path,), daemon=True)
        self._thread.start()
        assert wait_until(lambda: self.ended or answers())

    def _serve(self, path):
        self.ended = self.standby.serve(path)

    def join(self):
        self._thread.join(LIMIT_S)
        return self.ended


@pytest.fixture
def path(tmp_path, monkeypatch):
    folder = tmp_path / "own"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("SOLKIT_STANDBY", str(folder / "s"))
    client.Identity.here.cache_clear()
    yield folder / "s"
    client.release_borrowed()
    client.Identity.here.cache_clear()


@pytest.fixture
def bare(monkeypatch):
    """No processes are prepared: what is lent loads nothing."""
    monkeypatch.setattr(Standby, "_prepare_pair", lambda _: None)
    monkeypatch.setattr("solkit.processes.jobs.PREPARE", "gc:collect")


@pytest.fixture
def daemon(path, bare):  # noqa: ARG001 - nothing is prepared
    daemon = Daemon(path)
    yield daemon
    client.release_borrowed()
    daemon.standby.stop()
    daemon.join()


def wait_until(condition):
    limit_s = time.monotonic() + LIMIT_S
    while not (value := condition()) and time.monotonic() < limit_s:
        time.sleep(0.01)
    return value


def name_of(pid):
    """Name of a process, as the system shows it; empty if there is none."""
    comm = Path(f"/proc/{pid}/comm")
    return comm.read_text().strip() if comm.exists() else ""


def answers():
    try:
        return client.ask_daemon({"status": True})
    except client.ClosedError:  # it ended meanwhile
        return None


def status():
    return client.ask_daemon({"status": True})["status"]


def test_a_session_takes_the_pair_and_the_next_gets_another(path, tmp_path, monkeypatch):
    server = ForkServer(processes.PREPARE, processes.ENVIRONMENT, borrows=True)
    monkeypatch.setattr(processes, "measuring_server", server)
    monkeypatch.setattr("solkit.processes.jobs.PREPARE", "gc:collect")  # nothing is analysed
    kernel = tmp_path / "mine.py"
    kernel.write_text(
        HEAD + 'def kernel(x): raise ValueError(os.environ["SOLKIT_X"] + os.getcwd())'
    )
    daemon = Daemon(path)
    assert wait_until(lambda: status()["pair"] == "ready")
    pair = daemon.standby._pair
    assert [name_of(pid) for pid in pair.pids] == [client.IDLE_NAME] * 2
    monkeypatch.setenv("SOLKIT_X", "mine ")
    monkeypatch.chdir(tmp_path)
    with Session(MeasureSettings(), device="cpu") as session:
        judged = session.measure(str(kernel), {}, {})
        assert session.pids == pair.pids
        assert judged.verdict is Verdict.CRASHED
        assert f"mine {tmp_path}" in "\n".join(judged.errors)
        assert client.IDLE_NAME not in map(name_of, pair.pids)
        assert status()["users"] == 1
        assert status()["pair"] != "ready", "none is prepared while a command measures"
    assert wait_until(lambda: not any(map(name_of, pair.pids)))
    server.close()
    client.release_borrowed()
    assert wait_until(lambda: status()["users"] == 0)
    daemon.clock.now_s += 10.0
    assert wait_until(lambda: status()["pair"] == "ready")
    assert not set(daemon.standby._pair.pids) & set(pair.pids)
    last = daemon.standby._pair.pids
    daemon.standby.stop()
    assert daemon.join() == "stopped"
    assert not any(map(name_of, last))


def test_a_sandboxed_session_asks_for_nothing(monkeypatch):
    def refuse(*_):
        raise AssertionError("asked")

    monkeypatch.setattr(processes, "take_pair", refuse)
    monkeypatch.setattr(processes, "Sandbox", lambda *_: None)
    kept = processes.Processes("", "cpu", MeasureSettings(sandbox=True))
    assert not kept._take_ready_pair()


def test_a_gpu_that_nvml_does_not_name_gets_no_pair(monkeypatch):
    monkeypatch.setattr(processes, "take_pair", lambda *_: pytest.fail("asked"))
    assert not processes.Processes("0", "cuda", MeasureSettings())._take_ready_pair()


@pytest.mark.usefixtures("daemon")
def test_a_pair_of_another_device_is_refused():
    assert client.take_pair("GPU-1", "cuda") is None
    assert client.take_pair(None, "cpu") is None, "none is ready"


def test_another_environment_is_refused_and_named(daemon, monkeypatch):
    monkeypatch.setenv("MKL_NUM_THREADS", "3")
    client.Identity.here.cache_clear()
    assert client.borrow_server("gc:collect", {}) is None
    assert status()["refusal"].endswith("MKL_NUM_THREADS")
    assert daemon.ended is None


@pytest.mark.usefixtures("daemon")
def test_what_a_shell_sets_by_itself_makes_no_difference(monkeypatch, tmp_path):
    for name in ("TERM", "PWD", "SSH_TTY", "SOLKIT_SPANS", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "other"))
    client.Identity.here.cache_clear()
    assert client.borrow_server("gc:collect", {}) is not None


def test_after_an_upgrade_it_refuses_and_ends(daemon, monkeypatch):
    monkeypatch.setattr(client, "_stamp_of_library", lambda name, _: f"a newer {name}")
    client.Identity.here.cache_clear()
    assert client.borrow_server("gc:collect", {}) is None
    assert daemon.join() == "upgraded"


def test_a_command_of_another_installation_gets_nothing_and_ends_nothing(daemon, monkeypatch):
    other = client.Identity({"torch": "elsewhere"}, {})
    with monkeypatch.context() as patched:
        patched.setattr(client.Identity, "here", lambda: other)
        assert client.borrow_server("gc:collect", {}) is None
        assert "torch" in status()["refusal"]
    assert client.borrow_server("gc:collect", {}) is not None
    assert daemon.ended is None


def test_a_server_that_cannot_be_lent_costs_the_daemon_nothing(daemon, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(ForkServer, "lend", lambda _: (_ for _ in ()).throw(WorkerError("gone")))
        assert client.borrow_server("gc:collect", {}) is None
    assert client.borrow_server("gc:collect", {}) is not None
    assert daemon.ended is None


def test_a_pair_that_has_ended_is_handed_to_nobody(daemon):
    (control, _), (one, end), (other, _end) = (client.socket.socketpair() for _ in range(3))
    outputs = tuple(os.open(os.devnull, os.O_RDONLY) for _ in range(2))
    pair = client.ReadyPair(client.Channel(control, trusting=True), (1, 2), (one, other), outputs)
    daemon.standby._pair = pair
    assert pair.is_alive
    assert status()["pair"] == "ready"
    end.close()
    assert wait_until(lambda: daemon.standby._pair is None)
    assert one.fileno() == -1


def test_it_ends_when_nobody_uses_it_for_long(daemon):
    daemon.clock.now_s += 1799.0
    assert status()["users"] == 0
    assert daemon.ended is None
    daemon.clock.now_s += 2.0
    assert daemon.join() == "idle"


def test_use_postpones_the_end(daemon):
    assert client.borrow_server("gc:collect", {}) is not None
    daemon.clock.now_s += 5000.0
    assert status()["users"] == 1
    client.release_borrowed()
    assert wait_until(lambda: status()["users"] == 0)
    assert daemon.ended is None


@pytest.mark.usefixtures("bare")
def test_it_ends_beyond_its_memory(path):
    assert Daemon(path, memory_bytes=1).join() == "memory"


def test_it_awaits_what_it_lent_before_it_stops(daemon):
    process, control = client.borrow_server("gc:collect", {})
    assert client.ask_daemon({"stop": True}) == {"users": 1}
    assert client.borrow_server("gc:collect", {}) is None, "it is ending"
    assert process.wait(0.0) is None
    client.release_borrowed()
    assert daemon.join() == "stopped"
    assert process.wait(LIMIT_S) == 0
    control.close()


@pytest.mark.usefixtures("daemon")
def test_other_users_get_no_answer(monkeypatch):
    monkeypatch.setattr("solkit.measure.guarded.standby.is_own_peer", lambda _: False)
    assert client.borrow_server("gc:collect", {}) is None


@pytest.mark.usefixtures("daemon")
def test_what_it_forked_gets_nothing():
    server = ForkServer("gc:collect", {}, borrows=True)
    ask = "from solkit.processes.standby import borrow_server as b; assert b('gc:collect', {})"
    assert server.fork("builtins:exec", (ask, {}), env=os.environ).end(LIMIT_S) == 1
    server.close()


@pytest.mark.usefixtures("daemon")
def test_the_daemon_of_another_user_is_not_asked(monkeypatch):
    monkeypatch.setattr(client, "is_own_peer", lambda _: False)
    assert client.ask_daemon({"status": True}) is None


@pytest.mark.usefixtures("daemon")
def test_nonsense_costs_the_sender_its_connection():
    with client._connection() as channel:
        channel.send({"lend": "gc:collect"})  # says not who it is
        with pytest.raises(client.ClosedError):
            channel.receive(LIMIT_S)
    assert status()["users"] == 0


def test_a_pair_that_sends_nonsense_is_ended_and_the_next_one_prepared(monkeypatch):
    closed = []

    class Control:
        def send(self, *_, **__):
            pass

        def receive(self, _):
            raise NonsenseError("no frame")

    pair = SimpleNamespace(control=Control(), close=lambda: closed.append(1))
    monkeypatch.setattr(daemon_module, "start_ready_pair", lambda *_: pair)
    standby = Standby(StandbySettings(None, "cpu"), client.Identity({}, {}), Clock())
    for number in (1, 2):
        standby._retry_s = 0.0
        standby._tend_processes()
        if (preparing := standby._preparing) is not None:
            preparing.join(LIMIT_S)
        assert (len(closed), standby._preparing, standby._pair) == (number, None, None)


def test_a_pair_that_cannot_be_started_leaves_no_pipe_open(monkeypatch):
    class Gone:
        def __init__(self):
            self.forks = 0

        def fork(self, *_, **__):
            self.forks += 1
            if self.forks > 1:
                raise WorkerError("the server is gone")
            return SimpleNamespace(pid=1)

    opened, closed, pipe, close = [], [], os.pipe, os.close

    def pipe_noted():
        opened.extend(ends := pipe())
        return ends

    monkeypatch.setattr(os, "pipe", pipe_noted)
    monkeypatch.setattr(os, "close", lambda file: (closed.append(file), close(file)))
    with pytest.raises(WorkerError, match="gone"):
        processes.start_ready_pair(Gone(), "", "cpu")
    assert sorted(closed) == sorted(opened)


@pytest.mark.usefixtures("daemon")
def test_a_second_one_is_refused(path):
    with pytest.raises(InputError, match="already listens"):
        Standby(StandbySettings(None, "cpu")).serve(path)


@pytest.mark.usefixtures("bare")
def test_the_socket_of_a_killed_one_is_replaced(path):
    with client.socket.socket(client.socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert client.ask_daemon({"status": True}) is None
    daemon = Daemon(path)
    assert wait_until(lambda: client.ask_daemon({"stop": True}))
    assert daemon.join() == "stopped"


def test_a_folder_that_others_may_enter_is_refused(path):
    path.parent.chmod(0o755)
    with pytest.raises(InputError, match="chmod 700"):
        Standby(StandbySettings(None, "cpu")).serve(path)


def test_a_folder_that_is_a_link_is_refused(path):
    link = path.parent.with_name("link")
    link.symlink_to(path.parent)
    with pytest.raises(InputError, match="no link"):
        Standby(StandbySettings(None, "cpu")).serve(link / "s")


def test_a_file_in_the_sockets_place_stays(path):
    path.write_text("mine")
    with pytest.raises(InputError, match="is no socket"):
        Standby(StandbySettings(None, "cpu")).serve(path)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("name", ["s" * 150, "s" * 300])
def test_a_path_that_is_too_long_is_the_users_fault(path, monkeypatch, name):
    monkeypatch.setenv("SOLKIT_STANDBY", str(path.with_name(name)))
    assert client.borrow_server("gc:collect", {}) is None
    with pytest.raises(InputError, match="no standby can listen"):
        Standby(StandbySettings(None, "cpu")).serve(path.with_name(name))


@pytest.mark.usefixtures("daemon")
def test_a_borrowed_server_prints_where_its_borrower_does(capfd):
    server = ForkServer("gc:collect", {}, borrows=True)
    code = dedent("import sys; print('here', file=sys.stderr)")
    assert server.fork("builtins:exec", (code, {}), env=os.environ).end(LIMIT_S) == 0
    assert "here" in capfd.readouterr().err
    server.close()


@pytest.mark.usefixtures("path")
def test_without_a_daemon_a_server_is_started():
    server = ForkServer("gc:collect", {}, borrows=True)
    server.load()
    assert server.is_alive
    server.close()


DOUBLING = """
import torch
import triton
import triton.language as tl

def inputs(N=1 << 24, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * 2

@triton.jit
def double(x, y, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < N) * 2, mask=at < N)

def kernel(x):
    y = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
"""


@pytest.mark.gpu
def test_on_a_gpu_the_pair_measures_and_idle_ones_are_no_company(path, tmp_path, monkeypatch):
    server = ForkServer(processes.PREPARE, processes.ENVIRONMENT, borrows=True)
    monkeypatch.setattr(processes, "measuring_server", server)
    kernel = tmp_path / "mine.py"
    kernel.write_text(DOUBLING)
    daemon = Daemon(path, gpu=gpu_uuid("0"), device="cuda")
    assert wait_until(lambda: status()["pair"] == "ready")
    pair = daemon.standby._pair
    monkeypatch.setenv("SOLKIT_STANDBY", "")
    with Session(MeasureSettings()) as session:  # of one who does not know of the daemon
        alone = session.measure(str(kernel), {}, {})
        assert not set(session.pids) & set(pair.pids)
    assert (alone.verdict, daemon.standby._pair) == (Verdict.CORRECT, pair)
    monkeypatch.setenv("SOLKIT_STANDBY", str(path))
    server.close()
    with Session(MeasureSettings()) as session:
        judged = session.measure(str(kernel), {}, {})
        assert session.pids == pair.pids
        again = session.measure(str(kernel), {}, {})
    assert (judged.verdict, again.verdict) == (Verdict.CORRECT, Verdict.CORRECT)
    assert judged.measurement.median_ms == pytest.approx(alone.measurement.median_ms, rel=0.1)
    server.close()
    client.release_borrowed()
    assert wait_until(lambda: status()["users"] == 0)
    daemon.clock.now_s += 10.0
    assert wait_until(lambda: status()["pair"] == "ready"), "the lock is free again"
    daemon.standby.stop()
    assert daemon.join() == "stopped"
