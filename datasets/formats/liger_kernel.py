"""Liger-Kernel's benchmarks: ``benchmark/data/all_benchmark_data*.csv``.

https://github.com/linkedin/Liger-Kernel: a row for each kernel, provider (Liger's own kernel, what
it replaces, others), mode, GPU and size, with times in milliseconds. Rows of memory are left out.
All but ``megatron_cross_entropy`` are timed by Triton's ``do_bench``, which flushes L2.
``megatron_*`` time the gradients of a sum, forward pass included, as their backward passes.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from solkit.core import Outcome, Verdict
from solkit.datasets.formats._base import (
    Document,
    Format,
    Imported,
    Labels,
    converted,
    imported_row,
    instant,
)
from solkit.datasets.formats._public_problems import KERNEL, RUNS, problem_source

_PROBLEM = "liger"
_COLUMNS = ("kernel_name", "kernel_provider", "kernel_operation_mode", "y_value_50")
_OPERATIONS = {
    "llama4_rope": "rope", "qwen2vl_mrope": "rope", "tiled_geglu": "geglu",
    "tiled_swiglu": "swiglu", "fused_moe": "swiglu",
    "fused_linear_cpo_loss": "fused_linear_preference",
    "fused_linear_orpo_loss": "fused_linear_preference",
    "fused_linear_simpo_loss": "fused_linear_preference",
    "fused_linear_grpo_loss_token": "fused_linear_grpo",
    "fused_linear_grpo_loss_sequence": "fused_linear_grpo",
    "kto_loss": "kto", "distill_jsd_loss": "distill_jsd", "distill_cosine_loss": "distill_cosine",
    "fused_neighborhood_attention": "neighborhood_attention",
}  # fmt: skip
"""Operations of public/liger.py, where Liger calls them otherwise."""

_SIZES = {
    "columns": ("V", "vocab_size", "N", "C", "ffn_local", "intermediate_size", "intermediate_dim"),
    "hidden": ("H", "hidden_size", "D"),
    "heads": ("num_heads", "num_q_heads", "num_attention_heads"),
    "kv_heads": ("num_kv_heads", "num_key_value_heads"),
    "experts": ("E",),
    "top": ("K",),
}
_VOCABULARIES = {
    "llama_2_7b": 32000, "llama_3_8b": 128256, "qwen2.5_7b": 152064, "qwen2.5_14b": 152064,
    "qwen2.5_72b": 152064, "deepseek_v2_lite": 102400, "deepseek_v3": 129280,
}  # fmt: skip
"""From Liger's benchmark_model_configs.py."""
_TRITON = ("liger", "liger_triton", "liger_in_place")
"""Providers that run the kernel of the same name in Triton."""
_CUTILE = "liger_cutile"


def _recognises(document: Document) -> bool:
    heading = document.text.split("\n", 1)[0]
    return all(name in heading for name in _COLUMNS)


def _read_document(document: Document, labels: Labels) -> Imported:
    def convert_record(record: dict[str, str]) -> Outcome | None:
        if record["metric_name"] != "speed":
            return None
        kernel, provider = record["kernel_name"], record["kernel_provider"]
        runs = provider in _TRITON or provider in (f"liger_{kernel}", f"liger_triton_{kernel}")
        runs = runs or _is_cutile(provider, kernel)
        return imported_row(
            "liger_kernel",
            labels,
            kernel,
            _shape_of_record(record),
            kernel,
            problem_sha256=problem_source(_PROBLEM).sha256,
            implementation=f"{kernel} {provider}",
            params={},
            device=document.device(labels, record.get("gpu_name")),
            device_name=record.get("gpu_name") or None,
            created=instant(record["timestamp"]) if record.get("timestamp") else document.changed,
            verdict=Verdict.CORRECT,
            method="events",
            time_ms=float(record["y_value_50"]),
            l2=None if kernel == "megatron_cross_entropy" else "cold",
            extra={"liger_version": record.get("liger_version")} | ({RUNS: KERNEL} if runs else {}),
        )

    table = csv.DictReader(io.StringIO(document.text))
    records = ((f"line {table.line_num}", record) for record in table)
    imported = converted(document.path, records, convert_record)
    return replace(imported, sources=(problem_source(_PROBLEM),))


def _shape_of_record(record: Mapping[str, str]) -> dict[str, Any]:
    """Return the sizes of a row in the names of public/liger.py."""
    kernel = record["kernel_name"]
    config = json.loads(record["extra_benchmark_config_str"])
    config[record["x_name"]] = record["x_value"]
    sizes = {
        own: int(config[name])
        for own, names in _SIZES.items()
        for name in names
        if config.get(name)
    }
    if "model_config" in config:
        sizes["columns"] = _VOCABULARIES[config["model_config"]]
    batch = int(config.get("B") or config.get("bsz") or config.get("batch_size") or 1)
    length = int(
        config.get("T") or config.get("seq_len") or config.get("L") or config.get("S") or 1
    )
    sizes["tokens"] = int(config.get("BT") or config.get("M") or batch * length)
    if kernel in ("fused_neighborhood_attention", "multi_token_attention"):
        sizes |= {"batch": batch, "tokens": length, "size": config.get("kernel_size", 3)}
        sizes["dilation"] = config.get("dilation", 1)
    if "group" in kernel:
        sizes |= {"size": int(config["H"])}
        sizes["columns"] = int(config.get("C") or config.get("hidden_size"))
        sizes["tokens"] = int(config.get("M") or int(config["BT"]) // sizes["size"])
    elif "hidden" in sizes and ("columns" not in sizes or kernel.endswith("rms_norm")):
        sizes["columns"] = sizes["hidden"]
    if kernel == "megatron_cross_entropy":
        sizes["columns"] = int(config["V"]) // int(config["TP"])
    return {**sizes, **_options_of_record(record, config)}


def _options_of_record(record: Mapping[str, str], config: Mapping[str, Any]) -> dict[str, str]:
    kernel, provider = record["kernel_name"], record["kernel_provider"]
    mode = record["kernel_operation_mode"].removeprefix("no-grad-")
    is_megatron = kernel.startswith("megatron")
    dtype = config.get("dtype", "bfloat16" if is_megatron else "float32")
    options = {
        "operation": _OPERATIONS.get(kernel, kernel),
        "mode": "sum" if is_megatron and mode != "forward" else mode,
        "dtype": dtype.removeprefix("torch."),
    }
    variant = "in_place" if provider.endswith("in_place") else kernel
    if config.get("beta") is True:
        variant = "bias"
    options |= {"language": "cutile"} if _is_cutile(provider, kernel) else {}
    return options if variant == options["operation"] else {**options, "variant": variant}


def _is_cutile(provider: str, kernel: str) -> bool:
    return provider in (_CUTILE, f"{_CUTILE}_{kernel}")


FORMAT = Format("liger_kernel", "Liger-Kernel's benchmark data", _recognises, _read_document)
