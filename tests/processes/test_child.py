from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from solkit.errors import WorkerError
from solkit.processes import forkserver
from solkit.processes.channel import Channel
from solkit.processes.child import Child
from solkit.processes.forkserver import DerivedServer, ForkServer, children_of


@pytest.fixture(scope="module")
def server():
    server = ForkServer("gc:collect", {"PYTHONUNBUFFERED": "1"})  # these need no torch
    yield server
    server.close()


@pytest.fixture
def start(server):
    started = []

    def start(code, **options):
        inputs = f"import os, sys\n{code}", {}
        child = Child.start(server, "builtins:exec", inputs, env=os.environ, **options)
        started.append(child)
        return child

    yield start
    for child in started:
        child.end()


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # reaped before the open, or after it
        return False
    return state != "Z"  # a zombie that nobody reaps is as good as dead


LIMIT_S = 300  # only what hangs takes so long


def wait_until(condition):
    for _ in range(LIMIT_S * 50):
        if condition():
            return True
        time.sleep(0.02)
    return False


def written(path):
    assert wait_until(lambda: path.exists() and path.read_text())
    return int(path.read_text())


def test_prints_are_kept(start):
    child = start("print('hello'); print('oh', file=sys.stderr)")
    assert child.end(LIMIT_S) == 0
    assert set(child.printed_lines()) == {"hello", "oh"}


def test_prints_of_one_that_lives_can_be_forgotten(start):
    child = start("print('old', flush=True); sys.stdin.close(); import time; time.sleep(600)")
    assert wait_until(lambda: child.printed_lines() == ["old"])
    child.forget_printed()
    assert child.printed_lines() == []
    assert child.is_alive


def test_a_flood_of_prints_keeps_its_end(start):
    child = start("print('x' * 20_000_000); print('the end')")
    assert child.end(LIMIT_S) == 0
    assert child.printed_lines()[-1] == "the end"
    assert sum(map(len, child.printed_lines())) <= 16 << 10


@pytest.mark.parametrize("by_itself", [False, True])
@pytest.mark.parametrize("leaves_the_group", [False, True])
def test_its_own_children_end_with_it(start, tmp_path, leaves_the_group, by_itself):
    pid_file = tmp_path / "pid"
    child = start(
        f"""
import subprocess, time
sleeper = subprocess.Popen(['sleep', '600'], start_new_session={leaves_the_group}, env={{}})
open({str(pid_file)!r}, 'w').write(str(sleeper.pid))
time.sleep({0 if by_itself else 600})
"""
    )
    sleeper = written(pid_file)
    assert child.end(LIMIT_S if by_itself else 0) == (0 if by_itself else -signal.SIGKILL)
    assert wait_until(lambda: not is_alive(sleeper))


def test_orphans_of_orphans_end_with_it(start, tmp_path):
    """A daemon that left session and environment behind, and whose parents have ended."""
    pid_file = tmp_path / "pid"
    child = start(
        f"""
import subprocess, time
daemon = 'echo $$ > {pid_file}; sleep 600 & wait'
subprocess.run(['sh', '-c', 'setsid env -i sh -c "$0" &', daemon], check=True)
time.sleep(600)
"""
    )
    daemon = written(pid_file)
    assert wait_until(lambda: children_of(daemon))
    family = [daemon, *children_of(daemon)]
    assert child.is_alive
    child.end()
    assert wait_until(lambda: not any(map(is_alive, family)))


def test_it_ends_where_the_server_is_killed():
    server = ForkServer("gc:collect", {})
    child = Child.start(
        server, "builtins:exec", ("import time; time.sleep(600)", {}), env=os.environ
    )
    os.kill(server.pid, signal.SIGKILL)
    assert wait_until(lambda: not child.is_alive)
    assert child.end() == -signal.SIGKILL
    assert wait_until(lambda: not is_alive(child.pid))
    again = Child.start(server, "builtins:exec", ("pass", {}), env=os.environ)  # by another server
    assert again.end(LIMIT_S) == 0
    server.close()


