"""Files of vLLM and SGLang, read and written again, with names as both projects ship them."""

from __future__ import annotations

import json

import pytest

from solkit.errors import InputError
from solkit.tuner.emitters import emit
from solkit.tuner.emitters.logged_results import read_results

BLOCKS = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128}
WARPS = {"num_warps": 4, "num_stages": 3}
WHOLE = {**BLOCKS, "GROUP_SIZE_M": 8, **WARPS}
AMD = {**WHOLE, "waves_per_eu": 2, "matrix_instr_nonkdim": 16, "kpack": 1}
H100 = "NVIDIA_H100_80GB_HBM3"
SHARED = "block_shape=[128, 128]"

OWN = {
    "vllm-moe": {
        "E=8,N=7168,device_name=AMD_Instinct_MI300X.json": AMD,
        "E=10,N=512,device_name=Intel(R)_Arc(TM)_Pro_B60_Graphics.json": {
            **BLOCKS,
            **WARPS,
            "grf_mode": "256",
        },
        f"E=8,N=2048,device_name={H100},dtype=int8_w8a16.json": WHOLE,
        "E=128,N=192,device_name=NVIDIA_L4,block_shape=[128,128].json": WHOLE,
    },
    "vllm-fp8": {
        "N=1536,K=7168,device_name=MI308X,dtype=fp8_w8a8,block_shape=[128,128].json": AMD,
        "N=576,K=512,device_name=NVIDIA_A800-SXM4-80GB,dtype=int8_w8a8,block_shape=[64,64].json": (
            WHOLE
        ),
        "N=15360,K=3840,device_name=AMD_Radeon_R9700,dtype=fp8_w8a8_per_token,"
        "input_dtype=float8_e4m3fn,out_dtype=bfloat16.json": {**BLOCKS, **WARPS},
    },
    "sglang-moe": {
        f"triton_3_5_1/E=256,N=256,device_name={H100},dtype=fp8_w8a8,{SHARED}_down.json": {
            **WHOLE,
            "USE_TMA": True,
        },
        "triton_3_3_1/E=256,N=512,device_name=NVIDIA_H200.json": {**BLOCKS, "GROUP_SIZE_M": 1},
        f"triton_3_2_0/E=8,N=35,device_name={H100},dtype=fp8_w8a8,per_channel_quant=True.json": (
            WHOLE
        ),
        "triton_3_1_0/E=8,N=3584,device_name=NVIDIA_L40S.json": {**WHOLE, "num_ctas": 1},
    },
    "sglang-fp8": {
        "N=1152,K=5120,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[32, 32].json": {
            **WHOLE,
            "SWAP_AB": False,
            "SPLIT_K": 2,
        },
        f"N=1024,K=4096,device_name={H100},dtype=int8_w8a8,{SHARED}.json": WHOLE,
    },
}


def written(tmp_path, name, config, project="vllm"):
    """A file in a folder of a project, whose name decides where both have the same names."""
    path = tmp_path / project.partition("-")[0] / name
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"1": config, "64": {**(config or {}), "BLOCK_SIZE_M": 64}}))
    return path


@pytest.mark.parametrize(("form", "name"), [(form, name) for form in OWN for name in OWN[form]])
def test_a_projects_own_file_is_written_as_it_was(tmp_path, form, name):
    path = written(tmp_path, name, OWN[form][name], form)
    (copy,) = emit(read_results(path), form, tmp_path / "out").paths
    folder = tmp_path / "out" / "configs" if form.startswith("sglang") else tmp_path / "out"
    assert copy == folder / name
    assert json.loads(copy.read_text()) == json.loads(path.read_text())


def moe(tmp_path, config, device="AMD_Instinct_MI300X", project="vllm"):
    return written(tmp_path, f"E=8,N=7168,device_name={device}.json", config, project)


def test_options_of_a_compiler_stay_with_its_vendor(tmp_path):
    """Triton refuses an option that its compiler for the GPU does not have."""
    results = read_results(moe(tmp_path, AMD))
    further = {"triton_version": "3.6.0", "device_name": "AMD Instinct MI355X"}
    (path,) = emit(results, "sglang-moe", tmp_path, constants=further).paths
    assert path.name == "E=8,N=7168,device_name=AMD_Instinct_MI355X.json"
    assert json.loads(path.read_text())["1"] == AMD
    for form in ("sglang-moe", "vllm-moe"):
        message = r"no place for waves_per_eu, matrix_instr_nonkdim, kpack .* --drop kpack\)"
        with pytest.raises(InputError, match=message):
            emit(results, form, tmp_path, constants={**further, "device_name": "NVIDIA B200"})


def test_what_only_one_projects_kernel_takes_is_refused_by_the_other(tmp_path):
    results = read_results(moe(tmp_path, WHOLE | {"USE_TMA": True}, "NVIDIA_H20", "sglang"))
    with pytest.raises(InputError, match=r"vllm-moe has no place for USE_TMA .* \(--drop USE_TMA"):
        emit(results, "vllm-moe", tmp_path)
    (path,) = emit(results, "vllm-moe", tmp_path, drop=["USE_TMA"]).paths
    assert json.loads(path.read_text())["1"] == WHOLE


def test_another_projects_file_must_have_all_that_the_kernel_takes(tmp_path):
    results = read_results(moe(tmp_path, BLOCKS | WARPS, "NVIDIA_H20", "sglang"))
    with pytest.raises(InputError, match="vllm-moe needs GROUP_SIZE_M"):
        emit(results, "vllm-moe", tmp_path)
    (path,) = emit(results, "vllm-moe", tmp_path, constants={"GROUP_SIZE_M": 1}).paths
    assert json.loads(path.read_text())["1"] == {**BLOCKS, "GROUP_SIZE_M": 1, **WARPS}


def test_a_product_keeps_its_dtype_in_the_other_projects_name(tmp_path):
    name = f"N=1024,K=4096,device_name={H100},dtype=int8_w8a8,{SHARED}.json"
    (path,) = emit(read_results(written(tmp_path, name, WHOLE)), "vllm-fp8", tmp_path).paths
    assert path.name == name.replace(", 128", ",128")


def test_a_file_without_a_gpu_needs_one_and_others_keep_theirs(tmp_path):
    path = moe(tmp_path, WHOLE, "")
    with pytest.raises(InputError, match="does not say which GPU it is about: give --device"):
        read_results(path)
    assert {result.key.device for result in read_results(path, "h200")} == {"h200"}
    other = path.with_name("E=8,N=7168,device_name=NVIDIA_H20.json")
    other.write_text(path.read_text())
    assert {result.key.device for result in read_results(other, "h200")} == {"NVIDIA H20"}


def test_a_batch_size_without_a_configuration_is_reported(tmp_path):
    path = moe(tmp_path, None, "NVIDIA_L40S")
    path.write_text(json.dumps({"1": WHOLE, "512": None}))
    complaints = []
    (result,) = read_results(path, complain=complaints.append)
    assert result.shape["M"] == 1
    assert complaints == [f"{path}: batch size 512: expected a configuration, not None"]
