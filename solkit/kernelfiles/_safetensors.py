"""Reading one tensor of a safetensors file.

Format: the length of a JSON header in 8 bytes, little-endian; the header, with each tensor's dtype,
shape and place; the data. https://github.com/huggingface/safetensors, "Format".
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from solkit.errors import KernelFileError

_DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}
_LFS_POINTER = b"version https://git-lfs"
_LONGEST_HEADER = 100_000_000
"""The limit that the format's own reader sets."""


def is_missing_or_pointer(path: Path) -> bool:
    """Tell whether the file is missing, or only Git LFS's pointer to it."""
    if not path.is_file():
        return True
    with path.open("rb") as file:
        return file.read(len(_LFS_POINTER)) == _LFS_POINTER


def read_tensor(path: Path, key: str) -> torch.Tensor:
    """Return the tensor of that name, on the CPU.

    Raises:
        KernelFileError: the file is not a safetensors file, or lacks the tensor.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _LONGEST_HEADER:
            raise KernelFileError("is not a safetensors file: its header is too long", str(path))
        entry = _tensor_entry(file.read(length), key, str(path))
        first, last = entry["data_offsets"]
        file.seek(8 + length + first)
        data = bytearray(file.read(last - first))
    dtype = _DTYPES.get(entry["dtype"])
    if dtype is None:
        valid = ", ".join(_DTYPES)
        raise KernelFileError(f"{key} has dtype {entry['dtype']!r}; known: {valid}", str(path))
    flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return flat.reshape(entry["shape"])


def _tensor_entry(header: bytes, key: str, path: str) -> dict[str, Any]:
    try:
        tensors = json.loads(header)
    except ValueError as error:
        raise KernelFileError(f"is not a safetensors file: {error}", path) from error
    if key not in tensors:
        names = ", ".join(name for name in tensors if name != "__metadata__")
        raise KernelFileError(f"holds no tensor {key!r}; it has: {names or 'none'}", path)
    entry: dict[str, Any] = tensors[key]
    return entry
