"""Kernels of other languages that are measured where these are not: what is written, and read."""

from __future__ import annotations

import ctypes
import json
import shutil
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import generated_cubins
import pytest

from solkit.adapters.launch_recording import PackedArgument, TensorArgument
from solkit.core import Depth, Outcome, StoredFacts, Verdict
from solkit.datasets import outcomelog
from solkit.datasets.facts import facts_id
from solkit.datasets.kernels import select_kernels

KERNELS = {kernel.name: kernel for kernel in select_kernels(["languages"])}
TENSOR = TensorArgument(7, 4096, 32, (4, 8), (8, 1), 4)
ROW = Outcome(
    "exported", "transposed", "layout", "file", "transposed/M=4,N=8", "h200", {"config": 1},
    Verdict.CORRECT, datetime(2026, 1, 1, tzinfo=timezone.utc), "exhaustive", 1.0, 0.5,
    implementation="transposed/tilelang_tiles", triton_version="3.6.0", sm_count=132,
    compute_capability=(9, 0),
)  # fmt: skip


DOUBLED = Path(__file__).parents[1] / "adapters/data/doubled.ptx"


@pytest.fixture
def launcher(tmp_path):
    """The names of an exported kernel file, beside the binary of a kernel that doubles."""
    import torch

    folder = tmp_path / "exported"
    folder.mkdir()
    shutil.copy(DOUBLED, folder / "doubled_0.ptx")
    launch = {
        "file": "doubled_0.ptx", "entry": "doubled", "grid": [2, 1, 1], "block": [128, 1, 1],
        "cluster": [1, 1, 1], "shared": 0,
        "arguments": [argument({0: [0, 0]}), argument({0: [1, 0]}), argument({}, 200)],
    }  # fmt: skip
    config = {"outputs": [[1, [[200], "torch.float32"]]], "zeroed": False, "launches": [launch]}
    (folder / "doubled.json").write_text(json.dumps([config]))
    names = {"__file__": str(folder / "doubled.py"), "torch": torch}
    exec(generated_cubins.LAUNCHER.format(name="doubled"), names)
    return names


def argument(tensors, number=0):
    """An argument of 8 bytes, with the tensors whose addresses stand in it."""
    data = number.to_bytes(8, "little").hex()
    return {"data": data, "tensors": [*map(list, tensors.items())], "map": []}


def test_a_file_launches_its_binary_with_the_tensors_addresses(launcher, monkeypatch):
    import torch

    launches = []

    def note(binary, how, addresses):
        words = [ctypes.c_uint64.from_address(at).value for at in addresses]
        launches.append((binary.entry, how.grid, how.block, words))

    monkeypatch.setitem(launcher, "launch_packed", note)
    x = torch.ones(200)
    out = launcher["kernel"](x)
    words = [x.data_ptr(), out.data_ptr(), 200]
    assert launches == [("doubled", (2, 1, 1), (128, 1, 1), words)]


@pytest.mark.gpu
def test_a_file_launches_its_binary_on_a_gpu(launcher):
    import torch

    x = torch.randn(200, device="cuda")
    torch.testing.assert_close(launcher["kernel"](x), 2 * x)


def test_arguments_are_packed_as_c_has_them():
    packed = generated_cubins.packed_argument
    assert packed(TENSOR, {7: 2}) == {"data": "00" * 8, "tensors": [[0, [2, 32]]], "map": []}
    assert packed(-3, {})["data"] == (-3).to_bytes(8, "little", signed=True).hex()
    assert packed(0.5, {})["data"] == "0000003f"
    struct_of_two = PackedArgument(b"\1" * 16, {8: TENSOR})
    assert packed(struct_of_two, {7: 0})["tensors"] == [[8, [0, 32]]]


def test_an_address_goes_where_the_tensor_is(launcher):
    import torch

    tensor = torch.zeros(64)
    argument = generated_cubins.packed_argument(TENSOR, {7: 0})
    _, at = launcher["_packed"](argument, {0: tensor})
    assert ctypes.c_uint64.from_address(at).value == tensor.data_ptr() + 32


