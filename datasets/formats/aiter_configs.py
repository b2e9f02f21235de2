"""AITER's tuned kernels on AMD's GPUs: ``aiter/configs/**/*.csv``.

https://github.com/ROCm/aiter: the fastest kernel for each shape, with its time in microseconds.
Products have the problems public/gemm.py and gemm_fp4.py; scales of blocks of 8-bit numbers are
left out: less than a percent of the bytes. Other operations (mixtures of experts) have no problem.
Kernels in Triton can be launched again where the row is of a catalogued GPU.
"""

from __future__ import annotations

import csv
import io
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
)
from solkit.datasets.formats._public_problems import KERNEL, RUNS, problem_source

_GPUS = {
    ("gfx942", "304"): "mi325x",
    ("gfx942", "80"): "mi308x",
    ("gfx950", "256"): "mi355x",
}
"""The fastest catalogued GPU of each architecture and number of compute units, by which AITER names
GPUs. 304 of gfx942 are an MI300X or MI325X: no resource of the former is faster."""
_FASTEST = {"gfx942": "mi325x", "gfx950": "mi355x"}
"""The GPU that bounds rows of other numbers of units, which are not modelled."""
_TRITON = {"bf16_tuned_gemm": "", "a8w8_blockscale_bpreshuffle": "blockscale_bpreshuffle"}
"""Schemes of products of which public/gemm.py launches AITER's Triton kernel, by file."""
_DTYPES = {"a8w8_tuned_batched": "int8", "a8w8": "float8_e4m3fn", "": "bfloat16"}
"""The dtype of the factors by a part of the file's name, for rows that do not say it."""
_FLOATS_OF_GFX942 = {"float8_e4m3fn": "float8_e4m3fnuz"}
"""gfx942 multiplies 8-bit numbers of the ``fnuz`` kind alone; AITER's dtype ``fp8`` is that one."""


def _recognises(document: Document) -> bool:
    columns = document.text.split("\n", 1)[0].strip().split(",")
    return {"us", "kernelName", "tflops", "bw"} <= set(columns) or {"gfx", "us"} <= set(columns)


def _read_document(document: Document, labels: Labels) -> Imported:
    def convert_record(record: dict[str, str]) -> Outcome:
        sizes = {name.upper(): text for name, text in record.items()}
        problem = _problem_of_record(sizes, document.name)
        return imported_row(
            "aiter",
            labels,
            problem or document.name.removesuffix(".csv"),
            _shape_of_record(record, sizes, problem, document.name),
            record.get("kernelName") or document.name,
            problem_sha256=problem_source(problem).sha256 if problem else None,
            implementation=document.name.removesuffix(".csv"),
            params={},
            device=document.device(labels, _gpu_of_record(record)),
            created=document.changed,
            verdict=Verdict.CORRECT,
            time_ms=float(record["us"]) / 1000,
            extra={RUNS: KERNEL} if problem == "gemm" and _is_triton(record, document.name) else {},
        )

    table = csv.DictReader(io.StringIO(document.text))
    records = ((f"line {table.line_num}", record) for record in table)
    imported = converted(document.path, records, convert_record)
    return replace(imported, sources=tuple(map(problem_source, ("gemm", "gemm_fp4"))))


def _problem_of_record(sizes: Mapping[str, str], file: str) -> str:
    """Return the name of a product's problem; empty for another operation."""
    if not {"M", "N", "K"} <= sizes.keys():
        return ""
    return "gemm_fp4" if "a4w4" in file else "gemm"


def _gpu_of_record(record: Mapping[str, str]) -> str | None:
    architecture = record.get("gfx") or None
    units = record.get("cu_num") or ""
    fastest = _FASTEST.get(architecture or "", architecture)
    return _GPUS.get((architecture or "", units), fastest)


def _is_triton(record: Mapping[str, str], file: str) -> bool:
    gpu = record.get("gfx") or "", record.get("cu_num") or ""
    own = record.get("libtype") == "triton" and gpu in _GPUS
    return own and _scheme_of(file) is not None


def _scheme_of(file: str) -> str | None:
    return next((scheme for part, scheme in _TRITON.items() if part in file), None)


def _shape_of_record(
    record: Mapping[str, str], sizes: Mapping[str, str], problem: str, file: str
) -> dict[str, Any]:
    names = "BMNK" if problem else ("TOKEN", "MODEL_DIM", "INTER_DIM", "EXPERT", "TOPK")
    shape: dict[str, Any] = {name: int(sizes[name]) for name in names if sizes.get(name)}
    if problem == "gemm":
        shape["dtype"] = _dtype_of_record(record, file)
    if problem == "gemm" and _is_triton(record, file):
        shape |= {"scheme": scheme} if (scheme := _scheme_of(file)) else {}
        shape |= {"bias": True} if record.get("bias") == "True" else {}
    return shape


def _dtype_of_record(record: Mapping[str, str], file: str) -> str:
    of_file = next(dtype for part, dtype in _DTYPES.items() if part in file)
    named = record.get("q_dtype_w") or record.get("dtype") or of_file
    dtype = named.removeprefix("torch.")
    return _FLOATS_OF_GFX942.get(dtype, dtype) if record.get("gfx") == "gfx942" else dtype


FORMAT = Format("aiter", "AITER's tuned kernels on AMD's GPUs", _recognises, _read_document)
