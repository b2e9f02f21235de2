"""Files for vLLM, looked up as vLLM does (v0.11 and later).

`moe_lookup` has the rule of ``get_moe_configs`` and ``try_get_optimal_moe_config`` in
vllm/model_executor/layers/fused_moe/fused_moe.py, `fp8_lookup` that of ``get_w8a8_block_configs``
and ``w8a8_block_matmul`` in vllm/model_executor/layers/quantization/utils.
"""

from __future__ import annotations

import json

import pytest
from tuned_moe import BEST, SHAPE, tuned
from tuning_rows import row

from solkit.datasets import formats
from solkit.errors import InputError
from solkit.tuner.emitters import emit
from solkit.tuner.tuning_results import results_of_runs


def moe_lookup(folder, device, m, e=8, n=7168, dtype=None, block_shape=None):
    gpu = device.replace(" ", "_")
    gpu = "NVIDIA_H200" if "H200" in gpu.split("_") else gpu
    tail = f",dtype={dtype}" if dtype else ""
    tail += f",block_shape={list(block_shape)}".replace(" ", "") if block_shape else ""
    held = json.loads((folder / f"E={e},N={n},device_name={gpu}{tail}.json").read_text())
    held.pop("triton_version", None)
    configs = {int(size): config for size, config in held.items()}
    return configs[min(configs, key=lambda size: abs(size - m))]


def fp8_lookup(folder, device, m, n, k, block_shape=(128, 128)):
    blocks = "[{},{}]".format(*block_shape)
    gpu = device.replace(" ", "_")
    name = f"N={n},K={k},device_name={gpu},dtype=fp8_w8a8,block_shape={blocks}.json"
    configs = {int(size): c for size, c in json.loads((folder / name).read_text()).items()}
    return configs[min(configs, key=lambda size: abs(size - m))]


def test_vllm_finds_each_batch_size(tmp_path, moe):
    written = emit(moe, "vllm-moe", tmp_path / "configs")
    assert [path.name for path in written.paths] == ["E=8,N=7168,device_name=NVIDIA_H200.json"]
    assert written.notes == ()
    for m, block in ((1, 16), (32, 32), (1024, 128), (4096, 128), (20, 32)):
        config = moe_lookup(tmp_path / "configs", "NVIDIA H200", m)
        assert config == {**BEST, "BLOCK_SIZE_M": block}
    held = json.loads(written.paths[0].read_text())
    assert list(held) == ["triton_version", "1", "32", "1024"]
    assert held["triton_version"] == "3.6.0"


@pytest.mark.parametrize("name", ["NVIDIA H200", "NVIDIA H200 NVL", "NVIDIA H200 141GB HBM3e"])
def test_every_h200_shares_a_file(tmp_path, name):
    emit(tuned({4: {16: 1.0}}, device_name=name), "vllm-moe", tmp_path)
    assert moe_lookup(tmp_path, name, 4) == BEST


@pytest.mark.parametrize(
    ("dtype", "word"),
    [
        ("float16", None),
        ("float32", "float32"),
        ("float8_e4m3fn", "fp8_w8a8"),
        ("int4_w4a16", "int4_w4a16"),
    ],
)
def test_the_dtype_names_the_file(tmp_path, dtype, word):
    result = tuned({4: {16: 1.0}}, shape={**SHAPE, "dtype": dtype})
    emit(result, "vllm-moe", tmp_path)
    assert moe_lookup(tmp_path, "NVIDIA H200", 4, dtype=word) == BEST


def test_what_the_shape_lacks_can_be_given(tmp_path, moe):
    fields = {"dtype": "fp8_w8a8", "block_shape": "[128,128]", "device_name": "NVIDIA L40S"}
    emit(moe, "vllm-moe", tmp_path, constants=fields)
    result = moe_lookup(tmp_path, "NVIDIA L40S", 32, dtype="fp8_w8a8", block_shape=(128, 128))
    assert result["BLOCK_SIZE_M"] == 32


def test_a_kernel_with_names_of_its_own(tmp_path):
    params = {"BLOCK_M": 16, "BN": 64, "KB": 32, "num_warps": 4, "num_stages": 2, "N_FIRST": True}
    shape = {"T": 5, "experts": 8, "N": 512, "width": 256}
    results = results_of_runs([row(params, 1.0, shape=shape, device_name="NVIDIA A100-SXM4-80GB")])
    with pytest.raises(InputError, match=r"needs N|needs BLOCK_SIZE_K") as raised:
        emit(results, "vllm-moe", tmp_path)
    assert "--map BLOCK_SIZE_K=NAME" in str(raised.value)
    named = {"names": {"BLOCK_SIZE_K": "KB", "N": "width"}, "constants": {"GROUP_SIZE_M": 1}}
    with pytest.raises(InputError, match="no place for N_FIRST"):
        emit(results, "vllm-moe", tmp_path, **named)
    emit(results, "vllm-moe", tmp_path, **named, drop=["N_FIRST"])
    assert moe_lookup(tmp_path, "NVIDIA A100-SXM4-80GB", 5, n=256) == {
        **BEST, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 1, "num_stages": 2,
    }  # fmt: skip


