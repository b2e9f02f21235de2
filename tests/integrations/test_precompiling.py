"""Recorded launches are compiled ahead; a second process of the program then compiles nothing."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import call_kernels
import pytest
import torch
from inductor_tuners import make_tuner
from triton._C.libtriton import native_specialize_impl
from triton.backends.nvidia.compiler import CUDABackend

from solkit.adapters import cache_transfer, live_compiles, warm_launches
from solkit.adapters.live_compiles import CompileWatch
from solkit.core import Binding, KernelFunction, KernelProgram, Launch, TensorLayout
from solkit.core.kernel_programs import FunctionOrigin
from solkit.core.recordings import RecordedLaunch
from solkit.core.tuned import TunedEntry, TunedFolder, bucket_of_launch
from solkit.datasets.launch_recordings import LaunchRecording, read_launch_recording
from solkit.datasets.tuned_folder import write_tuned_folder
from solkit.errors import InputError, UnsupportedError
from solkit.integrations import applying, precompiling
from solkit.roofline import devices

PROGRAM = Path(__file__).with_name("launching_program.py")


def run_program(cache: Path, **variables: str) -> str:
    environment = {**os.environ, "TRITON_CACHE_DIR": str(cache), **variables}
    environment.pop("PYTHONWARNINGS", None)
    ended = subprocess.run(
        [sys.executable, str(PROGRAM)], env=environment, capture_output=True, text=True, check=True
    )
    return ended.stdout


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A recorded program, and the folders of the cache that it filled itself."""
    place = tmp_path_factory.mktemp("program")
    run_program(place / "own", RECORD=str(place / "recorded"))
    return place / "recorded", {path.name for path in (place / "own").iterdir()}


@pytest.mark.slow
def test_a_second_process_finds_every_kernel_in_the_folder_wherever_it_lies(recorded, tmp_path):
    folder, own = recorded
    result = precompiling.precompile(folder, "h100-sxm")
    assert [kernel for kernel in result.kernels if kernel.why] == []
    assert own <= result.keys  # the same folders as in the program's own cache
    assert result.keys == {path.name for path in Path(result.cache).iterdir()}
    moved = folder.rename(tmp_path / "moved")
    try:
        said = run_program(tmp_path / "empty", FOLDER=str(moved))
        assert said == f"all {len(own)} compiled kernels came from a cache\n"
        (moved / "triton_cache").rename(tmp_path / "cache")
        (moved / "triton_cache").mkdir()
        assert "compiled after all: add_kernel (2 times)" in run_program(
            tmp_path / "other", FOLDER=str(moved)
        )
    finally:
        moved.rename(folder)


@pytest.mark.slow
def test_of_a_tuned_launch_only_the_tuned_configuration_is_compiled(recorded, tmp_path):
    folder = tmp_path / "tuned"
    folder.mkdir()
    for file in recorded[0].glob("*.jsonl"):
        (folder / file.name).write_bytes(file.read_bytes())
    launches = read_launch_recording(folder).launches
    (record,) = [e for e in launches if e.launch.name == "tuned_kernel"]
    bucket = bucket_of_launch(record.launch, {*record.space})
    params = {"BLOCK": 512, "num_warps": 8}  # not on the list of 64 and 128
    digest = record.launch.program.digest
    entry = TunedEntry(
        "tuned_kernel", digest, "autotuner", bucket, record.params, params, verified=True
    )
    triton = json.loads(next(folder.glob("*.jsonl")).read_text().splitlines()[0])["triton"]
    write_tuned_folder(folder, TunedFolder("h100-sxm", "", triton, (entry,)))
    result = precompiling.precompile(folder, "h100-sxm")
    (kernel,) = [kernel for kernel in result.kernels if kernel.kernel == "tuned_kernel"]
    (key,) = kernel.compiled
    metadata = json.loads((Path(result.cache) / key / "tuned_kernel.json").read_text())
    assert metadata["num_warps"] == 8
    said = run_program(tmp_path / "empty", FOLDER=str(folder))
    assert said.startswith("all ")


