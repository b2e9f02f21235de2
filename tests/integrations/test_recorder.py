"""Launches of a program are recorded, and become kernel files; nothing runs on a GPU here."""

from __future__ import annotations

import copy
import importlib.util
import itertools
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from types import ModuleType, SimpleNamespace

import call_kernels
import numpy as np
import pytest
import recorded_kernels
import spaces
import torch
import triton
from inductor_tuners import KERNEL as INDUCTOR_KERNEL
from inductor_tuners import make_tuner
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import driver as triton_driver
from triton.runtime.jit import JITFunction

import solkit
from solkit import kernelfiles
from solkit.adapters import fake_triton, live_tuned
from solkit.adapters.launch_records import program_digest
from solkit.cli.profile import _recording_launches
from solkit.core import BatchSettings, Deployment, IdleTime, Profile, ProfiledKernel
from solkit.core.recordings import TensorRecipe
from solkit.core.tuned import bucket_of_launch
from solkit.datasets.kernels import kernel_at_path
from solkit.datasets.launch_recordings import (
    kernel_file_in,
    kernels_of_recording,
    launches_as_recorded,
    read_launch_recording,
    write_kernel_files,
)
from solkit.datasets.tuned_folder import read_tuned_folder
from solkit.errors import InputError, KernelFileError
from solkit.integrations import recorder as recorder_module
from solkit.integrations.recorder import LaunchRecorder
from solkit.measure.benches import RecordedBench
from solkit.processes.startup import program_environment
from solkit.roofline import devices
from solkit.tuner.manifest import read_manifest
from solkit.tuner.recorded_manifest import profiled_manifest_of, tuned_folder_of

HERE = Path(__file__).parent


def launch_nothing(kernel, /, *args, grid, warmup, **kwargs):  # noqa: ARG001 - as Triton's
    """Stand for a GPU: ask the grid as Triton does, and write nothing."""
    if callable(grid):
        grid({**dict(zip(kernel.arg_names, args)), **kwargs})
    return "launched"


@pytest.fixture(autouse=True)
def without_a_gpu(monkeypatch):
    monkeypatch.setattr(JITFunction, "run", launch_nothing)
    monkeypatch.setattr(Autotuner, "_bench", lambda *_, **__: [1.0, 1.0, 1.0])


def add(n=1000, block=128):
    x, y, out = torch.randn(n), torch.full((n,), 3.0), torch.empty(n)
    launch = call_kernels.add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)]
    return launch(x, y, out, n, BLOCK=block, ADD=True)


INDUCTOR_META = {
    "signature": {
        **{"in_ptr0": "*fp32", "out_ptr0": "*fp32", "xnumel": "i32", "XBLOCK": "constexpr"},
    },
}


def around_kernel(kernel):
    """Put an autotuner and heuristics around a kernel."""
    configs = [triton.Config({"BLOCK": block}) for block in (64, 128)]
    with_heuristics = triton.heuristics({"heuristics": lambda named: named["size"]})(kernel)
    return triton.autotune(configs, key=["size"])(with_heuristics)


def rows():
    x = torch.randn(8, 64)
    return call_kernels.rows_kernel[(8,)](x, torch.empty(8), 64, COLS=64, BLOCK_N=64)


def recorded(folder, *calls):
    with solkit.recording(folder):
        for call in calls:
            call()
    return read_launch_recording(folder)


def file_of(folder, kernel):
    """The one file of a kernel."""
    (path,) = (
        path for path in folder.glob("*.py") if re.fullmatch(rf"{kernel}_[0-9a-f]{{8}}", path.stem)
    )
    return path


