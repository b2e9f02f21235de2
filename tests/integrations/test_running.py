"""Programs under `solkit run`: processes that they start, the user's own start, what is off.

A stub takes Triton's place: importing the real one takes a second in each process.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from solkit.core.tuned import LaunchBucket, TunedEntry, TunedFolder
from solkit.datasets.tuned_folder import write_tuned_folder
from solkit.processes.startup import shim_environment

JIT = "class JITFunction:\n    def run(self): print('launched', self._solkit_plan)\n"
TORCH = "class cuda:\n    is_initialized = staticmethod(lambda: {})\n"
PROGRAM = """
import torch
from triton.runtime.jit import JITFunction
function = JITFunction()
function.__name__ = "kernel"
function.run()
"""
SPAWNS = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {PROGRAM!r}], check=True)
"""
ENTRY = TunedEntry("other", "0", "jit", LaunchBucket(), {"num_warps": 4}, {"num_warps": 8})


@pytest.fixture
def place(tmp_path):
    """A folder with a stub of Triton, a tuned folder and the user's own start."""
    runtime = tmp_path / "path" / "triton" / "runtime"
    runtime.mkdir(parents=True)
    (runtime / "__init__.py").touch()
    (runtime.parent / "__init__.py").write_text("import triton.runtime.jit")
    (tmp_path / "path" / "torch.py").write_text(TORCH.format("True"))
    (runtime / "jit.py").write_text(JIT)
    (tmp_path / "path" / "sitecustomize.py").write_text("print('own start')\n")
    write_tuned_folder(tmp_path / "tuned", TunedFolder("h100-sxm", entries=(ENTRY,)))
    return tmp_path


def start(place, *command, **variables):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(place / "path"))
        environment = shim_environment(**variables)
    return subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, check=False
    )


def test_a_process_that_the_program_starts_begins_like_it(place):
    ran = start(place, "-c", SPAWNS, SOLKIT_APPLY=str(place / "tuned"))
    assert ran.stdout.split("\n") == ["own start", "own start", "launched None", ""]
    assert ran.stderr == (
        f"solkit: {place / 'tuned'}: applied to 0 kernels; "
        "not applied: other (not launched in this process)\n"
    )


def test_a_process_without_a_gpu_such_as_inductors_compiler_says_nothing(place):
    (place / "path" / "torch.py").write_text(TORCH.format("False"))
    ran = start(place, "-c", PROGRAM, SOLKIT_APPLY=str(place / "tuned"))
    assert (ran.stdout, ran.stderr) == ("own start\nlaunched None\n", "")


def test_a_process_that_launches_nothing_loads_and_says_nothing(place):
    code = "import sys; print('solkit.core' in sys.modules, 'triton' in sys.modules)"
    ran = start(place, "-c", code, SOLKIT_APPLY=str(place / "tuned"))
    assert (ran.stdout, ran.stderr) == ("own start\nFalse False\n", "")


def test_zero_turns_it_off(place):
    ran = start(place, "-c", PROGRAM, SOLKIT_APPLY="0")
    assert "no attribute '_solkit_plan'" in ran.stderr  # the stub's launch was not looked up
    assert "solkit:" not in ran.stderr


@pytest.mark.parametrize("value", ["0", "off", "No"])
def test_a_recording_is_turned_off_alike(place, value):
    ran = start(place, "-c", PROGRAM, SOLKIT_RECORD=value)
    assert "solkit:" not in ran.stderr
    assert not (place / value).exists()
    assert "no attribute '_solkit_plan'" in ran.stderr


@pytest.mark.parametrize(
    "module", ["triton/runtime/jit.py", "torch/_inductor/runtime/triton_heuristics.py"]
)
def test_a_release_that_lacks_what_is_wrapped_runs_as_before(place, module):
    """Later releases may: the import goes on, and one line says what is left alone."""
    path = place / "path"
    (path / "torch.py").unlink()
    for folder in (
        path / "torch",
        path / "torch" / "_inductor",
        path / "torch" / "_inductor" / "runtime",
    ):
        folder.mkdir()
        (folder / "__init__.py").write_text(TORCH.format("True"))
    (path / module).write_text("class Other: ...\n")
    name = module.removesuffix(".py").replace("/", ".")
    code = f"import torch, triton, {name} as module\nprint(module.Other.__name__)"
    ran = start(place, "-c", code, SOLKIT_APPLY=str(place / "tuned"))
    assert (ran.returncode, ran.stdout) == (0, "own start\nOther\n")
    assert f"solkit: applying tuned configurations to launches of {name} failed" in ran.stderr


@pytest.mark.parametrize("text", [None, "{", '{"schema": "solkit.tuned_folder/9"}'])
def test_a_program_runs_as_before_with_a_damaged_folder(place, text):
    if text is None:
        (place / "tuned" / "tuned.json").unlink()
    else:
        (place / "tuned" / "tuned.json").write_text(text)
    code = "import torch, triton.runtime.jit\nprint('ran')"
    ran = start(place, "-c", code, SOLKIT_APPLY=str(place / "tuned"))
    assert (ran.returncode, ran.stdout) == (0, "own start\nran\n")
    assert ran.stderr.startswith("solkit: nothing is applied: ")
    assert "tuned.json" in ran.stderr


def test_the_command_runs_the_program_with_its_exit_code(place):
    code = "import sys, os; print(os.environ['SOLKIT_APPLY'], sys.argv[1:]); sys.exit(3)"
    command = ["-m", "solkit", "run", "--apply", str(place / "tuned"), "--"]
    ran = start(place, *command, sys.executable, "-c", code, "--apply", "x")
    assert ran.returncode == 3
    assert f"{place / 'tuned'} ['--apply', 'x']" in ran.stdout


def test_the_command_runs_a_script_with_this_python(place):
    (place / "step.py").write_text("import sys; print(sys.executable, sys.argv[1:])\n")
    command = ["-m", "solkit", "run", "--apply", str(place / "tuned"), "--"]
    ran = start(place, *command, str(place / "step.py"), "--steps", "3")
    assert f"{sys.executable} ['--steps', '3']" in ran.stdout


@pytest.mark.parametrize(
    ("folder", "program", "message"),
    [
        ("tuned", "no_such.py", "no_such.py: no such file"),
        ("path", sys.executable, "path is no tuned folder"),
        ("tuned", "no-such-program", "cannot run no-such-program: No such file or directory"),
    ],
)
def test_the_command_refuses_what_it_cannot_run(place, folder, program, message):
    ran = start(place, "-m", "solkit", "run", "--apply", str(place / folder), "--", program)
    assert ran.returncode == 2
    assert message in ran.stderr
