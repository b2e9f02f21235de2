"""Configurations for SGLang (https://github.com/sgl-project/sglang): fused MoE, block-fp8 products.

Fused MoE, read by ``get_moe_configs`` (``fused_moe_triton_config.py``) from the folder
that ``$SGLANG_MOE_CONFIG_DIR`` names, by Triton's version::

    configs/triton_3_6_0/E=8,N=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128]
        .json

with ``,per_channel_quant=True`` or ``_down`` (the second product alone) before ``.json`` where they
hold. Products with scales by block, read by ``get_w8a8_block_fp8_configs`` (``fp8_kernel.py``) from
SGLang's own ``quantization/configs``, which has no folders by version::

    configs/N=4096,K=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json

Both hold batch sizes alone: ``{"16": {"BLOCK_SIZE_M": 16, ..., "num_stages": 3}, ...}``. GPUs have
their own names, the H200 family too.
"""

from __future__ import annotations

from collections.abc import Sequence

from solkit.datasets.formats._tuned_files import PARAMS, file_name, folder_name
from solkit.errors import InputError
from solkit.tuner.emitters._base import Emitter, Files, Request, shape_text
from solkit.tuner.emitters._batch_size_tables import (
    Table,
    batch_size_files,
    block_shape,
    device_name,
    device_word,
    dtype_word,
    other_settings,
    product_settings,
    size_text,
)
from solkit.tuner.tuning_results import TuningResult

_NAMES = ("device_name", "dtype", "block_shape", "triton_version")
_FLAGS = ("per_channel_quant", "projection")


def _fused_moe_files(findings: Sequence[TuningResult], request: Request) -> Files:
    request.check(MOE.name, ("M", "E", "N", *PARAMS, *_NAMES, *_FLAGS))

    def table_path(finding: TuningResult) -> Table:
        settings = {
            "E": size_text(MOE.name, finding, "E", request),
            "N": size_text(MOE.name, finding, "N", request),
            "device_name": device_word(device_name(finding, request)),
        }
        if dtype := dtype_word(MOE.name, finding, request):
            settings["dtype"] = dtype
        settings |= other_settings(MOE.name, finding)
        if blocks := block_shape(finding, request):
            settings["block_shape"] = f"[{blocks[0]}, {blocks[1]}]"
        flags = {**finding.shape, **request.constants}
        if flags.get("per_channel_quant") is True:
            settings["per_channel_quant"] = "True"
        name = file_name(settings, down=flags.get("projection") == "down")
        return Table(f"configs/{folder_name(_triton_version(finding, request))}/{name}")

    return batch_size_files(MOE.name, findings, request, table_path)


def _fp8_gemm_files(findings: Sequence[TuningResult], request: Request) -> Files:
    request.check(FP8.name, ("M", "N", "K", *PARAMS, *_NAMES))

    def table_path(finding: TuningResult) -> Table:
        settings = product_settings(FP8.name, finding, request, ", ")
        return Table(f"configs/{file_name(settings)}")

    return batch_size_files(FP8.name, findings, request, table_path)


def _triton_version(finding: TuningResult, request: Request) -> str:
    version = request.constants.get("triton_version", finding.key.triton_version)
    if version is None:
        raise InputError(
            f"{MOE.name}: SGLang looks in a folder named after Triton's version, which is not "
            f"recorded for {shape_text(finding)}: give it (--set triton_version=3.6.0)"
        )
    return str(version)


MOE = Emitter(
    "sglang-moe",
    "SGLang's fused MoE: a folder with configs/triton_X_Y_Z/E=...json",
    _fused_moe_files,
)
FP8 = Emitter(
    "sglang-fp8",
    "SGLang's block-fp8 products: a folder with configs/N=..,K=...json",
    _fp8_gemm_files,
)