def module_of(folder, name):
    path = folder / f"{name}.py"
    spec = importlib.util.spec_from_file_location(
        name, path if path.exists() else file_of(folder, name)
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --------------------------------------------------------------------------------- what is recorded


def test_kernels_that_a_library_launches_for_the_recorder_itself_are_left_out(
    tmp_path, monkeypatch
):
    """A library that stands in for PyTorch's operators does so for those of the recorder."""
    original = recorder_module.tensor_recipe

    def recipe(tensor):
        rows()
        return original(tensor)

    monkeypatch.setattr(recorder_module, "tensor_recipe", recipe)
    recording = recorded(tmp_path, add, rows, add)
    assert {(r.launch.name, r.calls) for r in recording.launches} == {
        ("add_kernel", 2),
        ("rows_kernel", 1),
    }


def test_equal_launches_count_and_others_are_apart(tmp_path):
    recording = recorded(tmp_path, add, add, lambda: add(2000), lambda: add(block=64))
    assert sorted(launch.calls for launch in recording.launches) == [1, 1, 2]
    first, second = kernels_of_recording(recording)[0]
    assert first.launch_name == second.launch_name == "add_kernel"
    assert [len(first.launches), len(second.launches)] == [2, 1]  # another configuration in use
    module = module_of(tmp_path, first.name)
    assert module.SHAPES == [{"n": 2000}, {"n": 1000}]
    assert [len(tensor) for tensor in module.inputs(n=2000, device="cpu")[1:]] == [2000] * 3
    assert module.LAUNCHES[0]["choices"][(512,)] == ((4,), {})


def test_the_program_is_as_before_afterwards(tmp_path):
    with solkit.recording(tmp_path):
        assert JITFunction.run is not launch_nothing
        assert add() == "launched"
    assert JITFunction.run is launch_nothing


def test_a_launch_that_fails_fails_as_ever_and_is_not_recorded(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no such luck")

    monkeypatch.setattr(JITFunction, "run", fail)
    with solkit.recording(tmp_path), pytest.raises(RuntimeError, match="no such luck"):
        add()
    with pytest.raises(InputError, match="no recorded launches"):
        read_launch_recording(tmp_path)


def test_a_launch_that_succeeds_after_one_that_failed_is_recorded(tmp_path, monkeypatch):
    fails = iter([True, False, False])

    def run(*args, **kwargs):
        if next(fails):
            raise RuntimeError("out of memory")
        return launch_nothing(*args, **kwargs)

    monkeypatch.setattr(JITFunction, "run", run)
    with solkit.recording(tmp_path):
        with pytest.raises(RuntimeError):
            add()
        add(), add()
    (launch,) = read_launch_recording(tmp_path).launches
    assert launch.calls == 2


def test_timing_launches_of_an_autotuner_are_left_out(tmp_path):
    out = torch.empty(512)

    def tuned():
        recorded_kernels.listed_kernel[lambda meta: (triton.cdiv(512, meta["BLOCK"]),)](out, 512)

    recording = recorded(tmp_path, tuned, tuned)
    (launch,) = recording.launches
    assert (launch.calls, launch.launcher) == (2, "autotuner")
    assert set(launch.configs) == {(64, 2, 3), (128, 4, 3), (256, 8, 3)}
    module = module_of(tmp_path, "listed_kernel")
    assert module.valid({"BLOCK": 64, "num_warps": 2, "num_stages": 3}, {})
    assert not module.valid({"BLOCK": 64, "num_warps": 8, "num_stages": 3}, {})


def test_what_heuristics_answer_follows_the_choice(tmp_path):
    out = torch.empty(192)

    def even():
        grid = lambda meta: (triton.cdiv(192, meta["BLOCK"]),)  # noqa: E731
        recorded_kernels.even_kernel[grid](out, 192, BLOCK=64)

    recorded(tmp_path, even)
    choices = module_of(tmp_path, "kernel")
    answers = choices.LAUNCHES[0]["choices"]
    assert answers[(64,)] == ((3,), {"EVEN": True})
    assert answers[(128,)] == ((2,), {"EVEN": False})


def test_options_that_heuristics_compute_may_vary_too(tmp_path):
    def warped():
        grid = lambda meta: (triton.cdiv(192, meta["BLOCK"]),)  # noqa: E731
        recorded_kernels.warped_kernel[grid](torch.empty(192), 192, BLOCK=64, EVEN=True)

    recorded(tmp_path, warped)
    module = module_of(tmp_path, "kernel")
    assert module.SPACE["num_warps"] == [2, 1, 4, 8, 16]
    assert module.LAUNCHES[0]["choices"][(128,)] == ((2,), {})
    module.kernel(*module.inputs(device="cpu"), num_warps=4)  # gets it once


def test_views_of_a_storage_stay_views_of_one(tmp_path):
    whole = torch.arange(4096.0).reshape(16, 256)
    index = torch.randint(0, 16, (16,))
    left, right = whole[:, :128], whole[:, 128:]
    recorded(
        tmp_path, lambda: recorded_kernels.rows_kernel[(16,)](left, right, index, 256, COLS=128)
    )
    x, y, drawn = module_of(tmp_path, "rows_kernel").inputs(device="cpu")
    assert (x.stride(), y.stride()) == ((256, 1), (256, 1))
    assert x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    assert y.data_ptr() - x.data_ptr() == 128 * 4
    assert torch.equal(drawn, index)  # integers decide which rows are read


def test_an_offset_keeps_its_alignment(tmp_path):
    x = torch.randn(1001)[1:]

    def odd():
        call_kernels.add_kernel[(8,)](x, x.clone(), torch.empty(1000), 1000, BLOCK=128, ADD=True)

    recorded(tmp_path, odd)
    first, second, _ = module_of(tmp_path, "add_kernel").inputs(device="cpu")
    assert first.data_ptr() % 16 == 4
    assert second.data_ptr() % 16 == 0


class Buffer:
    """What Triton takes for a tensor: an address and a type, here of a part of one."""

    def __init__(self, whole, shape, strides, offset):
        self.whole, self.shape, self.strides, self.offset = whole, shape, strides, offset
        self.dtype = whole.dtype

    def stride(self):
        return self.strides

    def data_ptr(self):
        return self.whole.data_ptr() + self.offset * self.whole.element_size()


def test_an_object_with_an_address_is_recorded_as_the_view_that_it_is(tmp_path):
    whole = torch.randn(4000)
    part = Buffer(whole, (1000,), (2,), 1000)
    recorded(tmp_path, lambda: call_kernels.add_kernel[(8,)](
        part, whole, torch.empty(1000), 1000, BLOCK=128, ADD=True))  # fmt: skip
    drawn, all_of_it, _ = module_of(tmp_path, "add_kernel").inputs(device="cpu")
    assert (drawn.shape, drawn.stride()) == ((1000,), (2,))
    assert drawn.data_ptr() - all_of_it.data_ptr() == 4000


def test_contents_are_drawn_alike_and_not_kept(tmp_path):
    x = torch.rand(1000) * 2 + 5
    x[::4] = float("-inf")
    weights = torch.randint(-128, 127, (10_000,), dtype=torch.int8)
    args = x, weights, torch.empty(1000), 1000
    recorded(tmp_path, lambda: call_kernels.add_kernel[(8,)](*args, BLOCK=128, ADD=True))
    torch.manual_seed(0)
    drawn, bytes_drawn, _ = module_of(tmp_path, "add_kernel").inputs(device="cpu")
    finite = drawn[drawn.isfinite()]
    assert finite.min() >= 5
    assert finite.max() <= 7
    assert 0.2 < float(drawn.isneginf().float().mean()) < 0.3
    assert bytes_drawn.dtype == torch.int8
    assert not torch.equal(bytes_drawn, weights)


def test_what_cannot_be_launched_again_is_named(tmp_path):
    table = torch.zeros(4, dtype=torch.int64)
    recording = recorded(
        tmp_path, lambda: recorded_kernels.pointers_kernel[(1,)](table, torch.ones(1))
    )
    kernels, reasons = kernels_of_recording(recording)
    assert kernels == ()
    assert "pointers_kernel cannot be launched again: " in reasons[0]
    assert "makes pointers of integers" in reasons[0]


def test_grids_that_a_closure_changes_do_not_break_the_record(tmp_path):
    for programs in (1, 2):
        recorded(tmp_path, lambda n=programs: call_kernels.add_kernel[(n,)](
            torch.ones(64), torch.ones(64), torch.empty(64), 64, BLOCK=32, ADD=True))  # fmt: skip
    recording = read_launch_recording(tmp_path)
    assert {launch.launch.grid for launch in recording.launches} == {(1, 1, 1), (2, 1, 1)}
    shapes = module_of(tmp_path, "add_kernel").SHAPES
    assert sorted(shape["grid"] for shape in shapes) == ["1x1x1", "2x1x1"]


def test_many_sizes_are_told_apart_roughly(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder_module, "_EXACT_KEYS", 4)
    x = torch.ones(4096)

    def at(n):
        call_kernels.add_kernel[(1,)](x, x, x, n, BLOCK=32, ADD=True)

    recording = recorded(tmp_path, *(lambda n=n: at(n) for n in range(101, 141)))
    assert 4 < len(recording.launches) < 10
    assert sum(launch.calls for launch in recording.launches) == 40


# -------------------------------------------------------------------------------- kernel files


def launch_kernels_of_modules():
    x, out = torch.randn(256), torch.empty(256)
    grid = lambda meta: (triton.cdiv(256, meta["BLOCK"]),)  # noqa: E731
    recorded_kernels.modules_kernel[grid](x, out, 256, BLOCK=64)
    recorded_kernels.cubed[(4,)](x, out, recorded_kernels.scale, BLOCK=64)
    recorded_kernels.even_kernel[grid](out, 256, BLOCK=64)


def test_files_need_none_of_the_programs_modules(tmp_path):
    recorded(tmp_path, launch_kernels_of_modules)
    text = "".join(file.read_text() for file in tmp_path.glob("*.py"))
    assert "import recorded" not in text
    for kernel in ("modules_kernel", "powers", "kernel"):
        assert file_of(tmp_path, kernel).is_file()


@pytest.mark.slow
def test_files_compute_what_the_kernels_do(tmp_path):
    """By Triton's interpreter, in a process that cannot import the program's modules."""
    recorded(tmp_path, launch_kernels_of_modules)
    code = (
        "import importlib.util, pathlib, torch\n"
        f"folder = {str(tmp_path)!r}\n"
        "def load(name):\n"
        "    (path,) = pathlib.Path(folder).glob(f'{name}_????????.py')\n"
        "    spec = importlib.util.spec_from_file_location(name, path)\n"
        "    module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)\n"
        "    return module\n"
        "m = load('modules_kernel'); x, out = m.inputs(device='cpu')\n"
        "for block in m.SPACE['BLOCK']:\n"
        "    out.zero_(); m.kernel(x, out, BLOCK=block)\n"
        "    expected = 2 * x + 3 * x + .5 + 3 * x + .5 + x  # near 0 sums differ in their order\n"
        "    assert torch.allclose(out, expected, atol=1e-5), block\n"
        "m = load('powers'); x, out = m.inputs(device='cpu'); m.kernel(x, out)\n"
        "assert torch.allclose(out, 8 * x)\n"
        "m = load('kernel'); (out,) = m.inputs(device='cpu')\n"
        "for block in m.SPACE['BLOCK']:\n"
        "    out.zero_(); m.kernel(out, BLOCK=block); assert (out == 1).all(), block\n"
        "print('same')\n"
    )
    env = {"TRITON_INTERPRET": "1", "PATH": "/usr/bin:/bin"}
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    if "numpy" in result.stderr:
        pytest.skip("this triton's interpreter needs an older numpy")
    assert result.stdout == "same\n", result.stderr


def test_a_kernel_is_addressed_in_its_folder(tmp_path):
    x = torch.randn(16, 100)
    rows = lambda: call_kernels.rows_kernel[(16,)](x, x, 100, COLS=100, BLOCK_N=128)  # noqa: E731
    recorded(tmp_path, rows)
    assert kernel_file_in(str(tmp_path)) == str(file_of(tmp_path, "rows_kernel"))
    recorded(tmp_path, add)
    assert kernel_file_in(f"{tmp_path}/add_kernel") == str(file_of(tmp_path, "add_kernel"))
    with pytest.raises(
        InputError, match=r"several kernels; name one .*add_kernel_\w{8} \(1 calls\)"
    ):
        kernel_file_in(str(tmp_path))
    with pytest.raises(InputError, match="no kernel 'other'"):
        kernel_file_in(f"{tmp_path}/other")


def test_a_file_that_somebody_edited_stays(tmp_path):
    recorded(tmp_path, add)
    edited = file_of(tmp_path, "add_kernel")
    edited.write_text(edited.read_text() + "\nMINE = 1\n")
    write_kernel_files(read_launch_recording(tmp_path))
    assert edited.read_text().endswith("MINE = 1\n")


@pytest.mark.parametrize(
    ("before", "after", "as_recorded"),
    [
        ("def reference(", "def reference(x_ptr, y_ptr, out_ptr):\n    return\n\n\ndef was(", True),
        ("SPACE = {", "SPACE = {'num_ctas': [1], ", True),
        ("tl.store(", "tl.store(0 + ", False),
        ("def valid(", "def valid(:", False),
    ],
)
def test_only_files_that_launch_what_was_recorded_have_a_say(tmp_path, before, after, as_recorded):
    (kernel,) = write_kernel_files(recorded(tmp_path, add))
    assert launches_as_recorded(kernel)
    file = file_of(tmp_path, "add_kernel")
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after, 1))
    assert launches_as_recorded(kernel) is as_recorded


