"""A program that is not edited, and every Python process that it starts, begin with SolKit."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import solkit
from solkit.processes.startup import shim_environment

SHIM = Path(solkit.__file__).parent / "processes" / "startup_shim"

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
        "own", "first", "second", "begun", "in", str(Path("test").absolute()), "third",
    ]  # fmt: skip


def test_a_starters_folder_stays_where_the_program_changes_its_own(folder):
    """Also for what the program starts then, whether or not it has the libraries itself."""
    code = f"import os; os.chdir({str(folder)!r}); import torch, triton"
    begun = run_program(folder, code).stdout.split()[-1]
    assert begun == str(Path("test").absolute())


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


def test_solkit_is_found_and_what_lies_next_to_it_is_not(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    code = (
        "import sitecustomize, sys, importlib.util\n"
        "print('solkit.processes.startup' in sys.modules, importlib.util.find_spec('bench'))"
    )
    command = [sys.executable, "-S", "-c", code]  # as of another environment
    env = shim_environment()
    ran = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "None"]
    assert (Path(solkit.__file__).parents[1] / "bench").is_dir()


def test_a_python_that_cannot_load_solkit_runs_as_before(tmp_path):
    package = tmp_path / "solkit"
    shim = package / "processes" / "startup_shim"
    shutil.copytree(SHIM, shim)
    (package / "__init__.py").write_text("this is no Python of an old version\n")
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "sitecustomize.py").write_text("print('own')\n")
    path = os.pathsep.join([str(shim), str(tmp_path), str(tmp_path / "user")])
    ran = subprocess.run(
        [sys.executable, "-c", "print('end')"],
        env={**os.environ, "PYTHONPATH": path},
        **{"capture_output": True, "text": True, "check": True},
    )
    assert (ran.stdout.split(), ran.stderr) == (["own", "end"], "")


def test_a_module_of_the_same_loader_is_not_the_awaited_one(folder):
    with zipfile.ZipFile(folder / "both.zip", "w") as archive:
        archive.writestr("awaited.py", "")
        archive.writestr("another.py", "")
    code = (
        "import sys, importlib.util\n"
        f"sys.path.insert(0, {str(folder / 'both.zip')!r})\n"
        "startup.call_after_imports(['awaited'], lambda: print('begun'))\n"
        "importlib.util.find_spec('awaited')\n"
        "import another; print('another')\n"
        "import awaited"
    )
    assert run_program(folder, code).stdout.split() == ["own", "another", "begun"]


def test_a_program_answers_a_termination_that_only_solkit_gets(tmp_path):
    (tmp_path / "serve.py").write_text(
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "print('ready', flush=True)\n"
        "signal.pause()\n"
    )
    code = (
        "import sys\n"
        "from solkit.processes.startup import run_with_shim\n"
        f"sys.exit(run_with_shim([{str(tmp_path / 'serve.py')!r}]))"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            process.terminate()
            assert process.wait() == 7
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
