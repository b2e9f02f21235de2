"""Launches that really run are recorded, and their kernel files compute the same."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path

import call_kernels
import pytest
import recorded_kernels
import torch
import triton

import solkit
from solkit.core import BatchSettings
from solkit.datasets.launch_recordings import read_launch_recording, write_kernel_files
from solkit.pipeline.batch import batch
from solkit.processes.startup import shim_environment

pytestmark = pytest.mark.gpu


def add(x, y, out):
    n = x.numel()
    call_kernels.add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](
        x, y, out, n, BLOCK=128, ADD=True
    )


def module_of(folder, name):
    (path,) = folder.glob(f"{name}_{'?' * 8}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_kernel_file_computes_what_the_launch_did(tmp_path):
    x, y = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")
    out, again = torch.empty_like(x), torch.empty_like(x)
    with solkit.recording(tmp_path):
        add(x, y, out)
    module = module_of(tmp_path, "add_kernel")
    module.kernel(x, y, again, BLOCK=256, num_warps=8)
    assert torch.equal(out, again)


def test_an_autotuned_kernel_keeps_its_list_and_its_choice(tmp_path):
    out = torch.empty(100_000, device="cuda")
    grid = lambda meta: (triton.cdiv(out.numel(), meta["BLOCK"]),)  # noqa: E731
    with solkit.recording(tmp_path):
        recorded_kernels.listed_kernel[grid](out, out.numel())
        recorded_kernels.listed_kernel[grid](out, out.numel())
    (launch,) = read_launch_recording(tmp_path).launches
    assert (launch.calls, len(launch.configs)) == (2, 3)
    assert launch.params["BLOCK"] == recorded_kernels.listed_kernel.best_config.kwargs["BLOCK"]


def test_a_launch_in_a_graph_is_captured_without_waiting(tmp_path):
    x, out = torch.randn(1000, device="cuda"), torch.empty(1000, device="cuda")
    add(x, x, out)  # compiles
    graph = torch.cuda.CUDAGraph()
    with solkit.recording(tmp_path), torch.cuda.graph(graph):
        add(x, x, out)
    out.zero_()
    graph.replay()
    assert torch.allclose(out, 3 * x)
    (launch,) = read_launch_recording(tmp_path).launches
    assert (launch.calls, launch.graph_calls) == (1, 1)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_threads_on_two_gpus_record_together(tmp_path):
    results = {}

    def launch(index):
        torch.cuda.set_device(index)
        x, out = torch.randn(1000, device="cuda"), torch.empty(1000, device="cuda")
        for _ in range(50):
            add(x, x, out)
        results[index] = torch.allclose(out, 3 * x)

    with solkit.recording(tmp_path):
        threads = [threading.Thread(target=launch, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == {0: True, 1: True}
    (launch,) = read_launch_recording(tmp_path).launches
    assert launch.calls == 100
    assert max(launch.reuse_bytes.values()) <= 2 * 2**20  # of one GPU, not of the other's memory


def test_kernels_of_torch_compile_compute_the_same(tmp_path):
    torch._dynamo.reset()
    x = torch.randn(64, 4096, device="cuda")
    compiled = torch.compile(lambda x: torch.softmax(x * 2, -1))
    with solkit.recording(tmp_path):
        want = compiled(x)
        compiled(x)
    (launch,) = read_launch_recording(tmp_path).launches
    assert (launch.launcher, launch.calls) == ("inductor", 2)
    module = module_of(tmp_path, launch.launch.name)
    drawn = module.inputs()
    drawn[0].copy_(x)
    module.kernel(*drawn)
    assert any(torch.equal(tensor.reshape(-1), want.reshape(-1)) for tensor in drawn[1:])
    with solkit.recording(tmp_path / "later"):
        compiled(x)  # by Inductor's cached launcher
    (later,) = read_launch_recording(tmp_path / "later").launches
    assert later.digest == launch.digest


def test_steady_state_costs_nothing_afterwards(tmp_path):
    from triton.runtime.jit import JITFunction

    before = JITFunction.run
    x, out = torch.randn(64, device="cuda"), torch.empty(64, device="cuda")
    with solkit.recording(tmp_path):
        add(x, x, out)
    assert JITFunction.run is before


def test_what_a_graph_launches_is_tuned_in_a_graph_on_what_l2_holds(tmp_path):
    x, out = torch.randn(1 << 18, device="cuda"), torch.empty(1 << 18, device="cuda")
    add(x, x, out)  # compiles
    graph = torch.cuda.CUDAGraph()
    with solkit.recording(tmp_path), torch.cuda.graph(graph):
        for _ in range(3):
            add(x, x, out)
    how = BatchSettings(use_database=False, log=tmp_path / "log.jsonl", emit_to=tmp_path / "tuned")
    (item,) = batch(tmp_path, gpu_minutes=0.03, settings=how).items
    assert (item.tuned.launched, item.tuned.l2) == ("graph", "warm")
    assert item.tuned.default.time_ms > 0


PROGRAM = Path(__file__).with_name("faulty_program.py")
RECORDED = {1000, 2000, 3000, 4000, 5000, 6000}
"""Sizes that the program launches in its several ways."""


def run_program(end, **variables):
    environment = shim_environment(**variables) if variables else {**os.environ}
    command = [sys.executable, str(PROGRAM), end]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout


@pytest.mark.parametrize("end", ["returns", "raises", "exits", "leaves", "aborts", "is_killed"])
def test_a_program_ends_as_without_solkit_and_its_recording_is_usable(tmp_path, end):
    """It launches in threads, in autograd's, in a graph, in a worker, and frees its inputs."""
    assert run_program(end, SOLKIT_RECORD=str(tmp_path)) == run_program(end)
    result = read_launch_recording(tmp_path)
    sizes = {launch.launch.arguments["n"].value for launch in result.launches}
    assert sizes == RECORDED
    assert len(result.heads) == 2  # its worker's, too
    for kernel in write_kernel_files(result):
        module = module_of(tmp_path, kernel.launch_name)
        for sizes in kernel.sizes:
            module.kernel(*module.inputs(**sizes))
    torch.cuda.synchronize()