def layout(**settings):
    tensor = {"dtype": "fp32", "element_bytes": 4, "shape": (8,), "strides": (1,)}
    return Binding("tensor", tensor=TensorLayout(**{**tensor, "storage_bytes": 64, **settings}))


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({}, ("*fp32", "D")),
        ({"alignment_bytes": 16, "offset_elements": 4}, ("*fp32", "D")),
        ({"alignment_bytes": 4, "offset_elements": 1}, ("*fp32", "")),
        ({"dtype": "bf16", "element_bytes": 2, "alignment_bytes": 8}, ("*bf16", "")),
        ({"dtype": "fp8e4nv", "element_bytes": 1, "alignment_bytes": 1}, ("*fp8e4nv", "")),
    ],
)
def test_a_stand_in_is_specialised_as_the_recorded_tensor_was(settings, kind):
    tensor = warm_launches._value_of(layout(**settings), {})
    assert tensor.device.type == "meta"
    assert native_specialize_impl(CUDABackend, tensor, False, True, True) == kind


def test_arguments_are_what_the_recording_says():
    items = Binding("items", items=(Binding("scalar", 3), Binding("constant", None)))
    assert warm_launches._value_of(items, {}) == (3, None)
    assert warm_launches._value_of(Binding("library", text="torch.bfloat16"), {}) is torch.bfloat16
    assert str(warm_launches._value_of(Binding("type", text="fp16"), {})) == "fp16"
    assert warm_launches._value_of(Binding("function", text="f"), {"f": 1}) == 1
    with pytest.raises(UnsupportedError, match="no recording keeps"):
        warm_launches._value_of(Binding(), {})


def test_a_librarys_function_is_found_behind_its_decorators():
    assert warm_launches._object_of("call_kernels", "tuned_kernel") is call_kernels.tuned_kernel
    for module in ("__main__", "no_such_module"):
        with pytest.raises(LookupError):
            warm_launches._object_of(module, "tuned_kernel")


def test_what_differs_from_the_recorded_program_is_said():
    heads = ({"triton": "3.6.0", "compiler": "ptxas 12.8.93 for 90", "environment": {}},)
    recording = LaunchRecording("folder", (), heads)
    assert precompiling._differences(recording, "3.6.0", "ptxas 12.8.93 for 100") == []
    notes = precompiling._differences(recording, "3.7.1", "ptxas 13.0.48 for 90")
    assert [("3.6.0" in notes[0], "3.7.1" in notes[0]), "13.0.48" in notes[1]] == [
        (True, True),
        True,
    ]
    two = LaunchRecording("folder", (), (*heads, {**heads[0], "environment": {"X": "1"}}))
    assert "environment" in precompiling._differences(two, "3.6.0", "ptxas 12.8.93 for 90")[0]


def test_recorded_keys_hold_for_the_same_triton_alone(monkeypatch):
    record = RecordedLaunch(None, origins={"f": FunctionOrigin("m", 3, "key")})
    assert warm_launches._recorded_keys(record) == {"f": "key"}
    monkeypatch.setattr(warm_launches._STATE, "is_same_triton", False)
    assert warm_launches._recorded_keys(record) == {}


INDUCTOR = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.hints import DeviceProperties

triton_helpers.set_driver_to_gpu()


