"""A program that is not edited, and every Python process that it starts, begin with SolKit."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from solkit.processes.startup import shim_environment

STARTER = """
import os
def begin():
    print("begun in", os.environ["STARTED_BY"], flush=True)
def fails():
    raise ValueError("on purpose")
"""


@pytest.fixture
def folder(tmp_path):
    for name in ("torch", "triton"):  # stand-ins: nothing heavy is loaded
        (tmp_path / f"{name}.py").write_text("LOADED = True\n")
    (tmp_path / "starter.py").write_text(STARTER)
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "sitecustomize.py").write_text("print('own', flush=True)\n")
    return tmp_path


def run_program(folder, code, starter="starter:begin", **variables):
    patch = (
        "import solkit.processes.startup as startup\n"
        f"startup.STARTERS = {{'STARTED_BY': {starter!r}}}\nstartup.start_with_program()\n"
    )
    env = shim_environment(STARTED_BY="test", **variables)
    env["PYTHONPATH"] = os.pathsep.join([str(folder), env["PYTHONPATH"], str(folder / "user")])
    command = [sys.executable, "-c", patch + code]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_a_starter_waits_for_both_libraries(folder):
    code = "print('first'); import torch; print('second'); import triton; print('third')"
    assert run_program(folder, code).stdout.split() == [
        "own", "first", "second", "begun", "in", "test", "third",
    ]  # fmt: skip


def test_nothing_begins_without_the_libraries(folder):
    assert run_program(folder, "import torch; print('end')").stdout.split() == ["own", "end"]


def test_a_starter_that_fails_leaves_the_program_alone(folder):
    ended = run_program(folder, "import torch, triton; print('end')", "starter:fails")
    assert ended.stdout.split() == ["own", "end"]
    assert ended.returncode == 0
    assert "starter:fails failed: ValueError: on purpose" in ended.stderr


def test_processes_that_a_program_starts_have_the_shim(folder):
    code = (
        "import subprocess, sys\n"
        'code = \'import sys; print(any("startup_shim" in f for f in sys.path), sys.modules['
        '"sitecustomize"].__file__)\'\n'
        "print(subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout)"
    )
    assert f"True {folder / 'user' / 'sitecustomize.py'}" in run_program(folder, code).stdout


def test_several_may_wait_for_one_module(folder):
    code = (
        "from solkit.processes.startup import call_after_imports\n"
        "call_after_imports(['torch'], lambda: print('one'))\n"
        "call_after_imports(['torch'], lambda: print('two'))\n"
        "import torch\nprint('end')"
    )
    assert sorted(run_program(folder, code).stdout.split()) == ["end", "one", "own", "two"]
