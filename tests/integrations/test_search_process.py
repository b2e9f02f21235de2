"""The process of a search: it answers, runs out of time, and ends with whoever asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from solkit.core.tuned import TunedFolder
from solkit.errors import WorkerError
from solkit.integrations import search_process
from solkit.integrations.search_process import SearchProcess

FAKE = Path(__file__).with_name("fake_search.py")


@pytest.fixture(autouse=True)
def fake_batches(monkeypatch):
    """Processes whose batches are those of `fake_search`; servers are left out."""
    own = Path(search_process.__file__).parents[2]  # sys.path may have folders of kernels by now
    path = os.pathsep.join([str(FAKE.parent), str(own)])
    monkeypatch.setattr(search_process, "__name__", "fake_search")
    monkeypatch.setenv("PYTHONPATH", path)


def tune(folder, limit_s=60.0):
    with closing(SearchProcess("cuda:1")) as search:
        return search.tune(str(folder), TunedFolder("h100-sxm"), 12.0, limit_s)


def test_a_batch_is_run_with_the_settings_and_the_surroundings_of_the_caller(tmp_path, monkeypatch):
    monkeypatch.setenv("SOLKIT_APPLY", "tuned/")
    with closing(SearchProcess("cuda:1")) as search:
        monkeypatch.setenv("SET_LATER", "yes")
        monkeypatch.syspath_prepend("/later")
        assert not search.tune(str(tmp_path), TunedFolder("h100-sxm"), 12.0, 60.0)
    assert (tmp_path / "seen").read_text() == "0.2 cuda:1 h100-sxm yes None /later"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fails", "no kernel can be tuned"),
        ("breaks", "ZeroDivisionError"),
        ("dies", "the search failed: its process ended with exit code 7"),
    ],
)
def test_what_fails_is_said(tmp_path, name, message):
    (tmp_path / name).mkdir()
    with pytest.raises(WorkerError, match=message):
        tune(tmp_path / name)


def test_what_fails_while_it_loads_is_said_to_who_asks_later(tmp_path, monkeypatch):
    monkeypatch.setenv("FAILS_AT_START", str(tmp_path / "failed"))
    with closing(SearchProcess("cuda:1")) as search:
        await_that((tmp_path / "failed").exists)
        search._host.process.wait(0.2)  # in time to end, if it did not wait for the request
        with pytest.raises(WorkerError, match="no GPU 1"):
            search.tune(str(tmp_path), None, 12.0, 60.0)


def test_a_search_is_interrupted_before_its_time_is_over(tmp_path, monkeypatch):
    (tmp_path / "long").mkdir()
    monkeypatch.setattr(search_process, "_SEARCHING", 1 / 120)  # half a second of its minute
    monkeypatch.setenv("NOTES_START", str(tmp_path / "loaded"))
    with closing(SearchProcess("cuda:1")) as search:
        await_that((tmp_path / "loaded").exists)
        assert search.tune(str(tmp_path / "long"), TunedFolder("h100-sxm"), 12.0, 60.0)


def test_finals_that_have_begun_are_not_interrupted(tmp_path):
    (tmp_path / "finals").mkdir()
    assert not tune(tmp_path / "finals")


@pytest.mark.parametrize(("name", "share", "limit_s"), [("long", 100.0, 0.5), ("survey", 0.0, 60)])
def test_one_that_is_cut_before_it_measured_or_goes_on(tmp_path, monkeypatch, name, share, limit_s):
    monkeypatch.setattr(search_process, "_SEARCHING", share)
    (tmp_path / name).mkdir()
    with pytest.raises(WorkerError, match=rf"did not end within {limit_s:g} s \(wall_seconds\)"):
        tune(tmp_path / name, limit_s=limit_s)


PROGRAM = """
import sys
from solkit.integrations import search_process
search_process.__name__ = "fake_search"
search = search_process.SearchProcess(None)
print(search._host.process.pid, flush=True)
if sys.argv[1] != "idle":
    search.tune(sys.argv[1], None, 1.0, 60.0)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_it_ends_when_the_program_does(tmp_path, number):
    (tmp_path / "long").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "long")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as program:
        pid = int(program.stdout.readline())
        await_that(lambda: (tmp_path / "long" / "begun").exists())
        program.send_signal(number)
    await_that(lambda: not Path(f"/proc/{pid}").exists() or is_zombie(pid))


def test_one_that_was_not_needed_ends_with_the_program():
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, "idle"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr == ""
    pid = int(ran.stdout)
    await_that(lambda: not Path(f"/proc/{pid}").exists() or is_zombie(pid))


FORKING = """
import os, sys, time
from solkit.core.tuned import TunedFolder
from solkit.integrations import search_process
search_process.__name__ = "fake_search"
search = search_process.SearchProcess(None)
child = os.fork()
if child == 0:
    sys.stdin.read(1)
    sys.exit(0)  # by way of atexit
print(search._host.process.pid, flush=True)
if sys.argv[1] != "idle":
    os.waitpid(child, 0)
    search.tune(sys.argv[1], TunedFolder("h100-sxm"), 1.0, 60.0)
time.sleep(600 if sys.argv[1] == "idle" else 0)
"""


def test_a_fork_of_the_program_that_ends_leaves_the_search_alone(tmp_path):
    subprocess.run([sys.executable, "-c", FORKING, str(tmp_path)], input="x", text=True, check=True)
    assert (tmp_path / "seen").exists()


def test_a_fork_that_outlives_the_program_does_not_keep_the_search():
    with subprocess.Popen(
        [sys.executable, "-c", FORKING, "idle"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        pid = int(program.stdout.readline())
        program.kill()
        await_that(lambda: not Path(f"/proc/{pid}").exists() or is_zombie(pid))
        program.stdin.close()  # the fork ends


def is_zombie(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def await_that(condition, limit_s=30.0):
    end_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)