@triton_heuristics.pointwise(
    size_hints={"x": 4096},
    filename=__file__,
    triton_meta={
        "signature": {
            **{"in_ptr0": "*fp32", "out_ptr0": "*fp32", "xnumel": "i32", "XBLOCK": "constexpr"},
        },
        "device": DeviceProperties("cuda", 0, 132, 90, 9, 65536, 2048, 1024, 32),
        "constants": {},
        "configs": [{(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]}],
    },
    inductor_meta={"grid_type": "Grid1D", "kernel_name": "triton_poi_fused_mul_0"},
    min_elem_per_thread=0,
)
@triton.jit
def triton_poi_fused_mul_0(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    at = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    tl.store(out_ptr0 + at, 2 * tl.load(in_ptr0 + at, at < xnumel), at < xnumel)
"""


@pytest.fixture
def inductor_record(tmp_path, monkeypatch):
    """A recorded kernel of Inductor's for an H100, in a process that compiles for one."""
    monkeypatch.setattr(warm_launches._STATE, "device", devices.find("h100-sxm"))
    monkeypatch.setattr(warm_launches._STATE, "scratch", tmp_path)
    helpers = importlib.import_module("torch._inductor.runtime.triton_helpers")
    monkeypatch.setattr(helpers, "set_driver_to_gpu", lambda: None)
    program = KernelProgram("triton_poi_fused_mul_0")
    launch = Launch("triton_poi_fused_mul_0", (4, 1, 1), 4, 1, program=program)
    return RecordedLaunch(launch, "inductor", inductor_source=INDUCTOR)


def test_inductors_file_is_compiled_as_its_workers_do(inductor_record, monkeypatch):
    launchable = warm_launches.find_launchable(inductor_record)
    compiled = []
    note = lambda tuner, config: compiled.append((tuner.fn.__name__, config.kwargs)) or tuner  # noqa: E731
    monkeypatch.setattr(type(launchable.outer), "_precompile_config", note)
    warm_launches.warm_launch(inductor_record, launchable)
    assert {name for name, _ in compiled} == {"triton_poi_fused_mul_0"}
    assert all("XBLOCK" in kwargs for _, kwargs in compiled)


def test_inductors_file_for_another_architecture_is_not_compiled(inductor_record, monkeypatch):
    monkeypatch.setattr(warm_launches._STATE, "device", devices.find("b200"))
    with pytest.raises(UnsupportedError, match="for the architecture 90, and this is 100"):
        warm_launches.find_launchable(inductor_record)
    with pytest.raises(UnsupportedError, match="the file that Inductor wrote is not"):
        warm_launches.find_launchable(replace(inductor_record, inductor_source=""))


@pytest.mark.parametrize("step", ["find_launchable", "_warm"])
def test_whatever_a_library_or_compiler_raises_is_why_that_launch_is_not_compiled(
    monkeypatch, step
):
    def fail(*_):
        raise RuntimeError("PassManager::run failed\nin a long dump")

    monkeypatch.setattr(warm_launches, "find_launchable", lambda _: None)
    monkeypatch.setattr(warm_launches, step, fail)
    record = SimpleNamespace(launch=SimpleNamespace(name="kernel"), launcher="jit")
    result = precompiling._compile(record)
    assert (result.kernel, result.why) == ("kernel", "RuntimeError: PassManager::run failed")


def test_a_cache_that_cannot_be_written_is_one_reason_for_all_launches(monkeypatch):
    def fail(*_):
        raise OSError(30, "Read-only file system", "/recorded/triton_cache/KEY")

    monkeypatch.setattr(warm_launches, "find_launchable", lambda _: None)
    monkeypatch.setattr(warm_launches, "_warm", fail)
    record = SimpleNamespace(launch=SimpleNamespace(name="kernel"), launcher="jit")
    result = precompiling._compile(record)
    assert result.why == "the cache cannot be written: Read-only file system"


@pytest.mark.parametrize(
    ("gpu", "recorded_options", "choices"),
    [
        ("b200", {"num_warps": 4, "num_stages": 3}, [{"num_warps": 4, "num_stages": 3}]),
        (
            "mi300x",  # its compiler has 2 stages where none are passed
            {"num_warps": 4, "num_stages": 3},
            [{"num_warps": 4, "num_stages": 3}, {"num_warps": 4}],
        ),
        ("mi300x", {"num_warps": 4, "num_stages": 1}, [{"num_warps": 4, "num_stages": 1}]),
    ],
)
def test_options_that_the_program_may_not_have_passed_are_compiled_without(
    monkeypatch, gpu, recorded_options, choices
):
    monkeypatch.setattr(warm_launches._STATE, "device", devices.find(gpu))
    assert warm_launches._possible_options(recorded_options) == choices


def test_a_text_without_any_key_that_holds_is_said(monkeypatch):
    monkeypatch.setattr(warm_launches._STATE, "is_same_triton", False)
    program = KernelProgram("f", {"f": KernelFunction("def f(): pass\n")})
    record = RecordedLaunch(
        Launch("f", (1,), 4, 3, program=program), origins={"f": FunctionOrigin("lib", 3, "key")}
    )
    launchable = warm_launches.Launchable(None, {"f": SimpleNamespace(src="def f(): return 1\n")})
    with pytest.raises(UnsupportedError, match="lib cannot be imported here"):
        warm_launches._possible_keys(record, launchable)


def test_it_compiles_in_the_environment_of_the_recorded_program(tmp_path, monkeypatch):
    for name in ("_default", "_active"):
        monkeypatch.setattr(warm_launches.triton_driver, name, None)
    for name in vars(warm_launches._STATE):
        monkeypatch.setattr(warm_launches._STATE, name, None)
    monkeypatch.setattr(warm_launches.Autotuner, "_bench", None)
    for name in ("DISABLE_LLVM_OPT", "TRITON_DEFAULT_FP_FUSION", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, "0" if name != "DISABLE_LLVM_OPT" else "1")
    h100 = devices.find("h100-sxm")
    variables = {"TRITON_DEFAULT_FP_FUSION": "true"}
    warm_launches.install(h100, variables, tmp_path, tmp_path, is_same_triton=True)
    assert "DISABLE_LLVM_OPT" not in os.environ
    assert os.environ["TRITON_DEFAULT_FP_FUSION"] == "true"
    assert os.environ["TRITON_CACHE_DIR"] == str(tmp_path)


def test_launches_of_ranks_are_one_though_their_processes_compiled_other_things_before():
    launch = Launch("f", (1,), 4, 3)
    first, second = (
        RecordedLaunch(launch, origins={"f": FunctionOrigin("lib", 3, key)}, inductor_source=text)
        for key, text in (("a", "device 0"), ("b", "device 1"))
    )
    assert first.digest == second.digest


# ------------------------------------------------------------------------------ while it serves


def filled_cache(folder: Path, key: str = "KEY") -> Path:
    place = folder / key
    place.mkdir(parents=True)
    (place / "k.json").write_text(json.dumps({"triton_version": "2.0.0"}))
    paths = {"k.json": str(place / "k.json")}
    (place / "__grp__k.json").write_text(json.dumps({"child_paths": paths}))
    return folder


def test_a_filled_cache_is_put_where_triton_looks(tmp_path):
    source, target = filled_cache(tmp_path / "a"), tmp_path / "b"
    assert cache_transfer.add_folder_to_cache(source, target) == 2
    group = json.loads((target / "KEY" / "__grp__k.json").read_text())
    assert group["child_paths"] == {"k.json": str(target / "KEY" / "k.json")}
    assert cache_transfer.add_folder_to_cache(source, target) == 0
    assert cache_transfer.add_folder_to_cache(source, source) == 0
    (target / "damaged").mkdir()
    for name, text in (("half", "{"), ("list", "[]")):
        (target / "damaged" / f"{name}.json").write_text(text)
    assert cache_transfer.versions_of_cache(target) == {"2.0.0"}


@pytest.mark.parametrize(("free", "is_put"), [(100, False), (4000, True)])
def test_a_disk_that_the_program_needs_itself_is_not_filled(tmp_path, monkeypatch, free, is_put):
    source, target = filled_cache(tmp_path / "source"), tmp_path / "below" / "target"
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    watch = CompileWatch(source)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(target))
    monkeypatch.setattr(live_compiles, "call_after_imports", lambda *_: None)
    watch.start()
    assert target.exists() == is_put
    expected = "0.0 MB are missing, twice of which must be free"
    assert (expected in watch.sentence()) != is_put


