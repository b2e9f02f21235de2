"""Stored facts: one JSON text per configuration, under a key of everything that they follow from.

Lists of records are columns, and default values are left out, so that a launch takes 2 to 4 kB.
Floats are kept exactly.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import hashlib
import importlib.metadata
import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from solkit.core import FACTS_VERSION, LOWERED_VERSION, Depth, Facts, Outcome, Value, canonical
from solkit.core.outcomes import finite
from solkit.datasets.codec import defaults

__all__ = [
    "facts_from_json",
    "facts_id",
    "facts_key",
    "facts_to_json",
    "made_with",
    "nvrtc_release",
    "reached",
]

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
        kernel_id: `solkit.datasets.codec.kernel_id`.
        params: every tuning parameter, as in a row.
        shape: every size, as in a row.
        compute_capability: (major, minor) of the GPU.
        sm_count: streaming multiprocessors of the GPU.
        triton_version: of the Triton that compiled it.
        tools: what made the code besides Triton: `made_with`.
        depth: of the analysis.
    """
    parts = (
        FACTS_VERSION,
        kernel_id,
        canonical(params),
        canonical(shape),
        list(compute_capability),
        sm_count,
        triton_version,
        depth.value,
        *((LOWERED_VERSION,) if depth is Depth.LOWERED else ()),
        *tools,
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


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
        made_with(source, row.torch_version, row.cuda_version),
        reached(source, depth),
    )


def reached(source: str, depth: Depth) -> Depth:
    """Return the depth that an analysis of a kernel file reaches.

    CUDA C++ has nothing between captured and compiled: at the lowered depth it is compiled
    (docs/decisions/0034-cuda-at-the-lowered-depth.md).

    Args:
        source: the text of the kernel's file.
        depth: that is asked for.
    """
    return Depth.COMPILED if depth is Depth.LOWERED and _CUDA in source else depth


def made_with(source: str, torch_version: str | None, cuda_version: str | None) -> tuple[str, ...]:
    """Return what makes machine code besides Triton: ``("torch 2.11.0",)``; mostly nothing.

    Kernels that Inductor generated call Triton functions of
    ``torch/_inductor/runtime/triton_helpers.py``, which are inlined. NVRTC compiles CUDA C++.

    Args:
        source: the text of the kernel's file.
        torch_version: e.g. ``"2.11.0+cu130"``.
        cuda_version: of NVRTC, e.g. ``"13.0"``.
    """
    versions = []
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
    """Return the facts of one configuration, all its launches, as a JSON text."""
    document = {"version": FACTS_VERSION, "launches": [_encoded(fact) for fact in facts]}
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def facts_from_json(text: str) -> tuple[Facts, ...]:
    """Return the facts that `facts_to_json` wrote; unknown fields are ignored.

    Raises:
        ValueError: the text holds no facts, or facts of a newer version.
    """
    data = json.loads(text)
    try:
        if data["version"] > FACTS_VERSION:
            raise ValueError(
                f"facts of version {data['version']} are newer than {FACTS_VERSION}, the newest "
                "that this SolKit reads"
            )
        return tuple(_decoded(Facts, launch) for launch in data["launches"])
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"these are no facts: {error!r}") from error


# ---------------------------------------------------------------------------------------- coding


def _encoded(value: Any) -> Any:
    form: Any = type(value)
    if is_dataclass(value):
        return {
            name: _encoded(getattr(value, name))
            for name, default in defaults(form).items()
            if getattr(value, name) != default
        }
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple) and value and is_dataclass(value[0]):
        form = type(value[0])
        return {
            name: [_encoded(getattr(record, name)) for record in value]
            for name, default in defaults(form).items()
            if any(getattr(record, name) != default for record in value)
        }
    return finite(value)


def _decoded(hint: Any, value: Any) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if value is None:
        return None
    if origin in (Union, types.UnionType):
        return _decoded(args[0], value)
    if is_dataclass(hint):
        return _record(hint, value)
    if origin is tuple and is_dataclass(args[0]):
        rows = zip(*value.values(), strict=True)
        return tuple(_record(args[0], dict(zip(value, row, strict=True))) for row in rows)
    if origin is tuple:
        return tuple(_decoded(args[0], item) for item in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {name: _number(item) for name, item in value.items()}
    return hint(value) if isinstance(hint, type) and issubclass(hint, enum.Enum) else value


def _record(form: Any, values: Mapping[str, Any]) -> Any:
    hints = _hints(form)
    return form(**{name: _decoded(hints[name], values[name]) for name in values if name in hints})


@functools.cache
def _hints(form: Any) -> Mapping[str, Any]:
    return get_type_hints(form)


def _number(value: Any) -> Any:
    """Return a launch's constant may be a number that JSON lacks."""
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value
