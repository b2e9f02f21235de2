"""Threads that launch what is new to SolKit while another thread captures a CUDA graph."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from solkit.datasets.launch_recordings import read_launch_recording

pytestmark = pytest.mark.gpu

PROGRAM = """
import contextlib, sys, threading
import torch, triton, triton.language as tl
import solkit
from solkit.adapters import graph_captures
from solkit.adapters.live_trials import LaunchTrial

@triton.jit
def add_one(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)

def launch(x, out, stream=None):
    add_one[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)

def tried(x, out):
    ends = []
    trial = LaunchTrial(launch, launch, lambda own, tuned: True, ends.append)
    run = trial.launcher()
    for _ in range(60):
        run(x, out)
    return ends

if sys.argv[1] == "unguarded":  # as it would be without
    graph_captures.beside_captures = contextlib.nullcontext
    import solkit.adapters.launch_contents as contents, solkit.adapters.live_trials as trials
    contents.beside_captures = trials.beside_captures = contextlib.nullcontext

tensors = [torch.rand(2**22 + n, device="cuda") for n in range(4)]
for x in tensors:
    launch(x, x.clone())
    launch(x, x)
torch.cuda.synchronize()
torch.cuda.empty_cache()  # so that what is sampled is allocated
begun, ended = threading.Event(), threading.Event()
failures = []

def capture():
    try:
        graph, y = torch.cuda.CUDAGraph(), torch.zeros(64, device="cuda")
        with torch.cuda.graph(graph):
            y += 1
            begun.set()
            ended.wait(60)
            y += 1
        y.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert (y == 2).all(), y
    except Exception as error:
        failures.append(f"{type(error).__name__}: {error}")
    finally:
        begun.set()

graph_captures.watch_captures()
thread = threading.Thread(target=capture)
thread.start()
begun.wait(60)
assert graph_captures.is_any_capturing() and not graph_captures.is_capturing()
stream = torch.cuda.Stream()
try:
    with torch.cuda.stream(stream):
        with solkit.recording(sys.argv[2]):
            for x in tensors:
                launch(x, x)
        ends = tried(tensors[0], tensors[0])
except Exception as error:
    failures.append(f"{type(error).__name__}: {error}")
ended.set()
thread.join()
assert not graph_captures.is_any_capturing()
print("failures", failures)
"""


def start(tmp_path, *args):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    command = [sys.executable, str(path), *args, str(tmp_path / "launches")]
    ran = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran


def test_a_capture_survives_what_solkit_does_in_other_threads(tmp_path):
    ran = start(tmp_path, "guarded")
    assert ran.stdout.splitlines()[-1] == "failures []", ran.stderr[-2000:]
    assert "is not recorded" not in ran.stderr
    launches = read_launch_recording(tmp_path / "launches").launches
    assert {launch.launch.name for launch in launches} == {"add_one"}
    recipes = [recipe for launch in launches for recipe in launch.recipes.values()]
    assert len(recipes) >= 4
    assert all(abs(recipe.mean - 0.5) < 20 for recipe in recipes)


def test_without_that_the_capture_would_fail(tmp_path):
    """The test above shows nothing where CUDA allows all of it."""
    ran = start(tmp_path, "unguarded")
    assert ran.stdout.splitlines()[-1] != "failures []" or "is not recorded" in ran.stderr