def test_what_cannot_be_written_leaves_no_part_of_itself(tmp_path, monkeypatch):
    source, target = filled_cache(tmp_path / "source"), tmp_path / "target"
    write = Path.write_bytes

    def write_some(path, content):
        write(path, content[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_some)
    with pytest.raises(OSError, match="No space left"):
        cache_transfer.add_folder_to_cache(source, target)
    assert not [path for path in target.rglob("*") if path.is_file()]


@pytest.fixture
def watch(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "own"))
    watch = CompileWatch(filled_cache(tmp_path / "filled"))
    watch.start()
    yield watch
    watch.stop()


def compile_event(name: str, cache_hit: bool, key: str = "") -> None:
    from triton import knobs

    knobs.compilation.listener(
        src=SimpleNamespace(name=name), metadata={"hash": key}, metadata_group={}, times=None,
        cache_hit=cache_hit,
    )  # fmt: skip


def test_what_is_compiled_after_all_is_said(watch, tmp_path):
    assert (tmp_path / "own" / "KEY" / "k.json").exists()
    compile_event("found", True)
    assert watch.sentence() == "all 1 compiled kernels came from a cache"
    for name in ("late", "late", "other"):
        compile_event(name, False)
    assert watch.sentence().startswith("compiled after all: late (2 times), other; ")
    assert "is of Triton 2.0.0, and this is" in watch.sentence()


