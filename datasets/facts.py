"""Stored facts: one JSON text per configuration, under a key of everything that they follow from.

Lists of records are columns, and default values are left out, so that a launch takes 2 to 4 kB.
Floats are kept exactly.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from solkit.core import (
    CAPTURED_VERSION,
    FACTS_VERSION,
    LOWERED_VERSION,
    PTX_VERSION,
    Depth,
    Facts,
    Outcome,
    Value,
    canonical,
)
from solkit.core.codec import from_json, to_json

COMPILER = "compiler"
"""Key of `Outcome.extra`: the compiler of a kernel in another language, ``"tilelang 0.1.15"``."""
_FOLLOWED_IN_PTX = ("CUDA ", "tilelang ", "nvidia-cutlass-dsl ")
_CODE_OF_TORCH = ("torch._inductor", "torch.compile")
_CUDA = "__global__"
"""Mark in the text of a kernel file whose kernels contain torch's code, or are CUDA C++."""


def facts_key(
    kernel_id: str,
    params: Mapping[str, Value],
    shape: Mapping[str, Value],
    compute_capability: tuple[int, int],
    sm_count: int,
    triton_version: str | None,
    tools: Sequence[str] = (),
    depth: Depth = Depth.COMPILED,
) -> str:
    """Return the name of the facts of one configuration: `solkit.core.Outcome.facts_id`.

    Args:
        kernel_id: `solkit.datasets.identifiers.kernel_id`.
        params: every tuning parameter, as in a row.
        shape: every size, as in a row.
        compute_capability: (major, minor) of the GPU.
        sm_count: streaming multiprocessors of the GPU.
        triton_version: of the Triton that compiled it.
        tools: what made the code besides Triton: `tools_made_with`.
        depth: of the analysis.
    """
    parts = (
        CAPTURED_VERSION if depth is Depth.CAPTURED else FACTS_VERSION,
        kernel_id,
        canonical(params),
        canonical(shape),
        list(compute_capability),
        sm_count,
        triton_version,
        depth.value,
        *((LOWERED_VERSION,) if depth is Depth.LOWERED else ()),
        *((PTX_VERSION,) if depth is Depth.COMPILED and _is_followed_in_ptx(tools) else ()),
        *tools,
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _is_followed_in_ptx(tools: Sequence[str]) -> bool:
    return any(tool.startswith(_FOLLOWED_IN_PTX) for tool in tools)


def facts_id(row: Outcome, source: str, depth: Depth = Depth.COMPILED) -> str:
    """Return the `facts_key` of a row.

    Args:
        row: with compute capability, SM count and versions.
        source: the text of the kernel's file.
        depth: of the analysis.
    """
    major, minor = row.compute_capability
    assert row.sm_count is not None
    return facts_key(
        row.kernel_id,
        row.params,
        row.shape,
        (major, minor),
        row.sm_count,
        row.triton_version,
        tools_made_with(source, row.torch_version, row.cuda_version, row.extra.get(COMPILER)),
        depth_reached(source, depth),
    )


def depth_reached(source: str, depth: Depth) -> Depth:
    """Return the depth that an analysis of a kernel file reaches.

    CUDA C++ has nothing between captured and compiled: at the lowered depth it is compiled
    (docs/decisions/0034-cuda-at-the-lowered-depth.md).

    Args:
        source: the text of the kernel's file.
        depth: that is asked for.
    """
    return Depth.COMPILED if depth is Depth.LOWERED and _CUDA in source else depth


def tools_made_with(
    source: str,
    torch_version: str | None,
    cuda_version: str | None,
    compiler: str | None = None,
) -> tuple[str, ...]:
    """Return what makes machine code besides Triton: ``("torch 2.11.0",)``; mostly nothing.

    Kernels that Inductor generated call Triton functions of
    ``torch/_inductor/runtime/triton_helpers.py``, which are inlined. NVRTC compiles CUDA C++.

    Args:
        source: the text of the kernel's file.
        torch_version: e.g. ``"2.11.0+cu130"``.
        cuda_version: of NVRTC, e.g. ``"13.0"``.
        compiler: of another language, as rows have it in `Outcome.extra` under `COMPILER`.
    """
    versions = [compiler] if compiler else []
    if any(name in source for name in _CODE_OF_TORCH):
        versions.append(f"torch {(torch_version or 'unknown').partition('+')[0]}")
    if _CUDA in source:
        versions.append(f"CUDA {cuda_version or 'unknown'}")
    return tuple(versions)


def nvrtc_release() -> str | None:
    """Return the version of NVRTC that pip installed, e.g. ``"13.0"``; ``None`` without one."""
    for package in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return ".".join(importlib.metadata.version(package).split(".")[:2])
    return None


def facts_to_json(facts: Sequence[Facts]) -> str:
    """Return the facts of one configuration, all its launches, as a JSON text.

    Arguments and programs are in captured facts alone: those of code do not repeat them.
    """
    launches = [to_json(_without_record(fact), columns=True) for fact in facts]
    document = {"version": FACTS_VERSION, "launches": launches}
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def _without_record(facts: Facts) -> Facts:
    if facts.depth is Depth.CAPTURED:
        return facts
    return replace(facts, launch=replace(facts.launch, arguments={}, program=None))


def facts_from_json(text: str) -> tuple[Facts, ...]:
    """Return the facts that `facts_to_json` wrote; unknown fields are ignored.

    Raises:
        ValueError: the text holds no facts, or facts of a newer version.
    """
    data = json.loads(text)
    try:
        version, launches = data["version"], data["launches"]
        is_newer = version > FACTS_VERSION
    except (KeyError, TypeError) as error:
        raise ValueError(f"these are no facts: {error!r}") from error
    if is_newer:
        raise ValueError(
            f"facts of version {version} are newer than {FACTS_VERSION}, the newest that this "
            "SolKit reads"
        )
    try:
        return tuple(from_json(Facts, launch) for launch in launches)
    except (TypeError, ValueError) as error:
        raise ValueError(f"these are no facts: {error}") from error
