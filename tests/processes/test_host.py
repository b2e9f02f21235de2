"""Child processes over a channel: commands of their own here; forks are in test_jobs.py."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from solkit.errors import JobDiedError, WorkerError
from solkit.processes.host import Host, Program, describe_ending, python_command

LIMIT_S = 60.0


def sleeper(code="pass"):
    return Program(python_command(f"{code}; import time; time.sleep(600)"))


def serving(code, grace_s=0.0):
    """A host whose process runs code with `channel`, its end."""

    def start(descriptor):
        opened = (
            f"from solkit.processes.channel import Channel\nchannel = Channel.of({descriptor}, "
        )
        return Program(python_command(f"{opened}trusting=True)\n{code}"), descriptors=(descriptor,))

    return contextlib.closing(Host(start, "testing", grace_s))


def is_gone(pid):
    limit = time.monotonic() + LIMIT_S
    while time.monotonic() < limit:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z"):
                return True
            time.sleep(0.01)
            continue
        return True
    return False


# --------------------------------------------------------------------------------- commands


def test_a_program_says_how_it_ended():
    program = Program(python_command("raise SystemExit(7)"))
    assert program.wait(LIMIT_S) == 7
    assert program.end() == 7
    assert (
        Program(python_command("import os; os.abort()")).run(LIMIT_S)
        == "its process died of SIGABRT"
    )


def test_a_program_that_takes_too_long_is_killed():
    program = sleeper()
    assert program.wait(0.0) is None
    assert program.run(0.01) == "its process ran for over 0.01 s and was killed"
    assert program.end() == -signal.SIGKILL


def test_what_a_program_started_ends_with_it(tmp_path):
    written = tmp_path / "pid"
    code = "import os, subprocess; process = subprocess.Popen(['sleep', '600'])"
    program = sleeper(f"{code}; open({str(written)!r}, 'w').write(str(process.pid) + '.')")
    while not (written.exists() and written.read_text().endswith(".")):
        assert program.wait(0.01) is None
    program.end()
    assert is_gone(int(written.read_text()[:-1]))


def test_a_program_prints_to_the_file_given_and_reads_nothing(tmp_path):
    code = "import sys; print(sys.stdin.read()); print('to stderr', file=sys.stderr, flush=True)"
    with (tmp_path / "printed").open("w") as file:
        assert Program(python_command(code), output=file.fileno()).wait(LIMIT_S) == 0
    assert (tmp_path / "printed").read_text().split() == ["to", "stderr"]


def test_ctrl_c_reaches_the_caller_alone():
    program = sleeper()
    assert os.getpgid(program.pid) == program.pid != os.getpgid(0)
    program.end()


@pytest.mark.parametrize(
    ("returncode", "limit_s", "words"),
    [
        (3, None, "its process ended with exit code 3"),
        (-signal.SIGSEGV, None, "its process died of SIGSEGV"),
        (-signal.SIGXCPU, None, "its process used too much CPU time"),
        (-signal.SIGKILL, None, "was killed by SIGKILL, usually because memory ran out"),
        (-signal.SIGKILL, 2.0, "its process ran for over 2 s and was killed"),
    ],
)
def test_endings_in_words(returncode, limit_s, words):
    assert words in describe_ending(returncode, limit_s)


# ------------------------------------------------------------------------------------ calls


ECHO = """
while True:
    frame = channel.receive()
    channel.send({}); channel.send({})  # there is progress
    channel.send({"got": frame.header}, frame.payload[::-1])
"""


def test_calls_are_answered_in_turn_and_progress_is_no_answer():
    with serving(ECHO) as host:
        for number in range(3):
            frame = host.call({"n": number}, b"abc", limit_s=LIMIT_S)
            assert (frame.header, frame.payload) == ({"got": {"n": number}}, b"cba")
        assert host.is_alive
    assert host.process.wait(0.0) is not None


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("channel.receive(); import os; os._exit(7)", "its process ended with exit code 7"),
        ("channel.receive(); import os; os.kill(os.getpid(), 11)", "its process died of SIGSEGV"),
    ],
)
def test_a_death_is_explained_once_and_again(code, reason):
    with serving(code, grace_s=LIMIT_S) as host:
        for _ in range(2):
            with pytest.raises(JobDiedError, match=reason) as death:
                host.call({"n": 1}, limit_s=LIMIT_S)
            assert not death.value.timed_out
        assert not host.is_alive


def test_one_that_answers_nonsense_is_ended():
    with serving("channel._socket.sendall(bytes([255] * 8)); channel.receive()") as host:
        with pytest.raises(JobDiedError):
            host.receive(LIMIT_S)
        assert not host.is_alive


def test_a_call_that_takes_too_long_ends_the_process():
    with serving("import time; time.sleep(600)") as host:
        with pytest.raises(JobDiedError, match=r"ran for over 0\.05 s") as death:
            host.call({"n": 1}, limit_s=0.05)
        assert death.value.timed_out
        assert not host.is_alive


def test_another_thread_may_end_it_meanwhile():
    with serving("import time; time.sleep(600)") as host:
        threading.Timer(0.05, host.end).start()
        with pytest.raises(JobDiedError, match="SIGKILL"):
            host.receive(LIMIT_S)


def test_one_that_is_hung_up_on_has_a_moment_to_leave(tmp_path):
    outcome = tmp_path / "left"
    code = f"""
channel.send({{"ready": True}})
try:
    channel.receive()
except Exception:
    open({str(outcome)!r}, "w").close()
"""
    with serving(code, grace_s=LIMIT_S) as host:
        host.receive(LIMIT_S)
    assert outcome.exists()
    assert host.process.end() == 0


def test_a_process_whose_server_died_is_not_to_blame():
    class Orphan(Program):
        is_lost = True

    def start(descriptor):
        return Orphan([sys.executable, "-c", ""], descriptors=(descriptor,))

    with (
        contextlib.closing(Host(start, "running f")) as host,
        pytest.raises(WorkerError, match="the worker process died while running f") as error,
    ):
        host.receive(LIMIT_S)
    assert not isinstance(error.value, JobDiedError)


def test_one_that_cannot_be_started_leaves_nothing_open():
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    def start(_):
        raise OSError("no process")

    with pytest.raises(OSError, match="no process"):
        Host(start, "testing")
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
