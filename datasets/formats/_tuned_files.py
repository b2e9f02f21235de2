"""Files of tuned configurations from vLLM and SGLang: the best configuration by batch size.

The file's name has the rest: ``E=128,N=192,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8.json``
is a fused mixture of experts, ``N=...,K=...`` a quantised matrix product. Files of other kernels,
such as ``headdim=64,dstate=128,device_name=...,cache_dtype=float16.json``, lie in a folder with the
kernel's name. They hold no times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from solkit.core import Outcome, Value
from solkit.datasets.formats._base import (
    Document,
    Imported,
    Labels,
    converted,
    imported_row,
)

PARAMS = (
    *("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages"),
)
"""Parameters of a configuration; files of some kernels have more."""

_SETTING = re.compile(r"(\w+)=((?:\[[^\]]*\]|[^,])*)")
_ABOUT = ("device_name", "dtype")
_DOWN = "_down"  # SGLang: of the second product only


def settings(document: Document) -> dict[str, str]:
    """Return the settings in the file's name: ``{"E": "128", "device_name": ...}``."""
    stem = document.name.removesuffix(".json").removesuffix(_DOWN)
    return {name: value.strip() for name, value in _SETTING.findall(stem)}


def file_name(settings: Mapping[str, str], down: bool = False) -> str:
    """Return the name with these settings; `settings` reads them back.

    Args:
        settings: by name, in the order that the file's reader expects.
        down: whether it is SGLang's file for the second product alone.
    """
    stem = ",".join(f"{name}={value}" for name, value in settings.items())
    return f"{stem}{_DOWN if down else ''}.json"


def folder_name(triton_version: str) -> str:
    """Return SGLang's folder for a version of Triton: ``triton_3_4_0``."""
    return f"triton_{triton_version.replace('.', '_')}"


def is_tuned(document: Document) -> bool:
    """Tell whether name and content are those of a tuned file."""
    if "device_name" not in settings(document) or not isinstance(document.json, dict):
        return False
    return any(key.isdecimal() for key in document.json)


def read(document: Document, labels: Labels, origin: str) -> Imported:
    """Read one row per batch size; other entries describe the file."""
    named = settings(document)
    sizes = {name: _parse_value(value) for name, value in named.items() if name not in _ABOUT}
    if "dtype" in named:
        sizes["dtype"] = named["dtype"]
    if document.name.removesuffix(".json").endswith(_DOWN):
        sizes["projection"] = "down"
    triton = document.json.get("triton_version") or _folder_version(document)

    rows = "M" if "N" in named else "batch"

    def convert_record(entry: tuple[str, dict[str, Any]]) -> Outcome:
        batch, choice = entry
        if not isinstance(choice, dict):
            raise ValueError(f"expected a configuration, not {choice!r:.80}")
        return _outcome_of_choice(
            document, labels, origin, {**sizes, rows: int(batch)}, choice, triton
        )

    entries = ((f"batch size {k}", (k, v)) for k, v in document.json.items() if k.isdecimal())
    return converted(document.path, entries, convert_record)


def _outcome_of_choice(
    document: Document,
    labels: Labels,
    origin: str,
    shape: Mapping[str, Value],
    choice: dict[str, Any],
    triton: str | None,
) -> Outcome:
    gpu = settings(document)["device_name"].replace("_", " ")
    family = _family_of_file(document, shape)
    return imported_row(
        origin,
        labels,
        family,
        shape,
        f"{family}_kernel",
        params=choice,
        device=document.device(labels, gpu),
        device_name=gpu,
        created=document.changed,
        triton_version=triton,
        chosen_by="tuned",
        message="the best that a tuner found; its time is not known",
    )


def _family_of_file(document: Document, shape: Mapping[str, Value]) -> str:
    """Return what the kernel computes: a product by its sizes, others by the folder's name."""
    if "E" in shape:
        return "fused_moe"
    folder = document.path.resolve().parent.name
    return "scaled_matmul" if "N" in shape else folder.removesuffix("_kernel")


def _folder_version(document: Document) -> str | None:
    """Return the version in the folder's name, if it is one of `folder_name`."""
    match = re.fullmatch(r"triton_([\d_]+)", document.path.resolve().parent.name)
    return match[1].replace("_", ".") if match else None


def _parse_value(text: str) -> Value:
    named: dict[str, Value] = {"True": True, "False": False}
    if text in named:
        return named[text]
    return int(text) if text.isdecimal() else text.replace(" ", "")