# --------------------------------------------------------------------------------------- faults


def test_threads_record_together(tmp_path):
    with solkit.recording(tmp_path):
        threads = [threading.Thread(target=lambda: [add() for _ in range(20)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    (launch,) = read_launch_recording(tmp_path).launches
    assert launch.calls == 80


def test_launches_of_one_kind_that_begin_together_are_one(tmp_path, monkeypatch):
    """Neither thread has a counter when it looks; both wait there for the other."""
    together = threading.Barrier(2)
    original = LaunchRecorder._new_counter

    def wait(self, key, pending):
        together.wait(120)
        return original(self, key, pending)

    monkeypatch.setattr(LaunchRecorder, "_new_counter", wait)
    with solkit.recording(tmp_path):
        threads = [threading.Thread(target=add) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    (launch,) = read_launch_recording(tmp_path).launches
    assert launch.calls == 2


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_waits_for_a_line_that_another_thread_writes(tmp_path):
    """The fork would flush what it inherits of the line into the parent's file once more."""
    recorder = LaunchRecorder(tmp_path)
    recorder.start()
    add()
    file, is_within, may_end = recorder._file, threading.Event(), threading.Event()

    class Slow:
        def write(self, text):
            file.write(text[:9])
            is_within.set()
            may_end.wait(120)
            file.write(text[9:])

        def __getattr__(self, name):
            return getattr(file, name)

    recorder._file = Slow()
    writer = threading.Thread(target=add, args=(2000,))
    writer.start()
    is_within.wait(120)
    threading.Timer(0.1, may_end.set).start()
    pid = os.fork()
    if not pid:
        recorder.close()
        file.close()
        os._exit(0)
    os.waitpid(pid, 0)
    writer.join()
    recorder.close()
    lines = (path.read_text().splitlines() for path in tmp_path.glob("*.jsonl"))
    (parents,) = [rows for rows in lines if len(rows) > 1]
    assert all(json.loads(row) for row in parents)
    assert sum('"launch"' in row for row in parents) == 2


def test_two_threads_may_fork_at_once(tmp_path, monkeypatch):
    """The second holds the recorder as soon as the first lets go, which must not take that away."""
    recorder, holds, may_end = LaunchRecorder(tmp_path), threading.Event(), threading.Event()
    monkeypatch.setattr(recorder_module, "_recorders", [recorder])
    let_go = recorder.release

    def fork_meanwhile():
        recorder_module._hold_all()
        holds.set()
        may_end.wait(120)
        recorder_module._release_all()

    def release():
        let_go()
        holds.wait(120)

    monkeypatch.setattr(recorder, "release", release)
    recorder_module._hold_all()
    second = threading.Thread(target=fork_meanwhile)
    second.start()
    recorder_module._release_all()
    monkeypatch.setattr(recorder, "release", let_go)
    may_end.set()
    second.join()
    assert recorder._lock.acquire(timeout=5)
    recorder._lock.release()


def test_each_gpu_has_a_clock_of_its_own(tmp_path, monkeypatch):
    turns = itertools.cycle([(0, 5 * 10**9), (1, 10**6)])  # device, what was allocated there
    turn = [(0, 0)]

    def next_device():
        turn[0] = next(turns)
        return turn[0][0]

    monkeypatch.setattr(recorder_module, "_current_device", next_device)
    monkeypatch.setattr(recorder_module, "_allocated_bytes", lambda: turn[0][1])
    add_to(tmp_path, 8)
    (launch,) = read_launch_recording(tmp_path).launches
    assert set(launch.reuse_bytes.values()) == {3 * 4000}


def test_a_number_that_equals_nothing_makes_no_kinds(tmp_path):
    tensors = [torch.zeros(1000) for _ in range(3)]
    launch = call_kernels.add_kernel[(8,)]
    nans = [float("nan") for _ in range(3)]
    recorded(tmp_path, *[partial(launch, *tensors, nan, BLOCK=128, ADD=True) for nan in nans])
    (launch,) = read_launch_recording(tmp_path).launches
    assert launch.calls == 3
    (path,) = tmp_path.glob("*.jsonl")
    assert sum('"launch"' in row for row in path.read_text().splitlines()) == 1


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("end", [lambda: os._exit(0), lambda: os.kill(os.getpid(), signal.SIGKILL)])
def test_a_fork_has_a_file_of_its_own_and_may_die(tmp_path, end, monkeypatch):
    monkeypatch.setattr(recorder_module, "_COUNTS_EVERY_S", 0.0)  # counts with each launch
    recorder = LaunchRecorder(tmp_path)
    recorder.start()
    try:
        add()
        pid = os.fork()
        if not pid:
            try:
                add()
                add(2000)
            finally:
                end()
        os.waitpid(pid, 0)
        add()
    finally:
        recorder.close()
    recording = read_launch_recording(tmp_path)
    assert len(recording.heads) == 2
    sizes = {launch.launch.arguments["n"].value: launch.calls for launch in recording.launches}
    assert sizes == {1000: 3, 2000: 1}


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_worker_of_multiprocessing_writes_its_counts(tmp_path):
    with solkit.recording(tmp_path):
        worker = multiprocessing.get_context("fork").Process(target=add)
        worker.start()
        worker.join()
    (launch,) = read_launch_recording(tmp_path).launches
    assert (worker.exitcode, launch.calls) == (0, 1)


def test_a_full_disk_ends_the_recording_alone(tmp_path, monkeypatch, capsys):
    with solkit.recording(tmp_path):
        add()
        monkeypatch.setattr(
            recorder_module.LaunchRecorder,
            "_open_file",
            lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")),
        )
        for recorder in recorder_module._recorders:
            recorder._file = None
        assert add(2000) == "launched"
        assert add(3000) == "launched"
    assert capsys.readouterr().err.count("recording ended early: No space left on device") == 1
    assert len(read_launch_recording(tmp_path).launches) == 1


class HalfWritten:
    """A file whose disk is full in the middle of a line."""

    def __init__(self, file):
        self.file = file

    def write(self, line):
        self.file.write(line[: len(line) // 2])
        raise OSError(28, "No space left on device")

    def __getattr__(self, name):
        return getattr(self.file, name)


def test_a_disk_that_is_full_within_a_line_costs_that_line(tmp_path, capsys):
    with solkit.recording(tmp_path):
        add()
        (recorder,) = (r for r in recorder_module._recorders if r._folder == tmp_path)
        recorder._file = HalfWritten(recorder._file)
        assert add(2000) == "launched"
        assert add(2000) == "launched"
    assert "recording ended early: No space left on device" in capsys.readouterr().err
    (launch,) = read_launch_recording(tmp_path).launches
    assert launch.launch.arguments["n"].value == 1000
    assert file_of(tmp_path, "add_kernel").is_file()


def test_a_program_that_fails_leaves_a_usable_recording(tmp_path):
    with pytest.raises(ZeroDivisionError):
        recorded(tmp_path, add, lambda: 1 / 0)
    (launch,) = read_launch_recording(tmp_path).launches
    assert launch.calls == 1
    assert module_of(tmp_path, "add_kernel").inputs(device="cpu")


def test_a_recording_has_a_largest_size(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(recorder_module, "_MOST_BYTES", 5000)
    recorded(tmp_path, *(lambda n=n: add(n) for n in range(1000, 1050)))
    assert "the recording has 1 GB" in capsys.readouterr().err
    assert 0 < len(read_launch_recording(tmp_path).launches) < 10


def test_a_line_that_was_not_finished_is_left_out(tmp_path):
    recorded(tmp_path, add)
    (file,) = tmp_path.glob("launches-*.jsonl")
    file.write_text(file.read_text() + '{"number": 7, "lau')
    assert len(read_launch_recording(tmp_path).launches) == 1


def test_a_fault_of_the_recorder_leaves_the_program_alone(tmp_path, monkeypatch, capsys):
    def fail(_):
        raise ZeroDivisionError("on purpose")

    original = recorder_module.record_of_launch
    with solkit.recording(tmp_path):
        monkeypatch.setattr(recorder_module, "record_of_launch", fail)
        assert [add(), add()] == ["launched"] * 2
        monkeypatch.setattr(recorder_module, "record_of_launch", original)
        rows()
    note = "add_kernel is not recorded: ZeroDivisionError: on purpose"
    assert capsys.readouterr().err.count(note) == 1
    recording = read_launch_recording(tmp_path)
    assert [launch.launch.name for launch in recording.launches] == ["rows_kernel"]
    assert note in recording.notes


@pytest.mark.parametrize("decorate", [lambda kernel: kernel, around_kernel], ids=["jit", "tuned"])
def test_parameters_may_be_called_as_the_recorder_calls_things(tmp_path, decorate):
    kernel = decorate(call_kernels.named_kernel)
    options = {} if isinstance(kernel, Autotuner) else {"BLOCK": 64}

    def call():
        x = torch.randn(64)
        kernel[(1,)](kernel=x, tuner=torch.empty(64), heuristics=1, size=64, **options)

    (launch,) = recorded(tmp_path, call).launches
    assert set(launch.launch.arguments) >= {"kernel", "tuner", "heuristics"}


def test_a_window_that_cannot_record_leaves_the_models_calls_alone(tmp_path, capsys):
    (tmp_path / "file").touch()
    recorder = LaunchRecorder(tmp_path / "file")
    window = recorder_module._Window(recorder, skip=1, calls=1)
    window.install()
    model = torch.nn.ReLU()
    try:
        assert [float(model(torch.ones(()))) for _ in range(3)] == [1.0] * 3
    finally:
        window._model.remove()
    assert "nothing is recorded: cannot record into" in capsys.readouterr().err


def test_a_program_may_change_its_folder(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with solkit.recording("recorded"):
        monkeypatch.chdir(tmp_path / "elsewhere")
        add()
    assert file_of(tmp_path / "recorded", "add_kernel").is_file()
    assert not (tmp_path / "elsewhere" / "recorded").exists()


def files_after(folder, *calls):
    """The kernel files of a recording, by name."""
    recorded(folder, *calls)
    return {path.name: path.read_text() for path in folder.glob("*.py")}


def test_files_do_not_depend_on_the_order_and_number_of_launches(tmp_path):
    x = torch.arange(1000, dtype=torch.int32)

    def launch(n, warps):
        return lambda: call_kernels.add_kernel[(8,)](
            x[:n], x, x, n, BLOCK=128, ADD=True, num_warps=warps
        )

    calls = launch(1000, 4), launch(500, 4), launch(1000, 8), rows
    one = files_after(tmp_path / "one", *calls, *calls[:2])
    other = files_after(tmp_path / "other", *reversed(calls), calls[2], calls[1], calls[2])
    alone = files_after(tmp_path / "alone", calls[2])
    assert len(one) == 3
    assert set(one) == set(other)
    assert set(alone) < set(one)
    assert [
        len(file.SHAPES) for file in (module_of(tmp_path / "one", Path(n).stem) for n in alone)
    ] == [1]
    assert {text.partition("LAUNCHES")[0] for text in one.values()} == {
        text.partition("LAUNCHES")[0] for text in other.values()
    }


def test_a_kernel_with_several_files_is_named_by_one(tmp_path):
    files = files_after(tmp_path, add, lambda: add(block=64))
    with pytest.raises(InputError, match="has several kernels called 'add_kernel'; name one"):
        kernel_file_in(f"{tmp_path}/add_kernel")
    for name in files:
        assert kernel_file_in(f"{tmp_path}/{Path(name).stem}") == str(tmp_path / name)


def test_contents_of_several_ranks_are_merged_alike(tmp_path):
    """Ranks draw other data: whichever file is read first, the same contents are kept."""
    folders = [tmp_path / name for name in ("one", "other")]
    recorded(folders[0], add)
    recorded(folders[0], add)
    folders[1].mkdir()
    first, second = sorted(folders[0].glob("launches-*"))
    first.rename(folders[1] / "launches-2-1-bb.jsonl")
    second.rename(folders[1] / "launches-1-0-aa.jsonl")
    (one,) = read_launch_recording(folders[1]).launches
    (folders[1] / "launches-2-1-bb.jsonl").rename(folders[1] / "launches-0-0-00.jsonl")
    (other,) = read_launch_recording(folders[1]).launches
    assert one.recipes == other.recipes
    assert one.calls == other.calls == 2


@pytest.mark.parametrize("error", [InputError("full"), KeyError("full")])
def test_kernel_files_that_cannot_be_written_hide_no_error(tmp_path, monkeypatch, capsys, error):
    def fail(_):
        raise error

    monkeypatch.setattr(recorder_module, "write_kernel_files", fail)

    def fails_itself():
        raise ZeroDivisionError("its own")

    with pytest.raises(ZeroDivisionError, match="its own"):
        recorded(tmp_path, add, fails_itself)
    assert "has no kernel files: " in capsys.readouterr().err


def test_what_a_grid_sets_for_the_host_stays_that_of_the_launch(tmp_path):
    blocks = []

    def grid(meta):
        blocks[:] = [triton.cdiv(1000, meta["BLOCK"])]
        return (blocks[0],)

    def call():
        x = torch.randn(1000)
        call_kernels.add_kernel[grid](x, x, torch.empty(1000), 1000, BLOCK=128, ADD=True)

    (launch,) = recorded(tmp_path, call).launches
    assert len(launch.answers) > 1
    assert blocks == [8]


@pytest.mark.parametrize(("length", "further"), [(4000, {64, 128, 512}), (100, {64, 128})])
def test_inductors_kernel_is_recorded_though_a_worker_process_compiled_it(
    tmp_path, monkeypatch, length, further
):
    heuristics = importlib.import_module("torch._inductor.runtime.triton_heuristics")
    tuner = make_tuner(heuristics, (1024, 256), triton_meta=INDUCTOR_META, grid_type="Grid1D")
    reload_kernel, tuner.fn = copy.copy(tuner), copy.copy(tuner.fn)
    tuner.fn.fn = None  # as the process that compiles sends it
    tuner._reload_kernel = lambda: reload_kernel
    compiled = [SimpleNamespace(config=config) for config in tuner.configs]
    tuner.configs, tuner.compile_results, tuner.launchers = None, compiled, compiled[1:]
    monkeypatch.setattr(heuristics.CachingAutotuner, "run", lambda *_, **__: "launched")
    x, y = torch.randn(length), torch.empty(length)
    with solkit.recording(tmp_path):
        assert tuner.run(x, y, length, stream=0) == "launched"
    (launch,) = read_launch_recording(tmp_path).launches
    assert launch.launcher == "inductor"
    assert launch.params["XBLOCK"] == 256
    assert set(launch.space["XBLOCK"]) == {256, 1024} | further  # it lists the first two
    assert launch.launch.program.digest == program_digest(INDUCTOR_KERNEL)
    recorder = LaunchRecorder(tmp_path, known_programs=frozenset({program_digest(INDUCTOR_KERNEL)}))
    recorder.start()
    tuner.run(x, y, 4000, stream=0)
    recorder.close()
    assert not recorder.programs


def test_no_tensor_is_held(tmp_path):
    import gc
    import weakref

    x = torch.randn(1000)
    seen = weakref.ref(x)
    with solkit.recording(tmp_path):
        call_kernels.add_kernel[(8,)](x, x, x, 1000, BLOCK=128, ADD=True)
        del x
        gc.collect()
        assert seen() is None


class SeesFunctions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


class SeesOperators(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [SeesFunctions, SeesOperators])
def test_no_mode_of_the_program_sees_the_recorder(tmp_path, mode):
    x, index = torch.randn(1000), torch.arange(1000)

    def launch():
        call_kernels.add_kernel[(8,)](x, index, torch.empty_like(x), 1000, BLOCK=128, ADD=True)

    with mode() as plain:
        launch()
    with mode() as watched:
        (record,) = recorded(tmp_path, launch, launch).launches
    assert watched.seen == 2 * plain.seen
    assert abs(record.recipes["x_ptr"].std - 1) < 0.2
    assert record.recipes["y_ptr"].values


def test_a_default_device_of_the_program_is_none_of_the_samples(tmp_path):
    x = torch.randn(1000)
    with torch.device("meta"):
        (record,) = recorded(
            tmp_path, lambda: call_kernels.rows_kernel[(1,)](x, x, 64, COLS=64, BLOCK_N=64)
        ).launches
    assert abs(record.recipes["x_ptr"].std - 1) < 0.2


def test_a_folder_of_another_kind_is_refused(tmp_path):
    (tmp_path / "launches-1-0-aa.jsonl").write_text(json.dumps({"schema": "other/1"}) + "\n")
    with pytest.raises(InputError, match=r"launches-1-0-aa.jsonl:1: the schema 'other/1'"):
        read_launch_recording(tmp_path)


# ----------------------------------------------------------------------------------------- batch


@pytest.mark.parametrize("counts", [5, [5], [[0, 1, 0]], [["a", 1, 0, 0.0]], [[0, None, 0, 0.0]]])
def test_malformed_counts_are_refused_with_their_place(tmp_path, counts):
    recorded(tmp_path, add)
    (file,) = tmp_path.glob("launches-*.jsonl")
    with file.open("a") as lines:
        lines.write(json.dumps({"counts": counts}) + "\n")
    where = rf"{file.name}:\d+: no counts, as in \[\[number, calls, in graphs, ms\]\]"
    with pytest.raises(InputError, match=where):
        read_launch_recording(tmp_path)


def test_a_torch_without_the_autotuner_that_is_known_is_recorded_without_it(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, live_tuned.INDUCTOR, ModuleType("another"))
    sys.modules[live_tuned.INDUCTOR].__spec__ = SimpleNamespace()
    recording = recorded(tmp_path, add)
    assert [launch.calls for launch in recording.launches] == [1]
    assert (
        "recording launches of torch.compile failed: UnsupportedError: torch"
        in capsys.readouterr().err
    )


def test_a_profiles_kernels_get_the_files_of_the_same_run(tmp_path):
    folder = tmp_path / "batch_kernels"
    recorded(folder, add, add, lambda: add(2000))
    profile = Profile(
        "train.py", devices.find("h100"), 100.0, 1, 90.0, IdleTime(0.0, 0.0, 0.0), (),
        unbounded=(
            ProfiledKernel("add_kernel", 300, 12.0, reason="launched outside of any op"),
            ProfiledKernel("other_kernel", 8, 12.0, reason="launched outside of any op"),
        ),
        saving_ms=0.0,
    )  # fmt: skip
    text = profiled_manifest_of(profile, write_kernel_files(read_launch_recording(folder)))
    (tmp_path / "batch.toml").write_text(text)
    first, second = read_manifest(tmp_path / "batch.toml").kernels
    assert first.path == str(file_of(folder, "add_kernel"))
    assert {shape.sizes["n"]: shape.calls for shape in first.shapes} == {1000: 200, 2000: 100}
    assert (second.name, second.path) == ("other_kernel", "")


def test_a_script_is_recorded_while_its_profile_skips_calls(tmp_path):
    manifest = str(tmp_path / "batch.toml")
    with _recording_launches("train.py", manifest, None):
        environment = program_environment()
    assert environment["SOLKIT_RECORD"] == str(tmp_path / "batch_kernels")
    assert environment["SOLKIT_RECORD_CALLS"] == "3"
    assert "startup_shim" in environment["PYTHONPATH"]
    with _recording_launches("trace.json", manifest, None):
        assert "SOLKIT_RECORD" not in program_environment()


def test_a_recorded_launch_is_in_its_own_bucket_when_it_is_applied(tmp_path):
    """The autotuner asks before heuristics have computed their constants."""
    out = torch.empty(512)
    grid = lambda meta: (triton.cdiv(512, meta["BLOCK"]),)  # noqa: E731
    (record,) = recorded(tmp_path, lambda: recorded_kernels.listed_kernel[grid](out, 512)).launches
    bucket = bucket_of_launch(record.launch, {*record.space, *record.heuristics})
    tuner = recorded_kernels.listed_kernel
    named = live_tuned._named_arguments(live_tuned.jit_function(tuner), (out, 512), {})
    assert bucket.holds(live_tuned._bucket(named))
    assert record.launch.program.digest == program_digest(live_tuned.jit_function(tuner))


def test_a_recording_is_tuned_as_a_batch_and_its_winners_are_a_tuned_folder(tmp_path, monkeypatch):
    """On recorded times: 4 times as fast with 16 warps as with the 4 in use.

    A larger block is faster still, but the host code of a plain launch may use it elsewhere.
    """
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    recorded(tmp_path, add, add, lambda: add(4096))
    rows = recorded_rows(
        file_of(tmp_path, "add_kernel"), lambda p: 2048.0 / p["num_warps"] / p["BLOCK"]
    )
    recording = solkit.batch(tmp_path, gpu_minutes=1.0, bench=RecordedBench(rows))
    assert {item.calls for item in recording.items} == {1.0, 2.0}
    tuned = read_tuned_folder(tmp_path)
    assert [entry.params["num_warps"] for entry in tuned.entries] == [16, 16]
    assert {e["BLOCK"] for entry in tuned.entries for e in (entry.in_use, entry.params)} == {128}
    assert {entry.bucket.scalars["n"] for entry in tuned.entries} == {1000, 4096}
    assert {entry.program for entry in tuned.entries} == {program_digest(call_kernels.add_kernel)}
    assert {entry.source for entry in tuned.entries} == {file_of(tmp_path, "add_kernel").name}
    assert not any(entry.verified for entry in tuned.entries)  # a recording compares no outputs
    assert tuned.entries[0].speedup.value == pytest.approx(4.0, rel=0.05)


def test_a_constant_that_only_cuts_the_elements_is_tuned_with_warps(tmp_path, monkeypatch):
    """On recorded times, which are the least for a block of 512 and 16 warps."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    h200 = fake_triton.fake_driver(devices.find("h200"))
    monkeypatch.setattr(triton_driver, "_active", h200)
    (record,) = recorded(tmp_path, lambda: add(4096)).launches
    assert record.tiles == ("BLOCK",)
    assert {e.choice: e.grid for e in record.answers}[(512,)] == (8,)
    rows = recorded_rows(
        file_of(tmp_path, "add_kernel"),
        lambda p: 2048.0 / p["num_warps"] / min(p["BLOCK"], 512) + p["BLOCK"] / 1e6,
    )
    solkit.batch(tmp_path, gpu_minutes=1.0, bench=RecordedBench(rows))
    (entry,) = read_tuned_folder(tmp_path).entries
    assert (entry.params["BLOCK"], entry.params["num_warps"]) == (512, 16)
    assert (entry.in_use["BLOCK"], entry.tiles) == (128, ("BLOCK",))
    assert "BLOCK" not in entry.bucket.constants


def recorded_rows(path, time_of):
    """Times of every configuration of a kernel file, by its parameters."""
    module = module_of(path.parent, path.stem)
    kernel, chance = kernel_at_path(path), np.random.default_rng(0)
    points = [
        dict(zip(module.SPACE, point, strict=True)) for point in product(*module.SPACE.values())
    ]
    valid = getattr(module, "valid", lambda *_: True)
    return [
        spaces.row(
            n, params, time_of(params), chance, bound_ms=None, shape=shape,
            kernel_id=kernel.kernel_id, problem_id=kernel.problem_id(shape),
        )
        for shape in module.SHAPES
        for n, params in enumerate(points)
        if valid(params, shape)
    ]  # fmt: skip


def test_what_an_autotuner_chose_and_a_batch_kept_is_in_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    out = torch.empty(512)
    grid = lambda meta: (triton.cdiv(512, meta["BLOCK"]),)  # noqa: E731
    (record,) = recorded(tmp_path, lambda: recorded_kernels.listed_kernel[grid](out, 512)).launches
    (path,) = tmp_path.glob("*.py")
    rows = recorded_rows(path, lambda params: 1.0 if params == record.params else 2.0)
    solkit.batch(tmp_path, gpu_minutes=1.0, bench=RecordedBench(rows))
    (entry,) = read_tuned_folder(tmp_path).entries
    assert entry.params == entry.in_use == record.params
    assert entry.speedup is None


def test_a_tensor_whose_values_torch_cannot_convert_is_recorded_without_them(tmp_path):
    x = torch.ones(1000, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    out = torch.empty(1000)
    call = lambda: call_kernels.add_kernel[(8,)](x, out, out, 1000, BLOCK=128, ADD=True)  # noqa: E731
    (launch,) = recorded(tmp_path, call).launches
    assert launch.recipes["x_ptr"] == TensorRecipe()


def test_programs_that_are_known_are_neither_described_nor_written(tmp_path, monkeypatch):
    described = []
    monkeypatch.setattr(
        recorder_module, "tensor_recipe", lambda _: described.append(1) or TensorRecipe()
    )
    digest = program_digest(call_kernels.add_kernel)
    recorder = LaunchRecorder(tmp_path, known_programs=frozenset({digest}))
    recorder.start()
    add(), add(2000)
    assert (described, recorder.programs, list(tmp_path.iterdir())) == ([], set(), [])
    recorded_kernels.listed_kernel[lambda _: (1,)](torch.zeros(512), 512)
    recorder.close()
    (launch,) = read_launch_recording(tmp_path).launches
    assert recorder.programs == {launch.launch.program.digest} != {digest}


def test_a_folder_is_extended_by_what_it_does_not_know(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    recorded(tmp_path, add)
    rows = recorded_rows(file_of(tmp_path, "add_kernel"), lambda p: 512.0 / p["num_warps"])
    result = solkit.batch(tmp_path, gpu_minutes=1.0, bench=RecordedBench(rows))
    first = read_tuned_folder(tmp_path)
    assert first.programs == (program_digest(call_kernels.add_kernel),)
    kernels, _ = kernels_of_recording(read_launch_recording(tmp_path))
    cut_short = replace(result, interrupted=True)
    assert tuned_folder_of(cut_short, kernels, verified=False).programs == ()

    out, grid = torch.empty(512), lambda meta: (triton.cdiv(512, meta["BLOCK"]),)
    recorded(tmp_path, lambda: recorded_kernels.listed_kernel[grid](out, 512))
    file = file_of(tmp_path, "listed_kernel")
    rows += recorded_rows(file, lambda params: 1.0 + params["num_warps"])
    again = solkit.batch(
        *(tmp_path,), gpu_minutes=1.0, bench=RecordedBench(rows),
        settings=BatchSettings(extended=first),
    )  # fmt: skip
    assert {item.tuned.kernel for item in again.items} == {str(file)}
    both = read_tuned_folder(tmp_path)
    assert all(entry in both.entries for entry in first.entries)
    assert set(both.programs) == {entry.program for entry in both.entries} > set(first.programs)


# ---------------------------------------------------------------------------------- as deployed


def chain():
    """Return a step of two launches, of which the second reads what the first writes."""
    x, y, z, far = (torch.zeros(1000) for _ in range(4))
    launch = call_kernels.add_kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)]

    def step():
        launch(x, y, z, 1000, BLOCK=128, ADD=True)
        launch(z, far, far, 1000, BLOCK=64, ADD=True)

    return step


def test_how_far_back_each_tensor_was_used_is_recorded(tmp_path):
    step = chain()
    recording = recorded(tmp_path, *[step] * 5)
    by_block = {launch.params["BLOCK"]: launch for launch in recording.launches}
    first, second = 3 * 4000, 2 * 4000  # bytes of x, y and z; of z and `far`, which is one tensor
    whole = first + second
    assert by_block[128].reuse_bytes == {"x_ptr": whole, "y_ptr": whole, "out_ptr": second}
    assert by_block[64].reuse_bytes == {"x_ptr": first, "y_ptr": whole, "out_ptr": whole}


def test_a_kernel_file_says_how_it_is_deployed(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder_module, "is_capturing", lambda: True)
    recorded(tmp_path, *[chain()] * 2)
    for path in tmp_path.glob("add_kernel_*.py"):
        loaded = kernelfiles.load(str(path))
        deployed = loaded.deployment({})
        assert deployed.launched() == "graph"
        assert set(deployed.reuse_bytes) == {"x_ptr", "y_ptr", "out_ptr"}
        assert deployed.l2(1 << 20) == "warm"
        assert deployed.l2(100) == "cold"


def test_a_tensor_that_no_launch_used_before_is_not_in_l2(tmp_path):
    add_to(tmp_path, 1)
    deployed = kernelfiles.load(str(file_of(tmp_path, "add_kernel"))).deployment({})
    assert deployed == Deployment(False, dict.fromkeys(("x_ptr", "y_ptr", "out_ptr")))
    assert deployed.l2(1 << 20) == "cold"


def add_to(folder, times):
    tensors = [torch.zeros(1000) for _ in range(3)]
    launch = call_kernels.add_kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)]
    recorded(folder, *[lambda: launch(*tensors, 1000, BLOCK=128, ADD=True)] * times)


def test_what_pytorch_allocates_between_launches_counts_as_traffic(tmp_path, monkeypatch):
    allocated = iter(range(0, 10**9, 10**6))  # by operators between two launches
    monkeypatch.setattr(recorder_module, "_allocated_bytes", lambda: next(allocated))
    add_to(tmp_path, 5)
    (launch,) = read_launch_recording(tmp_path).launches
    assert set(launch.reuse_bytes.values()) == {10**6 + 3 * 4000}


def test_an_edited_way_of_deployment_still_launches_what_was_recorded(tmp_path):
    add_to(tmp_path, 2)
    file = file_of(tmp_path, "add_kernel")
    file.write_text(file.read_text() + "\n\ndef deployed(shape):\n    return {}\n")
    (kernel,), _ = kernels_of_recording(read_launch_recording(tmp_path))
    assert launches_as_recorded(kernel)
    assert kernelfiles.load(str(file)).deployment({}) == Deployment()


@pytest.mark.parametrize(
    ("reuse", "message"),
    [
        ({"x": 4000}, "the reference has no argument 'x'; it has x_ptr, "),
        ({"x_ptr": -1}, "x_ptr has -1 bytes; expected 0 or more, or None"),
    ],
)
def test_a_way_of_deployment_that_cannot_be_is_named(tmp_path, reuse, message):
    add_to(tmp_path, 2)
    file = file_of(tmp_path, "add_kernel")
    said = f"\n\ndef deployed(shape):\n    return {{'reuse_bytes': {reuse!r}}}\n"
    file.write_text(file.read_text() + said)
    with pytest.raises(KernelFileError, match=message):
        kernelfiles.load(str(file)).deployment({})
