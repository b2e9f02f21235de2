from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from solkit.measure._process import supervise


def child(code):
    """A child that runs `code`, which finds its descriptor in `fd` and has `answer(text)`."""
    start = """
import os, sys
from solkit.measure._process import read_request
fd = int(sys.argv[1])
request = read_request(fd)
def answer(text):
    os.write(fd, text.encode())
"""
    return [sys.executable, "-c", start + code]


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return state != "Z"  # a zombie that nobody reaps is as good as dead


def wait_until_dead(pid):
    for _ in range(100):
        if not is_alive(pid):
            return True
        time.sleep(0.02)
    return False


def test_request_and_answer():
    ended = supervise(child("answer(request.strip()[::-1])"), "abc", 30)
    assert (ended.answer, ended.returncode, ended.timed_out) == ("cba", 0, False)


def test_prints_are_kept_apart_from_the_answer():
    code = "print('hello'); print('oh', file=sys.stderr); answer('42')"
    ended = supervise(child(code), "", 30)
    assert ended.answer == "42"
    assert set(ended.printed.split()) == {"hello", "oh"}


def test_a_flood_of_prints_keeps_its_end():
    code = "print('x' * 20_000_000); print('the end'); answer('done')"
    ended = supervise(child(code), "", 60)
    assert ended.answer == "done"
    assert ended.printed.endswith("the end\n")
    assert len(ended.printed) <= 16 << 10


def test_a_large_answer():
    ended = supervise(child("answer('y' * 3_000_000)"), "", 30)
    assert ended.answer == "y" * 3_000_000


def test_a_child_that_sleeps_is_killed_with_its_own_children(tmp_path):
    pid_file = tmp_path / "pid"
    code = f"""
import subprocess, time
sleeper = subprocess.Popen(['sleep', '600'])
open({str(pid_file)!r}, 'w').write(str(sleeper.pid))
answer('started')
time.sleep(600)
"""
    start = time.monotonic()
    ended = supervise(child(code), "", 3)
    assert time.monotonic() - start < 15
    assert (ended.timed_out, ended.returncode) == (True, -signal.SIGKILL)
    assert ended.answer == "started"
    assert wait_until_dead(int(pid_file.read_text()))


def test_children_left_behind_are_killed(tmp_path):
    pid_file = tmp_path / "pid"
    code = f"""
import subprocess
sleeper = subprocess.Popen(['sleep', '600'])
open({str(pid_file)!r}, 'w').write(str(sleeper.pid))
"""
    ended = supervise(child(code), "", 30)
    assert (ended.timed_out, ended.returncode) == (False, 0)
    assert wait_until_dead(int(pid_file.read_text()))


def test_a_child_that_ignores_signals():
    code = """
import signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
while True:
    pass
"""
    assert supervise(child(code), "", 2).timed_out


def test_a_segmentation_fault():
    ended = supervise(child("import ctypes; ctypes.string_at(0)"), "", 30)
    assert (ended.returncode, ended.timed_out, ended.answer) == (-signal.SIGSEGV, False, "")


def test_an_exit_and_an_exception():
    assert supervise(child("os._exit(7)"), "", 30).returncode == 7
    ended = supervise(child("raise ValueError('of mine')"), "", 30)
    assert ended.returncode == 1
    assert "ValueError: of mine" in ended.printed


def test_input_finds_nothing():
    assert "EOFError" in supervise(child("input()"), "", 30).printed


def test_an_interrupt_leaves_no_child(tmp_path):
    pid_file = tmp_path / "pid"
    code = f"""
import time
open({str(pid_file)!r}, 'w').write(str(os.getpid()))
time.sleep(600)
"""
    timer = threading.Timer(2.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        supervise(child(code), "", 60)
    assert wait_until_dead(int(pid_file.read_text()))


def test_the_parent_needs_no_torch():
    code = "import sys, solkit.measure; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