def test_what_is_missing_is_named(tmp_path):
    result = tuned({4: {16: 1.0}}, shape={"K": 4096})
    with pytest.raises(InputError, match=r"needs E; the sizes of softmax/whole_row are K, M, its"):
        emit(result, "vllm-moe", tmp_path)
    with pytest.raises(InputError, match=r"has no 'rows', which --map M=... names"):
        emit(result, "vllm-moe", tmp_path, constants={"E": 1, "N": 2}, names={"M": "rows"})
    with pytest.raises(InputError, match="vllm-moe has no 'X'; it has: M, E, N"):
        emit(result, "vllm-moe", tmp_path, constants={"X": 1})
    with pytest.raises(InputError, match="E is 'many'"):
        emit(result, "vllm-moe", tmp_path, constants={"E": "many"})
    with pytest.raises(InputError, match="no file is named after dtype 'float64'"):
        emit(result, "vllm-moe", tmp_path, constants={"E": 1, "N": 2, "dtype": "float64"})
    assert not list(tmp_path.iterdir())


def test_two_shapes_of_one_batch_size_are_refused(tmp_path):
    results = [*tuned({4: {16: 1.0}}), *tuned({4: {16: 1.0}}, shape={**SHAPE, "K": 512})]
    with pytest.raises(InputError, match=r"two shapes are M=4 .*K=4096.* and .*K=512"):
        emit(results, "vllm-moe", tmp_path)


def test_gpus_have_files_of_their_own(tmp_path):
    h100 = tuned({4: {32: 1.0}}, device="h100-sxm", device_name="NVIDIA H100 80GB HBM3")
    assert len(emit([*h100, *tuned({4: {16: 1.0}})], "vllm-moe", tmp_path).paths) == 2
    assert moe_lookup(tmp_path, "NVIDIA H100 80GB HBM3", 9)["BLOCK_SIZE_M"] == 32
    assert moe_lookup(tmp_path, "NVIDIA H200", 9)["BLOCK_SIZE_M"] == 16


def test_a_file_holds_one_version_of_triton_and_the_rest_is_told(tmp_path):
    old = tuned({4: {32: 1.0}}, run="old", triton_version="3.5.1")
    new = tuned({8: {16: 1.0}}, run="new")
    written = emit([*old, *new], "vllm-moe", tmp_path)
    assert list(json.loads(written.paths[0].read_text())) == ["triton_version", "8"]
    assert "results of Triton 3.5.1 are left out" in written.notes[0]


def test_products_with_block_scales_load_in_vllm(tmp_path):
    result = tuned({1: {16: 1.0}, 64: {64: 1.0}}, shape={"N": 1536, "K": 7168, "dtype": "bfloat16"})
    (path,) = emit(result, "vllm-fp8", tmp_path).paths
    assert path.name == (
        "N=1536,K=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json"
    )
    assert fp8_lookup(tmp_path, "NVIDIA H200", 90, 1536, 7168) == {**BEST, "BLOCK_SIZE_M": 64}
    # vLLM reads every name as a batch size there
    assert all(name.isdecimal() for name in json.loads(path.read_text()))


def test_steps_over_several_scales_are_told(tmp_path, moe):
    wide = results_of_runs(
        [row({**BEST, "BLOCK_SIZE_K": 256}, 1.0, shape={"M": 4, "N": 1536, "K": 7168})]
    )
    (note,) = emit(wide, "vllm-fp8", tmp_path).notes
    assert "at M of 4 a step of BLOCK_SIZE_K spans several scales" in note
    assert emit(moe, "vllm-fp8", tmp_path).notes == ()


def test_our_reader_reads_it_too(tmp_path, moe):
    (path,) = emit(moe, "vllm-moe", tmp_path).paths
    rows = formats.read(path).rows
    assert {r.shape["M"]: r.params["BLOCK_SIZE_M"] for r in rows} == {1: 16, 32: 32, 1024: 128}
    assert {(r.shape["E"], r.shape["N"], r.origin, r.triton_version) for r in rows} == {
        (8, 7168, "vllm", "3.6.0")
    }


def test_a_file_that_was_read_is_written_again_as_it_was(tmp_path):
    """Hand-made in the form of vLLM's own; equal neighbours stay, as nothing was timed."""
    name = "E=16,N=1024,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8,block_shape=[128,128].json"
    configs = {str(m): {**BEST, "num_warps": 4 if m < 9 else 8} for m in (1, 2, 4, 8, 16, 512)}
    (tmp_path / name).write_text(json.dumps({"triton_version": "3.5.1", **configs}))
    results = results_of_runs(formats.read(tmp_path / name).rows)
    (path,) = emit(results, "vllm-moe", tmp_path / "again").paths
    assert path.name == name
    assert json.loads(path.read_text()) == json.loads((tmp_path / name).read_text())
