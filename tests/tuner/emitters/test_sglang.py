"""Files for SGLang, looked up as SGLang does.

`moe_lookup` has the rule of ``get_moe_configs`` in fused_moe_triton_config.py: the folder of the
running Triton, then those of other versions, newest first. `fp8_lookup` has that of
``get_w8a8_block_fp8_configs`` in fp8_kernel.py.
"""

from __future__ import annotations

import json

import pytest
from tuned_moe import BEST, tuned

from solkit.datasets import formats
from solkit.errors import InputError
from solkit.tuner.emitters import emit
from solkit.tuner.tuning_results import results_of_runs


def moe_lookup(folder, triton, m, name):
    root = folder / "configs"
    versions = sorted(
        (tuple(map(int, path.name.removeprefix("triton_").split("_"))) for path in root.iterdir()),
        reverse=True,
    )
    running = tuple(map(int, triton.split(".")))
    for version in (running, *(version for version in versions if version != running)):
        path = root / "triton_{}_{}_{}".format(*version) / name
        if path.exists():
            configs = {int(size): c for size, c in json.loads(path.read_text()).items()}
            return configs[min(configs, key=lambda size: abs(size - m))]
    return None


def moe_name(device="NVIDIA_H200", dtype=None, block_shape=None, tail=""):
    selectors = f",dtype={dtype}" if dtype else ""
    selectors += f",block_shape={list(block_shape)}" if block_shape else ""
    return f"E=8,N=7168,device_name={device}{selectors}{tail}.json"


def test_sglang_finds_each_batch_size_in_tritons_folder(tmp_path, moe):
    (path,) = emit(moe, "sglang-moe", tmp_path).paths
    assert path == tmp_path / "configs" / "triton_3_6_0" / "E=8,N=7168,device_name=NVIDIA_H200.json"
    for m, block in ((1, 16), (32, 32), (1024, 128), (4096, 128)):
        for triton in ("3.6.0", "3.7.1"):
            assert moe_lookup(tmp_path, triton, m, moe_name()) == {**BEST, "BLOCK_SIZE_M": block}
    assert "triton_version" not in json.loads(path.read_text())


def test_blocks_of_scales_have_a_space(tmp_path, moe):
    emit(moe, "sglang-moe", tmp_path, constants={"dtype": "fp8_w8a8", "block_shape": "128x128"})
    name = moe_name(dtype="fp8_w8a8", block_shape=[128, 128])
    assert "[128, 128]" in name
    assert moe_lookup(tmp_path, "3.6.0", 32, name)["BLOCK_SIZE_M"] == 32


@pytest.mark.parametrize(
    ("flags", "tail"),
    [
        ({"per_channel_quant": True}, ",per_channel_quant=True"),
        ({"projection": "down"}, "_down"),
        ({"per_channel_quant": False}, ""),
    ],
)
def test_flags_are_in_the_name(tmp_path, moe, flags, tail):
    emit(moe, "sglang-moe", tmp_path, constants=flags)
    assert moe_lookup(tmp_path, "3.6.0", 1, moe_name(tail=tail)) == BEST


def test_each_h200_keeps_its_own_name(tmp_path):
    emit(tuned({4: {16: 1.0}}, device_name="NVIDIA H200 NVL"), "sglang-moe", tmp_path)
    assert moe_lookup(tmp_path, "3.6.0", 4, moe_name("NVIDIA_H200_NVL")) == BEST


def test_each_version_of_triton_has_its_folder(tmp_path):
    old = tuned({4: {32: 1.0}}, run="old", triton_version="3.5.1")
    new = tuned({8: {16: 1.0}}, run="new")
    assert len(emit([*old, *new], "sglang-moe", tmp_path).paths) == 2
    assert moe_lookup(tmp_path, "3.5.1", 4, moe_name())["BLOCK_SIZE_M"] == 32
    assert moe_lookup(tmp_path, "3.4.0", 4, moe_name())["BLOCK_SIZE_M"] == 16


def test_an_unknown_version_of_triton_has_to_be_given(tmp_path):
    result = tuned({4: {16: 1.0}}, triton_version=None)
    with pytest.raises(InputError, match="--set triton_version="):
        emit(result, "sglang-moe", tmp_path)
    emit(result, "sglang-moe", tmp_path, constants={"triton_version": "3.5.1"})
    assert moe_lookup(tmp_path, "3.5.1", 4, moe_name()) == BEST


def fp8_lookup(folder, device, m, n, k):
    name = f"N={n},K={k},device_name={device},dtype=fp8_w8a8,block_shape=[128, 128].json"
    held = json.loads((folder / "configs" / name).read_text())
    configs = {int(size): config for size, config in held.items()}
    return configs[min(configs, key=lambda size: abs(size - m))]


def test_products_with_block_scales_load_in_sglang(tmp_path):
    result = tuned({1: {16: 1.0}, 64: {64: 1.0}}, shape={"N": 1536, "K": 7168})
    emit(result, "sglang-fp8", tmp_path)
    assert fp8_lookup(tmp_path, "NVIDIA_H200", 2, 1536, 7168) == BEST
    assert fp8_lookup(tmp_path, "NVIDIA_H200", 99, 1536, 7168) == {**BEST, "BLOCK_SIZE_M": 64}


@pytest.mark.parametrize("tail", ["", "_down", ",per_channel_quant=True"])
def test_a_file_that_was_read_is_written_again_as_it_was(tmp_path, tail):
    name = moe_name("NVIDIA_H20-3e", "fp8_w8a8", [128, 128], tail)
    folder = tmp_path / "triton_3_4_0"
    folder.mkdir()
    configs = {str(m): {**BEST, "num_stages": 2 if m < 9 else 4} for m in (1, 2, 4, 8, 16, 512)}
    (folder / name).write_text(json.dumps(configs))
    results = results_of_runs(formats.read(folder / name).rows)
    (path,) = emit(results, "sglang-moe", tmp_path / "again").paths
    assert path.relative_to(tmp_path / "again").parts == ("configs", "triton_3_4_0", name)
    assert json.loads(path.read_text()) == configs


def test_a_file_of_vllm_becomes_one_of_sglang(tmp_path, moe):
    (path,) = emit(moe, "vllm-moe", tmp_path, constants={"dtype": "fp8_w8a8"}).paths
    results = results_of_runs(formats.read(path).rows)
    emit(results, "sglang-moe", tmp_path)
    assert moe_lookup(tmp_path, "3.6.0", 1024, moe_name(dtype="fp8_w8a8"))["BLOCK_SIZE_M"] == 128