def test_its_files_go_with_it(start, tmp_path):
    path_file = tmp_path / "path"
    child = start(
        f"""
import tempfile, time
path = tempfile.mkdtemp()
open({str(path_file)!r}, 'w').write(path)
time.sleep(600)
"""
    )
    assert wait_until(lambda: path_file.exists() and path_file.read_text())
    folder = Path(path_file.read_text())
    assert folder.is_dir()
    child.end()
    assert not folder.exists()
    assert not folder.parent.exists()


def test_it_finds_what_its_caller_has_and_the_descriptors_it_is_given(server, tmp_path):
    read, write = os.pipe()
    code = "import os, sys; os.write({}, repr((os.getcwd(), os.environ['A'], sys.path)).encode())"
    function = tmp_path / "telling.py"
    function.write_text(f"def tell(_, fd):\n    {code.format('fd')}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        patch.chdir(tmp_path)
        fields = {"env": {**os.environ, "A": "b"}, "descriptors": (write,)}
        child = Child.start(server, "telling:tell", (0,), **fields)
        assert child.end(LIMIT_S) == 0
        assert os.read(read, 1 << 16).decode() == repr((str(tmp_path), "b", sys.path))
    os.close(read)
    os.close(write)


def test_nothing_is_left_of_many(server):
    def state():
        mine, servers = (len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)
        return mine, servers, threading.active_count(), len(children_of(server.pid))

    server.start()
    pids = "self", server.pid
    Child.start(server, "gc:collect", env=os.environ).end(LIMIT_S)
    before = state()
    for _ in range(20):
        assert Child.start(server, "gc:collect", env=os.environ).end(LIMIT_S) == 0
    assert wait_until(lambda: all(now <= was for now, was in zip(state(), before)))


def test_one_that_ignores_signals(start):
    code = """
import signal
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
print('ready', flush=True)
while True:
    pass
"""
    child = start(code)
    assert wait_until(child.printed_lines)
    assert child.end() == -signal.SIGKILL
    assert not child.is_alive


def test_how_it_ended(start):
    assert start("import ctypes; ctypes.string_at(0)").end(LIMIT_S) == -signal.SIGSEGV
    assert start("os._exit(7)").end(LIMIT_S) == 7
    child = start("raise ValueError('of mine')")
    assert child.end(LIMIT_S) == 1
    assert "ValueError: of mine" in child.printed_lines()


def test_input_finds_nothing(start):
    child = start("input()")
    child.end(LIMIT_S)
    assert "EOFError: EOF when reading a line" in child.printed_lines()


def test_memory_counts_what_it_started(start, tmp_path):
    pid_file = tmp_path / "pid"
    eat = "x = bytearray(200 << 20); import time; time.sleep(600)"
    child = start(
        f"""
import subprocess, time
eater = subprocess.Popen([sys.executable, '-c', {eat!r}])
open({str(pid_file)!r}, 'w').write(str(eater.pid))
time.sleep(600)
"""
    )
    written(pid_file)
    assert wait_until(lambda: child.resident_bytes() > 200 << 20)


def test_the_caller_needs_no_torch():
    code = "import sys, solkit.measure; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_a_borrower_forks_ends_with_its_channel():
    server = ForkServer("gc:collect", {})
    own = server.fork("time:sleep", (600,), env=os.environ)
    borrower = ForkServer("gc:collect", {})
    borrower._process, borrower._control = server._process, Channel(server.lend(), trusting=True)
    lent = borrower.fork("time:sleep", (600,), env=os.environ)
    borrower.forget()
    assert lent.wait(LIMIT_S) == -signal.SIGKILL
    assert own.is_alive
    server.close()
    assert own.wait(LIMIT_S) is not None


def derived_from(server, code):
    return DerivedServer(server, "builtins:exec", (code, {}), env=os.environ)


def ended(server, code):
    """The exit code of a process that a server forks."""
    return server.fork("builtins:exec", (f"import sys\n{code}", {}), env=os.environ).wait(LIMIT_S)


def test_a_derived_server_forks_what_has_more_loaded(server):
    derived = derived_from(server, "import sys; sys.loaded = 7")
    try:
        derived.load()
        assert ended(derived, "sys.exit(sys.loaded)") == 7
        assert ended(server, "sys.exit(hasattr(sys, 'loaded'))") == 0
    finally:
        derived.close()
    assert ended(server, "sys.exit(3)") == 3  # the other one goes on


def test_what_a_derived_server_forked_ends_with_it(server):
    derived = derived_from(server, "pass")
    sleeper = derived.fork("time:sleep", (600,), env=os.environ)
    derived.close()
    assert wait_until(lambda: not is_alive(sleeper.pid))
    assert sleeper.end() == -signal.SIGKILL


def test_a_derived_server_ends_with_its_parent():
    parent = ForkServer("gc:collect", {})
    derived = derived_from(parent, "pass")
    sleeper = derived.fork("time:sleep", (600,), env=os.environ)
    pids = sleeper.pid, derived.pid
    parent.close()
    assert wait_until(lambda: not any(map(is_alive, pids)))
    assert not derived.is_alive
    derived.close()


@pytest.mark.parametrize(
    "code",
    [
        "raise SystemExit(1)",
        "import threading, time; threading.Thread(target=time.sleep, args=(600,)).start()",
        "import subprocess; subprocess.Popen(['sleep', '600'])",
    ],
    ids=["it fails", "it starts threads", "it starts processes"],
)
def test_a_derived_server_that_cannot_fork_does_not_start(server, code):
    derived = derived_from(server, code)
    with pytest.raises(WorkerError):
        derived.load()
    derived.close()


def test_modules_that_are_asked_for_are_imported_before_the_fork_and_for_all_later_ones(start):
    code = "print([name in sys.modules for name in ('wave', 'no_such_module')], flush=True)"
    for loads, is_loaded in (((), False), (("wave", "no_such_module"), True), ((), True)):
        child = start(code, loads=loads)
        assert wait_until(lambda child=child: not child.is_alive)
        assert child.printed_lines() == [f"[{is_loaded}, False]"]


@pytest.fixture
def other_server():
    server = ForkServer("gc:collect", {})
    yield server
    server.close()


def kill(server):
    os.kill(server.pid, signal.SIGKILL)
    assert wait_until(lambda: not server.is_alive)


def test_a_fork_died_with_its_server_though_another_took_its_place(other_server):
    fork = other_server.fork("time:sleep", (600,), env=os.environ)
    kill(other_server)
    other_server.start()
    assert fork.end() == -signal.SIGKILL
    assert fork.is_lost


def test_a_fork_that_was_killed_is_not_lost(other_server):
    fork = other_server.fork("time:sleep", (600,), env=os.environ)
    assert fork.end() == -signal.SIGKILL
    assert not fork.is_lost


def test_a_request_that_a_dead_server_lost_is_made_again_by_the_one_in_its_place(
    other_server, monkeypatch
):
    """Another thread has started it by then."""
    fork_job = other_server._fork_job

    def lose(*_):
        monkeypatch.setattr(other_server, "_fork_job", fork_job)
        kill(other_server)
        other_server.start()
        raise WorkerError("gone")

    monkeypatch.setattr(forkserver, "_REAP_S", 0.01)  # for which the new one would be awaited
    monkeypatch.setattr(other_server, "_fork_job", lose)
    fork = other_server.fork("builtins:int", env=os.environ)
    monkeypatch.undo()
    assert fork.end(LIMIT_S) == 0


def test_threads_that_wait_for_one_fork_all_hear_how_it_ended(server, monkeypatch):
    fork = server.fork("builtins:exit", (3,), env=os.environ)
    readable, heard = forkserver.is_readable, []

    def hear_first(*_):
        monkeypatch.setattr(forkserver, "is_readable", readable)
        heard.append(fork.wait(LIMIT_S))  # as another thread does, after this one has looked
        return True

    monkeypatch.setattr(forkserver, "is_readable", hear_first)
    assert (fork.wait(LIMIT_S), heard) == (3, [3])
