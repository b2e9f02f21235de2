"""TMA descriptors as bytes, as CuTe DSL 4.8.1 made them for tensors of known sizes."""

from __future__ import annotations

from solkit.adapters.launch_recording import TensorArgument
from solkit.adapters.tensor_maps import DESCRIPTOR_BYTES, described_tensor

FACTOR = (
    "00000000007f0000 2263240080000000 0000000000000000 0000000000000000"
    "ff030000ff070000 0000000000000000 000000000000003f 7f00000000000000"
)
"""fp16, 2048 rows of 1024, boxes of 128 rows by 64, in swizzles of 128 bytes; a batch of one."""
RESULT = (
    "00000000027f0000 2243240000010000 0000000000000000 0000000000000000"
    "ff070000ff070000 0000000000000000 000000000000001f 3f00000000000000"
)
"""fp16, 2048 rows of 2048, boxes of 64 rows by 32, in swizzles of 64 bytes."""
BEHIND = TensorArgument(5, 1 << 22, 0, (1 << 21,), (1,), 2)


def bytes_of(text):
    return bytes.fromhex(text.replace(" ", "")).ljust(DESCRIPTOR_BYTES, b"\x7d")  # as found


def test_sizes_strides_and_boxes_are_read():
    factor = described_tensor(bytes_of(FACTOR), BEHIND)
    assert (factor.shape, factor.block) == ((1, 2048, 1024), (1, 128, 64))
    assert (factor.strides[1:], factor.element_bytes) == ((1024, 1), 2)
    assert (factor.storage, factor.storage_bytes) == (5, 1 << 22)
    result = described_tensor(bytes_of(RESULT), BEHIND)
    assert (result.shape, result.block) == ((1, 2048, 2048), (1, 64, 32))
    assert result.strides[1:] == (2048, 1)


def test_other_bytes_are_no_descriptor():
    assert described_tensor(bytes(DESCRIPTOR_BYTES), BEHIND) is None
    assert described_tensor(bytes_of(FACTOR)[:64], BEHIND) is None
