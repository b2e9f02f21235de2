from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from solkit.measure._process import Child


@pytest.fixture
def start():
    started = []

    def start(code, **options):
        child = Child([sys.executable, "-c", f"import os, sys\n{code}"], os.environ, **options)
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
    state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return state != "Z"  # a zombie that nobody reaps is as good as dead


def wait_until(condition):
    for _ in range(500):
        if condition():
            return True
        time.sleep(0.02)
    return False


def written(path):
    assert wait_until(lambda: path.exists() and path.read_text())
    return int(path.read_text())


def test_prints_are_kept(start):
    child = start("print('hello'); print('oh', file=sys.stderr)")
    assert child.end(30) == 0
    assert set(child.printed()) == {"hello", "oh"}


def test_prints_of_one_that_lives_can_be_forgotten(start):
    child = start("print('old', flush=True); sys.stdin.close(); import time; time.sleep(600)")
    assert wait_until(lambda: child.printed() == ["old"])
    child.forget_printed()
    assert child.printed() == []
    assert child.is_alive


def test_a_flood_of_prints_keeps_its_end(start):
    child = start("print('x' * 20_000_000); print('the end')")
    assert child.end(60) == 0
    assert child.printed()[-1] == "the end"
    assert sum(map(len, child.printed())) <= 16 << 10


@pytest.mark.parametrize("leaves_the_group", [False, True])
def test_its_own_children_end_with_it(start, tmp_path, leaves_the_group):
    pid_file = tmp_path / "pid"
    child = start(
        f"""
import subprocess, time
sleeper = subprocess.Popen(['sleep', '600'], start_new_session={leaves_the_group})
open({str(pid_file)!r}, 'w').write(str(sleeper.pid))
time.sleep(600)
"""
    )
    sleeper = written(pid_file)
    assert child.end() == -signal.SIGKILL
    assert wait_until(lambda: not is_alive(sleeper))


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
    assert wait_until(child.printed)
    assert child.end() == -signal.SIGKILL
    assert not child.is_alive


def test_how_it_ended(start):
    assert start("import ctypes; ctypes.string_at(0)").end(30) == -signal.SIGSEGV
    assert start("os._exit(7)").end(30) == 7
    child = start("raise ValueError('of mine')")
    assert child.end(30) == 1
    assert "ValueError: of mine" in child.printed()


def test_input_finds_nothing(start):
    child = start("input()")
    child.end(30)
    assert "EOFError: EOF when reading a line" in child.printed()


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
