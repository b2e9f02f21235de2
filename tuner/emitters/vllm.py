"""Configurations for vLLM (https://github.com/vllm-project/vllm): fused MoE, block-fp8 products.

Fused MoE, read by ``get_moe_configs`` (``fused_moe/fused_moe.py``) from the folder that
``$VLLM_TUNED_CONFIG_FOLDER`` names::

    E=8,N=7168,device_name=NVIDIA_H200[,dtype=fp8_w8a8][,block_shape=[128,128]].json
    {"triton_version": "3.6.0", "16": {"BLOCK_SIZE_M": 16, ..., "num_stages": 3}, ...}

Every GPU of the H200 family is ``NVIDIA_H200``. N is the intermediate size of one rank.

Products with scales by block, read by ``get_w8a8_block_configs`` (``quantization/utils``) from
vLLM's own folder ``quantization/utils/configs``::

    N=4096,K=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json
    {"16": {...}, ...}

That reader takes every name in the file for a batch size, so there is no ``triton_version``: vLLM
would stop at ``int("triton_version")``. It also asks for the GPU's own name.
"""

from __future__ import annotations

from collections.abc import Sequence

from solkit.datasets.formats._tuned_files import PARAMS, file_name
from solkit.tuner.emitters._base import Emitter, Files, Request
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

_FAMILY = "H200"
_NAMES = ("device_name", "dtype", "block_shape", "triton_version")


def _fused_moe_files(findings: Sequence[TuningResult], request: Request) -> Files:
    request.check(MOE.name, ("M", "E", "N", *PARAMS, *_NAMES))

    def table_path(finding: TuningResult) -> Table:
        device = device_word(device_name(finding, request))
        settings = {
            "E": size_text(MOE.name, finding, "E", request),
            "N": size_text(MOE.name, finding, "N", request),
            "device_name": f"NVIDIA_{_FAMILY}" if _FAMILY in device.split("_") else device,
        }
        if dtype := dtype_word(MOE.name, finding, request):
            settings["dtype"] = dtype
        settings |= other_settings(MOE.name, finding)
        if blocks := block_shape(finding, request):
            settings["block_shape"] = f"[{blocks[0]},{blocks[1]}]"
        return Table(file_name(settings), version=True)

    return batch_size_files(MOE.name, findings, request, table_path)


def _fp8_gemm_files(findings: Sequence[TuningResult], request: Request) -> Files:
    request.check(FP8.name, ("M", "N", "K", *PARAMS, *_NAMES))

    def table_path(finding: TuningResult) -> Table:
        return Table(file_name(product_settings(FP8.name, finding, request, ",")))

    return batch_size_files(FP8.name, findings, request, table_path)


MOE = Emitter(
    "vllm-moe", "vLLM's fused MoE: a folder of E=..,N=..,device_name=...json", _fused_moe_files
)
FP8 = Emitter("vllm-fp8", "vLLM's block-fp8 products: a folder of N=..,K=...json", _fp8_gemm_files)
