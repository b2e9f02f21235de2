"""TMA descriptors as bytes, ``CUtensorMap``: what CuTe DSL's host code writes without the driver.

NVIDIA does not document the format. Read from the descriptors that CuTe DSL 4.8 makes for tensors
of some sizes, strides, boxes and types: an address, a word with rank (bits 4 to 6) and type (bits 7
to 10), strides in 16 bytes, sizes and box less one.
"""

from __future__ import annotations

import struct

from solkit.adapters.launch_recording import TensorArgument

DESCRIPTOR_BYTES = 128
_STRIDE_UNIT = 16
_MOST_RANK = 5
_TILED = 2
"""Lowest four bits of a descriptor of tiles; others are of im2col."""
_ELEMENT_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
"""By ``CUtensorMapDataType``: integers, fp16, fp32, fp64, bf16, and variants of fp32."""


def described_tensor(data: bytes, tensor: TensorArgument) -> TensorArgument | None:
    """Return the tensor that a descriptor describes; ``None`` if it is none of tiles.

    Args:
        data: the descriptor's bytes.
        tensor: what its address points into.
    """
    if len(data) < DESCRIPTOR_BYTES:
        return None
    word, *steps = struct.unpack_from("<5I", data, 8)
    sizes = [size + 1 for size in struct.unpack_from("<5I", data, 32)]
    box = [size + 1 for size in struct.unpack_from("<5B", data, 55)]
    rank, kind = (word >> 4 & 7) + 1, word >> 7 & 15
    if word & 15 != _TILED or rank > _MOST_RANK or kind >= len(_ELEMENT_BYTES):
        return None
    element = _ELEMENT_BYTES[kind]
    strides = [1, *(step * _STRIDE_UNIT // element for step in steps)]
    return TensorArgument(
        storage=tensor.storage,
        storage_bytes=tensor.storage_bytes,
        offset_bytes=tensor.offset_bytes,
        shape=tuple(sizes[:rank][::-1]),
        strides=tuple(strides[:rank][::-1]),
        element_bytes=element,
        block=tuple(box[:rank][::-1]),
    )