def test_what_other_processes_compile_for_inductor_is_counted_once(watch, monkeypatch):
    module = importlib.import_module("torch._inductor.runtime.triton_heuristics")
    keys = iter(("00" * 16, "01" * 16, "02" * 16))

    def compile_elsewhere(_, config):
        kernel = SimpleNamespace(hash=next(keys))
        return SimpleNamespace(config=config, kernel=kernel, make_launcher=lambda: None)

    monkeypatch.setattr(module.CachingAutotuner, "_precompile_config", compile_elsewhere)
    monkeypatch.setattr(module.CachingAutotuner, "_make_launchers", lambda _: None)
    (watch.cache / ("A" * 26)).mkdir()  # 16 bytes of 0 in base 32
    compile_event("in this process", False, "02" * 16)
    tuner = make_tuner(module, (1024, 512, 256))
    for _ in range(2):
        tuner.precompile()
    assert watch.compiled == {"in this process": 1, "triton_poi_fused_mul_0": 1}
    assert watch.hits == 1


def test_a_listener_of_the_users_is_still_asked(tmp_path, monkeypatch):
    from triton import knobs

    heard = []
    monkeypatch.setattr(knobs.compilation, "listener", lambda **event: heard.append(event))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "own"))
    before = knobs.compilation.listener
    watch = CompileWatch(filled_cache(tmp_path / "filled"))
    watch.start()
    compile_event("k", False)
    watch.stop()
    assert [event["cache_hit"] for event in heard] == [False]
    assert knobs.compilation.listener is before


def test_a_cache_that_cannot_be_written_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "file" / "cache"))
    watch = CompileWatch(filled_cache(tmp_path / "filled"))
    watch.start()
    watch.stop()
    assert "cannot be used: NotADirectoryError" in watch.sentence()


def test_a_folder_that_is_precompiled_but_not_tuned_can_be_applied(tmp_path):
    with pytest.raises(InputError, match="no tuned folder"):
        applying.read_applied_folder(tmp_path)
    filled_cache(tmp_path / "triton_cache")
    assert applying.read_applied_folder(tmp_path).entries == ()