def test_a_tensor_map_has_room_for_all_of_it(launcher):
    """A driver writes 128 bytes, aligned to 64: less room is the next argument's memory."""
    import torch

    starts = []
    launcher["_encode"] = lambda start, *_: starts.append(start.value)
    argument = {"data": "00" * 8, "tensors": [[0, [0, 0]]]}
    maps = [*(9, 2), *(8, 4), *(4, 32), *(8, 4), *(1, 1), *(0, 0, 0, 0)]
    raw, at = launcher["_packed"]({**argument, "map": maps}, {0: torch.zeros(32)})
    start = ctypes.addressof(raw)
    assert starts == [at]
    assert at % 64 == 0
    assert start <= at
    assert at + 128 <= start + ctypes.sizeof(raw)


def test_an_exported_file_has_the_problem_of_its_kernel(tmp_path):
    kernel = KERNELS["matmul/cutile_tiles"]
    text = generated_cubins.problem_text(kernel.path)
    assert "from solkit.datasets.languages.matmul.problem import" in text
    assert "cuda.tile" not in text
    own = tmp_path / "own.py"
    own.write_text("import tilelang\nTOLERANCE = {}\n\ndef inputs():\n    return ()\n")
    assert generated_cubins.problem_text(own).split() == (
        ["import", "torch", "TOLERANCE", "=", "{}", "def", "inputs():", "return", "()"]
    )


def test_languages_are_told_by_what_a_file_imports():
    language_by_name = {
        name: generated_cubins.language_of(kernel) for name, kernel in KERNELS.items()
    }
    assert language_by_name["matmul/triton_tiles"] is None
    assert language_by_name["matmul/tilelang_tiles"] == "tilelang"
    assert language_by_name["matmul/cutile_tiles"] == "cuda-tile"


def test_a_kernel_that_cannot_be_exported_is_named_and_others_go_on(tmp_path, monkeypatch, capfd):
    files = [str(KERNELS[f"matmul/{name}_tiles"].path) for name in ("tilelang", "cutile")]

    def export(out, _, kernel, __):
        if kernel.path.stem == "tilelang_tiles":
            raise OSError("the disk is full")
        (out / "exported").touch()

    monkeypatch.setattr(generated_cubins, "export", export)
    assert generated_cubins.main(["export", str(tmp_path), *files]) == 1
    assert "tilelang_tiles: its process ended with exit code 1" in capfd.readouterr().err
    assert len(list(tmp_path.rglob("exported"))) == 1


def test_a_row_gets_its_kernel_parameters_and_facts(tmp_path):
    folder = tmp_path / "transposed"
    folder.mkdir()
    compiled, captured = '{"launches":[]}', '{"launches":[],"version":1}'
    about = {"facts": compiled, "captured": captured, "compiler": "tilelang 0.1.15"}
    configs = [{}, {**about, "params": {"block_m": 32}}]
    (folder / "tilelang_tiles.json").write_text(json.dumps(configs))
    native = replace(
        ROW, params={"BLOCK_M": 32}, implementation="transposed/triton_tiles", facts_id="own"
    )
    with outcomelog.OutcomeLog(tmp_path / "rows.jsonl") as log:
        log.append([ROW, native], facts=[StoredFacts("own", "{}")])
    command = ["rows", str(tmp_path), str(tmp_path / "rows.jsonl")]
    assert generated_cubins.main([*command, "--log", str(tmp_path / "own.jsonl")]) == 0
    contents = outcomelog.read(tmp_path / "own.jsonl")
    own, other = contents.rows
    kernel = KERNELS["transposed/tilelang_tiles"]
    assert own.kernel_id == kernel.kernel_id
    assert own.params == {"block_m": 32}
    assert own.triton_version is None
    assert own.extra == {"compiler": "tilelang 0.1.15"}
    texts = {facts.id: facts.text for facts in contents.facts}
    assert texts == {
        own.facts_id: compiled,
        facts_id(own, kernel.source.text, Depth.CAPTURED): captured,
        "own": "{}",
    }
    assert (other.params, other.facts_id) == ({"BLOCK_M": 32}, "own")
    assert {own.origin, other.origin} == {"language"}
    sources = {source.sha256 for source in contents.sources}
    assert {own.source_sha256, own.problem_sha256} <= sources


def test_facts_of_another_compiler_are_others():
    old, new = ({"compiler": f"tilelang 0.1.{n}"} for n in (14, 15))
    assert facts_id(replace(ROW, extra=old), "") != facts_id(replace(ROW, extra=new), "")
